// Package inrun has what packages of tend ask of the run that a context belongs to, besides
// what package reconcile exports. Outside of a run there are no caches and no writes, and a
// note of a wait does nothing.
package inrun

import (
	"context"
	"iter"

	"github.com/tendhq/tend/store"
)

// Key is the key under which a context has its Run.
type Key struct{}

// Run is a run of any type of keys. Package reconcile implements it.
type Run interface {
	Caches() iter.Seq[any]
	Wrote(b store.Backend, kind string) store.Revision
	// Note sets what the run waits for, nil for nothing, and returns what it was.
	Note(what *string) (before *string)
}

func of(ctx context.Context) Run {
	if r, ok := ctx.Value(Key{}).(Run); ok {
		return r
	}
	return none{}
}

// none stands for the run outside of one.
type none struct{}

func (none) Caches() iter.Seq[any]                      { return func(func(any) bool) {} }
func (none) Wrote(store.Backend, string) store.Revision { return 0 }
func (none) Note(*string) *string                       { return nil }

// Caches are those whose objects' keys the run's controller is told of (From, For), each a
// *cache.Cache: the run reads an object as one of them has it, or newer.
func Caches(ctx context.Context) iter.Seq[any] { return of(ctx).Caches() }

// Wrote gives the highest revision at which the run has written to a kind of a backend until
// now; zero: none.
func Wrote(ctx context.Context, b store.Backend, kind string) store.Revision {
	return of(ctx).Wrote(b, kind)
}

// WaitsFor notes what the run waits for, until the func that it returns is called. The log
// line of a run that is stuck has the note. It tells work that has to be done although the
// run's context ended, such as recording what the run did, from code that ignores the end.
// The run's own goroutine calls both.
func WaitsFor(ctx context.Context, what string) (over func()) {
	r := of(ctx)
	before := r.Note(&what)
	return func() { r.Note(before) }
}
