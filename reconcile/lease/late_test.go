package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// News that are late end no hold: a server that has won a shard hears of what was before that
// for a while, and holds it all the same.
//
// promise L2. Negative control: mutant "news of before a hold end it".
func TestNewsOfBeforeAHoldDoNotEndIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 8
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		on := &link{FullBackend: b, delay: ttl / 100, lag: ttl / 10}
		first := startSharded(t, on, ttl, "first", shards, l.work("first", 0))
		for range 100 { // something else in the store changes all the time
			time.Sleep(ttl / 50)
			if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: lease.Kind, Key: store.Key{Namespace: "else", Name: "x"}, Put: store.Bytes("{}")}}}); err != nil {
				t.Fatal(err)
			}
		}
		if got := l.owners(); got["first"] != shards || l.begun() != shards {
			t.Errorf("the only server has %v, and has begun %d times; want all %d shards, each begun once", got, l.begun(), shards)
		}
		first.end()
	})
}

// A process that is started beside one that hangs, and has its name, takes its shards, also
// while the lease of the other one is renewed: the later session of a name is the server. A
// plan counts the two as one.
//
// promise L2. Negative controls: mutants "an older session of a server keeps its shards" and
// "two sessions of a server count as two".
func TestLaterSessionOfAServerTakesTheShardsOfTheEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 8
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		hangs := startSharded(t, &link{FullBackend: b}, ttl, "one", shards, l.work("hangs", 0))
		two := start(t, b, "two", shards, l.work("two", 0))
		time.Sleep(3 * ttl)
		if got := l.owners(); got["hangs"] != shards/2 || got["two"] != shards/2 {
			t.Fatalf("shards by server: %v, want half of them each", got)
		}
		next := startSharded(t, &link{FullBackend: b}, ttl, "one", shards, l.work("next", 0))
		time.Sleep(3 * ttl)
		if got := l.owners(); got["next"] != shards/2 || got["two"] != shards/2 {
			t.Errorf("shards by process: %v, want half with the later one of its name, and half with the other server", got)
		}
		for _, s := range []*server{hangs, two, next} {
			s.end()
		}
	})
}

// straggler is a link that loses what which says, and keeps it: the request is under way, and
// may reach the store at any time.
type straggler struct {
	*link
	which func(store.Txn) bool

	mu   sync.Mutex // guards lost
	lost []store.Txn
}

func (s *straggler) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	if s.which(t) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lost = append(s.lost, t)
		return 0, store.ErrUnknownOutcome
	}
	return s.link.Commit(ctx, t)
}

// arrive has what was lost first reach the store.
func (s *straggler) arrive(t *testing.T) error {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lost) == 0 {
		t.Fatal("nothing was lost: this shows nothing")
	}
	_, err := s.FullBackend.Commit(t.Context(), s.lost[0])
	return err
}

// A removal of a record that reaches the store when the shard is another server's removes
// nothing: that server's hold lasts.
//
// promise L1. Negative control: mutant "a removal does not say which record".
func TestRemovalThatArrivesLateTakesNoRecordOfTheNextHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 4
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		var once atomic.Bool
		on := &straggler{link: &link{FullBackend: b}, which: func(t store.Txn) bool {
			return t.Ops[0].Put == nil && strings.HasPrefix(t.Ops[0].Key.Name, "shard-") && once.CompareAndSwap(false, true)
		}}
		p, err := lease.NewSharded(on, "job", shards, &lease.Options{TTL: ttl, Server: "first", Logger: quiet})
		first := startPlacement(t, on.link, "first", p, err, l.work("first", 0))
		time.Sleep(ttl)
		second := start(t, b, "second", shards, l.work("second", 0))
		time.Sleep(2 * ttl)
		if got := l.owners(); got["second"] != shards/2 {
			t.Fatalf("shards by server: %v, want half of them each", got)
		}
		begun := l.begun()
		_ = on.arrive(t)
		synctest.Wait()
		checkTrust(t, b, shards, first, second)
		time.Sleep(ttl)
		if n := l.begun(); n != begun {
			t.Errorf("%d holds were begun after a removal has arrived late, want none: each hold lasts", n-begun)
		}
		second.end()
		first.end()
	})
}

