package quota

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
)

// A run that has paid for a call and makes none gives the token back: its look was served
// by a list meanwhile, or another budget is used up.
//
// It was seen to fail: a server that joined others made no call for twenty seconds, while
// 133 keys paid, one after another, for reads that they did not make.
//
// Negative control: mutant "a token that was not used is lost".
func TestTokenThatARunDidNotUseComesBack(t *testing.T) {
	for _, op := range []Op{Read, Write} {
		synctest.Test(t, func(t *testing.T) { testUnusedToken(t, op) })
	}
}

func testUnusedToken(t *testing.T, op Op) {
	set, err := NewSet(&Options{Limits: func(Name) (Limits, error) {
		rate := Rate{PerSecond: 0.001, Burst: 1}
		return Limits{Read: rate, Write: rate, Judge: func(error) Verdict { return Verdict{} }}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	q, err := set.Get(Name{API: "dns"})
	if err != nil {
		t.Fatal(err)
	}
	var served atomic.Bool
	o, err := Limit(func(string) (*Quota, error) { return q, nil }, &reconcile.Options[string]{})
	if err != nil {
		t.Fatal(err)
	}
	var runs atomic.Int64
	c, err := reconcile.New("dns", reconcile.Func[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
		if runs.Add(1); served.Load() {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, q.Do(ctx, op, func(context.Context) error { return nil })
	}), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }() // ends at cancel
	for i := range 10 {
		if err := c.Add(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait() // one has called, nine wait for the next token
	served.Store(true)
	runs.Store(0)
	time.Sleep(1001 * time.Second)
	synctest.Wait()
	if runs.Load() != 9 || set.Snapshot()[op].Owing != 0 {
		t.Errorf("%v: %d runs by one token that none of them needs, want 9; %d keys wait", op, runs.Load(), set.Snapshot()[op].Owing)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Keys that other servers run now are not counted as waiting here, and those that stay are.
//
// It was seen to fail: for ten minutes after a handover every first call of a run was
// refused once, and the server counted as one that waits for its budget.
//
// Negative control: mutant "keys that have left are waited for".
func TestKeysThatLeaveAServerOweItNothing(t *testing.T) {
	set, err := NewSet(&Options{Limits: func(Name) (Limits, error) {
		return Limits{Read: Rate{PerSecond: 1, Burst: 1}, Judge: func(error) Verdict { return Verdict{} }}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	q, err := set.Get(Name{API: "dns"})
	if err != nil {
		t.Fatal(err)
	}
	o, err := Limit(func(string) (*Quota, error) { return q, nil }, &reconcile.Options[string]{})
	if err != nil {
		t.Fatal(err)
	}
	limited := o.Middleware[0](reconcile.Func[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
		return reconcile.Result{}, q.Do(ctx, Read, func(context.Context) error { return nil })
	}))
	for _, key := range []string{"pays", "stays", "leaves", "leaves too"} {
		_, _ = limited.Reconcile(t.Context(), key)
	}
	if owing := set.Snapshot()[0].Owing; owing != 3 {
		t.Fatalf("%d keys wait, want 3", owing)
	}
	limited.(reconcile.Forgetter[string]).Forget(func(key string) bool { return key != "stays" })
	if owing := set.Snapshot()[0].Owing; owing != 1 {
		t.Errorf("%d keys wait when two have left, want 1", owing)
	}
}

// What a key has paid to one account pays for no call to another: its object has moved to
// that while it waited.
//
// promise Q6. Negative control: mutant "what was paid to another account counts".
func TestTokenOfOneAccountPaysForNoCallToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := NewSet(&Options{Limits: func(Name) (Limits, error) {
			return Limits{Read: Rate{PerSecond: 0.001, Burst: 1}, Judge: func(error) Verdict { return Verdict{} }}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		var accounts [2]*Quota
		for i, name := range []string{"old", "new"} {
			if accounts[i], err = set.Get(Name{Account: name}); err != nil {
				t.Fatal(err)
			}
		}
		q, calls := accounts[0], 0
		o, err := Limit(func(string) (*Quota, error) { return q, nil }, &reconcile.Options[string]{})
		if err != nil {
			t.Fatal(err)
		}
		limited := o.Middleware[0](reconcile.Func[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
			return reconcile.Result{}, q.Do(ctx, Read, func(context.Context) error { calls++; return nil })
		}))
		run := func(want int) {
			t.Helper()
			if _, err := limited.Reconcile(t.Context(), "key"); err != nil && !ratelimit.IsThrottled(err) {
				t.Fatal(err)
			}
			if calls != want {
				t.Fatalf("%d calls, want %d", calls, want)
			}
		}
		run(1)
		run(1) // the budget of the old account is used up: the key waits for its next token
		if err := accounts[1].Do(t.Context(), Read, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		q = accounts[1] // whose budget is used up too
		run(1)
	})
}

// What the options of a controller had before stays: its own buckets hold its keys, and its
// middleware comes before the quota's. What was given to Limit does not change.
//
// Negative control: mutant "the buckets of a limited controller's own options are dropped".
func TestLimitKeepsWhatTheOptionsHad(t *testing.T) {
	q := newTestQuotas(t, "a")[0]
	own, err := ratelimit.NewBucket("own", 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	given := &reconcile.Options[string]{Workers: 3}
	given.Queue.Buckets = func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, own) }
	given.Middleware = append(make([]func(reconcile.Reconciler[string]) reconcile.Reconciler[string], 0, 4), func(next reconcile.Reconciler[string]) reconcile.Reconciler[string] {
		return reconcile.Func[string](func(ctx context.Context, key string) (reconcile.Result, error) {
			order = append(order, "own")
			return next.Reconcile(ctx, key)
		})
	})
	o, err := Limit(func(string) (*Quota, error) { return q, nil }, given)
	if err != nil {
		t.Fatal(err)
	}
	if given.Middleware[:2][1] != nil {
		t.Error("the slice that was given has the quota's middleware behind its end")
	}
	if got := o.Queue.Buckets("k", nil); len(got) != 1 || got[0] != own {
		t.Errorf("a key that owes nothing has the buckets %v, want its own", got)
	}
	if o.Workers != 3 || len(o.Middleware) != 2 || len(given.Middleware) != 1 || len(given.Queue.Buckets("k", nil)) != 1 {
		t.Errorf("%d workers, %d and %d middlewares; want 3, 2 and still 1", o.Workers, len(o.Middleware), len(given.Middleware))
	}
	run := reconcile.Reconciler[string](reconcile.Func[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
		order = append(order, "run")
		return reconcile.Result{}, q.Do(ctx, Read, none)
	}))
	for _, m := range slices.Backward(o.Middleware) {
		run = m(run)
	}
	if _, err := run.Reconcile(t.Context(), "k"); err != nil || len(order) != 2 || order[0] != "own" {
		t.Errorf("ran %v, error %v", order, err)
	}
	if _, err := run.Reconcile(t.Context(), "k"); !ratelimit.IsThrottled(err) { // it owes now
		t.Fatalf("a run without a budget: %v, want that it is throttled", err)
	}
	if got := o.Queue.Buckets("k", nil); len(got) != 2 || got[0] != own || got[1] != q.budgets[Read].bucket {
		t.Errorf("a key that owes has the buckets %v, want its own and the quota's", got)
	}
}

// Where reads and writes share a budget, a run pays for its first call once, whatever it was
// admitted for and however the call is named.
//
// Negative control: mutant "a call under a shared budget is paid twice".
func TestFirstCallUnderASharedBudgetIsPaidOnce(t *testing.T) {
	for _, admitted := range []Op{Read, Write} {
		for _, called := range []Op{Read, Write} {
			synctest.Test(t, func(t *testing.T) {
				set, err := NewSet(&Options{Limits: func(Name) (Limits, error) {
					return Limits{Read: Rate{PerSecond: 0.001, Burst: 2}, Judge: func(error) Verdict { return Verdict{} }}, nil
				}})
				if err != nil {
					t.Fatal(err)
				}
				q, err := set.Get(Name{API: "dns"})
				if err != nil {
					t.Fatal(err)
				}
				run := limitedBy(t, q, func(ctx context.Context) error {
					if err := Admit(ctx, admitted); err != nil {
						return err
					}
					return q.Do(ctx, called, none)
				})
				for i := range 2 {
					if err := run(); err != nil {
						t.Errorf("run %d, admitted for %v, calls for %v: %v", i, admitted, called, err)
					}
				}
				if left := q.budgets[Read].bucket.Stats().Tokens; left > 0.01 {
					t.Errorf("%v tokens are left after two calls, want none", left)
				}
			})
		}
	}
}

// A key without a quota runs as if there were none, and its calls of a quota are paid one by one.
//
// Negative control: mutant "a key without a quota has a ticket".
func TestKeyWithoutAQuotaRuns(t *testing.T) {
	o, err := Limit(func(string) (*Quota, error) { return nil, nil }, &reconcile.Options[string]{})
	if err != nil {
		t.Fatal(err)
	}
	q, runs := newTestQuotas(t, "a")[0], 0
	run := o.Middleware[0](reconcile.Func[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
		if runs++; runs > 1 {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, q.Do(ctx, Read, none)
	}))
	for range 2 {
		if _, err := run.Reconcile(t.Context(), "k"); err != nil {
			t.Error(err)
		}
	}
	if read, _ := q.Calls(); runs != 2 || read != 1 || len(o.Queue.Buckets("k", nil)) != 0 {
		t.Errorf("%d runs, %d calls and the buckets %v, want 2, 1 and none", runs, read, o.Queue.Buckets("k", nil))
	}
}
