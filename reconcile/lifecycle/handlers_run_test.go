package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/internal/object"
	"github.com/tendhq/tend/store"
)

// case 25
func TestHandlersAreCalledInOrderAndOneThatFailsStopsNoOther(t *testing.T) {
	var d diary
	s := newWidgets(t)
	l := mustNew(t, s, d.handler("one", func(context.Context, *widget) error { return errBoom }), d.handler("two", nil))
	create(t, s, "a")
	runFails(t, l, "a", errBoom)
	d.expect(t, "one Added 1", "two Added 1")
}

// case 30
func TestPendingFinalizerIsStoredBeforeAddAndDoneAfter(t *testing.T) {
	s := newWidgets(t)
	var during []string
	l := mustNew(t, s, Handler[widgetSpec, widgetStatus]{Name: "h", Add: func(ctx context.Context, o *widget) (reconcile.Result, error) {
		during = get(t, s, "a").Finalizers
		return reconcile.Result{}, nil
	}})
	create(t, s, "a")
	run(t, l, "a")
	if want := []string{"pending.tend.widget.h"}; !slices.Equal(during, want) {
		t.Errorf("finalizers during Add = %q, want %q", during, want)
	}
	if got, want := get(t, s, "a").Finalizers, []string{"tend.widget.h"}; !slices.Equal(got, want) {
		t.Errorf("finalizers after Add = %q, want %q", got, want)
	}
}

// case 109, 26
func TestExponentialRetryGivesTheDelaysAndThenParks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		var attempts []int
		exhausted := 0
		s := newWidgets(t)
		h := d.handler("h", func(context.Context, *widget) error { return errBoom })
		policy := queue.ExponentialRetry(5*time.Second, 5)
		h.Retry = func(attempt int, err error) time.Duration {
			attempts = append(attempts, attempt)
			return policy(attempt, err)
		}
		h.OnExhausted = func(context.Context, *widget, error) { exhausted++ }
		l := mustNew(t, s, h)
		create(t, s, "a")
		for _, seconds := range []int{5, 10, 20, 40, 80, 160} {
			delay := time.Duration(seconds) * time.Second
			err := runFails(t, l, "a", errBoom)
			if got, _ := reconcile.Delay(err); got != delay {
				t.Errorf("delay = %v, want %v", got, delay)
			}
			time.Sleep(delay)
		}
		runFails(t, l, "a", reconcile.ErrTerminal)
		if want := []int{0, 1, 2, 3, 4, 5, 6}; !slices.Equal(attempts, want) {
			t.Errorf("policy saw attempts %v, want %v", attempts, want)
		}
		if exhausted != 1 {
			t.Errorf("OnExhausted was called %d times, want once", exhausted)
		}
		if got := len(d.take()); got != 7 {
			t.Errorf("%d calls, want 7", got)
		}
	})
}

// case 27, 110
func TestFailingAddIsRetriedWithTheNewestObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		fail := true
		s := newWidgets(t)
		l := mustNew(t, s, d.handler("h", func(context.Context, *widget) error {
			if fail {
				return errBoom
			}
			return nil
		}))
		create(t, s, "a")
		runFails(t, l, "a", errBoom)
		edit(t, s, "a", resize(2))
		runFails(t, l, "a", errBoom)
		fail = false
		time.Sleep(queue.DefaultMax)
		run(t, l, "a")
		d.expect(t, "h Added 1", "h Added 2", "h Added 2")
		edit(t, s, "a", resize(3))
		run(t, l, "a")
		d.expect(t, "h Updated 2->3")
	})
}

// case 28, 32
func TestDeletionEndsTheRetryOfAFailingAddAndCallsDelete(t *testing.T) {
	var d diary
	s := newWidgets(t)
	l := mustNew(t, s, d.handler("h", func(ctx context.Context, _ *widget) error {
		if Current(ctx).Action == Added {
			return errBoom
		}
		return nil
	}))
	o := create(t, s, "a")
	runFails(t, l, "a", errBoom)
	remove(t, s, o.Name)
	run(t, l, "a")
	d.expect(t, "h Added 1", "h Deleted 1")
	expectGone(t, s, "a")
}

