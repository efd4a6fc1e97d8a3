// Package spin has locks for sections of some hundreds of nanoseconds. A Lock that
// finds one taken spins for about a microsecond before it parks. The locks of package sync
// do not spin while other goroutines could run on the processor, which is always
// so in a busy pool of workers, and a reader of sync.RWMutex never does. Sleep and
// wake-up cost several microseconds, and a goroutine that was woken waits behind the whole pool.
//
// Their zero values are unlocked. For longer sections they are no worse than sync's,
// but for the microsecond.
package spin
