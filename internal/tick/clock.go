package tick

import (
	"sync/atomic"
	"time"
)

// Clock tells the time in ticks of 4 ms. A reading of the real clock costs half of
// what a whole cycle of the queue does, so one that is asked often does not read it:
// once many readings have fallen into one tick, it stays put until a timer has
// cooled it down. What it tells is thus no older than two ticks of the time in which
// the process ran (or older, while the goroutine that is about to set the timer is
// preempted), and one that is asked seldom reads exactly.
type Clock struct {
	warm    atomic.Uint64 // the tick to tell; 0: read the clock
	last    atomic.Uint64 // the tick of the last reading
	reads   atomic.Uint32 // within that tick
	stopped atomic.Bool
	start   time.Time
	timer   *time.Timer
}

// A tick is 4.2 ms.
const (
	Bits = 22
	Tick = time.Duration(1 << Bits)
)

// A clock that was read so often in one tick stays put for the next.
const warmReads = 64

// Init sets the time of which ticks are counted. It is called first, once.
func (c *Clock) Init(start time.Time) {
	c.start = start
	c.timer = time.AfterFunc(time.Hour, func() { c.warm.Store(0) })
	c.timer.Stop()
}

// Warm is Ticks without a reading; 0 says that it needs one.
func (c *Clock) Warm() uint64 { return c.warm.Load() }

// Ticks is the present tick, or one of the two before; never 0.
func (c *Clock) Ticks() uint64 {
	if t := c.warm.Load(); t != 0 {
		return t
	}
	return ticks(c.read())
}

// Since is the time since the start, and whether it was read; else it is up to two
// ticks less.
func (c *Clock) Since() (d time.Duration, exact bool) {
	if t := c.warm.Load(); t != 0 {
		return Since(t), false
	}
	return time.Duration(c.read()), true
}

func (c *Clock) read() int64 {
	now := c.Now()
	t := ticks(now)
	if c.last.Swap(t) != t {
		c.reads.Store(0)
	}
	if c.reads.Add(1) > warmReads && !c.stopped.Load() && c.warm.CompareAndSwap(0, t) {
		c.timer.Reset(Tick)
	}
	return now
}

// Now reads the clock: nanoseconds since the start.
func (c *Clock) Now() int64 { return int64(time.Since(c.start)) }

// Exact reads the clock: the present tick, never 0.
func (c *Clock) Exact() uint64 { return ticks(c.Now()) }

func ticks(now int64) uint64 { return uint64(now>>Bits) + 1 }

// Begin is when a tick began.
func (c *Clock) Begin(tick uint64) time.Time { return c.start.Add(Since(tick)) }

// Since is when a tick began, since the start.
func Since(tick uint64) time.Duration { return time.Duration(tick-1) << Bits }

// Stop ends the timer; from then on each reading is exact.
func (c *Clock) Stop() {
	c.stopped.Store(true)
	c.timer.Stop()
	c.warm.Store(0)
}
