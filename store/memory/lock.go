package memory

import (
	"runtime"
	"sync"
)

// lock is a read-write mutex that is held for some hundreds of nanoseconds. Who finds
// it taken looks again for about a microsecond before it lines up: sync.RWMutex
// puts it to sleep at once, and to wake it costs several microseconds, and makes it
// wait behind everything else that could run on the processor.
type lock struct{ sync.RWMutex }

// So often it looks, and counts so far in between, lest looking takes the cache line
// from who is to unlock it.
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

func (l *lock) RLock() {
	if !l.TryRLock() {
		l.waitToRead()
	}
}

func (l *lock) wait() {
	for range looks {
		if alone {
			break
		}
		for range gap { // counts: Go has no instruction for it
		}
		if l.TryLock() {
			return
		}
	}
	l.RWMutex.Lock()
}

func (l *lock) waitToRead() {
	for range looks {
		if alone {
			break
		}
		for range gap {
		}
		if l.TryRLock() {
			return
		}
	}
	l.RWMutex.RLock()
}
