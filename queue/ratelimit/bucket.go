package ratelimit

import (
	"cmp"
	"context"
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

// Bucket is a named token bucket: a quota that callers share, such as the calls of one
// account to one region. It may be used by several queues. Make one with NewBucket, or with
// From of a limiter that exists. Its methods are safe for concurrent use, and but for Wait none blocks.
type Bucket struct {
	name    string
	id      int64         // see ID
	limiter *rate.Limiter // its tokens but for back; of From others use it too

	mu          sync.Mutex    // guards what follows
	at          time.Time     // the latest time that limiter was told
	back        float64       // tokens that were given back, which a limiter cannot take
	taken       int64         // in all, less those that were given back
	from, until time.Time     // the last pause
	throttled   time.Duration // for how long it was paused before that
	watchers    map[*func()]struct{}
}

var bucketID atomic.Int64

// NewBucket makes a bucket that is refilled with limit tokens a second and holds burst of
// them; it is full at first. limit must be positive and finite, burst at least 1.
func NewBucket(name string, limit rate.Limit, burst int) (*Bucket, error) {
	return From(name, rate.NewLimiter(limit, burst))
}

// From makes a bucket of a limiter that others use too, such as the HTTP client or SDK that
// makes the calls, so that all draw on one quota. The limiter's limit and burst are the
// bucket's. A run takes one token when it begins, and none ahead of time; tokens that others take
// or reserve are gone for it. A client that waits for the limiter inside of a run takes a token of
// its own, and the run pays twice: let one of the two take it. One that calls limiter.Wait without a rest
// reserves each token ahead, so that none is ever there and the bucket's keys do not run: give it
// [Bucket.Wait] in place of the limiter's. What the limiter's owner changes is seen when the next
// token was expected before, and at once if it is changed by SetLimit of the bucket. Of tokens
// given back by Refund others get none.
//
// The limiter's limit must be positive and finite, its burst at least 1. Two buckets of one limiter
// take tokens of their own, so that a key of both takes two.
func From(name string, limiter *rate.Limiter) (*Bucket, error) {
	if name == "" {
		return nil, errors.New("ratelimit: a bucket needs a name")
	}
	if limiter == nil {
		return nil, fmt.Errorf("ratelimit: bucket %s: a nil limiter", name)
	}
	if err := check(name, limiter.Limit(), limiter.Burst()); err != nil {
		return nil, err
	}
	return &Bucket{name: name, id: bucketID.Add(1), limiter: limiter, watchers: make(map[*func()]struct{})}, nil
}

func check(name string, limit rate.Limit, burst int) error {
	if !(limit > 0) || limit == rate.Inf || math.IsInf(float64(limit), 1) {
		return fmt.Errorf("ratelimit: bucket %s: %v tokens a second, want more than 0, and fewer than without a limit", name, limit)
	}
	if burst < 1 {
		return fmt.Errorf("ratelimit: bucket %s: burst of %d, want at least 1", name, burst)
	}
	return nil
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
// if that has passed; the zero time ends it. In between the bucket gives nothing, as it would
// after a pause that ends by itself.
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
	b.takeLocked(time.Now(), max(n, 0))
}

// Refund gives back n tokens that a run has taken and not used; call it once for each
// token. Never do more come back than were taken in all, and what goes beyond the burst is
// lost. Keys that wait for the bucket go at once.
func (b *Bucket) Refund(n int) {
	b.change(func(now time.Time) { b.giveBackLocked(int(min(int64(max(n, 0)), b.taken))) })
}

// takeLocked takes n tokens, be they there or not.
func (b *Bucket) takeLocked(now time.Time, n int) {
	b.tokensLocked(now)
	b.taken += min(int64(n), math.MaxInt64-b.taken)
	given := min(int(b.back), n)
	b.back -= float64(given)
	if n -= given; n == 0 {
		return
	}
	// A limiter gives no more than its burst at once. Its owner's SetBurst of this very moment is lost.
	if burst := b.limiter.Burst(); n > burst {
		b.limiter.SetBurstAt(b.at, n)
		defer b.limiter.SetBurstAt(b.at, burst)
	}
	b.limiter.ReserveN(b.at, n)
}

func (b *Bucket) giveBackLocked(n int) {
	b.back += float64(n)
	b.taken -= int64(n)
}

// tokensLocked is how many tokens are there; negative: later ones are taken already.
func (b *Bucket) tokensLocked(now time.Time) float64 {
	// A time that was read before the lock would let what has come since come twice.
	if now.After(b.at) {
		b.at = now
	}
	tokens := b.limiter.TokensAt(b.at)
	if b.back > 0 {
		b.back = max(min(b.back, float64(b.limiter.Burst())-tokens), 0)
	}
	return tokens + b.back
}

// SetLimit changes limit and burst. A limiter given to From changes for everyone that uses it.
func (b *Bucket) SetLimit(limit rate.Limit, burst int) error {
	if err := check(b.name, limit, burst); err != nil {
		return err
	}
	b.change(func(now time.Time) {
		b.tokensLocked(now)
		b.limiter.SetLimitAt(b.at, limit)
		b.limiter.SetBurstAt(b.at, burst)
	})
	return nil
}

// Stats is what a bucket is doing.
type Stats struct {
	Name      string
	PerSecond rate.Limit
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
		Name: b.name, PerSecond: b.limiter.Limit(), Burst: b.limiter.Burst(),
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
	limit, tokens := b.limiter.Limit(), b.tokensLocked(now)
	if limit == rate.Inf { // its owner has set it free
		return math.MaxInt32, now
	}
	whole := max(math.Floor(tokens), 0)
	wait := (whole + 1 - tokens) / float64(limit) * float64(time.Second)
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
		if refused == nil && !b.hasLocked(now, slices.Contains(had, b)) {
			refused = b
		}
	}
	if refused != nil {
		return refused
	}
	for i, b := range buckets {
		if slices.Contains(had, b) { // it has filled the bucket until now, when it is used
			b.giveBackLocked(1)
			b.takeLocked(now, 1)
			continue
		}
		if b.takeIfThereLocked() {
			continue
		}
		for _, other := range buckets[:i] { // another user of the limiter was faster
			if !slices.Contains(had, other) {
				other.giveBackLocked(1)
			}
		}
		return b
	}
	return nil
}

