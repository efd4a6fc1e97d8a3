package debug_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

// Texts are cut to 1,000 characters. The question before an action was cut with them, and
// its form named a key that does not exist: "run now" added that to the queue.
func TestActionOnALongKeyIsAboutThatKey(t *testing.T) {
	key := strings.Repeat("k", 1015)
	c := must(reconcile.New("files", reconcile.Func[string](func(context.Context, string) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	}), &reconcile.Options[string]{Logger: slog.New(slog.DiscardHandler)}))
	if err := c.Queue().AddAfter(key, time.Hour); err != nil {
		t.Fatal(err)
	}
	var m reconcile.Manager
	if err := m.Register(c); err != nil {
		t.Fatal(err)
	}
	var did []debug.Action
	o := &debug.Options{Logger: slog.New(slog.DiscardHandler)}
	allow(&did)(o)
	h := must(debug.New(&m, o))
	page := get(t, h, http.StatusOK, "c", "files", "key", key, "ask", "pause")
	named := regexp.MustCompile(`name="key" value="([^"]*)"`).FindStringSubmatch(page)
	if named == nil {
		t.Fatalf("no form:\n%s", page)
	}
	if got := html.UnescapeString(named[1]); got != key {
		t.Errorf("the form names a key of %d characters, want that of %d: …%s", len(got), len(key), got[len(got)-30:])
	}
}

// Links hold keys as they are, with up to nine characters for each of theirs. The link to
// the next page was cut like a text, so that it led nowhere.
func TestNextPageOfLongNamesIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks := must(store.New[spec, status](must(memory.New(nil)), "disk", nil))
		for i := range 150 {
			name := fmt.Sprintf("%03d %s", i, strings.Repeat("長", 150))
			_ = must(disks.Create(t.Context(), &bucket{Meta: store.Meta{Name: name}}))
		}
		var m reconcile.Manager
		h := must(debug.New(&m, &debug.Options{Objects: []objects.Kind{objects.Of(disks)}, Logger: slog.New(slog.DiscardHandler)}))
		seen, next := map[string]bool{}, "?view=objects&kind=disk"
		for next != "" && len(seen) < 1000 {
			r := httptest.NewRequest(http.MethodGet, "http://localhost/debug"+next+"&format=json", nil)
			var page struct {
				Objects struct {
					Objects []struct{ Key string }
					Next    string
				}
			}
			if err := json.Unmarshal(send(t, h, http.StatusOK, r).Body.Bytes(), &page); err != nil {
				t.Fatal(err)
			}
			for _, o := range page.Objects.Objects {
				if seen[o.Key] {
					t.Fatalf("%.20s is on two pages", o.Key)
				}
				seen[o.Key] = true
			}
			next = page.Objects.Next
		}
		if len(seen) != 150 {
			t.Errorf("%d of 150 objects are on the pages", len(seen))
		}
	})
}

// All keys that fail for one cause are counted: a sentence gave the number of those that the page
// shows, ten of a controller.
func TestVerdictCountsAllKeysThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := must(reconcile.New("files", reconcile.Func[string](func(context.Context, string) (reconcile.Result, error) {
			return reconcile.Result{}, errors.New("the disk is full")
		}), &reconcile.Options[string]{Logger: slog.New(slog.DiscardHandler), Backoff: queue.Backoff{Base: time.Hour, Max: time.Hour}}))
		for i := range 300 {
			if err := c.Add(fmt.Sprint("key-", i)); err != nil {
				t.Fatal(err)
			}
		}
		m := reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
		if err := m.Register(c); err != nil {
			t.Fatal(err)
		}
		h := must(debug.New(&m, &debug.Options{Logger: slog.New(slog.DiscardHandler)}))
		defer running(t, &m)()
		time.Sleep(time.Minute)
		synctest.Wait()
		wantAll(t, get(t, h, http.StatusOK, "format", "text"), "Not well. 1 cause.", "fails: the disk is full", "300 keys of files")
	})
}

