package queue

import (
	"sync"
	"sync/atomic"
)

// bell wakes goroutines that wait for a key. A burst of adds wakes one of them;
// it takes a key and wakes the next while there are more. So an add pays for a
// wake-up only when somebody sleeps, and never for more than one. Before a
// getter sleeps it looks a few times more: falling asleep and being woken costs
// as much as several runs, and an add wakes nobody while somebody looks.
//
// No wake-up is lost: an adder first makes its key ready and then looks whether
// to ring; a getter first says that it sleeps, then that it does not look any
// more, and then looks once again.
type bell struct {
	waiting  atomic.Int32 // getters that sleep, or are about to
	spinning atomic.Int32 // getters that look
	token    chan struct{}
	closed   chan struct{} // closed by Close: nobody shall wait any more
	once     sync.Once
}

// spins is how often a getter looks before it sleeps.
const spins = 3

func (b *bell) init() {
	b.token = make(chan struct{}, 1)
	b.closed = make(chan struct{})
}

// ring wakes a getter if one sleeps and none looks.
func (b *bell) ring() {
	if b.waiting.Load() != 0 && b.spinning.Load() == 0 {
		b.wake()
	}
}

func (b *bell) wake() {
	select {
	case b.token <- struct{}{}:
	default:
	}
}

// spin tells whether the caller may look; then it must count itself out again.
func (b *bell) spin() bool {
	if b.spinning.Add(1) == 1 {
		return true
	}
	b.spinning.Add(-1)
	return false
}

func (b *bell) close() { b.once.Do(func() { close(b.closed) }) }