// case 31
func TestAfterARestartAKnownObjectIsResynced(t *testing.T) {
	var d diary
	s := newWidgets(t)
	create(t, s, "a")
	run(t, mustNew(t, s, d.handler("h", nil)), "a")
	edit(t, s, "a", resize(2)) // while we are down
	run(t, mustNew(t, s, d.handler("h", nil)), "a")
	d.expect(t, "h Added 1", "h Resynced 2")
}

// case 111
func TestAfterARestartAFailedAddIsAddedAgain(t *testing.T) {
	var d diary
	s := newWidgets(t)
	create(t, s, "a")
	l := mustNew(t, s, d.handler("h", func(context.Context, *widget) error { return errBoom }))
	runFails(t, l, "a", errBoom)
	run(t, mustNew(t, s, d.handler("h", nil)), "a")
	d.expect(t, "h Added 1", "h Added 1")
}

// case 33; weak point 001 (a): finalizers of others were overwritten, and
// removal went by index.
func TestOthersFinalizersStayAsTheyAre(t *testing.T) {
	var d diary
	s := newWidgets(t)
	create(t, s, "a")
	edit(t, s, "a", func(o *widget) { o.Finalizers = []string{"theirs"} })
	l := mustNew(t, s, d.handler("h", nil))
	run(t, l, "a")
	edit(t, s, "a", func(o *widget) { o.Finalizers = append([]string{"first"}, o.Finalizers...) })
	remove(t, s, "a")
	run(t, l, "a")
	if got, want := get(t, s, "a").Finalizers, []string{"first", "theirs"}; !slices.Equal(got, want) {
		t.Errorf("finalizers = %q, want %q", got, want)
	}
	d.expect(t, "h Added 1", "h Deleted 1")
}

// case 34; weak point 001 (b): with the old one absent, the pending finalizer
// was added, never the real one.
func TestSwapOfAnAbsentFinalizerAddsTheRealOne(t *testing.T) {
	s := newWidgets(t)
	create(t, s, "a")
	r, err := object.Begin(t.Context(), s, key("a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Swap(t.Context(), "pending.x", "x"); err != nil {
		t.Fatal(err)
	}
	if got, want := get(t, s, "a").Finalizers, []string{"x"}; !slices.Equal(got, want) {
		t.Errorf("finalizers = %q, want %q", got, want)
	}
}

// case 35; weak point 001 (c): both Add and Update were called.
func TestUpdateOfAnObjectWithoutOurFinalizerIsAnAddOnly(t *testing.T) {
	var d diary
	s := newWidgets(t)
	create(t, s, "a")
	edit(t, s, "a", resize(2))
	run(t, mustNew(t, s, d.handler("h", nil)), "a")
	d.expect(t, "h Added 2")
}

// case 37; weak point 001 (e): later attempts saw the state of the first.
func TestStateThatOneAttemptLeavesIsSeenByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var saw []any
		s := newWidgets(t)
		l := mustNew(t, s, Handler[widgetSpec, widgetStatus]{Name: "h", Add: func(ctx context.Context, o *widget) (reconcile.Result, error) {
			c := Current(ctx)
			saw = append(saw, c.State)
			c.State = len(saw)
			if len(saw) < 4 {
				return reconcile.Result{}, errBoom
			}
			return reconcile.Result{}, nil
		}, Resync: func(ctx context.Context, o *widget) (reconcile.Result, error) {
			saw = append(saw, Current(ctx).State)
			return reconcile.Result{}, nil
		}})
		create(t, s, "a")
		for range 3 {
			runFails(t, l, "a", errBoom)
			time.Sleep(queue.DefaultMax)
		}
		run(t, l, "a")
		run(t, l, "a")
		if want := []any{nil, 1, 2, 3, nil}; !slices.Equal(saw, want) {
			t.Errorf("states seen: %v, want %v", saw, want)
		}
	})
}

