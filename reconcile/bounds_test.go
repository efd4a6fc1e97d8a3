package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
)

// An idle controller has nothing to wake up for, whatever its deadlines are.
func TestIdleControllerSleepsWhateverItsTimeoutIs(t *testing.T) {
	for _, timeout := range []time.Duration{1, time.Millisecond, 5 * time.Minute, -1} {
		bubble(t, func(t *testing.T) {
			c := newController(t, record[string](nil), &reconcile.Options[string]{Timeout: timeout})
			start(t, c)
			pass(time.Hour)
			if n := reconcile.Looks(c); n != 0 {
				t.Errorf("timeout %v: the watchdog of an idle controller looked %d times in an hour", timeout, n)
			}
		})
	}
}

// Short runs bring one look in the length of a deadline, not one each.
func TestWatchdogLooksOnceInTheLengthOfADeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newController(t, record[int](nil), &reconcile.Options[int]{Timeout: time.Minute})
		start(t, c)
		for i := range 600 {
			add(t, c, i)
			pass(time.Second)
		}
		if n := reconcile.Looks(c); n > 10 {
			t.Errorf("the watchdog looked %d times in ten minutes of short runs, want once a minute at most", n)
		}
		expect(t, "timeouts", c.Counts().Timeout, 0)
	})
}

// controller-runtime's "should time out if ReconciliationTimeout is 1 ns".
//
// case 74
func TestTimeoutOfANanosecondEndsTheRunAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record(func(ctx context.Context, k string) (result, error) {
			<-ctx.Done()
			if k == "stubborn" {
				time.Sleep(time.Hour)
			}
			if cause := context.Cause(ctx); !errors.Is(cause, reconcile.ErrDeadline) {
				t.Errorf("the run ended by %v", cause)
			}
			return result{}, nil
		})
		c := newController(t, r, &reconcile.Options[string]{Timeout: 1})
		start(t, c)
		began := time.Now()
		add(t, c, "k")
		pass(time.Millisecond)
		expect(t, "timeouts", c.Counts().Timeout, 1)
		add(t, c, "stubborn") // does not keep the watchdog busy either
		pass(2 * time.Hour)
		expect(t, "timeouts", c.Counts().Timeout, 2)
		if n := reconcile.Looks(c); n > 10 {
			t.Errorf("the watchdog looked %d times at two runs in %v", n, time.Since(began))
		}
	})
}

// A deadline that comes while the watchdog waits for another, later one is kept.
func TestEachRunEndsAtItsOwnDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var took list[time.Duration]
		r := record(func(ctx context.Context, i int) (result, error) {
			began := time.Now()
			if i == 0 { // stays beyond its end: the watchdog waits for it to be stuck
				time.Sleep(30 * time.Second)
				return result{}, nil
			}
			<-ctx.Done()
			took.add(time.Since(began).Round(10 * time.Millisecond))
			return result{}, nil
		})
		c := newController(t, r, &reconcile.Options[int]{Timeout: 20 * time.Second})
		start(t, c)
		for i := range 5 {
			add(t, c, i)
			pass(700 * time.Millisecond)
		}
		pass(30 * time.Second)
		expectList(t, "took", took.get(), seconds(20, 20, 20, 20)...)
	})
}

