package reconcile_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/internal/inrun"
)

// A context that is kept says for ever that its run is over, with the cause: no later
// run shares it. The derived ones too, whenever they were made.
//
// promise R3. Negative control: mutant "a run's context goes on after the run".
func TestContextIsOverForEverAfterItsRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var kept, derived []context.Context
		var cancels []context.CancelFunc
		fired := make(chan int, 20)
		c := newController(t, reconcile.Func[int](func(ctx context.Context, k int) (result, error) {
			for _, before := range kept {
				if before == ctx || before.Err() == nil {
					t.Errorf("run %d: the context of a run before it is this one, or goes on", k)
				}
			}
			kept = append(kept, ctx)
			if k%2 == 0 { // the others look at their context when it is over
				sub, cancel := context.WithCancel(ctx)
				derived, cancels = append(derived, sub), append(cancels, cancel)
				context.AfterFunc(ctx, func() { fired <- k })
			}
			return result{}, nil
		}), &reconcile.Options[int]{Workers: 1})
		start(t, c)
		for k := range 20 { // more than are allocated together
			add(t, c, k)
			synctest.Wait()
		}
		expect(t, "functions that were called after their run", len(fired), 10)
		for k, ctx := range slices.Concat(kept, derived) {
			<-ctx.Done()
			if err, cause := ctx.Err(), context.Cause(ctx); !errors.Is(err, context.Canceled) || cause == nil || errors.Is(cause, context.Canceled) {
				t.Errorf("context %d says %v, because %v: want canceled, and why", k, err, cause)
			}
			if k < len(kept) {
				info, ok := reconcile.RunInfo(ctx)
				if !ok || info.Key != k {
					t.Errorf("context %d is of %+v", k, info)
				}
			}
		}
		for _, cancel := range cancels {
			cancel()
		}
	})
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
	if r := inrun.Wrote(context.Background(), newBackend(t), "thing"); r != 0 {
		t.Errorf("outside of a run revision %d was written", r)
	}
}

func logging(next reconcile.Reconciler[string]) reconcile.Reconciler[string] {
	return reconcile.Func[string](func(ctx context.Context, k string) (result, error) {
		reconcile.Logger(context.WithoutCancel(ctx)).Info("run")
		return next.Reconcile(ctx, k)
	})
}

// A run that looks at its context and its logger costs the channel and an eighth of an
// allocation, which AllocsPerRun rounds off.
func TestRunAllocatesTheChannelOfDoneAlone(t *testing.T) {
	if testing.CoverMode() != "" || campaign.Sized(1, 0) == 0 {
		t.Log("allocations are only counted without instrumentation")
		return
	}
	expect(t, "allocations of a run", allocsPerRun(t, func(context.Context) {}), 0)
	look := func(ctx context.Context) {
		ctx.Done()
		ctx.Deadline()
		reconcile.Logger(ctx).DebugContext(ctx, "run")
	}
	expect(t, "allocations of a run that uses its context", allocsPerRun(t, look), 1)
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
