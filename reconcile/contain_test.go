package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// endsItsGoroutine reports whether a failure says that user code called
// runtime.Goexit.
func endsItsGoroutine(err error) bool {
	return err != nil && strings.Contains(err.Error(), "runtime.Goexit")
}

// promise R3: a source that ends its goroutine has failed like one that returned an
// error: it is reported, Health names it, and it is started again with backoff.
func TestSourceThatEndsItsGoroutineIsStartedAgain(t *testing.T) {
	for _, synced := range []bool{true, false} {
		t.Run(fmt.Sprint("synced=", synced), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var told failures[string]
				r := record[string](nil)
				c := newController(t, r, &reconcile.Options[string]{Hooks: reconcile.Hooks[string]{OnError: told.hear}})
				var lives atomic.Int64
				if err := c.Watch(reconcile.Source[string]{Name: "gone", Run: func(ctx context.Context, to reconcile.Sink[string]) error {
					if lives.Add(1) <= 2 {
						if synced {
							to.Synced()
						}
						runtime.Goexit()
					}
					_ = to.Add("k", queue.AddOptions{})
					to.Synced()
					<-ctx.Done()
					return nil
				}}); err != nil {
					t.Fatal(err)
				}
				start(t, c)
				if err := c.Health(); !endsItsGoroutine(err) || !strings.Contains(err.Error(), `"gone"`) {
					t.Errorf("Health says %v, want the source that ended its goroutine", err)
				}
				expect(t, "lives before the backoff is over", lives.Load(), 1)
				pass(time.Minute)
				expect(t, "lives", lives.Load(), 3)
				expectList(t, "keys", r.keys(), "k")
				fs := told.list()
				if len(fs) != 2 || fs[0].Source != "gone" || !endsItsGoroutine(fs[0].Err) {
					t.Errorf("OnError heard %+v, want two failures of the source", fs)
				}
				if err := c.Health(); err != nil {
					t.Errorf("Health says %v of a source that works again", err)
				}
			})
		})
	}
}

// promise R3: a list function that ends its goroutine is a list that failed.
func TestListThatEndsItsGoroutineIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told failures[string]
		r := record[string](nil)
		c := newController(t, r, &reconcile.Options[string]{Hooks: reconcile.Hooks[string]{OnError: told.hear}})
		lists := 0
		if err := c.Watch(reconcile.Every("list", time.Minute, func(context.Context) (map[string]int, error) {
			if lists++; lists == 2 {
				runtime.Goexit()
			}
			return map[string]int{"k": lists}, nil
		})); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		pass(90 * time.Second)
		if lists < 3 {
			t.Errorf("the list was called %d times in 90 s, want it tried again after it ended its goroutine", lists)
		}
		fs := told.list()
		if len(fs) != 1 || fs[0].Source != "list" || !endsItsGoroutine(fs[0].Err) {
			t.Errorf("OnError heard %+v, want one failure of the list", fs)
		}
		expect(t, "runs", r.count(), lists-1)
	})
}

// promise R3: a mapper that ends its goroutine has failed for one object. It is
// tried again, other objects are mapped, and the controller stops in order.
func TestMapperThatEndsItsGoroutineIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told failures[string]
		s := newStore(t, newBackend(t), "thing")
		objects := newCache(t, s)
		r := record[string](nil)
		c := newController(t, r, &reconcile.Options[string]{Hooks: reconcile.Hooks[string]{OnError: told.hear}})
		mapped := 0
		if err := c.Watch(reconcile.Map(objects, func(_ context.Context, _, now *thing) ([]string, error) {
			if mapped++; mapped <= 2 && now.Name == "bad" {
				runtime.Goexit()
			}
			return []string{now.Name}, nil
		})); err != nil {
			t.Fatal(err)
		}
		create(t, s, "bad")
		run := startManaged(t, c)
		create(t, s, "good")
		pass(time.Minute)
		keys := r.keys()
		slices.Sort(keys)
		expectList(t, "keys", slices.Compact(keys), "bad", "good")
		fs := told.list()
		if len(fs) == 0 || !endsItsGoroutine(fs[0].Err) {
			t.Errorf("OnError heard %+v, want the mapper's failure", fs)
		}
		if err := run.end(); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
}