// case 112
func TestOnlyTheHandlerThatFailedIsRetriedAndAChangeReachesBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		fail := true
		s := newWidgets(t)
		l := mustNew(t, s, d.handler("one", nil), d.handler("two", func(context.Context, *widget) error {
			if fail {
				return errBoom
			}
			return nil
		}))
		create(t, s, "a")
		runFails(t, l, "a", errBoom)
		time.Sleep(queue.DefaultMax)
		runFails(t, l, "a", errBoom)
		d.expect(t, "one Added 1", "two Added 1", "two Added 1")
		fail = false
		edit(t, s, "a", resize(2))
		run(t, l, "a")
		d.expect(t, "one Updated 1->2", "two Added 2")
	})
}

// case 113
func TestAnEventOfTheSameGenerationKeepsBackoffAndAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		var attempts []int
		s := newWidgets(t)
		h := d.handler("h", func(ctx context.Context, _ *widget) error {
			attempts = append(attempts, Current(ctx).Attempt)
			return errBoom
		})
		h.Retry = queue.ExponentialRetry(time.Minute, 9)
		l := mustNew(t, s, h)
		create(t, s, "a")
		runFails(t, l, "a", errBoom)
		time.Sleep(20 * time.Second)
		o := edit(t, s, "a", func(o *widget) { o.Labels = map[string]string{"x": "y"} })
		if jump, decided := l.work.urgent(o); jump || !decided {
			t.Errorf("urgent = %v, %v, want the change to wait for the retry", jump, decided)
		}
		if got, want := run(t, l, "a").RequeueAfter, 40*time.Second; got != want {
			t.Errorf("RequeueAfter = %v, want the rest of the backoff, %v", got, want)
		}
		time.Sleep(40 * time.Second)
		runFails(t, l, "a", errBoom)
		if want := []int{0, 1}; !slices.Equal(attempts, want) {
			t.Errorf("attempts %v, want %v", attempts, want)
		}
	})
}

// case 114; weak point 001 (d): retries held the old object, and ran beside new
// events.
func TestSupersedeIsAskedOncePerPendingRetry(t *testing.T) {
	for _, answer := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var d diary
			var asked []Pending[widgetSpec, widgetStatus]
			var attempts []int
			s := newWidgets(t)
			h := d.handler("h", func(ctx context.Context, o *widget) error {
				attempts = append(attempts, Current(ctx).Attempt)
				if o.Spec.Size == 1 {
					return nil
				}
				return errBoom
			})
			h.Retry = queue.ExponentialRetry(time.Minute, 9)
			h.Supersede = func(p Pending[widgetSpec, widgetStatus]) bool {
				asked = append(asked, p)
				return answer
			}
			l := mustNew(t, s, h)
			create(t, s, "a")
			run(t, l, "a")
			edit(t, s, "a", resize(2))
			runFails(t, l, "a", errBoom)
			time.Sleep(time.Minute)
			runFails(t, l, "a", errBoom)
			attempts = nil

			o := edit(t, s, "a", resize(3))
			if jump, decided := l.work.urgent(o); jump != answer || !decided {
				t.Errorf("urgent = %v, %v, want %v, true", jump, decided, answer)
			}
			l.work.urgent(o) // the same change, told again
			if answer {
				runFails(t, l, "a", errBoom)
			} else if got, want := run(t, l, "a").RequeueAfter, 2*time.Minute; got != want {
				t.Errorf("RequeueAfter = %v, want the backoff kept, %v", got, want)
			} else {
				time.Sleep(want)
				runFails(t, l, "a", errBoom)
			}
			if len(asked) != 1 {
				t.Fatalf("Supersede was asked %d times, want once", len(asked))
			}
			p := asked[0]
			if p.Retry != Updated || p.Change != Updated || p.RetryObject.Spec.Size != 2 || p.ChangeObject.Spec.Size != 3 || !errors.Is(p.Err, errBoom) {
				t.Errorf("Supersede was told %+v, want both actions, both objects and the error", p)
			}
			want := []int{2}
			if answer {
				want = []int{0}
			}
			if !slices.Equal(attempts, want) {
				t.Errorf("Supersede %v: attempts %v, want %v", answer, attempts, want)
			}
		})
	}
}