// hasLocked reports whether a token is there, or had is one that the caller took before.
func (b *Bucket) hasLocked(now time.Time, had bool) bool {
	return !b.until.After(now) && (had || b.tokensLocked(now) >= 1 || b.limiter.Limit() == rate.Inf)
}

// takeIfThereLocked takes a token that hasLocked has just seen, unless another user of the limiter has
// taken it meanwhile.
func (b *Bucket) takeIfThereLocked() bool {
	if b.back >= 1 {
		b.back--
	} else if r := b.limiter.ReserveN(b.at, 1); r.DelayFrom(b.at) > 0 && b.limiter.TokensAt(b.at)+b.back < -1e-6 {
		r.CancelAt(b.at)
		return false
	}
	b.taken++
	return true
}

// Wait takes a token, and blocks until there is one. It returns the cause of ctx if ctx ends first, and at
// once an error that is [context.DeadlineExceeded] if the next token comes after ctx's deadline. Callers are
// served in no order. Wait is for calls outside of runs, and for an SDK that wants a limiter.
func (b *Bucket) Wait(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	defer b.Watch(func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})()
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		now := time.Now()
		if TakeAll(now, []*Bucket{b}) == nil {
			return nil
		}
		_, next := b.Available(now)
		if deadline, ok := ctx.Deadline(); ok && next.After(deadline) {
			return fmt.Errorf("ratelimit: bucket %s: the next token comes in %v: %w", b.name, next.Sub(now).Round(time.Millisecond), context.DeadlineExceeded)
		}
		timer := time.NewTimer(next.Sub(now))
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}
