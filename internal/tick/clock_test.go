package tick_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/tick"
)

func TestClockThatIsAskedSeldomIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tick.Clock
		c.Init(time.Now())
		for n := range 1000 {
			d, exact := c.Since()
			if want := time.Duration(n) * 100 * time.Microsecond; !exact || d != want || c.Warm() != 0 {
				t.Fatalf("after %v: %v, exact: %v", want, d, exact)
			}
			time.Sleep(100 * time.Microsecond)
		}
	})
}

// Negative control: with a timer of three ticks the clock told a time that was older
// than two.
func TestClockThatIsAskedOftenIsNeverOlderThanTwoTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tick.Clock
		start := time.Now()
		c.Init(start)
		kept := 0
		for range 100 {
			for range 200 {
				d, exact := c.Since()
				if !exact {
					kept++
				}
				if age := time.Since(start) - d; age < 0 || age >= 2*tick.Tick || exact && age != 0 {
					t.Fatalf("the time told is %v old, exact: %v", age, exact)
				}
				if now := c.Ticks(); now > c.Exact() || now+2 < c.Exact() {
					t.Fatalf("tick %d is told for %d", now, c.Exact())
				}
			}
			time.Sleep(700 * time.Microsecond)
		}
		if kept == 0 {
			t.Error("the clock was read each time")
		}
		c.Stop()
		for range 1000 {
			if _, exact := c.Since(); !exact {
				t.Fatal("a clock that was stopped keeps its time")
			}
		}
	})
}

func ExampleClock() {
	var c tick.Clock
	c.Init(time.Now())
	defer c.Stop()
	d, exact := c.Since()
	fmt.Println(d < time.Hour, exact, c.Ticks() > 0)
	// Output: true true true
}
