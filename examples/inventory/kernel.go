package main

import (
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/declare"
	"github.com/tendhq/tend/reconcile/event"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/program"
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
	events     *event.Log
	collector  *metrics.Collector
	files      *files
	parts      []program.Part // the inventory's file, and what it declares
}

// newKernel puts it together and starts nothing.
func newKernel(a *app, backend store.Backend) (*kernel, error) {
	k := &kernel{}
	k.collector = metrics.New(&k.manager)
	var err error
	if backend, err = k.collector.Measure("state", backend); err != nil {
		return nil, err
	}
	if k.store, err = store.New[BucketSpec, BucketStatus](backend, kind, nil); err != nil {
		return nil, err
	}
	if k.cache, err = cache.New(k.store, nil); err != nil {
		return nil, err
	}
	k.events = event.NewLog(nil)
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
	})
	if err != nil {
		return nil, err
	}
	buckets, err := program.Of(k.cache, &program.KindOptions[BucketSpec, BucketStatus]{Stuck: external.NotOurs[BucketSpec, BucketStatus]})
	if err != nil {
		return nil, err
	}
	o, err := a.limited(a.o.Workers)
	if err != nil {
		return nil, err
	}
	if o, err = buckets.Track(o); err != nil {
		return nil, err
	}
	if k.controller, err = reconcile.New("buckets", k.reconciler, o); err != nil {
		return nil, err
	}
	file, err := declare.New(k.store, k.cache, a.o.File, &declare.Options[BucketSpec, BucketStatus]{
		Decode:    a.decode,
		Owner:     declaredBy,
		MaxDelete: a.maxRemovals,
		Every:     a.o.watchEvery,
		MaxBytes:  maxInventoryBytes,
	})
	if err != nil {
		return nil, err
	}
	if k.files, err = newFiles(a, k, c, backend); err != nil {
		return nil, err
	}
	k.parts = append([]program.Part{file, buckets}, k.files.parts...)
	k.manager.Logger = kernelLogger(a.o.Verbose)
	return k, errors.Join(
		k.controller.Watch(reconcile.From(k.cache)),
		k.manager.Register(k.cache, k.controller, file.Controller()),
		k.manager.Register(k.files.runners...),
		k.collector.AddQuotas(a.quota.set), k.collector.AddExternal(k.reconciler), k.collector.AddExternal(k.files.reconciler), k.collector.AddInventory(k.inventory),
	)
}

// limited is the options of a controller whose calls count against the account's quota.
func (a *app) limited(workers int) (*reconcile.Options[reconcile.Request], error) {
	return quota.Limit(func(reconcile.Request) (*quota.Quota, error) { return a.quota.Quota, nil }, &reconcile.Options[reconcile.Request]{
		Workers: workers,
		Backoff: queue.Backoff{Base: 50 * time.Millisecond, Max: max(a.o.Poll, time.Second)},
	})
}

// kernelLogger: what a user needs to know of the kernel's work, this program
// says in its own lines.
func kernelLogger(verbose bool) *slog.Logger {
	if verbose {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

// declaredBy labels what came from the file.
const declaredBy = "inventory-file"

// decode reads the file's content.
func (a *app) decode(data []byte) ([]*Bucket, error) {
	entries, err := parseInventory(data)
	if err == nil {
		err = checkLengths(entries, a.buckets.ownership)
	}
	set := make([]*Bucket, 0, len(entries))
	for _, e := range entries {
		set = append(set, &Bucket{Meta: store.Meta{Name: e.Name}, Spec: e.spec()})
	}
	return set, err
}

// maxRemovals is of buckets: an edit may take a tenth of what was declared away, ten at most, or the
// number confirmed if that is more.
func (a *app) maxRemovals(stored int) int { return max(a.o.Removals, min(10, stored/10)) }
