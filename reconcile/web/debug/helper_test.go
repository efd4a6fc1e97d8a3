package debug_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/debugworld"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/web/debug"
)

type (
	spec   = debugworld.Spec
	status = debugworld.Status
	bucket = debugworld.Bucket
	world  = debugworld.World
)

const hostile = debugworld.Hostile

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// bubble runs f in fake time with a world that has settled.
func bubble(t *testing.T, change func(*debug.Options), f func(t *testing.T, w *world, h http.Handler)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := debugworld.New()
		o := w.Options()
		if change != nil {
			change(o)
		}
		h := must(debug.New(&w.Manager, o))
		w.Declare("logs", "slow-copy", "failing-a", "parked-b", "data", hostile)
		w.Start(context.WithoutCancel(t.Context()))
		defer func() { w.Stop() }()
		time.Sleep(3 * time.Second)
		if err := w.Audit.Add("all"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f(t, w, h)
	})
}

// get asks for a view; the pairs are its query.
func get(t *testing.T, h http.Handler, want int, pairs ...string) string {
	t.Helper()
	return send(t, h, want, httptest.NewRequest(http.MethodGet, "http://localhost/debug?"+query(pairs...).Encode(), nil)).Body.String()
}

func query(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return q
}

func post(t *testing.T, h http.Handler, want int, edit func(*http.Request), pairs ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://localhost/debug", strings.NewReader(query(pairs...).Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if edit != nil {
		edit(r)
	}
	return send(t, h, want, r)
}

func send(t *testing.T, h http.Handler, want int, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != want {
		t.Fatalf("%s %s: %d, want %d:\n%s", r.Method, r.URL, w.Code, want, w.Body)
	}
	return w
}

func wantAll(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
}

// inspected is a controller as the pages see it.
func inspected(r reconcile.Runner) reconcile.Inspection {
	i, ok := reconcile.Inspect(r)
	if !ok {
		panic(fmt.Sprintf("%T cannot be inspected", r))
	}
	return i
}

// patience turns a hang of something real into a failure. It is no measure of anything.
const patience = 4 * time.Minute
