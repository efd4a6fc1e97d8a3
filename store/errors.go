package store

import (
	"errors"
	"fmt"
)

// What a store can answer. Every error of this package and its backends wraps
// one of these, the cause of a context, or what the medium said; ask with
// [errors.Is].
var (
	// ErrNotFound: no such object.
	ErrNotFound = errors.New("store: not found")
	// ErrExists: Create met an object of that key.
	ErrExists = errors.New("store: already exists")
	// ErrConflict: the object is not at the revision that the write was made
	// for. The error of a [Store] or [Backend] is a [*ConflictError]; that of [Copy]
	// and [CopyRecords], which compare two stores, is not.
	ErrConflict = errors.New("store: conflict")
	// ErrCompacted: the revision is not, or no longer, part of the history
	// that is kept. Start again with a list or a watch from 0.
	ErrCompacted = errors.New("store: revision compacted")
	// ErrFenced: a guard did not hold. The writer lost its lease and must
	// stop; trying again cannot help.
	ErrFenced = errors.New("store: fenced")
	// ErrUnguarded: the store requires a guard and the context carries none.
	ErrUnguarded = errors.New("store: write without a guard")
	// ErrUnknownOutcome: the write may or may not have happened. Read, and
	// decide; the compare-and-swap makes trying the same write again safe.
	ErrUnknownOutcome = errors.New("store: outcome unknown")
	// ErrClosed: the backend was closed.
	ErrClosed = errors.New("store: closed")
	// ErrNewer: the stored object was written by a newer version of the
	// program, with a schema version above ours. It can be read ([Meta].Newer);
	// writing it would lose what we do not know.
	ErrNewer = errors.New("store: object of a newer version")
	// ErrInvalid: the caller asked for something impossible. Trying again
	// cannot help.
	ErrInvalid = errors.New("store: invalid")
	// ErrDecode: the stored bytes are not an object of this kind. The error
	// is a [*DecodeError]. [Store.DeleteUndecodable] removes such an object.
	ErrDecode = errors.New("store: cannot decode")
	// ErrLeaseGone: the lease ended or never was.
	ErrLeaseGone = errors.New("store: lease gone")
)

// ConflictError is an [ErrConflict] with what is stored instead. Backends
// return it without a second round trip.
type ConflictError struct {
	// Want is the condition that did not hold.
	Want Compare
	// Current is what was there at the same instant. Its Revision is zero if
	// there was nothing.
	Current Record
}

// Error names the object, the revision expected and the one found.
func (e *ConflictError) Error() string {
	if e.Current.Revision == 0 {
		return fmt.Sprintf("%v: %v, but there is none", ErrConflict, e.Want)
	}
	return fmt.Sprintf("%v: %v, but found revision %d", ErrConflict, e.Want, e.Current.Revision)
}

// Is makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// DecodeError is an [ErrDecode] that says of which record.
type DecodeError struct {
	kind     string
	Key      Key
	Revision Revision
	err      error
}

// Error names the record and the cause.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("%v: %s %s at revision %d: %v", ErrDecode, e.kind, e.Key, e.Revision, e.err)
}

// Is makes errors.Is(err, ErrDecode) true.
func (e *DecodeError) Is(target error) bool { return target == ErrDecode }

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.err }
