package lease_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// fault is what one call meets.
type fault int

const (
	slow   fault = iota // it reaches the store late
	late                // its answer comes late
	failed              // it does not reach the store
	lost                // it reaches the store, and its answer does not come back
)

func (f fault) String() string { return [...]string{"slow", "late", "failed", "answer lost"}[f] }

// limp is a link one call of which meets a fault.
type limp struct {
	*link
	call  string
	nth   int32 // counted from 1
	fault fault
	by    time.Duration
	calls atomic.Int32 // of that name, so far
}

var errFault = errors.New("connection lost")

// meet carries out one call.
func (l *limp) meet(ctx context.Context, call string, do func() error) error {
	if call != l.call || l.calls.Add(1) != l.nth {
		return do()
	}
	unknown := fmt.Errorf("%w: %w", store.ErrUnknownOutcome, errFault)
	switch l.fault {
	case slow:
		pause(ctx, l.by)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return do()
	case late:
		err := do()
		pause(ctx, l.by)
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
		}
		return err
	case lost:
		_ = do()
	}
	return unknown
}

func (l *limp) Grant(ctx context.Context, ttl time.Duration) (id store.LeaseID, err error) {
	err = l.meet(ctx, "grant", func() (err error) { id, err = l.link.Grant(ctx, ttl); return err })
	return id, err
}

func (l *limp) Renew(ctx context.Context, id store.LeaseID) error {
	return l.meet(ctx, "renew", func() error { return l.link.Renew(ctx, id) })
}

func (l *limp) Revoke(ctx context.Context, id store.LeaseID) error {
	return l.meet(ctx, "revoke", func() error { return l.link.Revoke(ctx, id) })
}

func (l *limp) Commit(ctx context.Context, t store.Txn) (rev store.Revision, err error) {
	call := "claim"
	switch name := t.Ops[0].Key.Name; {
	case t.Ops[0].Put == nil:
		call = "remove"
	case strings.HasPrefix(name, "member-") || strings.HasPrefix(name, "peer-"):
		call = "announce"
	}
	err = l.meet(ctx, call, func() (err error) { rev, err = l.link.Commit(ctx, t); return err })
	return rev, err
}

func (l *limp) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		for b, err := range l.link.Watch(ctx, kind, after) {
			if err == nil {
				err = l.meet(ctx, "watch", func() error { return nil })
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

func (l *limp) startSharded(t *testing.T, name string, shards int, work lease.Work) *server {
	t.Helper()
	p, err := lease.NewSharded(l, "job", shards, &lease.Options{TTL: ttl, Server: name, Logger: quiet})
	return startPlacement(t, l.link, name, p, err, work)
}

// checkTrust fails if a server trusts a hold whose record is not in the store, or if
// two trust one shard. It says so once. The servers act at the same instant, so what was true
// before the other was looked at counts if it is still true after it.
func checkTrust(t *testing.T, b store.Backend, shards int, servers ...*server) {
	t.Helper()
	for shard := range shards {
		var holder *server
		var held store.Compare
		trusts := func(s *server) (store.Compare, bool) { return s.p.Lease(shard).Held() }
		for _, s := range servers {
			guard, ok := trusts(s)
			if !ok {
				continue
			}
			still := func(s *server, guard store.Compare) bool {
				now, ok := trusts(s)
				return ok && now == guard
			}
			if holder != nil && still(holder, held) {
				t.Fatalf("%s and %s trust shard %d", holder.name, s.name, shard)
			}
			holder, held = s, guard
			rec, err := b.Get(t.Context(), guard.Kind, guard.Key)
			if (err != nil || rec.Created != guard.Created) && still(s, guard) {
				t.Fatalf("%s trusts shard %d, guarded by %v; in the store is %v, error %v", s.name, shard, guard, rec.Created, err)
			}
		}
	}
}

// Each call that a session makes is slow, answered late, or fails once, with and
// without having reached the store, while a server joins, is cut off and leaves: none
// trusts a hold whose record is gone, no two work on a shard, and each shard has an
// owner again within the bound.
//
// promises L1, L2.
func TestEveryCallMayFailOnce(t *testing.T) {
	for _, call := range []string{"grant", "announce", "claim", "renew", "remove", "revoke", "watch"} {
		for f := slow; f <= lost; f++ {
			for nth := int32(1); nth <= 3; nth++ {
				for _, victim := range []string{"first", "second"} {
					t.Run(fmt.Sprintf("%s %d of the %s is %v", call, nth, victim, f), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { failOnce(t, call, nth, f, victim) })
					})
				}
			}
		}
	}
}

