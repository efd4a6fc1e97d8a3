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
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

type (
	Role         = store.Object[struct{}, struct{}]
	DatabaseSpec struct{ Role string }
	Database     = store.Object[DatabaseSpec, struct{}]
)

func main() {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the program prints what there is to see
	ctx, stop := context.WithCancel(context.Background())
	backend := must(memory.New(nil))
	roles := must(store.New[struct{}, struct{}](backend, "role", nil))
	databases := must(store.New[DatabaseSpec, struct{}](backend, "database", nil))

	// guide: wire
	roleCache := must(cache.New(roles, nil))
	databaseCache := must(cache.New(databases, nil))
	needs := must(depend.New(databaseCache, depend.On(roleCache, func(d *Database) []store.Key {
		return []store.Key{{Name: d.Spec.Role}}
	}, nil), nil))

	database := must(reconcile.New("database", reconcile.AsReconciler(databaseCache, needs.Wrap(
		func(ctx context.Context, d *Database) (reconcile.Result, error) {
			if !d.Ready() {
				fmt.Println("create database", d.Name, "of role", d.Spec.Role)
				d.SetReady()
			}
			_, err := databases.UpdateStatus(ctx, d)
			return reconcile.Result{}, err
		})), &reconcile.Options[reconcile.Request]{Reads: needs.Caches()}))
	check(database.Watch(reconcile.From(databaseCache), needs.Source()))

	role := must(reconcile.New("role", reconcile.AsReconciler(roleCache, depend.WaitForUsers(roles,
		func(ctx context.Context, r *Role) (reconcile.Result, error) {
			if !r.Ready() {
				fmt.Println("create role", r.Name)
				r.SetReady()
			}
			_, err := roles.UpdateStatus(ctx, r)
			return reconcile.Result{}, err
		})), nil))
	check(role.Watch(reconcile.From(roleCache)))
	// guide: end

	var manager reconcile.Manager
	check(manager.Register(database, role))
	ended := make(chan error)
	go func() { ended <- manager.Run(ctx) }()

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