func TestDefaultSupersede(t *testing.T) {
	at := func(generation int64) *widget { return &widget{Meta: store.Meta{Generation: generation}} }
	for _, c := range []struct {
		retry, change Action
		from, to      int64
		want          bool
	}{
		{Added, Deleted, 1, 2, true},
		{Deleted, Deleted, 2, 2, false},
		{Added, Added, 1, 1, false},
		{Added, Added, 1, 2, true},
		{Added, Updated, 1, 2, false},
		{Updated, Updated, 2, 3, true},
		{Updated, Updated, 2, 2, false},
		{Resynced, Updated, 2, 3, true},
	} {
		got := DefaultSupersede(Pending[widgetSpec, widgetStatus]{Retry: c.retry, RetryObject: at(c.from), Change: c.change, ChangeObject: at(c.to)})
		if got != c.want {
			t.Errorf("DefaultSupersede(%v at %d, %v at %d) = %v, want %v", c.retry, c.from, c.change, c.to, got, c.want)
		}
	}
}

// case 116
func TestDeletionWithoutOurFinalizerConcernsNoHandler(t *testing.T) {
	var d diary
	s := newWidgets(t)
	create(t, s, "a")
	edit(t, s, "a", func(o *widget) { o.Finalizers = []string{"theirs"} })
	remove(t, s, "a")
	l := mustNew(t, s, d.handler("h", nil))
	if res := run(t, l, "a"); res != (reconcile.Result{}) {
		t.Errorf("Result = %+v, want zero", res)
	}
	edit(t, s, "a", func(o *widget) { o.Finalizers = nil })
	run(t, l, "a") // the key of an object that has gone
	d.expect(t)
	expectForgotten(t, l)
}

// case 117
func TestFinalizerStaysUntilDeleteSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		fail := true
		s := newWidgets(t)
		l := mustNew(t, s, d.handler("h", func(ctx context.Context, _ *widget) error {
			if fail && Current(ctx).Action == Deleted {
				return errBoom
			}
			return nil
		}))
		create(t, s, "a")
		run(t, l, "a")
		remove(t, s, "a")
		runFails(t, l, "a", errBoom)
		if got, want := get(t, s, "a").Finalizers, []string{"tend.widget.h"}; !slices.Equal(got, want) {
			t.Errorf("finalizers after a failed Delete = %q, want %q", got, want)
		}
		fail = false
		time.Sleep(queue.DefaultMax)
		run(t, l, "a")
		expectGone(t, s, "a")
		expectForgotten(t, l)
		d.expect(t, "h Added 1", "h Deleted 1", "h Deleted 1")
	})
}

// A Delete that asks for a delay is not over.
func TestDeleteThatWaitsKeepsTheFinalizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		s := newWidgets(t)
		l := mustNew(t, s, Handler[widgetSpec, widgetStatus]{Delete: func(context.Context, *widget) (reconcile.Result, error) {
			if calls++; calls == 1 {
				return reconcile.Result{RequeueAfter: time.Minute}, nil
			}
			return reconcile.Result{}, nil
		}})
		create(t, s, "a")
		run(t, l, "a")
		remove(t, s, "a")
		if got := run(t, l, "a").RequeueAfter; got != time.Minute {
			t.Errorf("RequeueAfter = %v, want a minute", got)
		}
		get(t, s, "a")
		time.Sleep(time.Minute)
		run(t, l, "a")
		expectGone(t, s, "a")
	})
}

// An object is not ready while a handler asks for more time without a failure.
//
// Negative control: mutant "an object is ready while a handler asks for more time".
func TestObjectIsNotReadyWhileAHandlerAsksForMoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		more := true
		s := newWidgets(t)
		l := mustNew(t, s, Handler[widgetSpec, widgetStatus]{Add: func(context.Context, *widget) (reconcile.Result, error) {
			return reconcile.Result{Requeue: more}, nil
		}})
		create(t, s, "a")
		run(t, l, "a")
		expectReady(t, get(t, s, "a"), store.False, store.PhaseProgressing, reasonRequeued)
		more = false
		time.Sleep(time.Hour)
		run(t, l, "a")
		expectReady(t, get(t, s, "a"), store.True, store.PhaseReady, "Ready")
	})
}

// case 119
func TestUpdateGetsTheObjectLastHandledAndTheNewest(t *testing.T) {
	var d diary
	s := newWidgets(t)
	l := mustNew(t, s, d.handler("h", nil))
	create(t, s, "a")
	run(t, l, "a")
	edit(t, s, "a", resize(2))
	edit(t, s, "a", resize(3))
	run(t, l, "a")
	d.expect(t, "h Added 1", "h Updated 1->3")
}

