package lease_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// breaking is a backend of which one kind of call can be made to fail, and the times of
// these calls.
type breaking struct {
	store.FullBackend
	call string

	mu     sync.Mutex
	broken chan struct{} // closed while the calls fail
	at     []time.Time
}

func (b *breaking) try(call string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if call == b.call {
		b.at = append(b.at, time.Now())
	}
	select {
	case <-b.broken:
		if call == b.call {
			return errBreaks
		}
	default:
	}
	return nil
}

var errBreaks = errors.New("broken")

func (b *breaking) untilBroken() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.broken
}

// set has the calls fail, or work, from now on, and forgets those of before.
func (b *breaking) set(fail bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at = nil; fail {
		close(b.broken)
	} else {
		b.broken = make(chan struct{})
	}
}

// since is how many calls there were lately.
func (b *breaking) since(d time.Duration) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, at := range b.at {
		if time.Since(at) <= d {
			n++
		}
	}
	return n
}

func (b *breaking) Grant(ctx context.Context, ttl time.Duration) (store.LeaseID, error) {
	if err := b.try("Grant"); err != nil {
		return 0, err
	}
	return b.FullBackend.Grant(ctx, ttl)
}

func (b *breaking) Renew(ctx context.Context, id store.LeaseID) error {
	select {
	case <-b.untilBroken():
		if b.call == "Grant" {
			return store.ErrLeaseGone // so that there is another session
		}
	default:
	}
	return b.FullBackend.Renew(ctx, id)
}

func (b *breaking) Get(ctx context.Context, kind string, key store.Key) (store.Record, error) {
	if err := b.try("Get"); err != nil {
		return store.Record{}, err
	}
	return b.FullBackend.Get(ctx, kind, key)
}

func (b *breaking) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		if err := b.try("Watch"); err != nil {
			yield(store.Batch{}, err)
			return
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if b.call == "Watch" {
			broken, over := b.untilBroken(), make(chan struct{})
			defer close(over)
			go func() {
				select {
				case <-broken:
					cancel(errBreaks)
				case <-over:
				}
			}()
		}
		for batch, err := range b.FullBackend.Watch(ctx, kind, after) {
			if !yield(batch, err) {
				return
			}
		}
	}
}

// What fails on and on is tried soon, and then at the pace that is documented, for ever; and
// soon once more after it worked.
//
// Negative controls: the mutants "sessions that fail are begun again a minute later", "a term
// that the store did not take is not tried again" and "work that had lived well waits as long as
// before when it fails again".
func TestWhatFailsIsTriedSoonAndThenAtAPace(t *testing.T) {
	waiting := func(ctx context.Context, _ int) error { <-ctx.Done(); return nil }
	for name, c := range map[string]struct {
		call string
		soon int           // tries in two seconds
		pace time.Duration // at last
		work func(b *breaking) lease.Work
	}{
		"sessions":            {"Grant", 2, ttl / 3, nil},
		"the term of a host":  {"Get", 2, time.Minute, nil},
		"the watch of leases": {"Watch", 2, 5 * time.Second, nil},
		"work": {"work", 3, time.Minute, func(b *breaking) lease.Work {
			return func(ctx context.Context, _ int) error {
				broken := b.untilBroken()
				if err := b.try("work"); err != nil {
					return err
				}
				select {
				case <-broken:
					return errBreaks
				case <-ctx.Done():
					return nil
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := newBackend(t)
				defer inner.Close()
				b := &breaking{FullBackend: inner, call: c.call, broken: make(chan struct{})}
				close(b.broken)
				work := waiting
				if c.work != nil {
					work = c.work(b)
				}
				host, err := lease.NewManual(b, "host")
				if err != nil {
					t.Fatal(err)
				}
				lease.LogTo(host, quiet)
				host.Set(true, 1)
				p := lease.Placement(host)
				if c.call != "Get" {
					if p, err = lease.NewSingleton(b, "job", &lease.Options{TTL: ttl, Server: "s", Logger: quiet}); err != nil {
						t.Fatal(err)
					}
				}
				s := startPlacement(t, nil, "s", p, nil, work)
				for term := uint64(2); term < 4; term++ {
					for b.since(time.Hour) == 0 {
						time.Sleep(time.Millisecond)
					}
					time.Sleep(2 * time.Second)
					if n := b.since(2100 * time.Millisecond); n < c.soon || n > c.soon+1 {
						t.Errorf("%d tries in the first 2 s, want %d or one more", n, c.soon)
					}
					time.Sleep(time.Hour)
					if n, about := b.since(30*time.Minute), int(30*time.Minute/c.pace); n < about*3/4 || n > about*3/2 {
						t.Errorf("%d tries in the second half of an hour, want about %d", n, about)
					}
					b.set(false)
					time.Sleep(10 * time.Minute)
					if _, held := p.Lease(0).Held(); !held {
						t.Error("the lease is not held although nothing fails any more")
					}
					b.set(true)
					host.Set(true, term)
				}
				b.set(false)
				s.end()
			})
		})
	}
}

// Run returns after the last of several works has, whatever the store does: those of a session
// that was lost too.
//
// Negative control: the mutant "Run waits for the first of the works that wind up".
func TestRunReturnsAfterTheLastOfSeveralWorks(t *testing.T) {
	for name, lost := range map[string]bool{"in good order": false, "after the lease was lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBackend(t)
				defer b.Close()
				l := newLedger(t)
				link := &link{FullBackend: b}
				const shards = 4
				s := startSharded(t, link, ttl, "s", shards, func(ctx context.Context, shard int) error {
					return l.work("s", time.Duration(shard+1)*2*ttl)(ctx, shard)
				})
				time.Sleep(ttl)
				if n := l.owners()["s"]; n != shards {
					t.Fatalf("works on %d shards, want %d", n, shards)
				}
				if lost {
					link.sever()
					time.Sleep(ttl)
				}
				s.end()
				if n := l.owners()["s"]; n != 0 {
					t.Errorf("Run has returned, and %d works go on", n)
				}
				if lost {
					link.heal()
				}
			})
		})
	}
}

// Of several shards that are handed over although their work ignores its end, each is not to be
// trusted from then on, and no other.
//
// promise L1. Negative control: the mutant "of two shards released together one is not to be
// trusted any more".
func TestEachOfSeveralShardsOfDeafWorkIsGoneWhenItIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		defer b.Close()
		const shards = 6
		var mu sync.Mutex
		gone := map[int]bool{}
		first := start(t, b, "first", shards, func(ctx context.Context, shard int) error {
			<-lease.Gone(ctx) // deaf to its end
			mu.Lock()
			defer mu.Unlock()
			gone[shard] = true
			return nil
		})
		time.Sleep(2 * ttl)
		l := newLedger(t)
		second := start(t, b, "second", shards, l.work("second", 0))
		time.Sleep(6 * ttl)
		mu.Lock()
		if n := l.owners()["second"]; n != shards/2 || len(gone) != n {
			t.Errorf("%d shards were handed over, want %d, and %d are gone", n, shards/2, len(gone))
		}
		mu.Unlock()
		second.end()
		first.end()
	})
}

// What Said gives is the caller's to keep, and to write to.
//
// Negative control: the mutant "what Said gives is the members' own map".
func TestSaidBelongsToTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		defer b.Close()
		m, err := lease.NewMembers(b, "fleet", &lease.Options{TTL: ttl, Server: "s", Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		m.Say("hello")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		time.Sleep(ttl)
		clear(m.Said())
		if said := m.Said(); said["s"] != "hello" {
			t.Errorf("said is %v after a caller has cleared what it got", said)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
