package store

import (
	"testing"
	"time"
)

// A write that meets conflicts again and again waits longer each time, and never longer than a second.
func TestPauseAfterAConflictIsBounded(t *testing.T) {
	for conflicts := range 100 {
		for range 20 {
			if pause := conflictPause(conflicts, 10*time.Second); pause > time.Second {
				t.Fatalf("a pause of %v after %d conflicts, want at most a second", pause, conflicts)
			}
		}
	}
}
