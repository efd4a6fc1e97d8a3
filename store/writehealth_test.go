package store_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// refusing is a backend whose writes fail while its error is set.
type refusing struct {
	store.Backend
	writes *store.WriteHealth

	mu     sync.Mutex // guards the rest
	err    error
	hang   bool
	probes int
}

func (b *refusing) set(err error, hang bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err, b.hang = err, hang
}

func (b *refusing) probed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.probes
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

func (b *refusing) Commit(ctx context.Context, t store.Txn) (rev store.Revision, _ error) {
	b.mu.Lock()
	probe := len(t.Ops) > 0 && t.Ops[0].Kind == "_health"
	if probe {
		b.probes++
	}
	err, hang := b.err, b.hang && !probe // or a probe that is faster than the test would hang too
	b.mu.Unlock()
	switch {
	case hang:
		<-ctx.Done()
		err = context.Cause(ctx)
	case err == nil:
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
//
// promise S7
func TestHealthGoesByWritesUntilOneSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRefusing(t)
		b.write(t.Context())
		time.Sleep(time.Hour)
		if err := store.Health(b); err != nil || b.probed() != 0 {
			t.Fatalf("health %v after %d probes, want a healthy store that is not probed", err, b.probed())
		}
		full := errors.New("no space")
		b.set(full, false)
		began := time.Now()
		b.write(t.Context())
		var u *store.UnavailableError
		if err := store.Health(b); !errors.As(err, &u) || !errors.Is(err, full) || !u.Since.Equal(began) {
			t.Fatalf("health %v, want an UnavailableError of %v", err, full)
		}
		time.Sleep(time.Minute + time.Second)
		if b.probed() != 12 {
			t.Errorf("%d probes in a minute, want 12", b.probed())
		}
		_, _ = b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "thing", Key: store.Key{Name: "a"}}}})
		b.set(nil, false)
		_, _ = b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "thing", Key: store.Key{Name: "a"}}}})
		if store.Health(b) == nil {
			t.Error("a deletion that succeeds says that puts do")
		}
		time.Sleep(5 * time.Second)
		if err := store.Health(b); err != nil {
			t.Errorf("health %v of a store that is cured and idle", err)
		}
		probes := b.probed()
		time.Sleep(time.Hour)
		if b.probed() != probes {
			t.Errorf("%d probes of a healthy store", b.probed()-probes)
		}
	})
}

// lockedLog is what was logged by several goroutines.
type lockedLog struct {
	mu  sync.Mutex // guards the rest
	all bytes.Buffer
}

func (l *lockedLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(line)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// Of a disk that is full, small writes that find room succeed among those that fail. That is one
// illness, since its first failure, and a few lines of the log; it ends when no commit failed for 30 s.
//
// promise S7
func TestStoreThatTakesSomeWritesIsIllUntilItTakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRefusing(t)
		var log lockedLog
		b.writes.Close()
		b.writes = store.NewWriteHealth(b, "here", slog.New(slog.NewTextHandler(&log, nil)))
		full := errors.New("no space")
		began := time.Now()
		for range 100 {
			b.set(full, false)
			b.write(t.Context())
			var u *store.UnavailableError
			if err := store.Health(b); !errors.As(err, &u) || !u.Since.Equal(began) {
				t.Fatalf("after %v: health %v, want one since %v", time.Since(began), err, began)
			}
			b.set(nil, false)
			time.Sleep(6 * time.Second) // a probe succeeds
		}
		if says := log.String(); strings.Count(says, "\n") != 3 {
			t.Errorf("want a line when it begins, one when it seems to end and one when it does not:\n%s", says)
		}
		time.Sleep(31 * time.Second)
		if err := store.Health(b); err != nil {
			t.Errorf("health %v of a store of which no write failed for 30 s", err)
		}
		time.Sleep(time.Minute)
		later := time.Now()
		b.set(full, false)
		b.write(t.Context())
		var u *store.UnavailableError
		if err := store.Health(b); !errors.As(err, &u) || !u.Since.Equal(later) {
			t.Errorf("health %v, want another illness, since %v", err, later)
		}
		b.set(nil, false)
		if time.Sleep(6 * time.Second); store.Health(b) != nil {
			t.Errorf("health %v of a store that is cured and idle", store.Health(b))
		}
	})
}

