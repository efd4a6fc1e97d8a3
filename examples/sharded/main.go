// Command sharded shows keys spread over servers, each key worked on by one of
// them, and what happens when servers die, stop and join. Three servers, each a
// process of its own, share an etcd, or with -store postgres a PostgreSQL database.
//
//	go run ./examples/sharded                            # kill one, stop one, start one
//	go run ./examples/sharded -keys 5000 -shards 256     # with more of both
//	go run ./examples/sharded -for 1m                    # again and again
//	go run ./examples/sharded -store postgres            # on a PostgreSQL server
//
// It ends by itself: with how many keys each event moved and for how long they had
// no owner, and with an error if a key was worked on by a server whose time with
// it was over.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/tendhq/tend/examples/fleet"
	"github.com/tendhq/tend/reconcile/lease"
)

type options struct {
	fleet.Options
	Keys, Shards int
}

func main() { os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func command(args []string, in io.Reader, out, errs io.Writer) int {
	var o options
	as := func(do func(context.Context, options, io.Writer) error) func(context.Context, fleet.Options, io.Writer) error {
		return func(ctx context.Context, all fleet.Options, out io.Writer) error {
			o.Options = all
			return do(ctx, o, out)
		}
	}
	return fleet.Program{
		Name: "sharded", TTL: "how long the shards of a server that died stay its own",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&o.Keys, "keys", 300, "how many keys there are to work on")
			f.IntVar(&o.Shards, "shards", 32, "into how many shards they are divided")
		},
		Check: func() error { return o.check() }, Serve: as(serve), Show: as(show),
	}.Run(args, in, out, errs)
}

// fewestShards: of fewer, a server could have none, and the show would wait for ever until
// it has one.
const fewestShards = 6

func (o options) check() error {
	switch {
	case o.Keys < 1:
		return fmt.Errorf("-keys %d: want at least 1", o.Keys)
	case o.Shards < fewestShards || o.Shards > lease.MaxShards:
		return fmt.Errorf("-shards %d: want %d to %d, so that each of the three servers has some", o.Shards, fewestShards, lease.MaxShards)
	}
	return nil
}
