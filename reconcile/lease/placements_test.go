package lease_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// placements makes one of each kind. The host of a [lease.Manual] has no term.
func placements() map[string]func(b store.Backend) (lease.Placement, error) {
	o := &lease.Options{TTL: ttl, Server: "s", Logger: quiet}
	return map[string]func(b store.Backend) (lease.Placement, error){
		"singleton": func(b store.Backend) (lease.Placement, error) { return lease.NewSingleton(b, "job", o) },
		"sharded":   func(b store.Backend) (lease.Placement, error) { return lease.NewSharded(b, "job", 5, o) },
		"one of several singletons": func(b store.Backend) (lease.Placement, error) {
			s, err := lease.NewSingletons(b, "jobs", []string{"job"}, o)
			if err != nil {
				return nil, err
			}
			return s.Placement("job"), nil
		},
		"set by the host": func(b store.Backend) (lease.Placement, error) {
			m, err := lease.NewManual(b, "job")
			if err == nil {
				m.Set(true, 0)
			}
			return m, err
		},
		"every server": func(store.Backend) (lease.Placement, error) { return lease.EveryServer(), nil },
	}
}

// Work that returns nil is done, whatever places it: it is called once for each shard, which is
// held until Run ends and free after it.
//
// Negative control: the mutant "a shard whose work is done is given up".
func TestWorkThatIsDoneKeepsItsHold(t *testing.T) {
	for name, place := range placements() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBackend(t)
				defer b.Close()
				p, err := place(b)
				var mu sync.Mutex
				calls := map[int]int{}
				s := startPlacement(t, nil, "s", p, err, func(ctx context.Context, shard int) error {
					mu.Lock()
					calls[shard]++
					again := calls[shard] > 1
					mu.Unlock()
					if again {
						<-ctx.Done()
					}
					return nil
				})
				synctest.Wait()
				guards := map[int]store.Compare{}
				for shard := range p.Shards() {
					guards[shard], _ = p.Lease(shard).Held()
				}
				for range 100 {
					time.Sleep(ttl / 10)
					mu.Lock()
					for shard := range p.Shards() {
						if guard, held := p.Lease(shard).Held(); !held || guard != guards[shard] || calls[shard] != 1 {
							t.Errorf("shard %d: held %v behind %v, %d calls; want held behind %v, one", shard, held, guard, calls[shard], guards[shard])
						}
					}
					mu.Unlock()
					if t.Failed() {
						break
					}
				}
				s.end()
			})
		})
	}
}

var errUpdate = errors.New("the server is updated")

// Whatever places the work: its context ends with the cause of Run's, a second Run is refused
// while the first one goes on, Changed tells of the end as of the beginning, only a hold with a
// token has one, and Run returns after its context has ended and not before, also where the work
// is done.
//
// promise L1. Negative controls: the mutants "a hold without a token has the token 0", "the
// singletons of a group are stopped without a cause", "the work of a host is stopped without a
// cause", "work is stopped without a cause", "work on every server that is done ends Run",
// "one of several singletons runs twice" and "the end of a hold is no change".
func TestEveryPlacementRunsAlike(t *testing.T) {
	for name, place := range placements() {
		for _, done := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				b := newBackend(t)
				defer b.Close()
				p, err := place(b)
				if err != nil {
					t.Fatal(err)
				}
				leased := name != "set by the host" && name != "every server"
				ctx, cancel := context.WithCancelCause(t.Context())
				over := make(chan error, 1)
				go func() {
					over <- p.Run(ctx, func(ctx context.Context, shard int) error {
						if token, ok := lease.Token(ctx); ok != leased {
							t.Errorf("%s: token %d, %v; want one: %v", name, token, ok, leased)
						}
						if done {
							return nil
						}
						<-ctx.Done()
						if cause := context.Cause(ctx); !errors.Is(cause, errUpdate) {
							t.Errorf("%s: the work on shard %d ended because of %v, want %v", name, shard, cause, errUpdate)
						}
						return nil
					})
				}()
				changed := func(when string) {
					t.Helper()
					synctest.Wait()
					for shard := range p.Shards() {
						select {
						case <-p.Lease(shard).Changed():
						default:
							t.Errorf("%s: Changed has no value for shard %d %s", name, shard, when)
						}
					}
				}
				changed("that was won")
				soon, stop := context.WithTimeout(ctx, ttl) // so that a Run that is not refused ends
				defer stop()
				if err := p.Run(soon, func(context.Context, int) error { return nil }); !errors.Is(err, lease.ErrRunning) {
					t.Errorf("%s: a second Run: %v, want ErrRunning", name, err)
				}
				time.Sleep(3 * ttl)
				if len(over) > 0 {
					t.Errorf("%s: Run has returned before its context ended", name)
				}
				cancel(errUpdate)
				if err := <-over; err != nil {
					t.Errorf("%s: Run: %v", name, err)
				}
				if name != "every server" { // it holds for ever
					changed("that was lost")
				}
			})
		}
	}
}

