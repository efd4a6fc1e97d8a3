package lease_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// Negative control: without joined(nil) at the end of a session, a server that
// was cut off was not told of its loss.
func TestMembersCountThoseWhoLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		defer b.Close()
		join := func(name string, l *link) (*lease.Members, func()) {
			m, err := lease.NewMembers(l, "quotas", &lease.Options{Server: name, Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- m.Run(ctx) }() // ends at cancel
			synctest.Wait()
			if err := m.Run(ctx); !errors.Is(err, lease.ErrRunning) {
				t.Errorf("a second Run = %v, want ErrRunning", err)
			}
			return m, func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				if n := m.Live(); n != 0 {
					t.Errorf("%d live as seen by one that left, want none", n)
				}
			}
		}
		want := func(when string, n int, all ...*lease.Members) {
			t.Helper()
			synctest.Wait()
			for _, m := range all {
				if got := m.Live(); got != n {
					t.Errorf("%s: %d live, want %d", when, got, n)
				}
			}
		}
		cuttable := &link{FullBackend: b}
		one, leaveOne := join("one", &link{FullBackend: b})
		want("alone", 1, one)
		two, leaveTwo := join("two", cuttable)
		want("two joined", 2, one, two)
		three, leaveThree := join("three", &link{FullBackend: b})
		want("three joined", 3, one, two, three)
		leaveThree()
		want("three left", 2, one, two)

		for len(two.Changed()) > 0 {
			<-two.Changed()
		}
		cuttable.sever()
		time.Sleep(20 * time.Second)
		want("two was cut off", 1, one)
		want("two was cut off", 0, two)
		select {
		case <-two.Changed():
		default:
			t.Error("the one that was cut off was not told")
		}
		cuttable.heal()
		time.Sleep(20 * time.Second)
		want("two is back", 2, one, two)
		leaveTwo()
		leaveOne()
	})
}

// A server that crashed and is back is one member, although the lease of its session
// before the crash has not run out yet, and it says what its newer session says.
//
// Negative controls: with sessions counted, two are live; mutant "an old session of a server
// is heard".
func TestServerThatIsBackCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		defer b.Close()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		cut := &link{FullBackend: b} // of the process that crashed
		var last *lease.Members
		for _, l := range []*link{cut, {FullBackend: b}} {
			m, err := lease.NewMembers(l, "quotas", &lease.Options{Server: "one", Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			last = m
			m.Say("of the process that crashed")
			go func() { done <- m.Run(ctx) }() // ends at cancel
			synctest.Wait()
			if l == cut {
				l.sever()
			}
		}
		if n := last.Live(); n != 1 {
			t.Errorf("%d live, want the one server", n)
		}
		for n := range 30 { // a mix-up of the two would be one of chance
			text := fmt.Sprint("now ", n)
			last.Say(text)
			time.Sleep(time.Second / 10)
			synctest.Wait()
			if got := last.Said(); len(got) != 1 || got["one"] != text {
				t.Fatalf("what was said: %q, want %q of the server that is back", got, text)
			}
		}
		cut.heal()
		cancel()
		if err := errors.Join(<-done, <-done); err != nil {
			t.Error(err)
		}
	})
}

// What a member says while the store does not answer is said a little later.
//
// Negative control: mutant "what a member says while the store is away is lost".
func TestWhatIsSaidWhileTheStoreIsAwayIsHeardLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &limp{link: &link{FullBackend: newBackend(t)}, call: "announce", nth: 2, fault: failed} // the first is the join
		defer b.Close()
		m, err := lease.NewMembers(b, "quotas", &lease.Options{TTL: ttl, Server: "one", Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }() // ends at cancel
		time.Sleep(ttl)
		m.Say("hello")
		time.Sleep(ttl / 2)
		synctest.Wait()
		if n := b.calls.Load(); n < 2 {
			t.Errorf("%d records were written, want that of the join and one that fails at least", n)
		}
		if got := m.Said()["one"]; got != "hello" {
			t.Errorf("what is heard: %q, want hello", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// blind is a link whose lists fail while it is on.
type blind struct {
	*link
	on    atomic.Bool
	lists atomic.Int32
}

func (b *blind) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	b.lists.Add(1)
	if b.on.Load() {
		return store.Page{}, errFault
	}
	return b.link.List(ctx, kind, o)
}

// A member whose lists fail asks for another one each tenth of a TTL, and not only with
// the next renewal. When one is answered, the program is told that the others are known.
//
// promise L2. Negative controls: mutants "a list of members that failed is not made again"
// and "members are not told that the others are known again".
func TestMemberIsToldWhenItsListsWorkAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &blind{link: &link{FullBackend: newBackend(t)}}
		defer b.Close()
		m, err := lease.NewMembers(b, "quotas", &lease.Options{TTL: ttl, Server: "one", Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }() // ends at cancel
		time.Sleep(ttl)
		before := b.lists.Load()
		b.on.Store(true)
		time.Sleep(2 * ttl)
		synctest.Wait()
		if n := b.lists.Load() - before; n < 15 {
			t.Errorf("%d lists were asked for in two TTLs, want one each tenth of a TTL", n)
		}
		if n := m.Live(); n != 0 {
			t.Errorf("%d live while no list is answered, want 0: not known", n)
		}
		for len(m.Changed()) > 0 {
			<-m.Changed()
		}
		b.on.Store(false)
		time.Sleep(ttl / 2)
		synctest.Wait()
		if n := m.Live(); n != 1 {
			t.Errorf("%d live after a list was answered, want 1", n)
		}
		if len(m.Changed()) == 0 {
			t.Error("the program was not told")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// returned is a link to a store that is set back: once, a list is of an earlier revision.
type returned struct {
	*link
	back atomic.Bool
}

func (r *returned) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	page, err := r.link.List(ctx, kind, o)
	if r.back.CompareAndSwap(true, false) {
		page.Revision--
	}
	return page, err
}

// A session that ends because the store was set back, as by a restored backup, says so.
//
// Negative control: with plain ErrLost as the cause, the log has "lease: lost" alone.
func TestMemberSaysThatTheStoreHasGoneBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &returned{link: &link{FullBackend: newBackend(t)}}
		defer b.Close()
		var log strings.Builder // written by the goroutine in Run alone, and read after its end
		m, err := lease.NewMembers(b, "quotas", &lease.Options{TTL: ttl, Server: "one", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }() // ends at cancel
		time.Sleep(2 * ttl)
		b.back.Store(true)
		time.Sleep(2 * ttl)
		if n := m.Live(); n != 1 {
			t.Errorf("%d live after the next session has begun, want 1", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := log.String(); strings.Count(got, "lease: lost: lease: the store has gone back in time") != 1 {
			t.Errorf("the log does not say once why the session has ended:\n%s", got)
		}
	})
}

func TestMembersNeedANameAndABackendWithLeases(t *testing.T) {
	b := newBackend(t)
	defer b.Close()
	if _, err := lease.NewMembers(b, "", nil); err == nil {
		t.Error("no name")
	}
	if _, err := lease.NewMembers(nil, "x", nil); err == nil {
		t.Error("no backend")
	}
	m, err := lease.NewMembers(b, "x", &lease.Options{TTL: 3 * time.Second})
	if err != nil || m.TTL() != 3*time.Second || m.String() != `members of "x"` || m.Live() != 0 {
		t.Errorf("%v, %v", m, err)
	}
}
