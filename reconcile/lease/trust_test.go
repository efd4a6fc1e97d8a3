package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// Work that winds up after its server was told to stop may finish what it began
// while the lease lasts, and learns in time when it does not.
//
// promise L1. Negative control: with Gone tied to the work's own end (h.ctx
// instead of its parent in withHold) the work is disturbed at once; with nothing
// closing Gone before the session's last write, the ledger catches two at work.
func TestWorkThatWindsUpLearnsWhenItsLeaseIsGone(t *testing.T) {
	for name, cut := range map[string]bool{"the store is there": false, "the store is cut off": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, l := newBackend(t), newLedger(t)
				defer b.Close()
				var undisturbed time.Duration
				old := start(t, b, "old", 1, func(ctx context.Context, shard int) error {
					l.enter("old", shard)
					defer l.leave("old", shard)
					<-ctx.Done()
					began := time.Now()
					<-lease.Gone(ctx) // it would take for ever
					undisturbed = time.Since(began)
					return nil
				})
				synctest.Wait()
				next := start(t, b, "next", 1, l.work("next", 0))
				time.Sleep(ttl)
				if cut {
					old.link.sever()
				}
				old.stop(errors.New("told to stop"))
				for l.owners()["next"] == 0 {
					time.Sleep(50 * time.Millisecond)
				}
				// It is renewed for a TTL more if it can be, and is good for two
				// thirds of one at least after the last renewal, less the margin.
				least := ttl*2/3 - ttl/10 - 2*time.Second
				if !cut {
					least += ttl
				}
				if undisturbed < least {
					t.Errorf("the work was disturbed after %v, want at least %v", undisturbed, least)
				}
				if cut {
					old.link.heal()
				}
				old.end()
				next.end()
			})
		})
	}
}

// Work of a shard that is handed over winds up while its record is there. Once that was
// removed by another program the shard may be another server's, and Gone says so.
//
// promise L1. Negative control: with the trust taken only from a hold that is not leaving
// yet, Gone stayed open.
func TestWorkThatWindsUpLearnsThatItsRecordWasRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 8
		b := newBackend(t)
		defer b.Close()
		var mu sync.Mutex
		winding := map[int]<-chan struct{}{} // by shard: Gone of work that winds up
		s := start(t, b, "first", shards, func(ctx context.Context, shard int) error {
			<-ctx.Done()
			mu.Lock()
			winding[shard] = lease.Gone(ctx)
			mu.Unlock()
			time.Sleep(ttl / 2)
			return nil
		})
		time.Sleep(ttl)
		guards := map[int]store.Compare{}
		for shard := range shards {
			guards[shard], _ = s.p.Lease(shard).Held()
		}
		other := start(t, b, "second", shards, newLedger(t).work("second", 0))
		synctest.Wait()
		mu.Lock()
		if len(winding) == 0 || len(winding) == shards {
			t.Fatalf("%d of %d shards are handed over, want some", len(winding), shards)
		}
		for shard, gone := range winding {
			select {
			case <-gone:
				t.Fatalf("shard %d is gone before its work has wound up", shard)
			default:
			}
			if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: lease.Kind, Key: guards[shard].Key}}}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for shard, gone := range winding {
			select {
			case <-gone:
			default:
				t.Errorf("shard %d was removed, and its work is not told", shard)
			}
		}
		mu.Unlock()
		other.end()
		s.end()
	})
}

// A host may take its lease back while the work under it winds up.
func TestHostThatTakesItsLeaseBackEndsTheWindingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := lease.NewManual(nil, "host")
		if err != nil {
			t.Fatal(err)
		}
		m.Set(true, 1)
		ctx, cancel := context.WithCancel(t.Context())
		gone, done := false, make(chan error)
		go func() {
			done <- m.Run(ctx, func(ctx context.Context, _ int) error {
				if g := store.Guards(ctx); len(g) != 0 {
					t.Errorf("without a backend the guards are %v, want none", g)
				}
				<-ctx.Done()
				<-lease.Gone(ctx)
				gone = true
				return nil
			})
		}()
		synctest.Wait()
		cancel()
		time.Sleep(time.Hour)
		synctest.Wait()
		if gone {
			t.Error("the lease was gone while the host still gave it")
		}
		m.Set(false, 0)
		if err := <-done; err != nil || !gone {
			t.Errorf("Run: %v, gone %v", err, gone)
		}
	})
}

func TestNothingIsEverGoneWithoutALease(t *testing.T) {
	if lease.Gone(t.Context()) != nil {
		t.Error("a context without a hold has something to lose")
	}
}

