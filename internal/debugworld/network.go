package debugworld

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

// kindOf is a kind of the network below, with its controller.
type kindOf struct {
	store *store.Store[Spec, Status]
	cache *cache.Cache[Spec, Status]
}

// network is a manager of VPCs, subnets and machines, which need each other in that order.
// Every seventh machine is refused, those of the last subnet wait for it.
func network(t *testing.T, g *depend.Graph, m *reconcile.Manager, quota *ratelimit.Bucket) map[string]kindOf {
	t.Helper()
	b := must(memory.New(nil))
	kinds := map[string]kindOf{}
	for _, name := range []string{"vpc", "subnet", "machine"} {
		k := kindOf{store: must(store.New[Spec, Status](b, name, nil))}
		k.cache = must(cache.New(k.store, nil))
		runs := map[string]int{}
		run := func(ctx context.Context, o *Bucket) (reconcile.Result, error) {
			runs[o.Name]++
			time.Sleep(time.Duration(50+len(o.Name)*runs[o.Name]%400) * time.Millisecond)
			if o.Labels["refused"] != "" || o.Labels["flaps"] != "" && runs[o.Name]%5 == 0 {
				o.SetCondition(store.Condition{Type: store.ConditionSynced, Status: store.False, Reason: "Refused", Message: "the quota of addresses is used up"})
				_ = must(k.store.UpdateStatus(ctx, o))
				return reconcile.Result{}, errors.New("POST https://cloud.example/machines: 409 the quota of addresses is used up")
			}
			o.SetCondition(store.Condition{Type: store.ConditionSynced, Status: store.True})
			o.SetReady()
			_, err := k.store.UpdateStatus(ctx, o)
			return reconcile.Result{RequeueAfter: 3 * time.Minute}, err
		}
		o := &reconcile.Options[reconcile.Request]{
			Logger: slog.New(slog.DiscardHandler), Workers: 1, Backoff: queue.Backoff{Base: time.Minute, Max: 5 * time.Minute, NoJitter: true},
			Queue: queue.Options[reconcile.Request]{Buckets: func(_ reconcile.Request, to []*ratelimit.Bucket) []*ratelimit.Bucket { return append(to, quota) }},
		}
		sources, reconciler := []reconcile.Source[reconcile.Request]{reconcile.From(k.cache)}, reconcile.ObjectFunc[Spec, Status](run)
		if before := map[string]string{"subnet": "vpc", "machine": "subnet"}[name]; before != "" {
			tracker := must(depend.New(k.cache, depend.On(kinds[before].cache, func(o *Bucket) []store.Key {
				return []store.Key{{Name: o.Labels["in"]}}
			}, nil), &depend.Options{Graph: g}))
			o.Reads, reconciler = tracker.Caches(), tracker.Wrap(run)
			sources = append(sources, tracker.Source())
		}
		c := must(reconcile.New(name, reconcile.AsReconciler(k.cache, reconciler), o))
		if err := errors.Join(c.Watch(sources...), m.Register(c)); err != nil {
			t.Fatal(err)
		}
		kinds[name] = k
	}
	return kinds
}

// Pages are pages about a network after an hour, made in fake time.
func Pages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	synctest.Test(t, func(t *testing.T) {
		m := &reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
		g := depend.NewGraph()
		quota := must(ratelimit.NewBucket("cloud", 5, 5))
		kinds := network(t, g, m, quota)
		h := must(debug.New(m, &debug.Options{
			Title: "network", Needs: g, Buckets: func() []*ratelimit.Bucket { return []*ratelimit.Bucket{quota} }, Logger: slog.New(slog.DiscardHandler),
			Objects: []objects.Kind{objects.OfCache(kinds["vpc"].cache), objects.OfCache(kinds["subnet"].cache), objects.OfCache(kinds["machine"].cache)},
		}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }() // ended by cancel, waited for below
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		declare := func(kind, name, in string, labels ...string) {
			o := &Bucket{Meta: store.Meta{Name: name, Labels: map[string]string{"in": in}}}
			for _, l := range labels {
				o.Labels[l] = "yes"
			}
			_ = must(kinds[kind].store.Create(ctx, o))
		}
		for i := range 4 {
			declare("vpc", fmt.Sprint("vpc-", i), "")
			for j := range 5 {
				subnet := fmt.Sprintf("net-%d-%d", i, j)
				if i == 3 && j == 4 {
					declare("subnet", subnet, "vpc-3", "refused")
				} else {
					declare("subnet", subnet, fmt.Sprint("vpc-", i))
				}
				for k := range 15 {
					name := fmt.Sprintf("vm-%d-%d-%02d", i, j, k)
					switch {
					case i == 1 && j == 2 && k%7 == 3:
						declare("machine", name, subnet, "refused")
					case k == 5:
						declare("machine", name, subnet, "flaps")
					default:
						declare("machine", name, subnet)
					}
				}
			}
			time.Sleep(14 * time.Minute)
		}
		if o := must(kinds["machine"].store.Get(ctx, store.Key{Name: "vm-0-0-00"})); true {
			o.Paused = true
			o.AddFinalizer("cloud.example/machine")
			_ = must(kinds["machine"].store.Update(ctx, o))
		}
		o := must(kinds["machine"].store.Get(ctx, store.Key{Name: "vm-0-1-01"}))
		o.AddFinalizer("cloud.example/machine")
		o = must(kinds["machine"].store.Update(ctx, o))
		if err := kinds["machine"].store.Delete(ctx, o); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		pages["look"] = get(t, h)
		pages["look-controller"] = get(t, h, "c", "machine")
		pages["look-key"] = get(t, h, "c", "machine", "key", "vm-1-2-03")
		pages["look-flapping"] = get(t, h, "c", "machine", "key", "vm-0-0-05")
		pages["look-object"] = get(t, h, "view", "object", "kind", "subnet", "key", "net-3-4")
	})
	return pages
}

// get asks for a page.
func get(t *testing.T, h http.Handler, pairs ...string) string {
	t.Helper()
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/debug?"+q.Encode(), nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%v: %d:\n%s", q, w.Code, w.Body)
	}
	return w.Body.String()
}
