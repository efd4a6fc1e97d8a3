package debug_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
)

// A field that an action does not need was passed on as it came: a host that allows some keys
// or some controllers allowed what has neither.
//
// Negative control: mutant "an action is asked about with fields that it does not have".
func TestActionIsAskedAboutWithoutFieldsThatItDoesNotHave(t *testing.T) {
	ofTenant := func(o *debug.Options) {
		o.Authorise = func(_ *http.Request, a debug.Action) error {
			if strings.HasPrefix(a.Key, "tenant-") && a.Kind == "" || a.Controller == "audit" || a.Kind == "account" && a.Finalizer == "cloud.example/account" {
				return nil
			}
			return errors.New("not yours")
		}
	}
	withObjects(t, ofTenant, func(t *testing.T, w *world, _ *store.Store[signIn, status], h http.Handler) {
		before := w.Buckets.Snapshot().Workers
		for _, pairs := range [][]string{
			{"do", "workers", "c", "bucket", "key", "tenant-a", "workers", "0"},
			{"do", "retry-failed", "c", "bucket", "key", "tenant-a"},
			{"do", "object-pause", "c", "audit", "kind", "bucket", "key", "logs"},
			{"do", "release-prune", "c", "audit", "kind", "bucket", "key", "tenant-a"},
			{"do", "object-pause", "kind", "account", "key", "root", "finalizer", "cloud.example/account"},
			{"do", "pause", "c", "bucket", "key", "logs", "kind", "account", "finalizer", "cloud.example/account"},
		} {
			post(t, h, http.StatusForbidden, nil, pairs...)
		}
		if n := w.Buckets.Snapshot().Workers; n != before {
			t.Errorf("%d workers, want %d", n, before)
		}
		post(t, h, http.StatusSeeOther, nil, "do", "object-remove-finalizer", "c", "bucket", "kind", "account", "key", "root", "finalizer", "cloud.example/account")
	})
}

// A key can be written in two ways: Authorise was asked about "/root", the object that was paused
// was root, and so it was with the keys of controllers.
//
// Negative control: mutant "an action is asked about with another text of the key".
func TestActionIsAskedAboutWithTheKeyThatItIsOn(t *testing.T) {
	var asked []string
	others := func(o *debug.Options) {
		o.Authorise = func(_ *http.Request, a debug.Action) error {
			asked = append(asked, a.Key)
			if a.Key == "root" || a.Key == "logs" {
				return errors.New("not yours")
			}
			return nil
		}
	}
	withObjects(t, others, func(t *testing.T, w *world, accounts *store.Store[signIn, status], h http.Handler) {
		post(t, h, http.StatusForbidden, nil, "do", "object-pause", "kind", "account", "key", "root")
		post(t, h, http.StatusForbidden, nil, "do", "object-pause", "kind", "account", "key", "/root")
		post(t, h, http.StatusBadRequest, nil, "do", "object-pause", "kind", "account", "key", "a/")
		post(t, h, http.StatusForbidden, nil, "do", "pause", "c", "bucket", "key", "logs")
		post(t, h, http.StatusConflict, nil, "do", "pause", "c", "bucket", "key", "/logs")
		if o := must(accounts.Get(t.Context(), store.Key{Name: "root"})); o.Paused {
			t.Error("the account is paused")
		}
		if got := strings.Join(asked, " "); got != "root root logs /logs" {
			t.Errorf("Authorise was asked about %s", got)
		}
		// To look at, it may be written in both.
		for _, page := range [][]string{{"view", "object", "kind", "account", "key", "root"}, {"c", "bucket", "key", "logs"}} {
			of := func(key string) string {
				return get(t, h, http.StatusOK, append(slices.Clone(page[:len(page)-1]), key, "format", "json")...)
			}
			if one, other := of(page[len(page)-1]), of("/"+page[len(page)-1]); one != other {
				t.Errorf("%s:\n%s\nand with a slash:\n%s", page, one, other)
			}
		}
	})
}
