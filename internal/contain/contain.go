// Package contain calls code of the user's, so that what it does wrong stays with it
// (promise R6): a panic, an end of its goroutine (runtime.Goexit, and so t.FailNow), an
// error whose methods panic or whose Unwrap has no end. Each becomes an error.
package contain

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/tendhq/tend/internal/endless"
)

// ErrGoexit is the error of a function that called runtime.Goexit.
var ErrGoexit = errors.New("it ended its goroutine (runtime.Goexit)")

// Panic is a recovered panic.
type Panic struct { //nolint:errname // it says what happened
	Value any    // what panic was called with, or its text if it cannot be looked at
	Stack []byte // of the goroutine that panicked
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Unwrap returns the panic's value if it was an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// Call calls f and returns its error, or a [*Panic]. No function can stop runtime.Goexit on
// its own goroutine: where f may call it, and the goroutine must go on, use [Apart].
func Call(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = Recovered(v)
		}
	}()
	return Check(f())
}

// Apart calls f on a goroutine of its own and waits for it. It returns f's error, a [*Panic],
// or [ErrGoexit].
func Apart(f func() error) error {
	done := make(chan error, 1)
	go func() { // ends with f, and is waited for below
		err := ErrGoexit
		defer func() { done <- err }()
		err = Call(f)
	}()
	return <-done
}

// Recovered is the error of a recovered panic, to be called in the deferred function. A
// value that is an error is kept as one only if it can be looked at: errors.Is goes through
// Unwrap.
func Recovered(v any) *Panic {
	if err, ok := v.(error); ok && !usable(err) {
		v = fmt.Sprint(v)
	}
	return &Panic{Value: v, Stack: debug.Stack()}
}

func usable(err error) (ok bool) {
	defer func() { _ = recover() }()
	_, cut := Check(err).(*endless.Error) //nolint:errorlint // the error itself is meant: some cannot be compared
	return !cut
}

// Check calls the methods of err that are called later to look at it and to print it, so
// that one that panics does so inside [Call]. An error that is a nil pointer in an interface
// (a *PathError that was declared and never set) is such an error. One whose Unwrap has no
// end would keep errors.Is busy for ever: see endless.Cut.
func Check(err error) error {
	if err == nil {
		return nil
	}
	_ = err.Error()
	err = endless.Cut(err)
	var p *Panic
	_ = errors.Is(err, ErrGoexit) || errors.As(err, &p)
	return err
}

// Stack returns what a log line of err says besides its text: "stack" and the stack of the
// panic that err is or wraps, nothing for another error.
func Stack(err error) []any {
	if p, ok := errors.AsType[*Panic](err); ok {
		return []any{"stack", string(p.Stack)}
	}
	return nil
}