// An illness that comes back within 30 s of its end is the same, however long it had been; one that comes later is
// another.
//
// promise S7
func TestIllnessThatComesBackSoonIsTheSame(t *testing.T) {
	for pause, same := range map[time.Duration]bool{20 * time.Second: true, 40 * time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			b := newRefusing(t)
			full := errors.New("no space")
			began := time.Now()
			b.set(full, false)
			b.write(t.Context())
			time.Sleep(2 * time.Minute)
			b.set(nil, false)
			b.write(t.Context())
			if err := store.Health(b); err != nil {
				t.Errorf("health %v after a commit that succeeded", err)
			}
			time.Sleep(pause)
			b.set(full, false)
			b.write(t.Context())
			var u *store.UnavailableError
			if err := store.Health(b); !errors.As(err, &u) || u.Since.Equal(began) != same {
				t.Errorf("ill again after %v: %v, want since the beginning: %v", pause, err, same)
			}
			if b.probed() < 20 {
				t.Errorf("%d probes in two minutes, want one in 5 s", b.probed())
			}
		})
	}
}

// A lease that is not granted asks for a probe: a service that writes nothing but leases would not know
// that the store takes no writes.
//
// promise S7
func TestHealthAsksTheStoreWhenALeaseIsNotGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRefusing(t)
		readOnly := errors.New("read-only")
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		b.writes.Committed(t.Context(), store.Txn{}, nil)
		b.writes.Committed(t.Context(), store.Txn{}, store.ErrLeaseGone)
		b.writes.Committed(cancelled, store.Txn{}, readOnly)
		if synctest.Wait(); b.probed() != 0 {
			t.Fatalf("%d probes, want none: nothing says that the store is ill", b.probed())
		}
		for range 58 {
			b.writes.Committed(t.Context(), store.Txn{}, readOnly)
			time.Sleep(time.Second)
		}
		if n := b.probed(); store.Health(b) != nil || n != 12 {
			t.Errorf("health %v after %d probes in 58 s, want 12: it takes commits, and grants no lease", store.Health(b), n)
		}
		b.set(readOnly, false)
		b.writes.Committed(t.Context(), store.Txn{}, readOnly)
		time.Sleep(6 * time.Second)
		if err := store.Health(b); !errors.Is(err, readOnly) {
			t.Errorf("health %v, want what the probe met", err)
		}
	})
}

// What a store that works refuses says nothing of it.
func TestHealthIsNotThatOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRefusing(t)
		for _, err := range []error{store.ErrConflict, store.ErrFenced, store.ErrUnguarded, store.ErrInvalid, store.ErrLeaseGone, store.ErrClosed} {
			b.set(err, false)
			b.write(t.Context())
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		b.set(errors.Join(store.ErrUnknownOutcome, context.Canceled), false)
		b.write(cancelled)
		time.Sleep(time.Minute)
		if err := store.Health(b); err != nil || b.probed() != 0 {
			t.Errorf("health %v after %d probes, want a healthy store", err, b.probed())
		}
	})
}

// Callers that wait for less long than the backend does see no error of the store's. A probe finds out
// whose fault that is.
func TestHealthAsksTheStoreWhenADeadlineEndsACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRefusing(t)
		b.set(nil, true)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b.write(short)
		b.set(nil, false)
		synctest.Wait()
		if err := store.Health(b); err != nil {
			t.Errorf("health %v after a deadline of the caller's", err)
		}
		locked := errors.New("locked")
		b.set(locked, false)
		b.write(short)
		synctest.Wait()
		time.Sleep(time.Millisecond)
		if err := store.Health(b); !errors.Is(err, locked) {
			t.Errorf("health %v, want what the probe met", err)
		}
	})
}

// Close leaves no probe behind.
func TestWriteHealthThatIsClosedProbesNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRefusing(t)
		b.set(errors.New("no space"), false)
		b.write(t.Context())
		b.writes.Close()
		time.Sleep(time.Minute)
		if b.probed() != 0 {
			t.Errorf("%d probes after Close", b.probed())
		}
	})
}