// case 120
func TestNilFuncsSucceedAndTheFinalizerComesAndGoes(t *testing.T) {
	s := newWidgets(t)
	l := mustNew(t, s, Handler[widgetSpec, widgetStatus]{Name: "nothing"})
	create(t, s, "a")
	run(t, l, "a")
	if got, want := get(t, s, "a").Finalizers, []string{"tend.widget.nothing"}; !slices.Equal(got, want) {
		t.Errorf("finalizers = %q, want %q", got, want)
	}
	edit(t, s, "a", resize(2))
	run(t, l, "a")
	run(t, l, "a")
	remove(t, s, "a")
	run(t, l, "a")
	expectGone(t, s, "a")
}

// case 121
func TestWrapHandsCallsOnAndResyncToAddOrNowhere(t *testing.T) {
	for _, syncToAdd := range []bool{true, false} {
		var d diary
		s := newWidgets(t)
		create(t, s, "a")
		inner := d.handler("h", nil)
		inner.Resync = nil
		l := mustNew(t, s, Wrap(inner, syncToAdd))
		run(t, l, "a")
		edit(t, s, "a", resize(2))
		run(t, l, "a")
		d.expect(t, "h Added 1", "h Updated 1->2")
		run(t, l, "a")
		if syncToAdd {
			d.expect(t, "h Added 2")
		} else {
			d.expect(t)
		}
		remove(t, s, "a")
		run(t, l, "a")
		d.expect(t, "h Deleted 2")
	}
}

// case 122; weak point 001.13: two handlers shared one finalizer, so that the
// first to finish let the object go.
func TestTwoHandlersWithoutNamesHaveTwoFinalizers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		fail := true
		s := newWidgets(t)
		l := mustNew(t, s, d.handler("", nil), d.handler("", func(ctx context.Context, _ *widget) error {
			if fail && Current(ctx).Action == Deleted {
				return errBoom
			}
			return nil
		}))
		create(t, s, "a")
		run(t, l, "a")
		if got, want := get(t, s, "a").Finalizers, []string{"tend.widget.handler", "tend.widget.handler-2"}; !slices.Equal(got, want) {
			t.Errorf("finalizers = %q, want %q", got, want)
		}
		remove(t, s, "a")
		runFails(t, l, "a", errBoom)
		if got, want := get(t, s, "a").Finalizers, []string{"tend.widget.handler-2"}; !slices.Equal(got, want) {
			t.Errorf("finalizers after the first Delete = %q, want %q", got, want)
		}
		fail = false
		time.Sleep(queue.DefaultMax)
		run(t, l, "a")
		expectGone(t, s, "a")
	})
}

// case 107; weak point 001 (i): retries went by the place in the list, which
// shifts when another handler goes.
func TestRemovedHandlerIsNeverCalledAgainAndTheOthersKeepTheirAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		var attempts []int
		failing := func(ctx context.Context, _ *widget) error {
			if Current(ctx).Handler == "three" {
				attempts = append(attempts, Current(ctx).Attempt)
			}
			return errBoom
		}
		s := newWidgets(t)
		l := mustNew(t, s, d.handler("one", nil), d.handler("two", failing), d.handler("three", failing))
		create(t, s, "a")
		runFails(t, l, "a", errBoom)
		d.take()
		if !l.Handlers().Remove("two") || l.Handlers().Remove("two") {
			t.Error("Remove says whether the handler was there: want true, then false")
		}
		time.Sleep(queue.DefaultMax)
		runFails(t, l, "a", errBoom)
		d.expect(t, "three Added 1")
		if want := []int{0, 1}; !slices.Equal(attempts, want) {
			t.Errorf("attempts of the one behind it: %v, want %v", attempts, want)
		}
		if got, want := l.Handlers().Names(), []string{"one", "three"}; !slices.Equal(got, want) {
			t.Errorf("Names() = %q, want %q", got, want)
		}
		l.Handlers().RemoveAll()
		expectForgotten(t, l)
		edit(t, s, "a", resize(2))
		run(t, l, "a")
		d.expect(t)
		remove(t, s, "a") // there is no handler left to clean up, so none is waited for
		run(t, l, "a")
		expectGone(t, s, "a")
	})
}

