package debug_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

func TestObjectPageShowsWhatItNeedsAndWhatNeedsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(memory.New(nil))
		roles, databases := must(store.New[spec, status](b, "role", nil)), must(store.New[spec, status](b, "database", nil))
		roleCache, databaseCache := must(cache.New(roles, nil)), must(cache.New(databases, nil))
		g := depend.NewGraph()
		owners := must(depend.New(databaseCache, depend.On(roleCache, func(*bucket) []store.Key {
			return []store.Key{{Name: "alice"}}
		}, nil), &depend.Options{Graph: g}))
		silent := slog.New(slog.DiscardHandler)
		c := must(reconcile.New("database", reconcile.AsReconciler(databaseCache, owners.Wrap(func(context.Context, *bucket) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		})), &reconcile.Options[reconcile.Request]{Reads: owners.Caches(), Logger: silent}))
		if err := c.Watch(reconcile.From(databaseCache), owners.Source()); err != nil {
			t.Fatal(err)
		}
		m := &reconcile.Manager{Logger: silent}
		if err := m.Register(c); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }() // ended by cancel, waited for below
		defer func() {
			cancel()
			<-done
		}()
		_ = must(databases.Create(ctx, &bucket{Meta: store.Meta{Name: "shop"}}))
		synctest.Wait()
		h := must(debug.New(m, &debug.Options{Objects: []objects.Kind{objects.Of(roles), objects.OfCache(databaseCache)}, Needs: g}))
		page := get(t, h, http.StatusOK, "view", "object", "kind", "database", "key", "shop", "format", "text")
		wantAll(t, page, "== Needs\n", "role", "alice", "why it cannot be used yet")
		_ = must(roles.Create(ctx, &bucket{Meta: store.Meta{Name: "alice"}}))
		synctest.Wait()
		page = get(t, h, http.StatusOK, "view", "object", "kind", "role", "key", "alice", "format", "text")
		wantAll(t, page, "== Needed by\n", "database", "shop")
		if strings.Contains(page, "== Needs\n") {
			t.Errorf("the role needs something:\n%s", page)
		}
		wantAll(t, get(t, h, http.StatusOK, "view", "objects", "kind", "database", "format", "text"), "shop", "1 in all")
	})
}

// The drawing shows objects that wait for each other, in the color of what is wrong, and owners,
// dashed; the table under it says both in words.
func TestDrawingShowsACycleAndAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type ring struct{ Needs string }
		s := must(store.New[ring, status](must(memory.New(nil)), "ring", nil))
		rings, g := must(cache.New(s, nil)), depend.NewGraph()
		tracker := must(depend.New(rings, depend.On(rings, func(o *store.Object[ring, status]) []store.Key {
			if o.Spec.Needs == "" {
				return nil
			}
			return []store.Key{{Name: o.Spec.Needs}}
		}, nil), &depend.Options{Graph: g}))
		silent := slog.New(slog.DiscardHandler)
		c := must(reconcile.New("ring", reconcile.AsReconciler(rings, tracker.Wrap(func(context.Context, *store.Object[ring, status]) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		})), &reconcile.Options[reconcile.Request]{Reads: tracker.Caches(), Logger: silent}))
		m := &reconcile.Manager{Logger: silent}
		if err := errors.Join(c.Watch(reconcile.From(rings), tracker.Source()), m.Register(c)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }() // ended by cancel, waited for below
		defer func() {
			cancel()
			<-done
		}()
		for name, needs := range map[string]string{"a": "b", "b": "c", "c": "a"} {
			o := &store.Object[ring, status]{Meta: store.Meta{Name: name}, Spec: ring{needs}}
			if name == "a" {
				o.Owners = []store.Owner{{Kind: "ring", Key: store.Key{Name: "owner"}, UID: "u"}}
			}
			_ = must(s.Create(ctx, o))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		h := must(debug.New(m, &debug.Options{Objects: []objects.Kind{objects.OfCache(rings)}, Needs: g}))
		of := []string{"view", "object", "kind", "ring", "key", "a"}
		text := get(t, h, http.StatusOK, append(of, "format", "text")...)
		wantAll(t, text, "they wait for each other in a circle", "ring b needs ring c needs ring a needs ring b", "ring a  is owned by  ring owner")
		_, page, found := strings.Cut(get(t, h, http.StatusOK, of...), "What needs what, in the order of creation")
		page, _, closed := strings.Cut(page, "</svg>")
		if !found || !closed {
			t.Fatalf("nothing is drawn:\n%s", page)
		}
		wantAll(t, page, "ring a", "ring b", "ring c", "ring owner")
		bad, dashed := strings.Count(page, `class="arrow bad-arrow"`), strings.Count(page, `class="arrow dashed"`)
		if bad != 3 || dashed != 1 {
			t.Errorf("%d arrows are bad and %d dashed, want the 3 of the cycle and the owner's:\n%s", bad, dashed, page)
		}
	})
}
