package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store/cache"
)

// Two Managers in one process over one store that only this process has run no key twice at
// once: the second is refused before it runs anything, and runs when the first has ended.
//
// promise Q2. Before, each ran every key, at once and without a word.
func TestTwoManagersOverOneStoreAreRefused(t *testing.T) {
	for name, second := range map[string]func(reconcile.Runner) error{
		"a Manager": func(c reconcile.Runner) error {
			var m reconcile.Manager
			if err := m.Register(c); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			return m.Run(ctx)
		},
		"Start": func(c reconcile.Runner) error {
			var m reconcile.Manager
			if err := m.Register(&runner{"other", func(ctx context.Context) error { <-ctx.Done(); return nil }}); err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- m.Run(ctx) }()
			time.Sleep(time.Second)
			_, err := m.Start(c)
			time.Sleep(time.Minute)
			if len(done) > 0 {
				return errors.New("the Manager has ended with what Start refused")
			}
			cancel()
			<-done
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStore(t, newBackend(t), "thing")
				var running, most atomic.Int32
				run := func(context.Context, *thing) (reconcile.Result, error) {
					most.Store(max(most.Load(), running.Add(1)))
					defer running.Add(-1)
					time.Sleep(time.Second)
					return reconcile.Result{}, nil
				}
				create(t, s, "a")
				first := startManaged(t, onlyFor(t, s, run))
				err := second(onlyFor(t, s, run))
				if err == nil || !strings.Contains(err.Error(), `controller "thing"`) || !strings.Contains(err.Error(), "runs already") {
					t.Errorf("the second: %v, want that a controller of the name runs over the same store", err)
				}
				if most.Load() > 1 {
					t.Errorf("%d runs of one key at once", most.Load())
				}
				if err := first.end(); err != nil {
					t.Error(err)
				}
				if err := startManaged(t, onlyFor(t, s, run)).end(); err != nil {
					t.Errorf("after the first has ended: %v", err)
				}
			})
		})
	}
}

// Two Managers that share a lease are two servers, as in a test of a program; and EveryServer
// says that both are to run.
func TestTwoManagersWithPlacementsAreTwoServers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		for _, place := range []func() lease.Placement{
			lease.EveryServer,
			func() lease.Placement {
				p, err := lease.NewSingleton(s.Backend(), "thing", nil)
				if err != nil {
					t.Fatal(err)
				}
				return p
			},
		} {
			var all []*running
			for range 2 {
				c := onlyFor(t, s, func(context.Context, *thing) (reconcile.Result, error) { return reconcile.Result{}, nil })
				m := &reconcile.Manager{Placement: place()}
				if err := m.Register(c); err != nil {
					t.Fatal(err)
				}
				all = append(all, start(t, m))
			}
			time.Sleep(time.Minute)
			for _, r := range all {
				if err := r.end(); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// A cache that two Managers are to run is refused to the second before it runs anything, and
// the first goes on. Before, the second began its runs, and then ended with "already running".
func TestCacheOfTwoManagersIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		create(t, s, "a")
		c, err := cache.New(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		reader := func(name string, ran *bool) reconcile.Runner {
			r, err := reconcile.New(name, reconcile.AsReconciler(c, func(context.Context, *thing) (reconcile.Result, error) {
				*ran = true
				return reconcile.Result{}, nil
			}), nil)
			if err == nil {
				err = r.Watch(reconcile.From(c))
			}
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		var ran, other bool
		first := startManaged(t, reader("first", &ran))
		var m reconcile.Manager
		if err := m.Register(reader("second", &other)); err != nil {
			t.Fatal(err)
		}
		err = m.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "cache thing") || !strings.Contains(err.Error(), "another Manager") {
			t.Errorf("the second: %v, want that another Manager runs the cache", err)
		}
		if !ran || other {
			t.Errorf("the first has run: %t, the second: %t", ran, other)
		}
		if err := first.end(); err != nil {
			t.Error(err)
		}
	})
}

// onlyFor is a controller for the objects of s.
func onlyFor(t *testing.T, s *things, f reconcile.ObjectFunc[spec, status]) reconcile.Runner {
	t.Helper()
	return must[*reconcile.ObjectController[spec, status]](t)(reconcile.For(s, f, nil))
}
