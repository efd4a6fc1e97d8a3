package queue

import (
	"math"
	"slices"
	"time"
)

// Histogram counts durations, twice: with bounds that people look at, see UpTo, and with
// bins that all have the same relative width.
type Histogram struct {
	Sum float64 // of all, in seconds

	// Fine counts the durations by bins: bin k has those above 2^((k-1)/8) seconds and
	// up to 2^(k/8), which is 9 % more. These are the buckets of a Prometheus native
	// histogram of schema 3.
	Fine map[int]uint64
	Zero uint64 // durations of 0, which have no bin

	counts [len(bounds) + 1]uint64 // up to each bound and above the one before; the last: above all
}

// bounds are in nanoseconds: the union of those that client-go gives to
// its queues (powers of ten) and controller-runtime to its reconcile times (from
// 5 ms to 60 s), so that either set can be had without a guess.
var bounds = [...]int64{
	10, 100, 1_000, 10_000, 100_000, 1_000_000,
	ms(5), ms(10), ms(25), ms(50), ms(100), ms(150), ms(200), ms(250), ms(300), ms(350), ms(400), ms(450), ms(500),
	ms(600), ms(700), ms(800), ms(900), ms(1000), ms(1250), ms(1500), ms(1750), ms(2000), ms(2500), ms(3000),
	ms(3500), ms(4000), ms(4500), ms(5000), ms(6000), ms(7000), ms(8000), ms(9000), ms(10_000), ms(15_000),
	ms(20_000), ms(25_000), ms(30_000), ms(40_000), ms(50_000), ms(60_000), ms(100_000), ms(1_000_000),
}

func ms(n int64) int64 { return n * int64(time.Millisecond) }

// UpTo is how many durations were d or less. It is exact if d is one of the bounds that
// client-go gives to its queues or controller-runtime to its reconcile times; else it
// leaves out those between the bound below and d.
func (h *Histogram) UpTo(d time.Duration) (n uint64) {
	for k, bound := range bounds {
		if bound <= int64(d) {
			n += h.counts[k]
		}
	}
	return n
}

// Total is how many durations there were.
func (h *Histogram) Total() (n uint64) {
	for _, c := range h.counts {
		n += c
	}
	return n
}

// Bins outside these are not kept: from a nanosecond to twelve days. What is longer
// counts as that long.
const firstBin, lastBin = -30*8 + 1, 20 * 8

// observe counts a duration as often as weight says.
func (h *Histogram) observe(ns int64, weight uint64) {
	ns = max(ns, 0)
	b, _ := slices.BinarySearch(bounds[:], ns)
	h.counts[b] += weight
	h.Sum += float64(ns) / 1e9 * float64(weight)
	if ns == 0 {
		h.Zero += weight
		return
	}
	// As Prometheus works it out, from the same bounds, so that a duration on a bound
	// falls alike.
	frac, exp := math.Frexp(float64(ns) / 1e9)
	k, _ := slices.BinarySearch(fractions[:], frac)
	h.fine(min(max((exp-1)*len(fractions)+k, firstBin), lastBin), weight)
}

// fractions are the bounds of an octave's bins, from 0.5 on.
var fractions = func() (f [8]float64) {
	for k := range f {
		f[k] = math.Exp2(float64(k)/8) / 2
	}
	return f
}()

// fine counts in a bin.
func (h *Histogram) fine(bin int, weight uint64) {
	if h.Fine == nil {
		h.Fine = make(map[int]uint64)
	}
	h.Fine[bin] += weight
}

// add adds the counts of another one.
func (h *Histogram) add(o *Histogram) {
	for k, n := range o.counts {
		h.counts[k] += n
	}
	for k, n := range o.Fine {
		h.fine(k, n)
	}
	h.Zero += o.Zero
	h.Sum += o.Sum
}

// extend restores the upper bits of an entry's tick, of which it keeps the lower 32,
// 208 days: the last one with these lower bits that is not later than now, or some
// minutes later, when the entry may have been read. An entry that is in its state for
// longer than 208 days looks younger.
func extend(at uint32, now uint64) uint64 {
	latest := now + 1<<16
	return latest - uint64(uint32(latest)-at)
}

// meter measures how long keys are ready before they run and how long they run,
// without reading the clock for each of them. What is longer than two ticks of the
// clock is seen from the tick in which each key came into its state. Of the shorter
// times a sample is measured, for which the others stand: while the queue is quiet
// the next key as soon as there is no sample, else one in 64 at most.
type meter struct {
	key            uint32 // the sample, an entry's index+1; 0: none
	skip           uint32 // keys until the next sample
	from           int64  // when the sample became ready, then when it began to run
	waited, worked sampled
}

// sampled is a histogram, and durations that were alike and are not in it yet: what that
// costs is paid once for all of them.
type sampled struct {
	short int64 // the last sample, as which a short duration counts
	ns    int64
	n     uint64
	*Histogram
}

const (
	sampleEvery = 64
	longTicks   = 2
)

// add counts a duration.
func (h *sampled) add(ns int64) {
	if ns != h.ns {
		h.flush()
		h.ns = ns
	}
	h.n++
}

// flush counts what is not in the histogram yet.
func (h *sampled) flush() *Histogram {
	if h.n > 0 {
		h.observe(h.ns, h.n)
		h.n = 0
	}
	return h.Histogram
}

// ready is called when entry i becomes ready.
func (m *meter) ready(c *clock, i uint32) {
	if m.skip > 0 && c.warm.Load() != 0 {
		m.skip--
	} else {
		m.choose(c, i)
	}
}

// choose makes entry i the sample, unless there is one.
func (m *meter) choose(c *clock, i uint32) {
	m.skip = sampleEvery - 1
	if now := c.now(); m.key == 0 || now-m.from > longTicks<<clockBits { // else the sample may be a short one
		m.key, m.from = i+1, now
	}
}

// count adds how long entry i was ready or ran, from one tick to another.
func (m *meter) count(h *sampled, c *clock, i, from, to uint32) {
	if from == to && h.ns == h.short && m.key != i+1 {
		h.n++
	} else {
		m.measure(h, c, i, to-from)
	}
}

// measure is count for the sample and for what has taken longer than a tick.
func (m *meter) measure(h *sampled, c *clock, i, ticks uint32) {
	if -ticks < 1<<16 {
		ticks = 0 // the clock may tell a tick before the last one: see extend
	}
	switch {
	case m.key == i+1:
		now := c.now()
		if ticks < longTicks {
			h.short = now - m.from
		}
		h.add(now - m.from)
		m.from = now
	case ticks < longTicks:
		h.add(h.short)
	default:
		h.add(int64(ticks) << clockBits)
	}
}

// drop is called when entry i has run, or leaves without a run.
func (m *meter) drop(i uint32) {
	if m.key == i+1 {
		m.key = 0
	}
}
