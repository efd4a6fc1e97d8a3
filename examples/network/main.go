// Command network keeps a small network: VPCs, subnets that need a VPC, and machines that
// need subnets, on a cloud inside the process that refuses what comes in the wrong order.
// It brings the network up, tears it down again, and says how many calls that took and how
// many of them were refused.
//
//	go run ./examples/network                    # a thousand objects
//	go run ./examples/network -size 10000        # ten thousand, with 30,000 references
//	go run ./examples/network -size 10 -plan     # what would be done, in order
//	go run ./examples/network -store file:network.db   # kept in a file
//	go run ./examples/network -listen localhost:8080   # keep it up, and look at it
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

	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/store"
	_ "github.com/tendhq/tend/store/file" // for -store
	_ "github.com/tendhq/tend/store/memory"
)

type options struct {
	Size          int
	Plan          bool
	Store, Listen string
}

func main() {
	var o options
	flag.IntVar(&o.Size, "size", 1000, "how many objects, from 10; 10,000 have 30,000 references")
	flag.BoolVar(&o.Plan, "plan", false, "print what would be done, and do nothing")
	flag.StringVar(&o.Store, "store", "memory", "the store of what is declared: memory or file:PATH")
	flag.StringVar(&o.Listen, "listen", "", "serve health, metrics and the debug page at this address, such as localhost:8080, and go on until Ctrl-C")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "network:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	if o.Size < 10 {
		return fmt.Errorf("-size is %d, want 10 or more", o.Size)
	}
	backend, err := store.Open(ctx, o.Store)
	if err != nil {
		return fmt.Errorf("-store: %w", err)
	}
	return errors.Join(liveOn(ctx, o, backend, newCloud(), out), backend.Close())
}

// liveOn brings the network up on a cloud and tears it down.
func liveOn(ctx context.Context, o options, backend store.Backend, cloud *cloud, out io.Writer) error {
	n := newNetwork(backend, cloud)
	began := time.Now()
	references, err := n.declare(ctx, o.Size)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "declared %d objects with %d references in %v\n", o.Size, references, round(began))
	if o.Plan {
		return n.plan(ctx, out)
	}
	printer := program.NewPrinter(out)
	options := program.Options{Out: printer} // what fails is said, and tried again
	if o.Listen != "" {
		page, err := web.Listen(o.Listen, nil, &web.Options{Program: n.program})
		if n.program.Use(page, err); err == nil {
			fmt.Fprintf(out, "serving http://%s/debug\n", page.Addr())
		}
		return n.program.Run(ctx, &options)
	}
	began = time.Now()
	options.Once = true
	options.Complete = func(ctx context.Context) error {
		printer.Text(fmt.Sprintf("up in %v: %s", round(began), cloud))
		began = time.Now()
		if err := n.removeAll(ctx); err != nil {
			return err
		}
		gone := func(p program.Progress) bool { return p.Declared+p.Deleting == 0 }
		if err := program.WaitFor(ctx, gone, n.vpcs.Progress(), n.subnets.Progress(), n.machines.Progress()); err != nil {
			return err
		}
		printer.Text(fmt.Sprintf("down in %v: %s", round(began), cloud))
		return nil
	}
	return n.program.Run(ctx, &options)
}

func round(began time.Time) time.Duration { return time.Since(began).Round(time.Millisecond) }
