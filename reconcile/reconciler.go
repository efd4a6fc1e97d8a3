package reconcile

import (
	"context"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
)

// Request is the usual key: namespace (may be empty) and name. Any other
// comparable type without pointers will do as well.
type Request = store.Key

// A Reconciler brings the world in line with what is declared under one key.
//
// It is level-triggered (promise R1): the key says what to look at, never what
// happened to it. Read the declared state, read the actual one, make the second
// like the first, and say through the Result and the error when to look again.
//
// The controller calls it from several goroutines, never twice at once for one
// key. ctx ends at the run's deadline (context.Cause then is ErrDeadline),
// when the lease is lost (ErrLeaseLost), and when the controller stopped and the
// time to drain is over (ErrShutdown), and when Reconcile returns. Each run has a
// context of its own.
type Reconciler[K comparable] interface {
	Reconcile(ctx context.Context, key K) (Result, error)
}

// Func is a function as a Reconciler.
type Func[K comparable] func(ctx context.Context, key K) (Result, error)

// Reconcile calls f.
func (f Func[K]) Reconcile(ctx context.Context, key K) (Result, error) { return f(ctx, key) }

// A Forgetter is a Reconciler or BatchReconciler that remembers keys from run to run.
// Where keys are placed by a lease, the controller tells it when some have left this
// server, in good order or not: what it remembers of them is of no use any more, since
// other servers run them now. A middleware does not hide it, and is told too if it is a
// Forgetter; a Reconciler that wraps one has to pass the call on.
type Forgetter[K comparable] interface {
	// Forget is to drop every remembered key that left reports true for. It is called
	// after the last run of those keys and before their lease is given up, while others
	// run, perhaps by several goroutines at once, and should be quick; left does not
	// block and may be called with a lock held. A panic is logged. It is not called when
	// the controller stops.
	Forget(left func(key K) bool)
}

// A sweeper is a Reconciler, BatchReconciler or middleware that remembers keys which wait to
// run again. Like a [Forgetter] it is found by itself; a Reconciler that wraps one has to
// pass the call on.
type sweeper[K comparable] interface {
	// Sweep is to drop every remembered key that queued reports false for: the queue does
	// not know it any more, since it was removed. It is called once a minute, while keys
	// run, and should be quick; queued takes a lock of the queue for a moment. A panic is
	// logged.
	Sweep(queued func(key K) bool)
}

// Result says when a key that was reconciled without an error is to run again.
// The zero Result: when something changes. With an error it is ignored (promise
// R2), because what the run found out before it failed is not worth trusting; use
// RetryAfter to give a delay together with an error.
type Result struct {
	// RequeueAfter runs the key again after this long: never early, without
	// jitter, with its attempts reset. Something that happens earlier uses the
	// timer up, so return what is left of a TTL each time. Zero or less: unset.
	RequeueAfter time.Duration
	// Requeue runs the key again with the backoff of a failure, but counted neither as an
	// error nor as a success. RequeueAfter beats it, and with both package program takes
	// the run for one that found out nothing. It is for code that was written for
	// controller-runtime: return an error if something failed, and RequeueAfter to look
	// again at a time of your own.
	Requeue bool
	// StillFailing says that the run has tried nothing of what failed before: the key
	// runs again after RequeueAfter, and keeps its attempts and its last error. The
	// run counts as one with Requeue. It is for reconcilers that retry their parts by
	// themselves; without a failure before, it changes nothing.
	StillFailing bool
	// Priority is the band the key is requeued in. Zero: the one it ran in.
	Priority queue.Priority
}

// Outcome is what one run came to.
type Outcome struct {
	Result Result
	Err    error
}

// A BatchReconciler reconciles several keys in one call, for APIs that take
// many at once. It returns one Outcome for each key, in the order of the keys;
// each is treated as if Reconcile had returned it for that key alone. If it
// returns another number of outcomes, every key of the batch is retried.
type BatchReconciler[K comparable] interface {
	ReconcileBatch(ctx context.Context, keys []K) []Outcome
}
