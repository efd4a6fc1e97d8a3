package lease_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// machine has the clocks of one server, beside the monotonic one of the bubble.
type machine struct {
	began     time.Time
	slept     atomic.Int64 // how long it was suspended
	set       atomic.Int64 // how far its wall clock was set
	hasUptime bool
}

func (m *machine) wall() time.Duration {
	return time.Since(m.began) + time.Duration(m.slept.Load()+m.set.Load())
}

func (m *machine) uptime() time.Duration {
	return time.Since(m.began) + time.Duration(m.slept.Load())
}

// start is startSharded, on a machine whose clocks are given.
func (m *machine) start(t *testing.T, l *link, ttl time.Duration, name string, shards int, work lease.Work) *server {
	t.Helper()
	m.began = time.Now()
	p, err := lease.NewSharded(l, "job", shards, &lease.Options{TTL: ttl, Server: name, Logger: quiet})
	if err == nil {
		boot := m.uptime
		if !m.hasUptime {
			boot = nil
		}
		lease.SetClock(p, m.wall, boot)
	}
	return startPlacement(t, l, name, p, err, work)
}

// A machine that was suspended for longer than its lease has a monotonic clock by which
// the lease is good. It is not trusted: by the time since the machine was started, or
// where that cannot be read by the wall clock. The server begins nothing before it has
// renewed, and what it had begun is told to end.
//
// promise L2. Negative control: with elapsed taken from the monotonic clock alone, the
// deposed server held its shards until its next renewal.
func TestSuspendedHolderIsNotTrustedBeforeItHasRenewed(t *testing.T) {
	for name, hasUptime := range map[string]bool{"by the uptime": true, "by the wall clock": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBackend(t)
				defer b.Close()
				m := &machine{hasUptime: hasUptime}
				l := &link{FullBackend: b}
				var ended atomic.Int32
				s := m.start(t, l, ttl, "suspended", 2, func(ctx context.Context, _ int) error {
					<-ctx.Done()
					ended.Add(1)
					return nil
				})
				time.Sleep(time.Second)
				for shard := range 2 {
					if _, held := s.p.Lease(shard).Held(); !held {
						t.Fatalf("shard %d is not held", shard)
					}
				}
				l.sever() // its network comes back later than it does
				m.slept.Add(int64(time.Minute))
				if _, held := s.p.Lease(0).Held(); held {
					t.Error("held after a minute of suspension, before it was renewed")
				}
				if hasUptime { // it is certain: what runs is told at once
					synctest.Wait()
					if ended.Load() != 2 {
						t.Errorf("%d of 2 calls of work were ended after a minute of suspension", ended.Load())
					}
				}
				time.Sleep(ttl)
				if ended.Load() != 2 {
					t.Errorf("%d of 2 calls of work have ended a TTL after the resume", ended.Load())
				}
				l.heal()
				time.Sleep(3 * ttl)
				if _, held := s.p.Lease(0).Held(); !held {
					t.Error("not held again after the network came back")
				}
				s.end()
			})
		})
	}
}

