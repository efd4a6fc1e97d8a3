// Command sharded shows keys spread over servers, each key worked on by one of
// them, and what happens when servers die, stop and join. Three servers, each a
// process of its own, share an etcd.
//
//	go run ./examples/sharded                            # kill one, stop one, start one
//	go run ./examples/sharded -keys 5000 -shards 256     # with more of both
//	go run ./examples/sharded -for 1m                    # again and again
//
// It ends by itself: with how many keys each event moved and for how long they had
// no owner, and with an error if a key was worked on by a server whose time with
// it was over.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tendhq/tend/examples/fleet"
	"github.com/tendhq/tend/reconcile/lease"
)

type options struct {
	Server, Etcd string // to be one of the servers
	Keys, Shards int
	For          time.Duration // how long the show goes on
	TTL          time.Duration
}

func main() { os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func command(args []string, in io.Reader, out, errs io.Writer) int {
	var o options
	flags := flag.NewFlagSet("sharded", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.IntVar(&o.Keys, "keys", 300, "how many keys there are to work on")
	flags.IntVar(&o.Shards, "shards", 32, "into how many shards they are divided")
	flags.DurationVar(&o.For, "for", 0, "go on for so long; 0: once through")
	flags.DurationVar(&o.TTL, "ttl", 2*time.Second, "how long the shards of a server that died stay its own")
	flags.StringVar(&o.Server, "server", "", "be a server of this name (needs -etcd)")
	flags.StringVar(&o.Etcd, "etcd", "", "where that server finds etcd")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	var err error
	switch {
	case o.Keys < 1:
		err = fmt.Errorf("-keys %d: want at least 1", o.Keys)
	case o.Shards < 1 || o.Shards > lease.MaxShards:
		err = fmt.Errorf("-shards %d: want 1 to %d", o.Shards, lease.MaxShards)
	case o.Server != "":
		ctx, stop := fleet.UntilTold(in)
		defer stop()
		err = serve(ctx, o, out)
	default:
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = show(ctx, o, out)
	}
	if err != nil {
		fmt.Fprintln(errs, "sharded:", err)
		return 1
	}
	return 0
}
