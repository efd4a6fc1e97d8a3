package reconciletest

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// patienceToStart is how long Start and Shown wait. In a synctest bubble it takes no time.
const patienceToStart = time.Minute

// Start runs caches, controllers with the caches that they use, and what else a test needs, in
// a [reconcile.Manager], until the test ends. It returns when all of them have synced; if that takes
// longer than a minute, or they cannot be registered, the test fails at once. An error of a
// runner fails it at its end. Their log is the test's, which a failure shows.
func Start(t testing.TB, runners ...reconcile.Runner) {
	t.Helper()
	m := &reconcile.Manager{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if err := m.Register(runners...); err != nil {
		t.Fatalf("reconciletest: Start: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }() // stopped and waited for by Cleanup
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("reconciletest: Start: %v", err)
		}
	})
	for begun := time.Now(); ; _ = sleep(ctx, time.Millisecond) {
		answer := httptest.NewRecorder()
		m.Ready().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/", nil))
		if answer.Code == http.StatusOK {
			return
		}
		if time.Since(begun) >= patienceToStart {
			t.Fatalf("reconciletest: Start: not ready after %v:\n%s", patienceToStart, answer.Body)
		}
	}
}

// Shown waits until caches show a store as of a revision, such as that of the object that a
// write returned, or later. One that does not within a minute fails the test at once.
func Shown(t testing.TB, at store.Revision, caches ...interface{ Revision() store.Revision }) {
	t.Helper()
	begun := time.Now()
	for _, c := range caches {
		for c.Revision() < at {
			if time.Since(begun) >= patienceToStart {
				t.Fatalf("reconciletest: Shown: %v is at revision %d after %v, want %d", c, c.Revision(), patienceToStart, at)
			}
			_ = sleep(context.Background(), time.Millisecond)
		}
	}
}
