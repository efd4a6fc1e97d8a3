package external_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// A resource that differs, and that the policy forbids to update, still uses what the
// object needed before: that stays held, although the object is Ready; also by a process
// that was started since, and whose first look waits for its phase.
//
// promise E2. Negative control: mutant "a run that has not looked drops holds"; with that the
// old zone was let go by the first run after a restart.
func TestWhatAResourceThatMayNotBeUpdatedUsesStaysHeld(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		zones := must(store.New[struct{}, struct{}](w.backend, "Zone", nil))
		known := must(cache.New(zones, nil))
		for _, name := range []string{"old", "new"} {
			o := must(zones.Create(t.Context(), &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: name}}))
			o.SetReady()
			must(zones.UpdateStatus(t.Context(), o))
		}
		go func() { _ = known.Run(t.Context()) }()
		<-known.Synced()
		w.o.Policy = func(*disk) (external.Policy, error) {
			return external.Observe | external.Create | external.Delete, nil
		}
		w.o.Poll, w.o.PollPhase = time.Hour, true
		start := func() {
			w.o.Depends = must(depend.New(must(cache.New(w.store, nil)), depend.On(known, func(o *disk) []store.Key {
				return []store.Key{{Name: o.Labels["zone"]}}
			}, nil), nil))
			w.restart(nil)
		}
		start()
		o := w.converged(func(o *disk) { o.Labels = map[string]string{"zone": "old"} })
		if o.Annotations[depend.HoldsAnnotation] != `["=Zone/old"]` {
			t.Fatalf("it holds %s", o.Annotations[depend.HoldsAnnotation])
		}
		w.edit(func(o *disk) { o.Labels["zone"], o.Spec.Size = "new", "2" })
		for range 2 {
			w.run()
			time.Sleep(time.Second)
			w.run()
			w.wantCondition(store.ConditionSynced, store.True, external.ReasonDiffers)
			if got := w.get().Annotations[depend.HoldsAnnotation]; got != `["=Zone/old","=Zone/new"]` {
				t.Fatalf("the disk still uses the old zone, and the object holds %s", got)
			}
			start()
		}
		if looks := w.cloud.Calls("Get"); w.run().RequeueAfter == 0 || w.cloud.Calls("Get") != looks {
			t.Error("the first run after a restart looked; want it to wait for its phase, or this shows nothing")
		}
	})
}

// A run that panicked is over: what its object needs wakes it again.
//
// promise Q4. Negative control: mutant "an external run that panicked goes on for what it needs".
func TestWhatAnObjectNeedsWakesItAfterARunThatPanicked(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		zones := must(store.New[struct{}, struct{}](w.backend, "Zone", nil))
		must(zones.Create(t.Context(), &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: "z"}}))
		ready := func(is bool) {
			must(zones.Mutate(t.Context(), store.Key{Name: "z"}, func(o *store.Object[struct{}, struct{}]) error {
				if o.SetProgressing("Changing", ""); is {
					o.SetReady()
				}
				return nil
			}))
			time.Sleep(time.Second)
		}
		ready(true)
		known, disks := must(cache.New(zones, nil)), must(cache.New(w.store, nil))
		w.o.Depends = must(depend.New(disks, depend.On(known, func(*disk) []store.Key { return []store.Key{{Name: "z"}} }, nil), nil))
		var looks atomic.Int32
		var panics atomic.Bool
		w.with(external.Always[diskSpec, diskStatus](external.ClientFuncs[diskSpec, diskStatus]{
			ObserveFunc: func(ctx context.Context, o *disk) (external.Observation, error) {
				if looks.Add(1); panics.Load() {
					panic("boom")
				}
				return w.client.Observe(ctx, o)
			},
			CreateFunc: w.client.Create, UpdateFunc: w.client.Update, DeleteFunc: w.client.Delete,
		}))
		w.declare()
		_, stop := w.serve(&reconcile.Options[reconcile.Request]{Backoff: queue.Backoff{Base: time.Hour, Max: time.Hour}}, nil, known)
		defer stop() // the Manager runs disks too
		time.Sleep(10 * time.Second)
		w.wantCondition(store.ConditionReady, store.True, "")
		panics.Store(true)
		w.edit(func(o *disk) { o.Spec.Size = "2" })
		time.Sleep(time.Second)
		w.wantCondition(store.ConditionSynced, store.False, external.ReasonPanicked)
		panics.Store(false)
		ready(false)
		was := looks.Load()
		ready(true)
		if looks.Load() == was {
			t.Error("it did not run when what it needs was ready again")
		}
	})
}
