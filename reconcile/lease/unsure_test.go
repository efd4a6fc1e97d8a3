package lease_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
)

// logBuffer is a log that is read while others write to it.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), s)
}

// A server whose clocks never agree renews its lease and may never trust it. It gives its
// shards up after a TTL, to servers that can run them, says so once, and takes part again when
// its clocks agree.
//
// promise L2. Before, it renewed for as long as it lived: the other server had its own half and
// never this one's, and nothing was logged.
func TestServerThatIsNeverSureOfItsLeaseGivesItsShardsUp(t *testing.T) {
	for name, shards := range map[string]int{"a singleton": 1, "shards": 8} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, l := newBackend(t), newLedger(t)
				defer b.Close()
				var mad atomic.Bool
				var reads atomic.Int64
				began := time.Now()
				wall := func() time.Duration {
					if mad.Load() { // each reading is another hour
						return time.Duration(reads.Add(1)) * time.Hour
					}
					return time.Since(began)
				}
				log := new(logBuffer)
				p, err := lease.NewSharded(b, "job", shards, &lease.Options{TTL: ttl, Server: "unsure", Logger: slog.New(slog.NewTextHandler(log, nil))})
				if err == nil {
					lease.SetClock(p, wall, nil)
				}
				unsure := startPlacement(t, &link{FullBackend: b}, "unsure", p, err, l.work("unsure", 0))
				synctest.Wait()
				other := startSharded(t, &link{FullBackend: b}, ttl, "other", shards, l.work("other", 0))
				time.Sleep(2 * ttl)
				if n := l.owners()["unsure"]; n != (shards+1)/2 {
					t.Fatalf("it has %d of %d shards before, want half", n, shards)
				}

				mad.Store(true)
				time.Sleep(2*ttl + ttl/2)
				if got := l.owners(); got["other"] != shards {
					t.Errorf("owners %v after the clocks disagreed for two and a half TTLs, want all %d with the other", got, shards)
				}
				health := p.(interface{ Health() error }).Health
				if err := health(); err == nil || !strings.Contains(err.Error(), "clocks") {
					t.Errorf("Health: %v, want that the clocks disagree", err)
				}
				time.Sleep(time.Hour)
				if n := log.count("clocks"); n != 1 {
					t.Errorf("the log names the clocks %d times in an hour, want once:\n%s", n, log.b.String())
				}

				mad.Store(false)
				time.Sleep(2 * ttl)
				if n := l.owners()["unsure"]; shards > 1 && n != shards/2 {
					t.Errorf("it has %d of %d shards after its clocks agreed again, want half", n, shards)
				}
				if err := health(); err != nil {
					t.Errorf("Health after the clocks agreed again: %v", err)
				}
				unsure.end()
				other.end()
			})
		})
	}
}
