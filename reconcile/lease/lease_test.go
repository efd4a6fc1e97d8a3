package lease_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

var quiet = slog.New(slog.DiscardHandler)

// shared is a memory backend that several simulated servers open.
func newBackend(t *testing.T) store.FullBackend {
	t.Helper()
	b, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// server is one simulated process: a placement on a link to the store that can
// be cut.
type server struct {
	name string
	link *link
	p    lease.Placement
	stop context.CancelCauseFunc
	done chan struct{}
}

// link passes calls on to the backend, until it is cut: then nothing gets
// through and nothing comes back.
type link struct {
	store.FullBackend
	cut atomic.Pointer[chan struct{}]
	// grants, if not 0, is the TTL of every lease, whatever was asked for.
	grants time.Duration
	// delay is how long a write takes, and lag how long news of one.
	delay, lag time.Duration
	// answer is how long the answer to a renewal takes; 0 means 900 ms.
	answer  time.Duration
	hushed  atomic.Bool  // watches deliver nothing, without an error
	granted atomic.Int64 // the newest lease
	lists   atomic.Int64 // counts them
}

// ready waits until the link is whole.
func (l *link) ready(ctx context.Context) error {
	for {
		c := l.cut.Load()
		if c == nil {
			return ctx.Err()
		}
		select {
		case <-*c:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *link) sever() { c := make(chan struct{}); l.cut.Store(&c) }
func (l *link) heal()  { close(*l.cut.Swap(nil)) }

func (l *link) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	if err := l.ready(ctx); err != nil {
		return 0, err
	}
	time.Sleep(l.delay)
	return l.FullBackend.Commit(ctx, t)
}

func (l *link) Grant(ctx context.Context, ttl time.Duration) (store.LeaseID, error) {
	if err := l.ready(ctx); err != nil {
		return 0, err
	}
	if l.grants != 0 {
		ttl = l.grants
	}
	id, err := l.FullBackend.Grant(ctx, ttl)
	l.granted.Store(int64(id))
	return id, err
}

func (l *link) Renew(ctx context.Context, id store.LeaseID) error {
	if err := l.ready(ctx); err != nil {
		return err
	}
	err := l.FullBackend.Renew(ctx, id)
	time.Sleep(cmp.Or(l.answer, 900*time.Millisecond))
	return err
}

func (l *link) Revoke(ctx context.Context, id store.LeaseID) error {
	if err := l.ready(ctx); err != nil {
		return err
	}
	return l.FullBackend.Revoke(ctx, id)
}

func (l *link) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		for b, err := range l.FullBackend.Watch(ctx, kind, after) {
			time.Sleep(l.lag)
			if err == nil && l.hushed.Load() {
				<-ctx.Done()
				err = ctx.Err()
			}
			if l.ready(ctx) != nil || !yield(b, err) {
				return
			}
		}
	}
}

func (l *link) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	if err := l.ready(ctx); err != nil {
		return store.Page{}, err
	}
	l.lists.Add(1)
	return l.FullBackend.List(ctx, kind, o)
}

const ttl = 10 * time.Second

func start(t *testing.T, b store.FullBackend, name string, shards int, work lease.Work) *server {
	t.Helper()
	return startOn(t, &link{FullBackend: b}, ttl, name, shards, work)
}

func startOn(t *testing.T, l *link, ttl time.Duration, name string, shards int, work lease.Work) *server {
	t.Helper()
	if shards != 1 {
		return startSharded(t, l, ttl, name, shards, work)
	}
	p, err := lease.NewSingleton(l, "job", &lease.Options{TTL: ttl, Server: name, Logger: quiet})
	return startPlacement(t, l, name, p, err, work)
}

func startSharded(t *testing.T, l *link, ttl time.Duration, name string, shards int, work lease.Work) *server {
	t.Helper()
	p, err := lease.NewSharded(l, "job", shards, &lease.Options{TTL: ttl, Server: name, Logger: quiet})
	return startPlacement(t, l, name, p, err, work)
}

