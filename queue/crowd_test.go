package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/queue/ratelimit"
)

// This file counts what an operation touches: entries, cells, flows and lists that
// a loop looks at in one critical section. See touched.

// few is what an operation may touch whatever the number of keys, tenants and
// buckets: the logarithm of a million, for some heaps, and room for a step of
// reclaiming, sweeping or growing.
const (
	few         = 200
	mostTouched = 4096
)

// manyOf is enough for a loop over all of them to be seen.
const manyOf = 20_000

// One key of each of many tenants: no operation looks at all tenants, also not at
// those with nothing ready.
func TestTenantsCostNoMoreTheMoreThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, &Options[string]{Tenant: func(key string) string { return key }, TenantRunning: 1})
		for n := range manyOf {
			q.AddAfter(fmt.Sprint("later ", n), 10*time.Hour)
			add(t, q, fmt.Sprint("now ", n))
		}
		most := func(what string, f func()) {
			t.Helper()
			touched(q)
			f()
			if n := touched(q); n > few {
				t.Errorf("%s touches %d entries and tenants, want %d at most", what, n, few)
			}
		}
		for range 2 * agingEvery {
			var it Item[string]
			most("Get", func() { it = get(t, q) })
			most("Done", it.Done)
		}
		most("Len", func() { q.Len() })
		most("Stats", func() { q.Stats() })
		pauseTenant(q, "later 1", time.Second)
		touched(q)
		time.Sleep(2 * time.Second) // the timer rings
		synctest.Wait()
		if n := touched(q); n > few {
			t.Errorf("the end of a tenant's pause touches %d entries and tenants, want %d at most", n, few)
		}
		if err := q.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A key each of many buckets, all of them empty: to refuse them all is one step for
// each, and a bucket that has a token again lets its key go without a look at the
// others.
func TestBucketsCostNoMoreTheMoreThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buckets []*ratelimit.Bucket
		for n := range manyOf / 4 {
			b, err := ratelimit.NewBucket(fmt.Sprint(n), 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			b.Throttle(time.Now().Add(time.Duration(n+1) * time.Hour))
			buckets = append(buckets, b)
		}
		q, err := New(&Options[int]{Buckets: func(key int, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, buckets[key]) }})
		if err != nil {
			t.Fatal(err)
		}
		for n := range buckets {
			if err := q.Add(n); err != nil {
				t.Fatal(err)
			}
		}
		touched(q)
		got := make(chan Item[int])
		go func() { // ends with the last of the keys below
			for range 3 {
				it, err := q.Get(context.Background())
				if err != nil {
					t.Error(err)
				}
				got <- it
			}
		}()
		synctest.Wait()
		if n := touched(q); n > few {
			t.Errorf("to refuse %d keys touches %d entries and lines under one lock, want %d at most", len(buckets), n, few)
		}
		for n := range 3 {
			touched(q)
			it := <-got
			if it.Key != n {
				t.Errorf("got key %d, want %d", it.Key, n)
			}
			if n := touched(q); n > few {
				t.Errorf("a token that is there touches %d entries and lists, want %d at most", n, few)
			}
			it.Done()
		}
		if err := q.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// No operation touches more than 4,096 entries and cells in one critical section,
// however many there are.
func TestOneLockTouchesABoundedNumberOfEntries(t *testing.T) {
	for _, k := range []kind{{shards: 1}, {shards: 8}, {shards: 1, tenants: true}, {shards: 1, buckets: true}, {shards: 1, tenants: true, buckets: true}} {
		t.Run(k.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { runCrowd(t, k) }) })
	}
}

