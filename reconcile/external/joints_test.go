package external_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
)

// live runs the world's reconciler under a controller whose polls and backoff are a
// day long, so that only a change of the object wakes it.
func (w *world) live() (stop func()) {
	w.t.Helper()
	w.o.Poll = 24 * time.Hour
	w.restart(nil)
	return w.startWith(reconcile.Options[reconcile.Request]{
		Workers: 2, Backoff: queue.Backoff{Base: 24 * time.Hour, Max: 24 * time.Hour},
	})
}

func (w *world) rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// case 4, over a controller: lifting the pause is what wakes the key, whatever it
// waits for.
//
// Negative controls: mutants "lifting a pause concerns no source" and "lifting a pause
// ends no backoff".
func TestLiftingThePauseWakesTheKey(t *testing.T) {
	t.Run("that is in order", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			defer w.live()()
			w.declare()
			w.rest(10 * time.Second)
			w.edit(func(o *disk) { o.Paused = true })
			w.rest(10 * time.Second)
			w.edit(func(o *disk) { o.Spec.Size = "2" })
			w.rest(10 * time.Second)
			w.wantCondition(store.ConditionSynced, store.False, external.ReasonPaused)
			w.wantCalls(map[string]int{"Update": 0})
			w.edit(func(o *disk) { o.Paused = false })
			w.rest(10 * time.Second)
			w.wantCondition(store.ConditionSynced, store.True, "")
			w.wantCalls(map[string]int{"Update": 1})
		})
	})
	t.Run("that fails", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			w.cloud = must(reconciletest.NewCloud(&reconciletest.CloudOptions{UniqueNames: true, Errors: 1}))
			defer w.live()()
			w.declare()
			w.rest(time.Second)
			w.edit(func(o *disk) { o.Paused = true })
			w.cloud.Heal()
			w.rest(time.Second)
			w.wantCalls(map[string]int{"Get": 1})
			w.edit(func(o *disk) { o.Paused = false })
			w.rest(10 * time.Second)
			w.wantCondition(store.ConditionReady, store.True, "")
			w.wantCondition(store.ConditionSynced, store.True, "")
		})
	})
	t.Run("that its policy paused", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			defer w.live()()
			w.declare(func(o *disk) { o.Annotations = map[string]string{external.PolicyAnnotation: "paused"} })
			w.rest(10 * time.Second)
			w.wantCondition(store.ConditionSynced, store.False, external.ReasonPaused)
			w.wantCalls(map[string]int{"Get": 0, "Create": 0})
			w.edit(func(o *disk) { o.Annotations = nil })
			w.rest(10 * time.Second)
			w.wantCondition(store.ConditionSynced, store.True, "")
			w.wantCondition(store.ConditionReady, store.True, "")
		})
	})
}

// An operator that has looked does not wait for the slow resync of parked keys.
//
// Negative control: mutant "a cleared create wakes no worker".
func TestClearPendingWakesTheParkedKey(t *testing.T) {
	for name, answer := range map[string]string{"it was not created": "", "it was created": "r-000001"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.cloud = must(reconciletest.NewCloud(&reconciletest.CloudOptions{Seed: 1, Lost: 1}))
				w.o.Naming = external.ByCloud
				defer w.live()()
				w.declare()
				w.rest(time.Second)
				w.edit(func(o *disk) { o.Spec.Size = "2" }) // the second run finds the create pending
				w.rest(time.Second)
				w.wantCondition(store.ConditionSynced, store.False, external.ReasonCreateIncomplete)
				w.cloud.Heal()
				if answer == "" {
					w.cloud.Remove("r-000001")
				}
				if err := w.rec.ClearPending(t.Context(), key, answer); err != nil {
					t.Fatal(err)
				}
				w.rest(10 * time.Second)
				w.wantCondition(store.ConditionReady, store.True, "")
				if got := sizes(w.cloud); got != "2" {
					t.Errorf("disks of the sizes %q, want one of size 2", got)
				}
			})
		})
	}
}

// case 95: each way to fail is one event, with its reason, and the next one is another.
//
// Negative control: mutant "a failure is no event".
func TestEveryFailureIsAnEvent(t *testing.T) {
	fails := func(context.Context, *disk) error { return errors.New("busy") }
	there := func(seen external.Observation) func(context.Context, *disk) (external.Observation, error) {
		return func(context.Context, *disk) (external.Observation, error) { return seen, nil }
	}
	for reason, f := range map[string]external.ClientFuncs[diskSpec, diskStatus]{
		external.ReasonObserveFailed: {ObserveFunc: func(context.Context, *disk) (external.Observation, error) {
			return external.Observation{}, errors.New("busy")
		}},
		external.ReasonCreateFailed: {ObserveFunc: there(external.Observation{}), CreateFunc: fails},
		external.ReasonUpdateFailed: {ObserveFunc: there(external.Observation{Exists: true}), UpdateFunc: fails},
		external.ReasonDeleteFailed: {ObserveFunc: there(external.Observation{Exists: true}), DeleteFunc: fails},
	} {
		t.Run(reason, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.declare(func(o *disk) { o.Finalizers = []string{must(finalizerName())} })
				if reason == external.ReasonDeleteFailed {
					w.delete()
				}
				w.with(f)
				w.fails()
				w.fails()
				wantSlice(t, "events", w.reasons(), []string{reason, reason})
				for _, e := range w.events {
					if !e.Warning || e.Key != key || e.Kind != "Disk" || e.Count != 1 || !strings.Contains(e.Message, "busy") {
						t.Errorf("event %+v, want a warning about the object that counts once and says why", e)
					}
				}
			})
		})
	}
	t.Run(external.ReasonConnectFailed, func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			w.with(external.ConnectorFunc[diskSpec, diskStatus](func(context.Context, *disk) (external.Client[diskSpec, diskStatus], error) {
				return nil, errors.New("busy")
			}))
			w.declare()
			w.fails()
			wantSlice(t, "events", w.reasons(), []string{external.ReasonConnectFailed})
		})
	})
}

