package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// hashes are of the keys that these servers divide; each is in one shard of a
// division, and in another of another.
const hashes = 512

// divide starts a server that divides the keys into so many shards, with a ledger that
// catches a key worked on twice, by whichever division.
func divide(t *testing.T, b store.FullBackend, l *ledger, name string, shards int, linger time.Duration) *server {
	t.Helper()
	return divideOn(t, &link{FullBackend: b}, l, name, shards, linger)
}

func divideOn(t *testing.T, on *link, l *ledger, name string, shards int, linger time.Duration) *server {
	t.Helper()
	return startSharded(t, on, ttl, name, shards, func(ctx context.Context, shard int) error {
		for h := range hashes {
			if lease.Shard(uint64(h), shards) == shard {
				l.enter(name, h)
				defer l.leave(name, h)
			}
		}
		<-ctx.Done()
		if linger > 0 { // the race detector does not bear timers of several goroutines that are due at once
			select {
			case <-time.After(linger):
			case <-lease.Gone(ctx):
			}
		}
		return nil
	})
}

func wantKeys(t *testing.T, l *ledger, when string, want map[string]bool) {
	t.Helper()
	all := 0
	for name, n := range l.owners() {
		if all += n; !want[name] {
			t.Errorf("%s: %s works on %d keys, want none", when, name, n)
		}
	}
	if all != hashes {
		t.Errorf("%s: %d of %d keys are worked on: %v", when, all, hashes, l.owners())
	}
}

// A deployment that changes the number of shards, server by server, has no key worked
// on by a server of before and one of after.
//
// promise L1. Negative controls: with the members of both divisions taken for equals, a
// key was worked on by two; with only the rule and not the records that are left asked
// about, too, while the last one of before drained.
func TestDeploymentThatChangesTheNumberOfShardsRunsNoKeyTwice(t *testing.T) {
	for name, change := range map[string][2]int{"more": {16, 64}, "fewer": {64, 16}, "from one": {1, 32}, "to one": {32, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, l := newBackend(t), newLedger(t)
				defer b.Close()
				const drain = 3 * time.Second
				old1 := divide(t, b, l, "old1", change[0], drain)
				old2 := divide(t, b, l, "old2", change[0], drain)
				time.Sleep(2 * ttl)
				wantKeys(t, l, "before", map[string]bool{"old1": true, "old2": true})
				new1 := divide(t, b, l, "new1", change[1], drain)
				time.Sleep(2 * ttl)
				wantKeys(t, l, "the first has come", map[string]bool{"old1": true, "old2": true})
				old1.end()
				time.Sleep(2 * ttl)
				wantKeys(t, l, "one of before has left", map[string]bool{"old2": true})
				new2 := divide(t, b, l, "new2", change[1], drain)
				time.Sleep(2 * ttl)
				wantKeys(t, l, "the second has come", map[string]bool{"old2": true})
				old2.end()
				time.Sleep(2 * ttl)
				wantKeys(t, l, "after", map[string]bool{"new1": true, "new2": true})
				back := divide(t, b, l, "back", change[0], drain)
				time.Sleep(2 * ttl)
				wantKeys(t, l, "one is rolled back", map[string]bool{"new1": true, "new2": true})
				for _, s := range []*server{new1, new2} {
					s.link.sever() // they die
					time.Sleep(2 * ttl)
				}
				wantKeys(t, l, "all are rolled back", map[string]bool{"back": true})
				for _, s := range []*server{new1, new2} {
					s.stop(errors.New("test is over"))
					s.link.heal()
					<-s.done
				}
				back.end()
			})
		})
	}
}

// A server that joined late, of the division that ruled, gives its shards up to the division
// that rules next, and drains them first.
//
// Negative control: with the records that are left not asked about, the next one began
// while the latecomer drained.
func TestLatecomerOfTheOldDivisionGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		oldest := divide(t, b, l, "oldest", 16, time.Second)
		time.Sleep(ttl)
		next := divide(t, b, l, "next", 64, time.Second)
		time.Sleep(ttl)
		late := divide(t, b, l, "late", 16, 5*time.Second)
		time.Sleep(2 * ttl)
		wantKeys(t, l, "before", map[string]bool{"oldest": true, "late": true})
		if l.owners()["late"] == 0 {
			t.Error("the latecomer has no part of the work of its division")
		}
		oldest.end()
		time.Sleep(2 * ttl)
		wantKeys(t, l, "after", map[string]bool{"next": true})
		next.end()
		time.Sleep(2 * ttl)
		wantKeys(t, l, "at last", map[string]bool{"late": true})
		late.end()
	})
}

// A claim that is on its way when the oldest member leaves is refused: the servers that rule
// next have looked, and seen none.
//
// Negative control: without the rule among its conditions it landed, and its shards were worked on by both.
func TestClaimMadeUnderTheRuleOfBeforeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		oldest := divide(t, b, l, "oldest", 64, 0)
		time.Sleep(ttl)
		next := divide(t, b, l, "next", 16, 0)
		time.Sleep(ttl)
		late := divideOn(t, &link{FullBackend: b, delay: 3 * time.Second}, l, "late", 64, 0)
		for l.owners()["oldest"] == hashes {
			time.Sleep(50 * time.Millisecond) // until it has freed shards for the late one
		}
		time.Sleep(time.Second)
		if n := l.owners()["late"]; n != 0 {
			t.Fatalf("the late one works on %d keys already: this shows nothing", n)
		}
		oldest.end()
		time.Sleep(2 * ttl)
		wantKeys(t, l, "after", map[string]bool{"next": true})
		next.end()
		late.end()
	})
}
