package reconcile

import (
	"cmp"
	"slices"
	"time"

	"github.com/tendhq/tend/internal/introspect"
)

// Promise R5: a key that changes of its own object's spec make run more often than brakeRuns
// times in brakeWindow is slowed, although its runs succeed. Two writers that disagree about a
// field would keep a worker, the store and a cloud busy for ever.
//
//	change ─▶ at once                     the key is not slowed
//	       ─▶ delay after its newest run  it is; the delay doubles with each run that was put off,
//	                                      and is halved by one that came late enough by itself
//
// Runs are counted, not changes: changes that come faster than runs take cost one run together. The end
// of an object counts, and does not wait; one that comes after it is a change.
// What else makes a key run is not slowed, and an earlier time in the queue counts: a kick, a
// poll or a deletion does not wait for the delay.
const (
	brakeRuns   = 10
	brakeWindow = 10 * time.Second // also how long a key must be quiet to be forgotten
	minBrake    = 10 * time.Millisecond
	maxBrake    = time.Minute
)

// reasonSlowed is what the queue shows of a key that is put off.
const reasonSlowed = "slowed: its spec changes too often"

// brake has the pace of the keys whose spec has changed, or whose object went, within brakeWindow. Its owner guards it.
type brake[K comparable] struct {
	of     map[K]*pace
	swept  time.Duration // when the keys that are quiet were forgotten
	putOff uint64
}

// pace is how often changes of the spec made one key run. Times are since the controller's epoch.
type pace struct {
	changed time.Duration // the newest change
	ran     time.Duration // the newest run that a change asked for began; 0: none yet
	first   time.Duration // the first run of those that runs counts
	delay   time.Duration // between two runs; 0: the key is not slowed
	due     time.Duration // of the run that was put off; 0: none was
	runs    int16
	asked   bool                  // a change has asked for a run that has not begun
	slowed  *introspect.SlowedKey // nil: it was never put off
}

// quiet reports whether nothing has happened for brakeWindow.
func (p *pace) quiet(now time.Duration) bool {
	return now-max(p.changed, p.ran, p.due) > brakeWindow
}

// gone notes that the object of a key went. Its run does not wait, but is one of those that are counted:
// one that comes back each time is slowed by that, see came.
func (b *brake[K]) gone(key K, now time.Duration) {
	p := b.pace(key, now)
	p.changed, p.asked = now, true
}

// came is change for an object that came. One that was not there within the window is none of the brake's.
func (b *brake[K]) came(key K, now time.Duration) (wait time.Duration, first bool) {
	if b.of[key] == nil {
		return 0, false
	}
	return b.change(key, now)
}

// pace is that of a key, made if there is none or it is to be forgotten.
func (b *brake[K]) pace(key K, now time.Duration) *pace {
	if now-b.swept > brakeWindow {
		b.sweep(now)
	}
	p := b.of[key]
	if p == nil || p.quiet(now) {
		if b.of == nil {
			b.of = make(map[K]*pace)
		}
		p = new(pace)
		b.of[key] = p
	}
	return p
}

// change notes that the spec of a key's object has changed, and returns how long the run is to
// wait. first says that it is the first one that has to.
func (b *brake[K]) change(key K, now time.Duration) (wait time.Duration, first bool) {
	p := b.pace(key, now)
	p.changed, p.asked = now, true
	if wait = p.ran + p.delay - now; p.delay == 0 || wait <= 0 {
		return 0, false
	}
	if p.due == 0 {
		b.putOff++
	}
	p.due = now + wait
	if first = p.slowed == nil; first {
		p.slowed = new(introspect.SlowedKey)
	}
	return wait, first
}

// began notes that a run of the key begins; most is the longest delay.
func (b *brake[K]) began(key K, now, most time.Duration) {
	p := b.of[key]
	if p == nil || !p.asked {
		return
	}
	since := now - p.ran
	if p.runs == 0 || now-p.first > brakeWindow {
		p.first, p.runs = now, 0
	}
	p.runs = min(p.runs+1, brakeRuns+1)
	switch {
	case p.delay == 0 && p.runs > brakeRuns:
		p.delay = minBrake
	case p.due != 0 || since < brakeWindow/brakeRuns:
		p.delay = min(2*p.delay, most)
	default:
		p.delay /= 2
	}
	if p.delay > 0 {
		p.delay = max(p.delay, minBrake)
	}
	p.ran, p.due, p.asked = now, 0, false
}

// describe completes what is shown of a key that was put off for the first time.
func (b *brake[K]) describe(key K, s introspect.SlowedKey) {
	if p := b.of[key]; p != nil && p.slowed != nil {
		p.slowed = &s
	}
}

// sweep forgets the keys that are quiet.
func (b *brake[K]) sweep(now time.Duration) {
	b.swept = now
	for key, p := range b.of {
		if p.quiet(now) {
			delete(b.of, key)
		}
	}
	if len(b.of) == 0 {
		b.of = nil // a map keeps the memory of what was deleted
	}
}

// mostSlowed is how many slowed keys a snapshot names.
const mostSlowed = 100

// snapshot gives the keys that are slowed, and how many runs were put off so far.
func (b *brake[K]) snapshot(now time.Duration) (slowed []introspect.SlowedKey, putOff uint64) {
	for _, p := range b.of {
		if p.slowed != nil && p.slowed.Key != "" && p.delay > 0 && !p.quiet(now) {
			s := *p.slowed
			s.Delay = p.delay
			slowed = append(slowed, s)
		}
	}
	slices.SortFunc(slowed, func(x, y introspect.SlowedKey) int {
		return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.Key, y.Key))
	})
	return slowed[:min(len(slowed), mostSlowed)], b.putOff
}
