package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// brokenPlacement wins its only shard and then fails.
type brokenPlacement struct{ *handPlaced }

func (p brokenPlacement) Run(ctx context.Context, work lease.Work) error {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); _ = work(ctx, 0) }()
	time.Sleep(time.Minute)
	cancel()
	<-done
	time.Sleep(time.Minute) // the supervisor has seen it by now
	return errBoom
}

// deafUntil is a source that ignores the end of its context.
func deafUntil(release <-chan struct{}) reconcile.Source[string] {
	return reconcile.Source[string]{Name: "deaf", Run: func(_ context.Context, to reconcile.Sink[string]) error {
		to.Synced()
		<-release
		return nil
	}}
}

// A placement that fails stops its controller, and a source that ignores the end
// of its context is named: it must not keep the failure from being heard.
//
// Negative control: with the supervisor waiting for the source until the end of
// the context that Run was given, Run never returns.
func TestFailedPlacementIsHeardAlthoughASourceHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		c := newController(t, record[string](nil), &reconcile.Options[string]{Placement: brokenPlacement{newHandPlaced(1)}})
		if err := c.Watch(deafUntil(release)); err != nil {
			t.Fatal(err)
		}
		err := c.Run(t.Context())
		if !errors.Is(err, errBoom) || !strings.Contains(err.Error(), "source deaf") {
			t.Errorf("Run: %v, want the placement's error and the source's name", err)
		}
		close(release)
	})
}

// What a controller that was stopped knows is garbage: its sources, their caches, its reconciler.
// There is no bubble, whose timers do not outlive it.
//
// Negative control: with the timer that reports a stuck source left running, the source is kept.
func TestStoppedControllerIsGarbage(t *testing.T) {
	type knows struct{ keys []string }
	source := func() weak.Pointer[knows] {
		known := &knows{[]string{"a"}}
		c := newController(t, record[string](nil), nil)
		ctx, cancel := context.WithCancel(t.Context())
		source := reconcile.Source[string]{Name: "source", Run: func(ctx context.Context, to reconcile.Sink[string]) error {
			to.Synced()
			cancel()
			<-ctx.Done()
			return to.Add(known.keys[0], queue.AddOptions{})
		}}
		if err := c.Watch(source); err != nil {
			t.Fatal(err)
		}
		if err := c.Run(ctx); err != nil {
			t.Fatal(err)
		}
		return weak.Make(known)
	}()
	runtime.GC()
	runtime.GC() // what a finalizer frees goes with the second
	if source.Value() != nil {
		t.Error("something keeps the source of a controller in memory after Run has returned")
	}
}

// A source that ignores the end of its context keeps its controller from starting
// again when the lease comes back; Health says so.
//
// Negative control: without the timer in feed.wait Health says that all is well.
func TestSourceThatIgnoresItsEndIsReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := manual(t, nil)
		p.Set(true, 0)
		var told failures[string]
		release := make(chan struct{})
		c := newController(t, record[string](nil), &reconcile.Options[string]{
			Placement: p, Timeout: 100 * time.Second, Hooks: reconcile.Hooks[string]{OnError: told.hear},
		})
		if err := c.Watch(deafUntil(release)); err != nil {
			t.Fatal(err)
		}
		run := start(t, c)
		p.Set(false, 0)
		pass(9 * time.Second)
		expect(t, "reported too early", len(told.list()), 0)
		p.Set(true, 0)
		pass(2 * time.Second)
		expect(t, "reported", len(told.list()), 1)
		if err := c.Health(); err == nil || !strings.Contains(err.Error(), "deaf") {
			t.Errorf("Health says %v, want the source that hangs", err)
		}
		close(release)
		pass(time.Minute)
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
	})
}

