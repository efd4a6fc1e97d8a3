package object

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/internal/inrun"
	"github.com/tendhq/tend/store"
)

// recordTimeout bounds a write that records what has happened already: it is
// made although the run was cancelled or ran out of time, but not for ever.
const recordTimeout = 30 * time.Second

// RecordTries is how often such a write is tried. Each conflict means that
// another writer's write landed.
const RecordTries = 5

// ErrDeleting is returned by [Run.Ensure] for an object that is being
// deleted: a finalizer added now might never be removed.
var ErrDeleting = errors.New("lifecycle: the object is being deleted")

// Run is one run's hold on one object: what was read, what user code made of
// it, and the only way to write finalizers, and status.
//
// User code is given Object, a copy that it may edit. Of these edits only
// Status and Conditions are ever written, by [Run.End]; everything else goes
// through [Run.Write], which starts from what is stored.
//
// A Run belongs to one goroutine.
type Run[S, T any] struct {
	// Object is the working copy. Its Generation is the one that this run
	// acts on, even after a newer one was seen on the way.
	Object *store.Object[S, T]

	store  *store.Store[S, T]
	first  *store.Object[S, T] // as Begin read it
	status *store.Object[S, T] // with the status that End has to better
	stored *store.Object[S, T] // as the store has it, as far as this run knows
	gone   bool                // its last finalizer went, or another took its name
}

// Ghost is a run on an object that is gone: o is the working copy, last what the store had of
// it. End writes nothing.
func Ghost[S, T any](s *store.Store[S, T], o, last *store.Object[S, T]) *Run[S, T] {
	return &Run[S, T]{Object: o, store: s, first: last, status: last, stored: o, gone: true}
}

// Begin reads the object of a key. An object that is not there is no error:
// Begin returns a nil Run, and there is nothing to do. One of a newer version of the program
// is the error of [reconcile.CheckNewer].
func Begin[S, T any](ctx context.Context, s *store.Store[S, T], key store.Key) (*Run[S, T], error) {
	o, err := s.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lifecycle: read %s: %w", key, err)
	}
	if err := reconcile.CheckNewer(&o.Meta); err != nil {
		return nil, fmt.Errorf("lifecycle: %w", err)
	}
	return &Run[S, T]{Object: s.Clone(o), store: s, first: o, status: o, stored: o}, nil
}

// First is the object as Begin read it. Read-only.
func (r *Run[S, T]) First() *store.Object[S, T] { return r.first }

// Gone reports whether the object is no more: its last finalizer went, or another object
// took its name.
func (r *Run[S, T]) Gone() bool { return r.gone }

// Stored is the object as this run last saw it in the store. Read-only.
func (r *Run[S, T]) Stored() *store.Object[S, T] { return r.stored }

// Deleting reports whether the object is in deletion.
func (r *Run[S, T]) Deleting() bool { return r.stored.Deleting() }

// Has reports whether the object carries a finalizer.
func (r *Run[S, T]) Has(finalizer string) bool {
	return r.stored.HasFinalizer(finalizer)
}

// Ensure makes sure that the object carries a finalizer before the first side
// effect. It writes nothing if the finalizer is there.
//
// It is one compare-and-swap on what the run has read, never a retry: after a
// conflict ([store.ErrConflict]) whatever the run was about to do rests on an
// old reading, so it has to start again. For the same reason it cannot bring
// back an object that has vanished.
func (r *Run[S, T]) Ensure(ctx context.Context, finalizer string) error {
	if r.Has(finalizer) {
		return nil
	}
	if r.Deleting() {
		return fmt.Errorf("finalizer %q: %w", finalizer, ErrDeleting)
	}
	return r.Write(ctx, func(o *store.Object[S, T]) error {
		o.AddFinalizer(finalizer)
		return nil
	})
}

// Swap puts one finalizer in the place of another, in one write. If from is
// not there, to is added all the same. It is for recording what has happened
// (a handler's Add succeeded) and is therefore written as [Run.Record] writes.
func (r *Run[S, T]) Swap(ctx context.Context, from, to string) error {
	return r.Record(ctx, func(o *store.Object[S, T]) error {
		if o.Deleting() {
			return nil // none can be added any more, so the old one has to stay
		}
		o.RemoveFinalizer(from)
		o.AddFinalizer(to)
		return nil
	})
}

