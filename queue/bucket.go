package queue

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

	"golang.org/x/time/rate"
)

// Bucket is a named token bucket: a quota that runs share, such as the calls of
// one account to one region. It may be used by several queues. A token is taken
// when a run starts, never before, so that nothing queues up a debt.
type Bucket struct {
	name string
	id   int64 // from 1 on; the order in which several are locked

	mu        sync.Mutex // guards what follows
	limit     *rate.Limiter
	last      time.Time     // when limit was changed; it counts what follows an earlier time twice
	from      time.Time     // since when it is paused, as far as throttled does not count it
	until     time.Time     // until when Throttle pauses it; zero: it is not paused
	throttled time.Duration // for how long it was paused before from
	taken     uint64
	watchers  map[any]func()
}

var bucketID atomic.Int64

// NewBucket makes a bucket that is refilled with perSecond tokens a second and
// holds burst of them; it is full at first. perSecond must be positive and
// finite, burst at least 1.
func NewBucket(name string, perSecond float64, burst int) (*Bucket, error) {
	if name == "" {
		return nil, errors.New("queue: a bucket needs a name")
	}
	if err := checkLimit(perSecond, burst); err != nil {
		return nil, fmt.Errorf("queue: bucket %s: %w", name, err)
	}
	limit := rate.NewLimiter(rate.Limit(perSecond), burst)
	return &Bucket{name: name, id: bucketID.Add(1), limit: limit, watchers: make(map[any]func())}, nil
}

func checkLimit(perSecond float64, burst int) error {
	if !(perSecond > 0) || math.IsInf(perSecond, 1) {
		return fmt.Errorf("%v tokens a second, want more than 0", perSecond)
	}
	if burst < 1 {
		return fmt.Errorf("burst of %d, want at least 1", burst)
	}
	return nil
}

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
	b.countLocked(now)
	if until.After(now) && until.After(b.until) {
		b.until = until
	}
}

// countLocked counts the time for which the bucket was paused until now.
func (b *Bucket) countLocked(now time.Time) {
	if !b.until.IsZero() {
		end := now
		if !b.until.After(now) {
			end = b.until
			b.until = time.Time{}
		}
		b.throttled += end.Sub(b.from)
	}
	b.from = now
}

// Resume ends a pause before its time, in every queue that uses the bucket.
func (b *Bucket) Resume() {
	b.change(func(now time.Time) {
		b.countLocked(now)
		b.until = time.Time{}
	})
}

// change calls f under the lock and lets the queues look again, without the lock:
// theirs come first.
func (b *Bucket) change(f func(now time.Time)) {
	b.mu.Lock()
	b.last = time.Now()
	f(b.last)
	wake := slices.Collect(maps.Values(b.watchers))
	b.mu.Unlock()
	for _, f := range wake {
		f()
	}
}

// Charge takes n more tokens for a run that used more than the one it started
// with. They are taken even if they are not there: later runs wait for them.
func (b *Bucket) Charge(n int) {
	if n <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now, burst := time.Now(), b.limit.Burst()
	if n > burst { // a limiter gives no more than its burst at once
		b.limit.SetBurstAt(now, n)
		defer b.limit.SetBurstAt(now, burst)
	}
	b.limit.ReserveN(now, n)
	b.last = now
	b.taken += uint64(n)
}

// Refund gives back n tokens that a run has taken and not used; call it once for each
// token. Never do more come back than were taken in all, and what goes beyond the burst is
// lost. Keys that wait for the bucket go at once.
func (b *Bucket) Refund(n int) {
	b.change(func(now time.Time) {
		n := int(min(uint64(max(n, 0)), b.taken))
		b.taken -= uint64(n)
		b.limit.ReserveN(now, -n)
	})
}

// SetLimit changes what NewBucket was given.
func (b *Bucket) SetLimit(perSecond float64, burst int) error {
	if err := checkLimit(perSecond, burst); err != nil {
		return fmt.Errorf("queue: bucket %s: %w", b.name, err)
	}
	b.change(func(now time.Time) {
		b.limit.SetLimitAt(now, rate.Limit(perSecond))
		b.limit.SetBurstAt(now, burst)
	})
	return nil
}