func startPlacement(t *testing.T, l *link, name string, p lease.Placement, err error, work lease.Work) *server {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{name: name, link: l, p: p, done: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(t.Context())
	s.stop = cancel
	t.Cleanup(s.end) // a test that fails in a bubble must not leave goroutines there: that panic hides its name
	go func() {
		defer close(s.done)
		if err := s.p.Run(ctx, work); err != nil {
			t.Errorf("%s: Run: %v", name, err)
		}
	}()
	return s
}

func (s *server) end() {
	s.stop(errors.New("test is over"))
	<-s.done
}

// ledger notes which server works on what, and reports two at a time.
type ledger struct {
	t interface {
		Errorf(format string, args ...any)
	}
	mu sync.Mutex
	on map[int]string // shard: server
	at map[int]time.Time
	// idle is the longest time that a shard once owned had no owner.
	idle  time.Duration
	moves int
}

func newLedger(t interface {
	Errorf(format string, args ...any)
},
) *ledger {
	return &ledger{t: t, on: make(map[int]string), at: make(map[int]time.Time)}
}

// work is what each server runs: it holds the shard until it is told to stop,
// and then for as long as linger says.
func (l *ledger) work(server string, linger time.Duration) lease.Work {
	return func(ctx context.Context, shard int) error {
		l.enter(server, shard)
		defer l.leave(server, shard)
		<-ctx.Done()
		time.Sleep(linger)
		return nil
	}
}

func (l *ledger) enter(server string, shard int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other, busy := l.on[shard]; busy {
		l.t.Errorf("%s works on shard %d while %s does", server, shard, other)
	}
	if since, ok := l.at[shard]; ok {
		l.idle = max(l.idle, time.Since(since))
		delete(l.at, shard)
	}
	l.on[shard] = server
	l.moves++
}

func (l *ledger) leave(server string, shard int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.on[shard] == server {
		delete(l.on, shard)
		l.at[shard] = time.Now()
	}
}

func (l *ledger) owners() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := make(map[string]int)
	for _, s := range l.on {
		n[s]++
	}
	return n
}

func (l *ledger) begun() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moves
}

// longestIdle returns idle and begins to count it again.
func (l *ledger) longestIdle() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.idle
	l.idle = 0
	return d
}

func TestSingletonRunsOnOneServerAndMovesWhenItStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		first := start(t, b, "a", 1, l.work("a", 0))
		synctest.Wait()
		second := start(t, b, "b", 1, l.work("b", 0))
		time.Sleep(5 * ttl)
		if got := l.owners(); got["a"] != 1 || got["b"] != 0 {
			t.Fatalf("owners %v, want a alone", got)
		}
		first.end()
		synctest.Wait()
		if got := l.owners(); got["b"] != 1 {
			t.Errorf("after a stopped: owners %v, want b at once", got)
		}
		second.end()
	})
}

// Placements of other names in the same store change nothing for one: they all have their shards, keep them when
// another ends, and say whose theirs are and were.
func TestPlacementsOfOneStoreAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		defer b.Close()
		type told interface {
			Holder(shard int) (string, bool)
			Previous(shard int) (string, bool)
		}
		servers := map[string]*server{}
		work := map[string]*ledger{"job": newLedger(t), "other": newLedger(t), "parts": newLedger(t)}
		run := func(name, job string, shards int) {
			o := &lease.Options{TTL: ttl, Server: name, Logger: quiet}
			p, err := lease.NewSingleton(b, job, o)
			if shards > 1 {
				p, err = lease.NewSharded(b, job, shards, o)
			}
			servers[name] = startPlacement(t, nil, name, p, err, work[job].work(name, 0))
			time.Sleep(ttl)
		}
		held := func(name, before string) {
			t.Helper()
			p := servers[name].p
			for shard := range p.Shards() {
				_, mine := p.Lease(shard).Held()
				holder, _ := p.(told).Holder(shard)
				previous, was := p.(told).Previous(shard)
				if !mine || holder != name || previous != before || was != (before != "") {
					t.Errorf("shard %d of %s: held %v, by %q, before by %q (%v); want by %s, before by %q", shard, name, mine, holder, previous, was, name, before)
				}
			}
		}
		run("first", "job", 1)
		run("second", "other", 1)
		run("third", "parts", 4)
		run("fourth", "job", 1)
		for _, name := range []string{"first", "second", "third"} {
			held(name, "")
		}
		servers["first"].end()
		time.Sleep(ttl)
		held("second", "")
		held("third", "")
		held("fourth", "first")
		for job, want := range map[string]int{"job": 2, "other": 1, "parts": 4} {
			if n := work[job].begun(); n != want {
				t.Errorf("work of %s was begun %d times, want %d", job, n, want)
			}
		}
		for _, s := range servers {
			s.end()
		}
	})
}