// Each run that hangs is reported a tenth of Timeout after its own context has ended, not
// sooner and not later, whatever other runs begin, end and hang meanwhile.
//
// promise R3. Negative control: mutant "a look at another run puts off the report of a run
// that hangs".
func TestEachRunThatHangsIsReportedAtItsOwnTime(t *testing.T) {
	for seed := range uint64(30) {
		bubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			began, stuck := time.Now(), map[int]time.Duration{}
			var mu sync.Mutex
			starts, lasts := map[int]time.Duration{}, map[int]time.Duration{}
			c := newController(t, reconcile.Func[int](func(ctx context.Context, k int) (result, error) {
				time.Sleep(lasts[k])
				return result{}, nil
			}), &reconcile.Options[int]{
				Workers: 20, Timeout: 100 * time.Second,
				Hooks: reconcile.Hooks[int]{OnStuck: func(k int, _ time.Duration) {
					mu.Lock()
					defer mu.Unlock()
					stuck[k] = time.Since(began)
				}},
			})
			start(t, c)
			want := map[int]time.Duration{}
			at := time.Duration(0)
			for k := range 1 + rng.IntN(12) {
				starts[k] = at
				if lasts[k] = time.Duration(rng.IntN(130)+1)*time.Second + time.Millisecond; lasts[k] > 110*time.Second {
					want[k] = at + 110*time.Second
				}
				add(t, c, k)
				wait := time.Duration(rng.IntN(15)) * time.Second
				pass(wait)
				at += wait
			}
			pass(5 * time.Minute)
			mu.Lock()
			defer mu.Unlock()
			if !maps.Equal(stuck, want) {
				t.Errorf("seed %d: runs that began at %v and last %v were reported at %v, want %v", seed, starts, lasts, stuck, want)
			}
		})
	}
}

// Times near the largest one mean "never": nothing overflows.
func TestLargestTimesMeanNever(t *testing.T) {
	const most = time.Duration(math.MaxInt64)
	bubble(t, func(t *testing.T) {
		r := record(func(ctx context.Context, k string) (result, error) {
			by, ok := ctx.Deadline()
			if ok && time.Until(by) < 50*365*24*time.Hour {
				t.Errorf("the deadline is %v", by)
			}
			child, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			<-child.Done()
			if ctx.Err() != nil {
				t.Errorf("the run's context ended: %v", context.Cause(ctx))
			}
			if k == "long" {
				time.Sleep(10 * time.Minute)
				if ctx.Err() != nil {
					t.Errorf("the run's context ended: %v", context.Cause(ctx))
				}
			}
			return result{}, nil
		})
		var told list[string]
		c := newController(t, r, &reconcile.Options[string]{
			Timeout: most, StopTimeout: most, Resync: most, CacheWait: most, SyncTimeout: most,
			Hooks: reconcile.Hooks[string]{OnStuck: func(k string, _ time.Duration) { told.add(k) }},
		})
		run := start(t, c)
		add(t, c, "k")
		pass(time.Second)
		expect(t, "runs that succeeded", c.Counts().Success, 1)
		add(t, c, "long")
		synctest.Wait()
		began := time.Now()
		if err := run.end(); err != nil { // drains it
			t.Errorf("Run = %v", err)
		}
		if took := time.Since(began); took < 10*time.Minute {
			t.Errorf("the stop took %v, want the long run drained", took)
		}
		expectList(t, "stuck", told.get())
	})
}

// case 73, 76 of a Manager: running keys are drained for two thirds of StopTimeout,
// however long that is.
func TestManagersStopTimeoutHasSensibleBounds(t *testing.T) {
	for _, limit := range []time.Duration{math.MaxInt64, math.MaxInt64/2 + 1, 1_300_000 * time.Hour} {
		bubble(t, func(t *testing.T) {
			r := record(func(ctx context.Context, _ string) (result, error) {
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Second):
				}
				return result{}, ctx.Err()
			})
			c := newController(t, r, nil)
			m := reconcile.Manager{StopTimeout: limit}
			if err := m.Register(c); err != nil {
				t.Fatal(err)
			}
			run := start(t, &m)
			add(t, c, "k")
			synctest.Wait()
			if err := run.end(); err != nil {
				t.Errorf("Run = %v", err)
			}
			if n := c.Counts(); n.Success != 1 {
				t.Errorf("StopTimeout %v: the running key was not drained: %+v", limit, n)
			}
		})
	}
	m := reconcile.Manager{StopTimeout: -1}
	if err := m.Register(newController(t, record[string](nil), nil)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Run(ctx); err == nil || !strings.Contains(err.Error(), "StopTimeout is -1ns") {
		t.Errorf("Run with a negative StopTimeout = %v", err)
	}
}

