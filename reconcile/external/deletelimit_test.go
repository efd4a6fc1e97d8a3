package external_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
)

// deleteWorld has n disks that are as declared, and then all are to be deleted.
func deleteWorld(t *testing.T, w *world, n int) (keys []store.Key) {
	w.o.DeleteLimit = 3
	w.restart(nil)
	keys = w.populate(n)
	w.reconcileAll(keys)
	for _, k := range keys {
		if err := w.store.Delete(t.Context(), must(w.store.Get(t.Context(), k))); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

// wantDeleted runs each key a few times and wants so many resources deleted so far.
func (w *world) wantDeleted(when string, keys []store.Key, n int) {
	w.t.Helper()
	for range 3 {
		for _, k := range keys {
			if _, err := w.rec.Reconcile(w.ctx(), k); err != nil && !errors.Is(err, store.ErrNotFound) {
				w.t.Fatalf("%s: %v", when, err)
			}
		}
	}
	if got := len(keys) - len(w.cloud.Truth()); got != n {
		w.t.Errorf("%s: %d resources are deleted, want %d", when, got, n)
	}
}

// promise E2: what goes beyond the limit of deletions waits for an operator, whatever
// time goes by and whatever process comes.
//
// Negative controls: mutants "deletions have no limit" and "a hold of deletions ends with
// the process".
func TestDeletesBeyondTheLimitWaitForAWord(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys := deleteWorld(t, w, 12)
		w.wantDeleted("at the limit", keys, 3)
		held := must(w.store.Get(t.Context(), keys[11]))
		if c, _ := held.Condition(store.ConditionSynced); c.Reason != external.ReasonDeletesHeld {
			t.Errorf("the condition of what waits is %+v, want %s", c, external.ReasonDeletesHeld)
		}
		w.restart(nil)
		w.wantDeleted("by the next process", keys, 3)
		time.Sleep(3 * time.Hour)
		w.wantDeleted("hours later", keys, 3)
		if err := w.rec.AllowDeletes(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
		w.wantDeleted("after four were allowed", keys, 7)
		w.restart(nil)
		w.wantDeleted("by a third process", keys, 7)
		reason, allowed, err := w.rec.DeletesHeld(t.Context())
		if reason == "" || allowed != 0 || err != nil {
			t.Errorf("held %q, %d allowed, %v; want a reason and none allowed", reason, allowed, err)
		}
		if err := w.rec.ResumeDeletes(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.wantDeleted("after the hold was ended", keys, 10)
		time.Sleep(time.Hour)
		w.wantDeleted("an hour after that", keys, 10) // it is held again
	})
}

// What is allowed again comes to what was allowed before, and is not used up.
//
// promise E2. Negative control: mutant "a second word on deletions takes the place of the first".
func TestAllowedDeletesAddUp(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys := deleteWorld(t, w, 12)
		w.wantDeleted("at the limit", keys, 3)
		for _, n := range []int{3, 2} {
			if err := w.rec.AllowDeletes(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		if _, allowed, err := w.rec.DeletesHeld(t.Context()); allowed != 5 || err != nil {
			t.Errorf("%d are allowed, %v; want 3 and 2", allowed, err)
		}
		w.wantDeleted("after three and two were allowed", keys, 8)
	})
}

// What an operator allows first is not held at all, by several servers together.
func TestAllowedDeletesAreSharedByTheServers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys := deleteWorld(t, w, 200)
		if err := w.rec.AllowDeletes(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		first := w.rec
		w.restart(nil)
		for i, k := range keys {
			r := first
			if i%2 == 1 {
				r = w.rec
			}
			for range 2 {
				must(r.Reconcile(t.Context(), k))
			}
		}
		// Each server has a limit of its own besides.
		if got := len(keys) - len(w.cloud.Truth()); got != 100+2*3 {
			t.Errorf("%d resources are deleted, want the 100 that were allowed and 3 by each server", got)
		}
	})
}

