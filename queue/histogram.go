package queue

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/tendhq/tend/internal/tick"
)

// Histogram counts durations, twice: with bounds that people look at, and with
// bins that all have the same relative width.
type Histogram struct {
	Bounds []float64 // upper bounds in seconds, ascending
	Counts []uint64  // durations up to each bound and above the one before; the last: above all bounds
	Sum    float64   // of all, in seconds

	// Fine counts the same durations once more: bin k has those above
	// 2^((k-1)/8) seconds and up to 2^(k/8), which is 9 % more. These are the
	// buckets of a Prometheus native histogram of schema 3.
	Fine map[int]uint64
	Zero uint64 // durations of 0, which have no bin
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

// UpTo is how many durations were d or less. It is exact if d is one of Bounds;
// else it leaves out those between the bound below and d.
func (h *Histogram) UpTo(d time.Duration) (n uint64) {
	for k, bound := range h.Bounds {
		if math.Round(bound*1e9) > float64(d) {
			break
		}
		n += h.Counts[k]
	}
	return n
}

// Total is how many durations there were.
func (h *Histogram) Total() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// The bins of Fine that are kept: from 2^-30 s, a nanosecond, to 2^20 s, twelve
// days. What is longer counts as that long.
const (
	binsPerOctave = 8
	firstBin      = -30*binsPerOctave + 1
	octaves       = 50
)

// histogram has a counter for each bound, and for the octaves that occur one for
// each bin.
type histogram struct {
	counts [len(bounds) + 1]uint64
	fine   [octaves]*[binsPerOctave]uint64
	zero   uint64
	n      uint64  // of all counters
	sum    float64 // ns
}

// sample adds a sampled duration; a short one also stands for all of total that
// were not counted since the last.
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
		h.observe(int64(ticks)<<tick.Bits, 1)
	}
}

// observe counts a duration as often as weight says.
func (h *histogram) observe(ns int64, weight uint64) {
	ns = max(ns, 0)
	b, _ := slices.BinarySearch(bounds[:], ns)
	h.counts[b] += weight
	h.n += weight
	h.sum += float64(ns) * float64(weight)
	if ns == 0 {
		h.zero += weight
		return
	}
	o, bin := fineBin(ns)
	if h.fine[o] == nil {
		h.fine[o] = new([binsPerOctave]uint64)
	}
	h.fine[o][bin] += weight
}

// fineBin is the place of a duration's bin. The bin is worked out as Prometheus
// does it, from the same bounds, so that a duration on a bound falls alike.
func fineBin(ns int64) (octave, bin int) {
	frac, exp := math.Frexp(float64(ns) / 1e9)
	k := (exp-1)*binsPerOctave + sort.SearchFloat64s(fractions[:], frac)
	i := min(max(k-firstBin, 0), octaves*binsPerOctave-1)
	return i / binsPerOctave, i % binsPerOctave
}

// fractions are the bounds of an octave's bins, from 0.5 on.
var fractions = func() (f [binsPerOctave]float64) {
	for k := range f {
		f[k] = math.Exp2(float64(k)/binsPerOctave) / 2
	}
	return f
}()

func (h *histogram) addTo(to *Histogram) {
	if to.Bounds == nil {
		for _, b := range bounds {
			to.Bounds = append(to.Bounds, time.Duration(b).Seconds())
		}
		to.Counts = make([]uint64, len(h.counts))
		to.Fine = make(map[int]uint64)
	}
	for k, n := range h.counts {
		to.Counts[k] += n
	}
	for o, bins := range h.fine {
		if bins == nil {
			continue
		}
		for k, n := range bins {
			if n > 0 {
				to.Fine[firstBin+o*binsPerOctave+k] += n
			}
		}
	}
	to.Zero += h.zero
	to.Sum += h.sum / float64(time.Second)
}

// clock tells since when a key is in its state. Entries keep the lower 32 bits of
// its ticks, which are 208 days.
type clock struct{ tick.Clock }

// tick is the present tick.
func (c *clock) tick() uint32 { return uint32(c.Ticks()) }

// warm is tick without a reading; 0 says that it needs one.
func (c *clock) warm() uint32 { return uint32(c.Warm()) }

