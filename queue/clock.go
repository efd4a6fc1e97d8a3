package queue

import (
	"sync/atomic"
	"time"
)

// clock tells the time since when a key is in its state, in ticks of 4 ms. A
// reading of the real clock costs half of what a whole cycle of the queue does,
// so a busy queue does not read it for that: once many readings have fallen
// into one tick, the clock stays put until a timer has cooled it down. A
// reading is thus never older than two ticks, and a quiet queue reads exactly.
type clock struct {
	warm    atomic.Uint32 // the tick to tell; 0: read the clock
	last    atomic.Uint32 // tick of the last reading
	reads   atomic.Uint32 // within that tick
	stopped atomic.Bool
	start   time.Time
	timer   *time.Timer
}

const (
	clockBits = 22 // a tick is 4.2 ms
	coolAfter = time.Duration(1 << clockBits)
	warmReads = 64
)

func (c *clock) init(start time.Time) {
	c.start = start
	c.timer = time.AfterFunc(time.Hour, func() { c.warm.Store(0) })
	c.timer.Stop()
}

// tick is the present tick; never 0.
func (c *clock) tick() uint32 {
	if t := c.warm.Load(); t != 0 {
		return t
	}
	return c.read()
}

func (c *clock) read() uint32 {
	t := uint32(time.Since(c.start)>>clockBits) + 1
	if c.last.Swap(t) != t {
		c.reads.Store(0)
	}
	if c.reads.Add(1) > warmReads && !c.stopped.Load() && c.warm.CompareAndSwap(0, t) {
		c.timer.Reset(coolAfter)
	}
	return t
}

// now reads the clock: nanoseconds since the start.
func (c *clock) now() int64 { return int64(time.Since(c.start)) }

// ticks is the present tick with all its bits. Entries keep the lower 32 of them,
// which are 208 days.
func (c *clock) ticks() uint64 { return uint64(c.now()>>clockBits) + 1 }

// whole is an entry's tick with all its bits: the last that has these and is not
// later than now or some minutes after, when the entry may have been looked at. An
// entry that is in its state for longer than 208 days looks younger.
func whole(tick uint32, now uint64) uint64 {
	latest := now + 1<<16
	return latest - uint64(uint32(latest)-tick)
}

// begin is when a whole tick began.
func (c *clock) begin(tick uint64) time.Time {
	return c.start.Add(time.Duration(tick-1) << clockBits)
}

func (c *clock) stop() {
	c.stopped.Store(true)
	c.timer.Stop()
	c.warm.Store(0)
}
