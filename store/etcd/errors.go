package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
		rpctypes.ErrLeaseNotFound, rpctypes.ErrLeaseProvided,
		rpctypes.ErrTooManyRequests,
		rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrInvalidAuthToken,
		rpctypes.ErrAuthOldRevision, rpctypes.ErrCompacted, rpctypes.ErrFutureRev,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	if tooLarge(err) {
		return true
	}
	switch status.Code(err) {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.OutOfRange:
		return true
	}
	return false
}

// tooLarge reports whether a request was refused for its size: by gRPC on either side,
// which has no error of its own for that, or by the server.
func tooLarge(err error) bool {
	return errors.Is(err, rpctypes.ErrRequestTooLarge) ||
		status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "message larger than max")
}

// failed is the error of a write that was not acknowledged.
func failed(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return fmt.Errorf("etcd: %w", store.ErrLeaseGone)
	case tooLarge(err):
		return fmt.Errorf("etcd: %w: the server or this client is configured for smaller requests: %w", store.ErrInvalid, err)
	case refused(err):
		return fmt.Errorf("etcd: write refused: %w", err)
	case unsent(err) && ctx.Err() != nil:
		return fmt.Errorf("etcd: write not sent: %w: %w", err, context.Cause(ctx))
	case unsent(err):
		return fmt.Errorf("etcd: write not sent: %w", err)
	case ctx.Err() != nil:
		return fmt.Errorf("etcd: %w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
	}
	return fmt.Errorf("etcd: %w: %w", store.ErrUnknownOutcome, err)
}

// leaseFailed is failed, of a call that Close does not wait for.
func (b *backend) leaseFailed(ctx context.Context, err error) error {
	if b.cancelled(err) {
		return store.ErrClosed
	}
	err = failed(ctx, err)
	b.writes.Committed(ctx, store.Txn{}, err)
	return err
}

// readFailed is the error of a read.
func (b *backend) readFailed(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrCompacted), errors.Is(err, rpctypes.ErrFutureRev):
		// A revision beyond the head means that the store went back in time
		// (it was restored from a backup): what was pinned is gone either way.
		return fmt.Errorf("etcd: %w: %w", store.ErrCompacted, err)
	case unsent(err) && ctx.Err() != nil:
		return fmt.Errorf("etcd: read: %w: %w", err, context.Cause(ctx))
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case b.cancelled(err):
		return store.ErrClosed
	}
	return fmt.Errorf("etcd: read: %w", err)
}

// cancelled says that a call ended because the backend was closed. A proxy that cuts
// a call off looks the same from the error alone.
func (b *backend) cancelled(err error) bool {
	return b.ctx.Err() != nil && status.Code(err) == codes.Canceled
}
