package queue

import (
	"sync"
	"sync/atomic"
	"time"
)

// waiters wakes getters that sleep. A burst of adds wakes one of them; it takes a
// key and wakes the next while there are more. So an add pays for a wake-up only
// when a getter sleeps, and for one at most. Before a getter sleeps it looks a few
// times more, because falling asleep and waking up cost as much as several runs, and
// no getter is woken while one looks.
//
// The invariant is that if a getter sleeps, no shard has a key that may run which
// no getter is on its way to: an adder first makes its key ready and then looks
// for a getter to wake; a getter first says that it sleeps, then that it does not
// look any more, and then looks once again.
type waiters struct {
	sleeping atomic.Int32 // getters that sleep, or are about to
	looking  atomic.Int32 // getters that look
	token    chan struct{}
}

// looks is how often a getter looks before it sleeps.
const looks = 3

// wake wakes a getter if one sleeps and none looks.
func (w *waiters) wake() {
	if w.sleeping.Load() != 0 && w.looking.Load() == 0 {
		signal(w.token)
	}
}

// look counts the caller as looking, and tells whether it may: one at a time.
func (w *waiters) look() bool {
	if w.looking.Add(1) == 1 {
		return true
	}
	w.looking.Add(-1)
	return false
}

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
	ring func()

	mu      sync.Mutex // guards what follows; taken with no shard's lock held
	timer   *time.Timer
	at      int64
	ringing int
	stopped bool
	quiet   chan struct{} // closed once stopped and no longer ringing
}

func (t *timer) init(v *env, ring func()) {
	t.env, t.ring, t.at = v, ring, never
	t.quiet = make(chan struct{})
	t.timer = time.AfterFunc(time.Hour, t.fire)
	t.timer.Stop()
}

// set makes the timer ring at the given time, unless it rings before.
func (t *timer) set(at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at < t.at {
		t.reset(at)
	}
}

// reset makes the timer ring at the given time, or never. It needs mu held.
func (t *timer) reset(at int64) {
	if t.stopped {
		return
	}
	t.at = at
	if at == never {
		t.timer.Stop()
		return
	}
	t.timer.Reset(max(time.Duration(at-t.env.now()), 0))
}

// fire runs in a goroutine of the runtime's timer; Drain and Stop wait for it.
func (t *timer) fire() {
	t.mu.Lock()
	if t.stopped {
		t.mu.Unlock()
		return
	}
	t.at = never
	t.ringing++
	t.mu.Unlock()

	t.ring()

	t.mu.Lock()
	t.ringing--
	if t.stopped && t.ringing == 0 {
		close(t.quiet)
	}
	t.mu.Unlock()
}

// stop disarms the timer; quiet is closed once it does not ring any more. It may
// be called again.
func (t *timer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	t.stopped = true
	t.timer.Stop()
	if t.ringing == 0 {
		close(t.quiet)
	}
}
