package queue

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
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
