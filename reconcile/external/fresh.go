package external

import "context"

type freshKey struct{}

// absenceKey marks the context of an Observe after which a resource that is missing is
// created. Its value is an absence.
type absenceKey struct{}

// absence says what a list that does not show the resource is worth.
type absence uint8

const (
	toBeProven   absence = iota // nothing: a look has to show it
	likely                      // a create follows if a look shows it
	listSuffices                // the create itself asks; see view.listSuffices
)

func absenceOf(ctx context.Context) absence {
	a, _ := ctx.Value(absenceKey{}).(absence)
	return a
}

// inRun reports whether the Observe is part of a run, which may end for want of a list.
func inRun(ctx context.Context) bool { return ctx.Value(runKey{}) != nil }

type runKey struct{}

func (v view) absence() absence {
	switch {
	case v.listSuffices():
		return listSuffices
	case !v.deleting && v.policy.Has(Create) && !v.young:
		return likely
	}
	return toBeProven
}

// Fresh reports whether Observe is to look at the resource itself, and not at
// what an [Inventory] or another cache has of it: somebody asked for this run
// with the annotation [store.AnnotationReconcileNow].
func Fresh(ctx context.Context) bool { return ctx.Value(freshKey{}) != nil }
