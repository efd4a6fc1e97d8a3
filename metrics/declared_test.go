package metrics_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

// Metrics, the page and a program say the same of each object: whether it is as declared.
//
// Before, a Ready object in deletion, and one whose last reconcile failed, were ready to the
// metrics; the second was done for a program.
func TestMetricsPagesAndProgramsAgreeOnWhatIsAsDeclared(t *testing.T) {
	type object = store.Object[int, struct{}]
	synced := func(s store.ConditionStatus) func(o *object) {
		return func(o *object) {
			o.SetReady()
			o.SetCondition(store.Condition{Type: store.ConditionSynced, Status: s, Reason: "Said"})
		}
	}
	for name, c := range map[string]struct {
		status func(o *object)
		change func(o *object) // after it was ready
		delete bool
		newer  bool
		want   float64
	}{
		"ready":              {status: (*object).SetReady, want: 1},
		"ready and synced":   {status: synced(store.True), want: 1},
		"failing":            {status: synced(store.False)},
		"edited":             {status: (*object).SetReady, change: func(o *object) { o.Spec++ }},
		"paused":             {status: synced(store.False), change: func(o *object) { o.Paused = true }, want: 1},
		"in deletion":        {status: (*object).SetReady, delete: true},
		"of a newer version": {status: (*object).SetReady, newer: true},
		"never reconciled":   {status: func(*object) {}},
		"says only a phase":  {status: func(o *object) { o.Phase, o.ObservedGeneration = store.PhaseReady, o.Generation }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, err := memory.New(nil)
				if err != nil {
					t.Fatal(err)
				}
				kind := func(version int) *store.Store[int, struct{}] {
					s, err := store.New[int, struct{}](b, "disk", &store.Options[int, struct{}]{Version: version})
					if err != nil {
						t.Fatal(err)
					}
					return s
				}
				disks := kind(0)
				writer := disks
				if c.newer {
					writer = kind(2)
				}
				o, err := writer.Create(t.Context(), &object{Meta: store.Meta{Name: "a", Finalizers: []string{"x.example/y"}}})
				if err != nil {
					t.Fatal(err)
				}
				c.status(o)
				if o, err = writer.UpdateStatus(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				if c.change != nil {
					c.change(o)
					if _, err := writer.Update(t.Context(), o); err != nil {
						t.Fatal(err)
					}
				}
				if c.delete { // and its reconciler goes on saying that it is ready
					if err := writer.Delete(t.Context(), o); err != nil {
						t.Fatal(err)
					}
					if o, err = writer.Get(t.Context(), o.Key()); err != nil {
						t.Fatal(err)
					}
					c.status(o)
					if _, err = writer.UpdateStatus(t.Context(), o); err != nil {
						t.Fatal(err)
					}
				}
				says := answers(t, disks)
				for who, n := range says {
					if n != c.want {
						t.Errorf("%s: %v are as declared, want %v", who, n, c.want)
					}
				}
			})
		})
	}
}

// answers are how many objects are as declared, by the answers of all that count them.
func answers[S, T any](t *testing.T, disks *store.Store[S, T]) map[string]float64 {
	t.Helper()
	c, err := cache.New(disks, nil)
	if err != nil {
		t.Fatal(err)
	}
	var m reconcile.Manager
	part, err := program.Of(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Register(c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	synctest.Wait()
	time.Sleep(time.Minute)
	says := map[string]float64{"the program": float64(part.Progress().Done)}

	r, collector := prometheus.NewPedanticRegistry(), metrics.New(nil)
	if err := collector.AddObjects(objects.OfCache(c)); err != nil {
		t.Fatal(err)
	}
	r.MustRegister(collector)
	says["metrics"] = gathered(t, r)["tend_objects/disk/ready"].Gauge.GetValue()

	for o, err := range objects.States(ctx, objects.OfCache(c), store.Selector{}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case o.Paused: // pages show that instead
		case inspect.StateOf(o) == "ready":
			says["the page"]++
		default:
			says["the page"] += 0
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	return says
}
