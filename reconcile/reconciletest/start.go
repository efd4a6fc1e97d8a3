package reconciletest

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// patienceToStart is how long Start and Shown wait. In a synctest bubble it takes no time.
const patienceToStart = time.Minute

// Start runs caches, controllers with the caches that they use, and what else a test needs, in
// a [reconcile.Manager], until the test ends. It returns when all of them have synced; if that takes
// longer than a minute, or they cannot be registered, or end before, the test fails at once. An
// error of a runner afterwards fails it at its end. Their log is the test's, which a failure shows.
func Start(t testing.TB, runners ...reconcile.Runner) {
	t.Helper()
	m := &reconcile.Manager{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if err := m.Register(runners...); err != nil {
		t.Fatalf("reconciletest: Start: %v", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var ended error // read when done is closed
	done := make(chan struct{})
	go func() { // stopped and waited for by Cleanup
		defer close(done)
		ended = m.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		if <-done; ended != nil {
			t.Errorf("reconciletest: Start: %v", ended)
		}
	})
	for begun := time.Now(); ; _ = sleep(ctx, time.Millisecond) {
		waits := slices.DeleteFunc(m.Ready(), func(c reconcile.Check) bool { return c.OK })
		if len(waits) == 0 {
			return
		}
		select {
		case <-done:
			t.Fatalf("reconciletest: Start: all ended before they were ready: %v", ended)
		default:
		}
		if time.Since(begun) >= patienceToStart {
			t.Fatalf("reconciletest: Start: not ready after %v: %+v", patienceToStart, waits)
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
			_ = sleep(context.WithoutCancel(t.Context()), time.Millisecond)
		}
	}
}
