package main

import (
	"log/slog"
	"os"
	"time"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/declare"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/store"
)

// assemble puts the program together: what is declared of buckets and files, and what
// keeps them.
func (a *app) assemble(p *program.Program) {
	a.program, a.collector = p, metrics.New(&p.Manager)
	p.Manager.Logger = kernelLogger(a.o.Verbose)
	p.Wrap(func(b store.Backend) (store.Backend, error) { return a.collector.Measure("state", b) })
	p.Use(a.quota.set, nil)
	a.declared = program.AddKind(p, kind, &program.ObjectsOptions[BucketSpec, BucketStatus]{
		Progress: &program.KindOptions[BucketSpec, BucketStatus]{Stuck: external.NotOurs[BucketSpec, BucketStatus]},
	})
	c, err := newCloud(a, a.declared.Store)
	if p.Check(err); err != nil {
		return
	}
	a.inventory = c.inventory
	a.reconciler = keepKind(a, a.declared, c.client(), &external.Options[BucketSpec, BucketStatus]{Poll: a.o.Poll}, a.o.Workers, a.decode, a.maxRemovals)
	a.files = newFiles(a, c)
}

// keepKind has the objects of a kind kept by a client, within the account's quota, and
// declared by the inventory's file.
func keepKind[S, T any](a *app, k *program.Objects[S, T], c external.Client[S, T], o *external.Options[S, T], workers int,
	decode func([]byte) ([]*store.Object[S, T], error), most func(stored int) int,
) *external.Reconciler[S, T] {
	o.Naming = external.ByUs // a name is an identity
	o.CreationGrace = settled(a.o.Poll)
	o.Changes = a.done.Told
	r, err := external.New(k.Store, external.Always(c), o)
	a.program.Check(err)
	limited, err := quota.Limit(func(reconcile.Request) (*quota.Quota, error) { return a.quota.Quota, nil }, &reconcile.Options[reconcile.Request]{
		Workers: workers,
		Backoff: queue.Backoff{Base: 50 * time.Millisecond, Max: max(a.o.Poll, time.Second)},
	})
	a.program.Check(err)
	k.ReconcileBy(r, limited)
	file, err := declare.New(k.Store, k.Cache(), a.o.File, &declare.Options[S, T]{
		Decode: decode, Owner: declaredBy, MaxDelete: most, Every: a.o.watchEvery, MaxBytes: maxInventoryBytes,
	})
	a.program.Use(file, err)
	a.parts = append(a.parts, file, k.Progress())
	return r
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