// BucketStats is what a bucket is doing.
type BucketStats struct {
	Name      string
	PerSecond float64
	Burst     int
	Tokens    float64       // there now; negative after Charge
	Until     time.Time     // paused until then; zero: not paused
	Throttled time.Duration // for how long Throttle has paused it in all
	Taken     uint64        // tokens taken in all, by runs and by Charge, less those given back by Refund
}

// Stats reads the bucket.
func (b *Bucket) Stats() BucketStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.countLocked(now)
	return BucketStats{
		Name: b.name, PerSecond: float64(b.limit.Limit()), Burst: b.limit.Burst(),
		Tokens: b.limit.TokensAt(now), Until: b.until, Throttled: b.throttled, Taken: b.taken,
	}
}

// takes is how long so many tokens take to come, and a microsecond more, so that
// rounding does not end a wait just before.
func (b *Bucket) takes(tokens float64) time.Duration {
	ns := tokens / float64(b.limit.Limit()) * float64(time.Second)
	return time.Duration(min(ns, longest)) + time.Microsecond
}

// longest is a century, which no conversion overflows.
const longest = float64(100 * 365 * 24 * time.Hour)

// available is how many tokens are there, and when there is one more.
func (b *Bucket) available(now time.Time) (n int, next time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.availableLocked(now)
}

func (b *Bucket) availableLocked(now time.Time) (n int, next time.Time) {
	if b.until.After(now) {
		return 0, b.until
	}
	tokens := b.limit.TokensAt(now)
	whole := max(math.Floor(tokens), 0)
	return int(whole), now.Add(b.takes(whole + 1 - tokens))
}

// watch calls f when the limit changes or a pause is ended, until it is called with nil.
func (b *Bucket) watch(line any, f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f == nil {
		delete(b.watchers, line)
	} else {
		b.watchers[line] = f
	}
}

// takeAll takes a token from each bucket, or none from any: then it names one
// that has none. It sorts buckets.
func takeAll(now time.Time, buckets []*Bucket) (refused *Bucket) {
	slices.SortFunc(buckets, func(a, b *Bucket) int { return cmp.Compare(a.id, b.id) })
	buckets = slices.Compact(buckets)
	for _, b := range buckets { // in the order of their ids: no deadlock
		b.mu.Lock()
		defer b.mu.Unlock()
		if n, _ := b.availableLocked(now); n == 0 && refused == nil {
			refused = b
		}
	}
	if refused == nil {
		for _, b := range buckets {
			if now.After(b.last) { // else it was read before the lock
				b.last = now
			}
			b.limit.AllowN(b.last, 1)
			b.taken++
		}
	}
	return refused
}

// throttledError is what Throttled makes.
type throttledError struct {
	bucket *Bucket
	until  time.Time
	err    error
}

// Throttled is an error that says that a cloud takes no calls until the given
// time. Item.Retry with it (or with an error that wraps it) pauses the
// bucket in every queue that uses it and counts no failure. err may be nil.
func Throttled(b *Bucket, until time.Time, err error) error {
	return &throttledError{b, until, err}
}

func (e *throttledError) Error() string {
	s := "throttled until " + e.until.Format(time.RFC3339)
	if e.bucket != nil {
		s = e.bucket.name + " " + s
	}
	if e.err != nil {
		s += ": " + e.err.Error()
	}
	return s
}

func (e *throttledError) Unwrap() error { return e.err }

// IsThrottled reports whether err was made by Throttled, through any wrapping.
func IsThrottled(err error) bool {
	_, ok := errors.AsType[*throttledError](err)
	return ok
}

// ThrottledUntil is the time that an error of Throttled was made with, through any
// wrapping; false: err is none. The time may have passed.
func ThrottledUntil(err error) (until time.Time, ok bool) {
	e, ok := errors.AsType[*throttledError](err)
	if !ok {
		return until, false
	}
	return e.until, true
}

// throttle pauses the bucket of an error that Throttled made, if err is one.
func throttle(err error) (until time.Time, ok bool) {
	e, ok := errors.AsType[*throttledError](err)
	if !ok {
		return until, false
	}
	if e.bucket != nil {
		e.bucket.Throttle(e.until)
	}
	return e.until, true
}
