package external

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"syscall"

	"github.com/tendhq/tend/internal/endless"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/store"
)

// ErrCreateIncomplete is what a run ends with when a create may or may not have
// happened and there is no way to look it up ([ByCloud], or [ByMark] by an [Inventory] with
// Detail). The key is parked until an operator that has looked says what it found: by the commands
// "tend created" and "tend not-created", by package reconcile/web/api, or by Answer of an [objects.Kind].
var ErrCreateIncomplete = errors.New("external: a create was begun and its outcome is not known")

// ErrLocationChanged is what a run ends with, terminally, where the spec says another location
// than the one on record; see [Options.Location]. Nothing is called outside until the spec is put
// back. A deletion waits too: put the spec back by [store.Store.Mutate] then, because a file
// does not change an object that is being deleted.
//
// To move a resource, declare another object and delete this one. Where the location has only
// another name now, or the resource is gone for good or was moved by hand, the command
// "tend forget-location" forgets the record, and so does [objects.ForgetLocation]. An object whose
// policy lacks [Delete] can be deleted as it is.
var ErrLocationChanged = errors.New("external: the spec says another location than the one on record")

// ErrExists is for a client's Create to wrap where the name is taken; see
// [Options.ExclusiveCreate]. The create had no effect, but an earlier try may have had
// one, of an SDK's own retry for example: the next run looks at the resource and finds
// out by its ownership mark. An [Inventory] that does not know its id looks for the mark on
// its list; where that shows none, because of Detail or because the resource is another's, the
// create is tried again and refused, with backoff.
var ErrExists = errors.New("external: the resource exists")

// Unknown marks an error of a client's Create after which it is not known whether
// the resource was created: an answer of 502, 503 or 504 from something in
// between, or gRPC's codes Unavailable, Unknown, Internal, DeadlineExceeded and Canceled.
// Errors that say so themselves (deadlines, cancellations, network timeouts, broken
// connections, a *url.Error of [net/http.Client], a [quota.HTTPError] with such a status) need
// no mark, and neither does any that comes after the end of the call's context. Unknown of nil
// is nil.
func Unknown(err error) error {
	if err == nil {
		return nil
	}
	return &unknownError{err}
}

type unknownError struct{ err error }

func (e *unknownError) Error() string { return "outcome unknown: " + e.err.Error() }
func (e *unknownError) Unwrap() error { return e.err }

// isUnknown reports whether a create that was called with ctx and ended with err may have
// happened all the same. In doubt it may: taking a success for a failure makes a second
// resource, the reverse makes a look-up or a question to a human.
func isUnknown(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	var marked *unknownError
	var cut *endless.Error // which may have wrapped any of these
	if errors.As(err, &marked) || errors.As(err, &cut) {
		return true
	}
	for _, known := range []error{
		context.Canceled, context.DeadlineExceeded, store.ErrUnknownOutcome,
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED,
		syscall.ENETRESET, net.ErrClosed,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	if saysUnknown(err) {
		return true
	}
	// Some say nothing of a deadline that they met, gRPC's for example.
	return ctx.Err() != nil && !ratelimit.IsThrottled(err) || isBroken(err, false)
}

// saysUnknown reports whether err is an answer of something that failed after it had the request, or
// may have: a server, or a proxy before it. One that asks for fewer calls has done nothing.
func saysUnknown(err error) bool {
	answer, ok := errors.AsType[*quota.HTTPError](err)
	return ok && !quota.Judge(answer).Throttled && answer.Status != http.StatusNotImplemented &&
		(answer.Status >= http.StatusInternalServerError || answer.Status == http.StatusRequestTimeout)
}

// isBroken reports whether err is of a call that broke after its request may have been
// sent: HTTP/2 has no types for its errors, so what is not known to come before that counts
// (request: what wraps err is of a request). Of several tries, whose errors are joined, each
// counts for itself: one that made nothing says nothing of the others.
func isBroken(err error, request bool) bool {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if _, ok := e.(*url.Error); ok { //nolint:errorlint // each of the chain is asked
			request = true
		}
		if tries, ok := e.(interface{ Unwrap() []error }); ok {
			return slices.ContainsFunc(tries.Unwrap(), func(try error) bool { return isBroken(try, request) })
		}
	}
	var timeout interface{ Timeout() bool }
	var name *net.DNSError
	var cert *tls.CertificateVerificationError
	var op *net.OpError
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return true
	case ratelimit.IsThrottled(err), errors.As(err, &name), errors.As(err, &cert): // by quota.Transport the first comes in a *url.Error, too
		return false
	case errors.As(err, &op):
		return op.Op != "dial" && op.Op != "proxyconnect"
	}
	return request
}
