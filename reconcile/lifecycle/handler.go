package lifecycle

import (
	"context"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/internal/object"
	"github.com/tendhq/tend/store"
)

// Action is what a handler is called for.
type Action int

// The four actions. The zero Action is none of them.
const (
	Added    Action = iota + 1 // new to the handler, or its Add has not succeeded yet
	Updated                    // changed since the handler last succeeded
	Deleted                    // deletion was asked for, and the handler has to clean up
	Resynced                   // nothing is known to have changed
)

// String is the action in one word.
func (a Action) String() string {
	switch a {
	case Added:
		return "Added"
	case Updated:
		return "Updated"
	case Deleted:
		return "Deleted"
	case Resynced:
		return "Resynced"
	}
	return "none"
}

// Func is one of a handler's functions. The object is the handler's to read;
// what it edits in Status and Conditions is written at the end of the run,
// every other edit is dropped.
//
// A Result that asks for a delay means, for Delete, that the clean-up is not
// over: Delete is called again after it, and the finalizer stays. For the
// others it means that all is well, and Resync is called after it. Requeue
// means that the action is not over: it is called again with backoff, which
// counts as no failure. An error wins over the Result and is retried as
// Handler.Retry says; [reconcile.RetryAfter] and [reconcile.Terminal] are
// honoured.
type Func[S, T any] func(ctx context.Context, o *store.Object[S, T]) (reconcile.Result, error)

// Handler is told what happens to the objects of a kind. A nil func is a
// success.
//
// Handlers of one kind are called one after the other, in the order in which
// they were given; one that fails stops none of the others, and on a retry
// only those that failed are called again. One key's handlers never run twice
// at once.
type Handler[S, T any] struct {
	// Name tells this handler from the others of its kind: in its finalizer,
	// in errors and logs; see [FinalizerName] for what it may hold. Empty: "handler",
	// and "handler-2" and so on for further ones, by the order of adding. Give
	// a name to handlers that come and go while running, or that a later
	// version may reorder, since objects carry it. Handlers of two Lifecycles of
	// one kind need different names: with one finalizer the first that is done
	// with an object is done for both.
	Name string

	// Add is called for an object that is new to this handler, and again until
	// it has succeeded once, over restarts too. Because it may have done its
	// work before a crash, it has to be idempotent.
	Add Func[S, T]

	// Update is called after a change, with the object last handled and the
	// newest one; what lay between is not shown. Old is read-only.
	Update func(ctx context.Context, old, now *store.Object[S, T]) (reconcile.Result, error)

	// Delete is called for an object in deletion that Add was called for, until
	// it succeeds. Only then may the object go.
	Delete Func[S, T]

	// Resync is called for a known object when nothing is known to have
	// changed: after a restart, after another server had the key, at a resync,
	// after a delay that a handler asked for, when something the object depends
	// on changed.
	Resync Func[S, T]

	// Simple handlers put no finalizer on objects. They are called with Added
	// for each object once per process, and again if its key was another server's
	// meanwhile; with Deleted at most once, after the object has gone, with what
	// they last saw of it. Deletions that happen while the process is down, or
	// before the server that a key moved to has called Added, are missed.
	Simple bool

	// Finalizer is the name of the finalizer. Empty: from the kind and Name. Until Add has
	// succeeded "pending." stands before it, which people see on the object.
	Finalizer string

	// LabelsChanged also calls Update when only labels changed. Otherwise a
	// change is one of the generation: of the spec.
	LabelsChanged bool

	// Retry says how long to wait before the next attempt, given the attempts
	// that have failed before this one (0 for the first) and the error;
	// negative gives up. Nil: [queue.Backoff] with its defaults, for ever.
	Retry queue.Policy

	// OnExhausted is called once when Retry gave up, with the object and the
	// last error. The handler is called again for this object when it changes,
	// or at the slow resync of parked keys.
	OnExhausted func(ctx context.Context, o *store.Object[S, T], err error)

	// Supersede is asked when a change meets a retry that is waiting: true
	// drops the retry, its attempts and its state, and calls the handler at
	// once; false keeps them, and the retry will see the newest object. Nil:
	// [DefaultSupersede].
	Supersede func(Pending[S, T]) bool
}

// invoke calls the func for an action. Old may be nil for all but Updated.
func (h *Handler[S, T]) invoke(ctx context.Context, a Action, old, o *store.Object[S, T]) (reconcile.Result, error) {
	f := h.Resync
	switch a {
	case Added:
		f = h.Add
	case Deleted:
		f = h.Delete
	case Updated:
		if h.Update == nil {
			return reconcile.Result{}, nil
		}
		return h.Update(ctx, old, o)
	}
	if f == nil {
		return reconcile.Result{}, nil
	}
	return f(ctx, o)
}

// FinalizerName derives the name of the finalizer that a handler of a kind
// puts on objects. The same arguments give the same name in every process and
// every version; two handlers of one kind get two names, so that the first to
// finish does not let the object go under the second. A name that would be
// longer than 63 bytes is shortened and ends in a hash of the whole.
//
// It is an error if either argument is empty, holds anything but letters, digits,
// '-', '_', '.' and '/', or does not begin and end with a letter or digit.
func FinalizerName(kind, handler string) (string, error) {
	return object.FinalizerName(kind, handler)
}

// Wrap gives a handler that hands every call on to h, except that Resync goes
// to h.Add if syncToAdd is set, and nowhere if not. It is for handlers that
// know only objects that come, change and go.
func Wrap[S, T any](h Handler[S, T], syncToAdd bool) Handler[S, T] {
	h.Resync = nil
	if syncToAdd {
		h.Resync = h.Add
	}
	return h
}

// Call tells a handler's func which call this is.
type Call struct {
	Handler string // its name
	Action  Action
	Attempt int   // how many attempts failed before this one
	Err     error // why the last one failed; nil at the first

	// State is the handler's own: what one attempt leaves here, the next
	// attempt finds. It is dropped when the action succeeds, is superseded or
	// is given up, and lives in memory.
	State any
}

type callKey struct{}

// Current is the call that ctx belongs to, and nil outside a handler's func.
func Current(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}
