package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/reconcile/web/api"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/objects"
	"github.com/tendhq/tend/store/postgres"
)

// options of one server.
type options struct {
	dsn, listen, token string
	lease              lease.Options        // with Server, a name that no other server has
	cloud              *reconciletest.Cloud // in its place stands a client of the provider
}

// shards is how many parts the zones are divided into.
const shards = 64

// serve is one server. All of them run this, and each keeps its name over restarts.
func serve(ctx context.Context, o options) (err error) {
	pool, err := pgxpool.New(ctx, o.dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	database, err := postgres.OpenPool(ctx, pool, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Close()) }() // after everything that uses it
	manager := reconcile.Manager{Summary: time.Minute}
	collector := metrics.New(&manager)
	backend, err := collector.Measure("postgres", database)
	if err != nil {
		return err
	}
	// guide: serve
	zones, err1 := store.New(backend, "zone", &store.Options[Spec, struct{}]{RequireGuard: true})
	installation, err2 := store.Installation(ctx, backend)
	members, err3 := lease.NewMembers(backend, "dns", &o.lease)             // share the quotas
	placement, err4 := lease.NewSharded(backend, "zones", shards, &o.lease) // each runs its zones
	oneServer, err5 := lease.NewSingleton(backend, "prune zones", &o.lease) // prunes
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	operators := zones.Unguarded() // they write outside of a run
	known, err1 := cache.New(operators, &cache.Options[Spec, struct{}]{Shards: shards})
	quotas, err2 := quota.NewSet(&quota.Options{Limits: limits, Members: members, Backend: backend})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	account, err := quotas.Get(quota.Name{API: "dns"})
	if err != nil {
		return err
	}
	inventory, reconciler, err := provider{o.cloud, account, installation}.keep(zones)
	if err != nil {
		return err
	}
	limited, err := quota.Limit(func(reconcile.Request) (*quota.Quota, error) { return account, nil },
		&reconcile.Options[reconcile.Request]{Workers: 32, Placement: placement})
	if err != nil {
		return err
	}
	controller, err1 := reconciler.Controller("", known, limited)
	rows, err2 := newRows(pool, zones, known, placement)
	pruning, err3 := newPruning(inventory, oneServer)
	page, err4 := newPage(o, &manager, collector, operators, known, quotas, inventory)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	defer page.Close()
	if err := errors.Join(
		controller.Watch(inventory.Changed("drift")),
		collector.AddQuotas(quotas), collector.AddExternal(reconciler), collector.AddInventory(inventory),
		manager.Register(quotas, controller, rows, pruning, page),
	); err != nil {
		return err
	}
	return program.Run(ctx, &manager, nil)
	// guide: end
}

// newPruning deletes orphans once an hour.
func newPruning(inventory *Inventory, oneServer lease.Placement) (*reconcile.Controller[string], error) {
	kinds := func(context.Context) (map[string]bool, error) { return map[string]bool{"zone": true}, nil }
	return reconcile.Each("prune", time.Hour, kinds, func(ctx context.Context, _ string, _ *bool) (reconcile.Result, error) {
		pruned, err := inventory.Prune(ctx, external.Cap{})
		for _, f := range pruned {
			slog.Info("pruned", "id", f.ID, "key", f.Key)
		}
		return reconcile.Result{}, err
	}, &reconcile.Options[string]{Placement: oneServer, Timeout: time.Hour})
}

// newPage serves health, metrics, the debug page and the objects to those that have the token.
// A proxy that knows the operators adds it.
func newPage(o options, manager *reconcile.Manager, collector *metrics.Collector, operators *Zones,
	known *cache.Cache[Spec, struct{}], quotas *quota.Set, inventory *Inventory,
) (*web.Server, error) {
	declarations, err := api.New([]objects.Kind{objects.Of(operators)}, &api.Options{
		Allow: func(*http.Request, api.Access) error { return nil }, // web.Options.Allow has asked
	})
	if err != nil {
		return nil, err
	}
	return web.Listen(o.listen, manager, &web.Options{
		Metrics: collector,
		Objects: []objects.Kind{objects.OfCache(known)}, // of this server's shards
		Debug: &debug.Options{
			Buckets: quotas.Buckets, Inventories: []debug.Inventory{inventory},
			Authorise: func(*http.Request, debug.Action) error { return nil }, // the same
		},
		Handlers: map[string]http.Handler{"/objects": declarations},
		Allow: func(r *http.Request) error {
			given := []byte(r.Header.Get("Authorization"))
			if o.token == "" || subtle.ConstantTimeCompare(given, []byte("Bearer "+o.token)) == 0 {
				return errors.New("this takes a token")
			}
			return nil
		},
	})
}