func failOnce(t *testing.T, call string, nth int32, f fault, victim string) {
	const shards, step = 4, 100 * time.Millisecond
	b, l := newBackend(t), newLedger(t)
	defer b.Close()
	on := func(name string) *limp {
		m := &limp{link: &link{FullBackend: b}, fault: f, by: 3 * time.Second}
		if name == victim {
			m.call, m.nth = call, nth
		}
		return m
	}
	servers := []*server{on("first").startSharded(t, "first", shards, l.work("first", 0))}
	forward := func(d time.Duration) {
		for range d / step {
			time.Sleep(step)
			checkTrust(t, b, shards, servers...)
		}
	}
	owned := func(when string) {
		for range 2 * ttl / step { // a fault late in a phase may have cost a session
			n := 0
			for _, k := range l.owners() {
				n += k
			}
			if n == shards {
				return
			}
			forward(step)
		}
		t.Errorf("%s: of %d shards these have an owner: %v", when, shards, l.owners())
	}
	forward(ttl + ttl/2)
	owned("after the start")
	servers = append(servers, on("second").startSharded(t, "second", shards, l.work("second", 0)))
	forward(2 * ttl)
	owned("after a second has joined")
	servers[1].end()
	servers = servers[:1]
	forward(2 * ttl)
	owned("after the second has left, with the first in the session that gave shards away")
	servers = append(servers, on("second").startSharded(t, "second", shards, l.work("second", 0)))
	forward(2 * ttl)
	owned("after the second has joined again")
	servers[0].link.sever()
	forward(3 * ttl)
	owned("while the first is cut off")
	servers[0].link.heal()
	forward(3 * ttl)
	owned("after the first is back")
	servers[1].end()
	forward(2 * ttl)
	owned("after the second has left")
	servers[0].end()
}

// The answer to a grant or a renewal comes late, and then nothing comes any more: the trust counts from
// when it was asked for.
//
// promise L1.
func TestTrustNeverOutlivesTheRecord(t *testing.T) {
	for call, waits := range map[string]time.Duration{"grant": ttl / 2, "renew": ttl / 3} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const shards = 2
				b, l := newBackend(t), newLedger(t)
				defer b.Close()
				m := &limp{link: &link{FullBackend: b}, call: call, nth: 1, fault: late, by: waits - time.Second}
				s := m.startSharded(t, "late", shards, l.work("late", 0))
				for m.calls.Load() == 0 {
					time.Sleep(time.Second)
				}
				time.Sleep(waits)
				if _, held := s.p.Lease(0).Held(); !held {
					t.Fatal("nothing is held after the late answer: nothing is tested")
				}
				m.link.sever()
				for range 200 {
					time.Sleep(100 * time.Millisecond)
					checkTrust(t, b, shards, s)
				}
				m.link.heal()
				s.end()
			})
		})
	}
}

