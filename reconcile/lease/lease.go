package lease

import (
	"context"
	"errors"

	"github.com/tendhq/tend/store"
)

// ErrLost is the cause of a work context that ended because its lease did: it
// could not be renewed in time, was taken away, or was given up by its host.
var ErrLost = errors.New("lease: lost")

// errRunning says that a placement's Run is under way already.
var errRunning = errors.New("lease: placement is running already")

// errMoved is the cause when another server is to take the shard over.
var errMoved = errors.New("lease: handed over to another server")

// A Lease is one thing that at most one server holds at a time. It is safe for
// concurrent use.
type Lease interface {
	// Name is the lease's name, unique in its backend.
	Name() string
	// Held says whether this server holds the lease at this moment, and gives
	// the guard that proves it to the store. A guard without a kind proves
	// nothing (EveryServer, or a Manual without a backend): there is no other
	// server to fence against. Held does not block.
	Held() (guard store.Compare, ok bool)
	// Changed receives a value after the lease was won or lost. It holds one
	// notification until it is received; ask Held for the latest state.
	Changed() <-chan struct{}
}

// Work is what a server does while it holds a shard. Its context carries the
// guard of the hold and ends with a cause when the hold does. Work that returns
// nil is done: the hold is kept and it is not called again under it. Work that
// returns an error (its own to report) is called again while the hold lasts: at
// once if it had lived for more than two seconds, else after a growing backoff
// (500 ms to 1 min, ±25 %).
type Work func(ctx context.Context, shard int) error

// A Placement says where work runs.
type Placement interface {
	// String describes the placement, the same way every time.
	String() string
	// Shards is into how many parts the keys are divided; 1 where they are not.
	Shards() int
	// Lease is the lease of one shard. It panics if
	// shard is not in [0, Shards).
	Lease(shard int) Lease
	// Run wins leases and calls work for each shard while it holds it, each in
	// a goroutine of its own. It blocks until ctx ends, and then until every
	// call of work has returned and its lease was released. Calling it twice
	// at a time is an error.
	Run(ctx context.Context, work Work) error
}

type tokenKey struct{}

// Token is the fencing token of the hold that ctx belongs to, for clouds that
// take one: it grows with every change of holder. Not ok outside of Work, and
// where there is no token to be had (EveryServer; Manual without a term).
func Token(ctx context.Context) (token uint64, ok bool) {
	token, ok = ctx.Value(tokenKey{}).(uint64)
	return token, ok
}

type goneKey struct{}

// Gone is closed when the hold that ctx belongs to is not to be trusted any
// more: from then on the work may be another server's. Often that is when ctx
// ends. It is later when this server stops in good order: then ctx ends first,
// and work may finish what it has begun until Gone is closed. It is nil, which
// is never, outside of Work and where there is no lease (EveryServer).
func Gone(ctx context.Context) <-chan struct{} {
	gone, _ := ctx.Value(goneKey{}).(<-chan struct{})
	return gone
}

// withHold makes the context that work runs under. cancel ends it; distrust ends
// it and closes Gone.
func withHold(ctx context.Context, guard store.Compare, epoch uint64) (work context.Context, cancel, distrust context.CancelCauseFunc) {
	if guard.Kind != "" {
		ctx = store.WithGuard(ctx, guard)
	}
	if epoch != 0 {
		ctx = context.WithValue(ctx, tokenKey{}, epoch)
	}
	trust, distrust := context.WithCancelCause(ctx)
	work, cancel = context.WithCancelCause(context.WithValue(trust, goneKey{}, trust.Done()))
	return work, cancel, distrust
}