// A deletion that takes several tries counts once, and without a limit none is counted.
func TestDeleteThatIsTriedAgainCountsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys := deleteWorld(t, w, 3)
		fail := errors.New("busy")
		failing := must(external.New(w.store, external.ClientFuncs[diskSpec, diskStatus]{
			ObserveFunc: w.client.Observe, DeleteFunc: func(context.Context, *disk) error { return fail },
		}, &w.o))
		for range 20 {
			for _, k := range keys {
				if _, err := failing.Reconcile(t.Context(), k); !errors.Is(err, fail) {
					t.Fatalf("%v, want the client's own error", err)
				}
			}
		}
	})
	bubble(t, func(t *testing.T, w *world) {
		keys := deleteWorld(t, w, 30)
		w.o.DeleteLimit = 0
		w.restart(nil)
		w.wantDeleted("without a limit", keys, 30)
		synctest.Wait()
	})
	if _, err := external.New(newWorld(t).store, external.Nop[diskSpec, diskStatus](), &external.Options[diskSpec, diskStatus]{DeleteLimit: -1}); err == nil {
		t.Error("a limit of -1 was accepted")
	}
	w := newWorld(t)
	if err := w.rec.AllowDeletes(t.Context(), 0); err == nil {
		t.Error("a word for no deletion was accepted")
	}
}

// A deletion that was begun goes on while others are held: its resource may be half gone.
//
// promise E2. Negative control: mutant "a deletion that was begun is held".
func TestDeleteThatWasBegunIsNotHeld(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys, busy := deleteWorld(t, w, 5), errors.New("busy")
		failing := must(external.New(w.store, external.ClientFuncs[diskSpec, diskStatus]{
			ObserveFunc: w.client.Observe, DeleteFunc: func(context.Context, *disk) error { return busy },
		}, &w.o))
		for range 3 {
			called := 0
			for _, k := range keys {
				switch _, err := failing.Reconcile(t.Context(), k); {
				case errors.Is(err, busy):
					called++
				case err != nil:
					t.Fatal(err)
				}
			}
			if called != 3 {
				t.Errorf("%d deletions were tried, want the three that were begun", called)
			}
		}
	})
}

// A deletion that takes longer than the window counts once, however often it is looked at.
//
// promise E2. Negative control: mutant "a deletion that lasts counts again".
func TestDeletionThatLastsCountsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.DeleteLimit = 3
		w.restart(nil)
		keys := w.populate(4)
		w.reconcileAll(keys)
		w.with(external.ClientFuncs[diskSpec, diskStatus]{
			ObserveFunc: w.client.Observe, CreateFunc: w.client.Create, UpdateFunc: w.client.Update,
			DeleteFunc: func(context.Context, *disk) error { return nil }, // it is under way
		})
		gone := func(k store.Key) {
			if err := w.store.Delete(t.Context(), must(w.store.Get(t.Context(), k))); err != nil {
				t.Fatal(err)
			}
		}
		for _, k := range keys[:3] {
			gone(k)
		}
		for range 90 {
			w.reconcileAll(keys[:3])
			time.Sleep(time.Minute)
		}
		gone(keys[3]) // one in this hour
		w.reconcileAll([]store.Key{keys[3], keys[0], keys[1], keys[2]})
		if reason, _, err := w.rec.DeletesHeld(t.Context()); reason != "" || err != nil {
			t.Errorf("held: %q, %v; want no hold: one deletion was begun within the hour", reason, err)
		}
	})
}

// An operator that allows as many as there are, and does so twice, allows no fewer.
//
// Negative control: mutant "allowed deletions overflow".
func TestAllowedDeletesDoNotOverflow(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys := deleteWorld(t, w, 5)
		w.reconcileAll(keys)
		for range 2 {
			if err := w.rec.AllowDeletes(t.Context(), math.MaxInt); err != nil {
				t.Fatal(err)
			}
		}
		w.reconcileAll(keys)
		if n := w.cloud.Calls("Delete"); n != 5 {
			t.Errorf("%d resources were deleted, want all 5", n)
		}
	})
}