// promise R3: whatever a hook does, what calls it goes on: the watchdog (OnStuck),
// the queue's timer (HoldExpired), a worker that settles (Parked, Exhausted), a
// source's supervisor and the mapper (OnError).
func TestHookThatEndsItsGoroutineEndsNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		release := make(chan struct{})
		var late time.Duration // how long the run went on that honours its context
		r := record(func(ctx context.Context, k string) (result, error) {
			switch k {
			case "stuck":
				<-release
			case "late":
				began := time.Now()
				<-ctx.Done()
				late = time.Since(began)
			case "parks":
				return result{}, reconcile.Terminal(errBoom)
			}
			return result{}, nil
		})
		lives := 0
		c := newController(t, r, &reconcile.Options[string]{
			Logger: logger, Timeout: time.Second,
			Queue: queue.Options[string]{Hooks: &queue.Hooks[string]{
				Parked:      func(string, int, error) { runtime.Goexit() },
				HoldExpired: func(queue.Scope[string], string) { runtime.Goexit() },
			}},
			Hooks: reconcile.Hooks[string]{
				OnStuck: func(string, time.Duration) { runtime.Goexit() },
				OnError: func(reconcile.Failure[string]) { runtime.Goexit() },
				OnDone:  func(string, reconcile.Outcome, time.Duration) { runtime.Goexit() },
			},
		})
		if err := c.Watch(reconcile.Source[string]{Name: "bad", Run: func(_ context.Context, to reconcile.Sink[string]) error {
			to.Synced()
			lives++
			return errBoom
		}}); err != nil {
			t.Fatal(err)
		}
		run := start(t, c)
		add(t, c, "stuck", "parks")
		c.Queue().Hold(c.Queue().OfKey("held"), queue.Hold{Reason: "why", Max: time.Second})
		add(t, c, "held")
		pass(time.Minute)
		add(t, c, "late")
		pass(time.Minute)
		if late == 0 || late > 1100*time.Millisecond {
			t.Errorf("a run's deadline of 1 s came after %v (0: never) once OnStuck had ended its goroutine", late)
		}
		if lives < 3 {
			t.Errorf("the source that fails had %d lives in two minutes, want more", lives)
		}
		if e, _ := entry(c, "parks"); e.State != queue.StateParked {
			t.Errorf("the key that parks is %v", e.State)
		}
		for _, hook := range []string{"OnStuck", "OnError", "OnDone", "Parked", "HoldExpired"} {
			if !strings.Contains(lines.String(), "hook="+hook) {
				t.Errorf("the log says nothing of hook %s", hook)
			}
		}
		keys := r.keys()
		slices.Sort(keys)
		expectList(t, "keys", slices.Compact(keys), "held", "late", "parks", "stuck")
		close(release)
		if err := run.end(); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
}

// A hook that never returns stops neither the watchdog nor the queue's timer: deadlines
// still end, delays still end, stuck runs are still replaced, and Run returns in time and
// names the hook.
//
// promise R3, promise Q8
func TestHookThatHangsStopsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		var late time.Duration // how long the run went on that honours its context
		r := record(func(ctx context.Context, k string) (result, error) {
			switch k {
			case "stuck":
				<-release
			case "late":
				began := time.Now()
				<-ctx.Done()
				late = time.Since(began)
			}
			return result{}, nil
		})
		c := newController(t, r, &reconcile.Options[string]{
			Workers: 1, ReplaceStuck: true, Timeout: time.Second, StopTimeout: 12 * time.Second,
			Queue: queue.Options[string]{Hooks: &queue.Hooks[string]{
				HoldExpired: func(queue.Scope[string], string) { <-release },
			}},
			Hooks: reconcile.Hooks[string]{OnStuck: func(string, time.Duration) { <-release }},
		})
		run := start(t, c)
		c.Queue().Hold(c.Queue().OfKey("held"), queue.Hold{Reason: "why", Max: time.Second})
		add(t, c, "stuck")
		pass(time.Minute)
		if err := c.Queue().AddAfter("late", time.Second); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if late == 0 || late > 1100*time.Millisecond {
			t.Errorf("a run's deadline of 1 s came after %v (0: never) while OnStuck hung", late)
		}
		expectList(t, "keys", r.keys(), "stuck", "late")
		began := time.Now()
		err := run.end()
		expect(t, "Run took to end", time.Since(began), 12*time.Second)
		for _, name := range []string{"stuck", "hook OnStuck", "hook HoldExpired"} {
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("Run = %v, want %s named", err, name)
			}
		}
		close(release)
	})
}

