package debug_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

type (
	signIn = struct {
		User     string
		Password string `tend:"secret"`
	}
	account = store.Object[signIn, status]
)

// withObjects is bubble with the objects of the world shown, and one of a kind with secrets.
func withObjects(t *testing.T, change func(*debug.Options), f func(t *testing.T, w *world, accounts *store.Store[signIn, status], h http.Handler)) {
	t.Helper()
	bubble(t, nil, func(t *testing.T, w *world, _ http.Handler) {
		accounts := must(store.New[signIn, status](w.Store.Backend(), "account", nil))
		o := &account{Meta: store.Meta{Name: "root", Finalizers: []string{"cloud.example/account"}}, Spec: signIn{"root", "hunter2-secret"}}
		o.Labels = map[string]string{"was": "hunter2-secret"}
		o.SetProgressing("Refused", "the cloud refused hunter2-secret")
		_ = must(accounts.Create(t.Context(), o))
		options := w.Options()
		options.Objects = []objects.Kind{objects.Of(w.Store), objects.Of(accounts)}
		if change != nil {
			change(options)
		}
		f(t, w, accounts, must(debug.New(&w.Manager, options)))
	})
}

// Before debug.Options.Objects an object that hangs in its deletion was on no page: its
// key's page said that the queue does not know the key.
func TestPageOfAnObjectInDeletionSaysWhatItWaitsFor(t *testing.T) {
	withObjects(t, nil, func(t *testing.T, w *world, accounts *store.Store[signIn, status], h http.Handler) {
		o := must(w.Store.Create(t.Context(), &bucket{Meta: store.Meta{Name: "hangs", Finalizers: []string{"other.example/foreign"}}, Spec: spec{Size: 3}}))
		time.Sleep(time.Second)
		if err := w.Store.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		want := []string{"its deletion was asked for 5 min 0 s ago, and waits until these finalizers are removed: other.example/foreign"}
		if err := inspected(w.Buckets).Do(t.Context(), "forget", "hangs", ""); err != nil {
			t.Fatal(err)
		}
		for _, format := range []string{"html", "text", "json"} {
			wantAll(t, get(t, h, http.StatusOK, "c", "bucket", "key", "hangs", "format", format), want...)
			wantAll(t, get(t, h, http.StatusOK, "view", "object", "kind", "bucket", "key", "hangs", "format", format), want...)
		}
		wantAll(t, get(t, h, http.StatusOK, "view", "objects", "kind", "bucket", "state", "deleting", "format", "text"), "hangs", "in deletion for 5 min", "other.example/foreign", "1 deleting")
	})
}

func TestObjectIsShownWholeAndWithoutItsSecrets(t *testing.T) {
	withObjects(t, func(o *debug.Options) {
		allow(new([]debug.Action))(o)
	}, func(t *testing.T, w *world, accounts *store.Store[signIn, status], h http.Handler) {
		wantAll(t, get(t, h, http.StatusOK), `href="?kind=account&amp;view=objects"`)
		pages := [][]string{
			{},
			{"view", "objects", "kind", "account"},
			{"view", "object", "kind", "account", "key", "root"},
			{"view", "search", "q", "root"},
			{"ask", "object-remove-finalizer", "kind", "account", "key", "root", "finalizer", "cloud.example/account"},
		}
		for _, at := range pages {
			for _, format := range []string{"html", "text", "json"} {
				if text := get(t, h, http.StatusOK, append(at, "format", format)...); strings.Contains(text, "hunter2") {
					t.Errorf("%v shows a secret:\n%s", at, text)
				}
			}
		}
		wantAll(t, get(t, h, http.StatusOK, "view", "objects", "kind", "account", "format", "text"), "root", "Progressing", "Ready is False (Refused)", "cloud.example/account")
		wantAll(t, get(t, h, http.StatusOK, "view", "search", "q", "root"), `href="?key=root&amp;kind=account&amp;view=object"`)
		text := get(t, h, http.StatusOK, "view", "object", "kind", "account", "key", "root", "format", "text")
		wantAll(t, text, `"Password": "(secret)"`, `"User": "root"`, "the cloud refused (secret)")
		wantAll(t, get(t, h, http.StatusOK, "view", "object", "kind", "bucket", "key", "parked-b", "format", "text"), "== In the queue of bucket", "parked", "the name is taken")
		get(t, h, http.StatusNotFound, "view", "object", "kind", "account", "key", "nobody")
		get(t, h, http.StatusNotFound, "view", "objects", "kind", "none")
		get(t, h, http.StatusBadRequest, "view", "objects", "kind", "account", "state", "nice")
		get(t, h, http.StatusBadRequest, "view", "object", "kind", "account", "key", "")
	})
}