// A thousand shards are taken, and freed, in few round trips: a server that
// comes, goes or dies must not cost a round trip for each shard it had.
func TestManyShardsAreTakenAndFreedInFewRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards, trip = 512, 100 * time.Millisecond
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		first := startOn(t, &link{FullBackend: b, delay: trip}, ttl, "first", shards, l.work("first", 0))
		time.Sleep(20 * trip)
		if n := l.owners()["first"]; n != shards {
			t.Fatalf("%d of %d shards are taken after 20 round trips", n, shards)
		}
		other := startOn(t, &link{FullBackend: b, delay: trip}, ttl, "other", shards, l.work("other", 0))
		time.Sleep(40 * trip)
		if n := l.owners()["other"]; n < shards/3 || l.owners()["first"]+n != shards {
			t.Fatalf("shards %v 40 round trips after a join, want about half each", l.owners())
		}
		began := time.Now()
		first.end()
		if took := time.Since(began); took > 20*trip {
			t.Errorf("a server with %d shards took %v to stop, want at most 20 round trips", shards/2, took)
		}
		time.Sleep(20 * trip)
		if n := l.owners()["other"]; n != shards {
			t.Errorf("%d of %d shards are taken 20 round trips after a stop", n, shards)
		}
		other.end()
	})
}

// A server whose clock runs slow believes in its lease for longer than the store
// does. Everything it measures is stretched by the same factor: its TTL, its
// margin, its renewals. So in real time it is a server with longer options, on a
// store that grants the TTL it asked for in its own seconds.
//
// promise L1: up to the rate that the margin allows for, a tenth by default, no
// two servers are at work at once.
func TestSlowClockWithinTheMarginNeverGivesTwoHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		const percent = 91
		slow := startOn(t, &link{FullBackend: b, grants: ttl}, ttl*100/percent, "slow", 1, l.work("slow", 0))
		synctest.Wait()
		alternate(t, l, slow, start(t, b, "exact", 1, l.work("exact", 0)))
	})
}

// A clock slower than that gives two holders for a while, and shows that the
// ledger would notice. What is left then is the fence: the slow server's store
// writes are refused from the moment its lease has run out at the store.
func TestSlowClockBeyondTheMarginIsStillFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, faults := newBackend(t), new(complaints)
		defer b.Close()
		l := newLedger(faults)
		const percent = 50
		old := make(chan context.Context, 1)
		slow := startOn(t, &link{FullBackend: b, grants: ttl}, ttl*100/percent, "slow", 1, func(ctx context.Context, shard int) error {
			old <- ctx
			return l.work("slow", 0)(ctx, shard)
		})
		ctx := <-old
		time.Sleep(3 * time.Second) // it has not renewed yet
		slow.link.sever()
		other := start(t, b, "other", 1, func(octx context.Context, shard int) error {
			if ctx.Err() != nil {
				t.Error("the slow server's work has ended: this test shows nothing")
			}
			put := store.Txn{Ops: []store.Op{{Kind: "thing", Key: store.Key{Name: "x"}, Put: store.Bytes("1")}}}
			if _, err := b.Commit(ctx, put); !errors.Is(err, store.ErrFenced) {
				t.Errorf("write of the slow server: %v, want ErrFenced", err)
			}
			return l.work("other", 0)(octx, shard)
		})
		time.Sleep(3 * ttl)
		if len(faults.get()) != 1 {
			t.Errorf("the ledger noticed %q, want the one overlap", faults.get())
		}
		slow.link.heal()
		slow.end()
		other.end()
	})
}

// A clock that runs fast costs its server the lease earlier than needed, and
// nothing else: it renews more often too.
func TestFastClockKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		fast := startOn(t, &link{FullBackend: b, grants: ttl}, ttl/3, "fast", 1, l.work("fast", 0))
		synctest.Wait()
		other := start(t, b, "other", 1, l.work("other", 0))
		time.Sleep(time.Hour)
		if n := l.begun(); n != 1 || l.owners()["fast"] != 1 {
			t.Errorf("%d changes of holder in an hour, owners %v; want the first to keep it", n, l.owners())
		}
		fast.end()
		other.end()
	})
}

// Trust that ends with a channel like that of etcd's concurrency.Session is
// caught by the test that ours passes: the channel is closed when a TTL has gone
// by since the last answer arrived, and a store counts from when it was asked.
//
// This is the negative control of TestHolderStopsBeforeItsLeaseCanBeTaken.
func TestSessionDoneAsTrustGivesTwoHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, faults := newBackend(t), new(complaints)
		defer b.Close()
		l := newLedger(faults)
		first := startDone(t, b, "first", l.work("first", 0))
		synctest.Wait()
		alternate(t, l, first, startDone(t, b, "other", l.work("other", 0)))
		if len(faults.get()) == 0 {
			t.Error("two holders at once were never seen: the test of our own trust shows nothing")
		}
	})
}

