package web

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/event"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store/objects"
)

// whenItRuns is the handler that New makes of the Program's parts when they are all there.
func (o *Options) whenItRuns(m *reconcile.Manager) http.Handler {
	var built atomic.Pointer[http.Handler]
	if o.Metrics == nil {
		o.Metrics = metrics.New(m)
	}
	o.Program.BeforeRun(func() error {
		stored, err := o.addParts()
		if err != nil {
			return err
		}
		h, err := o.build(m, stored)
		built.Store(&h)
		return err
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := built.Load(); h != nil && *h != nil {
			(*h).ServeHTTP(w, r)
			return
		}
		http.Error(w, "the program does not run yet", http.StatusServiceUnavailable)
	})
}

// addParts adds the parts of the Program to the options. Stored are its kinds, for the API.
func (o *Options) addParts() (stored []objects.Kind, err error) {
	var page debug.Options
	if o.Debug != nil {
		page = *o.Debug
	}
	var buckets []func() []*ratelimit.Bucket
	if page.Buckets != nil {
		buckets = append(buckets, page.Buckets)
	}
	seen := map[any]bool{}
	for _, part := range o.Program.Parts() {
		if reflect.ValueOf(part).Comparable() {
			if seen[part] { // as an inventory that its reconciler names too
				continue
			}
			seen[part] = true
		}
		switch p := part.(type) {
		case interface {
			ObjectKinds() (cached, stored objects.Kind)
		}:
			cached, all := p.ObjectKinds()
			o.Objects = append(slices.Clip(o.Objects), cached)
			stored = append(stored, all)
		case *quota.Set:
			buckets = append(buckets, p.Buckets)
			err = o.Metrics.AddQuotas(p)
		case interface{ Stats() introspect.External }:
			err = o.Metrics.AddExternal(p)
		case debug.Inventory:
			page.Inventories = append(slices.Clip(page.Inventories), p)
			err = o.Metrics.AddInventory(p)
		case *ratelimit.Bucket:
			buckets = append(buckets, func() []*ratelimit.Bucket { return []*ratelimit.Bucket{p} })
			err = o.Metrics.AddBucket(p)
		case *event.Log:
			page.Events = p
		case *depend.Graph:
			page.Needs = p
		case prometheus.Collector:
			o.Collectors = append(slices.Clip(o.Collectors), p)
		case reconcile.Runner, program.Part: // it runs
		default:
			err = fmt.Errorf("nothing is known of a part of type %T, and it does not run", part)
		}
		if err != nil {
			return nil, fmt.Errorf("web: New: Options.Program: %w", err)
		}
	}
	if len(buckets) > 0 {
		page.Buckets = func() (all []*ratelimit.Bucket) {
			for _, of := range buckets {
				all = append(all, of()...)
			}
			return all
		}
	}
	o.Debug = &page
	return stored, nil
}
