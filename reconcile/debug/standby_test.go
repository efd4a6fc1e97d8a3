package debug_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/debug"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

// On a server that does not hold a key's lease the queue does not know the key. Its page
// names the server that does.
func TestPageOfAKeyNamesTheServerThatRunsIt(t *testing.T) {
	for name, place := range map[string]func(store.Backend, string) (lease.Placement, error){
		"singleton": func(b store.Backend, server string) (lease.Placement, error) {
			return lease.NewSingleton(b, "things", &lease.Options{Server: server})
		},
		"sharded": func(b store.Backend, server string) (lease.Placement, error) {
			if server == "standby" { // it divides the keys otherwise, and waits
				return lease.NewSharded(b, "things", 3, &lease.Options{Server: server})
			}
			return lease.NewSharded(b, "things", 2, &lease.Options{Server: server})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := must(memory.New(nil))
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 2)
				start := func(server string) *debug.Handler {
					c := must(reconcile.New("things", reconcile.Func[store.Key](func(context.Context, store.Key) (reconcile.Result, error) {
						return reconcile.Result{}, nil
					}), nil))
					m := &reconcile.Manager{Placement: must(place(b, server))}
					if err := m.Register(c); err != nil {
						t.Fatal(err)
					}
					go func() { done <- m.Run(ctx) }() // ends at cancel
					time.Sleep(time.Second)
					return must(debug.New(m, nil))
				}
				holder, standby := start("server-a"), start("standby")
				page := []string{"c", "things", "key", "ns/x", "format", "text"}
				wantAll(t, get(t, holder, http.StatusOK, page...), "The queue does not know this key")
				wantAll(t, get(t, standby, http.StatusOK, page...), "does not hold the lease of this key", "server-a does, and runs the key")
				cancel()
				for range 2 {
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// A controller whose source has not listed everything runs nothing, and the page says so: it said
// that nothing is stuck. A cache of shards that holds none is not without a watch that it needs.
// Health has neither: a slow list is no error, and a restart would begin it again.
//
// Negative control: mutant "a controller that waits for a source is well".
func TestPageSaysWhichSourceIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listed := make(chan struct{})
		c := must(reconcile.New("things", reconcile.Func[store.Key](func(context.Context, store.Key) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}), nil))
		things := must(cache.New(must(store.New[spec, status](must(memory.New(nil)), "thing", nil)), &cache.Options[spec, status]{Shards: 4}))
		m := &reconcile.Manager{}
		if err := errors.Join(m.Register(things), m.Register(c), c.Watch(reconcile.Source[store.Key]{
			Name: "list", Run: func(ctx context.Context, to reconcile.Sink[store.Key]) error {
				select {
				case <-listed:
					to.Synced()
				case <-ctx.Done():
				}
				<-ctx.Done()
				return nil
			},
		})); err != nil {
			t.Fatal(err)
		}
		h := must(debug.New(m, nil))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }() // ends at cancel
		time.Sleep(time.Hour)
		wantAll(t, get(t, h, http.StatusOK, "format", "text"), "In the way: controller things waits for source list to sync.", "none: no shard is held")
		if check := m.Checks(); !check[0].OK || !check[1].OK {
			t.Errorf("%v, want that nothing is wrong", check)
		}
		close(listed)
		time.Sleep(time.Second)
		wantAll(t, get(t, h, http.StatusOK, "format", "text"), "Nothing fails, and nothing is stuck.")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
