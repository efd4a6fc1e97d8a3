package reconcile

import (
	"testing"
	"time"
)

// promise R5: a key that is slowed gets its speed back by halves, as its changes come seldom, and not at
// the first run that nothing put off: writers that rest now and then stay slowed.
func TestSlowedKeySpeedsUpStepByStep(t *testing.T) {
	var b brake[string]
	now := time.Second
	change := func(pause time.Duration) (waited time.Duration) {
		now += pause
		waited, _ = b.change("a", now)
		now += waited
		b.began("a", now, time.Minute)
		return waited
	}
	for waited := time.Duration(0); waited < time.Second; {
		waited = change(time.Millisecond)
	}
	slowest := b.of["a"].delay
	for _, want := range []time.Duration{slowest / 2, slowest / 4, slowest / 8} {
		change(slowest + time.Millisecond)
		if got := b.of["a"].delay; got != want {
			t.Errorf("after a run that was not put off two of them lie %v apart, want %v", got, want)
		}
	}
	if waited := change(time.Millisecond); waited < slowest/8-time.Millisecond {
		t.Errorf("a change right after that waits %v, want about %v", waited, slowest/8)
	}
}

// promise R5: the runs for an object's end count as those for its coming do: what comes and goes is slowed
// after ten runs, and not after ten of its lives.
func TestEndOfAnObjectCountsAsARun(t *testing.T) {
	var b brake[string]
	lives := 0
	for now, wait := time.Second, time.Duration(0); wait == 0 && lives < 20; lives++ {
		b.gone("a", now)
		b.began("a", now, time.Minute)
		now += time.Millisecond
		wait, _ = b.came("a", now)
		b.began("a", now+wait, time.Minute)
		now += time.Millisecond
	}
	if lives != brakeRuns/2+1 {
		t.Errorf("the key was put off in its %d. life, want in its %d.", lives, brakeRuns/2+1)
	}
}

// A run that was put off is one, however many changes ask for it.
func TestRunThatIsPutOffCountsOnce(t *testing.T) {
	var b brake[string]
	now := time.Second
	for b.putOff == 0 {
		now += time.Millisecond
		if wait, _ := b.change("a", now); wait == 0 {
			b.began("a", now, time.Minute)
		}
	}
	for range 5 {
		b.change("a", now)
	}
	if b.putOff != 1 {
		t.Errorf("%d runs were put off, want 1", b.putOff)
	}
}
