package lifecycle

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
)

// A handler that always fails, in whatever way, is shown as failing all the time: its
// key's attempts grow, the last error stays, nothing says that it works again, and the
// runs in which its time had not come are no successes.
//
// Negative control: mutant "a run that tried nothing of what failed is a success".
func TestHandlerThatAlwaysFailsIsNeverSaidToWork(t *testing.T) {
	fail := func(f func()) Handler[widgetSpec, widgetStatus] {
		return Handler[widgetSpec, widgetStatus]{
			Name: "failing", Retry: queue.ExponentialRetry(time.Minute, 100),
			Add: func(context.Context, *widget) (reconcile.Result, error) { f(); return reconcile.Result{}, errBoom },
		}
	}
	fine := Handler[widgetSpec, widgetStatus]{Name: "fine", Simple: true}
	busy := func(context.Context, *widget) (reconcile.Result, error) {
		return reconcile.Result{RequeueAfter: 7 * time.Second}, nil
	}
	for name, handlers := range map[string][]Handler[widgetSpec, widgetStatus]{
		"an error":                             {fail(func() {}), fine},
		"a panic":                              {fail(func() { panic("boom") }), fine},
		"an ended goroutine":                   {fail(runtime.Goexit), fine},
		"an error beside a handler that works": {fail(func() {}), {Name: "busy", Simple: true, Add: busy, Resync: busy}},
		"a panic beside a handler that works":  {fail(func() { panic("boom") }), {Name: "busy", Simple: true, Add: busy, Resync: busy}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				s := newWidgets(t)
				c := start(t, mustNew(t, s, handlers...), nil, &reconcile.Options[reconcile.Request]{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				create(t, s, "a")
				last := 0
				for range 6 {
					restFor(3*time.Minute + time.Second)
					e, ok := c.Queue().Lookup(key("a"))
					if !ok || e.LastError == nil || e.Attempts < last || e.Attempts == 0 {
						t.Fatalf("the queue says %+v (%v), want the last error and at least %d attempts", e, ok, max(last, 1))
					}
					if text := e.LastError.Error(); strings.Contains(text, "throttled") || len(text) > 200 {
						t.Errorf("the last error reads %q, want the handler's and no more", text)
					}
					last = e.Attempts
				}
				if last < 3 {
					t.Errorf("%d attempts after 18 minutes of failing, want one for each failure", last)
				}
				if n := strings.Count(log.String(), "run failed"); n != 1 || strings.Contains(log.String(), "works again") {
					t.Errorf("the log says %d times that the run failed, want once, and nothing else:\n%s", n, log.String())
				}
				if n := c.Snapshot().Runs; n.Success != 0 || n.RequeueAfter != 0 || n.Error < 3 {
					t.Errorf("counts %+v, want failures and no success", n)
				}
			})
		})
	}
}

// What failed before and works now is said to work, once.
func TestHandlerThatFailedAndWorksIsSaidToWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newWidgets(t)
		tries := 0
		h := Handler[widgetSpec, widgetStatus]{Retry: queue.ExponentialRetry(time.Minute, 100), Add: func(context.Context, *widget) (reconcile.Result, error) {
			if tries++; tries < 3 {
				panic("boom")
			}
			return reconcile.Result{}, nil
		}}
		c := start(t, mustNew(t, s, h), nil, &reconcile.Options[reconcile.Request]{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		create(t, s, "a")
		restFor(time.Hour)
		if n := strings.Count(log.String(), "works again"); n != 1 || tries != 3 {
			t.Errorf("%d tries; the log says %d times that it works again, want once:\n%s", tries, n, log.String())
		}
		if e, ok := c.Queue().Lookup(key("a")); ok && (e.LastError != nil || e.Attempts != 0) {
			t.Errorf("the queue says %+v, want nothing failing", e)
		}
	})
}

// A conflict with another writer is no failure, and hides none: a handler that failed
// before it in the same run is reported.
//
// Negative control: mutant "a conflict hides what a handler failed with".
func TestConflictHidesNoFailure(t *testing.T) {
	var d diary
	s := newWidgets(t)
	l := mustNew(t, s, d.handler("one", func(_ context.Context, o *widget) error {
		edit(t, s, o.Name, resize(o.Spec.Size+1)) // by another writer, so that the next finalizer cannot be written
		return errBoom
	}), d.handler("two", nil))
	create(t, s, "a")
	runFails(t, l, "a", errBoom)
	d.expect(t, "one Added 1")
}
