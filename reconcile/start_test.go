package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// A cache that came to a controller while it ran is the program's to run: the Manager does
// not run it too when it starts or ends another controller.
//
// Negative control: with every cache in use started, Start ran it a second time, and the
// Manager ended with its error.
func TestCacheThatTheProgramRunsIsNotRunAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		things := newStore(t, newBackend(t), "thing")
		idle := func(name string) *reconcile.Controller[store.Key] {
			return must[*reconcile.Controller[store.Key]](t)(reconcile.New(name, record[store.Key](nil), nil))
		}
		first := idle("first")
		var m reconcile.Manager
		if err := m.Register(first); err != nil {
			t.Fatal(err)
		}
		run := start(t, &m)
		synctest.Wait()
		own := newCache(t, things)
		program := start(t, own)
		if err := first.Watch(reconcile.From(own)); err != nil {
			t.Fatal(err)
		}
		stop, err := m.Start(idle("second"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := stop(); err != nil {
			t.Errorf("stop = %v", err)
		}
		synctest.Wait()
		expectList(t, "what fails", notOK(m.Health()))
		if err := run.end(); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		if err := program.end(); err != nil {
			t.Errorf("Run of the cache = %v, want nil", err)
		}
	})
}

func notOK(checks []reconcile.Check) (names []string) {
	for _, c := range checks {
		if !c.OK {
			names = append(names, c.Name+": "+c.Reason)
		}
	}
	return names
}

// A controller is added to a Manager that runs, and ended, with the cache that it alone
// uses; after that its name is free.
func TestRunnerIsAddedAndEndedWhileTheManagerRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(t)
		things := newStore(t, b, "thing")
		create(t, things, "a")
		var m reconcile.Manager
		if err := m.Register(&runner{"base", untilDone}); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Start(&runner{"early", untilDone}); err == nil {
			t.Error("Start before Run gave no error")
		}
		run := start(t, &m)
		shared := newCache(t, things)
		var ran list[string]
		tenant := func(name string) *reconcile.Controller[store.Key] {
			c := must[*reconcile.Controller[store.Key]](t)(reconcile.New(name, record(func(_ context.Context, k store.Key) (result, error) {
				ran.add(name + " " + k.Name)
				return result{}, nil
			}), nil))
			if err := c.Watch(reconcile.From(shared)); err != nil {
				t.Fatal(err)
			}
			return c
		}
		one := tenant("one")
		stopOne, err := m.Start(one)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		expectList(t, "runs", ran.get(), "one a")
		if len(m.Health()) != 3 || len(m.Runners()) != 3 { // base, one, and the cache that was found
			t.Errorf("Checks %+v, want three", m.Health())
		}
		stopTwo, err := m.Start(tenant("two"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		expectList(t, "runs", ran.get(), "one a", "two a")

		if err := stopOne(); err != nil {
			t.Errorf("stop = %v", err)
		}
		if err := stopOne(); err != nil {
			t.Errorf("the second stop = %v", err)
		}
		if _, err := m.Start(one); !errors.Is(err, reconcile.ErrRunning) {
			t.Errorf("Start of a controller that has run: %v, want ErrRunning", err)
		}
		create(t, things, "b") // by the cache, which the second uses
		synctest.Wait()
		expectList(t, "runs", ran.get(), "one a", "two a", "two b")
		if err := stopTwo(); err != nil {
			t.Errorf("stop = %v", err)
		}
		synctest.Wait()
		if len(m.Health()) != 1 {
			t.Errorf("Checks %+v after the last controller has ended, want base alone", m.Health())
		}
		if err := shared.Run(canceled(t)); errors.Is(err, cache.ErrRunning) {
			t.Error("the cache runs although nothing uses it")
		}
		if _, err := m.Start(&runner{"one", untilDone}); err != nil {
			t.Errorf("the name of what was stopped: %v", err)
		}
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Start(&runner{"late", untilDone}); err == nil {
			t.Error("Start after Run gave no error")
		}
	})
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// Start has the checks of Register, and leaves nothing of what it refuses.
func TestStartHasTheChecksOfRegister(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(t)
		p := must[lease.Placement](t)(lease.NewSingleton(b, "shared", nil))
		placed := func(name string) *reconcile.Controller[string] {
			return must[*reconcile.Controller[string]](t)(reconcile.New(name, record[string](nil), &reconcile.Options[string]{Placement: p}))
		}
		var m reconcile.Manager
		if err := m.Register(circle(t, "a", "b"), placed("placed")); err != nil {
			t.Fatal(err)
		}
		run := start(t, &m)
		before := len(m.Health())
		var none *reconcile.Controller[string]
		for want, r := range map[string]reconcile.Runner{
			"nil": none, "make one with New": &reconcile.Controller[string]{}, `"placed"`: &runner{"placed", untilDone},
			reconcile.ErrCycle.Error(): circle(t, "b", "a"), "runs already": placed("also placed"),
		} {
			if stop, err := m.Start(r); err == nil || stop != nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Start gave %v, want an error with %q", err, want)
			}
		}
		expect(t, "members", len(m.Health()), before)
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
	})
}

