// Command sharded shows keys spread over servers, each key worked on by one of
// them, and what happens when servers die, stop and join. Servers, each a
// process of its own, share an etcd, or with -store postgres a PostgreSQL database.
//
//	go run ./examples/sharded                            # kill one, stop one, start one
//	go run ./examples/sharded -objects 5000 -shards 256  # with more of both
//	go run ./examples/sharded -objects 100000 -servers 5 # see each server's memory shrink and grow
//	go run ./examples/sharded -for 1m -changes 100       # again and again, while objects change
//	go run ./examples/sharded -store postgres            # on a PostgreSQL server
//	go run ./examples/sharded -store postgres -objects 100000 -measure 1,2,4,8
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
	"strconv"
	"strings"
	"time"

	"github.com/tendhq/tend/examples/fleet"
	"github.com/tendhq/tend/reconcile/lease"
)

type options struct {
	fleet.Options
	Objects, Shards, Servers, Bytes int
	Changes, Changed                int
	Measure                         string
	Idle                            time.Duration // that is measured
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
			f.IntVar(&o.Objects, "objects", 300, "how many objects there are to work on")
			f.IntVar(&o.Servers, "servers", defaultServers, "how many servers share them")
			f.IntVar(&o.Bytes, "bytes", 1024, "of the text in each object")
			f.IntVar(&o.Changes, "changes", 0, "how many objects are changed in a second, all the time, one after another")
			f.StringVar(&o.Measure, "measure", "", "measure with so many servers one after another, such as 1,2,4,8")
			f.IntVar(&o.Changed, "measured-changes", 0, "how many objects -measure changes with each number of servers; 0: each")
			f.DurationVar(&o.Idle, "measured-idle", 10*time.Second, "for how long -measure has the servers do nothing")
			f.IntVar(&o.Shards, "shards", 32, "into how many shards they are divided")
		},
		Check: func() error { return o.check() }, Serve: as(serve), Show: as(func(ctx context.Context, o options, out io.Writer) error {
			if o.Measure != "" {
				return measure(ctx, o, out)
			}
			return show(ctx, o, out)
		}),
	}.Run(args, in, out, errs)
}

const defaultServers = 3

func (o options) check() error {
	switch {
	case o.Objects < 1:
		return fmt.Errorf("-objects %d: want at least 1", o.Objects)
	case o.Servers < 2 || o.Servers > 26:
		return fmt.Errorf("-servers %d: want 2 to 26", o.Servers)
	case o.Changes < 0 || o.Changes > 1000:
		return fmt.Errorf("-changes %d: want 0 to 1000", o.Changes)
	case o.Changed < 0:
		return fmt.Errorf("-measured-changes %d: want at least 0", o.Changed)
	case o.Idle <= 0:
		return fmt.Errorf("-measured-idle %v: want more than 0", o.Idle)
	case o.Bytes < 0:
		return fmt.Errorf("-bytes %d: want at least 0", o.Bytes)
	case o.Shards < 2*o.Servers || o.Shards > lease.MaxShards:
		return fmt.Errorf("-shards %d: want %d to %d, so that each of the servers has some", o.Shards, 2*o.Servers, lease.MaxShards)
	}
	_, err := o.sizes()
	return err
}

// sizes are the numbers of -measure. The first is 1: the others are compared with one server.
func (o options) sizes() (sizes []int, err error) {
	if o.Measure == "" {
		return nil, nil
	}
	for text := range strings.SplitSeq(o.Measure, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > o.Shards || len(sizes) == 0 && n != 1 {
			return nil, fmt.Errorf("-measure %s: want 1 and numbers of servers with commas between them, such as 1,2,4", o.Measure)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}
