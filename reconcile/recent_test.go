package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
)

// startOne runs a controller in a bubble until the test ends.
func startOne[K comparable](t *testing.T, r reconcile.Func[K], change func(*reconcile.Options[K])) *reconcile.Controller[K] {
	t.Helper()
	o := &reconcile.Options[K]{Logger: slog.New(slog.DiscardHandler), Backoff: queue.Backoff{Base: time.Minute, Max: time.Minute, NoJitter: true}}
	if change != nil {
		change(o)
	}
	c, err := reconcile.New("runs", r, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }() // ended by cancel, waited for in the cleanup
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return c
}

func TestLastTwentyRunsOfAKeyAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c := startOne(t, func(context.Context, string) (reconcile.Result, error) {
			n++
			time.Sleep(time.Duration(n) * time.Millisecond)
			switch n {
			case 24:
				return reconcile.Result{}, errors.New("no")
			case 25:
				return reconcile.Result{}, reconcile.Terminal(errors.New("never"))
			}
			return reconcile.Result{RequeueAfter: time.Second}, nil
		}, nil)
		if all := inspected(t, c).RecentRuns(t.Context(), "a"); all != nil {
			t.Errorf("nothing was asked for, and it keeps %v", all)
		}
		inspected(t, c).KeepRuns()
		begun := time.Now()
		if err := c.Add("a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		all := inspected(t, c).RecentRuns(t.Context(), "a")
		if n != 25 || len(all) != 20 {
			t.Fatalf("%d runs, of which %d are kept: %v", n, len(all), all)
		}
		for i, r := range all {
			want := introspect.RunSucceeded
			switch i {
			case 0:
				want = introspect.RunParked
			case 1:
				want = introspect.RunFailed
			}
			if r.Result != want || r.Took != time.Duration(25-i)*time.Millisecond {
				t.Errorf("run %d before the last: %v, want %s", i, r, want)
			}
			if r.Ended.Before(begun) || i > 0 && r.Ended.After(all[i-1].Ended) {
				t.Errorf("run %d before the last: ended %v", i, r.Ended)
			}
		}
		if all := inspected(t, c).RecentRuns(t.Context(), "b"); all != nil {
			t.Errorf("of another key it keeps %v", all)
		}
	})
}

// A service with more keys than are kept has the runs of some of them, in bounded memory.
func TestRunsOfABoundedNumberOfKeysAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 10_000
		c := startOne(t, func(context.Context, string) (reconcile.Result, error) { return reconcile.Result{}, nil }, nil)
		inspected(t, c).KeepRuns()
		for i := range keys {
			if err := c.Add(fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		kept := 0
		for i := range keys {
			kept += len(inspected(t, c).RecentRuns(t.Context(), fmt.Sprint(i)))
		}
		if kept < 3000 || kept > 4096 {
			t.Errorf("the runs of %d keys are kept, want about 4,096", kept)
		}
	})
}

func TestManagerSamplesWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
		var before, during int
		m.Sample(func() { before++ })
		time.Sleep(time.Hour)
		if before > 0 {
			t.Errorf("sampled %d times before Run", before)
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait := runnerFunc(func(ctx context.Context) error { <-ctx.Done(); return nil })
		if err := m.Register(wait); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }() // ended by cancel, waited for below
		time.Sleep(introspect.SampleEvery / 2)
		m.Sample(func() { during++ })
		time.Sleep(10 * introspect.SampleEvery)
		synctest.Wait()
		if before != 11 || during != 10 {
			t.Errorf("sampled %d and %d times, want 11 and 10", before, during)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		m.Sample(func() { t.Error("sampled after Run") })
		time.Sleep(time.Hour)
		synctest.Wait()
		if before != 11 {
			t.Errorf("sampled after Run: %d", before)
		}
	})
}

type runnerFunc func(context.Context) error

func (f runnerFunc) Run(ctx context.Context) error { return f(ctx) }

// A key that cannot be read from text is found by what was kept of it, also when the queue
// knows it no more.
//
// Negative control: mutant "the runs of a key that left the queue are not found".
func TestRunsOfAKeyThatLeftTheQueueAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t, record[int](nil), nil)
		i, ok := reconcile.Inspect(c)
		if !ok {
			t.Fatal("it cannot be inspected")
		}
		i.KeepRuns()
		start(t, c)
		add(t, c, 7)
		pass(time.Second)
		if _, queued := i.Key(t.Context(), "7"); queued {
			t.Fatal("the queue knows it: this shows nothing")
		}
		if all := i.RecentRuns(t.Context(), "7"); len(all) != 1 || all[0].Result != introspect.RunSucceeded {
			t.Errorf("its runs are %+v, want one that succeeded", all)
		}
		if all := i.RecentRuns(t.Context(), "8"); all != nil {
			t.Errorf("the runs of a key that never ran are %+v", all)
		}
	})
}
