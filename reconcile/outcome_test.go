package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

type result = reconcile.Result

// exactly is a backoff without chance: base, 2·base, 4·base and so on.
func exactly(base time.Duration) queue.Backoff {
	return queue.Backoff{Base: base, Max: time.Hour, NoJitter: true}
}

// script answers the n-th run with the n-th outcome, and with success after the
// last.
func script[K comparable](outcomes ...reconcile.Outcome) *recorder[K] {
	var n atomic.Int32
	return record(func(context.Context, K) (result, error) {
		i := int(n.Add(1)) - 1
		if i >= len(outcomes) {
			return result{}, nil
		}
		if p, ok := errors.AsType[panicking](outcomes[i].Err); ok {
			panic(p.error)
		}
		return outcomes[i].Result, outcomes[i].Err
	})
}

// panicking is an error that a script panics with.
type panicking struct{ error }

func fails(err error) reconcile.Outcome   { return reconcile.Outcome{Err: err} }
func succeeds(r result) reconcile.Outcome { return reconcile.Outcome{Result: r} }
func seconds(s ...float64) []time.Duration {
	var d []time.Duration
	for _, x := range s {
		d = append(d, time.Duration(x*float64(time.Second)))
	}
	return d
}

// The table of document 004, and what tend adds to it: when the runs begin and
// which attempt each is.
//
// case 61, 68, 69, 70, 71, 140, 153, 154, 155; promise R2
// Weak point 004 (a), (b), (c).
func TestOutcomeDecidesWhenTheKeyRunsAgain(t *testing.T) {
	tests := []struct {
		name     string
		outcomes []reconcile.Outcome
		at       []time.Duration
		attempts []int
		state    string // of the key afterwards; "": it is gone
		counts   func(*introspect.Counts)
	}{
		{
			name: "zero result ends", outcomes: []reconcile.Outcome{succeeds(result{})},
			at: seconds(0), attempts: []int{0},
			counts: func(c *introspect.Counts) { c.Success = 1 },
		}, {
			name:     "an error beats the result",
			outcomes: []reconcile.Outcome{{Result: result{RequeueAfter: time.Minute}, Err: errBoom}},
			at:       seconds(0, 1), attempts: []int{0, 1},
			counts: func(c *introspect.Counts) { c.Error, c.Success = 1, 1 },
		}, {
			name:     "errors back off, success resets",
			outcomes: []reconcile.Outcome{fails(errBoom), fails(errBoom), succeeds(result{RequeueAfter: time.Second}), fails(errBoom)},
			at:       seconds(0, 1, 3, 4, 5), attempts: []int{0, 1, 2, 0, 1},
			counts: func(c *introspect.Counts) { c.Error, c.RequeueAfter, c.Success = 3, 1, 1 },
		}, {
			name:     "RequeueAfter is exact and resets attempts",
			outcomes: []reconcile.Outcome{fails(errBoom), succeeds(result{RequeueAfter: 7 * time.Second})},
			at:       seconds(0, 1, 8), attempts: []int{0, 1, 0},
			counts: func(c *introspect.Counts) { c.Error, c.RequeueAfter, c.Success = 1, 1, 1 },
		}, {
			name:     "Requeue backs off and keeps attempts",
			outcomes: []reconcile.Outcome{succeeds(result{Requeue: true}), succeeds(result{Requeue: true}), succeeds(result{Requeue: true})},
			at:       seconds(0, 1, 3, 7), attempts: []int{0, 1, 2, 3},
			counts: func(c *introspect.Counts) { c.Requeue, c.Success = 3, 1 },
		}, {
			name:     "RequeueAfter beats Requeue",
			outcomes: []reconcile.Outcome{succeeds(result{Requeue: true, RequeueAfter: 5 * time.Second})},
			at:       seconds(0, 5), attempts: []int{0, 0},
			counts: func(c *introspect.Counts) { c.RequeueAfter, c.Success = 1, 1 },
		}, {
			name:     "a negative RequeueAfter is none",
			outcomes: []reconcile.Outcome{succeeds(result{RequeueAfter: -time.Second})},
			at:       seconds(0), attempts: []int{0},
			counts: func(c *introspect.Counts) { c.Success = 1 },
		}, {
			name:     "RetryAfter without an error is exact and resets attempts",
			outcomes: []reconcile.Outcome{fails(errBoom), fails(reconcile.RetryAfter(nil, 9*time.Second))},
			at:       seconds(0, 1, 10), attempts: []int{0, 1, 0},
			counts: func(c *introspect.Counts) { c.Error, c.RequeueAfter, c.Success = 1, 1, 1 },
		}, {
			name:     "RetryAfter with an error waits longer than the backoff",
			outcomes: []reconcile.Outcome{fails(fmt.Errorf("wrapped: %w", reconcile.RetryAfter(errBoom, 9*time.Second)))},
			at:       seconds(0, 9), attempts: []int{0, 1},
			counts: func(c *introspect.Counts) { c.Error, c.Success = 1, 1 },
		}, {
			name:     "RetryAfter with an error does not shorten the backoff",
			outcomes: []reconcile.Outcome{fails(reconcile.RetryAfter(errBoom, time.Millisecond))},
			at:       seconds(0, 1), attempts: []int{0, 1},
			counts: func(c *introspect.Counts) { c.Error, c.Success = 1, 1 },
		}, {
			name:     "Terminal parks, through any wrapping",
			outcomes: []reconcile.Outcome{fails(fmt.Errorf("wrapped: %w", reconcile.Terminal(errBoom)))},
			at:       seconds(0), attempts: []int{0}, state: "parked",
			counts: func(c *introspect.Counts) { c.Terminal = 1 },
		}, {
			name:     "Terminal(nil) parks too",
			outcomes: []reconcile.Outcome{fails(reconcile.Terminal(nil))},
			at:       seconds(0), attempts: []int{0}, state: "parked",
			counts: func(c *introspect.Counts) { c.Terminal = 1 },
		}, {
			name:     "Terminal beats RetryAfter",
			outcomes: []reconcile.Outcome{fails(reconcile.RetryAfter(reconcile.Terminal(errBoom), time.Second))},
			at:       seconds(0), attempts: []int{0}, state: "parked",
			counts: func(c *introspect.Counts) { c.Terminal = 1 },
		}, {
			name:     "a panic that carries RetryAfter(nil) is a failure",
			outcomes: []reconcile.Outcome{fails(panicking{fmt.Errorf("wrapped: %w", reconcile.RetryAfter(nil, 9*time.Second))})},
			at:       seconds(0, 9), attempts: []int{0, 1},
			counts: func(c *introspect.Counts) { c.Error, c.Panic, c.Success = 1, 1, 1 },
		}, {
			name:     "a panic that carries a throttling is a failure too",
			outcomes: []reconcile.Outcome{fails(panicking{ratelimit.Throttled(need(ratelimit.NewBucket("b", 1, 1)), time.Time{}, errBoom)})},
			at:       seconds(0, 0), attempts: []int{0, 0},
			counts: func(c *introspect.Counts) { c.Error, c.Panic, c.Success = 1, 1, 1 },
		}, {
			// trap 9 of those that peers fall into
			name:     "a canceled context of the reconciler's own is a failure",
			outcomes: []reconcile.Outcome{fails(context.Canceled), fails(context.DeadlineExceeded)},
			at:       seconds(0, 1, 3), attempts: []int{0, 1, 2},
			counts: func(c *introspect.Counts) { c.Error, c.Success = 2, 1 },
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := script[string](test.outcomes...)
				c := newController(t, r, &reconcile.Options[string]{
					Backoff: exactly(time.Second),
				})
				add(t, c, "k")
				start(t, c)
				pass(10 * time.Minute)
				expectList(t, "runs at", r.times(), test.at...)
				expectList(t, "attempts", r.attempts(), test.attempts...)
				e, ok := entry(c, "k")
				if state := fmt.Sprint(e.State); ok && state != test.state {
					t.Errorf("afterwards the key is %s, want %q", state, test.state)
				} else if !ok && test.state != "" {
					t.Errorf("afterwards the key is gone, want %q", test.state)
				}
				var want introspect.Counts
				test.counts(&want)
				expect(t, "counts", c.Counts(), want)
			})
		})
	}
}

