//go:build peers

package bench

import (
	"flag"
	"runtime"
	"sync"
	"testing"
)

// BenchmarkCycle: one goroutine adds a key, gets it and settles it. The keys
// take turns, so that with many of them their text and their entries are cold.
func BenchmarkCycle(b *testing.B) {
	for _, n := range or(*keysFlag, 1, 1e3, 1e5, 1e6) {
		b.Run("key=string/keys="+short(n), func(b *testing.B) { cycle(b, stringKeys(n)) })
		b.Run("key=struct/keys="+short(n), func(b *testing.B) { cycle(b, objectKeys(n)) })
	}
}

func cycle[K comparable](b *testing.B, keys []K) {
	every(b, func(b *testing.B, s subject[K]) {
		s.Cycle(keys, min(len(keys), 1e4)) // tables and buffers get their size
		measure(b, func() { s.Cycle(keys, b.N) })
	})
}

// BenchmarkDuplicateAdd: a key is added that is in the queue already, as a
// source does all day.
func BenchmarkDuplicateAdd(b *testing.B) {
	b.Run("mode=serial", func(b *testing.B) { duplicate(b, 1) })
	b.Run("mode=parallel", func(b *testing.B) { duplicate(b, runtime.GOMAXPROCS(0)) })
}

func duplicate(b *testing.B, goroutines int) {
	keys := stringKeys(1e3)
	every(b, func(b *testing.B, s subject[string]) {
		s.Fill(keys)
		measure(b, func() {
			var adders sync.WaitGroup
			for g := range goroutines {
				adders.Go(func() { s.Dup(keys[g:], share(b.N, goroutines, g)) })
			}
			adders.Wait()
		})
	})
}

// share is the part of n that the i-th of parts takes.
func share(n, parts, i int) int { return n*(i+1)/parts - n*i/parts }

// BenchmarkReaddWhileRunning: the key is added while it runs and so runs again.
func BenchmarkReaddWhileRunning(b *testing.B) {
	every(b, func(b *testing.B, s subject[string]) {
		s.Fill(stringKeys(1))
		measure(b, func() { s.Readd(b.N) })
	})
}

// BenchmarkDepth is the cycle with many keys resident: the oldest is got and
// settled, and one is added that was settled a while ago.
func BenchmarkDepth(b *testing.B) {
	for _, n := range *depthFlag {
		b.Run("depth="+short(n), func(b *testing.B) { depth(b, n) })
	}
}

// resident is n, or a thousand in the one operation that go test tries before it
// makes as many as fill the time, of which it shows nothing: it takes some
// implementations seconds to be filled.
func resident(b *testing.B, n int) int {
	if b.N == 1 && flag.Lookup("test.benchtime").Value.String() != "1x" {
		return min(n, 1000)
	}
	return n
}

func depth(b *testing.B, n int) {
	spare := min(n, 1<<16) // out of the second-level cache again when it is added
	keys := stringKeys(n + spare)
	every(b, func(b *testing.B, s subject[string]) {
		ring := append([]string(nil), keys[n:]...)
		s.Fill(keys[:resident(b, n)])
		s.Turn(ring, spare) // and the first Get after a million Adds is not timed
		measure(b, func() { s.Turn(ring, b.N) })
	})
}
