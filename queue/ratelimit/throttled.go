package ratelimit

import (
	"errors"
	"time"

	"github.com/tendhq/tend/internal/endless"
)

// throttledError is what Throttled makes.
type throttledError struct {
	bucket *Bucket
	until  time.Time
	err    error
}

// Throttled is an error that says that a cloud takes no calls until the given time. A
// reconciler returns it, or an error that wraps it: that pauses the bucket in every queue
// that uses it and counts as no failure. b and err may be nil.
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
	_, ok := ThrottledUntil(err)
	return ok
}

// ThrottledUntil is the time that an error of Throttled was made with, through any
// wrapping; false: err is none. Of several it is the first that errors.As finds. The time
// may have passed.
func ThrottledUntil(err error) (until time.Time, ok bool) {
	if e, ok := errors.AsType[*throttledError](err); ok {
		return e.until, true
	}
	return until, false
}

// Pause pauses the bucket of an error that Throttled made, through any wrapping, and gives
// the time until which; false: err is none. Of several that are joined, or wrap each other,
// each bucket is paused until its own time, and the time is that of ThrottledUntil.
func Pause(err error) (until time.Time, ok bool) {
	if until, ok = ThrottledUntil(err); ok {
		endless.Walk(err, pause)
	}
	return until, ok
}

// pause pauses the bucket of one error, if Throttled made it or its As says so.
func pause(err error) {
	e, ok := err.(*throttledError) //nolint:errorlint // Walk comes to those that are wrapped
	if as, has := err.(interface{ As(target any) bool }); has && !ok {
		as.As(&e)
	}
	if e != nil && e.bucket != nil {
		e.bucket.Throttle(e.until)
	}
}
