package metrics

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/reconcile"
)

// Exemplars makes histograms lead to traces: labels returns those of a call's trace, such
// as package tracing's Exemplar does, and none for a call that has no exemplar. Store
// calls through Measure get exemplars, and the runs of controllers whose options went
// through With. Call it before anything runs; nil turns exemplars off, which is the
// default.
//
// Prometheus takes exemplars only from an OpenMetrics scrape, which package web serves,
// and if its feature exemplar-storage is on. A call whose labels it would refuse, of more
// than 128 characters in all, not UTF-8, or with a name that begins with "__", has no
// exemplar, and neither has one for which labels panics: the first such panic is logged. The
// map is copied.
func (c *Collector) Exemplars(labels func(ctx context.Context) map[string]string) {
	if labels == nil {
		c.exemplar.Store(nil)
		return
	}
	c.exemplar.Store(&labels)
}

// With returns a copy of o, which may be nil, for controllers whose runs are to have
// exemplars: a middleware inside all that o has, tracing's among them, reads the labels
// from the run's context. The controllers must be of c's Manager. Runs of a
// BatchReconciler have none.
func With[K comparable](c *Collector, o *reconcile.Options[K]) *reconcile.Options[K] {
	var with reconcile.Options[K]
	if o != nil {
		with = *o
	}
	with.Middleware = append(slices.Clip(with.Middleware),
		func(next reconcile.Reconciler[K]) reconcile.Reconciler[K] { return &exemplified[K]{c: c, next: next} })
	return &with
}

// traces returns the labels of a call's exemplar; nil: it has none.
type traces struct {
	atomic.Pointer[func(ctx context.Context) map[string]string]
	panicked sync.Once
}

func (t *traces) of(ctx context.Context) (labels prometheus.Labels) {
	f := t.Load()
	if f == nil {
		return nil
	}
	if err := contain.Call(func() error { labels = maps.Clone((*f)(ctx)); return nil }); err != nil {
		t.panicked.Do(func() {
			slog.Error("metrics: the function given to Exemplars failed: the call has no exemplar", append([]any{"err", err}, contain.Stack(err)...)...)
		})
		return nil
	}
	runes := 0
	for name, value := range labels {
		if !utf8.ValidString(value) || !utf8.ValidString(name) || name == "" || strings.HasPrefix(name, "__") {
			return nil
		}
		runes += utf8.RuneCountInString(name) + utf8.RuneCountInString(value)
	}
	if runes > prometheus.ExemplarMaxRunes || len(labels) == 0 {
		return nil
	}
	return labels
}

// exemplified is a reconciler whose runs have exemplars.
type exemplified[K comparable] struct {
	c    *Collector
	next reconcile.Reconciler[K]
	runs atomic.Pointer[runExemplars] // of its controller; nil: no run had an exemplar
}

// Reconcile implements reconcile.Reconciler.
func (r *exemplified[K]) Reconcile(ctx context.Context, key K) (reconcile.Result, error) {
	labels := r.c.exemplar.of(ctx)
	if labels == nil {
		return r.next.Reconcile(ctx, key)
	}
	begun := time.Now()
	defer func() { // after a panic too
		runs := r.runs.Load()
		if runs == nil {
			info, _ := reconcile.RunInfo(ctx)
			runs = r.c.exemplarsOf(info.Controller)
			r.runs.Store(runs)
		}
		runs.add(time.Since(begun), labels)
	}()
	return r.next.Reconcile(ctx, key)
}

// runExemplars holds the newest exemplar of each bucket of a controller's run times.
type runExemplars [64]atomic.Pointer[prometheus.Exemplar] // reconcileBuckets, and one beyond

func (e *runExemplars) add(took time.Duration, labels prometheus.Labels) {
	value := took.Seconds()
	e[sort.SearchFloat64s(reconcileBuckets, value)].Store(&prometheus.Exemplar{Value: value, Labels: labels, Timestamp: time.Now()})
}

// list returns what there is; e may be nil.
func (e *runExemplars) list() (all []prometheus.Exemplar) {
	if e == nil {
		return nil
	}
	for i := range e {
		if x := e[i].Load(); x != nil {
			all = append(all, *x)
		}
	}
	return all
}

// exemplarsOf returns those of a controller, made when they are first asked for.
func (c *Collector) exemplarsOf(controller string) *runExemplars {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs[controller] == nil {
		c.runs[controller] = new(runExemplars)
	}
	return c.runs[controller]
}

// exemplarsSeen is what a scrape shows of a controller.
func (c *Collector) exemplarsSeen(controller string) []prometheus.Exemplar {
	c.mu.Lock()
	e := c.runs[controller]
	c.mu.Unlock()
	return e.list()
}