// What a server announces of its load, and what reaches the store after the server's record was
// removed, does not bring the record back: the others would wait for a server that is leaving.
//
// Negative control: the mutant "an announcement that is late brings its member back".
func TestAnnouncementThatArrivesLateDoesNotBringTheMemberBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		var announced atomic.Int32
		on := &straggler{link: &link{FullBackend: b}, which: func(t store.Txn) bool {
			op := t.Ops[0]
			return op.Put != nil && strings.HasPrefix(op.Key.Name, "member-") && announced.Add(1) > 1
		}}
		p, err := lease.NewSharded(on, "job", 4, &lease.Options{
			TTL: ttl, Server: "first", Logger: quiet, Load: func(int) int64 { return 7 },
		})
		first := startPlacement(t, on.link, "first", p, err, l.work("first", ttl/2))
		time.Sleep(9 * ttl) // two measurements
		left := make(chan struct{})
		go func() { first.end(); close(left) }() // ends when the work has wound up
		time.Sleep(ttl / 4)
		if err := on.arrive(t); !errors.Is(err, store.ErrConflict) {
			t.Errorf("an announcement of a server that has removed its record: %v, want a conflict", err)
		}
		<-left
	})
}

// A plan that reaches the store when its servers do not rule any more is refused.
//
// Negative control: mutant "a plan lands although its servers rule no more".
func TestPlanThatArrivesAfterItsServersRuleIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		on := &straggler{link: &link{FullBackend: b}, which: func(t store.Txn) bool { return t.Ops[0].Key.Name == "plan" }}
		p, err := lease.NewSharded(on, "job", 4, &lease.Options{TTL: ttl, Server: "first", Logger: quiet})
		first := startPlacement(t, on.link, "first", p, err, l.work("first", 0))
		time.Sleep(ttl)
		first.end()
		if err := on.arrive(t); err == nil {
			t.Error("a plan of a server that has left was written")
		}
	})
}

// A server whose record was replaced by another's holds the shard no more, also where the
// removal and what came in its place are one piece of news.
//
// promise L1. Negative control: mutant "any record of a shard is the hold's".
func TestHoldEndsWhenItsRecordIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		on := &link{FullBackend: b, lag: ttl / 100}
		s := startSharded(t, on, ttl, "first", 2, l.work("first", 0))
		time.Sleep(ttl)
		guard, held := s.p.Lease(0).Held()
		if !held {
			t.Fatal("it holds nothing")
		}
		write := func(key store.Key, put store.Value) {
			t.Helper()
			if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: lease.Kind, Key: key, Put: put}}}); err != nil {
				t.Fatal(err)
			}
		}
		write(store.Key{Namespace: "else", Name: "x"}, store.Bytes("{}"))
		synctest.Wait() // these news are on their way, and the next come together
		write(guard.Key, nil)
		write(guard.Key, store.Bytes(`{"session":"x","server":"other"}`))
		time.Sleep(ttl / 10)
		if now, held := s.p.Lease(0).Held(); held {
			t.Errorf("shard 0 is held, guarded by %v, and its record is another server's", now)
		}
		s.end()
	})
}

// The time until the next session begins does not grow with the sessions of a server's life: a
// session that lasted is a start of its own, and its end is news.
//
// Negative control: mutant "a session that lasted counts as a failure".
func TestSessionThatLastedIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		defer b.Close()
		var log strings.Builder // written by the goroutine in Run alone, and read after its end
		on := &link{FullBackend: b}
		p, err := lease.NewSingleton(on, "job", &lease.Options{TTL: ttl, Server: "one", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		s := startPlacement(t, on, "one", p, err, newLedger(t).work("one", 0))
		for range 3 {
			time.Sleep(3 * ttl)
			if err := b.Revoke(t.Context(), store.LeaseID(on.granted.Load())); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * ttl)
		s.end()
		if n := strings.Count(log.String(), "lease session ended"); n != 3 {
			t.Errorf("%d of 3 sessions that lasted were told to end:\n%s", n, log.String())
		}
	})
}

// joinMembers starts a member; leave ends it and waits for that.
func joinMembers(t *testing.T, b store.Backend) (m *lease.Members, leave func()) {
	t.Helper()
	m, err := lease.NewMembers(b, "quotas", &lease.Options{TTL: ttl, Server: "one", Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }() // ends at cancel
	return m, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A member whose lease the store has dropped is told at once that it is none.
//
// promise L2. Negative control: mutant "a member is not told of the end of its session".
func TestMemberIsToldThatItsLeaseIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := &link{FullBackend: newBackend(t)}
		defer on.Close()
		m, leave := joinMembers(t, on)
		time.Sleep(time.Second)
		for len(m.Changed()) > 0 {
			<-m.Changed()
		}
		if err := on.Revoke(t.Context(), store.LeaseID(on.granted.Load())); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for len(m.Changed()) > 0 { // that its record is gone
			<-m.Changed()
		}
		time.Sleep(ttl/3 - time.Second/2) // the renewal is asked for, and its answer takes 900 ms
		on.sever()                        // no other session begins
		time.Sleep(time.Second)
		synctest.Wait()
		if n := m.Live(); n != 0 {
			t.Errorf("%d live, want none", n)
		}
		if len(m.Changed()) == 0 {
			t.Error("the program was not told when the renewal found the lease gone")
		}
		on.heal()
		leave()
	})
}

