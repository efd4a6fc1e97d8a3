package object

import (
	"context"

	"github.com/tendhq/tend/store"
)

// AnnotationIgnore makes a run leave an object alone altogether, whatever
// its value: no handler or provider is called, no finalizer is added or
// removed, not even the status is written. A deletion waits until it is taken
// off. To stop work on an object for a while, and let it show, pause it
// (Meta.Paused).
const AnnotationIgnore = "tend.ignore"

// Ignored reports whether the object carries AnnotationIgnore.
func (r *Run[S, T]) Ignored() bool {
	_, ok := r.Object.Annotations[AnnotationIgnore]
	return ok
}

// Asked reports whether the object carried [store.AnnotationReconcileNow] when
// this run began: a person or program wants it to be looked at now.
func (r *Run[S, T]) Asked() bool {
	_, ok := r.first.Annotations[store.AnnotationReconcileNow]
	return ok
}

// TakeRequest removes [store.AnnotationReconcileNow], so that one wish is one
// run. It is a [Run.Write].
func (r *Run[S, T]) TakeRequest(ctx context.Context) error {
	if !r.Asked() {
		return nil
	}
	return r.Write(ctx, func(o *store.Object[S, T]) error {
		delete(o.Annotations, store.AnnotationReconcileNow)
		return nil
	})
}
