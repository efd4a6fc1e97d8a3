package quota

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func internalBudget(t *testing.T, r Rate) *budget {
	t.Helper()
	b, err := newBudget("acme/dns/read", r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The bucket tells its queues of the new end of a pause. At no moment in between is it
// without one, or what waits in a queue would run during what the cloud asked for.
//
// promise Q6. Negative control: mutant "a pause is ended to set another".
func TestPauseThatIsSetAgainIsNotInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, now := internalBudget(t, Rate{PerSecond: 10}), time.Now()
		gave := false
		defer b.bucket.Watch(func() {
			n, _ := b.bucket.Available(time.Now())
			gave = gave || n > 0
		})()
		b.end(call{left: now}, Verdict{Throttled: true, RetryAfter: 30 * time.Second})
		for _, other := range []time.Duration{60 * time.Second, 90 * time.Second, 40 * time.Second, 10 * time.Second, 0} {
			b.pauseUntil(now.Add(other))
			if want, s := now.Add(max(other, 30*time.Second)), b.bucket.Stats(); !s.Until.Equal(want) {
				t.Errorf("with another server's pause of %v the bucket pauses until %v, want %v", other, s.Until, want)
			}
		}
		if gave {
			t.Error("the bucket had tokens for a moment, while it was paused")
		}
		time.Sleep(30 * time.Second)
		if s := b.bucket.Stats(); !s.Until.IsZero() || s.Throttled != 30*time.Second {
			t.Errorf("after the pause the bucket pauses until %v, and was paused for %v in all; want 30s", s.Until, s.Throttled)
		}
	})
}

// A rate of one call in a few hundred years is one, and not one at once.
//
// Negative control: mutant "a turn that is too far away is now".
func TestTurnThatIsFarAwayIsNotNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := internalBudget(t, Rate{PerSecond: 1e-12})
		for range 2 {
			turn, err := b.turnLocked(0)
			if err != nil {
				t.Fatal(err)
			}
			if now := time.Now(); turn.After(now) != (b.bucket.Stats().Tokens < 1) {
				t.Errorf("the next turn is %v from now, with %v tokens", turn.Sub(now), b.bucket.Stats().Tokens)
			}
			b.bucket.Charge(1)
		}
	})
}

// A call that was paid for is not made by a server that has lost its part meanwhile: what it paid with is others'.
func TestPaidCallIsNotMadeAfterThePartIsLost(t *testing.T) {
	b := internalBudget(t, Rate{PerSecond: 10})
	if err := b.take(); err != nil {
		t.Fatal(err)
	}
	b.setShare(0)
	if _, err := b.begin(); !errors.Is(err, ErrNoBudget) {
		t.Errorf("the call may be made: %v", err)
	}
	b.setShare(0.5)
	if _, err := b.begin(); err != nil {
		t.Errorf("with a part again: %v", err)
	}
}

// A burst that means "as many as there are" stays one when the part is another.
//
// Negative control: mutant "a burst overflows".
func TestBurstOfAnySizeStaysOne(t *testing.T) {
	b := internalBudget(t, Rate{PerSecond: 1e30, Burst: math.MaxInt})
	b.setShare(0.5)
	b.setShare(1)
	if burst := b.bucket.Stats().Burst; burst < math.MaxInt32 {
		t.Errorf("a burst of %d is %d after the part has changed", math.MaxInt, burst)
	}
	if burst := internalBudget(t, Rate{PerSecond: 1e30}).bucket.Stats().Burst; burst < math.MaxInt32 {
		t.Errorf("the burst of a rate of 1e30 is %d by default", burst)
	}
}

// A refusal lowers a rate by a fifth; one that comes when less than half of the way back was gone says
// that the quota was cut, and halves it.
func TestRefusalLongBeforeTheRateIsBackHalvesIt(t *testing.T) {
	for way, want := range map[float64]float64{0: 40, 0.4: 40, 0.6: 64, 1.5: 64} {
		synctest.Test(t, func(t *testing.T) {
			b := internalBudget(t, Rate{PerSecond: 100, Ceiling: 100})
			b.end(call{left: time.Now()}, Verdict{Throttled: true})
			if math.Abs(b.found-80) > 1e-9 {
				t.Fatalf("the rate is %v after the first refusal, want 80", b.found)
			}
			time.Sleep(time.Minute)
			b.used = way * b.riseLocked()
			b.end(call{left: time.Now()}, Verdict{Throttled: true})
			if math.Abs(b.found-want) > 1e-9 {
				t.Errorf("after %v of the way back a refusal makes the rate %v, want %v", way, b.found, want)
			}
		})
	}
}

// A rate without a Ceiling stays as it is, whatever the cloud answers.
func TestRateWithoutACeilingStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := internalBudget(t, Rate{PerSecond: 100, Burst: 10})
		for range 3 {
			b.end(call{left: time.Now(), tight: true}, Verdict{Throttled: true})
			time.Sleep(time.Minute)
			b.end(call{left: time.Now(), tight: true}, Verdict{})
			if s := b.bucket.Stats(); b.found != 100 || s.PerSecond != 100 || s.Burst != 10 {
				t.Fatalf("the rate is %v, and the bucket gives %v a second and %d at once", b.found, s.PerSecond, s.Burst)
			}
		}
	})
}

// Other servers are told of a pause of a second or more.
func TestOtherServersAreToldOfAPauseOfASecond(t *testing.T) {
	for pause, want := range map[time.Duration]int{time.Second - 1: 0, time.Second: 1, time.Minute: 1} {
		b, told := internalBudget(t, Rate{PerSecond: 100}), 0
		b.tell = func(time.Duration) { told++ }
		b.end(call{left: time.Now()}, Verdict{Throttled: true, RetryAfter: pause})
		if told != want {
			t.Errorf("other servers were told %d times of a pause of %v, want %d", told, pause, want)
		}
	}
}

// Other servers are told of a pause once, and again when it lasts markedly longer: each word is a write.
func TestOtherServersAreToldOfAPauseOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, told := internalBudget(t, Rate{PerSecond: 100}), 0
		b.tell = func(time.Duration) { told++ }
		for range 20 { // calls that were under way are answered one after the other
			b.end(call{left: time.Now()}, Verdict{Throttled: true, RetryAfter: 10 * time.Second})
			time.Sleep(time.Millisecond)
		}
		if told != 1 {
			t.Errorf("other servers were told %d times of one pause", told)
		}
		time.Sleep(2 * leastShared)
		b.end(call{left: time.Now()}, Verdict{Throttled: true, RetryAfter: 10 * time.Second})
		if told != 2 {
			t.Errorf("other servers were told %d times of a pause that lasts longer, want twice in all", told)
		}
	})
}