// A program that was killed and started again does nothing until the lease of its earlier
// process has run out. It says so, once for each server that holds it.
//
// Negative control: mutant "a server does not say whose lease it waits for".
func TestServerSaysWhoseLeaseItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		first := start(t, b, "a", 1, l.work("a", 0))
		synctest.Wait()
		var log bytes.Buffer // written by the goroutine of one session, and read when it is asleep
		p, err := lease.NewSingleton(b, "job", &lease.Options{TTL: ttl, Server: "b", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		second := startPlacement(t, &link{FullBackend: b}, "b", p, err, l.work("b", 0))
		time.Sleep(5 * ttl)
		synctest.Wait()
		if n := strings.Count(log.String(), "another process holds it"); n != 1 || !strings.Contains(log.String(), "lease=job server=b holder=a ttl=10s") {
			t.Errorf("in five TTLs it said %d times whose lease it waits for:\n%s", n, &log)
		}
		first.end()
		synctest.Wait()
		third := start(t, b, "c", 1, l.work("c", 0))
		time.Sleep(5 * ttl)
		synctest.Wait()
		if n := strings.Count(log.String(), "another process holds it"); n != 1 || l.owners()["b"] != 1 {
			t.Errorf("the holder says that it waits:\n%s", &log)
		}
		second.end()
		third.end()
	})
}

// Both have read that the lease is free before either writes, and hear late of what
// the other wrote.
//
// Negative control: the mutant "shards are claimed without a compare".
func TestOfTwoThatClaimAtOnceOneGetsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		var servers []*server
		for _, name := range []string{"a", "z"} {
			far := &link{FullBackend: b, delay: time.Second, lag: time.Second}
			servers = append(servers, startOn(t, far, ttl, name, 1, l.work(name, 0)))
		}
		time.Sleep(ttl)
		if n := l.begun(); n != 1 {
			t.Errorf("%d servers began to work, want one", n)
		}
		for _, s := range servers {
			s.end()
		}
	})
}

// case 54
func TestWorkRunsOnlyWhileTheLeaseIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		defer b.Close()
		var runs atomic.Int32
		causes := make(chan error, 8)
		work := func(ctx context.Context, _ int) error {
			runs.Add(1)
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil
		}
		blocker := start(t, b, "blocker", 1, newLedger(t).work("blocker", 0))
		synctest.Wait()
		s := start(t, b, "s", 1, work)
		time.Sleep(3 * ttl)
		if n := runs.Load(); n != 0 {
			t.Fatalf("%d runs without the lease", n)
		}
		if _, held := s.p.Lease(0).Held(); held {
			t.Error("Held without the lease")
		}
		blocker.end()
		synctest.Wait()
		if _, held := s.p.Lease(0).Held(); !held || runs.Load() != 1 {
			t.Fatalf("won the lease: held %v, %d runs; want held and 1 run", held, runs.Load())
		}
		s.link.sever()
		time.Sleep(2 * ttl)
		if cause := <-causes; !errors.Is(cause, lease.ErrLost) {
			t.Errorf("work was cancelled with %v, want ErrLost", cause)
		}
		if _, held := s.p.Lease(0).Held(); held {
			t.Error("Held after the lease was lost")
		}
		s.link.heal()
		s.end()
	})
}

// A holder that cannot renew stops before the store grants the lease to another,
// and the next holder gets it within a bound.
//
// promise L1. Negative control: with trust counted from the answer to a renewal
// and no margin (s.until = time.Now().Add(TTL) after Renew) the ledger catches
// both servers at work, because answers take 900 ms.
func TestHolderStopsBeforeItsLeaseCanBeTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		slow := start(t, b, "slow", 1, l.work("slow", 0))
		synctest.Wait()
		alternate(t, l, slow, start(t, b, "other", 1, l.work("other", 0)))
	})
}