func TestHandlerRemovedDuringARunIsNotCalledInIt(t *testing.T) {
	var d diary
	s := newWidgets(t)
	l := mustNew(t, s)
	first := d.handler("one", func(context.Context, *widget) error {
		l.Handlers().Remove("one")
		l.Handlers().Remove("two")
		return nil
	})
	for _, h := range []Handler[widgetSpec, widgetStatus]{first, d.handler("two", nil)} {
		if _, err := l.Handlers().Add(h); err != nil {
			t.Fatal(err)
		}
	}
	create(t, s, "a")
	run(t, l, "a")
	d.expect(t, "one Added 1")
	expectForgotten(t, l)
}

// Negative control: with the list asked before the finalizer is written alone, the
// handler was called after Remove had returned.
func TestHandlerRemovedWhileItsFinalizerIsWrittenIsNotCalled(t *testing.T) {
	b := newFaulty(t)
	s := on[widgetSpec, widgetStatus](t, b, "widget")
	var d diary
	l := mustNew(t, s, d.handler("one", nil), d.handler("two", nil))
	create(t, s, "a")
	b.commit.Store(new(func(store.Txn) error { l.Handlers().Remove("one"); return nil }))
	run(t, l, "a")
	d.expect(t, "two Added 1")
	remove(t, s, "a")
	run(t, l, "a")
	expectGone(t, s, "a")
}

// case 106
func TestHandlerAddedLaterGetsWhatExistsAndThenChangesAfterTheOlder(t *testing.T) {
	var d diary
	s := newWidgets(t)
	l := mustNew(t, s, d.handler("old", nil))
	create(t, s, "a")
	run(t, l, "a")
	d.take()
	if _, err := l.Handlers().Add(d.handler("new", nil)); err != nil {
		t.Fatal(err)
	}
	run(t, l, "a")
	d.expect(t, "new Added 1")
	edit(t, s, "a", resize(2))
	run(t, l, "a")
	d.expect(t, "old Updated 1->2", "new Updated 1->2")
}

// case 96, 123
func TestHandlersThatCannotBeAreRefused(t *testing.T) {
	s := newWidgets(t)
	for _, c := range []struct {
		name string
		h    []Handler[widgetSpec, widgetStatus]
	}{
		{"one name twice", []Handler[widgetSpec, widgetStatus]{{Name: "h"}, {Name: "h"}}},
		{"one finalizer twice", []Handler[widgetSpec, widgetStatus]{{Name: "h", Finalizer: "x"}, {Name: "i", Finalizer: "x"}}},
		{"an illegal name", []Handler[widgetSpec, widgetStatus]{{Name: "a b"}}},
		{"an illegal finalizer", []Handler[widgetSpec, widgetStatus]{{Finalizer: "a b"}}},
		{"a finalizer for a simple one", []Handler[widgetSpec, widgetStatus]{{Simple: true, Finalizer: "x"}}},
	} {
		if _, err := New(s, c.h, nil); err == nil {
			t.Errorf("%s: New = nil error, want one", c.name)
		}
	}
	if _, err := New[widgetSpec, widgetStatus](nil, nil, nil); err == nil {
		t.Error("no store: New = nil error, want one")
	}
	l := mustNew(t, s, Handler[widgetSpec, widgetStatus]{Finalizer: "mine"})
	create(t, s, "a")
	run(t, l, "a")
	if got, want := get(t, s, "a").Finalizers, []string{"mine"}; !slices.Equal(got, want) {
		t.Errorf("finalizers = %q, want the one given, %q", got, want)
	}
}