// case 71, 140
func TestErrorsSayWhatTheyCarry(t *testing.T) {
	for _, test := range []struct {
		err  error
		text string
		is   error
	}{
		{reconcile.Terminal(errBoom), "boom", errBoom},
		{reconcile.Terminal(errBoom), "boom", reconcile.ErrTerminal},
		{reconcile.Terminal(nil), "terminal error without a cause", reconcile.ErrTerminal},
		{reconcile.RetryAfter(errBoom, 3*time.Second), "boom", errBoom},
		{reconcile.RetryAfter(nil, 3*time.Second), "again after 3s", nil},
		{reconcile.RetryAfter(nil, -1), "again after 0s", nil},
		{reconcile.ErrDeadline, "run is past its deadline: context deadline exceeded", context.DeadlineExceeded},
	} {
		expect(t, "text", test.err.Error(), test.text)
		if test.is != nil && !errors.Is(test.err, test.is) {
			t.Errorf("%v is not %v", test.err, test.is)
		}
	}
}

// case 141; weak point 003 (n)
func TestRetryAtOnceRunsBehindTheOthersAndEndsWithTheController(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var spins, attempts int
		r := record(func(ctx context.Context, k string) (result, error) {
			if k != "spin" {
				return result{}, nil
			}
			info, _ := reconcile.RunInfo(ctx)
			spins, attempts = spins+1, attempts+info.Attempt
			time.Sleep(time.Millisecond)
			return result{}, reconcile.RetryAfter(nil, 0)
		})
		c := newController(t, r, &reconcile.Options[string]{Workers: 1, Queue: queue.Options[string]{Shards: 1}})
		add(t, c, "spin", "a", "b", "c")
		run := start(t, c)
		pass(10 * time.Millisecond)
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
		if got := r.keys()[:5]; !slices.Equal(got, []string{"spin", "a", "b", "c", "spin"}) {
			t.Errorf("got the order %v, want the others to run between two runs of spin", got)
		}
		if spins < 5 || attempts != 0 {
			t.Errorf("got %d spins with %d attempts in all, want several with 0", spins, attempts)
		}
	})
}