// No worker runs while none is asked for, whatever is stuck.
//
// Negative control: with a spare worker counted beside those that were asked
// for, instead of the stuck one leaving their number, one of them goes on.
func TestNoWorkersMeansNoneAlsoBesideAStuckRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		r := record(func(_ context.Context, k string) (result, error) {
			switch k {
			case "busy":
				time.Sleep(30 * time.Second)
			case "stuck":
				<-release
			}
			return result{}, nil
		})
		c := newController(t, r, &reconcile.Options[string]{
			Workers: 1, Timeout: time.Minute, ReplaceStuck: true,
		})
		add(t, c, "busy")
		start(t, c)
		if err := c.SetWorkers(2); err != nil {
			t.Fatal(err)
		}
		add(t, c, "stuck") // on the second, since the first is busy
		pass(5 * time.Minute)
		add(t, c, "fine")
		pass(time.Second)
		expect(t, "runs beside the stuck one", r.count(), 3)
		if err := c.SetWorkers(0); err != nil {
			t.Fatal(err)
		}
		add(t, c, "waits")
		pass(time.Minute)
		expect(t, "runs with no workers", r.count(), 3)
		close(release)
		pass(time.Minute)
		expect(t, "runs with no workers after the stuck one returned", r.count(), 3)
		if err := c.SetWorkers(2); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		expect(t, "runs with two workers", r.count(), 4)
		expect(t, "successes", c.Counts().Success, 4)
	})
}

// A batch that ends its goroutine leaves no key behind, neither of those it was
// given nor of those that were taken with them for the next shard.
//
// Negative control: without worker.rest the keys of the second shard are never
// run again, and the controller does not stop.
func TestBatchThatEndsItsGoroutineLosesNoKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newHandPlaced(16)
		ran := make(map[int]int)
		first := true
		c := must[*reconcile.Controller[int]](t)(reconcile.NewBatch("batch", intBatches(func(_ context.Context, keys []int) []reconcile.Outcome {
			if first {
				first = false
				runtime.Goexit()
			}
			for _, k := range keys {
				ran[k]++
			}
			return make([]reconcile.Outcome, len(keys))
		}), &reconcile.Options[int]{
			Workers: 1, Placement: p, Hash: func(k int) uint64 { return uint64(k) }, Backoff: exactly(time.Second),
			Queue: queue.Options[int]{Shards: 1}, Hooks: reconcile.Hooks[int]{OnError: func(reconcile.Failure[int]) {}},
		}))
		run := start(t, c)
		if err := c.SetWorkers(0); err != nil { // so that the first batch is a full one
			t.Fatal(err)
		}
		for shard := range 16 {
			p.give(shard)
		}
		for k := range 10 {
			add(t, c, k)
		}
		if err := c.SetWorkers(1); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		expect(t, "runs", fmt.Sprint(ran), "map[0:1 1:1 2:1 3:1 4:1 5:1 6:1 7:1 8:1 9:1]")
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
	})
}

type intBatches func(ctx context.Context, keys []int) []reconcile.Outcome

// noBatches is for a test of a constructor, which refuses a nil function whatever else is wrong.
var noBatches intBatches = func(context.Context, []int) []reconcile.Outcome { return nil }

func (b intBatches) ReconcileBatch(ctx context.Context, keys []int) []reconcile.Outcome {
	return b(ctx, keys)
}

// The time to stop is StopTimeout at most, also when a source hangs and a
// run does: a Manager counts on it.
//
// Negative control: the mutant "a run that hangs is named as its worker as well".
func TestStoppingTakesNoLongerThanStopTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		r := record(func(context.Context, string) (result, error) { <-release; return result{}, nil })
		logger, lines := quiet()
		c := newController(t, r, &reconcile.Options[string]{StopTimeout: 12 * time.Second, Logger: logger})
		if err := c.Watch(deafUntil(release)); err != nil {
			t.Fatal(err)
		}
		add(t, c, "k")
		run := start(t, c)
		began := time.Now()
		err := run.end()
		expect(t, "stopping took", time.Since(began), 11*time.Second)
		var stop *queue.StopError
		if !errors.As(err, &stop) || !strings.Contains(err.Error(), "source deaf") {
			t.Errorf("got %v, want the run and the source named", err)
		}
		if strings.Contains(err.Error(), "workers") {
			t.Errorf("got %v, want the run named once, and not as its worker as well", err)
		}
		if ended := logged(lines, "controller ended"); len(ended) != 1 || !strings.HasSuffix(ended[0], "left=2") {
			t.Errorf("logged %q, want the run and the source counted, as in %v", ended, err)
		}
		close(release)
	})
}

