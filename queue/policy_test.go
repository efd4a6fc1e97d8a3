package queue

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
)

// case 109
func TestExponentialRetryGivesUp(t *testing.T) {
	var seen []int
	var exhausted int
	retry := ExponentialRetry(5*time.Second, 5)
	o := &Options[string]{
		Policy: func(n int, err error) time.Duration {
			seen = append(seen, n)
			return retry(n, err)
		},
		Hooks: &Hooks[string]{Exhausted: func(key string, attempts int, err error) {
			exhausted++
			if key != "k" || attempts != 7 || !errors.Is(err, errTest) {
				t.Errorf("exhausted %s after %d: %v", key, attempts, err)
			}
		}},
	}
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		add(t, q, "k")
		for _, want := range []time.Duration{0, 5, 10, 20, 40, 80, 160} {
			start := time.Now()
			it := get(t, q)
			if got := time.Since(start); got != want*time.Second {
				t.Errorf("retried after %v, want %vs", got, want)
			}
			it.Retry(errTest, 0)
		}
		wantState(t, q, "k", StateParked)
		time.Sleep(time.Hour)
		wantNone(t, q)
		if len(seen) != 7 || seen[0] != 0 || seen[6] != 6 || exhausted != 1 {
			t.Errorf("the policy saw %v, exhausted %d times; want 0 to 6, once", seen, exhausted)
		}
	})
	o.Policy = func(int, error) time.Duration { return -1 }
	o.Hooks = nil
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		add(t, q, "k")
		get(t, q).Retry(errTest, time.Minute)
		wantState(t, q, "k", StateParked)
	})
}

func TestMaxAttemptsParks(t *testing.T) {
	var parked, exhausted int
	o := oneOrder()
	o.MaxAttempts = 3
	o.Hooks = &Hooks[string]{
		Parked:    func(string, int, error) { parked++ },
		Exhausted: func(_ string, attempts int, _ error) { exhausted = attempts },
	}
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		add(t, q, "k", "terminal")
		for range 4 {
			it := get(t, q)
			if it.Key == "terminal" {
				it.Park(errTest)
				continue
			}
			it.Retry(errTest, 0)
		}
		wantState(t, q, "k", StateParked)
		if parked != 1 || exhausted != 3 {
			t.Errorf("parked %d times, exhausted after %d; want 1, 3", parked, exhausted)
		}
	})
}

// case 142
func TestBackoffIsBoundedAndJittered(t *testing.T) {
	for _, c := range []struct {
		b         Backoff
		base, max time.Duration
	}{
		{Backoff{}, DefaultBase, DefaultMax},
		{Backoff{Base: time.Second, Max: time.Hour}, time.Second, time.Hour},
		{Backoff{Base: time.Minute, Max: time.Second}, time.Minute, time.Minute},
	} {
		p := c.b.Policy()
		different := map[time.Duration]bool{}
		for _, n := range []int{0, 1, 5, 62, 63, 64, 10_000, math.MaxInt} {
			bound := c.max
			if n < 30 {
				bound = min(c.max, c.base<<n)
			}
			for range 100 {
				d := p(n, nil)
				if d <= 0 || d > bound {
					t.Fatalf("%+v: delay %d is %v, want in (0, %v]", c.b, n, d, bound)
				}
				different[d] = true
			}
		}
		if len(different) < 700 {
			t.Errorf("%+v: %d different delays of 800, want full jitter", c.b, len(different))
		}
	}
	if d := (Backoff{Base: time.Minute, Max: time.Second, NoJitter: true}).Policy()(3, nil); d != time.Minute {
		t.Errorf("with a Max below Base the delay is %v, want Base", d)
	}
	exact := Backoff{Base: time.Second, Max: 5 * time.Second, NoJitter: true}.Policy()
	for n, want := range []time.Duration{1, 2, 4, 5, 5} {
		if got := exact(n, nil); got != want*time.Second {
			t.Errorf("delay %d is %v, want %vs", n, got, want)
		}
	}
}

type (
	fourStrings struct{ A, B, C, D string }
	pointerKey  struct {
		Name string
		At   struct{ P *int }
	}
)

