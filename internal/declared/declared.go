// Package declared answers for metrics, pages and programs alike whether an object is as
// declared.
package declared

import (
	"slices"

	"github.com/tendhq/tend/store"
)

// Is reports whether an object with these conditions is as declared: it is
// not being deleted, it is Ready ([store.ReadyAt]), and nothing fails at it. fails is what
// this process knows besides: whether the last run of its key failed, which may have
// written nothing.
func Is(m *store.Meta, conditions []store.Condition, fails bool) bool {
	return !m.Deleting() && !Failing(m, conditions, fails) && store.ReadyAt(m, conditions, m.Generation)
}

// Failing reports whether the last reconcile of an object could not do its work, by the
// condition Synced or by what this process knows. One that is paused is Synced=False for that
// alone: packages external and lifecycle say so.
func Failing(m *store.Meta, conditions []store.Condition, fails bool) bool {
	return !m.Paused && (fails || slices.ContainsFunc(conditions, func(c store.Condition) bool {
		return c.Type == store.ConditionSynced && c.Status == store.False
	}))
}