// Every store write made with the work's context carries the guard, and a
// deposed holder's is refused, however late it comes.
//
// promise L1. Negative control: with withHold not adding the guard, the write of
// the deposed holder is accepted.
func TestDeposedHoldersWritesAreFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		defer b.Close()
		old := make(chan context.Context, 1)
		s := start(t, b, "old", 1, func(ctx context.Context, _ int) error {
			old <- ctx
			<-ctx.Done()
			return nil
		})
		ctx := context.WithoutCancel(<-old) // frozen: it does not notice anything
		put := store.Txn{Ops: []store.Op{{Kind: "thing", Key: store.Key{Name: "x"}, Put: store.Bytes("1")}}}
		if _, err := b.Commit(ctx, put); err != nil {
			t.Fatalf("write while the lease is held: %v", err)
		}
		epoch, ok := lease.Token(ctx)
		if !ok {
			t.Error("no token in the work's context")
		}
		s.link.sever()
		time.Sleep(2 * ttl)
		next := start(t, b, "next", 1, func(ctx context.Context, _ int) error {
			if later, _ := lease.Token(ctx); later <= epoch {
				t.Errorf("token %d after %d, want a greater one", later, epoch)
			}
			<-ctx.Done()
			return nil
		})
		synctest.Wait()
		if _, err := b.Commit(ctx, put); !errors.Is(err, store.ErrFenced) {
			t.Errorf("write of the deposed holder: %v, want ErrFenced", err)
		}
		s.link.heal()
		s.end()
		next.end()
	})
}

// case 55
//
// promise L1. Negative control: with busy not kept over sessions, the second
// call of work overlaps the first.
func TestLeaseLostAndWonAgainNeverGivesTwoLiveRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		s := start(t, b, "s", 1, l.work("s", 5*ttl)) // drains slowly
		synctest.Wait()
		s.link.sever()
		time.Sleep(ttl)
		s.link.heal()
		time.Sleep(3 * ttl) // long enough to win it back, while the old run drains
		if n := l.begun(); n != 1 {
			t.Fatalf("%d runs begun while the first still drains, want 1", n)
		}
		time.Sleep(4 * ttl)
		if n := l.begun(); n != 2 {
			t.Errorf("%d runs begun after it had drained, want 2", n)
		}
		s.end()
	})
}

// Work that ignores its cancellation keeps the lease from being released: it
// runs out.
func TestLeaseOfAStuckRunIsLeftToExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		s := start(t, b, "stuck", 1, l.work("stuck", time.Hour))
		synctest.Wait()
		began := time.Now()
		s.stop(errors.New("stop"))
		taken := make(chan time.Duration, 1)
		next := start(t, b, "next", 1, func(ctx context.Context, _ int) error {
			taken <- time.Since(began)
			<-ctx.Done()
			return nil
		})
		if after := <-taken; after < ttl || after > 4*ttl {
			t.Errorf("the lease of a stuck run was free after %v, want no release but an expiry (%v to %v)", after, ttl, 4*ttl)
		}
		next.end()
		<-s.done
	})
}

// case 57
func TestWorkThatFailsIsRestartedAtOnceIfItHadLivedWellElseBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		defer b.Close()
		var begun []time.Duration
		start0 := time.Now()
		s := start(t, b, "s", 1, func(ctx context.Context, _ int) error {
			begun = append(begun, time.Since(start0))
			switch len(begun) {
			case 1, 2, 3:
				return errors.New("fails at once")
			case 4:
				time.Sleep(3 * time.Second)
				return errors.New("fails after a while")
			}
			<-ctx.Done()
			return nil
		})
		time.Sleep(30 * time.Second)
		s.end()
		if len(begun) != 5 {
			t.Fatalf("work began at %v, want 5 times", begun)
		}
		gaps := []time.Duration{begun[1] - begun[0], begun[2] - begun[1], begun[3] - begun[2]}
		for i, base := range []time.Duration{500, 1000, 2000} {
			base *= time.Millisecond
			if gaps[i] < base*3/4 || gaps[i] > base*5/4 {
				t.Errorf("restart %d after %v, want %v ±25%%", i+1, gaps[i], base)
			}
		}
		if got := begun[4] - begun[3]; got != 3*time.Second {
			t.Errorf("restart after a healthy life took until %v, want at once (3s)", got)
		}
	})
}

