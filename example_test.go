package tend_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// A site is to have three servers. Each run starts one, until the world is as declared.
func Example() {
	type (
		Spec   struct{ Servers int } // what is wanted
		Status struct{ Running int } // what is there
	)
	sites := exampleMust(store.New[Spec, Status](exampleMust(memory.New(nil)), "site", nil))
	controller := exampleMust(reconcile.For(sites, func(ctx context.Context, site *store.Object[Spec, Status]) (result reconcile.Result, err error) {
		if site.Status.Running < site.Spec.Servers {
			site.Status.Running++ // start a server; an error here is tried again, with backoff
			fmt.Println(site.Name, "runs", site.Status.Running, "of", site.Spec.Servers)
			result.Requeue = true
		} else {
			fmt.Println(site.Name, "is as declared")
			site.SetReady()
		}
		_, err = sites.UpdateStatus(ctx, site)
		return result, err
	}, nil))
	exampleMust(sites.Create(context.Background(), &store.Object[Spec, Status]{Meta: store.Meta{Name: "shop"}, Spec: Spec{Servers: 3}}))

	manager := reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
	exampleMust(0, manager.Register(controller))
	until := program.Options{Once: true, Parts: []program.Part{exampleMust(program.Of(controller.Cache(), nil))}} // a service goes on
	fmt.Println("ended with", program.Run(context.Background(), &manager, &until))
	// Output:
	// shop runs 1 of 3
	// shop runs 2 of 3
	// shop runs 3 of 3
	// shop is as declared
	// ended with <nil>
}

func exampleMust[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
