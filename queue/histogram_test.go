package queue

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
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
		weights := uint64(0)
		for i, ns := range all {
			h.observe(ns, uint64(i+1))
			weights += uint64(i + 1)
		}
		var got Histogram
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
	m.count(&m.waited, nil, 7, 10, 9) // the key is no sample, so that no clock is read
	if h := m.waited.flush(); h.Sum != 0 || h.Total() != 1 {
		t.Errorf("counted %d times, %v seconds", h.Total(), h.Sum)
	}
}

// Times of several ticks are counted once for all that were as long, and each as long as it
// was.
func TestLongTimesCountAsLongAsTheyWere(t *testing.T) {
	m := new(meter)
	m.waited.Histogram = new(Histogram)
	want := uint64(0)
	for n, ticks := range []uint32{5, 5, 20, 5, 1, 20, 20, 20} {
		m.count(&m.waited, nil, 7, 10, 10+ticks) // the key is no sample, so that no clock is read
		if ticks >= longTicks {
			want += uint64(ticks)
		}
		if n%3 == 0 {
			m.waited.flush()
		}
	}
	if h := m.waited.flush(); math.Round(h.Sum*1e9) != float64(want<<clockBits) || h.Total() != 8 {
		t.Errorf("counted %d times, %v seconds; want 8 times and %d ticks", h.Total(), h.Sum, want)
	}
}

// Reading the times changes nothing that is counted: of two meters that see the same runs, one of
// which is read now and then, both have counted the same in the end.
//
// Negative control: the mutant "short times count as none once they were read".
func TestReadingTheTimesChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 1))
		for range 100 {
			var c clock
			c.init(time.Now())
			var meters [2]meter
			for k := range meters {
				for _, h := range []*sampled{&meters[k].waited, &meters[k].worked} {
					h.Histogram = new(Histogram)
				}
			}
			for range 200 {
				i := random.Uint32N(4)
				sample, read, from := random.IntN(8) == 0, random.IntN(4) == 0, uint32(c.exact())
				time.Sleep(time.Duration(random.Int64N(1 << random.IntN(clockBits+4))))
				for k := range meters {
					m := &meters[k]
					if sample {
						m.choose(&c, i)
					}
					m.count(&m.waited, &c, i, from, uint32(c.exact()))
					m.count(&m.worked, &c, i, from, from)
					if read && k == 0 {
						m.waited.flush()
						m.worked.flush()
					}
				}
				if random.IntN(8) == 0 {
					meters[0].drop(i)
					meters[1].drop(i)
				}
			}
			for _, of := range []func(m *meter) *sampled{
				func(m *meter) *sampled { return &m.waited }, func(m *meter) *sampled { return &m.worked },
			} {
				got, want := of(&meters[0]).flush(), of(&meters[1]).flush()
				if got.counts != want.counts || got.Zero != want.Zero || math.Abs(got.Sum-want.Sum) > 1e-6 {
					t.Fatalf("read now and then it counted %v, %d of 0, %v s; read at the end %v, %d of 0, %v s",
						got.counts, got.Zero, got.Sum, want.counts, want.Zero, want.Sum)
				}
			}
		}
	})
}
