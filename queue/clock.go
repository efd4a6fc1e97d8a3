package queue

import (
	"sync/atomic"
	"time"
)

// clock tells the time in ticks of 4.2 ms, from 1 on. A reading of the real clock costs
// a good part of a whole cycle, so one that is asked often does not read it: once many
// readings have fallen into one tick, it tells that tick until its timer fires, a tick
// later. What it tells is thus no older than two ticks of the time in which the process
// ran (or older, while the goroutine that is about to set the timer is preempted), and
// one that is asked seldom reads exactly.
type clock struct {
	warm    atomic.Uint64 // the tick to tell; 0: read the clock
	last    atomic.Uint64 // the tick of the last reading
	reads   atomic.Uint32 // within that tick
	stopped atomic.Bool
	start   time.Time
	timer   *time.Timer
}

const (
	clockBits = 22
	clockTick = time.Duration(1 << clockBits)
	warmReads = 64 // of one tick, after which the clock tells that one
)

// init sets the time of which ticks are counted. It is called first, once.
func (c *clock) init(start time.Time) {
	c.start = start
	c.timer = time.AfterFunc(time.Hour, func() { c.warm.Store(0) })
	c.timer.Stop()
}

// ticks is the present tick, or one of the two before.
func (c *clock) ticks() uint64 {
	if t := c.warm.Load(); t != 0 {
		return t
	}
	return c.read()
}

// read reads the clock, and lets it tell that tick if many have asked within it.
func (c *clock) read() uint64 {
	t := c.exact()
	if c.last.Swap(t) != t {
		c.reads.Store(0)
	}
	if c.reads.Add(1) > warmReads && !c.stopped.Load() && c.warm.CompareAndSwap(0, t) {
		c.timer.Reset(clockTick)
		if c.stopped.Load() { // between the look at it and the Reset
			c.stop()
		}
	}
	return t
}

// now reads the clock: nanoseconds since the start.
func (c *clock) now() int64 { return int64(time.Since(c.start)) }

// exact reads the clock: the present tick.
func (c *clock) exact() uint64 { return uint64(c.now()>>clockBits) + 1 }

// begin is when a tick began.
func (c *clock) begin(tick uint64) time.Time {
	return c.start.Add(time.Duration(tick-1) << clockBits)
}

// stop ends the timer; from then on each reading is exact.
func (c *clock) stop() {
	c.stopped.Store(true)
	c.timer.Stop()
	c.warm.Store(0)
}
