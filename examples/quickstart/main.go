// Command quickstart keeps a web site's servers running as declared. It is a
// whole program: a store, a controller, and a manager that runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

type (
	Spec   struct{ Servers int } // what is wanted
	Status struct{ Running int } // what is there
	Site   = store.Object[Spec, Status]
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	backend, err := memory.New(nil)
	check(err)
	sites, err := store.New[Spec, Status](backend, "site", nil)
	check(err)

	controller, err := reconcile.For(sites, func(ctx context.Context, site *Site) (reconcile.Result, error) {
		if site.Status.Running == site.Spec.Servers {
			fmt.Println(site.Name, "is as declared")
			stop() // a service would go on, and wait for the next change
			return reconcile.Result{}, nil
		}
		if rand.N(3) == 0 { // is logged, and tried again with backoff
			return reconcile.Result{}, errors.New("the server did not start")
		}
		site.Status.Running++
		fmt.Println(site.Name, "runs", site.Status.Running, "of", site.Spec.Servers)
		_, err := sites.UpdateStatus(ctx, site)
		return reconcile.Result{Requeue: true}, err // look again
	}, nil)
	check(err)
	_, err = sites.Create(ctx, &Site{Meta: store.Meta{Name: "shop"}, Spec: Spec{Servers: 3}})
	check(err)
	var manager reconcile.Manager
	check(manager.Register(controller))
	check(manager.Run(ctx)) // until Ctrl-C, or stop
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