func TestSimpleHandlersHaveNoFinalizerAndHearOfTheEndAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		fail := false
		s := newWidgets(t)
		h := d.handler("h", func(context.Context, *widget) error {
			if fail {
				return errBoom
			}
			return nil
		})
		h.Simple = true
		l := mustNew(t, s, h)
		create(t, s, "a")
		run(t, l, "a")
		if got := get(t, s, "a").Finalizers; len(got) != 0 {
			t.Errorf("finalizers = %q, want none", got)
		}
		edit(t, s, "a", resize(2))
		run(t, l, "a")
		d.expect(t, "h Added 1", "h Updated 1->2")
		remove(t, s, "a")
		create(t, s, "a") // another object takes the name before we look
		fail = true
		runFails(t, l, "a", errBoom)
		d.expect(t, "h Deleted 2")
		fail = false
		time.Sleep(queue.DefaultMax)
		run(t, l, "a")
		d.expect(t, "h Deleted 2", "h Added 1")
		remove(t, s, "a")
		run(t, l, "a")
		d.expect(t, "h Deleted 1")
		expectForgotten(t, l)
	})
}

// A panic goes on to the controller, which counts it; the next run does not
// call the handler before its backoff is over.
func TestHandlerThatPanicsBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		s := newWidgets(t)
		h := d.handler("h", func(context.Context, *widget) error { panic("boom") })
		h.Retry = queue.ExponentialRetry(time.Minute, 3)
		l := mustNew(t, s, h, d.handler("two", nil))
		create(t, s, "a")
		func() {
			defer func() {
				if p := recover(); p != "boom" {
					t.Errorf("recovered %v, want the handler's own panic", p)
				}
			}()
			l.Reconcile(t.Context(), key("a"))
		}()
		d.expect(t, "h Added 1")
		if got := run(t, l, "a").RequeueAfter; got != time.Minute {
			t.Errorf("RequeueAfter = %v, want a minute", got)
		}
		d.expect(t, "two Added 1")
	})
}

// case 38; weak point 001 (g): keys that had ever failed were kept, and
// scanned, for ever.
func TestRetriesOfManyKeysLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		fail := true
		s := newWidgets(t)
		l := mustNew(t, s, Handler[widgetSpec, widgetStatus]{Add: func(context.Context, *widget) (reconcile.Result, error) {
			if fail {
				return reconcile.Result{}, errBoom
			}
			return reconcile.Result{}, nil
		}})
		for i := range n {
			create(t, s, fmt.Sprint(i))
			runFails(t, l, fmt.Sprint(i), errBoom)
		}
		fail = false
		time.Sleep(queue.DefaultMax)
		w := l.work.(*handlerWork[widgetSpec, widgetStatus])
		for i := range n {
			run(t, l, fmt.Sprint(i))
		}
		for k, ks := range w.led.keys {
			if len(ks.calls) != 1 || ks.calls[0].retry != nil || ks.calls[0].old != nil {
				t.Fatalf("%s keeps %+v, want the bare fact that it was handled", k, ks.calls)
			}
		}
		for i := range n {
			remove(t, s, fmt.Sprint(i))
			run(t, l, fmt.Sprint(i))
		}
		expectForgotten(t, l)
	})
}

// A handler that gave up is tried again within the hour (and a tenth) that is stated,
// although the handler beside it asked for a day.
//
// Negative control: with only what waits for a retry or a wake looked at, the key ran
// again after the day.
func TestHandlerThatGaveUpIsRevivedBesideOneThatSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		s := newWidgets(t)
		gaveUp := d.handler("gave-up", func(context.Context, *widget) error { return reconcile.Terminal(errBoom) })
		sleeps := d.handler("sleeps", nil)
		sleeps.Add = func(context.Context, *widget) (reconcile.Result, error) {
			return reconcile.Result{RequeueAfter: 24 * time.Hour}, nil
		}
		l := mustNew(t, s, gaveUp, sleeps)
		create(t, s, "a")
		err := runFails(t, l, "a", errBoom)
		if delay, ok := reconcile.Delay(err); !ok || delay < time.Hour || delay > time.Hour+6*time.Minute {
			t.Errorf("the key runs again after %v, want within the hour and a tenth", delay)
		}
	})
}

