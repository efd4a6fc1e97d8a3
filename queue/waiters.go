package queue

import (
	"sync"
	"sync/atomic"
	"time"
)

// waiters wakes getters that sleep, one at a time: while one is on its way to the
// keys, adds wake no other; it takes a key and wakes the next while there are more. So
// an add pays for a wake-up only when a getter sleeps and none is on its way, as Go's
// scheduler does with its spinning threads.
//
// The invariant is that if a getter sleeps, no shard has a key that may run which
// no getter is on its way to: an adder first makes its key ready and then looks
// for a getter to wake; a getter first says that it sleeps and then looks once more.
// One that was woken first says that it is not on its way any more and then looks, so
// that an add which woke no other because of it is seen.
type waiters struct {
	sleeping atomic.Int32 // getters that sleep, or are about to
	coming   atomic.Bool  // the token is on its way to one of them
	token    chan struct{}
}

// wake wakes a getter if one sleeps.
func (w *waiters) wake() {
	if w.sleeping.Load() != 0 && !w.coming.Load() && w.coming.CompareAndSwap(false, true) {
		w.token <- struct{}{} // there is room: the one before was received
	}
}

// woken is called by the getter that has the token.
func (w *waiters) woken() { w.coming.Store(false) }

// signal puts a token into a channel with room for one, if it is not there.
func signal(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// timer is the one runtime timer of a queue. It is armed only while something
// waits for a time.
type timer struct {
	env  *env
	tick func()
	news chan struct{} // gets a token when it has fired

	at     atomic.Int64 // when it fires; written under mu
	firing atomic.Int32 // ticks that are under way; raised under mu

	mu      sync.Mutex // guards what follows; taken with no shard's lock held
	timer   *time.Timer
	stopped bool
}

func (t *timer) init(v *env, tick func(), news chan struct{}) {
	t.env, t.tick, t.news = v, tick, news
	t.at.Store(never)
	t.timer = time.AfterFunc(time.Hour, t.fire)
	t.timer.Stop()
}

// set makes the timer fire at the given time, unless it fires before. What is due
// is there for the tick that is under way to see, so that a look without the lock
// does to find that nothing has to be set.
func (t *timer) set(at int64) {
	if at >= t.at.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if at < t.at.Load() && !t.stopped {
		t.at.Store(at)
		t.timer.Reset(max(time.Duration(at-t.env.now()), 0))
	}
}

// fire runs in a goroutine of the runtime's timer; Drain and Stop wait for it.
func (t *timer) fire() {
	t.mu.Lock()
	if t.stopped {
		t.mu.Unlock()
		return
	}
	t.at.Store(never)
	t.firing.Add(1)
	t.mu.Unlock()

	t.tick()

	t.firing.Add(-1)
	signal(t.news)
}

// fires tells whether it does so now.
func (t *timer) fires() bool { return t.firing.Load() > 0 }

// stop disarms the timer. It may be called again.
func (t *timer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.timer.Stop()
}
