package external_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
)

// judgeCloud says what an answer of the pretend cloud tells of it.
func judgeCloud(err error) quota.Verdict {
	if q, ok := errors.AsType[*reconciletest.QuotaError](err); ok {
		return quota.Verdict{Throttled: true, RetryAfter: q.RetryAfter}
	}
	return quota.Verdict{Down: errors.Is(err, reconciletest.ErrServer) || errors.Is(err, reconciletest.ErrTimeout)}
}

func newQuota(read, write quota.Rate) *quota.Quota {
	set := must(quota.NewSet(&quota.Options{Limits: func(quota.Name) (quota.Limits, error) {
		return quota.Limits{Read: read, Write: write, Judge: judgeCloud}, nil
	}}))
	return must(set.Get(quota.Name{API: "cloud"}))
}

// limited is a client whose every call is paid from a quota.
func limited(q *quota.Quota, c external.Client[diskSpec, diskStatus]) external.ClientFuncs[diskSpec, diskStatus] {
	write := func(f func(context.Context, *disk) error) func(context.Context, *disk) error {
		return func(ctx context.Context, o *disk) error {
			return q.Do(ctx, quota.Write, func(ctx context.Context) error { return f(ctx, o) })
		}
	}
	return external.ClientFuncs[diskSpec, diskStatus]{
		ObserveFunc: func(ctx context.Context, o *disk) (seen external.Observation, err error) {
			err = q.Do(ctx, quota.Read, func(ctx context.Context) error {
				seen, err = c.Observe(ctx, o)
				return err
			})
			return seen, err
		},
		CreateFunc: write(c.Create), UpdateFunc: write(c.Update), DeleteFunc: write(c.Delete),
	}
}

func alwaysQuota(q *quota.Quota) func(reconcile.Request) (*quota.Quota, error) {
	return func(reconcile.Request) (*quota.Quota, error) { return q, nil }
}

// A hundred creates against one write a second: the budget is kept, and the runs
// that were refused stored nothing.
//
// Negative control: without Admit the store saw 797 writes, an intent and its
// failure for each refusal.
func TestChangesWaitForTheWriteBudgetAndStoreNothingMeanwhile(t *testing.T) {
	const n = 100
	bubble(t, func(t *testing.T, w *world) {
		q := newQuota(quota.Rate{PerSecond: 1000}, quota.Rate{PerSecond: 1, Burst: 1})
		w.with(limited(q, w.client))
		for i := range n {
			must(w.store.Create(t.Context(), &disk{Meta: store.Meta{Namespace: "t", Name: fmt.Sprint("d", i)}, Spec: diskSpec{Size: "1", Zone: "z"}}))
		}
		revision := func() uint64 {
			return uint64(must(w.backend.List(t.Context(), "Disk", store.ListOptions{Limit: 1})).Revision)
		}
		before := revision()
		o := reconcile.Options[reconcile.Request]{Workers: 4, Backoff: queue.Backoff{Base: time.Second, Max: time.Minute}}
		limited, err := quota.Limit(alwaysQuota(q), &o)
		if err != nil {
			t.Fatal(err)
		}
		stop := w.startWith(*limited)
		defer stop()
		time.Sleep(n / 2 * time.Second)
		if made := w.cloud.Calls("Create"); made < n/2 || made > n/2+2 {
			t.Errorf("%d creates in %d s, want one a second", made, n/2)
		}
		time.Sleep(n * time.Second)
		synctest.Wait()
		if err := w.asDeclared(); err != nil {
			t.Error(err)
		}
		// Finalizer, intent, outcome, and the status twice: creating, ready.
		if wrote := revision() - before; wrote > 6*n {
			t.Errorf("%d writes to the store for %d creates", wrote, n)
		}
		w.wantCalls(map[string]int{"Create": n})
	})
}

// Ten creates by an inventory against a write in ten seconds: an object that waits for the budget is not looked
// at before.
func TestCreateThatWaitsForItsBudgetCostsOneLook(t *testing.T) {
	const n = 10
	bubble(t, func(t *testing.T, w *world) {
		q := newQuota(quota.Rate{PerSecond: 1000}, quota.Rate{PerSecond: 0.1, Burst: 1})
		v := w.inventory(func(o *invOpts) { o.Fresh = time.Hour })
		w.with(v.Client(limited(q, w.client)))
		for i := range n {
			must(w.store.Create(t.Context(), &disk{Meta: store.Meta{Namespace: "t", Name: fmt.Sprint("d", i)}, Spec: diskSpec{Size: "1", Zone: "z"}}))
		}
		limited, err := quota.Limit(alwaysQuota(q), &reconcile.Options[reconcile.Request]{Workers: 4})
		if err != nil {
			t.Fatal(err)
		}
		stop := w.startWith(*limited)
		defer stop()
		time.Sleep(5 * time.Second)
		w.wantCalls(map[string]int{"Create": 1})
		if gets := w.cloud.Calls("Get"); gets > 2 { // before the create, and after it
			t.Errorf("%d looks while nine of ten creates wait for their budget, want two", gets)
		}
	})
}

// Sixty deletions against one write a second: none is called before its budget is there, so
// the change log has no more than those that were made.
//
// Seen to fail: 59 were told as failed changes at once.
func TestDeletesWaitForTheWriteBudgetUncalled(t *testing.T) {
	const n = 60
	bubble(t, func(t *testing.T, w *world) {
		q := newQuota(quota.Rate{PerSecond: 1000}, quota.Rate{PerSecond: 1, Burst: 1})
		keys := w.populate(n)
		w.with(limited(q, w.client))
		o := reconcile.Options[reconcile.Request]{Workers: 4, Backoff: queue.Backoff{Base: time.Second, Max: time.Minute}}
		limited, err := quota.Limit(alwaysQuota(q), &o)
		if err != nil {
			t.Fatal(err)
		}
		stop := w.startWith(*limited)
		defer stop()
		time.Sleep(10 * time.Second)
		for _, k := range keys {
			if err := w.store.Delete(t.Context(), must(w.store.Get(t.Context(), k))); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * n * time.Second)
		synctest.Wait()
		if left := must(w.store.List(t.Context(), store.Selector{})); len(left) != 0 {
			t.Errorf("%d objects are left", len(left))
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range w.changes {
			if c.Err != nil {
				t.Errorf("%s of %s: %v", c.Action, c.Key, c.Err)
			}
		}
		if len(w.changes) != n {
			t.Errorf("%d changes, want %d", len(w.changes), n)
		}
		w.wantCalls(map[string]int{"Delete": n})
	})
}

// A call that was put off has changed nothing: it is no failed change.
func TestChangeThatWasPutOffIsNoWarning(t *testing.T) {
	var text strings.Builder
	logged := external.LogChanges(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})))
	logged(t.Context(), external.Change{Action: "delete", Err: ratelimit.Throttled(nil, time.Now().Add(time.Second), errDisk)})
	if s := text.String(); !strings.Contains(s, "level=DEBUG") {
		t.Errorf("logged %q, want it at debug level", s)
	}
}
