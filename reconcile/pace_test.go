package reconcile_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// tries are the times at which something was tried, and whether it fails.
type tries struct {
	mu      sync.Mutex
	failing bool
	broken  chan struct{} // closed when what works is to fail
	at      []time.Time
}

func (x *tries) try() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.at = append(x.at, time.Now())
	if x.failing {
		return errBoom
	}
	return nil
}

// set has it fail, or work, from now on.
func (x *tries) set(failing bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.failing = failing; failing {
		close(x.broken)
	} else {
		x.broken = make(chan struct{})
	}
}

func (x *tries) untilBroken() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.broken
}

// since is how many tries there were lately.
func (x *tries) since(d time.Duration) (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, at := range x.at {
		if time.Since(at) <= d {
			n++
		}
	}
	return n
}

// What fails on and on is tried soon, and then less and less often, about once a minute in the
// end; and soon once more when it worked in between: whatever ended that is news.
//
// Negative controls: the mutants "a source that had run well waits as long as before when it
// fails again" and "a list that worked again waits as long as before when it fails again".
func TestWhatFailsIsTriedSoonAndThenSeldom(t *testing.T) {
	list := func(x *tries) func(context.Context) (map[store.Key]int, error) {
		return func(context.Context) (map[store.Key]int, error) { return nil, x.try() }
	}
	for name, way := range map[string]func(t *testing.T, x *tries) reconcile.Runner{
		"a source": func(t *testing.T, x *tries) reconcile.Runner {
			return watching(t, reconcile.Source[store.Key]{Name: "source", Run: func(ctx context.Context, to reconcile.Sink[store.Key]) error {
				to.Synced()
				broken := x.untilBroken()
				if err := x.try(); err != nil {
					return err
				}
				select {
				case <-broken:
					return errBoom
				case <-ctx.Done():
					return nil
				}
			}})
		},
		"a list of Every": func(t *testing.T, x *tries) reconcile.Runner {
			return watching(t, reconcile.Every("list", time.Minute, list(x)))
		},
		"a list of Each": func(t *testing.T, x *tries) reconcile.Runner {
			return must[*reconcile.Controller[store.Key]](t)(reconcile.Each("test", time.Minute, list(x), func(context.Context, store.Key, *int) (result, error) {
				return result{}, nil
			}, &reconcile.Options[store.Key]{Logger: slog.New(slog.DiscardHandler)}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := &tries{failing: true, broken: make(chan struct{})}
				start(t, way(t, x))
				for range 2 {
					pass(2 * time.Second)
					if n := x.since(2100 * time.Millisecond); n < 3 || n > 4 {
						t.Errorf("%d tries in the first 2 s, want 3 or 4", n)
					}
					pass(time.Hour)
					if n := x.since(30 * time.Minute); n < 24 || n > 45 {
						t.Errorf("%d tries in the second half of an hour, want about one a minute", n)
					}
					x.set(false)
					pass(10 * time.Minute)
					x.mu.Lock()
					x.at = nil
					x.mu.Unlock()
					x.set(true)
					for x.since(time.Hour) == 0 { // a list is made at the end of its interval
						pass(time.Millisecond)
					}
				}
			})
		})
	}
}

// watching is a controller with one source.
func watching(t *testing.T, src reconcile.Source[store.Key]) reconcile.Runner {
	t.Helper()
	c := newController(t, record[store.Key](nil), nil)
	if err := c.Watch(src); err != nil {
		t.Fatal(err)
	}
	return c
}
