package queue

import (
	"math/rand/v2"
	"time"
)

// Policy gives the delay before a failed key runs again. attempt counts the
// failures before this one, from 0; err is what Retry was given and may be nil.
// A negative delay parks the key.
type Policy func(attempt int, err error) time.Duration

// Jitter says how random a backoff is.
type Jitter uint8

const (
	// FullJitter draws the delay from the whole of (0, d]: keys that failed
	// together do not come back together.
	FullJitter Jitter = iota
	// NoJitter waits exactly d.
	NoJitter
)

// Backoff doubles the delay with each failure: the n-th, from 0, is drawn from
// (0, min(Max, Base·2ⁿ)].
type Backoff struct {
	Base   time.Duration // first bound; default 100 ms
	Max    time.Duration // largest bound; default 5 min
	Jitter Jitter        // default FullJitter
}

// Defaults of Backoff.
const (
	DefaultBase = 100 * time.Millisecond
	DefaultMax  = 5 * time.Minute
)

// Policy makes a policy of b. Base or Max of zero or less means its default;
// a Max below Base means Base.
func (b Backoff) Policy() Policy {
	if b.Base <= 0 {
		b.Base = DefaultBase
	}
	if b.Max <= 0 {
		b.Max = DefaultMax
	}
	b.Max = max(b.Max, b.Base)
	return func(attempt int, _ error) time.Duration {
		d := doubled(b.Base, attempt, b.Max)
		if b.Jitter == NoJitter {
			return d
		}
		return 1 + rand.N(d)
	}
}

// doubled is base·2ⁿ, at most limit, without overflow for any n.
func doubled(base time.Duration, n int, limit time.Duration) time.Duration {
	if n >= 63 || base > limit>>n {
		return limit
	}
	return base << n
}

// ExponentialRetry waits initial·2ⁿ after the n-th failure, from 0, without
// jitter, and gives up once n is beyond maxAttempts: ExponentialRetry(5s, 5)
// retries after 5, 10, 20, 40, 80 and 160 seconds.
func ExponentialRetry(initial time.Duration, maxAttempts int) Policy {
	return func(attempt int, _ error) time.Duration {
		if attempt > maxAttempts {
			return -1
		}
		return doubled(initial, attempt, 1<<62)
	}
}