// What stop is told is the caller's; a runner that fails by itself ends the Manager, one
// that was registered or not, and one that hangs is named and keeps its name.
func TestStoppedRunnersErrorIsThatOfStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := reconcile.Manager{StopTimeout: 10 * time.Second}
		if err := m.Register(&runner{"base", untilDone}); err != nil {
			t.Fatal(err)
		}
		run := start(t, &m)
		stop, err := m.Start(&runner{"fails", func(ctx context.Context) error { <-ctx.Done(); return errBoom }})
		if err != nil {
			t.Fatal(err)
		}
		if err := stop(); !errors.Is(err, errBoom) {
			t.Errorf("stop = %v, want the runner's error", err)
		}
		release := make(chan struct{})
		stop, err = m.Start(&runner{"hangs", func(context.Context) error { <-release; return nil }})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var left *reconcile.LeftoverError
		if err := stop(); !errors.As(err, &left) || fmt.Sprint(left.Names) != "[hangs]" {
			t.Errorf("stop = %v, want the runner named", err)
		}
		expect(t, "stop waited", time.Since(began), 10*time.Second)
		if _, err := m.Start(&runner{"hangs", untilDone}); !errors.Is(err, reconcile.ErrNameTaken) {
			t.Errorf("the name of a runner that goes on: %v, want ErrNameTaken", err)
		}
		close(release)
		synctest.Wait()
		if err := stop(); !errors.As(err, &left) {
			t.Errorf("the second stop = %v, want what the first one gave", err)
		}
		if again, err := m.Start(&runner{"hangs", untilDone}); err != nil {
			t.Errorf("the name of a runner that was left behind and has ended: %v", err)
		} else if err := again(); err != nil {
			t.Error(err)
		}
		var gone atomic.Bool
		if _, err = m.Start(&runner{"ends well", func(context.Context) error { gone.Store(true); return nil }}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case <-run.done:
			t.Fatalf("Run = %v, after a runner that was stopped, and one that ended", run.err)
		default:
		}
		if _, err = m.Start(&runner{"breaks", func(context.Context) error { return errBoom }}); err != nil {
			t.Fatal(err)
		}
		<-run.done
		if !errors.Is(run.err, errBoom) || !strings.Contains(run.err.Error(), "breaks") || !gone.Load() {
			t.Errorf("Run = %v, want the error of what broke", run.err)
		}
	})
}

// failLate starts a runner that hangs when it is stopped, and lets it end with errBoom after
// that.
func failLate(t *testing.T, m *reconcile.Manager) {
	t.Helper()
	release := make(chan struct{})
	stop, err := m.Start(&runner{"hangs", func(context.Context) error { <-release; return errBoom }})
	if err != nil {
		t.Fatal(err)
	}
	var left *reconcile.LeftoverError
	if err := stop(); !errors.As(err, &left) {
		t.Errorf("stop = %v, want the runner named", err)
	}
	close(release)
	synctest.Wait()
}

// endingCache is a cache whose Run says something else when it was told to end.
type endingCache struct {
	*cache.Cache[spec, status]
	says error
}

func (c endingCache) Run(ctx context.Context) error {
	if err := c.Cache.Run(ctx); err != nil {
		return err
	}
	return c.says
}

// A cache that the Manager ends because nothing uses it any more may have something to
// report, such as an object that was written to. That is an error of Manager.Run, and does not
// end it: the runners that are left do without the cache. An error that says only that the
// cache was told to end is none.
//
// Negative control: the error of such a cache was dropped.
func TestErrorOfACacheOfNoUseIsReported(t *testing.T) {
	for name, c := range map[string]struct{ says, want error }{
		"news":     {cache.ErrMutated, cache.ErrMutated},
		"the end":  {fmt.Errorf("watch ended: %w", context.Canceled), nil},
		"no error": {},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				used := endingCache{newCache(t, newStore(t, newBackend(t), "thing")), c.says}
				var m reconcile.Manager
				if err := m.Register(&runner{"base", untilDone}); err != nil {
					t.Fatal(err)
				}
				run := start(t, &m)
				synctest.Wait()
				stop, err := m.Start(newController(t, record[store.Key](nil), &reconcile.Options[store.Key]{Reads: []reconcile.Cached{used}}))
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if err := stop(); err != nil {
					t.Errorf("stop = %v", err)
				}
				synctest.Wait()
				if all := m.Health(); len(all) != 1 || !all[0].OK {
					t.Errorf("Checks %+v after the cache has ended, want base alone, which goes on", all)
				}
				if err := run.end(); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Errorf("Run = %v, want %v", err, c.want)
				}
			})
		})
	}
}

