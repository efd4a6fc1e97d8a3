package queue

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Every duration is counted once by its bounds and once by its bins, in the
// places that the documentation of Histogram says.
func TestHistogramCountsEachDurationBetweenItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Histogram
		h.init()
		all := rapid.SliceOfN(rapid.OneOf(
			rapid.Int64Range(0, int64(300*time.Hour)), rapid.Int64Range(0, 2000), rapid.SampledFrom(bounds[:]),
		), 0, 30).Draw(t, "durations")
		weights := uint64(0)
		for i, ns := range all {
			h.observe(ns, uint64(i+1))
			weights += uint64(i + 1)
		}
		var got Histogram
		got.init()
		got.add(&h)
		for _, bound := range bounds {
			want := uint64(0)
			for i, ns := range all {
				if ns <= bound {
					want += uint64(i + 1)
				}
			}
			if n := got.UpTo(time.Duration(bound)); n != want {
				t.Fatalf("%d durations up to %v, want %d", n, time.Duration(bound), want)
			}
		}
		fine := got.Zero
		for k, n := range got.Fine {
			fine += n
			for i, ns := range all {
				s := float64(ns) / 1e9
				if s > math.Exp2(float64(k-1)/8)*(1+1e-9) && s < math.Exp2(float64(k)/8)*(1-1e-9) && n < uint64(i+1) {
					t.Fatalf("%v is not in its bin %d", time.Duration(ns), k)
				}
			}
		}
		if got.Total() != weights || fine != weights {
			t.Fatalf("%d by bounds and %d by bins, want %d", got.Total(), fine, weights)
		}
	})
}

func TestHistogramAddsUpOverShards(t *testing.T) {
	var a, b, sum Histogram
	for _, h := range []*Histogram{&a, &b, &sum} {
		h.init()
	}
	a.observe(int64(time.Second), 2)
	b.observe(int64(time.Second), 3)
	b.observe(0, 1)
	sum.add(&a)
	sum.add(&b)
	if sum.UpTo(time.Second) != 6 || sum.UpTo(time.Second-1) != 1 || sum.Fine[0] != 5 || sum.Zero != 1 || sum.Sum != 5 {
		t.Errorf("%+v", sum)
	}
}

// A tick that lies before the one in which a key came into its state, as the clock may
// tell while it is warm, is no time of 208 days.
// seen to fail: it was counted as 18 million seconds.
func TestTickBeforeTheLastOneIsNoLongTime(t *testing.T) {
	m := new(meter)
	m.waited.Histogram = new(Histogram)
	m.waited.init()
	m.count(&m.waited, nil, 7, 10, 9) // the key is no sample, so that no clock is read
	if h := m.waited.flush(); h.Sum != 0 || h.Total() != 1 {
		t.Errorf("counted %d times, %v seconds", h.Total(), h.Sum)
	}
}
