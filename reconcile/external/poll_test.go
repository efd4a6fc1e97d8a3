package external

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/store"
)

type polled = store.Object[struct{}, struct{}]

func withPoll(text string) *polled {
	o := &polled{}
	o.Annotations = map[string]string{pollAnnotation: text}
	return o
}

// case 19, 20
func TestPollIntervalComesFromOptionsObjectAndHook(t *testing.T) {
	base := poll[struct{}, struct{}]{every: time.Minute, floor: 10 * time.Second, jitter: -1}
	doubled := base
	doubled.hook = func(_ *polled, d time.Duration) time.Duration { return 2 * d }
	last := doubled
	last.hook = func(*polled, time.Duration) time.Duration { return 7 * time.Second }
	off := base
	off.hook = func(*polled, time.Duration) time.Duration { return 0 }
	for name, c := range map[string]struct {
		p    poll[struct{}, struct{}]
		o    *polled
		want time.Duration
	}{
		"as the options say":               {base, &polled{}, time.Minute},
		"the object's own":                 {base, withPoll("5m"), 5 * time.Minute},
		"the object's, below the floor":    {base, withPoll("1s"), 10 * time.Second},
		"the object's, negative":           {base, withPoll("-1h"), 10 * time.Second},
		"the object's, not a duration":     {base, withPoll("soon"), time.Minute},
		"the object's, without a unit":     {base, withPoll("30"), time.Minute},
		"the object's, empty":              {base, withPoll(""), time.Minute},
		"a hook gets what came before":     {doubled, withPoll("5m"), 10 * time.Minute},
		"a hook set later takes the place": {last, &polled{}, 7 * time.Second},
		"a hook that wants no poll":        {off, &polled{}, 0},
	} {
		if got := c.p.next(c.o); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// case 19
func TestPollJitterStaysWithinItsBoundsOnBothSides(t *testing.T) {
	p := poll[struct{}, struct{}]{every: time.Minute, jitter: 5 * time.Second}
	var below, above bool
	for range 1000 {
		d := p.next(&polled{})
		if d < 55*time.Second || d > 65*time.Second {
			t.Fatalf("poll after %v, want 1m ± 5s", d)
		}
		below, above = below || d < time.Minute, above || d > time.Minute
	}
	if !below || !above {
		t.Errorf("jitter only on one side: below %v, above %v", below, above)
	}
	least := func(int64) int64 { return 0 }
	most := func(n int64) int64 { return n - 1 }
	if lo, hi := p.spread(time.Minute, least), p.spread(time.Minute, most); lo != -5*time.Second || hi != 5*time.Second {
		t.Errorf("jitter from %v to %v, want ±5s", lo, hi)
	}
	if got := p.spread(time.Second, least); got != -time.Second/2 {
		t.Errorf("jitter of a short interval down to %v, want half of it", got)
	}
}

// Every object has a moment of its own in each interval, and keeps it.
func TestPollPhaseIsTheSameInEveryInterval(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	seen := map[time.Duration]int{}
	for i := range 1000 {
		k := store.Key{Namespace: "t", Name: string(rune('a' + i))}
		first := start.Add(untilPhase(k, time.Hour, start))
		if again := untilPhase(k, time.Hour, first); again != 0 {
			t.Fatalf("%v: at its moment the next is %v away, want none", k, again)
		}
		next := first.Add(time.Second)
		if again := untilPhase(k, time.Hour, next); again != time.Hour-time.Second {
			t.Fatalf("%v: a second later the next is %v away, want an hour less a second", k, again)
		}
		seen[first.Sub(start).Truncate(6*time.Minute)]++
	}
	for slice := range 10 {
		if n := seen[time.Duration(slice)*6*time.Minute]; n < 60 || n > 140 {
			t.Errorf("%d of 1000 keys in tenth %d of the interval, want about 100", n, slice)
		}
	}
}

// With phases the next look is between half an interval and one and a half
// away, and settles at one.
func TestPollWithPhaseSettlesAtOneInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := poll[struct{}, struct{}]{every: time.Hour, phased: true}
		o := &polled{Meta: store.Meta{Name: "x"}}
		for i := range 5 {
			d := p.next(o)
			if d < 30*time.Minute || d > 90*time.Minute || i > 0 && d != time.Hour {
				t.Errorf("look %d: next after %v", i, d)
			}
			time.Sleep(d)
		}
	})
}

// Intervals that mean "never": their sums must not come out below zero, which would be no
// poll at all or, as a duration, one at once.
//
// Negative control: mutant "a poll interval has no bound".
func TestPollIntervalOfAnyLengthIsATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, d := range []time.Duration{1, time.Hour, 1 << 62, 1<<62 + 1, 1<<63 - 1} {
			for _, phased := range []bool{false, true} {
				p := poll[struct{}, struct{}]{every: d, jitter: d / 10, phased: phased, start: time.Now()}
				o := &polled{}
				o.SetReady()
				o.SetCondition(store.Condition{Type: store.ConditionSynced, Status: store.True})
				for range 100 {
					o.Name += "x"
					if next := p.next(o); next < 0 || next < d/4 && next < 10*365*24*time.Hour {
						t.Fatalf("poll every %v, phased %v: next look after %v", d, phased, next)
					}
					if due := p.notDue(o); due < 0 || !phased && due != 0 {
						t.Fatalf("poll every %v, phased %v: first look after %v", d, phased, due)
					}
				}
			}
		}
	})
}
