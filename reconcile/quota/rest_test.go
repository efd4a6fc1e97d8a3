package quota_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile/quota"
)

// wear has accounts come, make a call each, and go, so that a set has reason and time
// to forget what it can.
func wear(t *testing.T, set *quota.Set, rounds int) {
	t.Helper()
	for round := range rounds {
		for i := range 1000 {
			q := must(set.Get(quota.Name{Account: fmt.Sprintf("%d-%d", round, i)}))
			if err := q.Do(t.Context(), quota.Read, func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Hour)
		runtime.GC()
	}
}

// Accounts come and go for as long as a process lives.
//
// Negative control: with nothing ever tidied, 8,000 names were known.
func TestNamesThatNobodyUsesAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		few := newSet(quota.Rate{PerSecond: 10}, quota.Rate{PerSecond: 1})
		for i := range 900 {
			if i == 899 { // the others have counters, and the rates that were found
				time.Sleep(2 * time.Hour)
				runtime.GC()
			}
			must(few.Get(quota.Name{Account: fmt.Sprint(i)}))
		}
		if n := few.Names(); n != 900 {
			t.Errorf("%d names are known of 900, want all: they are few", n)
		}
		young := newSet(quota.Rate{PerSecond: 10}, quota.Rate{PerSecond: 1})
		for i := range 3000 {
			if i == 1500 {
				time.Sleep(50 * time.Minute)
				runtime.GC()
			}
			must(young.Get(quota.Name{Account: fmt.Sprint(i)}))
		}
		if n := young.Names(); n != 3000 {
			t.Errorf("%d names are known of 3,000 that were used within the hour, want all", n)
		}
		set := newSet(quota.Rate{PerSecond: 10}, quota.Rate{PerSecond: 1})
		wear(t, set, 8)
		if n := set.Names(); n > 4000 {
			t.Errorf("%d names are known after 8,000, want a few thousand", n)
		}
		q := must(set.Get(quota.Name{Account: "0-0"}))
		if again := must(set.Get(quota.Name{Account: "0-0"})); again != q {
			t.Error("a name that came back has two quotas")
		}
		if len(set.Snapshot()) != len(set.Buckets()) {
			t.Errorf("%d budgets have %d buckets", len(set.Snapshot()), len(set.Buckets()))
		}
	})
}

func TestNamesWithoutLimitsAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		asked := 0
		set := must(quota.NewSet(&quota.Options{Limits: func(quota.Name) (quota.Limits, error) {
			asked++
			return quota.Limits{}, errDown
		}}))
		for round := range 5 {
			for i := range 2000 {
				for range 2 {
					if _, err := set.Get(quota.Name{Account: fmt.Sprintf("%d-%d", round, i)}); !errors.Is(err, errDown) {
						t.Fatal(err)
					}
				}
			}
			time.Sleep(2 * time.Hour)
		}
		if n := set.Names(); n > 6000 || asked != 10_000 {
			t.Errorf("%d names are known of 10,000, and Limits was asked %d times for them", n, asked)
		}
	})
}

// What kept Limits from answering, a file that was being written for example, passes.
//
// Negative control: with errors forgotten only when there are many names, this one
// stayed until the process ended.
func TestLimitsAreAskedAgainAnHourAfterAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		asked := 0
		set := must(quota.NewSet(&quota.Options{Limits: func(quota.Name) (quota.Limits, error) {
			if asked++; asked == 1 {
				return quota.Limits{}, errDown
			}
			return quota.Limits{Read: quota.Rate{PerSecond: 1}, Judge: judge}, nil
		}}))
		name := quota.Name{API: "dns"}
		for range 2 {
			if _, err := set.Get(name); !errors.Is(err, errDown) || asked != 1 {
				t.Fatalf("%v after %d questions", err, asked)
			}
			time.Sleep(59 * time.Minute)
		}
		q, err := set.Get(name)
		if err != nil || asked != 2 {
			t.Fatalf("%v after %d questions and two hours", err, asked)
		}
		if again := must(set.Get(name)); again != q {
			t.Error("the name has two quotas")
		}
	})
}