// extend restores the upper bits of an entry's tick: the last one with these lower
// bits that is not later than now, or some minutes later, when the entry may have
// been read. An entry that is in its state for longer than 208 days looks younger.
func extend(at uint32, now uint64) uint64 {
	latest := now + 1<<16
	return latest - uint64(uint32(latest)-at)
}

// ages says since when keys are running: the ticks in which their runs began,
// ascending, with how many are left of each.
type ages struct {
	ticks []tickCount
	first int // those before are done
}

type tickCount struct{ tick, n uint32 }

// mostAges bounds the ticks that are told apart; beyond it neighbours count as the
// earlier of two.
const mostAges = maxTouched

func (a *ages) add(tick uint32) {
	if last := len(a.ticks) - 1; last >= a.first && a.ticks[last].tick == tick {
		a.ticks[last].n++
		return
	}
	if len(a.ticks) == cap(a.ticks) || len(a.ticks) == mostAges {
		a.squeeze()
	}
	a.ticks = append(a.ticks, tickCount{tick, 1})
}

func (a *ages) remove(tick uint32) {
	at := len(a.ticks) - 1
	if a.ticks[at].tick != tick {
		at = a.first + sort.Search(len(a.ticks)-a.first, func(k int) bool { return int32(a.ticks[a.first+k].tick-tick) > 0 }) - 1
	}
	a.ticks[at].n--
	for a.first < len(a.ticks) && a.ticks[a.first].n == 0 {
		a.first++
	}
	if a.first == len(a.ticks) {
		a.ticks, a.first = a.ticks[:0], 0
	}
}

// squeeze makes room by dropping the ticks of which none is left, and by joining
// neighbours if that is not enough.
func (a *ages) squeeze() {
	kept := a.ticks[:0]
	for _, t := range a.ticks[a.first:] {
		if t.n > 0 {
			kept = append(kept, t)
		}
	}
	if len(kept) == mostAges {
		for k := range mostAges / 2 {
			kept[k] = tickCount{kept[2*k].tick, kept[2*k].n + kept[2*k+1].n}
		}
		kept = kept[:mostAges/2]
	}
	a.ticks, a.first = kept, 0
}

// sampler measures how long keys are ready before they run and how long they run,
// without reading the clock for each of them. What is longer than two ticks of the
// clock is seen from the tick in which each key came into its state. Of the shorter
// times a sample is measured and stands for all that were not counted since the
// last: while the queue is quiet the next key as soon as there is no sample, else
// one in 64 at most.
type sampler struct {
	key          uint32 // the sample, an entry's index+1; 0: none
	skip         uint32 // keys until the next sample
	begun, ended uint64 // runs
	ages         ages
	*sampled
}

type sampled struct {
	from           int64 // when the sample became ready, then when it began to run
	waited, worked histogram
}

const (
	sampleEvery = 64
	longTicks   = 2
)

// ready is called when entry i becomes ready. Like begin it returns the present
// tick.
func (s *sampler) ready(c *clock, i uint32) uint32 {
	if now := c.warm(); now != 0 && s.skip > 0 {
		s.skip--
		return now
	}
	s.skip = sampleEvery - 1
	if now := c.Now(); s.key == 0 || now-s.from > longTicks<<tick.Bits { // else the sample may be a short one
		s.key, s.from = i+1, now
	}
	return c.tick()
}

// begin is called when the run of entry i begins.
func (s *sampler) begin(c *clock, i, since uint32) uint32 {
	s.begun++
	at := c.warm()
	if at-since < longTicks && s.key != i+1 {
		s.ages.add(at)
		return at
	}
	at = c.tick()
	s.ages.add(at)
	if s.key == i+1 {
		now := c.Now()
		s.waited.sample(at-since, now-s.from, s.begun)
		s.from = now
	} else {
		s.waited.long(at - since)
	}
	return at
}

// end is called when the run of entry i has ended.
func (s *sampler) end(c *clock, i, since uint32) {
	s.ended++
	s.ages.remove(since)
	if c.warm()-since < longTicks && s.key != i+1 {
		return
	}
	if at := c.tick(); s.key == i+1 {
		s.worked.sample(at-since, c.Now()-s.from, s.ended)
		s.key = 0
	} else {
		s.worked.long(at - since)
	}
}

// drop is called when entry i leaves without a run.
func (s *sampler) drop(i uint32) {
	if s.key == i+1 {
		s.key = 0
	}
}
