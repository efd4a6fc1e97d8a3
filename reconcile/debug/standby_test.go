package debug_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/debug"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
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