// A hook that hears of a run which ended its goroutine, and ends it once more, does
// not keep the worker from being replaced, nor the controller from stopping.
//
// The plant found it (seed 93).
func TestHookMayEndAGoroutineThatEndsAlready(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := 0
		r := record(func(context.Context, string) (result, error) {
			if n++; n < 3 {
				runtime.Goexit()
			}
			return result{}, nil
		})
		c := newController(t, r, &reconcile.Options[string]{
			Workers: 1, Backoff: exactly(time.Second), Logger: slog.New(slog.DiscardHandler),
			Hooks: reconcile.Hooks[string]{OnDone: func(string, reconcile.Outcome, time.Duration) { runtime.Goexit() }},
		})
		add(t, c, "k")
		run := start(t, c)
		pass(time.Minute)
		expect(t, "runs", r.count(), 3)
		if err := run.end(); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
}

// promise R3: a panic of a function in Options.Queue is logged with its stack and
// ends nothing. A failing key falls back to Backoff, a key whose buckets are unknown
// does not run, and one whose tenant is unknown belongs to none.
func TestPanicInAFunctionOfTheQueueIsContained(t *testing.T) {
	boom := func(on *atomic.Bool) {
		if on.Load() {
			panic(errBoom)
		}
	}
	for name, options := range map[string]func(on *atomic.Bool) queue.Options[string]{
		"Policy": func(on *atomic.Bool) queue.Options[string] {
			return queue.Options[string]{Policy: func(int, error) time.Duration { boom(on); return time.Second }}
		},
		"Buckets": func(on *atomic.Bool) queue.Options[string] {
			return queue.Options[string]{Buckets: func(k string, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
				if k == "k" {
					boom(on)
				}
				return dst
			}}
		},
		"Tenant": func(on *atomic.Bool) queue.Options[string] {
			return queue.Options[string]{Tenant: func(k string) string {
				if k == "k" {
					boom(on)
				}
				return "t"
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				logger, lines := quiet()
				var on atomic.Bool
				on.Store(true)
				r := script[string](fails(errBoom), fails(errBoom))
				c := newController(t, r, &reconcile.Options[string]{Workers: 1, Logger: logger, Queue: options(&on)})
				run := start(t, c)
				add(t, c, "k", "other")
				pass(10 * time.Second)
				on.Store(false)
				pass(10 * time.Minute)
				keys := r.keys()
				slices.Sort(keys)
				expectList(t, "keys", slices.Compact(keys), "k", "other")
				expect(t, "successes", c.Counts().Success, 2)
				text := lines.String()
				if !strings.Contains(text, "Queue."+name) || !strings.Contains(text, "boom") || !strings.Contains(text, "contain_test.go") {
					t.Errorf("the log does not tell of the panic with its stack:\n%s", text)
				}
				if err := run.end(); err != nil {
					t.Errorf("Run = %v, want nil", err)
				}
			})
		})
	}
}

// A batch is contained like a single run.
func TestPanicInBucketsIsContainedForBatches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var on atomic.Bool
		on.Store(true)
		ran := 0
		c := must[*reconcile.Controller[int]](t)(reconcile.NewBatch("batch", intBatches(func(_ context.Context, keys []int) []reconcile.Outcome {
			ran += len(keys)
			return make([]reconcile.Outcome, len(keys))
		}), &reconcile.Options[int]{Workers: 1, Logger: slog.New(slog.DiscardHandler), Queue: queue.Options[int]{Buckets: func(_ int, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
			if on.Load() {
				panic("boom")
			}
			return dst
		}}}))
		run := start(t, c)
		add(t, c, 1, 2, 3)
		pass(3 * time.Second)
		expect(t, "runs while the buckets are unknown", ran, 0)
		on.Store(false)
		pass(time.Minute)
		expect(t, "runs afterwards", ran, 3)
		if err := run.end(); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
}