// A quota that is held stays the quota of its name; one that is used up is
// remembered though it is not held, and so is one that was used again after a rest.
//
// Negative controls: with what is at rest deleted at once, the held name had a second
// quota; with rest taking no notice of atRest, the used up one was full; with use not
// holding again, the one used after a rest was.
func TestQuotaThatIsHeldOrUsedUpIsNotForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := must(quota.NewSet(&quota.Options{Limits: func(n quota.Name) (quota.Limits, error) {
			l, slow := quota.Limits{Read: quota.Rate{PerSecond: 10}, Judge: judge}, quota.Rate{PerSecond: 1.0 / (30 * 24 * 3600), Burst: 3}
			switch n.API {
			case "slow":
				l.Read = slow
			case "slow writes":
				l.Write = slow
			}
			return l, nil
		}})) // a call in a month
		used, rested := quota.Name{Account: "used", API: "slow"}, quota.Name{Account: "rested", API: "slow"}
		wrote := quota.Name{Account: "used", API: "slow writes"}
		call := func(q *quota.Quota) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return q.Do(ctx, quota.Write, func(context.Context) error { return nil })
		}
		spend := func(q *quota.Quota) {
			t.Helper()
			for range 3 {
				if err := call(q); err != nil {
					t.Fatal(err)
				}
			}
		}
		spend(must(set.Get(used)))
		spend(must(set.Get(wrote)))
		down := quota.Name{Account: "down"}
		fail := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return must(set.Get(down)).Do(ctx, quota.Read, func(context.Context) error { return errDown })
		}
		for range 5 {
			if err := fail(); !errors.Is(err, errDown) {
				t.Fatal(err)
			}
		}
		holder := must(set.Get(rested))
		held := must(set.Get(quota.Name{Account: "held"}))
		wear(t, set, 4)
		spend(holder)
		runtime.KeepAlive(holder) // from here on it is not held
		wear(t, set, 4)
		if again := must(set.Get(quota.Name{Account: "held"})); again != held {
			t.Error("a name has a second quota while the first is held")
		}
		for _, name := range []quota.Name{used, wrote, rested} {
			if err := call(must(set.Get(name))); !errors.Is(err, quota.ErrNoBudget) {
				t.Errorf("%v: %v, want it used up as before", name, err)
			}
		}
		if probe, next := fail(), fail(); !errors.Is(probe, errDown) || !errors.Is(next, quota.ErrNoBudget) {
			t.Errorf("%v, then %v: want one call to an endpoint that was down when it was left", probe, next)
		}
	})
}

// A name without limits is remembered for an hour, also when others are forgotten meanwhile, and
// not for longer.
//
// Negative control: mutant "a name without limits is forgotten before its hour".
func TestNameWithoutLimitsIsRememberedForAnHour(t *testing.T) {
	bubble(t, func(t *testing.T) {
		asked := map[string]int{}
		set := must(quota.NewSet(&quota.Options{Limits: func(n quota.Name) (quota.Limits, error) {
			asked[n.Account]++
			return quota.Limits{}, errDown
		}}))
		get := func(account string) {
			if _, err := set.Get(quota.Name{Account: account}); !errors.Is(err, errDown) {
				t.Fatal(err)
			}
		}
		fill := func(round, n int) {
			for i := range n {
				get(fmt.Sprintf("%d-%d", round, i))
			}
		}
		fill(0, 900)
		time.Sleep(50 * time.Minute)
		get("young")
		time.Sleep(20 * time.Minute)
		fill(1, 3000) // it tidies on the way
		get("young")
		if n := asked["young"]; n != 1 {
			t.Errorf("Limits was asked %d times within the hour, want once", n)
		}
		if n := set.Names(); n != 3001 {
			t.Errorf("%d names are known, want the 3001 of the last hour", n)
		}
	})
}
