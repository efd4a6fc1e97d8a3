package api_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/tendhq/tend/reconcile/web/api"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// A host that lets a caller see one namespace is asked about the namespace of a list and
// of a watch, and what it allows holds nothing of another.
func TestListsAndWatchesAreAllowedByNamespace(t *testing.T) {
	w := newWorld(t, func(o *api.Options) {
		o.Allow = func(_ *http.Request, a api.Access) error {
			if a.Namespace != "prod" {
				return errors.New("only prod")
			}
			return nil
		}
	})
	for _, namespace := range []string{"prod", "test"} {
		_ = must(w.disks.Create(t.Context(), &disk{Meta: store.Meta{Namespace: namespace, Name: "a-" + namespace}}))
	}
	w.ask(t, http.StatusForbidden, "GET", "?kind=disk", "")
	w.ask(t, http.StatusForbidden, "GET", "?kind=disk&watch=true", "")
	w.ask(t, http.StatusForbidden, "GET", "?kind=disk&namespace=test&watch=true", "")
	w.ask(t, http.StatusForbidden, "GET", "?kind=disk&key=test/a-test", "")
	w.ask(t, http.StatusForbidden, "GET", "?kind=disk&key=test/a-test&namespace=prod", "") // the key counts
	w.ask(t, http.StatusOK, "GET", "?kind=disk&key=prod/a-prod", "")
	text, _ := w.ask(t, http.StatusOK, "GET", "?kind=disk&namespace=prod", "")
	if !strings.Contains(text, "a-prod") || strings.Contains(text, "a-test") {
		t.Errorf("the list of prod: %s", text)
	}
	events := w.follow(t, "?kind=disk&watch=true&namespace=prod")
	wantAll(t, events.next()+events.next(), "a-prod", "synced")
	for _, namespace := range []string{"test", "prod"} {
		_ = must(w.disks.Create(t.Context(), &disk{Meta: store.Meta{Namespace: namespace, Name: "b-" + namespace}}))
	}
	wantAll(t, events.next(), "b-prod")
	k := must(api.NewClient(w.server.URL, nil, nil)).Kind("disk").(interface {
		WatchNamespace(ctx context.Context, namespace string, after store.Revision) iter.Seq2[objects.Event, error]
	})
	seen := 0
	for e, err := range k.WatchNamespace(t.Context(), "prod", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == store.BatchSnapshotEnd {
			break
		}
		if seen++; e.Key.Namespace != "prod" {
			t.Errorf("a client that watches prod sees %s", e.Key)
		}
	}
	if seen != 2 {
		t.Errorf("a client that watches prod sees %d objects, want 2", seen)
	}
}

// Any page that a browser shows can make it ask for an address, as an image for example.
func TestPageOfAnotherSiteTakesNoPlaceOfAWatch(t *testing.T) {
	w := newWorld(t, func(o *api.Options) { o.SetWatches(1) })
	for _, query := range []string{"?kind=disk&watch=true", "?kind=disk"} {
		r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, w.server.URL+query, nil))
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.Header.Set("Sec-Fetch-Mode", "no-cors")
		resp := must(http.DefaultClient.Do(r))
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: another site's page is answered %s", query, resp.Status)
		}
	}
	wantAll(t, w.follow(t, "?kind=disk&watch=true").next(), "synced")
}
