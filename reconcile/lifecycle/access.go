package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tendhq/tend/internal/endless"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// ErrNoAccess is what Ensure returns for an object in deletion when the access
// that it had is gone already. The provider's Delete is then called with the
// zero A: only the provider may know what else there is to clean up.
var ErrNoAccess = errors.New("lifecycle: there is no access any more")

// Access gives a provider what it needs to reach the place that one object
// lives in (a client with credentials, say), and takes it back.
//
// Ensure is called in every run, before the provider's own code, and makes
// sure that the access exists. A Result that asks for a delay or a requeue
// means "not yet": the provider is not called, and Ensure is called again.
// For an object in deletion (o.Deleted is set) Ensure hands out what is there
// and must create or renew nothing; it returns [ErrNoAccess] if there is
// nothing.
//
// Release is called after the provider's Delete succeeded, again until it has
// nothing left to wait for. Neither Delete nor Ensure is called any more once
// Release has begun, over restarts too.
//
// Both are called for many objects at once. C is a copy; it is the zero C if
// no config is loaded, see [ConfigLoaded].
type Access[S, T, C, A any] interface {
	Ensure(ctx context.Context, o *store.Object[S, T], config C) (A, reconcile.Result, error)
	Release(ctx context.Context, o *store.Object[S, T], config C) (reconcile.Result, error)
}

// Both is what [JoinAccess] hands out.
type Both[A, B any] struct {
	First  A
	Second B
}

// JoinAccess makes one access of two: both are ensured in every run, in order,
// and released in the reverse order, the first only once the second is
// released. If one has to wait, the other is still ensured, so that the two
// wait at the same time; a deletion waits for the one though the other is gone. A nil one is not wanted: it is never called, and its
// part is the zero value.
func JoinAccess[S, T, C, A, B any](first Access[S, T, C, A], second Access[S, T, C, B]) Access[S, T, C, Both[A, B]] {
	return joined[S, T, C, A, B]{first, second}
}

type joined[S, T, C, A, B any] struct {
	first  Access[S, T, C, A]
	second Access[S, T, C, B]
}

func (j joined[S, T, C, A, B]) Ensure(ctx context.Context, o *store.Object[S, T], config C) (Both[A, B], reconcile.Result, error) {
	a, resA, errA := ensure(ctx, j.first, o, config)
	b, resB, errB := ensure(ctx, j.second, o, config)
	res, err := sooner(resA, resB), bothErrors(errA, errB)
	if waits(res) && errors.Is(err, ErrNoAccess) {
		err = nil // the one that is not there yet may be needed to clean up
	}
	return Both[A, B]{a, b}, res, err
}

func (j joined[S, T, C, A, B]) Release(ctx context.Context, o *store.Object[S, T], config C) (reconcile.Result, error) {
	if res, err := release(ctx, j.second, o, config); err != nil || waits(res) {
		return res, err
	}
	return release(ctx, j.first, o, config)
}

// bothErrors keeps ErrNoAccess apart from a failure that has to be retried.
func bothErrors(a, b error) error {
	if errors.Is(a, ErrNoAccess) && b != nil {
		return b
	}
	if errors.Is(b, ErrNoAccess) && a != nil {
		return a
	}
	return errors.Join(a, b)
}

func ensure[S, T, C, A any](ctx context.Context, access Access[S, T, C, A], o *store.Object[S, T], config C) (a A, res reconcile.Result, err error) {
	if access == nil {
		return a, res, nil
	}
	if a, res, err = access.Ensure(ctx, o, config); err != nil {
		err = fmt.Errorf("ensure access: %w", endless.Cut(err))
	}
	return a, res, err
}

func release[S, T, C, A any](ctx context.Context, access Access[S, T, C, A], o *store.Object[S, T], config C) (res reconcile.Result, err error) {
	if access == nil {
		return res, nil
	}
	if res, err = access.Release(ctx, o, config); err != nil {
		err = fmt.Errorf("release access: %w", endless.Cut(err))
	}
	return res, err
}

// waits says that what was called is not over.
func waits(r reconcile.Result) bool { return r.Requeue || r.RequeueAfter > 0 }

// sooner combines what two parts ask for. One that wants backoff makes it so
// for both.
func sooner(a, b reconcile.Result) reconcile.Result {
	return reconcile.Result{Requeue: a.Requeue || b.Requeue, RequeueAfter: shorter(a.RequeueAfter, b.RequeueAfter)}
}

func shorter(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}
