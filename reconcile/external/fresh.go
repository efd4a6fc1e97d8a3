package external

import (
	"context"
	"time"
)

type freshKey struct{}

// absenceKey marks the context of an Observe after which a resource that is missing is
// created. Its value is an absence.
type absenceKey struct{}

// absence says what a list that does not show the resource is worth.
type absence struct {
	proof proof
	// since is when a list has to begin at the earliest that suffices: an older one may
	// be of before a create that another server has recorded. Zero during the grace, in
	// which nothing follows from an absence.
	since time.Time
	// learned is when this process learned of the create: a list shows what it made from Settle
	// after that on. Zero during the grace.
	learned time.Time
	byMark  bool // a create of unknown outcome is looked for by its mark
	located bool // the spec says where the resource lies: what an earlier object left elsewhere is not it
	last    bool // the object is in deletion: what is not found is left behind
}

type proof uint8

const (
	byLook       proof = iota // the list is worth nothing: a look has to show the absence
	byLookFirst               // the same, and a create follows if a look shows it
	listSuffices              // the create itself asks; see view.listSuffices
)

func absenceOf(ctx context.Context) absence {
	a, _ := ctx.Value(absenceKey{}).(absence)
	return a
}

// inRun reports whether the Observe is part of a run, which may end for want of a list.
func inRun(ctx context.Context) bool { return ctx.Value(runKey{}) != nil }

// runKey marks the context of an Observe that is part of a run. Its value is a *memory.
type runKey struct{}

// memory is what an [Inventory] says of its answer to a run.
type memory struct {
	old      bool   // it is by details that are older than Fresh: whose the resource is may have changed
	deleted  bool   // this process deleted it for the object, and the deletion has not settled
	byMark   bool   // it looked for the mark too, if a list shows that
	caseOnly string // how the resource's id differs from the declared one, in case only; empty: it does not
}

func (v view) absence() absence {
	a := absence{byMark: v.naming == ByMark, located: v.located, last: v.deleting}
	if !v.young {
		a.since, a.learned = v.graceEnd, v.learned
	}
	switch {
	case v.listSuffices():
		a.proof = listSuffices
	case !v.deleting && v.policy.has(Create) && !v.young:
		a.proof = byLookFirst
	}
	return a
}

// freshened reports whether Observe is to look at the resource itself, and not at
// what an [Inventory] or another cache has of it: this run was asked for
// with the annotation [store.AnnotationReconcileNow].
func freshened(ctx context.Context) bool { return ctx.Value(freshKey{}) != nil }
