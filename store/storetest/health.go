package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
)

// Health checks that a backend's health goes by its writes ([store.WriteHealth]). refuse is called
// with true to make the medium refuse every write of b, and with false to end that; the time that b
// waits for its medium should be short. So does a lease that the medium refuses. Conditions that do not hold say nothing of the store.
func Health(t testing.TB, b store.Backend, refuse func(bool)) {
	t.Helper()
	put := store.Txn{Ops: []store.Op{{Kind: kind, Key: store.Key{Name: "health"}, Put: store.Bytes("1")}}}
	first := put
	first.If = []store.Compare{{Kind: kind, Key: store.Key{Name: "health"}}}
	if _, err := b.Commit(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Commit(t.Context(), first); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("Commit of what exists: %v, want ErrConflict", err)
	}
	if err := store.Health(b); err != nil {
		t.Errorf("Health after a conflict: %v", err)
	}
	refuse(true)
	if _, err := b.Commit(t.Context(), put); err == nil {
		t.Error("the medium does not refuse a write")
	}
	var u *store.UnavailableError
	if err := store.Health(b); !errors.As(err, &u) {
		t.Errorf("Health after a commit that failed: %v, want an UnavailableError", err)
	}
	if _, err := b.Get(t.Context(), kind, store.Key{Name: "health"}); err == nil && store.Health(b) == nil {
		t.Error("a read that succeeds says that writes do")
	}
	refuse(false)
	await(t, "health of an idle store that takes writes again", func() bool { return store.Health(b) == nil }) // no caller writes any more
	l, ok := b.(store.Leaser)
	if !ok {
		return
	}
	// A service that only holds leases learns it by them.
	refuse(true)
	defer refuse(false)
	if _, err := l.Grant(t.Context(), time.Minute); err == nil {
		t.Log("the medium lets a lease through where it refuses a record")
		return
	}
	await(t, "ill health after a lease that was not granted", func() bool { return errors.As(store.Health(b), &u) })
}

func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(3 * time.Minute); !is(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s did not come", what)
		}
	}
}
