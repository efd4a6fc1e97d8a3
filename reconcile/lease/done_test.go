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
	"github.com/tendhq/tend/store/memory"
)

// Work that returns nil is done, whatever places it: it is called once for each shard, which is
// held until Run ends and free after it.
//
// Negative control: the mutant "a shard whose work is done is given up".
func TestWorkThatIsDoneKeepsItsHold(t *testing.T) {
	o := &lease.Options{TTL: ttl, Server: "s", Logger: quiet}
	for name, place := range map[string]func(b store.Backend) (lease.Placement, error){
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
				m.Set(true, 3)
			}
			return m, err
		},
		"every server": func(store.Backend) (lease.Placement, error) { return lease.EveryServer(), nil },
	} {
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

// silent is a backend that refuses to say what members measured, so many times.
type silent struct {
	*memory.Backend
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
	return s.Backend.Commit(ctx, t)
}

// What was measured while the store was away is announced at a later measurement, although it
// has not changed since.
//
// promise L2. Negative control: the mutant "loads whose announcement failed are not announced
// again".
func TestLoadsMeasuredWhileTheStoreIsAwayAreAnnouncedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &silent{Backend: newBackend(t), refuses: 2}
		defer b.Close()
		p, err := lease.NewSharded(b, "job", 4, &lease.Options{
			TTL: ttl, Server: "s", Logger: quiet, Load: func(int) int64 { return 10 },
		})
		s := startPlacement(t, nil, "s", p, err, newLedger(t).work("s", 0))
		time.Sleep(20 * ttl) // five measurements, of which the first counts for nothing
		text := records(t, b.Backend)
		s.end()
		if b.refuses != 0 {
			t.Errorf("%d announcements are to be refused still: the test shows nothing", b.refuses)
		}
		if want := `"loads":"0:10 1:10 2:10 3:10"`; !strings.Contains(text, want) {
			t.Errorf("the records are\n%s\nwant %s in them", text, want)
		}
	})
}