// promise R2: what was added during the run that parked may be the cure.
//
// Negative control: settling a Terminal with Done instead of Park leaves the key
// out of the queue, and this test and TestOutcomeDecidesWhenTheKeyRunsAgain fail.
func TestKeyAddedDuringTheRunThatParkedIsRetriedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var c *reconcile.Controller[string]
		first := true
		r := record(func(context.Context, string) (result, error) {
			if first {
				first = false
				add(t, c, "k")
			}
			return result{}, reconcile.Terminal(errBoom)
		})
		c = newController(t, r, &reconcile.Options[string]{Backoff: exactly(time.Second)})
		add(t, c, "k")
		start(t, c)
		pass(time.Minute)
		expectList(t, "runs at", r.times(), seconds(0, 1)...)

		add(t, c, "k") // only noted
		pass(time.Minute)
		expect(t, "runs after an ordinary add", r.count(), 2)

		if err := c.Kick("k"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		expect(t, "runs after a kick", r.count(), 3)
	})
}

// case 72
func TestKeyAddedWhileRunningRunsExactlyOnceMore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record(func(context.Context, string) (result, error) {
			time.Sleep(time.Second)
			return result{}, nil
		})
		c := newController(t, r, nil)
		add(t, c, "k")
		start(t, c)
		for range 10 {
			add(t, c, "k")
		}
		pass(time.Minute)
		expectList(t, "runs at", r.times(), seconds(0, 1)...)
		expect(t, "one key twice at once", r.twin, false)
	})
}

// case 73
func TestKeyAddedManyTimesRunsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record[string](nil)
		c := newController(t, r, nil)
		for range 1000 {
			add(t, c, "k")
		}
		start(t, c)
		pass(time.Minute)
		expect(t, "runs", r.count(), 1)
	})
}

// case 74
func TestPriorityIsKeptUnlessTheResultSaysOtherwise(t *testing.T) {
	for _, test := range []struct {
		name string
		out  reconcile.Outcome
		want int
	}{
		{"kept after a delay", succeeds(result{RequeueAfter: time.Hour}), 10},
		{"kept after Requeue", succeeds(result{Requeue: true}), 10},
		{"kept after an error", fails(errBoom), 10},
		{"overridden", succeeds(result{RequeueAfter: time.Hour, Priority: queue.At(-5)}), -5},
		{"ignored with an error", reconcile.Outcome{Result: result{Priority: queue.At(-5)}, Err: errBoom}, 10},
		{"ignored with RetryAfter", reconcile.Outcome{Result: result{Priority: queue.At(-5)}, Err: reconcile.RetryAfter(nil, time.Hour)}, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newController(t, script[string](test.out), &reconcile.Options[string]{Backoff: exactly(time.Hour)})
				start(t, c)
				if err := c.Queue().AddWith("k", queue.AddOptions{Priority: queue.At(10)}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				e, _ := entry(c, "k")
				expect(t, "priority", e.Priority.Int(), test.want)
			})
		})
	}
}

