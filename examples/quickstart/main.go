// Command quickstart keeps a web site's servers running: store, controller, manager.
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"

	"github.com/tendhq/tend/queue"
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
		if rand.N(3) == 0 { // tried again with backoff
			fmt.Println(site.Name, "waits up to a second, because a server did not start")
			return reconcile.Result{}, fmt.Errorf("the server did not start")
		}
		site.Status.Running++
		fmt.Println(site.Name, "runs", site.Status.Running, "of", site.Spec.Servers)
		_, err := sites.UpdateStatus(ctx, site)
		return reconcile.Result{RequeueAfter: time.Second / 10}, err // look again
	}, &reconcile.Options[reconcile.Request]{Backoff: queue.Backoff{Max: time.Second}})
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
