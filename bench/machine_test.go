//go:build peers

package bench

import (
	"math/bits"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkMachine is what the machine asks for whatever is done on it. On a
// virtual one it changes from minute to minute: read other figures beside it.
func BenchmarkMachine(b *testing.B) {
	b.Run("locks=3", threeLocks)
	b.Run("hand-over", handOver)
	for _, bytes := range []int{32 << 10, 1 << 20, 16 << 20, 256 << 20} {
		b.Run("miss/KiB="+short(bytes>>10), func(b *testing.B) { miss(b, bytes) })
	}
}

// threeLocks is three uncontended locks with nothing under them: Add, Get and
// settling a key are three calls from anywhere, and each must take one.
func threeLocks(b *testing.B) {
	var l limit[string]
	measure(b, func() {
		for range b.N {
			for range 3 {
				l.mu.Lock()
				l.held++
				l.mu.Unlock()
			}
		}
	})
}

// handOver is the way of a cache line from one core to another: two goroutines
// write it in turns.
func handOver(b *testing.B) {
	if runtime.GOMAXPROCS(0) < 2 {
		b.Skip("one processor hands nothing over")
	}
	var turn atomic.Int64
	play := func(mine int64) {
		for i := mine; i < int64(b.N); i += 2 {
			for turn.Load() != i {
			}
			turn.Store(i + 1)
		}
	}
	measure(b, func() {
		var other sync.WaitGroup
		other.Go(func() { play(1) })
		play(0)
		other.Wait()
	})
}

// miss is a read of a word somewhere in so many bytes, which the next waits for.
func miss(b *testing.B, bytes int) {
	words := make([]uint64, bytes/8)
	for i := range words {
		words[i] = rand.Uint64()
	}
	shift := 64 - bits.Len(uint(len(words)-1))
	var at uint64
	measure(b, func() {
		for range b.N {
			at = (at + words[at*0x9e3779b97f4a7c15>>shift]) | 1
		}
	})
	if at == 0 {
		b.Fatal("the reads were not made") // at is odd; asking keeps them
	}
}
