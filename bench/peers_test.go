//go:build peers

package bench

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// subject is a queue under test. The loops are in here, and not in the
// families, so that each runs against the API its users call.
type subject[K comparable] interface {
	Add(key K)
	AddAfter(key K, d time.Duration)
	// Fill adds all keys; no other goroutine is at work.
	Fill(keys []K)
	// Cycle adds a key, gets it and settles it, n times, going round keys.
	Cycle(keys []K, n int)
	// Dup adds, n times, keys that are in the queue, going round keys.
	Dup(keys []K, n int)
	// Readd gets a key, adds it while it runs and settles it, n times.
	Readd(n int)
	// Turn gets a key, settles it and adds the one that it put into ring a
	// round ago, n times.
	Turn(ring []K, n int)
	// Consume hands keys to each and settles them, until Close.
	Consume(each func(key K))
	// Take gets n keys, Fail and Succeed settle all that were taken.
	Take(n int)
	Fail()
	Succeed()
	// Drop forgets what was taken, so that it is not in the heap.
	Drop()
	// Close takes no more keys and lets Consume end when none is ready.
	Close()
}

// maker makes a subject.
type maker[K comparable] struct {
	name string
	make func(b *testing.B, backoff time.Duration) subject[K]
}

// makers are all implementations of the queue families.
func makers[K comparable]() []maker[K] {
	ms := []maker[K]{
		{"tend", newTend[K]},
		{"tend+prom", newTendProm[K]},
		{"tend-workqueue", newTendWorkqueue[K]},
		{"tend-workqueue+prom", newTendWorkqueueProm[K]},
		{"client-go", newClientGo[K]},
		{"client-go+prom", newClientGoProm[K]},
		{"controller-runtime", newPriorityQueue[K]},
		{"controller-runtime+prom", newPriorityQueueProm[K]},
		{"limit", newLimit[K]},
		{"least", newLeast[K]},
		{"least-entry", newLeastEntry[K]},
	}
	for _, size := range *batchFlag {
		name := "tend-batch"
		if len(*batchFlag) > 1 {
			name += "-" + short(size)
		}
		ms = append(ms, maker[K]{name, newTendBatch[K](size)})
	}
	return ms
}

// each runs f for each implementation, except those in not.
func each[K comparable](b *testing.B, f func(b *testing.B, m maker[K]), not ...string) {
	b.Helper()
	for _, m := range makers[K]() {
		if !slices.Contains(not, strings.TrimSuffix(m.name, "+prom")) {
			b.Run("impl="+m.name, func(b *testing.B) { f(b, m) })
		}
	}
}

// every runs f with a fresh queue of each implementation, except those in not.
func every[K comparable](b *testing.B, f func(b *testing.B, s subject[K]), not ...string) {
	b.Helper()
	each(b, func(b *testing.B, m maker[K]) {
		s := m.make(b, backoffBase)
		defer s.Close()
		f(b, s)
	}, not...)
}
