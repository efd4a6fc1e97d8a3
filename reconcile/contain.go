package reconcile

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"

	"github.com/tendhq/tend/internal/endless"
)

// This file keeps what user code does wrong with that user code (promise R3): a
// panic, an end of its goroutine (runtime.Goexit, and so t.FailNow), an error whose
// methods panic or whose Unwrap has no end.

// errGoexit is the failure of user code that called runtime.Goexit.
var errGoexit = errors.New("it ended its goroutine (runtime.Goexit)")

// isolate calls f on a goroutine of its own and waits for it. A panic of f is an
// error, and so is the end of that goroutine.
func isolate(f func() error) error {
	done := make(chan error, 1)
	go func() { // ends with f, and is waited for below
		err := errGoexit
		defer func() { done <- err }()
		err = protect(f)
	}()
	return <-done
}

// protect calls f and makes an error of its panic. runtime.Goexit ends the caller.
func protect(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = newPanic(v)
		}
	}()
	return checkError(f())
}

// newPanic is the error of a recovered panic. A value that is an error is kept as
// one only if it can be looked at: errors.Is goes through PanicError.Unwrap.
func newPanic(v any) *PanicError {
	if err, ok := v.(error); ok && !usable(err) {
		v = fmt.Sprint(v)
	}
	return &PanicError{Value: v, Stack: debug.Stack()}
}

func usable(err error) (ok bool) {
	defer func() { _ = recover() }()
	_, cut := checkError(err).(*endless.Error) //nolint:errorlint // the error itself is meant: some cannot be compared
	return !cut
}

// checkError calls the methods of err that are called later to look at it and to
// print it, so that one that panics does so inside the recover of the caller. An
// error that is a nil pointer in an interface (a *PathError that was declared and
// never set) is such an error. One whose Unwrap has no end would keep errors.Is busy
// for ever: see endless.Cut.
func checkError(err error) error {
	if err == nil {
		return nil
	}
	_ = err.Error()
	err = endless.Cut(err)
	var p *PanicError
	_ = errors.Is(err, ErrTerminal) || errors.As(err, &p)
	return err
}

// isNil also reports a nil pointer or function in an interface.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return v == nil || (r.Kind() == reflect.Pointer || r.Kind() == reflect.Func) && r.IsNil()
}