// While the news of its own joining is on its way, a server cannot say how many there
// are: it would count the others alone, and take too large a share.
func TestLiveIsZeroUntilTheMemberIsAmongThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		defer b.Close()
		ctx, cancel := context.WithCancel(t.Context())
		join := func(name string, l *link) (*lease.Members, chan error) {
			m, err := lease.NewMembers(l, "quotas", &lease.Options{Server: name, Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- m.Run(ctx) }()
			return m, done
		}
		_, one := join("one", &link{FullBackend: b})
		time.Sleep(time.Second)
		m, two := join("two", &link{FullBackend: b, delay: time.Second / 2, lag: time.Second})
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			if n := m.Live(); n != 0 && n != 2 {
				t.Fatalf("%d live as seen by the second of two, want none before it has heard of itself", n)
			}
		}
		if n := m.Live(); n != 2 {
			t.Errorf("%d live in the end, want 2", n)
		}
		// Its record is deleted by hand: it is not among the members again.
		page, err := b.List(t.Context(), lease.Kind, store.ListOptions{Namespace: "quotas"})
		if err != nil || len(page.Records) != 2 {
			t.Fatalf("%d records of members, error %v, want 2", len(page.Records), err)
		}
		slices.SortFunc(page.Records, func(a, b store.Record) int { return cmp.Compare(a.Created, b.Created) })
		if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: lease.Kind, Key: page.Records[1].Key}}}); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			if n := m.Live(); n != 0 && n != 2 {
				t.Fatalf("%d live as seen by one whose record is gone, want none before it has joined again", n)
			}
		}
		cancel()
		for _, done := range []chan error{one, two} {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// forgetful is a link whose store drops a batch of news, and the watch with it, as a
// compaction does.
type forgetful struct {
	*link
	drop atomic.Bool // the next batch
}

func (f *forgetful) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		for b, err := range f.link.Watch(ctx, kind, after) {
			if err == nil && f.drop.CompareAndSwap(true, false) {
				yield(store.Batch{}, store.ErrCompacted)
				return
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

// The news that a member has left is lost with the watch: the snapshot of the next one
// shows it, and its shards are taken over.
//
// promise L2. Negative control: with the version of the members counted for changes only,
// the shards stayed without an owner.
func TestMemberThatLeftDuringAGapOfTheWatchIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 8
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		on := &forgetful{link: &link{FullBackend: b}}
		p, err := lease.NewSharded(on, "job", shards, &lease.Options{TTL: ttl, Server: "first", Logger: quiet})
		first := startPlacement(t, on.link, "first", p, err, l.work("first", 0))
		second := start(t, b, "second", shards, l.work("second", 0))
		time.Sleep(ttl)
		if n := l.owners()["second"]; n == 0 || n == shards {
			t.Fatalf("the second has %d of %d shards, want a share", n, shards)
		}
		on.drop.Store(true)
		second.end()
		time.Sleep(ttl)
		if on.drop.Load() {
			t.Error("no news was dropped")
		}
		if n := l.owners()["first"]; n != shards {
			t.Errorf("%d of %d shards have an owner after the second has left", n, shards)
		}
		first.end()
	})
}

// Work that ignores its cancellation keeps its shard for a TTL at most when the shard is
// to be handed over. After that the next server has it, and what the deaf work still
// writes is fenced.
//
// promises L1, L2. Negative control: with shards freed only when their work has returned,
// those of the second had no owner.
func TestShardOfDeafWorkIsHandedOverAfterATTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 8
		b := newBackend(t)
		defer b.Close()
		var mu sync.Mutex
		fenced, landed, unaware := 0, 0, 0
		first := start(t, b, "first", shards, func(ctx context.Context, shard int) error {
			<-ctx.Done()
			time.Sleep(5 * ttl) // deaf
			select {
			case <-lease.Gone(ctx):
			default:
				mu.Lock()
				unaware++
				mu.Unlock()
			}
			_, err := b.Commit(context.WithoutCancel(ctx), store.Txn{Ops: []store.Op{{Kind: "k", Key: store.Key{Name: fmt.Sprint(shard)}, Put: store.Bytes("x")}}})
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, store.ErrFenced) {
				fenced++
			} else {
				landed++
			}
			return nil
		})
		time.Sleep(ttl)
		second := start(t, b, "second", shards, newLedger(t).work("second", 0))
		time.Sleep(2 * ttl)
		taken := 0
		for shard := range shards {
			_, one := first.p.Lease(shard).Held()
			_, two := second.p.Lease(shard).Held()
			if one == two {
				t.Errorf("shard %d is held by the first: %v, by the second: %v; want one of them", shard, one, two)
			}
			if two {
				taken++
			}
		}
		if taken == 0 {
			t.Error("the second has no shard")
		}
		time.Sleep(5 * ttl)
		mu.Lock()
		if fenced != taken || landed != 0 {
			t.Errorf("of %d writes of deaf work that lost its shard %d were fenced and %d landed", taken, fenced, landed)
		}
		if unaware != 0 {
			t.Errorf("%d calls of deaf work that lost its shard were not told that their lease is gone", unaware)
		}
		mu.Unlock()
		second.end()
		first.end()
	})
}