// "Nothing fails, and nothing is stuck", said the page of a controller without workers, and
// of one whose workers were busy for an hour.
func TestVerdictNamesKeysThatWaitForAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := must(reconcile.New("files", reconcile.Func[string](func(ctx context.Context, key string) (reconcile.Result, error) {
			<-ctx.Done()
			return reconcile.Result{}, ctx.Err()
		}), &reconcile.Options[string]{Logger: slog.New(slog.DiscardHandler), Workers: 1, Timeout: 100 * time.Hour, StopTimeout: -1}))
		m := reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
		if err := errors.Join(m.Register(c), c.Add("a"), c.Add("b")); err != nil {
			t.Fatal(err)
		}
		h := must(debug.New(&m, &debug.Options{Logger: slog.New(slog.DiscardHandler)}))
		defer running(t, &m)()
		time.Sleep(time.Minute)
		wantAll(t, get(t, h, http.StatusOK, "format", "text"), "Under way. 1 cause.", "the worker of files is busy, 1 key waits, the first for 1 min")
		time.Sleep(time.Hour)
		wantAll(t, get(t, h, http.StatusOK, "format", "text"), "Not well. 1 cause.", "the worker of files is busy, 1 key waits, the first for 1 h 1 min")
		if err := c.SetWorkers(0); err != nil {
			t.Fatal(err)
		}
		wantAll(t, get(t, h, http.StatusOK, "format", "text"), "no workers: it has no workers", "controller files")
	})
}

// A list that is empty is a list, for scripts that go through it.
func TestJSONHasNoNull(t *testing.T) {
	c := must(reconcile.New("files", reconcile.Func[string](func(context.Context, string) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	}), &reconcile.Options[string]{Logger: slog.New(slog.DiscardHandler)}))
	for _, of := range []int{0, 1} {
		m := reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
		pages := [][]string{{}, {"view", "search"}, {"view", "search", "q", "x"}}
		if of == 1 {
			if err := m.Register(c); err != nil {
				t.Fatal(err)
			}
			pages = append(pages, []string{"c", "files"}, []string{"c", "files", "key", "x"})
		}
		h := must(debug.New(&m, &debug.Options{Logger: slog.New(slog.DiscardHandler)}))
		for _, q := range pages {
			text := get(t, h, http.StatusOK, append(q, "format", "json")...)
			for line := range strings.Lines(text) {
				if strings.Contains(line, ": null") {
					t.Errorf("with %d controllers %q says %s", of, q, strings.TrimSpace(line))
				}
			}
		}
	}
}

// A kind that cannot be listed, as one whose cache has not synced, made the search for keys
// fail as a whole.
func TestSearchGoesOnWithoutAKindThatCannotBeListed(t *testing.T) {
	c := must(reconcile.New("files", reconcile.Func[string](func(context.Context, string) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	}), &reconcile.Options[string]{Logger: slog.New(slog.DiscardHandler)}))
	var m reconcile.Manager
	if err := errors.Join(c.Queue().AddAfter("wanted", time.Hour), m.Register(c)); err != nil {
		t.Fatal(err)
	}
	b := must(memory.New(nil))
	away := must(cache.New(must(store.New[spec, status](b, "away", nil)), nil))
	disks := must(store.New[spec, status](b, "disk", nil))
	_ = must(disks.Create(t.Context(), &bucket{Meta: store.Meta{Name: "wanted-disk"}}))
	h := must(debug.New(&m, &debug.Options{Objects: []objects.Kind{objects.OfCache(away), objects.Of(disks)}, Logger: slog.New(slog.DiscardHandler)}))
	for _, format := range []string{"html", "json", "text"} {
		wantAll(t, get(t, h, http.StatusOK, "view", "search", "q", "wanted", "format", format), "files", "wanted-disk", "the cache of away has not synced yet")
		wantAll(t, get(t, h, http.StatusOK, "view", "search", "q", "nothing", "format", format), "the cache of away has not synced yet")
	}
}

// running runs a Manager until the func that it returns is called.
func running(t *testing.T, m *reconcile.Manager) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }() // ended by cancel, waited for below
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
