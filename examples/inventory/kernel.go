package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// A kernel is tend, put together for buckets: a store of what is declared, a
// cache of it, a controller that runs the external reconciler for what changes
// or is due, and a manager that runs them all.
type kernel struct {
	store      *store.Store[BucketSpec, BucketStatus]
	cache      *cache.Cache[BucketSpec, BucketStatus]
	inventory  *cloudInventory
	reconciler *external.Reconciler[BucketSpec, BucketStatus]
	controller *reconcile.Controller[reconcile.Request]
	manager    reconcile.Manager
	events     *external.Throttled
	metrics    http.Handler
}

// newKernel puts it together and starts nothing.
func newKernel(a *app, backend store.Backend) (*kernel, error) {
	k := &kernel{}
	collector := metrics.New(&k.manager)
	var err error
	if backend, err = collector.Measure("state", backend); err != nil {
		return nil, err
	}
	if k.store, err = store.New[BucketSpec, BucketStatus](backend, kind, nil); err != nil {
		return nil, err
	}
	if k.cache, err = cache.New(k.store, nil); err != nil {
		return nil, err
	}
	if k.events, err = external.NewThrottled(nil, nil); err != nil {
		return nil, err
	}
	c, err := newCloud(a, k.store)
	if err != nil {
		return nil, err
	}
	k.inventory = c.inventory
	k.reconciler, err = external.New(k.store, external.Always(c.client()), &external.Options[BucketSpec, BucketStatus]{
		Naming:        external.ByUs, // a bucket's name is its identity
		Poll:          a.o.Poll,
		CreationGrace: settled(a.o.Poll),
		Changes:       a.done.Told,
		Recorder:      k.events, // for the debug page
	})
	if err != nil {
		return nil, err
	}
	o := &reconcile.Options[reconcile.Request]{
		Workers: a.o.Workers,
		Backoff: queue.Backoff{Base: 50 * time.Millisecond, Max: max(a.o.Poll, time.Second)},
		Hooks:   reconcile.Hooks[reconcile.Request]{OnError: a.failed, OnDone: a.ran},
		Logger:  kernelLogger(a.o.Verbose),
	}
	if o, err = quota.Limit(func(reconcile.Request) (*quota.Quota, error) { return a.quota.Quota, nil }, o); err != nil {
		return nil, err
	}
	if k.controller, err = reconcile.New("buckets", k.reconciler, o); err != nil {
		return nil, err
	}
	if err := k.controller.Watch(reconcile.From(k.cache)); err != nil {
		return nil, err
	}
	if err := k.manager.Register(k.cache, k.controller); err != nil {
		return nil, err
	}
	// What Prometheus scrapes, from a registry of our own.
	registry := prometheus.NewRegistry()
	err = errors.Join(collector.AddQuotas(a.quota.set), collector.AddExternal(k.reconciler),
		collector.AddInventory(k.inventory), registry.Register(collector))
	k.metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return k, err
}

// kernelLogger: what a user needs to know of the kernel's work, this program
// says in its own lines.
func kernelLogger(verbose bool) *slog.Logger {
	if verbose {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

// Run runs the kernel until ctx ends, and then until it has drained.
func (k *kernel) Run(ctx context.Context) error { return k.manager.Run(ctx) }

// Load makes the entries the declared set: what is new is created, what differs
// updated, and what is missing deleted, which the reconciler then does at the
// endpoint before the object goes. It refuses to delete more than ten, or a
// tenth of what was declared before, or the number confirmed if that is more.
func (k *kernel) Load(ctx context.Context, entries []Entry, confirmed int) error {
	before, err := k.store.List(ctx, store.Selector{})
	if err != nil {
		return err
	}
	set := make([]*Bucket, 0, len(entries))
	for _, e := range entries {
		set = append(set, &Bucket{Meta: store.Meta{Name: e.Name}, Spec: e.spec()})
	}
	_, err = k.store.Apply(ctx, set, declaredBy, max(confirmed, min(10, len(before)/10)))
	if tooMany, ok := errors.AsType[*store.CapError](err); ok {
		return fmt.Errorf("%w; if that is meant, start with -confirm-removals %d", err, len(tooMany.Delete))
	}
	return err
}

// Held is what the store holds and is not being deleted, by name.
func (k *kernel) Held(ctx context.Context) (map[string]BucketSpec, error) {
	held := map[string]BucketSpec{}
	for o, err := range k.store.All(ctx, store.Selector{}) {
		if err != nil {
			return nil, err
		}
		if !o.Deleting() {
			held[o.Name] = o.Spec
		}
	}
	return held, nil
}

// declaredBy labels what came from the file.
const declaredBy = "inventory-file"

// follow keeps the tally informed of what the store holds, until ctx ends.
func (a *app) follow(ctx context.Context) {
	for ch, err := range a.kernel.cache.Changes(ctx) {
		switch {
		case err != nil:
			return // ctx ended
		case ch.Synced:
		case ch.New == nil:
			a.tally.Gone(ch.Key.Name)
		default:
			s := standingOf(ch.New)
			a.tally.Object(ch.Key.Name, s)
			if s.blocked != "" && (ch.Old == nil || standingOf(ch.Old).blocked != s.blocked) {
				a.out.Line("x %s  %s", ch.Key.Name, s.blocked)
			}
		}
	}
}

func standingOf(o *Bucket) standing {
	s := standing{spec: o.Spec, ready: o.Ready(), deleting: o.Deleting()}
	if c, ok := o.Condition(store.ConditionSynced); ok && c.Status == store.False && c.Reason == external.ReasonNotOurs {
		s.blocked = c.Message
	}
	return s
}

// failed is told of every failure. Each reason is said once per bucket, and none
// while the endpoint itself is the reason: that has been said already.
func (a *app) failed(f reconcile.Failure[reconcile.Request]) {
	if f.Source != "" {
		a.out.Line("%s: %v", f.Source, f.Err)
		return
	}
	name := f.Key.Name
	if a.tally.Failed(name, f.Err.Error(), errors.Is(f.Err, reconcile.ErrTerminal)) && a.meter.Down() == "" {
		a.out.Line("x %s  %v", name, f.Err)
	}
}

// ran is told of the end of every run.
func (a *app) ran(key reconcile.Request, o reconcile.Outcome, _ time.Duration) {
	if o.Err == nil {
		a.tally.Failed(key.Name, "", false)
	}
}
