package main

import "testing"

// The show itself is run by internal/release's -beside, a step of CI.
func TestCallsAboveTheGrantAreNoticed(t *testing.T) {
	var times []int64
	for i := range 2*perSecond + burst + 3 {
		times = append(times, int64(i)*2_000_000)
	}
	if _, err := fullest(times, 3); err != nil {
		t.Error(err)
	}
	if _, err := fullest(append(times, times[len(times)-1]), 3); err == nil {
		t.Error("one call above the grant was not noticed")
	}
}