// A runner that ends its goroutine is a failed runner, not one that runs for
// ever.
//
// Negative control: with the report not deferred, Run waits for it until the end.
func TestRunnerThatEndsItsGoroutineFailsTheManager(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var m reconcile.Manager
		var stopped atomic.Bool
		if err := m.Register(
			&runner{"gone", func(context.Context) error { runtime.Goexit(); return nil }},
			&runner{"other", func(ctx context.Context) error { <-ctx.Done(); stopped.Store(true); return ctx.Err() }},
		); err != nil {
			t.Fatal(err)
		}
		err := m.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "gone: it ended its goroutine") || !stopped.Load() {
			t.Errorf("Run: %v, other stopped: %v", err, stopped.Load())
		}
	})
}

// An error beside that of the cancelled context is news.
//
// Negative control: with errors.Is alone the second is lost.
func TestErrorJoinedWithACancellationIsReturned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var m reconcile.Manager
		if err := m.Register(
			&runner{"quiet", func(ctx context.Context) error {
				<-ctx.Done()
				return errors.Join(fmt.Errorf("listening: %w", ctx.Err()), ctx.Err())
			}},
			&runner{"news", func(ctx context.Context) error { <-ctx.Done(); return errors.Join(ctx.Err(), errBoom) }},
		); err != nil {
			t.Fatal(err)
		}
		err := start(t, &m).end()
		if !errors.Is(err, errBoom) || strings.Contains(err.Error(), "quiet") {
			t.Errorf("Run: %v, want that of news alone", err)
		}
	})
}

// What a runner returns by itself is an error of the Manager whatever it is; of one that was
// told to end, what says nothing but that is none.
//
// Negative control: mutant "a runner that ends with a cancellation of its own has not failed".
func TestErrorOfARunnerCountsUnlessItSaysThatItWasTold(t *testing.T) {
	for _, test := range []struct {
		err            error
		byItself, told bool // it is an error of the Manager
	}{
		{nil, false, false},
		{errBoom, true, true},
		{context.Canceled, true, false},
		{fmt.Errorf("listening: %w", context.Canceled), true, false},
		{errors.Join(context.Canceled, errBoom), true, true},
		{context.DeadlineExceeded, true, true},
	} {
		for _, told := range []bool{false, true} {
			bubble(t, func(t *testing.T) {
				m := reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
				if err := m.Register(&runner{"one", func(ctx context.Context) error {
					if told {
						<-ctx.Done()
					}
					return test.err
				}}, &runner{"other", untilDone}); err != nil {
					t.Fatal(err)
				}
				run := start(t, &m)
				select {
				case <-run.done:
					expect(t, fmt.Sprintf("%v: the Manager ended by itself", test.err), true, !told && test.byItself)
				default:
					expect(t, fmt.Sprintf("%v: the Manager goes on", test.err), true, told || !test.byItself)
				}
				err := run.end()
				if failed := told && test.told || !told && test.byItself; failed != (err != nil) || failed && !errors.Is(err, test.err) {
					t.Errorf("one that returns %v, told to end: %v: Run: %v, want an error: %v", test.err, told, err, failed)
				}
			})
		}
	}
}

