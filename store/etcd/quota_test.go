//go:build unix

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/storetest/campaign"
)

// The budget that the servers of these tests share.
const (
	sharedRate  = 40 // calls per second
	sharedBurst = 4
	sharedTTL   = 2 * time.Second
)

// spender is a server that makes as many calls as its part of a budget allows.
type spender struct {
	name    string
	set     *quota.Set
	members *lease.Members
	link    *campaign.Proxy // its way to etcd

	stop  context.CancelFunc
	ended sync.WaitGroup

	mu    sync.Mutex // guards calls
	calls []spent
}

// spent is a call: it was asked for at one time, and allowed by the other.
type spent struct {
	server          string
	asked, occurred time.Time
}

// newSpender makes a server, a member among those of that name. It runs until the
// test ends, or is stopped.
func newSpender(t *testing.T, prefix, among, name string) *spender {
	t.Helper()
	s := &spender{name: name, link: campaign.NewProxy(t, server)}
	// What etcd answers late, or not at all, is asked again within the lease.
	b := openAt(t, s.link.Addr(), etcd.Options{Prefix: prefix, Timeout: sharedTTL / 3})
	var err error
	s.members, err = lease.NewMembers(b, among, &lease.Options{TTL: sharedTTL, Server: name, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s.set, err = quota.NewSet(&quota.Options{
		Members: s.members,
		Limits: func(quota.Name) (quota.Limits, error) {
			return quota.Limits{
				Read:  quota.Rate{PerSecond: sharedRate, Burst: sharedBurst},
				Judge: func(error) quota.Verdict { return quota.Verdict{} },
			}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	q, err := s.set.Get(quota.Name{API: "cloud"})
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	s.ended.Go(func() {
		if err := s.set.Run(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	for range 2 {
		s.ended.Go(func() { s.spend(ctx, q) })
	}
	t.Cleanup(s.end)
	return s
}

func (s *spender) end() { s.stop(); s.ended.Wait() }

func (s *spender) spend(ctx context.Context, q *quota.Quota) {
	for ctx.Err() == nil {
		c := spent{server: s.name, asked: time.Now()}
		err := q.Do(ctx, quota.Read, func(context.Context) error {
			c.occurred = time.Now()
			return nil
		})
		if err == nil {
			s.mu.Lock()
			s.calls = append(s.calls, c)
			s.mu.Unlock()
		} else if errors.Is(err, quota.ErrNoBudget) {
			pause(ctx, 20*time.Millisecond) // it has no part: the question costs nothing
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (s *spender) share() float64 { return s.set.Snapshot()[0].Share }

func (s *spender) made() []spent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// overspent finds the stretches of time in which more calls were made than the
// budget has. A call counts if it was asked for and allowed within the stretch, so
// that no delay of the machine can bring together what was allowed apart. Beyond
// the rate a stretch may have what lay in the buckets at its beginning and at one
// change of the members, and a call for each server.
func overspent(calls []spent, servers int) (problems []string) {
	for _, length := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second} {
		most := int(sharedRate*length.Seconds()) + 2*sharedBurst + servers
		for _, first := range calls {
			end, n := first.asked.Add(length), 0
			for _, c := range calls {
				if !c.asked.Before(first.asked) && !c.occurred.After(end) {
					n++
				}
			}
			if n > most {
				problems = append(problems, fmt.Sprintf("%d calls in %v, want at most %d", n, length, most))
				break
			}
		}
	}
	return problems
}

// tardiness watches servers for as long as ctx lives: it returns for how long one
// of them, at most, had more than the members that any server knows of leave to it.
// That is what news took; the promise is made for news that takes less than a TTL.
func tardiness(ctx context.Context, all func() []*spender) (longest time.Duration) {
	since := map[string]time.Time{}
	for ctx.Err() == nil {
		servers, most := all(), 1
		for _, s := range servers {
			most = max(most, s.members.Live())
		}
		for _, s := range servers {
			share, live := s.share(), s.members.Live()
			if late := share > 1.001/float64(most) || live == 0 && share > 0; !late {
				delete(since, s.name)
				continue
			}
			if since[s.name].IsZero() {
				since[s.name] = time.Now()
			}
			longest = max(longest, time.Since(since[s.name]))
		}
		pause(ctx, 10*time.Millisecond)
	}
	return longest
}

// await waits until each of the servers has its part of n, and has used it.
func await(t *testing.T, what string, n int, servers ...*spender) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; pause(t.Context(), 10*time.Millisecond) {
		if !slices.ContainsFunc(servers, func(s *spender) bool { return s.share() < 0.999/float64(n) || s.share() > 1.001/float64(n) }) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: it did not come to parts of one in %d: %v", what, n, shares(servers))
		}
	}
	for _, s := range servers {
		had := len(s.made())
		for deadline := time.Now().Add(patience); len(s.made()) < had+5; pause(t.Context(), 10*time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %s makes no calls", what, s.name)
			}
		}
	}
}

func shares(servers []*spender) (all []float64) {
	for _, s := range servers {
		all = append(all, s.share())
	}
	return all
}

// Servers that join, leave and are cut off share one budget: however long one
// looks, together they make no more calls than it has. One that is cut off stops by
// itself, and its part goes to the servers that are left.
//
// Nothing here depends on how fast things are: calls are counted against the time
// in which they were certainly allowed, and a machine that is so busy that a server
// is told, or tells the time, later than a lease lives has the test begin again.
//
// Negative control: TestBudgetCheckCatchesServersThatDoNotShare; and with follow
// taking every part at once, not a TTL later, 59 calls were made in 1 s.
//
// promise Q6
func TestBudgetIsKeptWhileServersJoinLeaveAndAreCutOff(t *testing.T) {
	for try := 1; ; try++ {
		problems, late := shareABudget(t, newPrefix())
		t.Logf("news took %v at most; %d problems", late.Round(time.Millisecond), len(problems))
		switch {
		case len(problems) == 0:
			return
		case late < sharedTTL:
			t.Fatal(strings.Join(problems, "\n"))
		case try == 10:
			t.Fatalf("in %d tries news was never in time; the last: %s", try, strings.Join(problems, "\n"))
		}
	}
}

func shareABudget(t *testing.T, prefix string) (problems []string, late time.Duration) {
	t.Helper()
	var mu sync.Mutex // guards up and all
	var up, all []*spender
	join := func(name string) *spender {
		s := newSpender(t, prefix, "cloud", name)
		mu.Lock()
		defer mu.Unlock()
		up, all = append(up, s), append(all, s)
		return s
	}
	leave := func(s *spender) {
		mu.Lock()
		up = slices.DeleteFunc(slices.Clone(up), func(o *spender) bool { return o == s })
		mu.Unlock()
	}
	ctx, cancel := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() {
		late = tardiness(ctx, func() []*spender { mu.Lock(); defer mu.Unlock(); return slices.Clone(up) })
	})

	a := join("a")
	await(t, "alone", 1, a)
	a.link.Set(campaign.Blackhole) // it hears nothing of b, and spends until its lease is over
	b := join("b")
	await(t, "b has joined, and a is cut off", 1, b)
	a.link.Set(campaign.Pass)
	await(t, "a is back", 2, a, b)
	c := join("c")
	await(t, "c has joined", 3, a, b, c)
	leave(c)
	c.end()
	await(t, "c has left", 2, a, b)
	b.link.Set(campaign.Blackhole) // it goes on, as it may, and cannot renew its lease
	await(t, "b is cut off", 1, a)
	if b.share() != 0 {
		problems = append(problems, fmt.Sprintf("b is cut off and has a part of %v", b.share()))
	}
	b.link.Set(campaign.Reset) // and is gone for good
	leave(b)
	b.end()

	cancel()
	watch.Wait()
	a.end()
	var calls []spent
	for _, s := range all {
		calls = append(calls, s.made()...)
	}
	t.Logf("%d calls", len(calls))
	return append(problems, overspent(calls, len(all))...), late
}

func TestBudgetCheckCatchesServersThatDoNotShare(t *testing.T) {
	prefix := newPrefix()
	var all []*spender
	for _, name := range []string{"a", "b", "c"} { // each alone among members of its own
		all = append(all, newSpender(t, prefix, "cloud-of-"+name, name))
	}
	for deadline := time.Now().Add(patience); ; pause(t.Context(), 100*time.Millisecond) {
		var calls []spent
		for _, s := range all {
			calls = append(calls, s.made()...)
		}
		if len(overspent(calls, len(all))) > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("three servers with the whole budget each were not noticed")
		}
	}
}
