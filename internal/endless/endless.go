// Package endless bounds errors whose Unwrap has no end, because it returns the error
// itself: errors.Is and errors.As would walk through one for ever.
package endless

import "fmt"

// maxWrapped bounds how many errors one may wrap, each counted as often as it can be
// reached.
const maxWrapped = 1 << 14

// Cut returns err if a walk through all that it wraps comes to an end, and otherwise an
// [*Error] of the same text, which wraps nothing. Cut of nil is nil. It calls err's Unwrap, and
// Error if it cuts, and lets their panics go on.
func Cut(err error) error {
	if err == nil || ends(err) {
		return err
	}
	return &Error{fmt.Sprintf("%s (%T: its Unwrap has no end)", err.Error(), err)}
}

// Error stands for an error that was cut. What that one wrapped is not known.
type Error struct{ text string }

func (e *Error) Error() string { return e.text }

func ends(err error) bool {
	var rest []error // of joined errors that the walk has not come to
	for range maxWrapped {
		switch x := err.(type) { //nolint:errorlint // this is the walk that errors.As would make
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			rest = append(rest, x.Unwrap()...)
			err = nil
		default:
			err = nil
		}
		if err != nil {
			continue
		}
		if len(rest) == 0 {
			return true
		}
		err, rest = rest[len(rest)-1], rest[:len(rest)-1]
	}
	return false
}