// case 75; weak point 003 (f)
func TestAddUsesUpTheTimer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := script[string](succeeds(result{RequeueAfter: time.Hour}))
		c := newController(t, r, nil)
		add(t, c, "k")
		start(t, c)
		pass(time.Minute)
		add(t, c, "k")
		pass(3 * time.Hour)
		expectList(t, "runs at", r.times(), seconds(0, 60)...)
	})
}

// case 62; promise R3
//
// Negative control: without the recover in Controller.call the panic ends the
// test process.
func TestPanicIsAnErrorWithAStackAndOthersGoOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var failures []reconcile.Failure[string]
		var panics int
		r := record(func(_ context.Context, k string) (result, error) {
			if k == "bad" && panics < 2 {
				panics++
				panic(errBoom)
			}
			return result{}, nil
		})
		c := newController(t, r, &reconcile.Options[string]{
			Workers: 1, Backoff: exactly(time.Second), Queue: queue.Options[string]{Shards: 1},
			Hooks: reconcile.Hooks[string]{OnError: func(f reconcile.Failure[string]) { failures = append(failures, f) }},
		})
		add(t, c, "bad", "good")
		start(t, c)
		pass(time.Minute)
		expectList(t, "keys", r.keys(), "bad", "good", "bad", "bad")
		expect(t, "panics counted", c.Counts().Panic, 2)
		expect(t, "errors counted", c.Counts().Error, 2)
		if len(failures) != 2 {
			t.Fatalf("got %d failures, want 2", len(failures))
		}
		var p *reconcile.PanicError
		if !errors.As(failures[0].Err, &p) || !errors.Is(p, errBoom) {
			t.Fatalf("got %v, want a PanicError of boom", failures[0].Err)
		}
		if !strings.Contains(string(p.Stack), "outcome_test.go") {
			t.Errorf("the stack does not show where it was:\n%s", p.Stack)
		}
	})
}

// manyErrors is an error that cannot be compared, as those of many validators.
type manyErrors []string

func (e manyErrors) Error() string { return fmt.Sprint([]string(e)) }

// promise R3: an error that was panicked with is found, whatever its type.
func TestPanicWithAnErrorThatCannotBeComparedKeepsIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told error
		r := record(func(context.Context, string) (result, error) { panic(manyErrors{"a", "b"}) })
		c := newController(t, r, &reconcile.Options[string]{
			Hooks: reconcile.Hooks[string]{OnError: func(f reconcile.Failure[string]) { told = f.Err }},
		})
		add(t, c, "k")
		start(t, c)
		if all, ok := errors.AsType[manyErrors](told); !ok || len(all) != 2 {
			t.Errorf("told of %v, want an error that wraps what was panicked with", told)
		}
	})
}

// The hooks of the queue are contained as those of the controller are, all of them.
// promise R3
//
// Negative control: with Parked handed to the queue as it is, it ended the test
// process.
func TestPanicInAHookOfTheQueueIsContained(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var called atomic.Int32 // by two workers
		boom := func(string, int, error) { called.Add(1); panic("hook") }
		logger, _ := quiet()
		c := newController(t, record(func(_ context.Context, k string) (result, error) {
			if k == "parked" {
				return result{}, reconcile.Terminal(errBoom)
			}
			return result{}, errBoom
		}), &reconcile.Options[string]{
			Logger: logger,
			Queue:  queue.Options[string]{MaxAttempts: 1, Hooks: &queue.Hooks[string]{Parked: boom, Exhausted: boom}},
		})
		start(t, c)
		add(t, c, "parked", "exhausted")
		pass(time.Minute)
		expect(t, "hooks called", called.Load(), 2)
		expect(t, "errors counted", c.Counts().Error+c.Counts().Terminal, 2)
	})
}