// A placement keeps one record for each shard that is held. One that is divided by a plan has
// two more, the plan and that of the member. At rest a placement writes nothing, and after a
// stop the plan alone is left. Each of its leases has a name of its own.
//
// Negative controls: the mutants "a placement without members announces one" and "a lease has no
// name".
func TestRecordsOfEachPlacement(t *testing.T) {
	for name, place := range placements() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBackend(t)
				defer b.Close()
				p, err := place(b)
				s := startPlacement(t, nil, "s", p, err, func(ctx context.Context, _ int) error { <-ctx.Done(); return nil })
				count := func() (n int, at store.Revision) {
					page, err := b.List(t.Context(), lease.Kind, store.ListOptions{})
					if err != nil {
						t.Fatal(err)
					}
					return len(page.Records), page.Revision
				}
				time.Sleep(3 * ttl)
				held, left := 1, 0
				switch name {
				case "sharded", "one of several singletons":
					held, left = p.Shards()+2, 1
				case "set by the host", "every server":
					held = 0
				}
				n, at := count()
				if n != held {
					t.Errorf("%d records while it runs, want %d:\n%s", n, held, records(t, b))
				}
				names := map[string]bool{}
				for shard := range p.Shards() {
					names[p.Lease(shard).Name()] = true
				}
				if len(names) != p.Shards() || names[""] {
					t.Errorf("the leases have the names %v", names)
				}
				time.Sleep(20 * ttl)
				if _, now := count(); now != at {
					t.Errorf("%d writes at rest, want none", now-at)
				}
				s.end()
				if n, _ := count(); n != left {
					t.Errorf("%d records after it, want %d:\n%s", n, left, records(t, b))
				}
			})
		})
	}
}

// Changed tells a member of another one that joins, says something or leaves. What that had said
// before counts again when it comes back.
//
// Negative controls: the mutants "members do not tell what they hear of others" and "what was
// said before the start is not announced".
func TestMembersAreToldOfEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		defer b.Close()
		first, leave := joinMembers(t, b)
		defer leave()
		time.Sleep(2 * ttl)
		other, err := lease.NewMembers(b, "quotas", &lease.Options{TTL: ttl, Server: "other", Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		again, leaveAgain := context.WithCancel(t.Context())
		over := make(chan error, 2)
		for _, c := range []struct {
			what string
			do   func()
			live int
			said string
		}{
			{"joined", func() {
				other.Say("early")
				go func() { over <- other.Run(ctx) }()
			}, 2, "early"},
			{"said something", func() { other.Say("late") }, 2, "late"},
			{"left", cancel, 1, ""},
			{"came back", func() { go func() { over <- other.Run(again) }() }, 2, "late"},
			{"left again", leaveAgain, 1, ""},
		} {
			synctest.Wait()
			select {
			case <-first.Changed():
			default:
			}
			c.do()
			synctest.Wait()
			select {
			case <-first.Changed():
			default:
				t.Errorf("the other member %s, and Changed has no value", c.what)
			}
			if live, said := first.Live(), first.Said()["other"]; live != c.live || said != c.said {
				t.Errorf("the other member %s: %d live, it said %q; want %d, %q", c.what, live, said, c.live, c.said)
			}
		}
		for range 2 {
			if err := <-over; err != nil {
				t.Error(err)
			}
		}
	})
}

// silent is a backend that refuses to say what members measured, so many times.
type silent struct {
	store.FullBackend
	refuses int
}

func (s *silent) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	for _, op := range t.Ops {
		if op.Put == nil || s.refuses == 0 {
			continue
		}
		text, err := op.Put.Encode()
		if err != nil {
			return 0, err
		}
		if strings.Contains(string(text), `"loads":"`) {
			s.refuses--
			return 0, errors.New("the store is away")
		}
	}
	return s.FullBackend.Commit(ctx, t)
}

// What was measured while the store was away is announced at a later measurement, although it
// has not changed since.
//
// promise L2. Negative control: the mutant "loads whose announcement failed are not announced
// again".
func TestLoadsMeasuredWhileTheStoreIsAwayAreAnnouncedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &silent{FullBackend: newBackend(t), refuses: 2}
		defer b.Close()
		p, err := lease.NewSharded(b, "job", 4, &lease.Options{
			TTL: ttl, Server: "s", Logger: quiet, Load: func(int) int64 { return 10 },
		})
		s := startPlacement(t, nil, "s", p, err, newLedger(t).work("s", 0))
		time.Sleep(20 * ttl) // five measurements, of which the first counts for nothing
		text := records(t, b.FullBackend)
		s.end()
		if b.refuses != 0 {
			t.Errorf("%d announcements are to be refused still: the test shows nothing", b.refuses)
		}
		if want := `"loads":"0:10 1:10 2:10 3:10"`; !strings.Contains(text, want) {
			t.Errorf("the records are\n%s\nwant %s in them", text, want)
		}
	})
}