// The error of a runner that was left behind is in the log, and the caches that it alone
// used end with it.
func TestErrorOfARunnerThatWasLeftBehindIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		m := reconcile.Manager{StopTimeout: 10 * time.Second, Logger: logger}
		if err := m.Register(&runner{"base", untilDone}); err != nil {
			t.Fatal(err)
		}
		run := start(t, &m)
		failLate(t, &m)
		if got := lines.String(); !strings.Contains(got, "hangs") || !strings.Contains(got, "boom") {
			t.Errorf("the log does not have the error of what was left behind:\n%s", got)
		}
		expect(t, "members", len(m.Health()), 1)
		if err := run.end(); err != nil {
			t.Error(err)
		}
	})
}

// asks is a log handler that asks a Manager how it is at each line.
type asks struct {
	slog.Handler
	m *reconcile.Manager
}

func (a asks) Enabled(context.Context, slog.Level) bool { return true }

func (a asks) Handle(context.Context, slog.Record) error {
	a.m.Health()
	return nil
}

// A log handler may call the Manager: no line is written under its lock. Three lines are
// about a cycle that is allowed, of Register, Run and Start.
func TestManagerLogsWithoutItsLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := reconcile.Manager{AllowCycles: true}
		m.Logger = slog.New(asks{slog.DiscardHandler, &m})
		if err := m.Register(circle(t, "b", "a"), circle(t, "a", "b")); err != nil {
			t.Fatal(err)
		}
		run := start(t, &m)
		if _, err := m.Start(circle(t, "c", "a")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
	})
}

// Runners that are started and stopped while the Manager stops end with it.
func TestStartBesideTheStop(t *testing.T) {
	for range 20 {
		bubble(t, func(t *testing.T) {
			var m reconcile.Manager
			if err := m.Register(&runner{"base", untilDone}); err != nil {
				t.Fatal(err)
			}
			var running atomic.Int64
			run := start(t, &m)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for n := 0; ; n++ {
					stop, err := m.Start(&runner{fmt.Sprint(n), func(ctx context.Context) error {
						running.Add(1)
						defer running.Add(-1)
						<-ctx.Done()
						return ctx.Err()
					}})
					if err != nil {
						return
					}
					if n%2 == 0 {
						if err := stop(); err != nil {
							t.Errorf("stop = %v", err)
						}
					}
					time.Sleep(time.Millisecond)
				}
			}()
			time.Sleep(20 * time.Millisecond)
			if err := run.end(); err != nil {
				t.Errorf("Run = %v", err)
			}
			expect(t, "runners after Run", running.Load(), 0)
			<-ended
		})
	}
}

// A controller that would have the Manager's placement, which another one has already, is
// refused. It is no reason for the Manager to end.
func TestStartRefusesTheManagersPlacementThatIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := must[lease.Placement](t)(lease.NewSingleton(newBackend(t), "shared", nil))
		m := reconcile.Manager{Placement: p}
		unplaced := func(name string) *reconcile.Controller[string] {
			return must[*reconcile.Controller[string]](t)(reconcile.New(name, record[string](nil), nil))
		}
		if err := m.Register(unplaced("first")); err != nil {
			t.Fatal(err)
		}
		run := start(t, &m)
		if _, err := m.Start(unplaced("second")); err == nil || !strings.Contains(err.Error(), "runs already") {
			t.Errorf("Start gave %v, want that the placement runs already", err)
		}
		synctest.Wait()
		select {
		case <-run.done:
			t.Fatalf("Run = %v", run.err)
		default:
		}
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
	})
}

// slowCache is a cache that takes a second to end.
type slowCache struct {
	*cache.Cache[spec, status]
}

func (c slowCache) Run(ctx context.Context) error {
	slow, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	context.AfterFunc(ctx, func() { time.Sleep(time.Second); cancel() })
	return c.Cache.Run(slow)
}

// A cache that ends, because nothing uses it any more, is run again for a controller that
// is started meanwhile.
func TestStartWithACacheThatIsEnding(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := &slowCache{newCache(t, newStore(t, newBackend(t), "thing"))}
		var m reconcile.Manager
		if err := m.Register(&runner{"base", untilDone}); err != nil {
			t.Fatal(err)
		}
		run := start(t, &m)
		for range 3 {
			c := must[*reconcile.Controller[string]](t)(reconcile.New("reads", record[string](nil), &reconcile.Options[string]{Reads: []reconcile.Cached{slow}}))
			stop, err := m.Start(c)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if err := stop(); err != nil {
				t.Errorf("stop = %v", err)
			}
		}
		time.Sleep(time.Minute)
		select {
		case <-run.done:
			t.Fatalf("Run = %v", run.err)
		default:
		}
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
	})
}

