// Command tend is a service with one controller on the memory store and nothing
// else: report measures how large it is.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

type (
	spec   struct{ Size int }
	status struct{ Size int }
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	backend, err := memory.New(nil)
	check(err)
	disks, err := store.New[spec, status](backend, "disk", nil)
	check(err)
	c, err := reconcile.For(disks, func(ctx context.Context, d *store.Object[spec, status]) (reconcile.Result, error) {
		d.Status.Size = d.Spec.Size
		_, err := disks.UpdateStatus(ctx, d)
		return reconcile.Result{}, err
	}, nil)
	check(err)
	var m reconcile.Manager
	check(m.Register(c))
	check(m.Run(ctx))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