// A member that was suspended for longer than its lease counts no members before it has
// renewed: the others have divided its part among themselves.
//
// promise L2
func TestSuspendedMemberCountsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		defer b.Close()
		machine := &machine{began: time.Now(), hasUptime: true}
		l := &link{FullBackend: b}
		m, err := lease.NewMembers(l, "quotas", &lease.Options{TTL: ttl, Server: "suspended", Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		m.SetClock(machine.wall, machine.uptime)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }() // ends at cancel
		time.Sleep(time.Second)
		if n := m.Live(); n != 1 {
			t.Fatalf("%d live, want 1", n)
		}
		l.sever()
		machine.slept.Add(int64(time.Minute))
		if n := m.Live(); n != 0 {
			t.Errorf("%d live as seen after a minute of suspension, before it has renewed; want none", n)
		}
		l.heal()
		time.Sleep(3 * ttl)
		if n := m.Live(); n != 1 {
			t.Errorf("%d live after the network came back, want 1", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A suspension shorter than the trust, which may be a short one, costs one renewal and no hold.
func TestShortSuspensionCostsARenewalAndNoHold(t *testing.T) {
	for _, nap := range []time.Duration{3 * time.Second, 200 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			b, l := newBackend(t), newLedger(t)
			defer b.Close()
			m := &machine{hasUptime: true}
			s := m.start(t, &link{FullBackend: b}, ttl, "napping", 2, l.work("napping", 0))
			time.Sleep(time.Second)
			m.slept.Add(int64(nap))
			if _, held := s.p.Lease(0).Held(); held {
				t.Errorf("held right after a suspension of %v, before it was renewed", nap)
			}
			time.Sleep(time.Second) // a renewal takes 900 ms
			if _, held := s.p.Lease(0).Held(); !held || l.begun() != 2 {
				t.Errorf("held %v after a renewal, with %d shards begun; want the two from before", held, l.begun())
			}
			s.end()
		})
	}
}

// refusing is a link that refuses each renewal at once, and counts them.
type refusing struct {
	*link
	renewals atomic.Int64
}

func (r *refusing) Renew(context.Context, store.LeaseID) error {
	r.renewals.Add(1)
	return errors.New("refused")
}

// A store that refuses renewals is asked every tenth of a TTL, however often the holder
// asks whether it holds while its wall clock is in doubt.
//
// Negative control: with a renewal made at once in doubt after a failure too, it was asked
// with each question.
func TestDoubtDoesNotAskAStoreThatRefusesMoreOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		defer b.Close()
		m, l := &machine{}, &refusing{link: &link{FullBackend: b}}
		m.began = time.Now()
		p, err := lease.NewSharded(l, "job", 1, &lease.Options{TTL: ttl, Server: "s", Logger: quiet})
		if err == nil {
			lease.SetClock(p, m.wall, nil)
		}
		s := startPlacement(t, l.link, "s", p, err, newLedger(t).work("s", 0))
		time.Sleep(time.Millisecond)
		m.set.Store(int64(time.Hour))
		for range 5000 { // of a millisecond, half a TTL
			p.Lease(0).Held()
			time.Sleep(time.Millisecond)
		}
		if n := l.renewals.Load(); n == 0 || n > 7 {
			t.Errorf("%d renewals in half a TTL, want one at once and then one every tenth of it", n)
		}
		s.end()
	})
}

// Wall clocks that jump by hours every second end no hold, and every shard is owned
// within the time that is stated. Where the time since the machine was started can be
// read, they do not even cost a renewal.
//
// promise L2. Negative control: with a hold ended by each jump, as for a suspension that
// is certain, no shard was held for longer than a second.
func TestWallClocksThatJumpEndNoHold(t *testing.T) {
	for name, hasUptime := range map[string]bool{"with the uptime": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const shards = 8
				b, l := newBackend(t), newLedger(t)
				defer b.Close()
				var servers []*server
				var machines []*machine
				for _, name := range []string{"a", "b", "c"} {
					m := &machine{hasUptime: hasUptime}
					machines = append(machines, m)
					// Not 900 ms: the answer would come at the instant of the last look before
					// the next jump, and which of them is first is up to the scheduler.
					servers = append(servers, m.start(t, &link{FullBackend: b, answer: 850 * time.Millisecond}, ttl, name, shards, l.work(name, 0)))
				}
				random := rand.New(rand.NewPCG(1, 2))
				lastHeld := make([]time.Time, shards)
				for i := range lastHeld {
					lastHeld[i] = time.Now()
				}
				settled := 0
				for step := range 3000 { // 100 ms each
					if step%10 == 0 {
						for _, m := range machines {
							m.set.Store(int64(time.Duration(random.IntN(10)-5) * time.Hour))
						}
					}
					for shard := range shards {
						holders := 0
						for _, s := range servers {
							if _, held := s.p.Lease(shard).Held(); held {
								holders++
							}
						}
						switch {
						case holders > 1:
							t.Fatalf("shard %d has %d trusted holders", shard, holders)
						case holders == 1:
							lastHeld[shard] = time.Now()
						case time.Since(lastHeld[shard]) > ttl+ttl/10:
							t.Fatalf("shard %d was without a trusted holder for %v", shard, time.Since(lastHeld[shard]))
						}
					}
					if step == 300 {
						settled = l.begun()
					}
					time.Sleep(100 * time.Millisecond)
				}
				if n := l.begun(); n != settled {
					t.Errorf("%d holds were begun after the first 30 s, want none: no clock ends one", n-settled)
				}
				for _, s := range servers {
					s.end()
				}
			})
		})
	}
}

func TestTTLOfAgesIsRefused(t *testing.T) {
	b := newBackend(t)
	defer b.Close()
	for _, ttl := range []time.Duration{1<<63 - 1, 25 * time.Hour, time.Second, -1} {
		if _, err := lease.NewSingleton(b, "job", &lease.Options{TTL: ttl}); err == nil {
			t.Errorf("a TTL of %v is accepted", ttl)
		}
	}
}
