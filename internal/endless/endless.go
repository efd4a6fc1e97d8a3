// Package endless bounds errors whose Unwrap has no end, because it returns the error
// itself: errors.Is and errors.As would walk through one for ever. Walk does not.
package endless

import (
	"fmt"
	"slices"
)

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

func ends(err error) bool { return Walk(err, func(error) {}) }

// Walk calls visit for err and all that it wraps, in the order of errors.As, and reports whether
// that came to an end.
func Walk(err error, visit func(error)) bool {
	rest := []error{err} // what the walk has not come to
	for range maxWrapped {
		if len(rest) == 0 {
			return true
		}
		err, rest = rest[len(rest)-1], rest[:len(rest)-1]
		if err == nil {
			continue
		}
		visit(err)
		switch x := err.(type) { //nolint:errorlint // this is the walk that errors.As would make
		case interface{ Unwrap() error }:
			rest = append(rest, x.Unwrap())
		case interface{ Unwrap() []error }:
			all := slices.Clone(x.Unwrap())
			slices.Reverse(all)
			rest = append(rest, all...)
		}
	}
	return false
}