// startDone is start with an election as programs write it on such a session.
func startDone(t *testing.T, b store.FullBackend, name string, work lease.Work) *server {
	s := &server{name: name, link: &link{FullBackend: b}, done: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(t.Context())
	s.stop = cancel
	go func() {
		defer close(s.done)
		for ctx.Err() == nil {
			electDone(ctx, s.link, work)
		}
	}()
	return s
}

func electDone(ctx context.Context, b *link, work lease.Work) {
	ctx, end := context.WithCancel(ctx) // its Done is the session's
	defer end()
	id, err := b.Grant(ctx, ttl)
	if err != nil {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	wg.Go(func() { keepAliveDone(ctx, b, id, end) })
	shard := store.Key{Namespace: "job", Name: "leader"}
	for ctx.Err() == nil {
		if _, err := b.Commit(ctx, store.Txn{
			If:  []store.Compare{{Kind: lease.Kind, Key: shard}},
			Ops: []store.Op{{Kind: lease.Kind, Key: shard, Put: store.Bytes("me"), Lease: id}},
		}); err == nil {
			_ = work(ctx, 0)
			_ = b.Revoke(context.WithoutCancel(ctx), id)
			return
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// keepAliveDone renews as etcd's client does, and ends the session when the
// deadline it counts for itself has passed; it looks every half second.
func keepAliveDone(ctx context.Context, b *link, id store.LeaseID, end func()) {
	var mu sync.Mutex
	deadline := time.Now().Add(ttl)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for ctx.Err() == nil {
			pause(ctx, ttl/3)
			if b.Renew(ctx, id) == nil {
				mu.Lock()
				deadline = time.Now().Add(ttl)
				mu.Unlock()
			}
		}
	})
	for ctx.Err() == nil {
		pause(ctx, 500*time.Millisecond)
		mu.Lock()
		over := time.Now().After(deadline)
		mu.Unlock()
		if over {
			end()
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// complaints takes what a ledger complains of.
type complaints struct {
	mu   sync.Mutex
	list []string
}

func (c *complaints) Errorf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, fmt.Sprintf(format, args...))
}

func (c *complaints) get() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list
}

// alternate cuts off the holder of the lease, at any phase of its renewals, until the
// other server has it.
func alternate(t *testing.T, l *ledger, a, z *server) {
	t.Helper()
	for round := range 20 {
		time.Sleep(time.Duration(round) * 317 * time.Millisecond)
		holder := a
		if l.owners()[z.name] == 1 {
			holder = z
		}
		holder.link.sever()
		began := time.Now()
		for l.owners()[holder.name] == 1 || len(l.owners()) == 0 {
			time.Sleep(50 * time.Millisecond)
			if time.Since(began) > 2*ttl {
				t.Fatalf("round %d: no other owner after %v", round, time.Since(began))
			}
		}
		holder.link.heal()
		time.Sleep(ttl)
	}
	a.end()
	z.end()
}

// heavy is a store that still renews leases, from memory, and writes nothing any more:
// its disk hangs.
type heavy struct {
	*link
	hangs atomic.Bool
}

func (h *heavy) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return 0, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
	}
	return h.link.Commit(ctx, t)
}

// However many shards are being handed over, a server that is told to stop does not wait
// for the time of each of their writes.
//
// Negative control: with a time for each, 64 at once, it took 30 s, and grew with the
// number of shards.
func TestServerStopsInTimeWhileAHandOverHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 1024
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		h := &heavy{link: &link{FullBackend: b}}
		p, err := lease.NewSharded(h, "job", shards, &lease.Options{TTL: ttl, Server: "first", Logger: quiet})
		first := startPlacement(t, h.link, "first", p, err, l.work("first", 0))
		time.Sleep(ttl)
		h.hangs.Store(true)
		other := start(t, b, "other", shards, l.work("other", 0)) // half of them are to go there
		time.Sleep(ttl)
		began := time.Now()
		first.end()
		if took := time.Since(began); took > ttl {
			t.Errorf("it took %v to stop", took)
		}
		time.Sleep(2 * ttl)
		if n := l.owners()["other"]; n != shards {
			t.Errorf("%d of %d shards are worked on by the other", n, shards)
		}
		other.end()
	})
}