// case 56
func TestEveryServerRunsWithoutALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := lease.EveryServer()
		ran := make(chan struct{})
		done := make(chan error)
		go func() {
			done <- p.Run(ctx, func(ctx context.Context, _ int) error {
				if g := store.Guards(ctx); len(g) != 0 {
					t.Errorf("guards %v, want none", g)
				}
				close(ran)
				<-ctx.Done()
				return nil
			})
		}()
		<-ran
		if _, held := p.Lease(0).Held(); !held {
			t.Error("not Held")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// case 148
func TestChangedHoldsOneNotificationAndHeldTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := lease.NewManual(nil, "host")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx, newLedger(t).work("s", 0)) }()
		for range 5 {
			m.Set(true, 0)
			synctest.Wait()
			m.Set(false, 0)
			synctest.Wait()
		}
		m.Set(true, 0)
		synctest.Wait()
		if _, held := m.Lease(0).Held(); !held {
			t.Error("Held does not tell the latest state")
		}
		<-m.Lease(0).Changed()
		select {
		case <-m.Lease(0).Changed():
			t.Error("a second notification waits")
		default:
		}
		cancel()
		<-done
	})
}

// case 149
func TestHostSetLeaseEndsInTheLastStateAndNeverRunsTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		m, err := lease.NewManual(nil, "host")
		if err != nil {
			t.Fatal(err)
		}
		m.Set(true, 0) // before Run
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx, l.work("s", time.Second)) }()
		synctest.Wait()
		if l.owners()["s"] != 1 {
			t.Error("a lease held before Run does not start work at once")
		}
		for i := range 1000 {
			m.Set(i%2 == 1, 0)
			if i%7 == 0 {
				time.Sleep(300 * time.Millisecond)
			}
		}
		time.Sleep(time.Minute)
		if got := l.owners()["s"]; got != 1 {
			t.Errorf("%d runs after the last setting was held, want 1", got)
		}
		m.Set(false, 0)
		time.Sleep(time.Minute)
		if got := l.owners()["s"]; got != 0 {
			t.Errorf("%d runs after the last setting was not held, want 0", got)
		}
		cancel()
		<-done
	})
}

func TestHostsOlderTermIsRefusedAndItsWritesAreFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		defer b.Close()
		run := func(term uint64) (ctxs chan context.Context, m *lease.Manual, stop func()) {
			m, err := lease.NewManual(b, "host")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ctxs, done := make(chan context.Context, 4), make(chan error)
			go func() {
				done <- m.Run(ctx, func(ctx context.Context, _ int) error { ctxs <- ctx; <-ctx.Done(); return nil })
			}()
			m.Set(true, term)
			synctest.Wait()
			return ctxs, m, func() { cancel(); <-done }
		}
		old, _, stopOld := run(3)
		oldCtx := context.WithoutCancel(<-old)
		newer, _, stopNewer := run(4)
		<-newer
		put := store.Txn{Ops: []store.Op{{Kind: "thing", Key: store.Key{Name: "x"}, Put: store.Bytes("1")}}}
		if _, err := b.Commit(oldCtx, put); !errors.Is(err, store.ErrFenced) {
			t.Errorf("write under term 3 after term 4: %v, want ErrFenced", err)
		}
		late, m, stopLate := run(2)
		if _, held := m.Lease(0).Held(); held || len(late) != 0 {
			t.Error("a term older than the store's was accepted")
		}
		stopOld()
		stopNewer()
		stopLate()
	})
}

func TestRunTwiceAtATimeIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		defer b.Close()
		s := start(t, b, "s", 1, newLedger(t).work("s", 0))
		synctest.Wait()
		if err := s.p.Run(t.Context(), nil); !errors.Is(err, lease.ErrRunning) {
			t.Errorf("second Run: %v, want ErrRunning", err)
		}
		s.end()
	})
}

func TestIllegalOptionsAreRefusedAtConstruction(t *testing.T) {
	b := newBackend(t)
	defer b.Close()
	for name, build := range map[string]func() (lease.Placement, error){
		"no backend":    func() (lease.Placement, error) { return lease.NewSingleton(nil, "x", nil) },
		"no name":       func() (lease.Placement, error) { return lease.NewSingleton(b, "", nil) },
		"slash in name": func() (lease.Placement, error) { return lease.NewSingleton(b, "a/b", nil) },
		"short TTL":     func() (lease.Placement, error) { return lease.NewSingleton(b, "x", &lease.Options{TTL: 1}) },
		"weight":        func() (lease.Placement, error) { return lease.NewSharded(b, "x", 8, &lease.Options{Weight: -1}) },
		"no shards":     func() (lease.Placement, error) { return lease.NewSharded(b, "x", 0, nil) },
		"too many":      func() (lease.Placement, error) { return lease.NewSharded(b, "x", lease.MaxShards+1, nil) },
		"margin too big": func() (lease.Placement, error) {
			return lease.NewSingleton(b, "x", (&lease.Options{}).SetMargin(time.Hour))
		},
	} {
		if p, err := build(); err == nil {
			t.Errorf("%s: accepted, %v", name, p)
		}
	}
}