// case 152
func TestKeyTypesThatCannotBeComparedByValueAreRefused(t *testing.T) {
	refused := map[string]error{}
	refuse := func(name string, err error) { refused[name] = err }
	_, err := New[*int](nil)
	refuse("a pointer", err)
	_, err = New[pointerKey](nil)
	refuse("a pointer in P in At", err)
	_, err = New[any](nil)
	refuse("an interface", err)
	_, err = New[[2]float64](nil)
	refuse("a float", err)
	_, err = New[chan int](nil)
	refuse("a channel", err)
	for what, err := range refused {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := New(&Options[any]{UncheckedKeys: true}); err != nil {
		t.Errorf("unchecked: %v", err)
	}
	q, err := New[fourStrings](nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		key := fourStrings{"a", "b", "c", strings.Repeat("d", 3)}
		if err := q.Add(key); err != nil {
			t.Fatal(err)
		}
	}
	if q.Len() != 1 {
		t.Errorf("%d keys, want 1", q.Len())
	}
}

// A queue has four shards for each processor, sixteen at most, and one where one order is needed.
func TestDefaultNumberOfShards(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for n, want := range map[int]int{1: 1, 2: 8, 3: 16, 4: 16, 8: 16} {
		runtime.GOMAXPROCS(n)
		for o, want := range map[*Options[string]]int{
			{}: want, {Shards: 3}: 4, {Tenant: func(string) string { return "" }}: 1,
			{Buckets: func(string, []*ratelimit.Bucket) []*ratelimit.Bucket { return nil }}: 1,
		} {
			if err := o.complete(); err != nil || o.Shards != want {
				t.Errorf("with %d processors a queue has %d shards, %v; want %d", n, o.Shards, err, want)
			}
		}
	}
}

func TestNewRefusesOptionsThatMakeNoSense(t *testing.T) {
	tenant := func(string) string { return "" }
	for _, o := range []*Options[string]{
		{MaxAttempts: -1},
		{MaxKeys: -1},
		{Shards: -1},
		{Shards: maxShards + 1},
		{Shards: 2, Tenant: tenant},
		{TenantRunning: 1},
		{TenantRunning: -1, Tenant: tenant},
	} {
		o.Name = "mine"
		if _, err := New(o); err == nil || !strings.HasPrefix(err.Error(), "queue: mine: ") {
			t.Errorf("%+v: %v, want an error that names the queue", o, err)
		}
	}
}

// Retry(nil, 0) is a backoff without an error: it grows, and keeps the attempts.
// case 153
func TestRetryWithoutErrorBacksOff(t *testing.T) {
	o := &Options[string]{Policy: Backoff{Base: time.Second, NoJitter: true}.Policy()}
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		add(t, q, "k")
		for n, want := range []time.Duration{0, 1, 2, 4} {
			start := time.Now()
			it := get(t, q)
			if it.Attempt != n || time.Since(start) != want*time.Second {
				t.Errorf("attempt %d after %v, want %d after %vs", it.Attempt, time.Since(start), n, want)
			}
			it.Retry(nil, 0)
			if err := entryOf(t, q, "k").LastError; err != nil {
				t.Errorf("last error %v, want none", err)
			}
		}
	})
}

// A failed key runs again at the latest of what the policy, the caller and the cloud say. That
// a cloud takes no calls is no failure, and the policy is not asked.
//
// Negative control: mutant "the least delay of a throttled run counts for nothing".
func TestRetryWaitsForTheLatestOfAll(t *testing.T) {
	for _, policy := range []time.Duration{0, 3 * time.Second, time.Minute} {
		for _, atLeast := range []time.Duration{-time.Second, 0, time.Second, 10 * time.Second, time.Hour} {
			for _, until := range []time.Duration{-time.Hour, 0, 5 * time.Second, 20 * time.Minute} {
				for _, throttled := range []bool{false, true} {
					t.Run(fmt.Sprint(policy, atLeast, until, throttled), func(t *testing.T) {
						o := &Options[string]{Policy: func(int, error) time.Duration { return policy }}
						bubble(t, o, func(t *testing.T, q *Queue[string]) {
							time.Sleep(2 * time.Hour)
							add(t, q, "k")
							it, err, want := get(t, q), errTest, max(policy, atLeast)
							if throttled {
								err, want = ratelimit.Throttled(nil, time.Now().Add(until), nil), max(until, atLeast)
							}
							it.Retry(err, atLeast)
							e := entryOf(t, q, "k")
							if got := time.Until(e.Next); want > 0 && got != want {
								t.Errorf("it is %v and runs in %v, want in %v", e.State, got, want)
							}
							if (e.Attempts == 0) != throttled {
								t.Errorf("it has failed %d times", e.Attempts)
							}
							time.Sleep(max(want, 0))
							synctest.Wait()
							wantState(t, q, "k", StateReady)
						})
					})
				}
			}
		}
	}
}

// What New was given is the caller's: its options and hooks may be changed afterwards.
//
// Negative control: mutant "hooks are not copied".
func TestOptionsAreCopied(t *testing.T) {
	called := ""
	hooks := Hooks[string]{
		Parked:    func(string, int, error) { called += "parked " },
		Exhausted: func(string, int, error) { called += "exhausted " },
	}
	o := &Options[string]{
		Name: "mine", Hooks: &hooks, MaxAttempts: 1, Shards: 1,
		Policy: func(int, error) time.Duration { called += "policy "; return 0 },
	}
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		*o, hooks = Options[string]{}, Hooks[string]{}
		add(t, q, "park", "fail")
		get(t, q).Park(errTest)
		get(t, q).Retry(errTest, 0)
		if want := "policy parked policy exhausted "; called != want || q.Name() != "mine" {
			t.Errorf("%s called %q, want %q", q.Name(), called, want)
		}
	})
}

// The priority after a run is the item's, if one was asked for, and else what the key has; what
// an add raised meanwhile stays raised.
//
// Negative control: mutant "a priority that is asked for is ignored if it is the run's own".
func TestPriorityAfterARun(t *testing.T) {
	bands := []int8{-100, -5, 0, 5, 100}
	for _, start := range bands {
		for _, replace := range []bool{false, true} {
			for add := range len(bands) + 1 {
				for with := range len(bands) + 1 {
					bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
						q.AddWith("k", AddOptions{Priority: At(start)})
						it, want, raised := get(t, q), start, false
						if add < len(bands) {
							q.AddWith("k", AddOptions{Priority: At(bands[add]), Replace: replace})
							if replace || bands[add] > start {
								want, raised = bands[add], true
							}
						}
						if with < len(bands) {
							it = it.WithPriority(At(bands[with]))
							if want = max(want, bands[with]); !raised {
								want = bands[with]
							}
						}
						it.After(time.Second)
						if got := entryOf(t, q, "k").Priority; got != At(want) {
							t.Errorf("began at %d, add %v of %v (replace: %v), WithPriority %v: %v, want %d", start, add, bands, replace, with, got, want)
						}
					})
				}
			}
		}
	}
}
