package ratelimit

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Bucket is a named token bucket: a quota that callers share, such as the calls of one
// account to one region. It may be used by several queues. Make one with NewBucket. Its
// methods are safe for concurrent use, and none blocks.
type Bucket struct {
	name string
	id   int64 // see ID

	mu          sync.Mutex // guards what follows
	perSecond   float64
	burst       int
	tokens      float64       // there at the time at; negative: later ones are taken already
	at          time.Time     // of the last change of tokens
	taken       int64         // in all, less those that were given back
	from, until time.Time     // the last pause
	throttled   time.Duration // for how long it was paused before that
	watchers    map[*func()]struct{}
}

var bucketID atomic.Int64

// NewBucket makes a bucket that is refilled with perSecond tokens a second and
// holds burst of them; it is full at first. perSecond must be positive and
// finite, burst at least 1.
func NewBucket(name string, perSecond float64, burst int) (*Bucket, error) {
	if name == "" {
		return nil, errors.New("ratelimit: a bucket needs a name")
	}
	b := &Bucket{name: name, id: bucketID.Add(1), watchers: make(map[*func()]struct{})}
	if err := b.SetLimit(perSecond, burst); err != nil {
		return nil, err
	}
	b.tokens, b.at = float64(burst), time.Time{} // full, whatever the first clock that it sees
	return b, nil
}

// ID is the number of the bucket, from 1 on, which no other one of the process has.
func (b *Bucket) ID() int64 { return b.id }

// Name is the bucket's name.
func (b *Bucket) Name() string { return b.name }

// String says what the bucket gives.
func (b *Bucket) String() string {
	s := b.Stats()
	return fmt.Sprintf("%s: %g/s, burst %d", s.Name, s.PerSecond, s.Burst)
}

// Throttle pauses the bucket until the given time, in every queue that uses it. A time
// before the end of a pause that lasts changes nothing.
func (b *Bucket) Throttle(until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if !until.After(now) || !until.After(b.until) {
		return
	}
	b.throttleLocked(now, until)
}

// ThrottleUntil is Throttle that may end a pause that lasts sooner, too: at until, or now
// if that has passed. In between the bucket gives nothing, as it would after a Resume.
func (b *Bucket) ThrottleUntil(until time.Time) {
	b.change(func(now time.Time) {
		switch {
		case until.After(now):
			b.throttleLocked(now, until)
		case b.until.After(now):
			b.until = now
		}
	})
}

func (b *Bucket) throttleLocked(now, until time.Time) {
	if !b.until.After(now) { // else the pause that lasts gets another end
		b.throttled += b.until.Sub(b.from)
		b.from = now
	}
	b.until = until
}

// Resume ends a pause before its time, in every queue that uses the bucket.
func (b *Bucket) Resume() { b.ThrottleUntil(time.Time{}) }

// change calls f under the lock and lets the queues look again, without the lock:
// theirs come first.
func (b *Bucket) change(f func(now time.Time)) {
	b.mu.Lock()
	f(time.Now())
	wake := slices.Collect(maps.Keys(b.watchers))
	b.mu.Unlock()
	for _, f := range wake {
		(*f)()
	}
}

// Charge takes n tokens, for a run that used more than the one it began with, or for a call
// outside of runs. They are taken even if they are not there: later runs wait for them.
func (b *Bucket) Charge(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.takeLocked(time.Now(), min(int64(max(n, 0)), math.MaxInt64-b.taken))
}

// Refund gives back n tokens that a run has taken and not used; call it once for each
// token. Never do more come back than were taken in all, and what goes beyond the burst is
// lost. Keys that wait for the bucket go at once.
func (b *Bucket) Refund(n int) {
	b.change(func(now time.Time) { b.takeLocked(now, -min(int64(max(n, 0)), b.taken)) })
}

// takeLocked takes n tokens, be they there or not; of less than 0 it gives some back.
func (b *Bucket) takeLocked(now time.Time, n int64) {
	b.tokens = b.tokensLocked(now) - float64(n)
	b.taken += n
	if now.After(b.at) { // else it was read before the lock, and what came since would come twice
		b.at = now
	}
}

