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

	counts []uint64 // up to each edge and above the one before; nil: none were counted
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
// leaves out those between the edge of a bin below and d.
func (h *Histogram) UpTo(d time.Duration) (n uint64) {
	for k, c := range h.counts {
		if edges[k] <= int64(d) {
			n += c
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

// edges are what durations are counted between, in nanoseconds: the bounds, the longest duration of
// each bin, and the longest that there is.
var edges = func() []int64 {
	all := append([]int64{0}, bounds[:]...)
	for bin := firstBin; bin <= lastBin; bin++ {
		longest := int64(math.Exp2(float64(bin)/8)*1e9) + 1
		for binOf(longest) > bin {
			longest--
		}
		all = append(all, longest)
	}
	all = append(all, math.MaxInt64)
	slices.Sort(all)
	return slices.Compact(all)
}()

// binOf is the bin of a duration, as Prometheus works it out, from the same fractions, so
// that one on a bound falls alike.
func binOf(ns int64) int {
	frac, exp := math.Frexp(float64(ns) / 1e9)
	k, _ := slices.BinarySearch(fractions[:], frac)
	return (exp-1)*len(fractions) + k
}

// fractions are the bounds of an octave's bins, from 0.5 on.
var fractions = func() (f [8]float64) {
	for k := range f {
		f[k] = math.Exp2(float64(k)/8) / 2
	}
	return f
}()

// observe counts a duration; less than none is none. Fine and Zero are for add to work out.
func (h *Histogram) observe(ns int64) {
	if h.counts == nil {
		h.counts = make([]uint64, len(edges))
	}
	ns = max(ns, 0)
	h.Sum += float64(ns) / 1e9
	k, _ := slices.BinarySearch(edges, ns)
	h.counts[k]++
}

// add adds the counts of another one.
func (h *Histogram) add(o *Histogram) {
	h.Sum += o.Sum
	for k, n := range o.counts {
		if h.counts == nil {
			h.counts, h.Fine = make([]uint64, len(edges)), make(map[int]uint64)
		}
		switch h.counts[k] += n; {
		case edges[k] == 0:
			h.Zero += n
		case n > 0:
			h.Fine[min(binOf(edges[k]), lastBin)] += n
		}
	}
}