func runCrowd(t *testing.T, k kind) {
	n := campaign.Sized(30_000, 10_000)
	o := &Options[int]{Shards: k.shards, Policy: func(int, error) time.Duration { return time.Second }}
	if k.tenants {
		o.Tenant = func(key int) string { return fmt.Sprint(key % 3) }
	}
	b, err := ratelimit.NewBucket("b", 1e6, 1e6)
	if err != nil {
		t.Fatal(err)
	}
	if k.buckets {
		o.Buckets = func(_ int, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, b) }
	}
	q, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	step := func(what string, f func()) {
		t.Helper()
		touched(q)
		f()
		synctest.Wait()
		if most := touched(q); most > mostTouched {
			t.Errorf("%s: %d entries and cells under one lock, want %d at most", what, most, mostTouched)
		}
	}
	all := func(f func(key int)) func() {
		return func() {
			for key := range n {
				f(key)
			}
		}
	}
	step("many adds", all(func(key int) { q.Add(key) }))
	step("raising all of them", all(func(key int) { q.AddWith(key, AddOptions{Priority: At(int8(key % 5))}) }))
	step("Remove in front of the others", all(func(key int) {
		if key%1000 != 999 {
			q.Remove(key)
		}
	}))
	step("Get over what has gone", func() {
		it, err := q.Get(t.Context())
		if err != nil {
			t.Error(err)
		}
		it.Done()
	})
	step("Stats and Snapshot", func() {
		q.Stats()
		for range q.Snapshot() {
		}
	})
	step("many delays", all(func(key int) { q.AddWith(key, AddOptions{After: time.Second, Urgent: true}) }))
	step("all due at once", func() { time.Sleep(2 * time.Second) })
	step("a hold of each", all(func(key int) { holdKey(q, key, time.Hour) }))
	step("the end of all holds at once", func() { time.Sleep(2 * time.Hour) })
	step("a hold over the queue", func() {
		pauseQueue(q, time.Second)
		time.Sleep(2 * time.Second)
	})
	step("a hold over a tenant", func() {
		pauseTenant(q, "1", time.Second)
		time.Sleep(2 * time.Second)
	})
	step("a bucket that is throttled", func() {
		b.Throttle(time.Now().Add(time.Minute))
		ctx, cancel := context.WithCancel(t.Context())
		var gone sync.WaitGroup
		gone.Go(func() { // until the bucket lets it go on, or ctx ends
			if it, err := q.Get(ctx); err == nil {
				it.Done()
			}
		})
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		cancel()
		gone.Wait()
	})
	step("Get of all", func() {
		for q.Len() > 0 {
			it, err := q.Get(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			it.Retry(errTest, 0)
		}
	})
	step("Remove of all", all(func(key int) { q.Remove(key) }))
	if err := q.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// A queue that is paused while keys come and go for ever keeps nothing of those that
// have gone.
func TestWhatLeavesAPausedQueueIsNotKept(t *testing.T) {
	for _, shards := range []int{1, 8} {
		q, err := New(&Options[int]{Shards: shards})
		if err != nil {
			t.Fatal(err)
		}
		pauseQueue(q, 0)
		for key := range 100 {
			q.Add(key)
		}
		n, before := campaign.Sized(300_000, 60_000), heapInUse()
		for key := range n {
			q.AddWith(100+key, AddOptions{Priority: At(int8(key % 3))})
			if key >= 50 {
				q.Remove(100 + key - 50)
			}
		}
		if grown := heapInUse() - before; grown > 1<<20 {
			t.Errorf("shards %d: %d bytes more after %d keys came and went", shards, grown, n)
		}
		if q.Len() != 150 {
			t.Errorf("%d keys, want 150", q.Len())
		}
		runtime.KeepAlive(q)
	}
}

// promise Q5, with eight getters: a key that may run, with n older ones ahead in its
// shard, waits at most 16(n+1) dispatches of that shard; and each shard is served once in
// 32·Shards dispatches. A getter may stand still between Get and what it does with the
// key, so dispatches are told in the order of their run numbers, and those of several
// shards are counted before a Get begins.
func TestOldKeysRunWithEightGetters(t *testing.T) {
	for _, shards := range []int{1, 16} {
		t.Run(fmt.Sprint("shards ", shards), func(t *testing.T) {
			const getters, flood, low = 8, 64, 20
			q, err := New(&Options[int]{Shards: shards})
			if err != nil {
				t.Fatal(err)
			}
			// The low keys come first, so that of each shard at most low are older.
			for key := range low {
				q.AddWith(key, AddOptions{Priority: At(-5)})
			}
			for key := range flood {
				q.AddWith(low+key, AddOptions{Priority: At(5)})
			}
			var dispatched, left atomic.Int64
			left.Store(low)
			const inShard = agingEvery * (low + 1)
			most := int64(inShard + getters)
			if shards > 1 {
				most = int64(32*shards*inShard + getters)
			}
			const patience = 2_000_000 // dispatches, for a getter that stands still with a low key
			var items [getters][]Item[int]
			var done sync.WaitGroup
			for g := range getters {
				done.Go(func() { // until the low keys have run
					for left.Load() > 0 {
						before := dispatched.Load()
						it, err := q.Get(context.Background())
						if err != nil {
							if !errors.Is(err, ErrStopped) {
								t.Error(err)
							}
							return
						}
						items[g] = append(items[g], it)
						if n := dispatched.Add(1); n > most+patience {
							t.Errorf("%d low keys wait after %d dispatches", left.Load(), n)
							left.Store(0)
						}
						if it.Key < low {
							left.Add(-1)
							if before > most {
								t.Errorf("low key %d waited for %d dispatches, want at most %d", it.Key, before, most)
							}
						} else {
							q.AddWith(it.Key, AddOptions{Priority: At(5)})
						}
						it.Done()
					}
				})
			}
			done.Wait()
			all := slices.Concat(items[:]...)
			slices.SortFunc(all, func(a, b Item[int]) int {
				return cmp.Or(cmp.Compare(a.shard, b.shard), cmp.Compare(a.run, b.run))
			})
			ofShard := make(map[uint8]int)
			for _, it := range all {
				if ofShard[it.shard]++; it.Key < low && ofShard[it.shard] > inShard {
					t.Errorf("low key %d is dispatch %d of shard %d, want at most %d", it.Key, ofShard[it.shard], it.shard, inShard)
				}
			}
			if err := q.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
