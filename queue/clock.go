package queue

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// watch is the time since a queue's start, on the monotonic clock. It says when the clocks of
// its shards cool.
type watch struct {
	start  time.Time
	cooled atomic.Uint64 // another number each time that they do; never 0

	mu      sync.Mutex // guards what follows; taken with a shard's lock held
	hot     bool       // the timer is set
	stopped bool
	timer   *time.Timer
	firing  sync.WaitGroup // the timer, from when it is set until it has fired
}

func (w *watch) init() {
	w.start = time.Now()
	w.cooled.Store(1)
	w.timer = time.AfterFunc(time.Hour, w.fire)
	w.timer.Stop()
}

// now is at least 1: 0 means no time.
func (w *watch) now() int64 { return int64(time.Since(w.start)) + 1 }

// at is the time of now for a time of the calendar, at least 1. What is further
// away than a Duration can say is as good as never.
func (w *watch) at(t time.Time) int64 { return max(plus(1, t.Sub(w.start)), 1) }

// time is the opposite of at.
func (w *watch) time(at int64) time.Time { return w.start.Add(time.Duration(at - 1)) }

// timeSince is time for what entry.since says, which is rounded down: never before the start.
func (w *watch) timeSince(since int64) time.Time { return w.time(since + 1) }

// plus is now+d; far beyond a lifetime it is as good as never.
func plus(now int64, d time.Duration) int64 {
	if int64(d) > math.MaxInt64-1-now {
		return math.MaxInt64 - 1
	}
	return now + int64(d)
}

// heat is what a clock needs to be warm until the timer cools it; 0, which it never is, after
// stop.
func (w *watch) heat() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopped:
		return 0
	case !w.hot:
		w.hot = true
		w.firing.Add(1)
		w.timer.Reset(warmFor)
	}
	return w.cooled.Load()
}

func (w *watch) fire() {
	w.mu.Lock()
	w.hot = false
	w.cooled.Add(1)
	w.mu.Unlock()
	w.firing.Done()
}

// stop cools the clocks for good. It waits for the timer, and may be called again.
func (w *watch) stop() {
	w.mu.Lock()
	w.stopped = true
	if w.hot && w.timer.Stop() {
		w.hot = false
		w.firing.Done()
	}
	w.cooled.Add(1)
	w.mu.Unlock()
	w.firing.Wait()
}

// clock tells a shard the time. After some readings within a millisecond it is warm: it tells
// the last one until the watch cools it. So a time is never late, and early by at most a
// millisecond and what the timer is late by, and exact in a shard that asks seldom.
//
// A duration between two such times says nothing if it is short. So of the keys that become
// ready one in 32 is a sample, at a place in each row of 32 that is drawn by chance (each 32nd
// would not do where each n-th run is a long one): for a sample the clock is read in any case.
type clock struct {
	watch  *watch
	moment int64  // of this critical section; 0: the clock was not read
	last   int64  // the last reading
	warm   uint64 // watch.cooled when the clock got warm
	window int64  // when the millisecond began
	reads  uint32 // within it
	next   uint32 // keys until the next sample, itself included
	row    uint32 // keys of its row after it
}

const (
	warmReads = 16
	warmFor   = long / 16
)

func (c *clock) init(w *watch) {
	c.watch = w
	c.draw()
}

func (c *clock) isWarm() bool { return c.warm == c.watch.cooled.Load() }

// now is the time of this critical section, be it for one key or for a thousand.
func (c *clock) now() int64 {
	if c.warm == c.watch.cooled.Load() {
		return c.last
	}
	return c.exact()
}

// exact is now, read from the clock once in this critical section.
func (c *clock) exact() int64 {
	if c.moment != 0 {
		return c.moment
	}
	now := c.watch.now()
	if now-c.window >= int64(warmFor) {
		c.window, c.reads = now, 0
	}
	if c.reads++; c.reads > warmReads && !c.isWarm() {
		c.warm = c.watch.heat()
	}
	c.moment, c.last = now, now
	return now
}

// sample tells whether the next key that becomes ready is one.
func (c *clock) sample() bool {
	if c.next--; c.next > 0 {
		return false
	}
	c.draw()
	return true
}

// draw chooses the sample of the next row.
func (c *clock) draw() {
	at := 1 + rand.Uint32N(sampled)
	c.next, c.row = c.row+at, sampled-at
}
