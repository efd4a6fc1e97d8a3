//go:build peers

package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkDelayed: keys that become due over some seconds. ns/add is what
// AddAfter costs its caller, cpu-ns/key what a key costs the process from
// AddAfter to Done, the rest how late keys came out. early must be 0. One
// operation is the whole of it, so ns/op says nothing.
func BenchmarkDelayed(b *testing.B) {
	for _, l := range []struct {
		keys int
		over time.Duration
	}{{1e4, 2 * time.Second}, {1e6, 10 * time.Second}} {
		b.Run(fmt.Sprintf("keys=%s/over=%v", short(l.keys), l.over), func(b *testing.B) {
			each(b, func(b *testing.B, m maker[string]) { delayed(b, m, l.keys, l.over) }, "limit", "tend-batch")
		})
	}
}

func delayed(b *testing.B, m maker[string], n int, over time.Duration) {
	keys := stringKeys(n)
	delays := make([]time.Duration, n)
	for i := range delays {
		delays[i] = rand.N(over)
	}
	var late []time.Duration
	var adding, cpu time.Duration
	measure(b, func() {
		for range b.N {
			var s subject[string]
			aside(b, func() { s = m.make(b, backoffBase) })
			from := ownCPU()
			var end func()
			late, adding, end = delay(s, keys, delays)
			cpu = ownCPU() - from
			aside(b, end)
		}
	})
	early := 0
	for _, l := range late {
		if l < 0 {
			early++
		}
	}
	slices.Sort(late)
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	b.ReportMetric(float64(adding)/float64(n), "ns/add")
	b.ReportMetric(float64(cpu)/float64(n), "cpu-ns/key")
	b.ReportMetric(ms(late[n/2]), "p50-ms")
	b.ReportMetric(ms(late[n*99/100]), "p99-ms")
	b.ReportMetric(ms(late[n-1]), "max-ms")
	b.ReportMetric(float64(early), "early")
}

// delay adds all keys and waits until each has come out. It returns how late
// each was, how long the adding took, and what closes the queue and waits for its
// consumers. The clock is read every 64th add only, and a key's time counted from
// the last reading: what its lateness gains by that is far below what is measured,
// a key less early than 64 adds take is not seen to be (the queue's tests do that
// by a fake clock), and a reading for each would be half of a fast AddAfter.
func delay(s subject[string], keys []string, delays []time.Duration) (late []time.Duration, adding time.Duration, end func()) {
	due := make([]time.Duration, len(keys))
	late = make([]time.Duration, len(keys))
	var left atomic.Int64
	left.Store(int64(len(keys)))
	var all, consumers sync.WaitGroup
	all.Add(1)
	base := time.Now()
	for range 2 {
		consumers.Go(func() {
			s.Consume(func(key string) {
				i := number(key)
				late[i] = time.Since(base) - due[i]
				if left.Add(-1) == 0 {
					all.Done()
				}
			})
		})
	}
	var now time.Duration
	for i, key := range keys {
		if i%64 == 0 {
			now = time.Since(base)
		}
		due[i] = now + delays[i]
		s.AddAfter(key, delays[i])
	}
	adding = time.Since(base)
	all.Wait()
	return late, adding, func() { s.Close(); consumers.Wait() }
}

// BenchmarkRetry: every key fails once and succeeds the next time. One
// operation is what a worker pays for one key: to report the failure, and, when
// the key came back, the success. What the queue does meanwhile in goroutines
// of its own is not in it: see BenchmarkRetryWhole.
func BenchmarkRetry(b *testing.B) {
	for _, n := range or(*keysFlag, 1e5) {
		b.Run("keys="+short(n), func(b *testing.B) {
			every(b, func(b *testing.B, s subject[string]) { retry(b, s, n) }, "limit")
		})
	}
}

func retry(b *testing.B, s subject[string], n int) {
	keys := stringKeys(n)
	measure(b, func() {
		for left := b.N; left > 0; left -= n {
			now := min(n, left)
			aside(b, func() {
				s.Fill(keys[:now])
				s.Take(now)
			})
			s.Fail()
			aside(b, func() { s.Take(now) })
			s.Succeed()
		}
	})
}

// BenchmarkRetryWhole is the same from Fill to Succeed, all goroutines and the
// backoff of a tenth of a second included: a million keys at once.
func BenchmarkRetryWhole(b *testing.B) {
	keys := stringKeys(1e6)
	every(b, func(b *testing.B, s subject[string]) {
		measure(b, func() {
			for range b.N {
				s.Fill(keys)
				s.Take(len(keys))
				s.Fail()
				s.Take(len(keys))
				s.Succeed()
			}
		})
		b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(len(keys)), "ns/key")
	}, "limit")
}
