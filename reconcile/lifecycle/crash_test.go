package lifecycle

import (
	"context"
	"fmt"
	"testing"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// world is what handlers have made outside.
type world map[string]bool

// The process dies at every write to the store, before and after it landed; a
// new one finishes the work. Whatever was made outside is cleaned up in the
// end, and nothing was made that no finalizer speaks for.
//
// promise S3. Negative control: with the pending finalizer stored after Add
// instead of before it, a crash in between left the resource behind.
func TestCrashAtEveryWriteLeavesNothingBehind(t *testing.T) {
	for name, build := range map[string]func(t *testing.T, s *widgets, w world) *Lifecycle[widgetSpec, widgetStatus]{
		"handlers": func(t *testing.T, s *widgets, w world) *Lifecycle[widgetSpec, widgetStatus] {
			var hs []Handler[widgetSpec, widgetStatus]
			for _, name := range []string{"one", "two"} {
				touch := func(_ context.Context, o *widget) (reconcile.Result, error) {
					w[name] = true
					o.Status.Note += name
					return reconcile.Result{}, nil
				}
				hs = append(hs, Handler[widgetSpec, widgetStatus]{Name: name, Add: touch, Resync: touch, Delete: func(context.Context, *widget) (reconcile.Result, error) {
					delete(w, name)
					return reconcile.Result{}, nil
				}})
			}
			return mustNew(t, s, hs...)
		},
		"provider": func(t *testing.T, s *widgets, w world) *Lifecycle[widgetSpec, widgetStatus] {
			p := &fakeProvider{create: func(_ context.Context, o *widget, _ settings, _ client) (reconcile.Result, error) {
				w["provider"] = true
				return reconcile.Result{}, nil
			}, delete: func(context.Context, *widget, settings, client) (reconcile.Result, error) {
				if w["released"] {
					t.Error("Delete after Release")
				}
				delete(w, "provider")
				return reconcile.Result{}, nil
			}}
			a := fakeAccess{diary: &p.diary, ensure: func(*widget) (reconcile.Result, error) {
				w["access"] = true
				return reconcile.Result{}, nil
			}, release: func(*widget) (reconcile.Result, error) {
				delete(w, "access")
				return reconcile.Result{}, nil
			}}
			return mustProvide(t, s, p, nil, a)
		},
	} {
		for _, landed := range []bool{true, false} {
			for at := 1; crashAt(t, name, at, landed, build); at++ {
			}
		}
	}
}

// crashAt lets a first process create and delete an object until its write
// number at fails, and every later one, and a second process finish. It says
// whether there was such a write.
func crashAt(t *testing.T, name string, at int, landed bool, build func(*testing.T, *widgets, world) *Lifecycle[widgetSpec, widgetStatus]) (crashed bool) {
	t.Run(fmt.Sprintf("%s/write %d/landed %v", name, at, landed), func(t *testing.T) {
		w := world{}
		b := newFaulty(t)
		s, user := on[widgetSpec, widgetStatus](t, b, "widget"), on[widgetSpec, widgetStatus](t, b.FullBackend, "widget")
		create(t, user, "a")
		writes := 0
		b.commit.Store(new(func(txn store.Txn) error {
			if writes++; writes < at {
				return nil
			}
			if writes == at && landed {
				if _, err := b.FullBackend.Commit(t.Context(), txn); err != nil {
					t.Error(err)
				}
			}
			crashed = true
			return fmt.Errorf("%w: crashed", errBoom)
		}))
		first := build(t, s, w)
		first.Reconcile(t.Context(), key("a")) // what it returns died with it
		o := get(t, user, "a")
		if len(w) > 0 && len(o.Finalizers) == 0 {
			t.Errorf("%v were made, and no finalizer speaks for them", w)
		}
		remove(t, user, "a")
		if !crashed {
			first.Reconcile(t.Context(), key("a"))
		}
		second := build(t, user, w)
		for range 3 {
			run(t, second, "a")
		}
		expectGone(t, user, "a")
		if len(w) != 0 {
			t.Errorf("left behind: %v", w)
		}
	})
	return crashed
}
