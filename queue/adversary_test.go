package queue

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// A shard whose first ready keys have left is owed its turns all the same.
// promise Q5
func TestOwedTurnIsNotLostOverKeysThatLeft(t *testing.T) {
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
	for _, key := range low[:leaving] { // fewer than stay: their cells are not swept
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

// What leaves early is not kept, whoever leaves: the last, the first, any, or all but
// the first.
func TestRingsKeepFewCellsOfKeysThatLeft(t *testing.T) {
	for seed := range uint64(60) {
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
		for n := range 40_000 {
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
				if dead, live := worstRing(q); dead > live+1024 {
					t.Fatalf("seed %d: a ring has %d cells of keys that left, and %d live", seed, dead, live)
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
