package lease_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// A watch can fall silent without a sign of it, on a connection that nothing comes through any
// more. The server renews, so that others wait for it to take its part; it takes it, after at
// most a third of a TTL more.
//
// promise L2. Negative control: mutant "a server trusts that its watch tells it all".
func TestServerWhoseWatchIsSilentTakesOver(t *testing.T) {
	for name, shards := range map[string]int{"a singleton": 1, "shards": 8} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, l := newBackend(t), newLedger(t)
				defer b.Close()
				first := start(t, b, "first", shards, l.work("first", 0))
				synctest.Wait()
				second := start(t, b, "deaf", shards, l.work("deaf", 0))
				time.Sleep(2 * ttl)
				if got := l.owners()["deaf"]; got != shards/2 {
					t.Fatalf("it has %d shards of %d before, want half", got, shards)
				}
				second.link.hushed.Store(true)
				first.link.sever()
				time.Sleep(ttl + ttl/10 + ttl/3 + 2*time.Second)
				if got := l.owners()["deaf"]; got != shards {
					t.Errorf("it has %d shards after the other has gone, want all %d", got, shards)
				}
				first.link.heal()
				time.Sleep(2 * ttl)
				if got := l.owners(); got["first"] != shards/2 || got["deaf"] != shards-shards/2 {
					t.Errorf("it gives nothing to one that comes back: %v", got)
				}
				first.end()
				second.end()
			})
		})
	}
}

// The lists of many servers of many shards are no load for the store: with so many more shards
// there are as many fewer lists.
//
// Negative control: mutant "each renewal is followed by a list of all shards".
func TestListsAreFewerWithMoreShards(t *testing.T) {
	most := map[int]int64{100: 31, 4500: 7} // in 30 renewals
	for shards, n := range most {
		synctest.Test(t, func(t *testing.T) {
			b, l := newBackend(t), newLedger(t)
			defer b.Close()
			s := startSharded(t, &link{FullBackend: b}, ttl, "one", shards, l.work("one", 0))
			time.Sleep(2 * ttl)
			if got := l.owners()["one"]; got != shards {
				t.Fatalf("it has %d shards of %d", got, shards)
			}
			before := s.link.lists.Load()
			time.Sleep(10 * ttl)
			if got := s.link.lists.Load() - before; got < n/2 || got > n {
				t.Errorf("%d shards: %d lists in ten TTLs, want at most %d", shards, got, n)
			}
			s.end()
		})
	}
}
