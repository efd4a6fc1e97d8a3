package queue

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// In a busy shard times are at most two milliseconds less than they are, and never more; in
// one that is asked seldom they are exact, and no timer is set for them.
//
// Negative control: a timer of five milliseconds.
func TestTimesOfABusyShardAreRoughlyRight(t *testing.T) {
	for _, c := range []struct {
		cycles int // each step
		step   time.Duration
		error  time.Duration // at most
	}{{1, time.Millisecond, 2 * time.Microsecond}, {20, 170 * time.Microsecond, 2 * time.Millisecond}} {
		bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
			s, told := &q.shards.all[0], 0
			for range 2000 {
				time.Sleep(c.step)
				for range c.cycles {
					add(t, q, "k")
					get(t, q).Done()
				}
				add(t, q, "old")
				it := get(t, q)
				if s.isWarm() {
					told++
				}
				e, _ := q.Lookup("old")
				if late := time.Since(e.Since); late < 0 || late > c.error {
					t.Fatalf("%d cycles a step: a run that began now began %v ago", c.cycles, late)
				}
				it.Done()
			}
			if warm := told > 0; warm != (c.cycles > 1) {
				t.Errorf("%d cycles a step: the clock was warm %d times", c.cycles, told)
			}
			if c.cycles == 1 && q.env.cooled.Load() != 1 {
				t.Error("a timer was set for a clock that is asked seldom")
			}
			time.Sleep(time.Second)
			if before := q.env.cooled.Load(); q.env.hot || s.isWarm() {
				t.Error("the clock stays warm in a queue that does nothing")
			} else if time.Sleep(time.Hour); q.env.cooled.Load() != before {
				t.Error("the timer goes off in a queue that does nothing")
			}
		})
	}
}

// Histograms count every run, also where they time only some; what they say of how long
// runs took is right on average, and long ones are counted one by one.
//
// Negative controls: without what is owed 74 of 1,001 runs were counted; with each 32nd key
// timed, and not one of 32 by chance, runs took 0.05 s, where there was 1 s.
func TestHistogramsOfABusyShardCountEachRun(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		const n, long = 400_000, 10
		for k := range n {
			add(t, q, "k")
			it := get(t, q)
			switch {
			case k%(n/long) == n/long/2:
				time.Sleep(time.Second)
			case k%10 == 0:
				time.Sleep(100 * time.Microsecond)
			}
			it.Done()
			if k%10_000 == 0 {
				if st := q.Stats(); st.QueueTime.UpTo(math.MaxInt64) != uint64(k+1) || st.WorkTime.UpTo(math.MaxInt64) != uint64(k+1) {
					t.Fatalf("%d runs, counted %d and %d", k+1, st.QueueTime.UpTo(math.MaxInt64), st.WorkTime.UpTo(math.MaxInt64))
				}
			}
		}
		h := q.Stats().WorkTime
		if got := h.UpTo(math.MaxInt64) - h.UpTo(500*time.Millisecond); got != long {
			t.Errorf("%d runs of a second, counted %d", long, got)
		}
		// Their standard deviation is 30 µs: that of the sum is 6·30 µs·√n, or 0.029 of it.
		if short, want := h.Sum-long, n*100e-6/10; short < 0.8*want || short > 1.2*want {
			t.Errorf("the others took %v s, there were %v", short, want)
		}
	})
}

// After Stop a warm clock tells the time as it is.
//
// Negative control: a Stop that leaves the clock as it is.
func TestStopCoolsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, oneOrder())
		for range 100 {
			add(t, q, "k")
			get(t, q).Done()
		}
		s := &q.shards.all[0]
		if !s.isWarm() {
			t.Fatal("the clock is not warm: the test is blind")
		}
		if err := q.Stop(t.Context()); err != nil || s.isWarm() {
			t.Errorf("after Stop, %v, the clock is warm: %v", err, s.isWarm())
		}
	})
}
