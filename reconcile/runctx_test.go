package reconcile_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
)

// Every way to look at a run's context makes it real: it ends at the deadline and
// is not used for another run.
//
// Negative control: without the touch in Done, Err, Value or Deadline the next run
// gets the same context, and the subtest fails. (AfterFunc and WithCancel ask for
// Done first, so theirs is not needed for that.)
func TestLookingAtTheContextMakesItReal(t *testing.T) {
	looks := map[string]func(ctx context.Context){
		"Done":      func(ctx context.Context) { ctx.Done() },
		"Err":       func(ctx context.Context) { _ = ctx.Err() },
		"Value":     func(ctx context.Context) { ctx.Value("nothing") },
		"Deadline":  func(ctx context.Context) { ctx.Deadline() },
		"AfterFunc": func(ctx context.Context) { context.AfterFunc(ctx, func() {}) },
		"WithCancel": func(ctx context.Context) {
			_, cancel := context.WithCancel(ctx)
			cancel()
		},
	}
	for name, look := range looks {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var kept []context.Context
				c := newController(t, reconcile.Func[int](func(ctx context.Context, k int) (result, error) {
					kept = append(kept, ctx)
					if k == 1 {
						look(ctx)
					}
					return result{}, nil
				}), &reconcile.Options[int]{Workers: 1})
				start(t, c)
				for k := range 4 {
					add(t, c, k)
					synctest.Wait()
				}
				expect(t, "untouched context is used again", kept[0] == kept[1], true)
				expect(t, "touched context is used again", kept[1] == kept[2], false)
				expect(t, "the next untouched context is used again", kept[2] == kept[3], true)
				if err := kept[1].Err(); !errors.Is(err, context.Canceled) {
					t.Errorf("after its run the touched context says %v, want it canceled", err)
				}
			})
		})
	}
}

// Weak point 003 (e).
func TestContextEndsAtTheDeadlineWithItsCause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		type key struct{}
		began := time.Now()
		check := func(ctx context.Context) {
			by, ok := ctx.Deadline()
			if !ok || by.Sub(began) != time.Minute {
				t.Errorf("got the deadline %v, %v, want one in a minute", by, ok)
			}
			derived, cancel := context.WithCancel(context.WithValue(ctx, key{}, 1))
			defer cancel()
			fired := make(chan struct{})
			context.AfterFunc(ctx, func() { close(fired) })
			stopped := context.AfterFunc(ctx, func() { t.Error("a stopped AfterFunc ran") })
			if !stopped() || stopped() {
				t.Error("stop of an AfterFunc: want true, then false")
			}
			if ctx.Err() != nil || context.Cause(ctx) != nil {
				t.Errorf("before the deadline: got %v and %v", ctx.Err(), context.Cause(ctx))
			}
			<-derived.Done()
			<-ctx.Done()
			<-fired
			expect(t, "ended after", time.Since(began), time.Minute)
			for _, x := range []context.Context{ctx, derived} {
				expect(t, "Err", x.Err(), context.DeadlineExceeded)
				if cause := context.Cause(x); !errors.Is(cause, reconcile.ErrDeadline) {
					t.Errorf("got the cause %v, want ErrDeadline", cause)
				}
			}
			if context.AfterFunc(ctx, func() {})() {
				t.Error("an AfterFunc of a context that is over could be stopped")
			}
		}
		c := newController(t, reconcile.Func[string](func(ctx context.Context, _ string) (result, error) {
			check(ctx)
			return result{}, nil
		}), &reconcile.Options[string]{Timeout: time.Minute})
		add(t, c, "k")
		start(t, c)
		pass(time.Hour)
		expect(t, "timeouts", c.Counts().Timeout, 1)
	})
}

