// Command 02-controller runs a first controller: a store, a reconciler of its
// objects, and conditions that say how each of them is doing.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	_ "github.com/tendhq/tend/store/memory"
)

// guide: kind
type (
	Spec   struct{ Servers int } // what is wanted
	Status struct{ Running int } // what was found
	Site   = store.Object[Spec, Status]
	Sites  = store.Store[Spec, Status]
)

// guide: end

// guide: reconcile
type reconciler struct{ sites *Sites }

func (r reconciler) reconcile(ctx context.Context, site *Site) (reconcile.Result, error) {
	switch n := site.Spec.Servers; {
	case n < 0:
		err := fmt.Errorf("%d servers cannot be", n)
		site.SetProgressing("BadSpec", err.Error())
		if _, writeErr := r.sites.UpdateStatus(ctx, site); writeErr != nil {
			return reconcile.Result{}, writeErr // tried again: the status is to say why
		}
		return reconcile.Result{}, reconcile.Terminal(err)
	case site.Status.Running == n:
		site.SetReady()
	case site.Status.Running < n:
		site.Status.Running++ // start one
		site.SetProgressing("Starting", fmt.Sprintf("%d of %d run", site.Status.Running, n))
	default:
		site.Status.Running-- // stop one
		site.SetProgressing("Stopping", fmt.Sprintf("%d of %d are too many", site.Status.Running-n, site.Status.Running))
	}
	_, err := r.sites.UpdateStatus(ctx, site) // writes nothing if nothing changed
	if err == nil && !site.Ready() {
		return reconcile.Result{RequeueAfter: 10 * time.Millisecond}, nil // go on
	}
	return reconcile.Result{}, err
}

// guide: end

func main() {
	ctx, stop := context.WithCancel(context.Background())
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the program prints what there is to see
	// guide: main
	p := program.Open(ctx, "memory")
	sites := program.AddKind[Spec, Status](p, "site", nil) // its store and its cache
	sites.Reconcile(reconciler{sites.Store}.reconcile, nil)
	ended := make(chan error)
	go func() { ended <- p.Run(ctx, nil) }()

	shop := must(sites.Create(ctx, &Site{Meta: store.Meta{Name: "shop"}, Spec: Spec{Servers: 3}}))
	show(must(sites.WaitReady(ctx, shop.Key())))
	// guide: end

	// guide: change
	must(sites.Mutate(ctx, shop.Key(), func(s *Site) error { s.Spec.Servers = -1; return nil }))
	show(waitFor(ctx, sites.Store, "BadSpec"))
	must(sites.Mutate(ctx, shop.Key(), func(s *Site) error { s.Spec.Servers = 1; return nil }))
	show(must(sites.WaitReady(ctx, shop.Key())))
	// guide: end
	stop()
	fmt.Println("ended with", <-ended)
}

func show(s *Site) {
	ready, _ := s.Condition(store.ConditionReady)
	fmt.Printf("%s, generation %d: %s, Ready=%s, %d of %d run",
		s.Name, s.Generation, s.Phase, ready.Status, s.Status.Running, s.Spec.Servers)
	if ready.Message != "" {
		fmt.Printf(" (%s: %s)", ready.Reason, ready.Message)
	}
	fmt.Println()
}

// waitFor watches the sites until one has a Ready condition with the reason.
func waitFor(ctx context.Context, sites *Sites, reason string) *Site {
	for event, err := range sites.Watch(ctx, 0) {
		if err != nil {
			log.Fatal(err)
		}
		if event.Object == nil {
			continue
		}
		if c, _ := event.Object.Condition(store.ConditionReady); c.Reason == reason {
			return event.Object
		}
	}
	return nil
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
