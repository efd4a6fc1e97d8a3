package store_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// refusing is a backend whose writes fail while its error is set.
type refusing struct {
	store.Backend
	err    error
	hang   bool
	writes *store.WriteHealth
	probes int
}

func newRefusing(t *testing.T) *refusing {
	m, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &refusing{Backend: m}
	b.writes = store.NewWriteHealth(b, "here", nil)
	t.Cleanup(func() { b.writes.Close(); _ = b.Backend.Close() })
	return b
}

func (b *refusing) Health() error { return b.writes.Health() }

func (b *refusing) Commit(ctx context.Context, t store.Txn) (rev store.Revision, err error) {
	if len(t.Ops) > 0 && t.Ops[0].Kind == "_health" {
		b.probes++
	}
	switch {
	case b.hang:
		<-ctx.Done()
		err = context.Cause(ctx)
	case b.err != nil:
		err = b.err
	default:
		rev, err = b.Backend.Commit(ctx, t)
	}
	b.writes.Committed(ctx, t, err)
	return rev, err
}

func (b *refusing) write(ctx context.Context) {
	_, _ = b.Commit(ctx, store.Txn{Ops: []store.Op{{Kind: "thing", Key: store.Key{Name: "a"}, Put: store.Bytes("1")}}})
}

// Commits that fail show at once. A store that is cured and idle is well again within one probe, and
// one that is healthy is not probed.
func TestHealthGoesByWritesUntilOneSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRefusing(t)
		b.write(t.Context())
		time.Sleep(time.Hour)
		if err := store.Health(b); err != nil || b.probes != 0 {
			t.Fatalf("health %v after %d probes, want a healthy store that is not probed", err, b.probes)
		}
		full := errors.New("no space")
		b.err = full
		began := time.Now()
		b.write(t.Context())
		var u *store.UnavailableError
		if err := store.Health(b); !errors.As(err, &u) || !errors.Is(err, full) || !u.Since.Equal(began) {
			t.Fatalf("health %v, want an UnavailableError of %v", err, full)
		}
		time.Sleep(time.Minute + time.Second)
		if b.probes != 12 {
			t.Errorf("%d probes in a minute, want 12", b.probes)
		}
		_, _ = b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "thing", Key: store.Key{Name: "a"}}}})
		b.err = nil
		_, _ = b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "thing", Key: store.Key{Name: "a"}}}})
		if store.Health(b) == nil {
			t.Error("a deletion that succeeds says that puts do")
		}
		time.Sleep(5 * time.Second)
		if err := store.Health(b); err != nil {
			t.Errorf("health %v of a store that is cured and idle", err)
		}
		probes := b.probes
		time.Sleep(time.Hour)
		if b.probes != probes {
			t.Errorf("%d probes of a healthy store", b.probes-probes)
		}
	})
}

// What a store that works refuses says nothing of it.
func TestHealthIsNotThatOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRefusing(t)
		for _, err := range []error{store.ErrConflict, store.ErrFenced, store.ErrUnguarded, store.ErrInvalid, store.ErrLeaseGone, store.ErrClosed} {
			b.err = err
			b.write(t.Context())
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		b.err = errors.Join(store.ErrUnknownOutcome, context.Canceled)
		b.write(cancelled)
		time.Sleep(time.Minute)
		if err := store.Health(b); err != nil || b.probes != 0 {
			t.Errorf("health %v after %d probes, want a healthy store", err, b.probes)
		}
	})
}

// Callers that wait for less long than the backend does see no error of the store's. A probe finds out
// whose fault that is.
func TestHealthAsksTheStoreWhenADeadlineEndsACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRefusing(t)
		b.hang = true
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b.write(short)
		b.hang = false
		synctest.Wait()
		if err := store.Health(b); err != nil {
			t.Errorf("health %v after a deadline of the caller's", err)
		}
		b.err = errors.New("locked")
		b.write(short)
		synctest.Wait()
		time.Sleep(time.Millisecond)
		if err := store.Health(b); !errors.Is(err, b.err) {
			t.Errorf("health %v, want what the probe met", err)
		}
	})
}

// Close leaves no probe behind.
func TestWriteHealthThatIsClosedProbesNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRefusing(t)
		b.err = errors.New("no space")
		b.write(t.Context())
		b.writes.Close()
		time.Sleep(time.Minute)
		if b.probes != 0 {
			t.Errorf("%d probes after Close", b.probes)
		}
	})
}
