// Command quickstart keeps the servers of a web site running.
package main

import (
	"context"
	"fmt"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	_ "github.com/tendhq/tend/store/memory" // or store/file, store/etcd, store/postgres
)

type (
	Spec   struct{ Servers int } // what is wanted
	Status struct{ Running int } // what is there
)

func main() {
	ctx := context.Background()
	p := program.Open(ctx, "memory") // or "file:sites.db", "etcd:localhost:2379/sites", "postgres:"
	sites := program.AddKind[Spec, Status](p, "site", nil)
	sites.Reconcile(func(ctx context.Context, site *store.Object[Spec, Status]) (reconcile.Result, error) {
		for ; site.Status.Running < site.Spec.Servers; site.Status.Running++ {
			fmt.Println("start a server of", site.Name) // an error that is returned is tried again, with backoff
		}
		site.SetReady()
		_, err := sites.UpdateStatus(ctx, site)
		return reconcile.Result{}, err
	}, nil)
	_, err := sites.Create(ctx, &store.Object[Spec, Status]{Meta: store.Meta{Name: "shop"}, Spec: Spec{Servers: 3}})
	p.Check(err)                                                        // Run returns what went wrong until then
	fmt.Println("ended with", p.Run(ctx, &program.Options{Once: true})) // when all is as declared; a service goes on
}
