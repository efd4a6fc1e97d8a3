package store

import (
	"context"
	"slices"

	"github.com/tendhq/tend/internal/written"
)

type guardsKey struct{}

// WithGuard returns a context whose every Commit is made on the condition g: a
// write whose guard no longer holds is [ErrFenced]. Guards add up:
// all of those along the context must hold. context.WithoutCancel keeps them.
//
// A guard is a record of one backend. A write to another backend with this
// context is refused, because that backend does not have the record: fencing
// fails closed. Use [WithoutGuards] for a write that is meant to be unfenced.
func WithGuard(ctx context.Context, g Compare) context.Context {
	return context.WithValue(ctx, guardsKey{}, append(slices.Clip(Guards(ctx)), g))
}

// WithoutGuards returns a context whose writes are not fenced, for the write to
// a second backend that does not hold the lease. A store with
// Options.RequireGuard refuses it.
func WithoutGuards(ctx context.Context) context.Context {
	return context.WithValue(ctx, guardsKey{}, []Compare(nil))
}

// Guards returns the guards of the context, which the caller must not modify.
func Guards(ctx context.Context) []Compare {
	g, _ := ctx.Value(guardsKey{}).([]Compare)
	return g
}

// writes collects the revisions that a run has written.
type writes = written.Writes[Backend, Key, Revision]

// beginWrite is called before a commit, and endWrite with what it gives after it; nil: nothing
// collects the writes of the context.
func beginWrite(ctx context.Context) *writes { return written.Begin[Backend, Key, Revision](ctx) }

// endWrite notes the records of a commit that was begun; none if it did not land.
func endWrite(w *writes, b Backend, ops []Op, r Revision) {
	if w == nil {
		return
	}
	for _, op := range ops {
		w.Note(b, op.Kind, op.Key, r)
	}
	w.End()
}
