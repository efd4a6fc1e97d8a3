package queue

import (
	"math/bits"
	"time"
)

// Histogram counts durations.
type Histogram struct {
	Bounds []float64 // upper bounds in seconds, ascending: powers of two of a nanosecond
	Counts []uint64  // durations up to each bound and above the one before; the last: above all bounds
	Sum    float64   // of all, in seconds
}

const (
	firstBound = 8  // 2⁸ ns
	lastBound  = 42 // 2⁴² ns, 73 min
)

// histogram has a counter for each power of two.
type histogram struct {
	counts [lastBound - firstBound + 2]uint64
	n      uint64  // of all counters
	sum    float64 // ns
}

// sample counts the sample, for all of total that are not counted yet if it was
// short.
func (h *histogram) sample(ticks uint32, ns int64, total uint64) {
	if ticks >= longTicks || total <= h.n {
		h.observe(ns, 1)
		return
	}
	h.observe(ns, total-h.n)
}

// long counts a duration if it is so long that ticks measure it.
func (h *histogram) long(ticks uint32) {
	if ticks >= longTicks {
		h.observe(int64(ticks)<<clockBits, 1)
	}
}

// observe counts a duration as often as weight says.
func (h *histogram) observe(ns int64, weight uint64) {
	ns = max(ns, 0)
	b := min(max(bits.Len64(uint64(max(ns-1, 0))), firstBound), lastBound+1)
	h.counts[b-firstBound] += weight
	h.n += weight
	h.sum += float64(ns) * float64(weight)
}

func (h *histogram) addTo(to *Histogram) {
	if to.Bounds == nil {
		for b := firstBound; b <= lastBound; b++ {
			to.Bounds = append(to.Bounds, time.Duration(1<<b).Seconds())
		}
		to.Counts = make([]uint64, len(h.counts))
	}
	for k, n := range h.counts {
		to.Counts[k] += n
	}
	to.Sum += h.sum / float64(time.Second)
}

// sampler measures how long keys are ready and how long they run, without
// reading the clock for each of them. What is longer than two ticks of the
// clock is seen from the tick in which each key came into its state. Of the
// shorter ones a sample is measured and stands for all that were not counted
// since the last: while the queue is quiet the next key as soon as there is no
// sample, else one in 64 at most.
type sampler struct {
	key   uint32 // the sample, an entry's index+1; 0: none
	skip  uint32 // keys until the next sample
	from  int64  // when the sample became ready, then when it began to run
	ended uint64 // runs

	waited, worked histogram
}

const (
	sampleEvery = 64
	longTicks   = 2
)

// enter is called when entry i becomes ready. Like the others it returns the
// present tick.
func (s *sampler) enter(c *clock, i uint32) uint32 {
	if now := c.warm.Load(); now != 0 && s.skip > 0 {
		s.skip--
		return now
	}
	return s.begin(c, i)
}

// begin makes entry i the sample, unless there is one that may be short.
func (s *sampler) begin(c *clock, i uint32) uint32 {
	s.skip = sampleEvery - 1
	if now := c.now(); s.key == 0 || now-s.from > longTicks<<clockBits {
		s.key, s.from = i+1, now
	}
	return c.tick()
}

// wait is called when entry i begins to run, as the turn-th.
func (s *sampler) wait(c *clock, i, since uint32, turn uint64) uint32 {
	if now := c.warm.Load(); now-since < longTicks && s.key != i+1 {
		return now
	}
	return s.waitMore(c, i, since, turn)
}

func (s *sampler) waitMore(c *clock, i, since uint32, turn uint64) uint32 {
	tick := c.tick()
	if s.key == i+1 {
		now := c.now()
		s.waited.sample(tick-since, now-s.from, turn)
		s.from = now
	} else {
		s.waited.long(tick - since)
	}
	return tick
}

// work is called when entry i has ended its run.
func (s *sampler) work(c *clock, i, since uint32) {
	if c.warm.Load()-since >= longTicks || s.key == i+1 {
		s.workMore(c, i, since)
	}
}

func (s *sampler) workMore(c *clock, i, since uint32) {
	tick := c.tick()
	if s.key == i+1 {
		s.worked.sample(tick-since, c.now()-s.from, s.ended)
		s.key = 0
	} else {
		s.worked.long(tick - since)
	}
}
