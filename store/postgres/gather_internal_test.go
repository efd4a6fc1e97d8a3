package postgres

import (
	"testing"
	"time"
)

// Some looks for the commits of others in a row are at once, and more of them have the pause
// between them, whether notifications come without end or with the pauses in between.
func TestGatheringPausesAfterABurst(t *testing.T) {
	g := gathering{every: gather}
	now := time.Now()
	for i := range gatherBurst {
		if p := g.pause(now); p != 0 {
			t.Fatalf("look %d of a burst has a pause of %v after it", i, p)
		}
	}
	for range 100 {
		p := g.pause(now)
		if p != gather {
			t.Fatalf("a look without a quiet time before it has a pause of %v after it, want %v", p, gather)
		}
		now = now.Add(p)
	}
	now = now.Add(3 * gather)
	for i, want := range []time.Duration{0, 0, 0, gather} {
		if p := g.pause(now); p != want {
			t.Errorf("look %d after a quiet time of three pauses has one of %v, want %v", i, p, want)
		}
	}
	now = now.Add(time.Hour)
	for range 2 * gatherBurst {
		if p := g.pause(now); p > gather {
			t.Fatalf("a pause of %v", p)
		} else {
			now = now.Add(p)
		}
	}
}
