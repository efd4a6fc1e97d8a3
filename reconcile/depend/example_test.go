package depend_test

import (
	"context"
	"fmt"
	"log"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

type (
	RoleSpec     struct{}
	RoleStatus   struct{}
	Role         = store.Object[RoleSpec, RoleStatus]
	DatabaseSpec struct{ Owner string }
	DBStatus     struct{}
	Database     = store.Object[DatabaseSpec, DBStatus]
)

// A database needs the role that owns it. It is declared first, and waits.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ok := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	backend, err := memory.New(nil)
	ok(err)
	roles, err := store.New[RoleSpec, RoleStatus](backend, "role", nil)
	ok(err)
	databases, err := store.New[DatabaseSpec, DBStatus](backend, "database", nil)
	ok(err)
	roleCache, err := cache.New(roles, nil)
	ok(err)
	databaseCache, err := cache.New(databases, nil)
	ok(err)

	owners, err := depend.New(databaseCache, depend.On(roleCache, func(d *Database) []store.Key {
		return []store.Key{{Name: d.Spec.Owner}}
	}, nil), nil)
	ok(err)
	database, err := reconcile.New("database", reconcile.AsReconciler(databaseCache, owners.Wrap(
		func(_ context.Context, d *Database) (reconcile.Result, error) {
			fmt.Println("create database", d.Name, "owned by", d.Spec.Owner)
			stop()
			return reconcile.Result{}, nil
		})), &reconcile.Options[reconcile.Request]{Reads: owners.Caches()})
	ok(err)
	ok(database.Watch(reconcile.From(databaseCache), owners.Source()))

	role, err := reconcile.For(roles, func(ctx context.Context, r *Role) (reconcile.Result, error) {
		if r.Ready() {
			return reconcile.Result{}, nil
		}
		fmt.Println("create role", r.Name)
		r.SetReady()
		_, err := roles.UpdateStatus(ctx, r)
		return reconcile.Result{}, err
	}, nil)
	ok(err)

	_, err = databases.Create(ctx, &Database{Meta: store.Meta{Name: "shop"}, Spec: DatabaseSpec{Owner: "alice"}})
	ok(err)
	_, err = roles.Create(ctx, &Role{Meta: store.Meta{Name: "alice"}})
	ok(err)
	var manager reconcile.Manager
	ok(manager.Register(database, role))
	ok(manager.Run(ctx))
	// Output:
	// create role alice
	// create database shop owned by alice
}
