package queue

import (
	"iter"
	"math"
	"slices"
	"time"
)

// Histogram counts durations between edges: the bounds that client-go gives to its queues
// and controller-runtime to its reconcile times, and so many more that no two are further
// apart than 9 %.
type Histogram struct {
	Sum    float64  // of all, in seconds
	counts []uint64 // up to each edge and above the one before; nil: none were counted
	owed   uint64   // short ones of unknown length: they count as the next sample does
	last   int64    // the last sample
}

// In a busy shard the length of most durations that are short is not known, see clock: one in
// sampled is. A long one counts as it is, also where it may be a millisecond wrong.
const (
	long    = 16 * time.Millisecond
	sampled = 32
)

// count counts the duration of a key with flags, or owes it if its length is unknown.
func (h *Histogram) count(ns int64, flags flag) {
	if flags&clocked == 0 && ns < int64(long) {
		h.owed++
	} else {
		h.known(ns, flags)
	}
}

// known counts a duration; a short one of a sample pays what is owed.
func (h *Histogram) known(ns int64, flags flag) {
	if flags&sample != 0 && ns < int64(long) {
		h.put(ns, h.owed+1)
		h.last, h.owed = ns, 0
	} else {
		h.observe(ns)
	}
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

// UpTo is how many durations were d or less; of the longest Duration, how many there were.
// It is exact if d is an edge; else it leaves out those between the edge below and d.
func (h *Histogram) UpTo(d time.Duration) (n uint64) {
	for edge, c := range h.All() {
		if edge <= d {
			n += c
		}
	}
	return n
}

// All yields how many durations were up to an edge and above the one before, if there were
// some, from the shortest on. Edges are 0; the bounds; 2^(k/8) seconds for each whole k, less
// a fraction of a nanosecond, which are the buckets of a Prometheus native histogram of schema
// 3, up to twelve days; and the longest Duration.
func (h *Histogram) All() iter.Seq2[time.Duration, uint64] {
	return func(yield func(time.Duration, uint64) bool) {
		for k, n := range h.counts {
			if n > 0 && !yield(time.Duration(edges[k]), n) {
				return
			}
		}
	}
}

// edges are in nanoseconds; firstEdge is the place of the shortest one in each bin.
var edges, firstEdge = func() (all []int64, first [256]int) {
	all = append([]int64{0, math.MaxInt64}, bounds[:]...)
	for k := -30 * 8; k <= 20*8; k++ { // a nanosecond to twelve days
		all = append(all, int64(math.Exp2(float64(k)/8)*1e9))
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for k, edge := range slices.Backward(all) {
		first[bin(edge)] = k
	}
	return all, first
}()

// bin numbers durations by their first three bits; each bin up to twelve days has an edge.
func bin(ns int64) uint64 { return math.Float64bits(float64(ns)) >> 50 % 256 }

// observe counts a duration; less than none is none.
func (h *Histogram) observe(ns int64) { h.put(ns, 1) }

func (h *Histogram) put(ns int64, times uint64) {
	if h.counts == nil {
		h.counts = make([]uint64, len(edges))
	}
	ns = max(ns, 0)
	h.Sum += float64(ns) / 1e9 * float64(times)
	k := firstEdge[bin(ns)]
	for edges[k] < ns {
		k++
	}
	h.counts[k] += times
}

// add adds the counts of another one.
func (h *Histogram) add(o *Histogram) {
	h.Sum += o.Sum
	for k, n := range o.counts {
		if h.counts == nil {
			h.counts = make([]uint64, len(edges))
		}
		h.counts[k] += n
	}
	if o.owed > 0 {
		h.put(o.last, o.owed)
	}
}