// A source that was removed and ignores its end is waited for and named like any
// other, and Unwatch says that it goes on.
//
// promise Q8
func TestRemovedSourceThatIgnoresItsEndIsNamed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		var told failures[string]
		c := newController(t, record[string](nil), &reconcile.Options[string]{
			StopTimeout: 3 * time.Second, Hooks: reconcile.Hooks[string]{OnError: told.hear},
		})
		if err := c.Watch(deafUntil(release)); err != nil {
			t.Fatal(err)
		}
		run := start(t, c)
		began := time.Now()
		if err := c.Unwatch("deaf"); !errors.Is(err, reconcile.ErrSourceRunning) {
			t.Errorf("Unwatch = %v, want ErrSourceRunning", err)
		}
		expect(t, "Unwatch waited", time.Since(began), 30*time.Second)
		synctest.Wait() // OnError is called on a goroutine of its own
		if err := c.Health(); !errors.Is(err, reconcile.ErrSourceRunning) || !strings.Contains(err.Error(), "deaf") {
			t.Errorf("Health says %v, want the source that goes on", err)
		}
		if fs := told.list(); len(fs) != 1 || fs[0].Source != "deaf" {
			t.Errorf("OnError heard %+v, want the source once", fs)
		}
		if err := run.end(); err == nil || !strings.Contains(err.Error(), "source deaf") {
			t.Errorf("Run = %v, want the source named", err)
		}
		close(release)
		synctest.Wait()
		if err := c.Health(); err != nil {
			t.Errorf("Health says %v after the source has ended", err)
		}
	})
	bubble(t, func(t *testing.T) { // Run waits for one that ends in time
		release := make(chan struct{})
		c := newController(t, record[string](nil), &reconcile.Options[string]{StopTimeout: 4 * time.Minute})
		if err := c.Watch(deafUntil(release)); err != nil {
			t.Fatal(err)
		}
		run := start(t, c)
		unwatched := make(chan error, 1)
		go func() { unwatched <- c.Unwatch("deaf") }()
		synctest.Wait()
		time.AfterFunc(10*time.Second, func() { close(release) })
		began := time.Now()
		if err := run.end(); err != nil {
			t.Errorf("Run = %v", err)
		}
		expect(t, "Run waited", time.Since(began), 10*time.Second)
		if err := <-unwatched; !errors.Is(err, reconcile.ErrSourceRunning) {
			t.Errorf("Unwatch during the stop = %v, want ErrSourceRunning", err)
		}
	})
}

// A source may remove itself: it gets an error instead of waiting for its own end.
//
// promise Q8. Negative control: mutant "Unwatch waits for a source however long it goes on".
func TestSourceThatRemovesItselfEnds(t *testing.T) {
	for _, stop := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			c := newController(t, record[string](nil), nil)
			var unwatched error
			if err := c.Watch(reconcile.Source[string]{Name: "self", Run: func(ctx context.Context, to reconcile.Sink[string]) error {
				to.Synced()
				unwatched = c.Unwatch("self")
				return nil
			}}); err != nil {
				t.Fatal(err)
			}
			run := start(t, c)
			if !stop {
				pass(31 * time.Second)
				if !errors.Is(unwatched, reconcile.ErrSourceRunning) {
					t.Errorf("Unwatch = %v after 31 s, want ErrSourceRunning", unwatched)
				}
			}
			if err := run.end(); err != nil {
				t.Errorf("Run = %v", err)
			}
			if !errors.Is(unwatched, reconcile.ErrSourceRunning) {
				t.Errorf("Unwatch = %v, want ErrSourceRunning", unwatched)
			}
		})
	}
}