// The page of an object says whose value of a field stands where two declare it.
func TestPageOfAnObjectSaysWhoseItsFieldsAre(t *testing.T) {
	withObjects(t, nil, func(t *testing.T, w *world, accounts *store.Store[signIn, status], h http.Handler) {
		declare := func(by string, spec signIn) error {
			_, err := accounts.ApplyFields(t.Context(), &account{Meta: store.Meta{Name: "shared"}, Spec: spec}, by, false)
			return err
		}
		if err := declare("prod.yaml", signIn{User: "prod"}); err != nil {
			t.Fatal(err)
		}
		if err := declare("other.yaml", signIn{"other", "hunter2-secret"}); !errors.Is(err, store.ErrOwned) {
			t.Fatalf("%v, want that the user is another's", err)
		}
		page := get(t, h, http.StatusOK, "view", "object", "kind", "account", "key", "shared", "format", "text")
		wantAll(t, page, "fields of prod.yaml   User\n", "fields of other.yaml  Password\n")
	})
}

func TestObjectsArePaged(t *testing.T) {
	withObjects(t, nil, func(t *testing.T, w *world, accounts *store.Store[signIn, status], h http.Handler) {
		for i := range 250 {
			_ = must(accounts.Create(t.Context(), &account{Meta: store.Meta{Name: fmt.Sprintf("user-%03d", i)}}))
		}
		seen, last := 0, ""
		for query, pages := "?view=objects&kind=account&q=user", 0; query != ""; pages++ {
			var page struct {
				Objects struct {
					Total   int
					Objects []struct{ Key string }
					Next    string
				}
			}
			r := httptest.NewRequest(http.MethodGet, "http://localhost/debug"+query+"&format=json", nil)
			if err := json.Unmarshal(send(t, h, http.StatusOK, r).Body.Bytes(), &page); err != nil {
				t.Fatal(err)
			}
			for _, o := range page.Objects.Objects {
				if o.Key <= last {
					t.Fatalf("%s comes after %s", o.Key, last)
				}
				last = o.Key
				seen++
			}
			if query = page.Objects.Next; page.Objects.Total != 251 || pages > 3 {
				t.Fatalf("page %d: %+v", pages, page.Objects)
			}
		}
		if seen != 250 {
			t.Errorf("%d objects over all pages, want 250", seen)
		}
	})
}

// sought is a secret that counts how often its forms are made.
type sought string

var searches atomic.Int64

func (s sought) String() string {
	searches.Add(1)
	return string(s)
}

// The overview and each page of objects looked four times for the secrets of every object,
// and said of a kind of two thousand certificates that it cannot be listed.
//
// Seen to fail: 440 searches for the overview, and as many for the page.
func TestPagesLookForTheSecretsOfWhatTheyShow(t *testing.T) {
	type login struct {
		Password sought `tend:"secret"`
	}
	var logins *store.Store[login, status]
	withObjects(t, func(o *debug.Options) {
		logins = must(store.New[login, status](must(memory.New(nil)), "login", nil))
		o.Objects = []objects.Kind{objects.Of(logins)}
	}, func(t *testing.T, _ *world, _ *store.Store[signIn, status], h http.Handler) {
		for i := range 110 {
			o := &store.Object[login, status]{Meta: store.Meta{Name: fmt.Sprintf("user-%03d", i)}, Spec: login{"hunter2-secret"}}
			o.SetProgressing("Refused", "the cloud refused hunter2-secret")
			o.SetCondition(store.Condition{Type: store.ConditionSynced, Status: store.False, Reason: "Refused", Message: "the cloud refused hunter2-secret"})
			_ = must(logins.Create(t.Context(), o))
		}
		searches.Store(0)
		wantAll(t, get(t, h, http.StatusOK, "format", "json"), `"login"`, `"failing": 110`)
		if n := searches.Swap(0); n != 1 {
			t.Errorf("the overview made %d searches for secrets, want one, for the example of its one cause", n)
		}
		text := get(t, h, http.StatusOK, "view", "objects", "kind", "login", "q", "user-10", "format", "json")
		if n := searches.Load(); n != 11 {
			t.Errorf("a page of 10 objects made %d searches for secrets, want one for each, and that of the verdict", n)
		}
		if n := strings.Count(text, "the cloud refused (secret)"); n != 20 || strings.Contains(text, "hunter2") {
			t.Errorf("10 objects show %d texts:\n%s", n, text)
		}
		searches.Store(0)
		text = get(t, h, http.StatusOK, "view", "search", "q", "user-10", "format", "json")
		if n, rows := strings.Count(text, "the cloud refused (secret)"), searches.Load(); n == 0 || int64(n) != 2*rows || strings.Contains(text, "hunter2") {
			t.Errorf("a search made %d searches for secrets and shows %d texts:\n%s", rows, n, text)
		}
	})
}

