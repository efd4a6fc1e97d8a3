package external

import (
	"context"
	"errors"
	"io"
	"syscall"

	"github.com/tendhq/tend/internal/endless"
	"github.com/tendhq/tend/store"
)

// ErrCreateIncomplete is what a run ends with when a create may or may not have
// happened and there is no way to look it up ([ByCloud]). The key is parked;
// see [Reconciler.ClearPending].
var ErrCreateIncomplete = errors.New("external: a create was begun and its outcome is not known")

// ErrExists is for a client's Create to wrap where the name is taken; see
// [Options.ExclusiveCreate]. The create had no effect, but an earlier try may have had
// one, of an SDK's own retry for example: the next run looks at the resource and finds
// out by its ownership mark.
var ErrExists = errors.New("external: the resource exists")

// Unknown marks an error of a client's Create after which it is not known whether
// the resource was created: an answer of 502, 503 or 504 from something in
// between, for example. Errors that say so themselves (deadlines,
// cancellations, network timeouts, broken connections) need no mark. Unknown of
// nil is nil.
func Unknown(err error) error {
	if err == nil {
		return nil
	}
	return &unknownError{err}
}

type unknownError struct{ err error }

func (e *unknownError) Error() string { return "outcome unknown: " + e.err.Error() }
func (e *unknownError) Unwrap() error { return e.err }

// isUnknown reports whether a create that ended with err may have happened all
// the same. In doubt it may: taking a success for a failure makes a second
// resource, the reverse makes a look-up or a question to a human.
func isUnknown(err error) bool {
	var marked *unknownError
	var cut *endless.Error // which may have wrapped any of these
	var timeout interface{ Timeout() bool }
	if errors.As(err, &marked) || errors.As(err, &cut) || errors.As(err, &timeout) && timeout.Timeout() {
		return true
	}
	for _, known := range []error{
		context.Canceled, context.DeadlineExceeded, store.ErrUnknownOutcome,
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
