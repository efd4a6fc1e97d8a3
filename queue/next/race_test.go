package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tendhq/tend/internal/campaign"
)

// stamps proves, under concurrency, that no key runs twice at once and that a
// run which begins after an add has seen it: each add takes a new stamp first,
// each run reads the stamp when it begins.
type stamps struct {
	added, seen atomic.Int64
	running     atomic.Int32
	ran         chan struct{} // a token: there was a run
}

// begin notes the begin of a run; its error says that there is another.
func (s *stamps) begin() (end func(), err error) {
	if n := s.running.Add(1); n != 1 {
		err = fmt.Errorf("%d runs at once", n)
	}
	s.seen.Store(s.added.Load())
	return func() {
		s.running.Add(-1)
		select {
		case s.ran <- struct{}{}:
		default:
		}
	}, err
}

// promise Q1, Q2
// Negative control: TestStampsCatchALostAddAndASecondRun. And by hand: with
// lendOne leaving the key ready, Done found its item settled.
// Weak point 003 (b).
func TestEveryAddIsSeenAndNoKeyRunsTwiceAtOnce(t *testing.T) {
	for _, o := range []*Options[string]{
		{Shards: 1},
		{Shards: 8},
		{Tenant: func(key string) string { return key[:2] }, TenantRunning: 3},
		{Debounce: Debounce{Window: 100 * time.Microsecond}},
	} {
		o.Policy = func(int, error) time.Duration { return 50 * time.Microsecond }
		t.Run(fmt.Sprintf("shards=%d tenants=%v debounce=%v", o.Shards, o.Tenant != nil, o.Debounce.on()), func(t *testing.T) {
			runStamps(t, newQueue(t, o))
		})
	}
}

func runStamps(t *testing.T, q *Queue[string]) {
	const keys, adders, workers = 50, 4, 8
	adds := 2000
	if long := campaign.Length(); long > 0 {
		adds = int(long / (20 * time.Microsecond)) // what it takes on a small machine
		t.Logf("campaign: %d operations", adds*adders)
	}
	all := map[string]*stamps{}
	var names []string
	for n := range keys {
		names = append(names, fmt.Sprintf("key%02d", n))
		all[names[n]] = &stamps{ran: make(chan struct{}, 1)}
	}
	var made, used sync.WaitGroup
	for range workers {
		used.Go(func() { work(t, q, all) })
	}
	for range adders {
		made.Go(func() {
			for range adds {
				name := names[rand.IntN(keys)]
				all[name].added.Add(1)
				o := AddOptions{Priority: At(int8(rand.IntN(3))), Urgent: rand.IntN(10) == 0}
				if rand.IntN(4) == 0 {
					o.After = time.Duration(rand.IntN(300)) * time.Microsecond
				}
				if err := q.AddWith(name, o); err != nil {
					t.Error(err)
				}
			}
		})
	}
	made.Wait()
	for _, name := range names {
		q.AddWith(name, AddOptions{Urgent: true})
	}
	if err := settle(t.Context(), all); err != nil {
		t.Error(err)
	}
	checkInvariants(t, q)
	if err := q.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	used.Wait()
}

// work runs keys until the queue stops; one run in eight fails.
func work(t *testing.T, q *Queue[string], all map[string]*stamps) {
	it, err := q.Get(context.Background())
	for err == nil {
		end, twice := all[it.Key].begin()
		if twice != nil {
			t.Errorf("%s: %v", it.Key, twice)
		}
		end()
		switch rand.IntN(8) {
		case 0:
			it.Retry(errTest, 0)
			it, err = q.Get(context.Background())
		case 1:
			it.Done()
			it, err = q.Get(context.Background())
		default:
			it, err = it.DoneNext(context.Background())
		}
	}
}

// settle waits until every key has seen its last add; the test binary's own
// limit ends it if one never does.
func settle(ctx context.Context, all map[string]*stamps) error {
	for name, s := range all {
		for s.seen.Load() < s.added.Load() {
			select {
			case <-s.ran:
			case <-ctx.Done():
				if s.seen.Load() < s.added.Load() {
					return fmt.Errorf("%s: %d adds, and the last run saw %d of them: %w", name, s.added.Load(), s.seen.Load(), context.Cause(ctx))
				}
			}
		}
	}
	return nil
}
