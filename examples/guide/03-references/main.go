// Command 03-references has databases that need a role: a database waits until its role
// is there, and the role stays until no database uses it any more.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	_ "github.com/tendhq/tend/store/memory"
)

type (
	Role         = store.Object[struct{}, struct{}]
	DatabaseSpec struct{ Role string }
	Database     = store.Object[DatabaseSpec, struct{}]
)

func main() {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the program prints what there is to see
	ctx, stop := context.WithCancel(context.Background())
	// guide: wire
	p := program.Open(ctx, "memory")
	roles := program.AddKind[struct{}, struct{}](p, "role", nil)
	databases := program.AddKind[DatabaseSpec, struct{}](p, "database", nil)
	needs := must(depend.New(databases.Cache(), depend.On(roles.Cache(), func(d *Database) []store.Key {
		return []store.Key{{Name: d.Spec.Role}}
	}, nil), nil))

	databases.Reconcile(needs.Wrap(func(ctx context.Context, d *Database) (reconcile.Result, error) {
		if !d.Ready() {
			fmt.Println("create database", d.Name, "of role", d.Spec.Role)
			d.SetReady()
		}
		_, err := databases.UpdateStatus(ctx, d)
		return reconcile.Result{}, err
	}), &reconcile.ForOptions[DatabaseSpec, struct{}]{Options: reconcile.Options[reconcile.Request]{Reads: needs.Caches()}})
	databases.AddSources(needs.Source())

	roles.Reconcile(depend.WaitForUsers(roles.Store, func(ctx context.Context, r *Role) (reconcile.Result, error) {
		if !r.Ready() {
			fmt.Println("create role", r.Name)
			r.SetReady()
		}
		_, err := roles.UpdateStatus(ctx, r)
		return reconcile.Result{}, err
	}), nil)
	// guide: end
	ended := make(chan error)
	go func() { ended <- p.Run(ctx, nil) }()

	shop := must(databases.Create(ctx, &Database{Meta: store.Meta{Name: "shop"}, Spec: DatabaseSpec{Role: "alice"}}))
	for event, err := range databases.Watch(ctx, shop.Revision) { // until it says that it waits
		check(err)
		if ready, said := event.Object.Condition(store.ConditionReady); said {
			fmt.Printf("%s waits: %s\n", shop.Name, ready.Message)
			break
		}
	}
	alice := must(roles.Create(ctx, &Role{Meta: store.Meta{Name: "alice"}}))
	shop = must(databases.WaitReady(ctx, shop.Key()))

	check(roles.Delete(ctx, must(roles.Get(ctx, alice.Key()))))
	alice = must(roles.Get(ctx, alice.Key()))
	fmt.Println("deletion of alice is", depend.InUse(alice.Finalizers))
	check(databases.Delete(ctx, must(databases.Get(ctx, shop.Key()))))
	for event, err := range roles.Watch(ctx, alice.Revision) {
		check(err)
		if event.Deleted {
			fmt.Println("the database is gone, and so is alice")
			break
		}
	}
	stop()
	fmt.Println("ended with", <-ended)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}
