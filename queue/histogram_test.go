package queue

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Every duration is counted once by its bounds and once by its bins, in the
// places that the documentation of Histogram says.
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
		fine := got.Zero
		for k, n := range got.Fine {
			fine += n
			in, near := uint64(0), uint64(0) // a duration on a bound is in one of two bins
			for _, ns := range all {
				s := float64(ns) / 1e9
				switch low, high := math.Exp2(float64(k-1)/8), math.Exp2(float64(k)/8); {
				case s > low*(1+1e-9) && (s < high*(1-1e-9) || k == lastBin):
					in++
				case s > low*(1-1e-9) && s < high*(1+1e-9):
					near++
				}
			}
			if n < in || n > in+near {
				t.Fatalf("%d in bin %d, want %d to %d", n, k, in, in+near)
			}
		}
		if n := uint64(len(all)); got.Total() != n || fine != n {
			t.Fatalf("%d by bounds and %d by bins, want %d", got.Total(), fine, n)
		}
	})
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
	if sum.UpTo(time.Second) != 6 || sum.UpTo(time.Second-1) != 1 || sum.Fine[0] != 5 || sum.Zero != 1 || sum.Sum != 5 {
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
			if d := h.got.Sum - h.want.Sum; h.got.Total() != 300 || d < -1e-6 || d > most {
				t.Errorf("%d times, %v s; want 300 and %v s", h.got.Total(), h.got.Sum, h.want.Sum)
			}
		}
	})
}

// What is longer than the longest bin is above every bound.
func TestHistogramCountsTheLongestAboveAllBounds(t *testing.T) {
	var h, sum Histogram
	h.observe(math.MaxInt64)
	h.observe(math.MaxInt64 / 2)
	h.observe(-1)
	sum.add(&h)
	if n := sum.UpTo(1 << 20 * time.Second); n != 1 || sum.Total() != 3 || sum.Fine[lastBin] != 2 || sum.Zero != 1 {
		t.Errorf("%d of %d are up to the last bin's end; %v, %d of 0", n, sum.Total(), sum.Fine, sum.Zero)
	}
}