// Remove takes finalizers of ours off the object, and no others. When the
// last one goes from a deleted object the object goes, and End writes no
// status. It is written as [Run.Record] writes.
func (r *Run[S, T]) Remove(ctx context.Context, finalizers ...string) error {
	if !slices.ContainsFunc(finalizers, r.Has) {
		return nil
	}
	return r.Record(ctx, func(o *store.Object[S, T]) error {
		for _, f := range finalizers {
			o.RemoveFinalizer(f)
		}
		return nil
	})
}

// Write changes meta or spec of the object as stored, by one compare-and-swap
// on what this run has read. Edits made to the working copy are not part of
// it, except for what edit copies over. On success the working copy has the
// new revision, generation and finalizers.
//
// A conflict is returned as it comes ([store.ErrConflict]): the object has
// changed, so what the run decided may no longer be right.
func (r *Run[S, T]) Write(ctx context.Context, edit func(*store.Object[S, T]) error) error {
	if err := r.update(ctx, r.store.Update, edit); err != nil {
		return err
	}
	r.Object.Generation = r.stored.Generation
	return nil
}

// WriteIntent is [Run.Write] for the record of a create and the annotations,
// by [store.Store.UpdateIntent]. The working copy has the new intent after it.
func (r *Run[S, T]) WriteIntent(ctx context.Context, edit func(*store.Object[S, T]) error) error {
	return r.update(ctx, r.store.UpdateIntent, edit)
}

// Record writes what has happened already (a finalizer's next form, the
// outcome of a create) and must not be lost: it is made on a context that
// outlives the run's cancellation and deadline, keeps its guards, and is
// bounded by 30 s. After a conflict it reads again and applies the same edit,
// as long as it is the same object (by uid). An object that has vanished
// needs no record: that is success, and End will write nothing.
//
// Object keeps the generation that the run began with: the record says what
// was done for that one, whatever has been asked for since.
func (r *Run[S, T]) Record(ctx context.Context, edit func(*store.Object[S, T]) error) error {
	return r.record(ctx, r.store.Update, edit)
}

// RecordIntent is [Run.Record] for the record of a create and the annotations,
// by [store.Store.UpdateIntent].
func (r *Run[S, T]) RecordIntent(ctx context.Context, edit func(*store.Object[S, T]) error) error {
	return r.record(ctx, r.store.UpdateIntent, edit)
}

// writer is one of the store's compare-and-swap writes.
type writer[S, T any] func(context.Context, *store.Object[S, T]) (*store.Object[S, T], error)

func (r *Run[S, T]) record(ctx context.Context, write writer[S, T], edit func(*store.Object[S, T]) error) error {
	if r.gone {
		return nil
	}
	ctx, cancel := outlive(ctx)
	defer cancel()
	err := r.update(ctx, write, edit)
	for try := 1; try < RecordTries && mayRetry(err) && !r.gone; try++ {
		if err = r.reread(ctx); err == nil && !r.gone {
			err = r.update(ctx, write, edit)
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		r.gone = true
		return nil
	}
	return err
}

// mayRetry tells the failures after which reading again shows where we stand.
// A write of unknown outcome that did land shows as a conflict, or as an edit
// that has nothing left to do.
func mayRetry(err error) bool {
	return errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrUnknownOutcome)
}

func (r *Run[S, T]) update(ctx context.Context, write writer[S, T], edit func(*store.Object[S, T]) error) error {
	next := r.store.Clone(r.stored)
	if err := edit(next); err != nil {
		return err
	}
	got, err := write(ctx, next)
	if err != nil {
		return fmt.Errorf("lifecycle: write %s: %w", r.Object.Key(), err)
	}
	r.adopt(got)
	return nil
}

// adopt takes what a write left in the store. The last finalizer of a deleted
// object took the object with it.
func (r *Run[S, T]) adopt(got *store.Object[S, T]) {
	r.stored = got
	r.gone = got.Deleting() && len(got.Finalizers) == 0
	r.Object.Revision = got.Revision
	r.Object.Finalizers = slices.Clone(got.Finalizers)
	r.Object.Intent = got.Intent
}

