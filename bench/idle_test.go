//go:build peers

package bench

import (
	"testing"
	"time"
)

// BenchmarkIdle: what keys that wait for an hour cost while they wait, in CPU time
// over five seconds. One operation is all of it.
func BenchmarkIdle(b *testing.B) {
	keys := stringKeys(1e5)
	b.Run("keys=100k", func(b *testing.B) {
		every(b, func(b *testing.B, s subject[string]) {
			for _, key := range keys {
				s.AddAfter(key, time.Hour)
			}
			heap() // collect what adding them left, and let peers' goroutines come to rest
			time.Sleep(time.Second)
			var used time.Duration
			measure(b, func() {
				for range b.N {
					began := ownCPU()
					time.Sleep(5 * time.Second)
					used = ownCPU() - began
				}
			})
			b.ReportMetric(float64(used)/1e6, "cpu-ms")
		}, "limit", "least", "least-entry", "tend-batch", "tend-workqueue", "controller-runtime") // five seconds each
	})
}
