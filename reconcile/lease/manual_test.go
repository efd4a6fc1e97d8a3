package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// asked is a context that tells when its Err or Done is called.
type asked struct {
	context.Context
	hook func()
}

func (c asked) Err() error {
	c.hook()
	return c.Context.Err()
}

// A host that loses its election and wins it again under the same term, while Run
// is just taking note of the loss, gets a new hold, and a Run that ends.
//
// Negative control: with the work distrusted only if the setting is still another
// one, nothing ends it, and Run heard neither of settings nor of its context.
// Mutant "a hold that the host has ended is trusted on".
func TestHostSetBackWhileItsLossIsNotedHoldsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		m, err := lease.NewManual(nil, "host")
		if err != nil {
			t.Fatal(err)
		}
		armed := false // touched by Run's goroutine while we wait, and by us while it waits
		ctx, cancel := context.WithCancel(t.Context())
		hooked := asked{ctx, func() {
			if _, held := m.Lease(0).Held(); armed && !held {
				armed = false
				m.Set(true, 1)
			}
		}}
		done := make(chan error, 1)
		var trusted []bool // whether each hold was when its work was told to end
		work := l.work("s", 0)
		go func() {
			done <- m.Run(hooked, func(ctx context.Context, shard int) error {
				err := work(ctx, shard)
				select {
				case <-lease.Gone(ctx):
					trusted = append(trusted, false)
				default:
					trusted = append(trusted, true)
				}
				return err
			})
		}()
		m.Set(true, 1)
		synctest.Wait()
		armed = true
		m.Set(false, 1)
		synctest.Wait()
		if armed {
			t.Error("the loss was not seen")
		}
		if _, held := m.Lease(0).Held(); !held {
			t.Error("the lease is set and not held")
		}
		if n := l.begun(); n != 2 {
			t.Errorf("work was begun %d times, want once for each hold", n)
		}
		if len(trusted) != 1 || trusted[0] {
			t.Errorf("holds that are over, and are trusted: %v, want one that is not", trusted)
		}
		cancel()
		time.Sleep(time.Minute)
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("Run goes on after its context ended")
			m.Set(false, 1)
			<-done
		}
	})
}

// Negative control: with failures counted over all settings, the second refusal is
// not logged.
func TestEachRefusedTermIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		defer b.Close()
		var log strings.Builder
		first, err := lease.NewManual(b, "host")
		if err != nil {
			t.Fatal(err)
		}
		late, err := lease.NewManual(b, "host")
		if err != nil {
			t.Fatal(err)
		}
		lease.LogTo(first, quiet)
		lease.LogTo(late, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		for _, m := range []*lease.Manual{first, late} {
			go func() { done <- m.Run(ctx, newLedger(t).work("s", 0)) }()
		}
		first.Set(true, 7)
		synctest.Wait()
		for _, term := range []uint64{5, 6} {
			late.Set(true, term)
			time.Sleep(time.Hour)
		}
		cancel()
		if err := errors.Join(<-done, <-done); err != nil {
			t.Error(err)
		}
		for _, term := range []string{"term=5", "term=6"} {
			if n := strings.Count(log.String(), term); n != 1 {
				t.Errorf("%d lines with %s, want 1:\n%s", n, term, log.String())
			}
		}
	})
}

// Health is that of what the host says now: of a term that was refused it says nothing any more when the host
// says another one, that it does not hold, or nothing because Run has ended.
func TestHealthOfARefusedTermEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		defer b.Close()
		m, err := lease.NewManual(b, "host")
		if err != nil {
			t.Fatal(err)
		}
		lease.LogTo(m, quiet)
		s := startPlacement(t, nil, "s", m, nil, newLedger(t).work("s", 0))
		set := func(held bool, term uint64, want error) {
			t.Helper()
			m.Set(held, term)
			synctest.Wait()
			for what, err := range map[string]error{"Health": m.Health(), "Ready": m.Ready()} {
				if !errors.Is(err, want) {
					t.Errorf("%s is %v at term %d (held %v), want %v", what, err, term, held, want)
				}
			}
		}
		set(true, 4, nil)
		for range 2 {
			set(true, 2, lease.ErrStaleTerm)
			set(false, 0, nil)
		}
		set(true, 3, lease.ErrStaleTerm)
		set(true, 5, nil)
		set(true, 4, lease.ErrStaleTerm)
		s.end()
		if err := m.Health(); err != nil {
			t.Errorf("after its end Health is %v", err)
		}
	})
}