// An error that is a nil pointer in an interface panics as soon as its methods are called.
// That is a panic of the reconciler that returned it, and the others go on.
// promise R3
//
// Negative control: without contain.Check in worker.reconcile it ended
// the test process.
func TestErrorThatPanicsIsAPanicOfWhoeverReturnedIt(t *testing.T) {
	unset := func() error {
		var err *fs.PathError
		return err
	}
	run := func(t *testing.T, c *reconcile.Controller[store.Key], told *failures[store.Key], panics uint64) {
		start(t, c)
		add(t, c, key("bad"), key("good"))
		pass(time.Minute)
		fs := told.list()
		if len(fs) != 1 {
			t.Fatalf("%d failures, want 1: %v", len(fs), fs)
		}
		if p := new(reconcile.PanicError); !errors.As(fs[0].Err, &p) || !strings.Contains(string(p.Stack), "Unwrap") && !strings.Contains(string(p.Stack), "PathError") {
			t.Errorf("got %v, want a panic with its stack", fs[0].Err)
		}
		expect(t, "panics counted", c.Counts().Panic, panics)
		expect(t, "runs that succeeded", c.Counts().Success, 2)
	}
	first := func(k store.Key, failed *bool) error {
		if k.Name == "good" || *failed {
			return nil
		}
		*failed = true
		return unset()
	}
	options := func(told *failures[store.Key]) *reconcile.Options[store.Key] {
		return &reconcile.Options[store.Key]{
			Workers: 1, Backoff: exactly(time.Second), Hooks: reconcile.Hooks[store.Key]{OnError: told.hear},
		}
	}
	t.Run("reconciler", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			var told failures[store.Key]
			failed := false
			r := record(func(_ context.Context, k store.Key) (result, error) { return result{}, first(k, &failed) })
			run(t, newController(t, r, options(&told)), &told, 1)
		})
	})
	t.Run("batch", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			var told failures[store.Key]
			failed := false
			c := must[*reconcile.Controller[store.Key]](t)(reconcile.NewBatch("test", batchOf(func(_ context.Context, keys []store.Key) (out []reconcile.Outcome) {
				for _, k := range keys {
					out = append(out, reconcile.Outcome{Err: first(k, &failed)})
				}
				return out
			}), options(&told)))
			run(t, c, &told, 1)
		})
	})
	t.Run("source", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			var told failures[store.Key]
			c := newController(t, record[store.Key](nil), options(&told))
			failed := false
			if err := c.Watch(reconcile.Source[store.Key]{Name: "s", Run: func(ctx context.Context, to reconcile.Sink[store.Key]) error {
				if err := first(key("bad"), &failed); err != nil {
					return err
				}
				to.Synced()
				<-ctx.Done()
				return nil
			}}); err != nil {
				t.Fatal(err)
			}
			run(t, c, &told, 0)
		})
	})
}

func TestReconcilerThatEndsItsGoroutineIsAFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first := true
		r := record(func(context.Context, string) (result, error) {
			if first {
				first = false
				runtime.Goexit()
			}
			return result{}, nil
		})
		c := newController(t, r, &reconcile.Options[string]{Workers: 1, Backoff: exactly(time.Second), Queue: queue.Options[string]{Shards: 1}})
		add(t, c, "k", "other")
		start(t, c)
		pass(time.Minute)
		expectList(t, "keys", r.keys(), "k", "other", "k")
		expect(t, "counted as errors", c.Counts().Error, 1)
		expect(t, "workers", c.Workers(), 1)
	})
}

// case 76; promise R3
func TestOnlyOurOwnDeadlineCountsAsATimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var cause error
		r := record(func(ctx context.Context, k string) (result, error) {
			switch k {
			case "slow":
				<-ctx.Done()
				cause = context.Cause(ctx)
				return result{}, ctx.Err()
			case "stopped":
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), reconcile.ErrShutdown) {
					t.Errorf("the stop ended the run by %v", context.Cause(ctx))
				}
				return result{}, ctx.Err()
			}
			sub, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			<-sub.Done()
			return result{}, sub.Err()
		})
		c := newController(t, r, &reconcile.Options[string]{Timeout: 10 * time.Second, Backoff: exactly(time.Hour), StopTimeout: -1})
		add(t, c, "slow", "sub")
		run := start(t, c)
		pass(time.Minute)
		counts := c.Counts()
		expect(t, "timeouts", counts.Timeout, 1)
		expect(t, "errors", counts.Error, 2)
		if !errors.Is(cause, reconcile.ErrDeadline) || !strings.Contains(cause.Error(), `controller "test"`) || !strings.Contains(cause.Error(), "10s") {
			t.Errorf("got the cause %v, want ErrDeadline with the controller's name and 10s", cause)
		}
		add(t, c, "stopped")
		synctest.Wait()
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
		counts = c.Counts()
		expect(t, "runs that the stop ended", counts.Canceled, 1)
		expect(t, "timeouts after the stop", counts.Timeout, 1)
	})
}