// reread learns what the store has now, after another writer's write.
func (r *Run[S, T]) reread(ctx context.Context) error {
	got, err := r.store.Get(ctx, r.Object.Key())
	switch {
	case errors.Is(err, store.ErrNotFound):
		r.gone = true
		return nil
	case err != nil:
		return fmt.Errorf("lifecycle: reread %s: %w", r.Object.Key(), err)
	case got.UID != r.first.UID:
		r.gone = true // ours is gone, and another has its name
		return nil
	}
	r.stored = got
	return nil
}

// Message is what a condition says of an error. Secrets are taken out before the
// message is cut: half of one would not be found.
func (r *Run[S, T]) Message(err error) string {
	return r.store.Redact(err.Error(), r.first, r.stored, r.Object)
}

// Redacted is err without the secrets of the object.
func (r *Run[S, T]) Redacted(err error) error {
	return r.store.RedactError(err, r.first, r.stored, r.Object)
}

// End writes status and conditions if the run changed them, and returns err
// joined with what went wrong in writing. It belongs on every way out of a
// run, and is made on a context that outlives it, so that a run that timed out
// can still say so.
//
// After a conflict the status is written again onto the newer object if that
// is the same object and its status has not changed in between; otherwise
// the conflict is returned. An object that is gone needs no status.
func (r *Run[S, T]) End(ctx context.Context, err error) error {
	return errors.Join(err, r.WriteStatus(ctx))
}

// WriteStatus writes status and conditions as [Run.End] does, in the middle of a run: what has to be stored
// before something outside is changed. End writes what differs from them then.
func (r *Run[S, T]) WriteStatus(ctx context.Context) error {
	for i := range r.Object.Conditions {
		c := &r.Object.Conditions[i]
		c.Message = r.store.Redact(c.Message, r.first, r.stored, r.Object)
	}
	if r.gone || r.store.SameStatus(r.Object, r.status) {
		return nil
	}
	ctx, cancel := outlive(ctx)
	defer cancel()
	return r.writeStatus(ctx)
}

func (r *Run[S, T]) writeStatus(ctx context.Context) error {
	for try := 1; ; try++ {
		if r.store.SameStatus(r.stored, r.Object) {
			return nil // a write of unknown outcome had landed
		}
		if !r.store.SameStatus(r.stored, r.status) {
			return fmt.Errorf("lifecycle: status of %s: another writer changed it during the run: %w", r.Object.Key(), store.ErrConflict)
		}
		next := r.store.Clone(r.stored)
		next.Status, next.Conditions = r.Object.Status, r.Object.Conditions
		next.Phase, next.ObservedGeneration = r.Object.Phase, r.Object.ObservedGeneration
		got, err := r.store.UpdateStatus(ctx, next)
		switch {
		case err == nil:
			r.status = got
			r.adopt(got)
			return nil
		case errors.Is(err, store.ErrNotFound):
			r.gone = true
			return nil
		case !mayRetry(err) || try == RecordTries:
			return fmt.Errorf("lifecycle: status of %s: %w", r.Object.Key(), err)
		}
		if err := r.reread(ctx); err != nil || r.gone {
			return err
		}
	}
}

// outlive gives a context for a write that must be made although the run is
// over. It keeps the run's values: its guard, so that a deposed process is
// still refused, and its record of writes. A run that is stuck in such a write is said
// to wait for the store.
func outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	over := inrun.WaitsFor(ctx, "the store to record what it did")
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), recordTimeout,
		errors.New("lifecycle: recording what the run did took longer than "+recordTimeout.String()))
	return ctx, func() { cancel(); over() }
}

// Over is why ctx has ended, as an error that ends the run, or nil. It is asked before
// each call of the user's code: a process that was frozen finds its lease lost when it
// thaws, and what another server does by then must not be done here too.
func Over(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("lifecycle: the run was over before it was done: %w", context.Cause(ctx))
}

// Again says how a run ends whose Ensure or Write lost against another writer.
// A conflict is no failure: the key runs again with backoff and no error is
// counted. An object that has vanished, or is in deletion by now, is not
// for this run any more; its own change wakes the key. Any other error is
// returned as it is.
func Again(err error) (reconcile.Result, error) {
	switch {
	case err == nil, errors.Is(err, store.ErrNotFound):
		return reconcile.Result{}, nil
	case errors.Is(err, store.ErrConflict), errors.Is(err, ErrDeleting):
		return reconcile.Result{Requeue: true}, nil
	}
	return reconcile.Result{}, err
}