// Keys whose buckets are unknown do not keep one from running that has its own again.
func TestKeyRunsAgainWhileTheBucketsOfOthersAreUnknown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first := true // guarded by the one worker
		r := record[string](nil)
		c := newController(t, r, &reconcile.Options[string]{
			Workers: 1, Logger: slog.New(slog.DiscardHandler),
			Queue: queue.Options[string]{Buckets: func(k string, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
				if k != "once" || first {
					first = first && k != "once"
					panic("boom")
				}
				return dst
			}},
		})
		start(t, c)
		add(t, c, "once")
		for i := range 50 {
			pass(100 * time.Millisecond)
			add(t, c, fmt.Sprint(i))
		}
		expectList(t, "keys", r.keys(), "once")
	})
}

// unprintable is an error whose text cannot be asked for.
type unprintable struct{}

func (unprintable) Error() string { panic(errBoom) }

// The outcomes that a batch returns are its own: it may return the same slice from several
// runs at once.
func TestOutcomesOfABatchAreNotWritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mine := []reconcile.Outcome{{Err: unprintable{}}}
		c := must[*reconcile.Controller[int]](t)(reconcile.NewBatch("batch", intBatches(func(context.Context, []int) []reconcile.Outcome {
			return mine
		}), &reconcile.Options[int]{Workers: 1, Logger: slog.New(slog.DiscardHandler), Queue: queue.Options[int]{MaxAttempts: 1}}))
		start(t, c)
		add(t, c, 1)
		pass(time.Second)
		expect(t, "panics", c.Counts().Panic, 1)
		expect(t, "error of the outcome", mine[0].Err, error(unprintable{}))
	})
}

// illPlacement wins its shard, and then ends badly without waiting for its work.
type illPlacement struct {
	*handPlaced
	end func()
}

func (p illPlacement) Run(ctx context.Context, work lease.Work) error {
	go func() { _ = work(ctx, 0) }()
	time.Sleep(time.Minute)
	p.end()
	return nil
}

// promise R3: a placement that panics or ends its goroutine ends its controller with
// an error that says so, after its last run.
func TestPlacementThatPanicsEndsItsControllerOnly(t *testing.T) {
	for name, end := range map[string]func(){
		"panic: boom":    func() { panic(errBoom) },
		"runtime.Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var left atomic.Bool
				r := record(func(ctx context.Context, _ string) (result, error) {
					<-ctx.Done()
					time.Sleep(time.Second)
					left.Store(true)
					return result{}, nil
				})
				c := newController(t, r, &reconcile.Options[string]{Placement: illPlacement{newHandPlaced(1), end}})
				run := start(t, c)
				add(t, c, "k")
				<-run.done
				if run.err == nil || !strings.Contains(run.err.Error(), name) || !strings.Contains(run.err.Error(), "placement") {
					t.Errorf("Run = %v, want the placement and %q", run.err, name)
				}
				if !left.Load() {
					t.Error("Run returned before its last run had")
				}
			})
		})
	}
}

// loop is an error that unwraps to itself.
type loop struct{}

func (e *loop) Error() string { return "loop" }
func (e *loop) Unwrap() error { return e }

// bush is an error that unwraps to itself twice.
type bush struct{}

func (e *bush) Error() string   { return "bush" }
func (e *bush) Unwrap() []error { return []error{e, e} }

// twice is an error that wraps another one twice.
type twice struct{ err error }

func (e *twice) Error() string   { return "twice" }
func (e *twice) Unwrap() []error { return []error{e.err, e.err} }

