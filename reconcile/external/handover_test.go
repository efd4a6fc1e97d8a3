package external_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
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
			if _, err := w.rec.Reconcile(w.ctx(), key); err != nil {
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
					return func(yield func(resource, error) bool) { yield(resource{}, ratelimit.Throttled(nil, until, nil)) }
				}
				return list(ctx)
			}
		})
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

// A list that takes longer than it may be old serves the runs that ended for want of it,
// and so does one that fails: they come back once, and hold no worker for a list of their
// own.
//
// It was seen to fail with the age of the list asked for as of the run that came back: no
// object was ever looked at, and the list was made again and again.
//
// Negative control: mutant "a run that comes back for a list asks again".
func TestListThatTakesLongServesTheRunsThatLeftForIt(t *testing.T) {
	for name, fails := range map[string]bool{"list": false, "list that fails": true, "list that panics": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				exclusive(w, 0)
				w.restart(nil)
				lists := 0
				w.lists = w.inventory(func(o *invOpts) {
					list := o.List
					o.Fresh = time.Minute
					o.List = func(ctx context.Context) iter.Seq2[resource, error] {
						return func(yield func(resource, error) bool) {
							lists++
							sleep.For(ctx, 5*time.Minute)
							switch {
							case name == "list that panics":
								panic("boom")
							case fails:
								yield(resource{}, errors.New("no list today"))
							default:
								list(ctx)(yield)
							}
						}
					}
				})
				w.reconcileBy(w.lists)
				w.declare()
				stop := w.startWith(reconcile.Options[reconcile.Request]{Workers: 4})
				defer stop()
				time.Sleep(5*time.Minute + 10*time.Second)
				synctest.Wait()
				w.wantCalls(map[string]int{"Create": 1})
				time.Sleep(6 * time.Minute) // a second list is for the look after the create
				synctest.Wait()
				if w.wantCondition(store.ConditionReady, store.True, ""); lists > 2 {
					t.Errorf("%d lists were begun", lists)
				}
			})
		})
	}
}
