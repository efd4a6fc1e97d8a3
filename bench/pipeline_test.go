//go:build peers

package bench

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkPipeline: producers and consumers at once, ns per item. No key is
// added while it is in the queue: every implementation carries the same items.
func BenchmarkPipeline(b *testing.B) {
	keys := stringKeys(1e5)
	for _, n := range [][2]int{{1, 1}, {2, 2}, {8, 8}, {64, 64}} {
		b.Run(fmt.Sprintf("pc=%dx%d", n[0], n[1]), func(b *testing.B) {
			every(b, func(b *testing.B, s subject[string]) { pipeline(b, s, keys, n[0], n[1]) })
		})
	}
}

// tally is a counter in a cache line of its own, so that counting costs
// consumers no contention.
type tally struct {
	n atomic.Int64
	_ [120]byte
}

func pipeline(b *testing.B, s subject[string], keys []string, producers, consumers int) {
	done := make([]tally, consumers)
	consumed := func() (n int64) {
		for c := range done {
			n += done[c].n.Load()
		}
		return n
	}
	var used sync.WaitGroup
	var took time.Duration
	var got int64
	measure(b, func() {
		began := time.Now()
		var made sync.WaitGroup
		for c := range done {
			used.Go(func() { s.Consume(func(string) { done[c].n.Add(1) }) })
		}
		var cursor atomic.Int64
		for range producers {
			made.Go(func() { produce(s, keys, int64(b.N), &cursor, consumed) })
		}
		made.Wait()
		took, got = drain(began, int64(b.N), consumed)
	})
	s.Close() // only now: controller-runtime's queue drops what is ready
	used.Wait()
	b.ReportMetric(float64(took)/float64(got), "ns/op")
}

func part[K any](keys []K, parts, i int) []K {
	return keys[len(keys)*i/parts : len(keys)*(i+1)/parts]
}

// produce takes keys in chunks, in the order of a cursor that all producers
// share, and adds them until n are added. At most half of the keys are
// outstanding, or a key would be added that is still in the queue. It sleeps
// rather than spins while it waits: with two cores a spinning producer would
// take a consumer's.
func produce(s subject[string], keys []string, n int64, cursor *atomic.Int64, consumed func() int64) {
	const chunk = 64
	for {
		from := cursor.Add(chunk) - chunk
		if from >= n {
			return
		}
		for from+chunk-consumed() > int64(len(keys)/2) {
			time.Sleep(100 * time.Microsecond)
		}
		for i := from; i < min(from+chunk, n); i++ {
			s.Add(keys[i%int64(len(keys))])
		}
	}
}

// drain waits until all n are consumed and returns how long it took since began, and how
// many were consumed by then. Should a producer have slept so long that its key was still in
// the queue when it came round again, one is missing: then it is over when nothing more comes,
// and on a machine that stands still for as long a part of them counts, with the time that
// this part took.
func drain(began time.Time, n int64, consumed func() int64) (took time.Duration, got int64) {
	last, since := int64(-1), time.Now()
	for {
		now := consumed()
		if now == n {
			return time.Since(began), now
		}
		if now != last {
			last, since = now, time.Now()
		} else if time.Since(since) > 200*time.Millisecond {
			return since.Sub(began), now
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// BenchmarkContention: a thousand workers, a million keys, adds from 64
// goroutines: how long one Add takes.
func BenchmarkContention(b *testing.B) {
	const workers, adders, n = 1000, 64, 1e6
	keys := stringKeys(n)
	each(b, func(b *testing.B, m maker[string]) {
		var took []int64
		measure(b, func() {
			for range b.N { // each with a queue and a thousand workers of its own
				var s subject[string]
				var end func()
				aside(b, func() { s = m.make(b, backoffBase) })
				took, end = contend(s, keys, workers, adders)
				aside(b, end)
			}
		})
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2]), "p50-ns/add")
		b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns/add")
		b.ReportMetric(float64(took[len(took)-1]), "max-ns/add")
	}, "limit")
}

// contend returns how long each Add took, and what closes the queue and waits for
// its workers.
func contend(s subject[string], keys []string, workers, adders int) (took []int64, end func()) {
	var seen, added, pool sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(len(keys)))
	seen.Add(1)
	for range workers {
		pool.Go(func() {
			s.Consume(func(string) {
				if left.Add(-1) == 0 {
					seen.Done()
				}
			})
		})
	}
	took = make([]int64, len(keys))
	for a := range adders {
		mine, times := part(keys, adders, a), part(took, adders, a)
		added.Go(func() {
			for i, key := range mine {
				at := time.Now()
				s.Add(key)
				times[i] = int64(time.Since(at))
			}
		})
	}
	added.Wait()
	seen.Wait()
	return took, func() { s.Close(); pool.Wait() }
}
