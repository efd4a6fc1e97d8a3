package reconcile

import (
	"maps"
	"slices"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// A Predicate tells whether a change matters. Old is nil for a new object, New
// for one that is gone. It must not write to either, and must not block. What was
// there when the source started is not asked about.
type Predicate[S, T any] func(c cache.Change[S, T]) bool

// Changed is the default of From: it passes a change of generation, deletion,
// paused, finalizers or the reconcile-now annotation, and every object that came
// or went. A write of the status alone does not pass, so that a reconciler which
// reports what it did does not wake itself.
func Changed[S, T any](c cache.Change[S, T]) bool {
	return GenerationChanged(c) ||
		c.Old.Deleting() != c.New.Deleting() ||
		c.Old.Paused != c.New.Paused ||
		c.Old.Annotations[store.AnnotationReconcileNow] != c.New.Annotations[store.AnnotationReconcileNow] ||
		!slices.Equal(c.Old.Finalizers, c.New.Finalizers)
}

// BecameUnready passes a change by which an object that was Ready is not any more. It is for
// FromOptions.ByOthers: by the other changes of the status an object does not ask for a run.
func BecameUnready[S, T any](c cache.Change[S, T]) bool {
	if c.Old == nil || c.New == nil || c.Old.UID != c.New.UID {
		return false
	}
	was, _ := c.Old.Condition(store.ConditionReady)
	is, _ := c.New.Condition(store.ConditionReady)
	return was.Status == store.True && is.Status != store.True
}

// GenerationChanged passes a change of the spec, a deletion that was asked for,
// and every object that came or went.
func GenerationChanged[S, T any](c cache.Change[S, T]) bool {
	return c.Old == nil || c.New == nil || c.Old.UID != c.New.UID || c.Old.Generation != c.New.Generation
}

// LabelsChanged passes a change of the labels, and every object that came or
// went.
func LabelsChanged[S, T any](c cache.Change[S, T]) bool {
	return c.Old == nil || c.New == nil || !maps.Equal(c.Old.Labels, c.New.Labels)
}

// AnnotationsChanged passes a change of the annotations, and every object that
// came or went.
func AnnotationsChanged[S, T any](c cache.Change[S, T]) bool {
	return c.Old == nil || c.New == nil || !maps.Equal(c.Old.Annotations, c.New.Annotations)
}

// Any passes every change, status writes included.
func Any[S, T any](cache.Change[S, T]) bool { return true }

// Or passes what at least one passes.
func Or[S, T any](ps ...Predicate[S, T]) Predicate[S, T] {
	return func(c cache.Change[S, T]) bool {
		return slices.ContainsFunc(ps, func(p Predicate[S, T]) bool { return p(c) })
	}
}
