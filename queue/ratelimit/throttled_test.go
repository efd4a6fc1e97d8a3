package ratelimit

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// wrapper has an As method in place of Unwrap, as some errors of SDKs.
type wrapper struct{ err error }

func (w wrapper) Error() string      { return w.err.Error() }
func (w wrapper) As(target any) bool { return errors.As(w.err, target) }

// A run that two clouds throttle at once, and that joins what they said, pauses the buckets of
// both.
//
// Seen to fail: only the first bucket was paused, and the other cloud went on being called.
func TestEachBucketOfAJoinedErrorIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for name, join := range map[string]func(one, two error) error{
			"joined":      func(one, two error) error { return errors.Join(errors.New("list"), one, two) },
			"formatted":   func(one, two error) error { return fmt.Errorf("list: %w, then %w", one, two) },
			"nested":      func(one, two error) error { return errors.Join(fmt.Errorf("a: %w", one), errors.Join(nil, two)) },
			"with As":     func(one, two error) error { return errors.Join(wrapper{one}, wrapper{two}) },
			"one in none": func(one, two error) error { return errors.Join(one, Throttled(nil, now, two)) },
		} {
			b, c := bucketOf(t, "b", 1, 1), bucketOf(t, "c", 1, 1)
			err := join(Throttled(b, now.Add(time.Minute), nil), Throttled(c, now.Add(time.Hour), errors.New("429")))
			if until, ok := Pause(err); !ok || !until.Equal(now.Add(time.Minute)) {
				t.Errorf("%s: Pause gave %v, %v; want the first time, as of ThrottledUntil", name, until, ok)
			}
			if until, ok := ThrottledUntil(err); !ok || !until.Equal(now.Add(time.Minute)) {
				t.Errorf("%s: ThrottledUntil gave %v, %v; want the first time", name, until, ok)
			}
			if until := b.Stats().Until; !until.Equal(now.Add(time.Minute)) {
				t.Errorf("%s: the first bucket is paused until %v, want for a minute", name, until)
			}
			if until := c.Stats().Until; !until.Equal(now.Add(time.Hour)) {
				t.Errorf("%s: the second bucket is paused until %v, want for an hour", name, until)
			}
		}
	})
}

// selfWrappedError wraps itself.
type selfWrappedError struct{}

func (selfWrappedError) Error() string { return "endless" }
func (selfWrappedError) Unwrap() error { return selfWrappedError{} }

// An error without an end that a cloud's client gave as the reason hangs no run.
func TestPauseForAnErrorWithoutAnEndReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, until := bucketOf(t, "b", 1, 1), time.Now().Add(time.Minute)
		if got, ok := Pause(Throttled(b, until, selfWrappedError{})); !ok || !got.Equal(until) || !b.Stats().Until.Equal(until) {
			t.Errorf("Pause gave %v, %v, and the bucket %v; want %v", got, ok, b, until)
		}
	})
}

// What no Throttled made pauses nothing.
func TestOtherErrorsPauseNothing(t *testing.T) {
	for _, err := range []error{nil, errors.New("e"), errors.Join(errors.New("e"), errors.New("f")), wrapper{errors.New("e")}} {
		if until, ok := Pause(err); ok || !until.IsZero() {
			t.Errorf("Pause(%v) = %v, %v", err, until, ok)
		}
		if until, ok := ThrottledUntil(err); ok || !until.IsZero() || IsThrottled(err) {
			t.Errorf("ThrottledUntil(%v) = %v, %v", err, until, ok)
		}
	}
}
