package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tendhq/tend/store"
)

// errTimeout is the cause of a request that the server did not answer in time.
var errTimeout = errors.New("etcd: no answer within the request timeout")

// refused says that the server has answered, and that nothing of the request
// was applied. Every error that is not known to mean this leaves the outcome of
// a write unknown: a timeout, a broken connection, a leader lost on the way. So
// does ErrNoSpace: requests that were let in together may find the space used up
// when they are applied, and are applied all the same (quotaApplierV3 in etcd).
func refused(err error) bool {
	for _, e := range []error{
		rpctypes.ErrEmptyKey, rpctypes.ErrTooManyOps, rpctypes.ErrDuplicateKey,
		rpctypes.ErrRequestTooLarge, rpctypes.ErrLeaseNotFound, rpctypes.ErrLeaseProvided,
		rpctypes.ErrTooManyRequests,
		rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrInvalidAuthToken,
		rpctypes.ErrAuthOldRevision, rpctypes.ErrCompacted, rpctypes.ErrFutureRev,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	switch status.Code(err) {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.OutOfRange:
		return true
	}
	return false
}

// failed is the error of a write that was not acknowledged.
func failed(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return fmt.Errorf("etcd: %w", store.ErrLeaseGone)
	case refused(err):
		return fmt.Errorf("etcd: write refused: %w", err)
	case ctx.Err() != nil: // before the next case: a caller that gave up looks the same
		return fmt.Errorf("etcd: %w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
	case closed(err):
		return store.ErrClosed
	}
	return fmt.Errorf("etcd: %w: %w", store.ErrUnknownOutcome, err)
}

// closed says that the client has been closed: etcd's client reports that as a
// cancelled call.
func closed(err error) bool { return status.Code(err) == codes.Canceled }

// readFailed is the error of a read.
func readFailed(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrCompacted), errors.Is(err, rpctypes.ErrFutureRev):
		// A revision beyond the head means that the store went back in time
		// (it was restored from a backup): what was pinned is gone either way.
		return fmt.Errorf("etcd: %w: %w", store.ErrCompacted, err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case closed(err):
		return store.ErrClosed
	}
	return fmt.Errorf("etcd: read: %w", err)
}
