package queue

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"

	"github.com/tendhq/tend/queue/ratelimit"
)

func benchKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("namespace-%06d/some-resource-%013d", i%1000, i)
	}
	return keys
}

func benchQueue[K comparable](b *testing.B, o *Options[K]) *Queue[K] {
	b.Helper()
	q, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	return q
}

func BenchmarkCycle(b *testing.B) {
	for _, shards := range []int{1, 4} {
		for _, n := range []int{1, 1000, 100_000, 1_000_000} {
			b.Run(fmt.Sprintf("shards=%d/keys=%d", shards, n), func(b *testing.B) {
				keys := benchKeys(n)
				q := benchQueue(b, &Options[string]{Shards: shards})
				ctx := b.Context()
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					_ = q.Add(keys[i])
					if i++; i == n {
						i = 0
					}
					it, _ := q.Get(ctx)
					it.Done()
				}
			})
		}
	}
}

// BenchmarkCrowd: a queue of n keys that belong to no tenant, to a tenant each, or to a
// bucket each with tokens for all. The second and third are to cost at most three times
// the first.
func BenchmarkCrowd(b *testing.B) {
	for _, n := range []int{1000, 100_000, 1_000_000} {
		buckets := make([]*ratelimit.Bucket, n)
		for i := range buckets {
			var err error
			if buckets[i], err = ratelimit.NewBucket(fmt.Sprint(i), 1e9, 1e9); err != nil {
				b.Fatal(err)
			}
		}
		for _, c := range []struct {
			name string
			o    Options[int]
		}{
			{"keys", Options[int]{Shards: 1}},
			{"tenants", Options[int]{Tenant: func(key int) string { return buckets[key].Name() }}},
			{"buckets", Options[int]{Buckets: func(key int, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, buckets[key]) }}},
		} {
			q := benchQueue(b, &c.o)
			cycle := func() {
				it, _ := q.Get(b.Context())
				it.Done()
				_ = q.Add(it.Key)
			}
			for key := range n {
				_ = q.Add(key)
			}
			for range n { // until the buckets have their maps, and tenants come back
				cycle()
			}
			for _, op := range []struct {
				what string
				f    func()
			}{{"Len", func() { q.Len() }}, {"Stats", func() { q.Stats() }}, {"Get, Done and Add", cycle}} {
				b.Run(fmt.Sprintf("n=%d/%s/%s", n, op.what, c.name), func(b *testing.B) {
					for b.Loop() {
						op.f()
					}
				})
			}
		}
	}
}

func BenchmarkDuplicateAdd(b *testing.B) {
	for _, shards := range []int{1, 4} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			q := benchQueue(b, &Options[string]{Shards: shards})
			key := benchKeys(1)[0]
			for b.Loop() {
				_ = q.Add(key)
			}
		})
	}
}

func BenchmarkLimit(b *testing.B) {
	var mu sync.Mutex
	n := 0
	for b.Loop() {
		for range 3 {
			mu.Lock()
			n++
			mu.Unlock()
		}
	}
}

// BenchmarkCollect: a collection beside a queue with a million string keys, in CPU time
// of the collector. The entries are scanned, for their keys are beside their state.
func BenchmarkCollect(b *testing.B) {
	keys := benchKeys(1_000_000)
	q := benchQueue(b, &Options[string]{})
	for _, key := range keys {
		_ = q.Add(key)
	}
	spent := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
	read := func() float64 {
		runtime.GC()
		metrics.Read(spent)
		return spent[0].Value.Float64()
	}
	before := read()
	n := 0
	for b.Loop() {
		runtime.GC()
		n++
	}
	b.ReportMetric((read()-before)/float64(n+1)*1e3, "gc-cpu-ms/op")
	runtime.KeepAlive(keys)
	runtime.KeepAlive(q)
}
