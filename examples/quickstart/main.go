// Command quickstart keeps the servers of a web site running.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

type (
	Spec   struct{ Servers int } // what is wanted
	Status struct{ Running int } // what is there
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	sites := must(store.New[Spec, Status](must(memory.New(nil)), "site", nil))
	controller := must(reconcile.For(sites, func(ctx context.Context, site *store.Object[Spec, Status]) (reconcile.Result, error) {
		if site.Status.Running == site.Spec.Servers {
			fmt.Println(site.Name, "is as declared")
			stop() // a service goes on, and waits for the next change
			return reconcile.Result{}, nil
		}
		site.Status.Running++ // start a server; an error here is tried again, with backoff
		fmt.Println(site.Name, "runs", site.Status.Running, "of", site.Spec.Servers)
		_, err := sites.UpdateStatus(ctx, site)
		return reconcile.Result{RequeueAfter: time.Second / 10}, err // look again
	}, nil))
	must(sites.Create(ctx, &store.Object[Spec, Status]{Meta: store.Meta{Name: "shop"}, Spec: Spec{Servers: 3}}))
	fmt.Println("ended with", controller.Run(ctx))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
