// Command network keeps a small network: VPCs, subnets that need a VPC, and machines that
// need subnets, on a cloud inside the process that refuses what comes in the wrong order.
// It brings the network up, tears it down again, and says how many calls that took and how
// many of them were refused.
//
//	go run ./examples/network                    # a thousand objects
//	go run ./examples/network -size 10000        # ten thousand, with 30,000 references
//	go run ./examples/network -size 10 -plan     # what would be done, in order
//	go run ./examples/network -state ./state     # kept in a file
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
	"path/filepath"
	"syscall"
	"time"

	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/file"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

type options struct {
	Size  int
	Plan  bool
	State string

	Listen string
}

func main() {
	var o options
	flag.IntVar(&o.Size, "size", 1000, "how many objects, from 10; 10,000 have 30,000 references")
	flag.BoolVar(&o.Plan, "plan", false, "print what would be done, and do nothing")
	flag.StringVar(&o.State, "state", "", "a folder for what is declared; empty: it is kept in memory")
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
	backend, err := openState(o.State)
	if err != nil {
		return fmt.Errorf("-state: %w", err)
	}
	return errors.Join(liveOn(ctx, o, backend, newCloud(), out), backend.Close())
}

func openState(folder string) (store.Backend, error) {
	if folder == "" {
		return memory.New(nil)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	return file.Open(filepath.Join(folder, "network.db"), nil)
}

// liveOn brings the network up on a cloud and tears it down.
func liveOn(ctx context.Context, o options, backend store.Backend, cloud *cloud, out io.Writer) error {
	n, err := newNetwork(backend, cloud)
	if err != nil {
		return err
	}
	began := time.Now()
	references, err := n.declare(ctx, o.Size)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "declared %d objects with %d references in %v\n", o.Size, references, round(began))
	if o.Plan {
		return n.plan(ctx, out)
	}
	if o.Listen != "" {
		return n.serve(ctx, o.Listen, out)
	}
	began = time.Now()
	printer := program.NewPrinter(out)
	return program.Run(ctx, &n.manager, &program.Options{
		Parts: n.parts(),
		Once:  true,
		Out:   printer, // what fails is said, and tried again
		Complete: func(ctx context.Context) error {
			printer.Text(fmt.Sprintf("up in %v: %s", round(began), cloud))
			began = time.Now()
			if err := n.removeAll(ctx); err != nil {
				return err
			}
			gone := func(p program.Progress) bool { return p.Declared+p.Deleting == 0 }
			if err := program.WaitFor(ctx, gone, n.parts()...); err != nil {
				return err
			}
			printer.Text(fmt.Sprintf("down in %v: %s", round(began), cloud))
			return nil
		},
	})
}

// serve keeps the network up until ctx ends.
func (n *network) serve(ctx context.Context, address string, out io.Writer) error {
	kinds := []objects.Kind{objects.OfCache(n.vpcs.cache), objects.OfCache(n.subnets.cache), objects.OfCache(n.machines.cache)}
	page, err := web.Listen(address, &n.manager, &web.Options{Objects: kinds, Debug: &debug.Options{Needs: n.graph}})
	if err != nil {
		return err
	}
	if err := n.manager.Register(page); err != nil {
		return errors.Join(err, page.Close())
	}
	fmt.Fprintf(out, "serving http://%s/debug\n", page.Addr())
	return program.Run(ctx, &n.manager, &program.Options{Parts: n.parts(), Out: program.NewPrinter(out)})
}

func round(began time.Time) time.Duration { return time.Since(began).Round(time.Millisecond) }
