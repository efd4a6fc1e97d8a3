// Command leader shows one server at a time doing the work, and what happens when
// that one dies or is stopped. Three servers, each a process of its own, share an
// etcd; whoever leads writes entries into a ledger.
//
//	go run ./examples/leader            # kill the leader, stop the next, and see
//	go run ./examples/leader -for 1m    # the same again and again
//
// It ends by itself: with the ledger, which shows that no entry was written by a
// leader whose time was over, and with an error if one was.
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
)

type options struct {
	Server, Etcd string        // to be one of the servers
	For          time.Duration // how long the show goes on
	TTL          time.Duration
}

func main() { os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func command(args []string, in io.Reader, out, errs io.Writer) int {
	var o options
	flags := flag.NewFlagSet("leader", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.DurationVar(&o.For, "for", 0, "go on for so long; 0: once through")
	flags.DurationVar(&o.TTL, "ttl", 2*time.Second, "how long the lease of a leader that died lives on")
	flags.StringVar(&o.Server, "server", "", "be a server of this name (needs -etcd)")
	flags.StringVar(&o.Etcd, "etcd", "", "where that server finds etcd")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	var err error
	if o.Server != "" {
		ctx, stop := fleet.UntilTold(in)
		defer stop()
		err = serve(ctx, o, out)
	} else {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = show(ctx, o, out)
	}
	if err != nil {
		fmt.Fprintln(errs, "leader:", err)
		return 1
	}
	return 0
}
