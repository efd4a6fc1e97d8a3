package queue

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Every duration is counted once, in the place that the documentation of Histogram says.
func TestHistogramCountsEachDurationBetweenItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Histogram
		all := rapid.SliceOfN(rapid.OneOf(
			rapid.Int64Range(0, int64(300*time.Hour)), rapid.Int64Range(0, 2000), rapid.SampledFrom(bounds[:]),
		), 0, 30).Draw(t, "durations")
		for _, ns := range all {
			h.observe(ns)
		}
		var got Histogram
		got.add(&h)
		for _, bound := range bounds {
			want := uint64(0)
			for _, ns := range all {
				if ns <= bound {
					want++
				}
			}
			if n := got.UpTo(time.Duration(bound)); n != want {
				t.Fatalf("%d durations up to %v, want %d", n, time.Duration(bound), want)
			}
		}
		total, before := uint64(0), time.Duration(-1)
		for edge, n := range got.All() {
			total += n
			in := uint64(0)
			at, _ := slices.BinarySearch(edges, int64(edge))
			for _, ns := range all {
				if ns <= int64(edge) && (at == 0 || ns > edges[at-1]) {
					in++
				}
			}
			if n != in || n == 0 || edge <= before {
				t.Fatalf("%d up to %v, want %d; the edge before is %v", n, edge, in, before)
			}
			before = edge
		}
		if n := uint64(len(all)); got.UpTo(math.MaxInt64) != n || total != n {
			t.Fatalf("%d by UpTo and %d by All, want %d", got.UpTo(math.MaxInt64), total, n)
		}
	})
}

// No two edges are further apart than 9.1 % and two nanoseconds, which is what is left out of them.
func TestEdgesAreClose(t *testing.T) {
	for k, edge := range edges[2 : len(edges)-1] {
		if before := edges[k+1]; float64(edge) > float64(before)*math.Exp2(1.0/8)+2 {
			t.Errorf("the edges %v and %v are neighbours", time.Duration(before), time.Duration(edge))
		}
	}
}

// A duration is looked for from the first edge of its bin on: that is never beyond its own, and
// up to twelve days at most six edges below it.
func TestFirstEdgeOfABinIsCloseToEachOfItsDurations(t *testing.T) {
	for k := 1; k < len(edges); k++ {
		for _, ns := range []int64{edges[k-1] + 1, edges[k]} {
			if from := firstEdge[bin(ns)]; from > k || from < k-6 && k < len(edges)-1 {
				t.Errorf("%d ns is up to edge %d and is looked for from edge %d on", ns, k, from)
			}
		}
	}
	if firstEdge[bin(0)] != 0 {
		t.Error("no time is not looked for from the first edge on")
	}
}

func TestHistogramAddsUpOverShards(t *testing.T) {
	var a, b, sum Histogram
	for range 2 {
		a.observe(int64(time.Second))
	}
	for range 3 {
		b.observe(int64(time.Second))
	}
	b.observe(0)
	sum.add(&a)
	sum.add(&b)
	if sum.UpTo(time.Second) != 6 || sum.UpTo(time.Second-1) != 1 || sum.UpTo(0) != 1 || sum.Sum != 5 {
		t.Errorf("%+v", sum)
	}
}

// Waits and runs are counted as long as they were, to the microsecond that an entry leaves out.
func TestTimesAreCountedAsLongAsTheyWere(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		random := rand.New(rand.NewPCG(1, 1))
		var want, ran Histogram
		for range 300 {
			wait, run := random.Int64N(1<<random.IntN(40)), random.Int64N(1<<random.IntN(40))
			add(t, q, "a")
			time.Sleep(time.Duration(wait))
			it := get(t, q)
			time.Sleep(time.Duration(run))
			it.Done()
			want.observe(wait)
			ran.observe(run)
		}
		st := q.Stats()
		for _, h := range []struct{ got, want *Histogram }{{&st.QueueTime, &want}, {&st.WorkTime, &ran}} {
			const most = 300 * (1 << sinceUnit) / 1e9
			if n, d := h.got.UpTo(math.MaxInt64), h.got.Sum-h.want.Sum; n != 300 || d < -1e-6 || d > most {
				t.Errorf("%d times, %v s; want 300 and %v s", n, h.got.Sum, h.want.Sum)
			}
		}
	})
}

// What is longer than twelve days is above every bound.
func TestHistogramCountsTheLongestAboveAllBounds(t *testing.T) {
	var h, sum Histogram
	h.observe(math.MaxInt64)
	h.observe(math.MaxInt64 / 2)
	h.observe(-1)
	sum.add(&h)
	if n, all := sum.UpTo(1<<20*time.Second), sum.UpTo(math.MaxInt64); n != 1 || all != 3 {
		t.Errorf("%d of %d are up to the last edge but one", n, all)
	}
}