// A controller whose queue the program has stopped does nothing any more, and says
// so until it is stopped itself.
//
// promise Q8
func TestControllerWithAStoppedQueueIsNotHealthy(t *testing.T) {
	for what, end := range map[string]func(q *queue.Queue[string], ctx context.Context) error{
		"Stop":  (*queue.Queue[string]).Stop,
		"Drain": (*queue.Queue[string]).Drain,
	} {
		bubble(t, func(t *testing.T) {
			c := newController(t, record[string](nil), nil)
			run := start(t, c)
			if err := errors.Join(c.Health(), c.Ready()); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if err := end(c.Queue(), t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for _, err := range []error{c.Health(), c.Ready()} {
				if err == nil || !strings.Contains(err.Error(), "queue was stopped") {
					t.Errorf("%s: got %v of a controller that runs nothing", what, err)
				}
			}
			if err := run.end(); err != nil {
				t.Errorf("%s: Run = %v", what, err)
			}
			if err := c.Health(); err != nil {
				t.Errorf("%s: Health says %v after the controller's own stop", what, err)
			}
		})
	}
}

// A controller that drains waits for nothing, although its sources have ended and are not synced:
// Ready does not name one.
//
// Negative control: the mutant "a controller that drains waits for its sources".
func TestControllerThatDrainsWaitsForNoSource(t *testing.T) {
	bubble(t, func(t *testing.T) {
		finish := make(chan struct{})
		c := newController(t, record(func(context.Context, string) (result, error) { <-finish; return result{}, nil }), nil)
		if err := c.Watch(reconcile.Source[string]{Name: "keys", Run: func(ctx context.Context, to reconcile.Sink[string]) error {
			to.Synced()
			<-ctx.Done()
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		run := start(t, c)
		add(t, c, "a")
		synctest.Wait()
		run.stop()
		synctest.Wait()
		if s := c.Snapshot(); s.Active != 1 || s.Sources[0].Synced {
			t.Fatalf("the test shows nothing: %+v", s)
		}
		if err := c.Ready(); err != nil {
			t.Errorf("while it drains Ready says %v", err)
		}
		close(finish)
		if err := run.end(); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

// badEnd is a placement that fails once its work has ended.
type badEnd struct {
	*handPlaced
	end func() error
}

func (p badEnd) Run(ctx context.Context, work lease.Work) error {
	_ = p.handPlaced.Run(ctx, work)
	return p.end()
}

// promise Q8: what fails while a controller stops is in the error of Run, as with a Manager: a
// placement that cannot give its lease back, a cache whose store was closed or whose objects
// were written to. A placement that only says that it was told to end has not failed.
func TestWhatFailsWhileAControllerStopsIsReturned(t *testing.T) {
	for name, end := range map[string]func() error{
		"error": func() error { return errBoom }, "panic": func() error { panic(errBoom) },
		"cancelled": func() error { return context.Canceled },
	} {
		for n, how := range []string{"alone", "in a Manager", "sharing the placement"} {
			t.Run(name+" "+how, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					p := &badEnd{newHandPlaced(1), end}
					controller := func(name string) *reconcile.Controller[string] {
						return must[*reconcile.Controller[string]](t)(reconcile.New(name, record[string](nil), &reconcile.Options[string]{Placement: p}))
					}
					var run *running
					switch n {
					case 0:
						run = start(t, controller("a"))
					case 1:
						run = startManaged(t, controller("a"))
					default:
						run = startManaged(t, controller("a"), controller("b"))
					}
					pass(time.Minute)
					if err := run.end(); errors.Is(err, errBoom) != (name != "cancelled") || name == "cancelled" && err != nil {
						t.Errorf("Run: %v", err)
					}
				})
			})
		}
	}
	object := func(t *testing.T, s *things, do func()) *reconcile.ObjectController[spec, status] {
		return must[*reconcile.ObjectController[spec, status]](t)(reconcile.For(s, func(context.Context, *thing) (reconcile.Result, error) {
			do()
			return reconcile.Result{}, nil
		}, &reconcile.ForOptions[spec, status]{Cache: &cache.Options[spec, status]{DetectMutations: true}}))
	}
	t.Run("cache that was written to", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newStore(t, newBackend(t), "thing")
			c := object(t, s, func() {})
			create(t, s, "a")
			run := start(t, c)
			shared, _ := c.Cache().Get(key("a"))
			shared.Spec.Size++
			if err := run.end(); !errors.Is(err, cache.ErrMutated) {
				t.Errorf("Run: %v, want ErrMutated", err)
			}
		})
	})
	t.Run("cache of a store that is closed", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBackend(t)
			s := newStore(t, b, "thing")
			release := make(chan struct{})
			create(t, s, "a")
			run := start(t, object(t, s, func() { <-release }))
			run.stop()
			synctest.Wait()
			_ = b.Close()
			synctest.Wait()
			close(release)
			if err := run.end(); !errors.Is(err, store.ErrClosed) {
				t.Errorf("Run: %v, want ErrClosed", err)
			}
		})
	})
}