// case 142
func TestBackoffStaysWithinItsBounds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record(func(context.Context, string) (result, error) { return result{}, errBoom })
		c := newController(t, r, &reconcile.Options[string]{Backoff: queue.Backoff{Base: time.Second, Max: 10 * time.Second}})
		add(t, c, "k")
		start(t, c)
		pass(24 * time.Hour)
		at := r.times()
		if len(at) < 10_000 {
			t.Fatalf("got %d runs in a day, want at least 10,000 at a mean of 5 s", len(at))
		}
		for n := 1; n < len(at); n++ {
			bound := min(10*time.Second, time.Second<<min(n-1, 10))
			if d := at[n] - at[n-1]; d <= 0 || d > bound {
				t.Fatalf("the delay after %d failures is %v, want it in (0, %v]", n, d, bound)
			}
		}
	})
	c := newController(t, record[string](nil), nil)
	if !strings.Contains(c.String(), "backoff 100ms to 5m0s") {
		t.Errorf("got %s, want the default backoff in it", c)
	}
}

// case 156
func TestFuncIsAReconciler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var got string
		type mark struct{}
		f := reconcile.Func[string](func(ctx context.Context, k string) (result, error) {
			got = k + fmt.Sprint(ctx.Value(mark{}))
			return result{}, nil
		})
		c := must[*reconcile.Controller[string]](t)(reconcile.New("f", f, nil))
		add(t, c, "k")
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), mark{}, "!"))
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		expect(t, "key and a value of Run's context", got, "k!")
	})
}

// case 157
func TestNamespacesKeepKeysApart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record(func(context.Context, store.Key) (result, error) {
			time.Sleep(time.Second)
			return result{}, nil
		})
		c := newController(t, r, nil)
		add(t, c, store.Key{Namespace: "a", Name: "x"}, store.Key{Namespace: "b", Name: "x"})
		start(t, c)
		pass(time.Minute)
		expectList(t, "runs at", r.times(), 0, 0)
		expect(t, "printed", fmt.Sprint(reconcile.Request{Namespace: "a", Name: "x"}), "a/x")
	})
}

// A reconciler that gives up because it was throttled says so: the key is parked, and nothing
// else tells of it.
func TestTerminalThatWasThrottledIsToldOf(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told []reconcile.Failure[string]
		r := script[string](fails(reconcile.Terminal(ratelimit.Throttled(nil, time.Time{}, errBoom))))
		c := newController(t, r, &reconcile.Options[string]{
			Hooks: reconcile.Hooks[string]{OnError: func(f reconcile.Failure[string]) { told = append(told, f) }},
		})
		add(t, c, "k")
		start(t, c)
		if len(told) != 1 || !told[0].Parked {
			t.Errorf("failures told: %+v, want one that parked the key", told)
		}
		expect(t, "counted as terminal", c.Counts().Terminal, 1)
	})
}

// A bucket that is paused holds the key back without counting a failure.
func TestThrottledRunIsNoFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bucket := must[*ratelimit.Bucket](t)(ratelimit.NewBucket("api", 1000, 1000))
		first := true
		var failures int
		r := record(func(context.Context, string) (result, error) {
			if first {
				first = false
				return result{}, fmt.Errorf("listing: %w", ratelimit.Throttled(bucket, time.Now().Add(time.Minute), errBoom))
			}
			return result{}, nil
		})
		c := newController(t, r, &reconcile.Options[string]{
			Queue: queue.Options[string]{Buckets: func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, bucket) }},
			Hooks: reconcile.Hooks[string]{OnError: func(reconcile.Failure[string]) { failures++ }},
		})
		add(t, c, "k")
		start(t, c)
		pass(time.Hour)
		expectList(t, "runs at", r.times(), seconds(0, 60)...)
		expectList(t, "attempts", r.attempts(), 0, 0)
		expect(t, "failures told", failures, 0)
		expect(t, "counted as throttled", c.Counts().Throttled, 1)
	})
}

// case 80; weak point 000 (b)
func TestBackoffGrowsAgainAfterALongIdleTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := script[string](fails(errBoom), fails(errBoom), succeeds(result{RequeueAfter: 24 * time.Hour}),
			fails(errBoom), fails(errBoom), fails(errBoom))
		c := newController(t, r, &reconcile.Options[string]{
			Backoff: queue.Backoff{Base: time.Second, Max: time.Minute, NoJitter: true},
		})
		add(t, c, "k")
		start(t, c)
		pass(48 * time.Hour)
		day := (24*time.Hour + 3*time.Second).Seconds()
		expectList(t, "runs at", r.times(), seconds(0, 1, 3, day, day+1, day+3, day+7)...)
	})
}
