package reconcile

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
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
	return checkError(err) == err //nolint:errorlint // the same value is meant, not one that wraps it
}

// checkError calls the methods of err that are called later to look at it and to
// print it, so that one that panics does so inside the recover of the caller. An
// error that is a nil pointer in an interface (a *PathError that was declared and
// never set) is such an error. One whose Unwrap has no end would keep errors.Is busy
// for ever; checkError replaces it by one of the same text that wraps nothing.
func checkError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if !unwrapEnds(err) {
		return fmt.Errorf("%s (%T: its Unwrap has no end)", text, err)
	}
	var p *PanicError
	_ = errors.Is(err, ErrTerminal) || errors.As(err, &p)
	return err
}

// maxWrapped bounds how many errors one may wrap, each counted as often as it can be
// reached.
const maxWrapped = 1 << 14

// unwrapEnds reports whether a walk through all that err wraps comes to an end.
func unwrapEnds(err error) bool {
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

// contain calls a hook on a goroutine of its own and waits for it, so that whatever
// the hook does ends nothing else. It reports whether the hook returned; if not, the
// log says why.
func (c *Controller[K]) contain(name string, hook func()) (ok bool) {
	done := make(chan struct{})
	go func() { // ends with the hook, and is waited for below
		defer close(done)
		ok = c.containHere(name, hook)
	}()
	<-done
	return ok
}

// containHere is contain on the goroutine of the caller, for hooks that are called
// too often for a goroutine each. One that calls runtime.Goexit ends the caller.
func (c *Controller[K]) containHere(name string, hook func()) (ok bool) {
	defer func() {
		if !ok {
			c.hookFailed(name, recover())
		}
	}()
	hook()
	return true
}

// hookFailed logs that a hook panicked with v, or ended its goroutine if v is nil.
func (c *Controller[K]) hookFailed(name string, v any) {
	if v == nil {
		c.log().Error("reconcile: hook ended its goroutine (runtime.Goexit)", "controller", c.name, "hook", name)
		return
	}
	p := newPanic(v)
	c.log().Error("reconcile: hook panicked", "controller", c.name, "hook", name, "err", store.Brief(p), "stack", string(p.Stack))
}

// errBuckets is what Queue.Buckets panics with after its own panic has been logged:
// the queue then gives the key back, which backs off for a second.
var errBuckets = errors.New("reconcile: Options.Queue.Buckets panicked")

// containFuncs wraps the functions that the queue calls, so that a panic of one is
// logged and ends nothing:
//
//	Policy   the failed key waits as Backoff says by default
//	Tenant   the key belongs to no tenant
//	Buckets  the key does not run now
func (c *Controller[K]) containFuncs(o *queue.Options[K]) {
	if policy := o.Policy; policy != nil {
		fallback := queue.Backoff{}.Policy()
		o.Policy = func(attempt int, err error) (d time.Duration) {
			if !c.contain("Queue.Policy", func() { d = policy(attempt, err) }) {
				d = fallback(attempt, err)
			}
			return d
		}
	}
	if tenant := o.Tenant; tenant != nil {
		o.Tenant = func(key K) (t string) {
			c.containHere("Queue.Tenant", func() { t = tenant(key) })
			return t
		}
	}
	if buckets := o.Buckets; buckets != nil {
		o.Buckets = func(key K, dst []*queue.Bucket) (b []*queue.Bucket) {
			if !c.containHere("Queue.Buckets", func() { b = buckets(key, dst) }) {
				panic(errBuckets)
			}
			return b
		}
	}
}

// containBuckets is deferred where a worker calls the queue. It makes an error of
// the panic of Queue.Buckets.
func containBuckets(err *error) {
	switch v := recover(); v {
	case nil:
	case errBuckets:
		*err = errBuckets
	default:
		panic(v)
	}
}