// noting notes the leases that it grants.
type noting struct {
	store.FullBackend
	ids []store.LeaseID
}

func (n *noting) Grant(ctx context.Context, ttl time.Duration) (store.LeaseID, error) {
	id, err := n.FullBackend.Grant(ctx, ttl)
	n.ids = append(n.ids, id)
	return id, err
}

// A server that stops in order leaves no lease behind, and no record.
func TestStopRevokesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &noting{FullBackend: newBackend(t)}
		defer b.Close()
		p, err := lease.NewSingleton(b, "job", &lease.Options{TTL: ttl, Server: "one", Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.Run(ctx, newLedger(t).work("one", 0)) }()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(b.ids) != 1 {
			t.Fatalf("%d leases were granted, want 1", len(b.ids))
		}
		if err := b.Renew(t.Context(), b.ids[0]); !errors.Is(err, store.ErrLeaseGone) {
			t.Errorf("Renew of the lease after the stop = %v, want ErrLeaseGone", err)
		}
	})
}

// A holder whose lease the store has dropped learns it from the next renewal, and does not
// wait until its trust ends by itself.
//
// promise L2. Negative control: mutant "a lease that is gone is renewed on".
func TestRenewalOfALeaseThatIsGoneEndsTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &link{FullBackend: newBackend(t), answer: time.Millisecond}
		defer d.Close()
		p, err := lease.NewSingleton(d, "job", &lease.Options{TTL: ttl, Server: "one", Logger: quiet})
		s := startPlacement(t, d, "one", p, err, newLedger(t).work("one", 0))
		time.Sleep(time.Second)
		first, held := p.Lease(0).Held()
		if !held {
			t.Fatal("it holds nothing")
		}
		d.hushed.Store(true)
		if err := d.Revoke(t.Context(), store.LeaseID(d.granted.Load())); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl/3 + 100*time.Millisecond)
		if now, held := p.Lease(0).Held(); held && now == first { // another hold may have begun
			t.Error("the hold is trusted after a renewal found the lease gone")
		}
		s.end()
	})
}

// A server that stops says at once that it leaves: the shards that its work has let go of
// move on, although the work of one of them takes long to return.
//
// promise L2. Negative control: mutant "a member that leaves does not say so".
func TestSlowWorkOfAServerThatStopsHoldsUpItsShardAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 8
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		var slow atomic.Bool // the next work that is told to end
		leaver := start(t, b, "leaver", shards, func(ctx context.Context, shard int) error {
			l.enter("leaver", shard)
			defer l.leave("leaver", shard)
			<-ctx.Done()
			if slow.CompareAndSwap(true, false) {
				time.Sleep(ttl / 2)
			}
			return nil
		})
		time.Sleep(ttl)
		stays := start(t, b, "stays", shards, l.work("stays", 0))
		time.Sleep(3 * ttl)
		before := l.owners()
		if before["leaver"] != shards/2 || before["stays"] != shards/2 {
			t.Fatalf("shards by server: %v, want half of them each", before)
		}
		slow.Store(true)
		leaver.stop(errors.New("a deployment"))
		time.Sleep(ttl / 4)
		if after := l.owners(); after["stays"] != shards-1 || after["leaver"] != 1 {
			t.Errorf("a quarter of a TTL later: %v, want all but the slow one with the server that stays", after)
		}
		time.Sleep(ttl)
		if after := l.owners(); after["stays"] != shards {
			t.Errorf("in the end: %v, want all with the server that stays", after)
		}
		<-leaver.done
		stays.end()
	})
}