// tokensLocked is how many tokens are there.
func (b *Bucket) tokensLocked(now time.Time) float64 {
	return min(b.tokens+max(now.Sub(b.at), 0).Seconds()*b.perSecond, float64(b.burst))
}

// SetLimit changes what NewBucket was given.
func (b *Bucket) SetLimit(perSecond float64, burst int) error {
	if !(perSecond > 0) || math.IsInf(perSecond, 1) {
		return fmt.Errorf("ratelimit: bucket %s: %v tokens a second, want more than 0", b.name, perSecond)
	}
	if burst < 1 {
		return fmt.Errorf("ratelimit: bucket %s: burst of %d, want at least 1", b.name, burst)
	}
	b.change(func(now time.Time) {
		b.takeLocked(now, 0)
		b.perSecond, b.burst = perSecond, burst
	})
	return nil
}

// Stats is what a bucket is doing.
type Stats struct {
	Name      string
	PerSecond float64
	Burst     int
	Tokens    float64       // there now; negative after Charge
	Until     time.Time     // paused until then; zero: not paused
	Throttled time.Duration // for how long Throttle has paused it in all
	Taken     uint64        // tokens taken in all, by runs and by Charge, less those given back by Refund
}

// Stats reads the bucket.
func (b *Bucket) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	s := Stats{
		Name: b.name, PerSecond: b.perSecond, Burst: b.burst,
		Tokens: b.tokensLocked(now), Until: b.until, Taken: uint64(b.taken),
	}
	end := now
	if !b.until.After(now) {
		s.Until, end = time.Time{}, b.until
	}
	s.Throttled = b.throttled + end.Sub(b.from)
	return s
}

// Available is how many whole tokens are there at now, and when there is one more. While the
// bucket is paused there are none until the pause ends.
func (b *Bucket) Available(now time.Time) (n int, next time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.availableLocked(now)
}

// longest is a century, which no conversion overflows.
const longest = float64(100 * 365 * 24 * time.Hour)

func (b *Bucket) availableLocked(now time.Time) (n int, next time.Time) {
	if b.until.After(now) {
		return 0, b.until
	}
	tokens := b.tokensLocked(now)
	whole := max(math.Floor(tokens), 0)
	wait := (whole + 1 - tokens) / b.perSecond * float64(time.Second)
	// A burst of math.MaxInt is more than an int holds when it has been a float. A microsecond
	// more, so that rounding does not end a wait just before.
	return int(min(whole, math.MaxInt32)), now.Add(time.Duration(min(wait, longest)) + time.Microsecond)
}

// Watch has f called when there may be tokens earlier than Available said: when the limit
// changes, a pause is ended, or tokens are given back. f is called without a lock, by
// what changes the bucket, until stop is called, which may be called again; once more by a change
// that is under way then.
func (b *Bucket) Watch(f func()) (stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watchers[&f] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.watchers, &f)
	}
}

// TakeAll takes a token from each of the buckets, or none from any: then it gives one that
// has none at now. A bucket that is there twice counts once, a nil one does not; the slice is
// sorted, and both are taken out of it. Of the buckets in had the caller has a token that it
// took before: these give none more, but refuse while they are paused, and are filled as if the token
// had been there until now.
func TakeAll(now time.Time, buckets []*Bucket, had ...*Bucket) (refused *Bucket) {
	buckets = slices.DeleteFunc(buckets, func(b *Bucket) bool { return b == nil })
	// In the order of numbers, so that two callers do not wait for each other's locks.
	slices.SortFunc(buckets, func(a, b *Bucket) int { return cmp.Compare(a.id, b.id) })
	buckets = slices.Compact(buckets)
	for _, b := range buckets {
		b.mu.Lock()
		defer b.mu.Unlock()
		n, _ := b.availableLocked(now)
		if slices.Contains(had, b) && !b.until.After(now) {
			n = 1
		}
		if n == 0 && refused == nil {
			refused = b
		}
	}
	if refused == nil {
		for _, b := range buckets {
			if slices.Contains(had, b) {
				b.takeLocked(now, -1) // it has filled the bucket until now, when it is used
			}
			b.takeLocked(now, 1)
		}
	}
	return refused
}
