package spin

import (
	"runtime"
	"sync"
)

// looks is the number of TryLock attempts, and gap the busy wait between them, so that
// spinning does not keep taking the cache line from the holder.
const (
	looks = 100
	gap   = 10
)

// alone says that there is one processor: the holder cannot run while another goroutine spins.
var alone = runtime.NumCPU() == 1

// free looks until try succeeds, and reports whether it has.
func free(try func() bool) bool {
	if alone {
		return false
	}
	for range looks {
		for range gap { // counts: Go has no instruction for it
		}
		if try() {
			return true
		}
	}
	return false
}

// Mutex is a [sync.Mutex] whose Lock spins before it parks.
type Mutex struct{ sync.Mutex }

// Lock is [sync.Mutex.Lock]. It is too large to be inlined: a caller that cannot spare the call
// writes it out, with TryLock and Wait.
func (m *Mutex) Lock() {
	if !m.TryLock() {
		m.Wait()
	}
}

// Wait is Lock, of a lock that was found taken just now.
func (m *Mutex) Wait() {
	if !free(m.TryLock) {
		m.Mutex.Lock()
	}
}

// RWMutex is a [sync.RWMutex] whose Lock spins before it parks.
type RWMutex struct{ mu sync.RWMutex }

// Lock is [sync.RWMutex.Lock].
func (m *RWMutex) Lock() {
	if !m.mu.TryLock() && !free(m.mu.TryLock) {
		m.mu.Lock()
	}
}

// Unlock is [sync.RWMutex.Unlock].
func (m *RWMutex) Unlock() { m.mu.Unlock() }

// RLock is [sync.RWMutex.RLock].
func (m *RWMutex) RLock() {
	if !m.mu.TryRLock() && !free(m.mu.TryRLock) {
		m.mu.RLock()
	}
}

// RUnlock is [sync.RWMutex.RUnlock].
func (m *RWMutex) RUnlock() { m.mu.RUnlock() }
