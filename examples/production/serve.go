package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/reconcile/web/api"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
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
	// guide: serve
	p := program.New(database, nil)
	p.Manager.Summary = time.Minute
	collector := metrics.New(&p.Manager)
	p.Wrap(func(b store.Backend) (store.Backend, error) { return collector.Measure("postgres", b) })
	installation, err1 := store.Installation(ctx, p.Backend())
	members, err2 := lease.NewMembers(p.Backend(), "dns", &o.lease)             // share the quotas
	placement, err3 := lease.NewSharded(p.Backend(), "zones", shards, &o.lease) // each runs its zones
	oneServer, err4 := lease.NewSingleton(p.Backend(), "prune", &o.lease)       // prunes
	quotas, err5 := quota.NewSet(&quota.Options{Limits: limits, Members: members, Backend: p.Backend()})
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	p.Use(quotas, nil)
	account, err := quotas.Get(quota.Name{API: "dns"})
	p.Check(err)
	zones := program.AddKind(p, "zone", &program.ObjectsOptions[Spec, struct{}]{
		Store: &store.Options[Spec, struct{}]{RequireGuard: true}, // what operators write goes by Unguarded
		Cache: &cache.Options[Spec, struct{}]{Shards: shards},
	})
	inventory, reconciler, err := provider{o.cloud, account, installation}.keep(zones.Store)
	p.Check(err)
	limited, err := quota.Limit(func(reconcile.Request) (*quota.Quota, error) { return account, nil },
		&reconcile.Options[reconcile.Request]{Workers: 32, Placement: placement})
	p.Check(err)
	zones.ReconcileBy(reconciler, limited)
	p.Use(newRows(pool, zones.Store, zones.Cache(), placement))
	p.Use(inventory.Pruning(time.Hour, &reconcile.Options[reconcile.Request]{Placement: oneServer}))
	p.Use(web.Listen(o.listen, nil, newPage(p, collector, o.token)))
	return p.Run(ctx, nil)
	// guide: end
}

// newPage serves health, metrics, the debug page and the objects to those that have the token.
// A proxy that knows the operators adds it.
func newPage(p *program.Program, collector *metrics.Collector, token string) *web.Options {
	return &web.Options{
		Program: p, Metrics: collector,
		API:   &api.Options{Allow: func(*http.Request, api.Access) error { return nil }},         // Allow has asked
		Debug: &debug.Options{Authorise: func(*http.Request, debug.Action) error { return nil }}, // the same
		Allow: func(r *http.Request) error {
			given := []byte(r.Header.Get("Authorization"))
			if token == "" || subtle.ConstantTimeCompare(given, []byte("Bearer "+token)) == 0 {
				return errors.New("this takes a token")
			}
			return nil
		},
	}
}
