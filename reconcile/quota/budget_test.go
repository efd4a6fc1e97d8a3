package quota

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store/memory"
)

// newTestBudget makes a budget of its own, whose tokens are used up at once.
func newTestBudget(t *testing.T, r Rate) *budget {
	t.Helper()
	b, err := newBudget("test/read", r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// begun are so many calls that leave now.
func begun(t *testing.T, b *budget, n int) []call {
	t.Helper()
	calls := make([]call, 0, n)
	for range n {
		if err := b.take(); err != nil {
			t.Fatal(err)
		}
		c, err := b.begin(time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, c)
	}
	return calls
}

// The rate was lowered for a call that was refused: the answers of calls that were paid before
// that are of the rate of before, and do not raise it.
//
// Negative control: mutant "answers of before a cut raise the rate".
func TestAnswersOfBeforeACutDoNotRaiseTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBudget(t, Rate{PerSecond: 20, Burst: 20, Ceiling: 100})
		calls := begun(t, b, 20)
		time.Sleep(time.Millisecond)
		b.end(calls[0], Verdict{Throttled: true})
		cut := b.found
		if cut >= 20 {
			t.Fatalf("the rate is %v after a refusal, want less than 20", cut)
		}
		for i := range calls[1:] {
			calls[1+i].tight = true
			b.end(calls[1+i], Verdict{})
		}
		if b.found != cut {
			t.Errorf("the rate is %v after answers of before it was cut, want %v as cut", b.found, cut)
		}
	})
}

// Of calls that leave and fail at one moment five open the breaker. The others say the same,
// and do not make the pause longer.
//
// Negative control: mutant "calls of before the breaker opened lengthen its pause".
func TestFailuresOfOneMomentOpenTheBreakerOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBudget(t, Rate{PerSecond: 20, Burst: 20})
		opened := 0
		for _, c := range begun(t, b, 20) {
			if open, _, _ := b.end(c, Verdict{Down: true}); open {
				opened++
			}
		}
		if opened != 1 || b.circuit.pause != firstPause {
			t.Errorf("the breaker opened %d times, with a pause of %v; want once, and %v", opened, b.circuit.pause, firstPause)
		}
	})
}

// limitedBy is a function under the quota that runs once for each call of the result.
func limitedBy(t *testing.T, q *Quota, f func(ctx context.Context) error) (run func() error) {
	t.Helper()
	o, err := Limit(func(string) (*Quota, error) { return q, nil }, &reconcile.Options[string]{})
	if err != nil {
		t.Fatal(err)
	}
	limited := o.Middleware[0](reconcile.Func[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
		return reconcile.Result{}, f(ctx)
	}))
	return func() error {
		_, err := limited.Reconcile(t.Context(), "key")
		return err
	}
}

// newTestQuotas are quotas of one set, each of one call and then of none for long.
func newTestQuotas(t *testing.T, names ...string) (list []*Quota) {
	t.Helper()
	set, err := NewSet(&Options{Limits: func(Name) (Limits, error) {
		return Limits{Read: Rate{PerSecond: 0.001, Burst: 1}, Judge: func(error) Verdict { return Verdict{} }}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		q, err := set.Get(Name{Account: name})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, q)
	}
	return list
}

func none(context.Context) error { return nil }

// A run that goes on after a refusal and is refused again owes what it owes once: else the
// budget would have a key that waits for ever, and refuse all first calls.
//
// promise Q6. Negative control: mutant "a run that is refused twice owes twice".
func TestRunThatIsRefusedTwiceOwesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQuotas(t, "a")[0]
		run := limitedBy(t, q, func(ctx context.Context) error {
			return errors.Join(q.Do(ctx, Read, none), q.Do(ctx, Read, none))
		})
		if err := q.Do(t.Context(), Read, none); err != nil {
			t.Fatal(err)
		}
		if err := run(); !queue.IsThrottled(err) {
			t.Fatalf("a run without a budget: %v, want that it is throttled", err)
		}
		if n := q.set.Snapshot()[0].Owing; n != 1 {
			t.Errorf("%d keys wait after a run that was refused twice, want 1", n)
		}
		if err := q.budgets[Read].bucket.SetLimit(1000, 1000); err != nil { // the key's turn comes, and pays
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := run(); err != nil {
			t.Error(err)
		}
		if n := q.set.Snapshot()[0].Owing; n != 0 {
			t.Errorf("%d keys wait after the run was made, want none", n)
		}
	})
}

// A key that is refused waits for all that its run has asked for, and not for what it lacked
// alone: its next run needs the rest again, whether a call was made with it or not.
//
// promise Q6. Negative controls: mutants "a refused key waits for what it lacked alone" and "a
// token that was held and not used is not owed again".
func TestRefusedKeyWaitsForAllThatItsRunAskedFor(t *testing.T) {
	for name, ask := range map[string]func(ctx context.Context, q *Quota, op Op) error{
		"calls":    func(ctx context.Context, q *Quota, op Op) error { return q.Do(ctx, op, none) },
		"admitted": func(ctx context.Context, _ *Quota, op Op) error { return Admit(ctx, op) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rate := Rate{PerSecond: 0.001, Burst: 2}
				set, err := NewSet(&Options{Limits: func(Name) (Limits, error) {
					return Limits{Read: rate, Write: rate, Judge: func(error) Verdict { return Verdict{} }}, nil
				}})
				if err != nil {
					t.Fatal(err)
				}
				q, err := set.Get(Name{API: "dns"})
				if err != nil {
					t.Fatal(err)
				}
				run := limitedBy(t, q, func(ctx context.Context) error {
					if err := ask(ctx, q, Read); err != nil {
						return err
					}
					return ask(ctx, q, Write)
				})
				for range rate.Burst { // no write is left
					if err := q.Do(t.Context(), Write, none); err != nil {
						t.Fatal(err)
					}
				}
				if err := run(); !queue.IsThrottled(err) {
					t.Fatalf("a run without a write: %v, want that it is throttled", err)
				}
				if read, write := q.Owing(); read != 1 || write != 1 {
					t.Errorf("the key owes %d reads and %d writes, want one of each", read, write)
				}
			})
		})
	}
}