// The cache of a controller of For is run by the Manager: it goes on for the others that use
// it when the controller is stopped, and is not run again for the controller where it runs
// for others.
func TestStartOfAControllerWithACacheOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		things := newStore(t, newBackend(t), "thing")
		var ran list[string]
		own := must[*reconcile.ObjectController[spec, status]](t)(reconcile.For(things, func(context.Context, *thing) (result, error) {
			return result{}, nil
		}, nil))
		other := must[*reconcile.Controller[store.Key]](t)(reconcile.New("other", record(func(_ context.Context, k store.Key) (result, error) {
			ran.add(k.Name)
			return result{}, nil
		}), nil))
		if err := other.Watch(reconcile.From(own.Cache())); err != nil {
			t.Fatal(err)
		}
		var m reconcile.Manager
		if err := m.Register(&runner{"base", untilDone}); err != nil {
			t.Fatal(err)
		}
		run := start(t, &m)
		stop, err := m.Start(own)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Start(other); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := stop(); err != nil {
			t.Errorf("stop = %v", err)
		}
		synctest.Wait()
		create(t, things, "a")
		time.Sleep(time.Minute)
		expectList(t, "runs", ran.get(), "a")

		late := must[*reconcile.ObjectController[spec, status]](t)(reconcile.For(newStore(t, newBackend(t), "late"), func(context.Context, *thing) (result, error) {
			return result{}, nil
		}, nil))
		uses := must[*reconcile.Controller[store.Key]](t)(reconcile.New("uses", record[store.Key](nil), nil))
		if err := uses.Watch(reconcile.From(late.Cache())); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Start(uses); err != nil {
			t.Fatal(err)
		}
		stop, err = m.Start(late)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		expectList(t, "what fails", notOK(m.Health()))
		if err := stop(); err != nil {
			t.Errorf("stop = %v", err)
		}
		if err := late.Cache().Run(canceled(t)); !errors.Is(err, cache.ErrRunning) {
			t.Errorf("Run of the cache = %v, want that it runs on for the other", err)
		}
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
	})
}

// A cache that runs for a controller takes no name: another cache of its kind may be started.
//
// Negative control: with its name taken Start failed.
func TestCacheThatWasFoundTakesNoName(t *testing.T) {
	bubble(t, func(t *testing.T) {
		things := newStore(t, newBackend(t), "thing")
		own := must[*reconcile.ObjectController[spec, status]](t)(reconcile.For(things, func(context.Context, *thing) (result, error) {
			return result{}, nil
		}, nil))
		var m reconcile.Manager
		if err := m.Register(own); err != nil {
			t.Fatal(err)
		}
		run := start(t, &m)
		synctest.Wait()
		if _, err := m.Start(newCache(t, things)); err != nil {
			t.Errorf("Start of another cache = %v", err)
		}
		if _, err := m.Start(own.Cache()); !errors.Is(err, reconcile.ErrNameTaken) {
			t.Errorf("Start of the same cache = %v, want ErrNameTaken", err)
		}
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
	})
}

// What was stopped and ends late with an error is no reason to restart the process.
func TestStoppedRunnerThatFailsLateIsNoReasonToRestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var m reconcile.Manager
		if err := m.Register(&runner{"base", untilDone}); err != nil {
			t.Fatal(err)
		}
		run := start(t, &m)
		failLate(t, &m)
		expectList(t, "what Live finds", notOK(m.Live()))
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
	})
}

// The summary of a controller that has the name of one that was stopped counts its own runs.
func TestSummaryOfANameThatIsUsedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var lines logLines
		m := reconcile.Manager{Summary: time.Minute, Logger: slog.New(slog.NewTextHandler(&lines, nil))}
		if err := m.Register(&runner{"base", untilDone}); err != nil {
			t.Fatal(err)
		}
		run := start(t, &m)
		for _, keys := range []int{3, 1} {
			c := must[*reconcile.Controller[string]](t)(reconcile.New("again", record[string](nil), nil))
			stop, err := m.Start(c)
			if err != nil {
				t.Fatal(err)
			}
			for n := range keys {
				if err := c.Add(fmt.Sprint(n)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Minute + time.Second)
			if err := stop(); err != nil {
				t.Errorf("stop = %v", err)
			}
		}
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"runs=3", "runs=1 "} {
			if !strings.Contains(lines.String(), want) {
				t.Errorf("no summary with %s in\n%s", want, lines.String())
			}
		}
	})
}

type logLines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
