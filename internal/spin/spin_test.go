package spin_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/tendhq/tend/internal/spin"
)

// Negative control: without the Lock, or with one that takes the last failed look for
// success, the sum is short (and the race detector reports it).
func TestOnlyOneHoldsTheLock(t *testing.T) {
	const many, times = 16, 2000
	var m spin.Mutex
	var rw spin.RWMutex
	for name, lock := range map[string]sync.Locker{"Mutex": &m, "RWMutex": &rw} {
		var all sync.WaitGroup
		sum := 0
		for range many {
			all.Go(func() {
				for i := range times {
					lock.Lock()
					before := sum
					if i%100 == 0 {
						runtime.Gosched() // long enough for the others to go to sleep
					}
					sum = before + 1
					lock.Unlock()
				}
			})
		}
		all.Wait()
		if sum != many*times {
			t.Errorf("%s: %d increments under the lock gave %d", name, many*times, sum)
		}
	}
}

func TestReadersShareTheLockAndSeeWholeWrites(t *testing.T) {
	const times = 2000
	var m spin.RWMutex
	var a, b int
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range times {
				m.Lock()
				a++
				b++
				m.Unlock()
			}
		})
		all.Go(func() {
			for range times {
				m.RLock()
				x, y := a, b
				m.RUnlock()
				if x != y {
					t.Errorf("a reader saw half a write: %d, %d", x, y)
					return
				}
			}
		})
	}
	all.Wait()
	m.RLock()
	shared := make(chan struct{})
	go func() {
		m.RLock() // would never return if readers excluded each other
		defer m.RUnlock()
		close(shared)
	}()
	<-shared
	m.RUnlock()
}

func ExampleMutex() {
	var m spin.Mutex
	n := 0
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			m.Lock()
			defer m.Unlock()
			n++
		})
	}
	all.Wait()
	fmt.Println(n)
	// Output: 10
}
