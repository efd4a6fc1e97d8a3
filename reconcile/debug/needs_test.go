package debug_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/debug"
	"github.com/tendhq/tend/reconcile/depend"
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
