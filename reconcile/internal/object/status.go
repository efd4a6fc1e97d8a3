package object

import (
	"slices"
	"strings"

	"github.com/tendhq/tend/store"
)

const (
	reasonReconcilePaused  = "ReconcilePaused"  // of the Synced condition
	reasonReconcileSuccess = "ReconcileSuccess" // of the Synced condition, once a pause is over
)

// Paused reports whether the object is to be left alone, and says so in its
// Synced condition, for End to write. Lifting the pause is said as well, where
// the pause was.
func (r *Run[S, T]) Paused() bool {
	c, _ := r.Object.Condition(store.ConditionSynced)
	switch {
	case r.Object.Paused:
		r.Object.SetCondition(store.Condition{Type: store.ConditionSynced, Status: store.False, Reason: reasonReconcilePaused})
	case c.Reason == reasonReconcilePaused:
		r.Object.SetCondition(store.Condition{Type: store.ConditionSynced, Status: store.True, Reason: reasonReconcileSuccess})
	}
	return r.Object.Paused
}

// untouched marks the Ready condition while user code runs: whatever sets the
// condition, even to what it was, takes the mark away. It is in the message,
// because that decides nothing.
const untouched = "\x00"

// Listen is called before user code that may say for itself how the object is
// doing, with SetReady, SetProgressing or SetTerminating. The func it returns
// is called afterwards and reports whether the code did. To say again what was
// true before counts, although it leads to no write.
func (r *Run[S, T]) Listen() (said func() bool) {
	before := r.ready()
	if before != nil {
		before.Message += untouched
	}
	return func() bool {
		after := r.ready()
		if before == nil || after == nil {
			return after != nil
		}
		var silent bool
		after.Message, silent = strings.CutSuffix(after.Message, untouched)
		return !silent
	}
}

// SaidSo ends a Listen after code that returned err. To have said Ready and
// failed all the same is to have said nothing.
func (r *Run[S, T]) SaidSo(said func() bool, err error) bool {
	return said() && (err == nil || r.Object.Phase != store.PhaseReady)
}

// ready points at the Ready condition of the working copy.
func (r *Run[S, T]) ready() *store.Condition {
	i := slices.IndexFunc(r.Object.Conditions, func(c store.Condition) bool { return c.Type == store.ConditionReady })
	if i < 0 {
		return nil
	}
	return &r.Object.Conditions[i]
}
