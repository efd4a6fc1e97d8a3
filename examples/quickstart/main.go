// Command quickstart keeps the servers of a web site running.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

type (
	Spec   struct{ Servers int } // what is wanted
	Status struct{ Running int } // what is there
)

func main() {
	sites := must(store.New[Spec, Status](must(memory.New(nil)), "site", nil))
	controller := must(reconcile.For(sites, func(ctx context.Context, site *store.Object[Spec, Status]) (result reconcile.Result, err error) {
		if site.Status.Running < site.Spec.Servers {
			site.Status.Running++ // start a server; an error here is tried again, with backoff
			fmt.Println(site.Name, "runs", site.Status.Running, "of", site.Spec.Servers)
			result.RequeueAfter = time.Second / 10 // look again
		} else {
			fmt.Println(site.Name, "is as declared")
			site.SetReady()
		}
		_, err = sites.UpdateStatus(ctx, site)
		return result, err
	}, nil))
	must(sites.Create(context.Background(), &store.Object[Spec, Status]{Meta: store.Meta{Name: "shop"}, Spec: Spec{Servers: 3}}))

	var manager reconcile.Manager
	must(0, manager.Register(controller))
	until := program.Options{Once: true, Parts: []program.Part{must(program.Of(controller.Cache(), nil))}} // a service goes on
	fmt.Println("ended:", must("all is as declared", program.Run(context.Background(), &manager, &until)))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