// What is at a bound of the options is taken, and what is beyond it is not.
func TestOptionsAtTheirBounds(t *testing.T) {
	b := newBackend(t)
	defer b.Close()
	const least = 2 * time.Second
	for _, c := range []struct {
		o      lease.Options
		shards int
		ok     bool
	}{
		{lease.Options{TTL: least}, 1, true},
		{lease.Options{TTL: least - 1}, 1, false},
		{*(&lease.Options{TTL: least}).SetMargin(least / 2), 1, true},
		{*(&lease.Options{TTL: least}).SetMargin(least/2 + 1), 1, false},
		{*(&lease.Options{TTL: least}).SetMargin(-1), 1, false},
		{lease.Options{Weight: lease.MaxWeight}, 1, true},
		{lease.Options{Weight: lease.MaxWeight + 1}, 1, false},
		{lease.Options{Weight: -1}, 1, false},
		{lease.Options{}, lease.MaxShards, true},
		{lease.Options{}, lease.MaxShards + 1, false},
		{lease.Options{}, 0, false},
	} {
		if _, err := lease.NewSharded(b, "x", c.shards, &c.o); (err == nil) != c.ok {
			t.Errorf("%+v over %d shards: %v, want it taken: %v", c.o, c.shards, err, c.ok)
		}
	}
}

// promise L2
//
// Negative control: the mutant "a server that joins moves everything".
func TestShardsAreOwnedOnceBalancedAndMoveOnlyTheirShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 128
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		var servers []*server
		for i := range 4 {
			name := fmt.Sprint("s", i)
			servers = append(servers, start(t, b, name, shards, l.work(name, ttl/20)))
		}
		time.Sleep(5 * ttl)
		owners := l.owners()
		for _, s := range servers {
			if n := owners[s.name]; n < shards/8 || n > shards/2 {
				t.Errorf("%s owns %d of %d shards", s.name, n, shards)
			}
		}
		// A fifth joins: only its share moves.
		was := l.begun()
		servers = append(servers, start(t, b, "s4", shards, l.work("s4", ttl/20)))
		time.Sleep(5 * ttl)
		share := l.owners()["s4"]
		if moved := l.begun() - was; moved != share || share < shards/10 {
			t.Errorf("a join moved %d shards, want the %d of the joiner", moved, share)
		}
		// One leaves in good order: its share moves, nothing waits for a TTL.
		was = l.begun()
		l.longestIdle()
		left := l.owners()["s1"]
		servers[1].end()
		time.Sleep(5 * ttl)
		if moved := l.begun() - was; moved != left {
			t.Errorf("a leave moved %d shards, want %d", moved, left)
		}
		if idle := l.longestIdle(); idle > 2*time.Second {
			t.Errorf("a shard had no owner for %v after an orderly leave", idle)
		}
		// One vanishes: its share has owners again within the stated time.
		servers[2].link.sever()
		time.Sleep(5 * ttl)
		if idle := l.longestIdle(); idle > 2*ttl {
			t.Errorf("a shard had no owner for %v after a crash, want at most %v", idle, 2*ttl)
		}
		total := 0
		for _, n := range l.owners() {
			total += n
		}
		if total != shards {
			t.Errorf("%d of %d shards have an owner", total, shards)
		}
		servers[2].link.heal()
		for i, s := range servers {
			if i != 1 {
				s.end()
			}
		}
	})
}

func TestServerThatComesBackGetsItsShardsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 64
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		a := start(t, b, "a", shards, l.work("a", 0))
		z := start(t, b, "z", shards, l.work("z", 0))
		time.Sleep(2 * ttl)
		before := l.owners()["z"]
		z.end()
		time.Sleep(2 * ttl)
		z = start(t, b, "z", shards, l.work("z", 0))
		time.Sleep(2 * ttl)
		if after := l.owners()["z"]; after != before || after == 0 {
			t.Errorf("z had %d shards and has %d after coming back", before, after)
		}
		a.end()
		z.end()
	})
}