// A number of workers that no machine can run is refused, not tried.
func TestAbsurdNumbersAreRefused(t *testing.T) {
	r := record[string](nil)
	for name, o := range map[string]reconcile.Options[string]{
		"Workers": {Workers: math.MaxInt},
		"Adapt":   {Adapt: &reconcile.Adapt{Max: math.MaxInt}},
	} {
		if _, err := reconcile.New("x", r, &o); err == nil || !strings.Contains(err.Error(), fmt.Sprint(math.MaxInt)) {
			t.Errorf("New with absurd %s = %v", name, err)
		}
	}
	if _, err := reconcile.NewBatch("x", noBatches, &reconcile.Options[int]{Batch: math.MaxInt}); err == nil || !strings.Contains(err.Error(), fmt.Sprint(math.MaxInt)) {
		t.Errorf("NewBatch with an absurd Batch = %v", err)
	}
	c := newController(t, r, &reconcile.Options[string]{Workers: 3})
	for _, n := range []int{math.MaxInt, 1_000_000, -1} {
		if err := c.SetWorkers(n); err == nil {
			t.Errorf("SetWorkers(%d) gave no error", n)
		}
	}
	expect(t, "workers", c.Workers(), 3)
}

// Workers that are many come and go while keys run.
func TestManyWorkersComeAndGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const n = 5_000
		gate := make(chan struct{})
		r := record(func(context.Context, int) (result, error) { <-gate; return result{}, nil })
		c := newController(t, r, &reconcile.Options[int]{Workers: n, Queue: queue.Options[int]{Shards: 1}})
		run := start(t, c)
		for i := range 100 {
			add(t, c, i)
		}
		synctest.Wait()
		for _, want := range []int{10, n, 0, n / 2} {
			if err := c.SetWorkers(want); err != nil {
				t.Fatal(err)
			}
		}
		close(gate)
		synctest.Wait()
		expect(t, "runs", r.count(), 100)
		expect(t, "runs that were counted", c.Counts().Success, 100)
		if err := run.end(); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

// The times that follow from Timeout and StopTimeout are those that the options' comments
// name.
//
// case 79; promise R3
func TestTimesThatFollowFromTimeoutAndStopTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		time.Millisecond: 10 * time.Millisecond, time.Minute: 6 * time.Second, time.Hour: 30 * time.Second,
	} {
		bubble(t, func(t *testing.T) {
			var told list[time.Duration]
			r := record(func(context.Context, string) (result, error) { time.Sleep(2 * time.Hour); return result{}, nil })
			c := newController(t, r, &reconcile.Options[string]{
				Timeout: timeout, Hooks: reconcile.Hooks[string]{OnStuck: func(_ string, since time.Duration) { told.add(since) }},
			})
			start(t, c)
			add(t, c, "k")
			pass(2 * time.Hour)
			expectList(t, "reported as stuck after", told.get(), timeout+want)
		})
	}
	// The Manager's StopTimeout is the most and the default of a controller's.
	for _, c := range []struct{ managers, own, drain time.Duration }{
		{0, 0, 30 * time.Second},
		{12 * time.Second, 0, 8 * time.Second},
		{12 * time.Second, time.Hour, 8 * time.Second},
		{12 * time.Second, 3 * time.Second, 2 * time.Second},
		{12 * time.Second, -1, 0},
	} {
		bubble(t, func(t *testing.T) {
			var drained time.Duration
			ctl := newController(t, record(func(ctx context.Context, _ string) (result, error) {
				<-ctx.Done()
				drained = time.Since(ctx.Value(beganKey{}).(time.Time))
				return result{}, ctx.Err()
			}), &reconcile.Options[string]{StopTimeout: c.own})
			m := reconcile.Manager{StopTimeout: c.managers}
			if err := m.Register(ctl); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.WithValue(t.Context(), beganKey{}, time.Now()))
			ended := make(chan error)
			go func() { ended <- m.Run(ctx) }() // awaited below
			add(t, ctl, "k")
			synctest.Wait()
			stop()
			if err := <-ended; err != nil || drained != c.drain {
				t.Errorf("%v of a Manager with %v: the run was drained for %v (%v), want %v", c.own, c.managers, drained, err, c.drain)
			}
		})
	}
}

type beganKey struct{}