// case 11, 88: the run was cancelled while Create ran, and the store refuses at first.
//
// Negative control: mutant "the outcome of a create goes by the run's context".
func TestOutcomeOfACancelledRunIsStoredWhenTheStoreTakesItAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Naming = external.ByCloud
		w.cloud = must(reconciletest.NewCloud(nil))
		w.restart(nil)
		w.declare()
		refusals, created := 4, false
		good := w.store
		w.store = must(store.New[diskSpec, diskStatus](&failing{w.backend, func() error {
			if created && refusals > 0 {
				refusals--
				return errDisk
			}
			return nil
		}}, "Disk", nil))
		ctx, cancel := context.WithCancel(t.Context())
		w.with(external.ClientFuncs[diskSpec, diskStatus]{
			ObserveFunc: w.client.Observe,
			CreateFunc: func(_ context.Context, o *disk) error {
				created = true
				cancel()
				return w.client.Create(t.Context(), o)
			},
		})
		w.store = good
		_, _ = w.rec.Reconcile(ctx, key) // what it returns after its end counts for nothing
		if i := w.get().Intent; i.Succeeded.IsZero() || i.ExternalName != "r-000001" {
			t.Errorf("intent %+v, want the success and the name on record", i)
		}
	})
}

// case 88: what takes over the storing gets a context that is alive and bounded.
func TestPersistHookOutlivesTheRun(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		asked := 0
		w.o.Persist = func(ctx context.Context, _ store.Key, _ func(*disk) error) error {
			asked++
			if end, bounded := ctx.Deadline(); ctx.Err() != nil || !bounded || time.Until(end) <= 0 {
				t.Errorf("the context of Persist: %v, deadline %v; want one that is alive and bounded", ctx.Err(), end)
			}
			return nil
		}
		w.restart(nil)
		w.with(external.ClientFuncs[diskSpec, diskStatus]{
			ObserveFunc: w.client.Observe,
			CreateFunc:  func(context.Context, *disk) error { cancel(); return nil },
		})
		w.declare()
		_, _ = w.rec.Reconcile(ctx, key)
		if asked != 1 {
			t.Errorf("Persist was called %d times, want once", asked)
		}
	})
}

// An object in deletion keeps its spec: it is not filled in any more.
//
// Negative control: mutant "late initialisation goes on in a deletion".
func TestNothingIsFilledInDuringADeletion(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.cloud = must(reconciletest.NewCloud(&reconciletest.CloudOptions{UniqueNames: true, DeleteTakes: time.Minute}))
		w.restart(nil)
		w.converged()
		w.edit(func(o *disk) { o.Spec.Zone = "" })
		w.delete()
		deleting := w.get()
		w.run()
		if o := w.get(); o.Spec.Zone != "" || o.Generation != deleting.Generation {
			t.Errorf("spec %+v of generation %d, want it as the deletion found it (%d)", o.Spec, o.Generation, deleting.Generation)
		}
		w.wantCalls(map[string]int{"Delete": 1})
	})
}

// case 97: so an empty name is the kind's, for all that makes controllers of objects.
func TestControllerOfAReconcilerIsNamedForItsKind(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.restart(nil)
		c := must(w.rec.Controller("", nil, nil))
		if c.Name() != "Disk" {
			t.Errorf("Name() = %q, want the kind", c.Name())
		}
		if named := must(w.rec.Controller("disks", nil, nil)); named.Name() != "disks" {
			t.Errorf("Name() = %q, want the name given", named.Name())
		}
		var m reconcile.Manager
		if err := m.Register(c); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }() // ends at cancel
		w.declare()
		w.rest(10 * time.Second)
		w.wantCondition(store.ConditionReady, store.True, "")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := w.rec.Controller("", nil, &reconcile.Options[reconcile.Request]{Workers: -1}); err == nil {
			t.Error("options that cannot be were taken")
		}
	})
}

// promise E1, L2: a run that is over before Create is called calls nothing, and knows so:
// the create is on record as failed and not as one of unknown outcome, which would ask
// for an operator.
//
// Negative control: mutant "the cloud is called after the end of the run".
func TestCreateIsNotCalledAfterTheEndOfTheRun(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Naming = external.ByCloud
		w.cloud = must(reconciletest.NewCloud(nil))
		ctx, cancel := context.WithCancel(t.Context())
		commits := 0
		w.restart(&reconciletest.Steps{At: func(_ int, name string) {
			if name == "after store Commit" {
				if commits++; commits == 3 { // the object, the finalizer, the intent
					cancel()
				}
			}
		}})
		w.declare()
		if _, err := w.rec.Reconcile(ctx, key); err == nil {
			t.Error("the run succeeded")
		}
		w.wantCalls(map[string]int{"Create": 0})
		if i := w.get().Intent; i.Attempt != 1 || i.Failed.IsZero() {
			t.Errorf("intent %+v, want one attempt that failed", i)
		}
		w.restart(nil)
		w.run()
		w.run()
		w.wantCondition(store.ConditionReady, store.True, "")
		w.wantCalls(map[string]int{"Create": 1})
	})
}