// A grant that hangs is given up after half a TTL, and another one is asked for.
//
// promise L2. Negative control: mutant "a grant that hangs is waited for".
func TestGrantThatHangsIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		m := &limp{link: &link{FullBackend: newBackend(t)}, call: "grant", nth: 1, fault: slow, by: 100 * ttl}
		defer m.Close()
		s := m.startSharded(t, "one", 4, l.work("one", 0))
		time.Sleep(2 * ttl)
		if got := l.owners(); got["one"] != 4 {
			t.Errorf("shards by server: %v, want all 4 with the only one", got)
		}
		s.end()
	})
}

// unheard is a link on which renewals arrive, and their answers do not.
type unheard struct {
	*link
	on atomic.Bool
}

func (u *unheard) Renew(ctx context.Context, id store.LeaseID) error {
	err := u.link.Renew(ctx, id)
	if u.on.Load() {
		return errors.New("no answer")
	}
	return err
}

// A server that had to give up its lease, because it heard of no renewal, comes back before the
// store has ended that: it ends it itself, and does not wait for its own record. While work of the
// old hold goes on it does not, because others would begin beside that.
//
// promise L2. Negative controls: mutants "a server waits for the lease that it lost" and "a lost
// lease is revoked while its work goes on".
func TestServerThatLostItsLeaseDoesNotWaitForIt(t *testing.T) {
	for name, lingers := range map[string]time.Duration{"its work has ended": 0, "its work goes on": ttl / 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, l := newBackend(t), newLedger(t)
				defer b.Close()
				u := &unheard{link: &link{FullBackend: b, answer: time.Millisecond}}
				p, err := lease.NewSingleton(u, "job", &lease.Options{TTL: ttl, Server: "one", Logger: quiet})
				one := startPlacement(t, u.link, "one", p, err, l.work("one", lingers))
				time.Sleep(ttl / 2)
				u.on.Store(true)
				for held := true; held; _, held = p.Lease(0).Held() {
					time.Sleep(100 * time.Millisecond)
				}
				lost := time.Now()
				u.on.Store(false)
				other := start(t, b, "other", 1, l.work("other", 0))
				for time.Since(lost) < lingers || len(l.owners()) == 0 { // the ledger reports work of two
					time.Sleep(100 * time.Millisecond)
				}
				if d := time.Since(lost); d > lingers+ttl/4 {
					t.Errorf("work began again after %v", d)
				}
				one.end()
				other.end()
			})
		})
	}
}

// refusesShards is a link on which the records of shards cannot be written, or removed, as long as it is on.
type refusesShards struct {
	*link
	puts, removals atomic.Bool
	tries          atomic.Int32
}

func (r *refusesShards) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	put := t.Ops[0].Put != nil
	if strings.HasPrefix(t.Ops[0].Key.Name, "shard-") && (put && r.puts.Load() || !put && r.removals.Load()) {
		r.tries.Add(1)
		return 0, errFault
	}
	return r.link.Commit(ctx, t)
}

// A claim that the store refused is made again soon, and a server that stops asks a store that does not free one of
// its shards for no other: each could take a timeout.
func TestClaimsAreMadeAgainSoonAndReleasesAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 4
		b := newBackend(t)
		defer b.Close()
		r := &refusesShards{link: &link{FullBackend: b}}
		r.puts.Store(true)
		p, err := lease.NewSharded(r, "job", shards, &lease.Options{TTL: ttl, Server: "one", Logger: quiet})
		s := startPlacement(t, r.link, "one", p, err, func(ctx context.Context, shard int) error {
			<-ctx.Done()
			time.Sleep(time.Duration(shard) * time.Second / 2) // they end one after the other
			return nil
		})
		for r.tries.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(ttl/10 + time.Millisecond) // and so do those after it
		r.puts.Store(false)
		time.Sleep(ttl/10 + time.Millisecond)
		for shard := range shards {
			if _, held := p.Lease(shard).Held(); !held {
				t.Errorf("shard %d is not held a tenth of a TTL after a claim that failed", shard)
			}
		}
		r.tries.Store(0)
		r.removals.Store(true)
		s.end()
		if n := r.tries.Load(); n != 1 {
			t.Errorf("%d removals were tried, want one", n)
		}
	})
}
