package reconcile

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/tendhq/tend/internal/contain"
)

// Why a run's context ended, by context.Cause. Each cause wraps one of these
// with the controller's name.
var (
	// ErrDeadline: the run took longer than Options.Timeout. It wraps
	// context.DeadlineExceeded.
	ErrDeadline = fmt.Errorf("run is past its deadline: %w", context.DeadlineExceeded)
	// ErrShutdown: the controller stops, and the time to drain is over.
	ErrShutdown = errors.New("controller is stopping")
	// ErrSuperseded: the key's object has a newer spec, is being deleted, or is gone
	// (Options.EndSuperseded).
	ErrSuperseded = errors.New("object has changed")
	// ErrLeaseLost: this server may no longer run the key.
	ErrLeaseLost = errors.New("lease lost")
)

// Errors of Run, Watch and Register.
var (
	// errRunning: Run was called a second time, or Register after Run.
	errRunning = errors.New("already running")
	// ErrSourceExists: a source of that name is watched already.
	ErrSourceExists = errors.New("source is watched already")
	// ErrElsewhere: another server runs the key, or may.
	ErrElsewhere = errors.New("key is run by another server")
	// errSyncTimeout: a source or cache took longer than Options.SyncTimeout. The
	// error says why it last failed, if it did.
	errSyncTimeout = errors.New("not synced in time")
	// errNoSource: no source of that name is watched.
	errNoSource = errors.New("no such source")
	// errSourceRunning: a source goes on although its context ended. Nothing is
	// started again before it returns.
	errSourceRunning = errors.New("source goes on although its context ended")
	// errNameTaken: a Manager has a runner of that name already.
	errNameTaken = errors.New("name is taken")
	// ErrCycle: controllers wake each other in a circle.
	ErrCycle = errors.New("dependency cycle")
	// errSourceEnded: a source returned although it was not stopped.
	errSourceEnded = errors.New("source ended")
)

// ErrTerminal is what errors.Is finds in every error made by Terminal.
var ErrTerminal = errors.New("terminal")

// Terminal marks err as one that retrying will not cure: the key is parked with
// err as its reason, until an urgent add (its spec changed, it is to be deleted,
// it was unpaused or kicked) or the slow resync (Options.Resync). If
// anything was added while the run went on, the key is tried once more, with
// backoff: what was added may be the cure. It is found through any wrapping.
// Terminal(nil) is an error too: a caller of Terminal means to stop.
func Terminal(err error) error { return &terminalError{err} }

type terminalError struct{ err error }

func (e *terminalError) Error() string {
	if e.err == nil {
		return "terminal error without a cause"
	}
	return e.err.Error() // that the key is parked is said where it is shown
}

func (e *terminalError) Unwrap() error        { return e.err }
func (e *terminalError) Is(target error) bool { return target == ErrTerminal }

// RetryAfter makes an error that carries the delay after which to run again, and
// is found through any wrapping. With an err it is a failure: counted, attempts
// kept, and the key waits for the later of d and its backoff. With a nil err it
// is none: the key runs after d with its attempts reset, and d = 0 means at
// once, but behind the ready keys of its band, so that it cannot spin. A
// negative d is 0.
func RetryAfter(err error, d time.Duration) error { return &retryAfterError{err, max(d, 0)} }

type retryAfterError struct {
	err error
	d   time.Duration
}

func (e *retryAfterError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("again after %v", e.d)
	}
	return e.err.Error()
}

func (e *retryAfterError) Unwrap() error { return e.err }

// Delay is the delay that an error made by RetryAfter carries, through any
// wrapping; not ok if there is none. It is for reconcilers that combine the
// outcomes of several parts.
func Delay(err error) (d time.Duration, ok bool) {
	var again *retryAfterError
	if !errors.As(err, &again) {
		return 0, false
	}
	return again.d, true
}

// A PanicError is what a panic in a reconciler, mapper, source or hook becomes.
type PanicError struct {
	Value any    // what panic was called with
	Stack []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string { return (*contain.Panic)(e).Error() }

// Unwrap gives the panic's value if it was an error.
func (e *PanicError) Unwrap() error { return (*contain.Panic)(e).Unwrap() }

// What Ready says.
var (
	errNotRunning = errors.New("not running yet")
	errNotSynced  = errors.New("not synced yet")
	errStopping   = errors.New("stopping")
	errStopped    = errors.New("its queue was stopped, so it runs nothing any more")
)

// onlyCanceled reports whether err says nothing but that a context was cancelled.
// Of errors that were joined each must: the others are news.
func onlyCanceled(err error) bool {
	if reflect.TypeOf(err) == reflect.TypeOf(errors.Join(context.Canceled)) {
		parts := err.(interface{ Unwrap() []error }).Unwrap()
		return !slices.ContainsFunc(parts, func(e error) bool { return !onlyCanceled(e) })
	}
	return errors.Is(err, context.Canceled)
}
