// Package spin has locks for sections of some hundreds of nanoseconds. Who finds one
// taken looks again for about a microsecond before it sleeps. The locks of package sync
// do not look again while other goroutines could run on the processor, which is always
// so in a busy pool of workers, and a reader of sync.RWMutex never does. Sleep and
// wake-up cost several microseconds, and who was woken waits behind all of the pool.
//
// Their zero values are unlocked. For longer sections they are no worse than sync's,
// but for the microsecond.
package spin