// A call to another account than the one that the run is limited by is paid by that account.
//
// promise Q6. Negative control: mutant "a call to another account is paid by the run's".
func TestCallToAnotherAccountIsPaidThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := newTestQuotas(t, "mine", "other")
		run := limitedBy(t, both[0], func(ctx context.Context) error { return both[1].Do(ctx, Read, none) })
		if err := run(); err != nil {
			t.Fatal(err)
		}
		for i, want := range []float64{1, 0} {
			if got := both[i].budgets[Read].bucket.Stats().Tokens; got < want || got >= want+0.5 {
				t.Errorf("account %s has %v tokens, want %v", both[i].Name(), got, want)
			}
		}
	})
}

// newSharedSet is a set of the server "one", whose budgets of a call a second each it shares with
// the other members.
func newSharedSet(t *testing.T) (*Set, *lease.Members) {
	t.Helper()
	b, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	m, err := lease.NewMembers(b, "quotas", &lease.Options{Server: "one"})
	if err != nil {
		t.Fatal(err)
	}
	set, err := NewSet(&Options{Members: m, Limits: func(Name) (Limits, error) {
		return Limits{Read: Rate{PerSecond: 1}, Judge: func(error) Verdict { return Verdict{} }}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return set, m
}

// A server that says that it needs less has no more from then on, also before it has heard its
// own words from the store: others may have heard them.
//
// promise Q6. Negative control: mutant "a server is bound by what it said when it hears it".
func TestServerIsBoundByWhatItSaysAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, m := newSharedSet(t)
		q, err := set.Get(Name{Account: "a"})
		if err != nil {
			t.Fatal(err)
		}
		f := following{parts: map[*budget]*steered{}, gauges: map[*budget]*gauge{}, ttl: m.TTL()}
		heard := board{live: 1, self: "one", said: map[string]needs{"one": nil}}
		set.divide(&f, heard)
		if got := q.budgets[Read].part(); got != 1 {
			t.Fatalf("the only server has %v of the budget, want all", got)
		}
		set.say(needs{q.budgets[Read].bucket.Name(): 0.05})
		heard = board{live: 2, self: "one", said: map[string]needs{"one": nil, "two": nil}}
		set.divide(&f, heard)
		if got := q.budgets[Read].part(); got != 0.05 {
			t.Errorf("a server that says that it needs 0.05 of the budget has %v of it", got)
		}
	})
}

// A new budget is bound by the need that the server says, and after that by the need that was
// said last, for as long as others may go on with the rest.
//
// promise Q1. Negative controls: mutants "a new budget is not bound by the need that its server
// says" and "what a server said first binds it, and not what it said last".
func TestNewBudgetIsBoundByWhatWasSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, m := newSharedSet(t)
		set.share = 0.5
		want := func(when, account string, part float64) {
			t.Helper()
			delete(set.quotas, Name{Account: account})
			q, err := set.Get(Name{Account: account})
			if err != nil {
				t.Fatal(err)
			}
			if got := q.budgets[Read].part(); got != part {
				t.Errorf("%s: the new budget has a part of %v, want %v", when, got, part)
			}
		}
		const name = "a/read"
		want("nothing is said", "a", 0.5)
		if got := set.quotas[Name{Account: "a"}].held.budgets[Read].bucket.Name(); got != name {
			t.Fatalf("the bucket is %q, want %q", got, name)
		}
		set.say(needs{name: 0.1})
		want("0.1 is said", "a", 0.1)
		want("0.1 is said of another", "b", 0.5)
		set.say(nil)
		time.Sleep(m.TTL() / 2)
		want("0.1 was said a moment ago", "a", 0.1)
		set.say(needs{name: 0.3})
		want("0.3 is said", "a", 0.3)
		set.say(nil)
		time.Sleep(3 * m.TTL() / 4) // the first was said more than a TTL ago
		want("0.3 was said a moment ago", "a", 0.3)
		time.Sleep(m.TTL() / 4)
		want("0.3 was said a TTL ago", "a", 0.5)
	})
}

// While a budget may not be used, nothing is found out of what a server needs of it: else one
// that uses all of it would say after each pause that it needs next to nothing.
//
// Negative control: mutant "a paused budget is taken for one that is not needed".
func TestPausedBudgetSaysNothingOfTheNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, g := newTestBudget(t, Rate{PerSecond: 10, Burst: 10}), gauge{}
		look := func(calls int) float64 {
			b.mu.Lock()
			b.stats.calls += uint64(calls)
			b.mu.Unlock()
			time.Sleep(time.Second)
			g.read(b, time.Now(), 0.5, true)
			return g.need
		}
		for range 100 {
			look(2) // a fifth of the rate
		}
		if need := look(2); need != 0.4 { // twice as much
			t.Fatalf("the need is %v, want 0.4", need)
		}
		b.pauseUntil(time.Now().Add(time.Hour))
		for range 100 {
			if need := look(0); need != 0.4 {
				t.Fatalf("during a pause the need becomes %v", need)
			}
		}
		b.pauseUntil(time.Time{})
		for range 100 {
			look(0)
		}
		if need := look(0); need >= 0.2 {
			t.Errorf("of a budget that is not used the need is %v", need)
		}
	})
}