// A member whose lists are not answered any more is told when it cannot know the others any
// more, however long it has been one.
//
// promise L2. Negative control: mutant "a member is not told that its list is old".
func TestMemberIsToldThatItsListIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &blind{link: &link{FullBackend: newBackend(t)}}
		defer b.Close()
		m, leave := joinMembers(t, b)
		time.Sleep(3*ttl + time.Second)
		for len(m.Changed()) > 0 {
			<-m.Changed()
		}
		b.on.Store(true)
		time.Sleep(2 * ttl)
		synctest.Wait()
		if n := m.Live(); n != 0 {
			t.Errorf("%d live while no list is answered, want 0: not known", n)
		}
		if len(m.Changed()) == 0 {
			t.Error("the program was not told")
		}
		leave()
	})
}

// readOnly answers, and refuses to grant leases while refusal is set.
type readOnly struct {
	store.FullBackend
	refusal atomic.Pointer[error]
}

func (b *readOnly) Grant(ctx context.Context, ttl time.Duration) (store.LeaseID, error) {
	if err := b.refusal.Load(); err != nil {
		return 0, *err
	}
	return b.FullBackend.Grant(ctx, ttl)
}

// A store that can be read and grants no leases lets nothing run on any server. The backend
// says that it serves, and so nothing else tells.
//
// Negative control: mutant "a placement that is granted no lease is healthy".
func TestPlacementThatIsGrantedNoLeaseIsNotHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &readOnly{FullBackend: newBackend(t)}
		defer b.Close()
		refusal := errors.New("the server is read-only")
		p, err := lease.NewSingleton(b, "job", &lease.Options{TTL: ttl, Server: "one", Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		health := p.(interface{ Health() error }).Health
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- p.Run(ctx, func(ctx context.Context, _ int) error { <-ctx.Done(); return nil })
		}()
		time.Sleep(ttl)
		if err := health(); err != nil {
			t.Errorf("with a lease: %v", err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}

		b.refusal.Store(&refusal)
		ctx, stop = context.WithCancel(t.Context())
		defer stop()
		go func() {
			ended <- p.Run(ctx, func(ctx context.Context, _ int) error { <-ctx.Done(); return nil })
		}()
		time.Sleep(3 * ttl)
		var u *store.UnavailableError
		if err := health(); !errors.Is(err, refusal) || !errors.As(err, &u) || time.Since(u.Since) < 2*ttl {
			t.Errorf("with no lease granted for three TTLs: %v, want %v, unavailable since then", err, refusal)
		}
		b.refusal.Store(nil)
		time.Sleep(3 * ttl)
		if err := health(); err != nil {
			t.Errorf("with a lease again: %v", err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// What a session met while the store did not answer is of the past once it answers: until the next try it was told
// as a fault of its own, after the cure.
func TestRefusalOfAnOutageEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &illOrReadOnly{readOnly: readOnly{FullBackend: newBackend(t)}}
		defer b.Close()
		p, err := lease.NewSingleton(b, "job", &lease.Options{TTL: ttl, Server: "one", Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		placed := p.(interface {
			Health() error
			Ready() error
		})
		down, refusal := &store.UnavailableError{Since: time.Now(), Err: errors.New("silent")}, errors.New("no answer")
		b.ill.Store(down)
		b.refusal.Store(&refusal)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { // ended by stop, waited for below
			ended <- p.Run(ctx, func(ctx context.Context, _ int) error { <-ctx.Done(); return nil })
		}()
		time.Sleep(ttl)
		if err := placed.Health(); !errors.Is(err, down) {
			t.Errorf("in the outage Health is %v, want %v", err, down)
		}
		b.ill.Store(nil)
		if health, ready := placed.Health(), placed.Ready(); health != nil || ready != nil {
			t.Errorf("after it, before the next try: Health is %v, Ready %v", health, ready)
		}
		time.Sleep(ttl)
		if err := placed.Health(); !errors.Is(err, refusal) {
			t.Errorf("of a store that answers and grants nothing: %v, want %v", err, refusal)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// illOrReadOnly is a backend that grants no lease while there is a refusal, and says of itself what it is given.
type illOrReadOnly struct {
	readOnly
	ill atomic.Pointer[store.UnavailableError]
}

func (b *illOrReadOnly) Health() error {
	if err := b.ill.Load(); err != nil {
		return err
	}
	return nil
}
