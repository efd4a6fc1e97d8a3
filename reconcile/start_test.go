package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

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
		if len(m.Checks()) != 3 || len(m.Runners()) != 3 { // base, one, and the cache that was found
			t.Errorf("Checks %+v, want three", m.Checks())
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
		if len(m.Checks()) != 1 {
			t.Errorf("Checks %+v after the last controller has ended, want base alone", m.Checks())
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
		before := len(m.Checks())
		var none *reconcile.Controller[string]
		for want, r := range map[string]reconcile.Runner{
			"nil": none, "make one with New": &reconcile.Controller[string]{}, `"placed"`: &runner{"placed", untilDone},
			reconcile.ErrCycle.Error(): circle(t, "b", "a"), "runs already": placed("also placed"),
		} {
			if stop, err := m.Start(r); err == nil || stop != nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Start gave %v, want an error with %q", err, want)
			}
		}
		expect(t, "members", len(m.Checks()), before)
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
		if err := stop(); err != nil {
			t.Errorf("stop of what has ended = %v", err)
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
