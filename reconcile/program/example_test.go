package program_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// A program that ends when all is as declared.
func Example() {
	type spec struct{ Servers int }
	ok := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	ctx := context.Background()
	backend, err := memory.New(nil)
	ok(err)
	sites, err := store.New[spec, struct{}](backend, "site", nil)
	ok(err)
	for _, name := range []string{"shop", "blog"} {
		_, err := sites.Create(ctx, &store.Object[spec, struct{}]{Meta: store.Meta{Name: name}, Spec: spec{3}})
		ok(err)
	}
	controller, err := reconcile.For(sites, func(ctx context.Context, site *store.Object[spec, struct{}]) (reconcile.Result, error) {
		site.SetReady()
		_, err := sites.UpdateStatus(ctx, site)
		return reconcile.Result{}, err
	}, nil)
	ok(err)
	part, err := program.Of(controller.Cache(), &program.KindOptions[spec, struct{}]{
		Done: func(site *store.Object[spec, struct{}]) bool { return site.Ready() }, // the default
	})
	ok(err)

	manager := reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
	ok(manager.Register(controller))
	ok(program.Run(ctx, &manager, &program.Options{Parts: []program.Part{part}, Once: true}))
	progress := program.ProgressOf(part)
	fmt.Println(progress.Done, "of", progress.Declared, "are as declared")
	// Output: 2 of 2 are as declared
}
