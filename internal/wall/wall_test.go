package wall_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/wall"
)

func TestShiftedClockIsOffAndTheProcessClockIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer wall.Shift(0)
		for _, d := range []time.Duration{0, time.Hour, -24 * time.Hour} {
			wall.Shift(d)
			begun := time.Now()
			if got := wall.Now().Sub(begun); got != d {
				t.Errorf("the clock is off by %v, want %v", got, d)
			}
			if got := wall.At(begun.Add(time.Minute)).Sub(begun); got != d+time.Minute {
				t.Errorf("a minute after the beginning is told as %v after it, want %v", got, d+time.Minute)
			}
			if time.Since(begun) != 0 {
				t.Errorf("time.Since is off by %v", time.Since(begun))
			}
		}
	})
}

func TestNowHasNoMonotonicReading(t *testing.T) {
	if now := wall.Now(); now != now.Round(0) || now.Location() != time.UTC {
		t.Errorf("%v has a monotonic reading, or is not UTC", now)
	}
}
