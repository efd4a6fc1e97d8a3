package debug_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
)

func allowAll(o *debug.Options) {
	o.Authorise = func(*http.Request, debug.Action) error { return nil }
}

// A provider was down for 45 s, and the page showed 279 green cells as if they had been looked at
// just now.
func TestKindLooksOldWhileNothingOfItWasSeen(t *testing.T) {
	var down atomic.Bool
	withShop(t, func(_ *shop, _ *bucket) (reconcile.Result, error) {
		if down.Load() {
			return reconcile.Result{}, errors.New("provider: no answer")
		}
		return reconcile.Result{RequeueAfter: 20 * time.Second}, nil
	}, func(t *testing.T, s *shop) {
		for _, name := range []string{"a", "b"} {
			_ = must(s.store.Create(t.Context(), &bucket{Meta: store.Meta{Name: name}}))
		}
		time.Sleep(time.Minute)
		if page := get(t, s.h, http.StatusOK); strings.Contains(page, `class="bar old"`) || !strings.Contains(page, " ago</span></td><td data-label=\"bar\"") {
			t.Errorf("while all works:\n%s", page)
		}
		down.Store(true)
		time.Sleep(5 * time.Minute)
		page := get(t, s.h, http.StatusOK)
		wantAll(t, page, `class="bar old"`, "not for ")
		wantAll(t, get(t, s.h, http.StatusOK, "format", "json", "view", "status"), `"lastSeen": {`)
		down.Store(false)
		time.Sleep(5 * time.Minute)
		if page := get(t, s.h, http.StatusOK); strings.Contains(page, `class="bar old"`) {
			t.Errorf("after it came back:\n%s", page)
		}
	})
}

// Two buttons said "pause": one lasts until a restart, the other until it is resumed.
func TestPausesSayBeforeTheClickWhichOneLasts(t *testing.T) {
	bubble(t, allowAll, func(t *testing.T, _ *world, h http.Handler) {
		page := get(t, h, http.StatusOK, "c", "bucket", "key", "logs")
		wantAll(t, page, ">pause here, until a restart</a>", ">pause on every server, until resumed</a>")
	})
}

func TestForceIsApartFromOtherActions(t *testing.T) {
	bubble(t, allowAll, func(t *testing.T, w *world, h http.Handler) {
		o := must(w.Store.Get(t.Context(), store.Key{Name: "logs"}))
		o.AddFinalizer("cloud.example/bucket")
		_ = must(w.Store.Update(t.Context(), o))
		page := get(t, h, http.StatusOK, "view", "object", "kind", "bucket", "key", "logs")
		before, force, found := strings.Cut(page, "<h2>By force</h2>")
		if !found || strings.Contains(before, "remove finalizer") {
			t.Errorf("it stands among the others:\n%s", page)
		}
		wantAll(t, force, "is left behind", `class="button danger"`)
		wantAll(t, get(t, h, http.StatusOK, "ask", "object-remove-finalizer", "kind", "bucket", "key", "logs", "finalizer", "cloud.example/bucket"), `<button class="danger">remove finalizer</button>`)
		if ask := get(t, h, http.StatusOK, "ask", "object-pause", "kind", "bucket", "key", "logs"); strings.Contains(ask, `class="danger">`) {
			t.Error("a pause looks like force")
		}
	})
}

func TestEventsAreFiltered(t *testing.T) {
	bubble(t, nil, func(t *testing.T, _ *world, h http.Handler) {
		all := get(t, h, http.StatusOK, "view", "events", "format", "text")
		wantAll(t, all, "Created", "CannotCreate", "data")
		if warned := get(t, h, http.StatusOK, "view", "events", "format", "text", "state", "warnings"); strings.Contains(warned, "Created") || !strings.Contains(warned, "CannotCreate") {
			t.Errorf("warnings only:\n%s", warned)
		}
		if some := get(t, h, http.StatusOK, "view", "events", "format", "text", "q", "data"); strings.Contains(some, "CannotCreate") || !strings.Contains(some, "data") {
			t.Errorf("those that contain data:\n%s", some)
		}
		wantAll(t, get(t, h, http.StatusOK, "view", "events", "q", "data"), `<option value="warnings">warnings only</option>`, `name="q" value="data"`)
		get(t, h, http.StatusBadRequest, "view", "events", "state", "failing")
	})
}

// A page that loads itself again folded what was open, as each is a new page to the browser.
func TestRefreshKeepsWhatWasOpened(t *testing.T) {
	bubble(t, nil, func(t *testing.T, _ *world, h http.Handler) {
		page := get(t, h, http.StatusOK, "refresh", "5")
		wantAll(t, page, `<a href="?open=caches&amp;refresh=5#caches">Caches</a>`)
		page = get(t, h, http.StatusOK, "refresh", "5", "open", "controllers")
		if n := strings.Count(page, `<details class="fold" open>`); n != 1 {
			t.Errorf("%d sections are open, want that of controllers", n)
		}
		wantAll(t, page, `<a href="?refresh=5#controllers">Controllers</a>`, `<a href="?open=controllers&amp;open=running-now&amp;refresh=5#running-now">Running now</a>`)
		if page := get(t, h, http.StatusOK); strings.Contains(page, "open=") {
			t.Error("a page that stays has links in place of folds")
		}
	})
}

func TestSectionsHaveLinks(t *testing.T) {
	bubble(t, nil, func(t *testing.T, _ *world, h http.Handler) {
		page := get(t, h, http.StatusOK)
		for _, id := range []string{"causes", "objects", "underneath", "controllers", "events", "health"} {
			wantAll(t, page, `<a href="#`+id+`">`, ` id="`+id+`">`)
		}
		if short := get(t, h, http.StatusOK, "view", "events"); strings.Contains(short, "on this page") {
			t.Error("a short page has links to its only section")
		}
	})
}
