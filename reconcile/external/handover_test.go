package external_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
)

// A server that takes an object over has a list from before another server created the
// resource. However long ago it learned of the create, that list is no reason to create
// the resource again: the server looks at it.
//
// It was seen to fail with a list that sufficed as soon as the creation grace was over:
// after a handover one or two of a hundred creates were refused, each object in turn was
// shown as failed, and ran again.
//
// Negative control: mutant "a list from before a create suffices after the grace".
//
// promise E1
func TestListFromBeforeACreateIsNoReasonToCreate(t *testing.T) {
	for name, after := range map[string]time.Duration{"within the grace": time.Second, "after it": 2 * time.Minute} {
		bubble(t, func(t *testing.T, w *world) {
			exclusive(w, 0)
			w.o.Poll, w.o.PollPhase = 10*time.Minute, true
			w.restart(nil)
			second := w.inventory(func(o *invOpts) { o.Fresh = w.o.Poll })
			if _, exists, err := second.Look(t.Context(), "nothing"); exists || err != nil {
				t.Fatal(exists, err)
			}
			w.converged() // by the first server
			w.reconcileBy(second)
			w.run() // the second server learns of the create; its poll is not due
			time.Sleep(after)
			w.edit(func(o *disk) { o.Spec.Size = "2" })
			if _, err := w.rec.Reconcile(t.Context(), key); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			w.wantCalls(map[string]int{"Create": 1, "Update": 1})
			w.wantCondition(store.ConditionSynced, store.True, "")
		})
	}
}

// A list that is refused for want of a budget, as on a server that has just begun and has
// no part of it yet, is made when there is one: the resources are not read one by one
// meanwhile, nor afterwards.
//
// It was seen to fail with such a list counted as one that failed: for a quarter of Fresh
// each resource was read by itself, and a server that joined in the middle of 1,500 creates
// made none for half a minute.
func TestListWithoutBudgetIsMadeWhenThereIsOne(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		exclusive(w, 0)
		w.restart(nil)
		begun := time.Now()
		w.lists = w.inventory(func(o *invOpts) {
			list := o.List
			o.Fresh = 10 * time.Minute
			o.List = func(ctx context.Context) iter.Seq2[resource, error] {
				if until := begun.Add(5 * time.Second); time.Now().Before(until) {
					return func(yield func(resource, error) bool) { yield(resource{}, queue.Throttled(nil, until, nil)) }
				}
				return list(ctx)
			}
		})
		w.o.Recorder = external.RecorderFunc(func(context.Context, external.Event) error { return nil })
		w.reconcileBy(w.lists)
		w.declare()
		stop := w.startWith(reconcile.Options[reconcile.Request]{Workers: 4})
		defer stop()
		time.Sleep(2 * time.Second)
		w.declare(func(o *disk) { o.Name = "later" })
		time.Sleep(6 * time.Second)
		synctest.Wait()
		w.wantCalls(map[string]int{"List": 1, "Create": 2, "Get": 2}) // the looks after the creates
		w.wantCondition(store.ConditionReady, store.True, "")
	})
}
