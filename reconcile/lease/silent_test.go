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
