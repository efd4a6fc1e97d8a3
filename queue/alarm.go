package queue

import (
	"sync"
	"time"
)

// alarm is the one runtime timer of a queue. It is armed only while something
// waits for a time.
type alarm struct {
	start time.Time
	ring  func()

	mu      sync.Mutex // guards what follows; taken with no shard's lock held
	timer   *time.Timer
	at      int64
	ringing int
	stopped bool
	quiet   chan struct{} // closed once stopped and no longer ringing
}

func (a *alarm) init(start time.Time, ring func()) {
	a.start, a.ring, a.at = start, ring, never
	a.quiet = make(chan struct{})
	a.timer = time.AfterFunc(time.Hour, a.fire)
	a.timer.Stop()
}

// set makes the alarm ring at the given time, unless it will ring before.
func (a *alarm) set(at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at >= a.at || a.stopped {
		return
	}
	a.at = at
	a.timer.Reset(max(time.Duration(at-1)-time.Since(a.start), 0)) // see Queue.now
}

// fire runs in a goroutine of the timer; stop waits for it.
func (a *alarm) fire() {
	a.mu.Lock()
	if a.stopped {
		a.mu.Unlock()
		return
	}
	a.at = never
	a.ringing++
	a.mu.Unlock()

	a.ring()

	a.mu.Lock()
	a.ringing--
	if a.stopped && a.ringing == 0 {
		close(a.quiet)
	}
	a.mu.Unlock()
}

// stop disarms the alarm; quiet is closed once it does not ring any more. It
// may be called again.
func (a *alarm) stop() {
	a.mu.Lock()
	if !a.stopped {
		a.stopped = true
		a.timer.Stop()
		if a.ringing == 0 {
			close(a.quiet)
		}
	}
	a.mu.Unlock()
}