// A host that was restarted in the middle of its term holds again under the same term,
// and fences what its process before the restart still writes.
//
// promise L1. Negative control: with a term refused that is not above the stored one,
// the lease was never held again.
func TestHostRestartedWithinItsTermHoldsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		defer b.Close()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		var guards []store.Compare
		for range 2 { // the process before the restart is only frozen, and works on
			m, err := lease.NewManual(b, "host")
			if err != nil {
				t.Fatal(err)
			}
			lease.LogTo(m, quiet)
			m.Set(true, 7)
			go func() { done <- m.Run(ctx, newLedger(t).work("s", 0)) }() // ends at cancel
			time.Sleep(time.Minute)
			guard, held := m.Lease(0).Held()
			if !held {
				t.Fatal("term 7 is not held")
			}
			guards = append(guards, guard)
		}
		for i, want := range []error{store.ErrFenced, nil} {
			_, err := b.Commit(store.WithGuard(ctx, guards[i]), store.Txn{Ops: []store.Op{{Kind: "k", Key: store.Key{Name: "x"}, Put: store.Bytes("x")}}})
			if !errors.Is(err, want) {
				t.Errorf("a write of process %d: %v, want %v", i+1, err, want)
			}
		}
		cancel()
		if err := errors.Join(<-done, <-done); err != nil {
			t.Error(err)
		}
	})
}

// Names are chosen by people: "buckets" for the placement of a controller, and
// "buckets" for the servers that share the quota of its API.
//
// Negative control: with one prefix for both kinds of members, rendezvous hashing
// gives half of the shards to sessions that hold none, and they never run.
func TestMembersOfTheSameNameAsAPlacementTakeNoShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		s := start(t, b, "s", 64, l.work("s", 0))
		m, err := lease.NewMembers(b, "job", &lease.Options{Server: "other", Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		time.Sleep(time.Minute)
		if n := l.owners()["s"]; n != 64 {
			t.Errorf("%d of 64 shards are worked on", n)
		}
		if n := m.Live(); n != 1 {
			t.Errorf("%d live, want 1: a server that holds shards is not among them", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.end()
	})
}

// overtaken writes a newer term between the read and the write of a claim.
type overtaken struct {
	store.Backend
	once sync.Once
}

func (o *overtaken) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	o.once.Do(func() {
		_, err := o.Backend.Commit(ctx, store.Txn{Ops: []store.Op{{
			Kind: lease.Kind, Key: store.Key{Namespace: "host", Name: "term"}, Put: store.Bytes(`{"term":"9"}`),
		}}})
		if err != nil {
			panic(err)
		}
	})
	return o.Backend.Commit(ctx, t)
}

// A newer term that is written while an older one is claimed stands, and the older one is
// not held.
//
// promise L1
func TestOlderTermDoesNotOverwriteANewerOneOfTheSameMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		defer b.Close()
		m, err := lease.NewManual(&overtaken{Backend: b}, "host")
		if err != nil {
			t.Fatal(err)
		}
		lease.LogTo(m, quiet)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- m.Run(ctx, func(context.Context, int) error { t.Error("the work of an older term was called"); return nil })
		}()
		m.Set(true, 3)
		time.Sleep(time.Minute)
		if _, held := m.Lease(0).Held(); held {
			t.Error("the older term is held")
		}
		r, err := b.Get(ctx, lease.Kind, store.Key{Namespace: "host", Name: "term"})
		if err != nil || string(r.Bytes) != `{"term":"9"}` {
			t.Errorf("the term's record is %s, %v; want the newer one", r.Bytes, err)
		}
		cancel()
		<-done
	})
}

// A term that cannot be read may be higher than any: the host does not hold, and the record stays
// as it is.
//
// Negative control: the mutant "a term that cannot be read is none".
func TestTermThatCannotBeReadIsNotOverwritten(t *testing.T) {
	for _, text := range []string{"", "{", `{"term":"-1"}`, `{"term":"99999999999999999999"}`, `{"term":5}`, "5"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBackend(t)
			defer b.Close()
			key := store.Key{Namespace: "job", Name: "term"}
			if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: lease.Kind, Key: key, Put: store.Bytes(text)}}}); err != nil {
				t.Fatal(err)
			}
			m, err := lease.NewManual(b, "job")
			if err != nil {
				t.Fatal(err)
			}
			lease.LogTo(m, quiet)
			s := startPlacement(t, nil, "s", m, nil, func(ctx context.Context, _ int) error {
				t.Errorf("%q: it works", text)
				<-ctx.Done()
				return nil
			})
			m.Set(true, 7)
			time.Sleep(time.Minute)
			if _, held := m.Lease(0).Held(); held {
				t.Errorf("%q: it holds", text)
			}
			s.end()
			r, err := b.Get(t.Context(), lease.Kind, key)
			if err != nil {
				t.Fatal(err)
			}
			if data, err := r.Encode(); err != nil || string(data) != text {
				t.Errorf("%q has become %q, error %v", text, data, err)
			}
		})
	}
}
