package queue

import (
	"runtime"
	"sync"
)

// lock is a mutex for critical sections of some tens of nanoseconds. Who finds
// it taken looks again for about a microsecond before it lines up. sync.Mutex
// does not look again while other goroutines could run on the processor, which
// is always so in a busy pool of workers; there who lines up waits, once woken,
// behind all of them.
//
// Lock is too large to be inlined. The short way (fast.go) calls TryLock itself,
// and wait only if that fails.
type lock struct{ sync.Mutex }

// Lock looks so often, and counts so far in between, lest looking takes the
// cache line from who is to unlock it.
const (
	looks = 100
	gap   = 10
)

// alone says that who holds a lock cannot run while somebody looks.
var alone = runtime.NumCPU() == 1

func (l *lock) Lock() {
	if !l.TryLock() {
		l.wait()
	}
}

func (l *lock) wait() {
	if !alone {
		for range looks {
			for range gap { // counts: Go has no instruction for it
			}
			if l.TryLock() {
				return
			}
		}
	}
	l.Mutex.Lock()
}
