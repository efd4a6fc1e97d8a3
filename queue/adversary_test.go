package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/queue/ratelimit"
)

// A shard whose first ready keys have left is owed its turns all the same.
// promise Q5
func TestDispatchOfTheNextShardIsNotLostOverKeysThatLeft(t *testing.T) {
	const shards, leaving = 8, 9900
	q, err := New(&Options[int]{Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	keyOf := func(shard int) int {
		for last++; shardOf(q, last) != shard; last++ {
		}
		return last
	}
	pauseQueue(q, 0)
	var low []int
	for range 2*leaving + 100 {
		low = append(low, keyOf(0))
		q.AddWith(low[len(low)-1], AddOptions{Priority: At(-5)})
	}
	for shard := 1; shard < shards; shard++ {
		for range 3 {
			q.AddWith(keyOf(shard), AddOptions{Priority: At(5)})
		}
	}
	for _, key := range low[:leaving] {
		q.Remove(key)
	}
	resumeQueue(q)
	for n := 1; ; n++ {
		it, err := q.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if shardOf(q, it.Key) == 0 {
			it.Done()
			return
		}
		if n > 32*shards {
			t.Fatalf("no key of a shard after %d dispatches, want one in %d", n, 32*shards)
		}
		q.AddWith(it.Key, AddOptions{Priority: At(5)})
		it.Done()
	}
}

// Keys of a tenant that is held wait in a bucket's line without taking tokens from
// those of others.
// promise Q6
func TestHeldTenantCostsOthersNoTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := ratelimit.NewBucket("b", 10, 1)
		if err != nil {
			t.Fatal(err)
		}
		q, err := New(&Options[string]{
			Tenant:  func(key string) string { return key[:1] },
			Buckets: func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, b) },
		})
		if err != nil {
			t.Fatal(err)
		}
		b.Throttle(time.Now().Add(time.Second))
		for n := range 200 {
			add(t, q, fmt.Sprint("a", n), fmt.Sprint("b", n))
		}
		got := map[string]int{}
		var worker sync.WaitGroup
		worker.Go(func() { // until the queue stops
			for {
				it, err := q.Get(context.Background())
				if err != nil {
					return
				}
				got[it.Key[:1]]++
				it.Done()
			}
		})
		synctest.Wait() // all keys are in the line
		pauseTenant(q, "a", 0)
		time.Sleep(11 * time.Second)
		if err := q.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		worker.Wait()
		if got["a"] > 0 || got["b"] < 99 {
			t.Errorf("ran %v in 10 s at 10 tokens a second, want 100 of tenant b and none of a", got)
		}
	})
}

// What leaves early is not kept, whichever leaves: the last, the first, any, or all but
// the first.
func TestBandsKeepFewPlacesOfKeysThatLeft(t *testing.T) {
	for seed := range uint64(campaign.Sized(60, 8)) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		o := &Options[int]{Shards: 1}
		if seed%2 == 0 {
			o.Tenant = func(key int) string { return fmt.Sprint(key % 3) }
		}
		q, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		size := []int{1, 3, 4, 5, 16, 20, 70, 300, 1100, 5000}[rnd.IntN(10)]
		leaves := []func(n int) int{
			func(n int) int { return n - 1 },
			func(int) int { return 0 },
			rnd.IntN,
			func(n int) int { return min(n-1, 1+rnd.IntN(n)) },
		}[rnd.IntN(4)]
		bands := 1 + rnd.IntN(3)
		var keys []int
		for n := range 10_000 + 6*size { // so that several times more keys leave than a band may have places for
			switch {
			case len(keys) < size || rnd.IntN(2) == 0 && len(keys) < 2*size:
				q.AddWith(n, AddOptions{Priority: At(int8(rnd.IntN(bands)))})
				keys = append(keys, n)
			case rnd.IntN(3) == 0:
				addReplacing(q, keys[rnd.IntN(len(keys))], AddOptions{Priority: At(int8(rnd.IntN(bands)))})
			default:
				k := leaves(len(keys))
				q.Remove(keys[k])
				keys = append(keys[:k], keys[k+1:]...)
			}
			if n%97 == 0 {
				if places, n := emptiest(q); places > 2*n+mostPlaces {
					t.Fatalf("seed %d: a band has %d places for %d keys", seed, places, n)
				}
			}
		}
		verify(t, q)
		if n := touched(q); n > mostTouched {
			t.Errorf("seed %d: %d entries and cells under one lock, want %d at most", seed, n, mostTouched)
		}
		for range keys {
			it, err := q.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			it.Done()
		}
		if n := q.Len(); n != 0 {
			t.Errorf("seed %d: %d keys are left", seed, n)
		}
	}
}

// A bucket that has tokens for all that wait in its line lets all of them go at once.
// promise Q6
func TestBucketGivesItsWholeBurstAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 3000
		b, err := ratelimit.NewBucket("b", 1, keys)
		if err != nil {
			t.Fatal(err)
		}
		q, err := New(&Options[int]{Buckets: func(_ int, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, b) }})
		if err != nil {
			t.Fatal(err)
		}
		b.Throttle(time.Now().Add(time.Second))
		for key := range keys {
			if err := q.Add(key); err != nil {
				t.Fatal(err)
			}
		}
		ran := 0
		var worker sync.WaitGroup
		worker.Go(func() { // until the queue stops
			for {
				it, err := q.Get(context.Background())
				if err != nil {
					return
				}
				ran++
				it.Done()
			}
		})
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		if err := q.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		worker.Wait()
		if ran != keys {
			t.Errorf("%d keys ran when the bucket had %d tokens, want %d", ran, keys, keys)
		}
	})
}