// promise R3: an error that unwraps to itself would keep errors.Is and errors.As
// busy for ever, and with them a worker, a source or a mapper.
func TestErrorThatUnwrapsToItselfIsAFailureLikeAnyOther(t *testing.T) {
	wide := error(&twice{errBoom})
	for range 40 { // 2^40 paths through 40 errors
		wide = &twice{wide}
	}
	for _, bad := range []error{&loop{}, &bush{}, fmt.Errorf("wrapped: %w", &loop{}), errors.Join(errBoom, &bush{}), wide} {
		bubble(t, func(t *testing.T) {
			var told failures[string]
			n := 0
			r := record(func(_ context.Context, k string) (result, error) {
				if n++; n == 1 {
					return result{}, bad
				}
				if n == 2 {
					panic(bad)
				}
				return result{}, nil
			})
			c := newController(t, r, &reconcile.Options[string]{
				Backoff: exactly(time.Second), Hooks: reconcile.Hooks[string]{OnError: told.hear},
			})
			lists := 0
			if err := c.Watch(
				reconcile.Source[string]{Name: "source", Run: func(ctx context.Context, to reconcile.Sink[string]) error {
					to.Synced()
					to.(reconcile.Reporter).Failed(bad)
					return bad
				}},
				reconcile.Every("list", time.Hour, func(context.Context) (map[string]int, error) {
					if lists++; lists == 1 {
						return nil, bad
					}
					return nil, nil
				}),
			); err != nil {
				t.Fatal(err)
			}
			add(t, c, "k")
			start(t, c)
			pass(4 * time.Second)
			expectList(t, "attempts", r.attempts(), 0, 1, 2)
			expect(t, "lists", lists, 2)
			text := fmt.Sprint(bad)
			for _, f := range told.list() {
				if f.Key == "k" && !strings.Contains(fmt.Sprint(f.Err), text[:4]) {
					t.Errorf("OnError heard %v, want what the error says", f.Err)
				}
			}
		})
	}
}

// exits is a function of Options.Queue that ends its goroutine while it is on.
type exits struct{ on atomic.Bool }

func (e *exits) tenant() string {
	if e.on.Load() {
		runtime.Goexit()
	}
	return "t"
}

// A change that comes during a run is added by the worker, before the key is settled. A
// Tenant that ends its goroutine then leaves no key locked.
//
// promise Q2, R3. Negative control: with Tenant called on the worker's goroutine the key
// runs for ever, and Stop waits for it.
func TestTenantThatEndsItsGoroutineLeavesNoKeyLocked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var bad exits
		o := &reconcile.Options[store.Key]{Backoff: exactly(time.Hour)}
		o.Queue.Tenant = func(store.Key) string { return bad.tenant() }
		g := newRig(t, o, func(context.Context, *rig, store.Key) (result, error) {
			time.Sleep(time.Second)
			bad.on.Store(true)
			time.AfterFunc(time.Second, func() { bad.on.Store(false) })
			return result{}, nil
		})
		create(t, g.things, "a")
		g.start(t)
		time.Sleep(500 * time.Millisecond)
		mutate(t, g.things, "a", func(o *thing) { o.Spec.Size++ })
		pass(time.Minute)
		expectList(t, "runs at", g.r.times(), 0, time.Second)
		if e, ok := entry(g.c, key("a")); ok {
			t.Errorf("the key is %v, want it to be at rest", e.State)
		}
	})
}

// The supervisor adds keys too, such as those that were parked for long.
//
// promise R3. Negative control: with Tenant called on the goroutine of Run that ends, and
// sources, workers and the watchdog go on without it.
func TestTenantThatEndsItsGoroutineDoesNotEndRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var bad exits
		o := &reconcile.Options[string]{}
		o.Queue.Tenant = func(string) string { return bad.tenant() }
		r := record(func(context.Context, string) (result, error) { return result{}, reconcile.Terminal(errBoom) })
		c := newController(t, r, o)
		run := start(t, c)
		add(t, c, "k")
		pass(time.Second)
		bad.on.Store(true)
		pass(2 * time.Hour)
		bad.on.Store(false)
		pass(2 * time.Hour)
		if r.count() < 2 {
			t.Errorf("%d runs, want the parked key tried again", r.count())
		}
		if err := run.end(); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
}

// promise R3. Negative control: without the wrapper the panic is that of the adding goroutine.
func TestPanicInTenantWeightIsContained(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		r := record[string](nil)
		c := newController(t, r, &reconcile.Options[string]{Logger: logger, Queue: queue.Options[string]{
			Tenant: func(string) string { return "t" }, TenantWeight: func(string) int { panic(errBoom) },
		}})
		start(t, c)
		add(t, c, "k")
		pass(time.Second)
		expect(t, "runs", r.count(), 1)
		if !strings.Contains(lines.String(), "Queue.TenantWeight") {
			t.Errorf("the log says nothing of the panic:\n%s", lines)
		}
	})
}