// The attempts of an Update that failed are not those of the Delete that comes instead,
// also where the handler keeps its retry.
//
// Negative control: with the retry's attempt taken for every call, Delete's first was
// attempt 2.
func TestDeleteCountsItsOwnAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		s := newWidgets(t)
		h := d.handler("h", nil)
		h.Supersede = func(Pending[widgetSpec, widgetStatus]) bool { return false }
		h.Add = func(context.Context, *widget) (reconcile.Result, error) { return reconcile.Result{}, errBoom }
		h.Delete = func(ctx context.Context, _ *widget) (reconcile.Result, error) {
			call := Current(ctx)
			d.note("Deleted at attempt %d, %v", call.Attempt, call.Err)
			return reconcile.Result{}, nil
		}
		l := mustNew(t, s, h)
		create(t, s, "a")
		for range 2 {
			runFails(t, l, "a", errBoom)
			time.Sleep(queue.DefaultMax)
		}
		remove(t, s, "a")
		run(t, l, "a")
		d.expect(t, "Deleted at attempt 0, <nil>")
		expectGone(t, s, "a")
	})
}

// promise R2: an error's own delay is the least, whatever the policy of the handler says.
func TestRetryAfterOfAHandlerIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		s := newWidgets(t)
		h := d.handler("h", func(context.Context, *widget) error { return reconcile.RetryAfter(errBoom, 10*time.Minute) })
		h.Retry = queue.ExponentialRetry(5*time.Second, 5)
		l := mustNew(t, s, h)
		create(t, s, "a")
		if got, _ := reconcile.Delay(runFails(t, l, "a", errBoom)); got != 10*time.Minute {
			t.Errorf("delay = %v, want the ten minutes that the error asks for", got)
		}
	})
}

// A handler that asked for another run and then fails is called when its retry is due, not
// at the time that it asked for before.
func TestRetryReplacesTheTimeThatAHandlerAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		s := newWidgets(t)
		h := d.handler("h", nil)
		h.Add = func(context.Context, *widget) (reconcile.Result, error) {
			return reconcile.Result{RequeueAfter: time.Hour}, nil
		}
		h.Update = func(context.Context, *widget, *widget) (reconcile.Result, error) { return reconcile.Result{}, errBoom }
		h.Retry = func(int, error) time.Duration { return 24 * time.Hour }
		l := mustNew(t, s, h)
		create(t, s, "a")
		if got := run(t, l, "a").RequeueAfter; got != time.Hour {
			t.Fatalf("RequeueAfter = %v, want the hour that the handler asked for", got)
		}
		edit(t, s, "a", resize(2))
		if got, _ := reconcile.Delay(runFails(t, l, "a", errBoom)); got != 24*time.Hour {
			t.Errorf("delay = %v, want that of the retry", got)
		}
	})
}

// An object that takes the name of another, whose finalizers were removed by hand, is new.
//
// promise R1
func TestObjectOfTheSameNameIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		s := newWidgets(t)
		l := mustNew(t, s, d.handler("h", nil))
		create(t, s, "a")
		run(t, l, "a")
		d.expect(t, "h Added 1")
		edit(t, s, "a", func(o *widget) { o.Finalizers = nil })
		remove(t, s, "a")
		create(t, s, "a")
		run(t, l, "a")
		d.expect(t, "h Added 1")
	})
}

// Several handlers that fail together are all shown, and a run that is asked for calls each of
// them at once.
//
// Negative controls: the mutants "of several handlers that fail one is shown" and "a run that was
// asked for ends the wait of one handler".
func TestHandlersThatFailTogetherAreShownAndCalledTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		s := newWidgets(t)
		var handlers []Handler[widgetSpec, widgetStatus]
		for _, name := range []string{"one", "two", "three"} {
			handlers = append(handlers, d.handler(name, func(context.Context, *widget) error { return fmt.Errorf("%s: %w", "of "+name, errBoom) }))
		}
		l := mustNew(t, s, handlers...)
		create(t, s, "a")
		for i := range 3 {
			runFails(t, l, "a", errBoom)
			d.expect(t, "one Added 1", "two Added 1", "three Added 1")
			ready, _ := get(t, s, "a").Condition(store.ConditionReady)
			for _, name := range []string{"one", "two", "three"} {
				if !strings.Contains(ready.Message, "of "+name) {
					t.Errorf("the condition says %q, and nothing of handler %s", ready.Message, name)
				}
			}
			edit(t, s, "a", func(o *widget) { o.Annotations = map[string]string{store.AnnotationReconcileNow: fmt.Sprint(i)} })
		}
	})
}