func TestActionsOnObjectsDoWhatTheySay(t *testing.T) {
	var asked []debug.Action
	withObjects(t, allow(&asked), func(t *testing.T, w *world, accounts *store.Store[signIn, status], h http.Handler) {
		key := store.Key{Name: "root"}
		act := func(do string, more ...string) {
			t.Helper()
			to := post(t, h, http.StatusSeeOther, nil, append([]string{"do", do, "kind", "account", "key", "root"}, more...)...).Header().Get("Location")
			send(t, h, http.StatusOK, httptest.NewRequest(http.MethodGet, "http://localhost/debug"+to, nil))
		}
		act("object-pause")
		if o := must(accounts.Get(t.Context(), key)); !o.Paused {
			t.Error("it is not paused")
		}
		time.Sleep(5 * time.Minute)
		wantAll(t, get(t, h, http.StatusOK, "view", "objects", "kind", "account", "format", "text"), "paused for 5 min")
		wantAll(t, get(t, h, http.StatusOK, "view", "object", "kind", "account", "key", "root", "format", "text"), "for 5 min 0 s, on every server, until it is resumed")
		wantAll(t, get(t, h, http.StatusOK, "view", "object", "kind", "account", "key", "root", "format", "json"), `"pausedSince"`)
		act("object-resume")
		act("object-reconcile")
		o := must(accounts.Get(t.Context(), key))
		if o.Paused || o.Annotations[store.AnnotationReconcileNow] == "" || o.Spec.Password != "hunter2-secret" {
			t.Errorf("it is %+v", o)
		}
		// "The finalizer was removed", said the page of one that was not there.
		post(t, h, http.StatusConflict, nil, "do", "object-remove-finalizer", "kind", "account", "key", "root", "finalizer", "cloud.example/typo")
		act("object-remove-finalizer", "finalizer", "cloud.example/account")
		if o := must(accounts.Get(t.Context(), key)); len(o.Finalizers) != 0 {
			t.Errorf("it has the finalizers %v", o.Finalizers)
		}
		post(t, h, http.StatusNotFound, nil, "do", "object-pause", "kind", "none", "key", "root")
		post(t, h, http.StatusConflict, nil, "do", "object-pause", "kind", "account", "key", "nobody")
		post(t, h, http.StatusNotFound, nil, "do", "release-prune", "kind", "bucket") // this inventory cannot be
	})
	if len(asked) != 8 || asked[4].Finalizer != "cloud.example/account" || asked[0].Kind != "account" {
		t.Errorf("asked about %+v", asked)
	}
	withObjects(t, nil, func(t *testing.T, w *world, accounts *store.Store[signIn, status], h http.Handler) {
		post(t, h, http.StatusMethodNotAllowed, nil, "do", "object-pause", "kind", "account", "key", "root")
		if html := get(t, h, http.StatusOK, "view", "object", "kind", "account", "key", "root"); strings.Contains(html, "ask=") {
			t.Error("actions are offered that no caller may do")
		}
	})
}

// held is an inventory whose prune an operator can release.
type held struct {
	*world
	reason string
}

func (i *held) Snapshot() introspect.Inventory[external.Report] {
	s := i.world.Snapshot()
	s.Held = i.reason
	return s
}
func (i *held) Release(context.Context) error { i.reason = ""; return nil }

func TestHeldPruneIsReleasedAndFailedKeysAreRetried(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, _ http.Handler) {
		i := &held{w, "the store went back in time"}
		o := w.Options()
		allow(new([]debug.Action))(o)
		o.Inventories = []debug.Inventory{i}
		h := must(debug.New(&w.Manager, o))
		wantAll(t, get(t, h, http.StatusOK), "the store went back in time", `href="?ask=release-prune&amp;kind=bucket"`)
		wantAll(t, get(t, h, http.StatusOK, "ask", "release-prune", "kind", "bucket"), `value="release-prune"`, "is deleted again")
		post(t, h, http.StatusSeeOther, nil, "do", "release-prune", "kind", "bucket")
		if i.reason != "" {
			t.Error("the prune is held")
		}
		before, _ := inspected(w.Buckets).Key(t.Context(), "parked-b")
		runs := w.Buckets.Snapshot().Runs.Runs()
		time.Sleep(time.Second)
		post(t, h, http.StatusSeeOther, nil, "do", "retry-failed", "c", "bucket")
		synctest.Wait()
		after, _ := inspected(w.Buckets).Key(t.Context(), "parked-b")
		if n := w.Buckets.Snapshot().Runs.Runs() - runs; n != 3 || !after.Since.After(before.Since) {
			t.Errorf("%d keys ran, want the 3 that failed; parked-b was %+v and is %+v", n, before, after)
		}
	})
}
