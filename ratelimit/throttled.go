package ratelimit

import (
	"errors"
	"time"
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
		pauseAll(err)
	}
	return until, ok
}

// maxWrapped bounds the walk through an error that wraps itself.
const maxWrapped = 1 << 14

// pauseAll makes the walk that errors.As makes, and does not end at the first error of Throttled.
func pauseAll(err error) {
	rest := []error{err} // what the walk has not come to
	for range maxWrapped {
		if len(rest) == 0 {
			return
		}
		err, rest = rest[len(rest)-1], rest[:len(rest)-1]
		e, ok := err.(*throttledError) //nolint:errorlint // this is the walk that errors.As would make
		if as, has := err.(interface{ As(target any) bool }); has && !ok {
			as.As(&e)
		}
		if e != nil && e.bucket != nil {
			e.bucket.Throttle(e.until)
		}
		switch x := err.(type) { //nolint:errorlint // as above
		case interface{ Unwrap() error }:
			rest = append(rest, x.Unwrap())
		case interface{ Unwrap() []error }:
			rest = append(rest, x.Unwrap()...)
		}
	}
}