// A run that looks at its context only after the deadline sees that it is over.
func TestContextThatIsLookedAtTooLateIsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var err, cause error
		var done bool
		c := newController(t, reconcile.Func[string](func(ctx context.Context, _ string) (result, error) {
			time.Sleep(2 * time.Minute)
			err, cause = ctx.Err(), context.Cause(ctx)
			select {
			case <-ctx.Done():
				done = true
			default:
			}
			return result{}, nil
		}), &reconcile.Options[string]{Timeout: time.Minute})
		add(t, c, "k")
		start(t, c)
		pass(time.Hour)
		expect(t, "Err", err, context.DeadlineExceeded)
		expect(t, "done", done, true)
		if !errors.Is(cause, reconcile.ErrDeadline) {
			t.Errorf("got the cause %v, want ErrDeadline", cause)
		}
	})
}

func TestNegativeTimeoutIsNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record(func(ctx context.Context, _ string) (result, error) {
			if _, ok := ctx.Deadline(); ok {
				t.Error("got a deadline")
			}
			time.Sleep(48 * time.Hour)
			return result{}, ctx.Err()
		})
		c := newController(t, r, &reconcile.Options[string]{Timeout: -1})
		add(t, c, "k")
		start(t, c)
		pass(72 * time.Hour)
		expect(t, "successes", c.Counts().Success, 1)
	})
}

// case 145
func TestLoggerOfARunSaysWhichRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		own, lines := quiet()
		manager, managerLines := quiet()
		c := must[*reconcile.Controller[string]](t)(reconcile.New("own", script[string](fails(errBoom)), &reconcile.Options[string]{
			Logger: own, Backoff: exactly(time.Second),
			Middleware: []func(reconcile.Reconciler[string]) reconcile.Reconciler[string]{logging},
		}))
		d := must[*reconcile.Controller[string]](t)(reconcile.New("managed", record[string](nil), &reconcile.Options[string]{
			Middleware: []func(reconcile.Reconciler[string]) reconcile.Reconciler[string]{logging},
		}))
		m := &reconcile.Manager{Logger: manager}
		if err := m.Register(c, d); err != nil {
			t.Fatal(err)
		}
		add(t, c, "k")
		add(t, d, "l")
		start(t, m)
		pass(time.Minute)
		for _, want := range []string{"controller=own key=k run=", "attempt=0", "attempt=1"} {
			if !strings.Contains(lines.String(), want) {
				t.Errorf("the controller's logger has no %q:\n%s", want, lines)
			}
		}
		if !strings.Contains(managerLines.String(), "controller=managed key=l run=") {
			t.Errorf("the Manager's logger has no line of the run:\n%s", managerLines)
		}
		if strings.Contains(managerLines.String(), "controller=own") {
			t.Errorf("the Manager's logger got lines of a controller that has its own:\n%s", managerLines)
		}
	})
	if reconcile.Logger(context.Background()) != slog.Default() {
		t.Error("outside of a run Logger is not slog.Default")
	}
	if _, ok := reconcile.RunInfo(context.Background()); ok {
		t.Error("RunInfo is ok outside of a run")
	}
}

func logging(next reconcile.Reconciler[string]) reconcile.Reconciler[string] {
	return reconcile.Func[string](func(ctx context.Context, k string) (result, error) {
		reconcile.Logger(context.WithoutCancel(ctx)).Info("run")
		return next.Reconcile(ctx, k)
	})
}

// A reconcile that touches neither its context nor the store allocates nothing,
// with a deadline and a logger at hand; one that waits for its context pays for
// the context, its channel, and nothing per derived value.
func TestRunsThatDoNotLookAtTheirContextAllocateNothing(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Log("allocations are only counted without instrumentation")
		return
	}
	expect(t, "allocations of an untouched run", allocsPerRun(t, func(context.Context) {}), 0)
	if n := allocsPerRun(t, func(ctx context.Context) { ctx.Done() }); n > 3 {
		t.Errorf("a run that touches its context allocates %v times, want at most 3", n)
	}
}

func allocsPerRun(t *testing.T, look func(ctx context.Context)) float64 {
	t.Helper()
	ran := make(chan struct{})
	c := newController(t, reconcile.Func[int](func(ctx context.Context, k int) (result, error) {
		look(ctx)
		ran <- struct{}{}
		return result{}, nil
	}), &reconcile.Options[int]{Workers: 1})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	defer func() { cancel(); <-done }()
	return testing.AllocsPerRun(2000, func() {
		_ = c.Add(1)
		<-ran
	})
}
