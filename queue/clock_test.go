package queue

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestClockThatIsAskedSeldomIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.init(time.Now())
		for n := range 1000 {
			if at, want := c.ticks(), c.exact(); at != want || c.warm.Load() != 0 {
				t.Fatalf("after %v: tick %d, want %d", time.Duration(n)*100*time.Microsecond, at, want)
			}
			time.Sleep(100 * time.Microsecond)
		}
	})
}

// Negative control: with a timer of three ticks the clock told a time that was older
// than two.
func TestClockThatIsAskedOftenIsNeverOlderThanTwoTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		start := time.Now()
		c.init(start)
		kept := 0
		for range 100 {
			for range 200 {
				if c.warm.Load() != 0 {
					kept++
				}
				now := c.ticks()
				if age := time.Since(c.begin(now)); now > c.exact() || now+2 < c.exact() || age >= 3*clockTick {
					t.Fatalf("tick %d is told for %d, it began %v ago", now, c.exact(), age)
				}
			}
			time.Sleep(700 * time.Microsecond)
		}
		if kept == 0 {
			t.Error("the clock was read each time")
		}
		c.stop()
		for range 1000 {
			if c.ticks() != c.exact() || c.warm.Load() != 0 {
				t.Fatal("a clock that was stopped keeps its time")
			}
		}
	})
}
