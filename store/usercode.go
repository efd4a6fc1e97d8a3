package store

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/tendhq/tend/internal/contain"
)

// Code of the user's runs in the methods of the types of spec and status
// (MarshalJSON, UnmarshalText, Clone, Equal, String and so on), and in the functions of
// [Options]. What it does wrong (promise R6) is a [*DecodeError] of the stored object, or
// [ErrInvalid] of the object that is to be stored.

// call calls f, which may call methods of the types of spec and status. Where
// they are not the user's, no goroutine is needed.
//
// A function for another goroutine lies on the heap, with each variable that it sets. So what
// every read or write of a record does asks s.code itself, and calls where it is false
// [contain.Call] in a function that has no other use of these variables.
func (s *core) call(f func() error) error {
	if s.code {
		return contain.Apart(f)
	}
	return contain.Call(f)
}

// accept is call for what is to be stored: a panic is [ErrInvalid].
func (s *core) accept(o object, f func() error) error {
	return s.refusal(o, s.call(f))
}

// refusal is the error of accept for what call returned.
func (s *core) refusal(o object, err error) error {
	if failed(err) && !errors.Is(err, ErrInvalid) {
		return fmt.Errorf("%w: %w", ErrInvalid, s.about(o.meta().Key(), s.redactError(err, o)))
	}
	return err
}

// undecodable is the [*DecodeError] of a record. The value of a panic may hold a part of the
// object, so its type is shown, and of the errors of the runtime the text.
func (s *core) undecodable(r Record, err error) error {
	if p, ok := errors.AsType[*contain.Panic](err); ok {
		if _, ours := p.Value.(runtime.Error); !ours {
			err = &contain.Panic{Value: fmt.Sprintf("of type %T", p.Value), Stack: p.Stack}
		}
		err = s.hideDecode(err)
	}
	return &DecodeError{kind: s.kind, Key: r.Key, Revision: r.Revision, err: err}
}

// failed reports whether a function did not return.
func failed(err error) bool {
	_, panicked := errors.AsType[*contain.Panic](err)
	return panicked || errors.Is(err, contain.ErrGoexit)
}
