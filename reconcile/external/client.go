package external

import (
	"context"
	"errors"
	"fmt"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// Client does things to the one resource that an object stands for. Each run
// asks the [Connector] for a client, calls Observe, then at most one of the
// others, and then Close if the client is a [Closer].
//
// Every call is bounded by [Options.Timeout], which its context carries; none
// may outlive it. Calls must be idempotent, since after a crash they are made
// again: deleting what is gone, or going, is no error, and with a name of our
// own ([ByUs]) neither is creating what is already there and ours.
//
// The calls for one object come one after the other; those for several objects come at
// the same time, from all workers. So a client that serves more than one run, as that of
// [Always] or a [ClientFuncs] does, must be safe for concurrent use.
//
// The object is a copy for the client to edit; of its edits only those are kept
// that each method names, and others are said at debug level. [ClientFuncs] makes a client of funcs. A client may be a
// [BatchObserver] or [BatchDeleter] besides; see [Gather].
type Client[S, T any] interface {
	// Observe looks at the resource and changes nothing outside. It may edit
	// Status and Conditions, which are stored at the end of the run, and, where
	// it says LateInitialized, the Spec, which is stored at once. If it finds by its
	// mark what has no name on record, or another one than that ([ByMark]), it
	// may set the external name (o.Intent.ExternalName), which is stored at once too.
	Observe(ctx context.Context, o *store.Object[S, T]) (Observation, error)

	// Create is called when Observe found nothing. It may set annotations and
	// the external name (o.Intent.ExternalName), which are stored with the
	// outcome even if the run was cancelled meanwhile. So are the outputs
	// (o.Intent.Outputs) for [Options.Publisher], such as a password that no look shows:
	// all of them, or they are of an earlier create. With an error after which the outcome is not known
	// they are kept, and published once the resource is found: set what it has if it exists.
	//
	// An error means that nothing was created, unless it is one after which that
	// is not known: any at all if the call's context has ended, but a throttled one;
	// a deadline, a cancellation, anything with a Timeout method that says true; a
	// connection that broke; a *url.Error of [net/http.Client], unless no connection
	// was made; or an error marked with [Unknown]. Those of gRPC say nothing of
	// themselves: mark its codes Unavailable, Unknown, Internal, DeadlineExceeded and
	// Canceled. See [Naming] for what becomes of such a create.
	//
	// The resource should carry the ownership mark from its first moment.
	Create(ctx context.Context, o *store.Object[S, T]) error

	// Update makes the resource as declared, its ownership mark included. It may edit Status
	// and Conditions, as Observe may: for what no look shows, the time of a rotation for
	// example. They are stored at the end of the run if there is no error. It may set
	// o.Intent.Outputs, which are stored at once: all of them, not only those that it changed. Where it changes
	// what they are Observe says so before, see [Observation].Rotates.
	Update(ctx context.Context, o *store.Object[S, T]) error

	// Delete removes the resource, or begins to: it is called until Observe
	// finds nothing, by a client of an [Inventory] not again within [InventoryOptions.Settle] of
	// one that succeeded.
	Delete(ctx context.Context, o *store.Object[S, T]) error
}

// Closer is a client that has something to close. Close is called once per
// Connect that succeeded, also after a panic, with a context that is alive. Its
// error is logged and recorded as an event; it never changes the Result.
type Closer interface {
	Close(ctx context.Context) error
}

// Connector gives each run the client for its object: it reads what account,
// region or credentials the object names. It is called once per run, bounded by
// [Options.Timeout]; runs of several objects call it at the same time.
type Connector[S, T any] interface {
	Connect(ctx context.Context, o *store.Object[S, T]) (Client[S, T], error)
}

// ConnectorFunc is a func as a [Connector].
type ConnectorFunc[S, T any] func(ctx context.Context, o *store.Object[S, T]) (Client[S, T], error)

// Connect calls f.
func (f ConnectorFunc[S, T]) Connect(ctx context.Context, o *store.Object[S, T]) (Client[S, T], error) {
	return f(ctx, o)
}

// Always is the connector of a client that serves every object: one SDK client,
// safe for concurrent use. Such a client is usually no [Closer]; if it is, it
// is closed at the end of every run.
func Always[S, T any](c Client[S, T]) Connector[S, T] {
	return always[S, T]{c}
}

type always[S, T any] struct{ client Client[S, T] }

// Connect implements Connector.
func (a always[S, T]) Connect(context.Context, *store.Object[S, T]) (Client[S, T], error) {
	return a.client, nil
}

// ClientFuncs is a [Client] of funcs. A func that is needed and not set ends
// the run with a terminal error that names it, before anything is done. It is a
// Connector too: of itself. A client that embeds it sets the funcs too, but for RotateFunc, in whose
// place it may have a method. All workers then call the funcs, at the same time for
// several objects.
type ClientFuncs[S, T any] struct {
	ObserveFunc func(ctx context.Context, o *store.Object[S, T]) (Observation, error)
	CreateFunc  func(ctx context.Context, o *store.Object[S, T]) error
	UpdateFunc  func(ctx context.Context, o *store.Object[S, T]) error
	DeleteFunc  func(ctx context.Context, o *store.Object[S, T]) error
	CloseFunc   func(ctx context.Context) error                        // nil: nothing to close
	RotateFunc  func(ctx context.Context, o *store.Object[S, T]) error // nil: it is no [Rotator]

	inventory any // whose Client it is; nil: none's
}

// Connect returns the funcs as the client of every object.
func (f ClientFuncs[S, T]) Connect(context.Context, *store.Object[S, T]) (Client[S, T], error) {
	return f, nil
}

// Observe calls ObserveFunc.
func (f ClientFuncs[S, T]) Observe(ctx context.Context, o *store.Object[S, T]) (Observation, error) {
	if err := f.lacks(doObserve); err != nil {
		return Observation{}, err
	}
	return f.ObserveFunc(ctx, o)
}

// Create calls CreateFunc.
func (f ClientFuncs[S, T]) Create(ctx context.Context, o *store.Object[S, T]) error {
	if err := f.lacks(doCreate); err != nil {
		return err
	}
	return f.CreateFunc(ctx, o)
}

// Update calls UpdateFunc.
func (f ClientFuncs[S, T]) Update(ctx context.Context, o *store.Object[S, T]) error {
	if err := f.lacks(doUpdate); err != nil {
		return err
	}
	return f.UpdateFunc(ctx, o)
}

// Delete calls DeleteFunc.
func (f ClientFuncs[S, T]) Delete(ctx context.Context, o *store.Object[S, T]) error {
	if err := f.lacks(doDelete); err != nil {
		return err
	}
	return f.DeleteFunc(ctx, o)
}

// Rotate calls RotateFunc.
func (f ClientFuncs[S, T]) Rotate(ctx context.Context, o *store.Object[S, T]) error {
	if err := f.lacks(doRotate); err != nil {
		return err
	}
	return f.RotateFunc(ctx, o)
}

// Close calls CloseFunc, if there is one.
func (f ClientFuncs[S, T]) Close(ctx context.Context) error {
	if f.CloseFunc == nil {
		return nil
	}
	return f.CloseFunc(ctx)
}

// lacks is asked before an action begins, so that a missing CreateFunc is found
// out before a finalizer and an intent are written for it.
func (f ClientFuncs[S, T]) lacks(a action) error {
	name, missing := "", false
	switch a {
	case doObserve:
		name, missing = "ObserveFunc", f.ObserveFunc == nil
	case doCreate:
		name, missing = "CreateFunc", f.CreateFunc == nil
	case doUpdate:
		name, missing = "UpdateFunc", f.UpdateFunc == nil
	case doRotate:
		name, missing = "RotateFunc", f.RotateFunc == nil
	case doDelete:
		name, missing = "DeleteFunc", f.DeleteFunc == nil
	}
	if missing {
		return reconcile.Terminal(fmt.Errorf("external: ClientFuncs.%s %w", name, errNotSet))
	}
	return nil
}

// errNotSet is what a func fails with that is needed and not set.
var errNotSet = errors.New("is needed and not set")

// lacking is what a client may say before it is called; see ClientFuncs.lacks.
type lacking interface{ lacks(a action) error }

// NopClient is a client that does nothing: the resource exists and is up to
// date as long as its object lives, and is gone once the object is deleted.
func NopClient[S, T any]() Client[S, T] {
	nothing := func(context.Context, *store.Object[S, T]) error { return nil }
	return ClientFuncs[S, T]{
		ObserveFunc: func(_ context.Context, o *store.Object[S, T]) (Observation, error) {
			there := !o.Deleting()
			return Observation{Exists: there, UpToDate: there}, nil
		},
		CreateFunc: nothing, UpdateFunc: nothing, DeleteFunc: nothing,
	}
}

// Nop is the connector of [NopClient], for tests and for a program that only tries out the rest.
func Nop[S, T any]() Connector[S, T] { return Always(NopClient[S, T]()) }
