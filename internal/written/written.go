// Package written collects what a run wrote, for package reconcile, from package store, which
// makes the writes: B is a store.Backend, K a store.Key, R a store.Revision.
package written

import (
	"context"
	"slices"
	"sync"
)

// Writes collects the revisions written, per backend and kind. Revisions of two
// backends are not comparable, and another kind's stream never reaches a
// revision by itself, so both are part of the key. The zero value is ready; it
// is safe for concurrent use.
type Writes[B, K comparable, R ~uint64] struct {
	// Landed is called after each write, once its outcome is known and noted. Nil: nothing
	// is. It is set before the first write and must not block.
	Landed func()

	mu    sync.Mutex       // guards what follows
	begun int              // writes whose outcome is not known yet
	notes []note[B, K, R]  // in the order of the writes
	one   [1]note[B, K, R] // their memory as long as there is one: mostly there is
}

type note[B, K comparable, R ~uint64] struct {
	at  place[B]
	key K
	rev R
}

// place names where a write went.
type place[B comparable] struct {
	backend B
	kind    string
}

type contextKey struct{}

// With returns a context whose writes through a store are noted in w, those of unknown outcome
// with the revision 0.
func With[B, K comparable, R ~uint64](ctx context.Context, w *Writes[B, K, R]) context.Context {
	return context.WithValue(ctx, contextKey{}, w)
}

// Value returns w if key is the one under which [With] keeps it, else nil. It
// is for a context that has its Writes in it instead of around it.
func (w *Writes[B, K, R]) Value(key any) any {
	if _, ok := key.(contextKey); ok {
		return w
	}
	return nil
}

// Note records a write of one record. The revision 0 is that of a write of unknown
// outcome (store.ErrUnknownOutcome): it may have landed, at a revision that is not known.
func (w *Writes[B, K, R]) Note(b B, kind string, key K, r R) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notes == nil {
		w.notes = w.one[:0]
	}
	w.notes = append(w.notes, note[B, K, R]{place[B]{b, kind}, key, r})
}

// NoteAll records those of before's writes that want picks, but for those of unknown outcome,
// and of many the last, and the highest of each kind. It is for package reconcile, which remembers what several runs of a
// key wrote.
func (w *Writes[B, K, R]) NoteAll(before *Writes[B, K, R], want func(b B, kind string, r R) bool) {
	before.mu.Lock()
	notes := slices.Clone(before.notes)
	before.mu.Unlock()
	notes = slices.DeleteFunc(notes, func(n note[B, K, R]) bool { return n.rev == 0 || !want(n.at.backend, n.at.kind, n.rev) })
	cut := max(len(notes)-maxNoted, 0)
	older, notes := notes[:cut], notes[cut:]
	for _, n := range slices.Backward(older) { // what a cache is still to reach is the highest of its kind
		if !slices.ContainsFunc(notes, func(kept note[B, K, R]) bool { return kept.at == n.at && kept.rev >= n.rev }) {
			notes = append(notes, n)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	notes = slices.DeleteFunc(notes, func(n note[B, K, R]) bool { return slices.Contains(w.notes, n) }) // a batch has one w for all its keys
	w.notes = append(notes, w.notes...)
}

// maxNoted bounds what NoteAll adds, for a key that writes again and again while nothing
// shows it.
const maxNoted = 100

// Highest returns the highest revision written to kind on b; zero if nothing
// was.
func (w *Writes[B, K, R]) Highest(b B, kind string) (r R) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.notes {
		if n.at == (place[B]{b, kind}) {
			r = max(r, n.rev)
		}
	}
	return r
}

// Has reports whether the record of that key was written at revision r. The key is
// part of the question because commits of other records may share the revision.
func (w *Writes[B, K, R]) Has(b B, kind string, key K, r R) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.notes, note[B, K, R]{place[B]{b, kind}, key, r})
}

// Unsure reports whether a write to kind on b had an unknown outcome.
func (w *Writes[B, K, R]) Unsure(b B, kind string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.notes, func(n note[B, K, R]) bool { return n.at == (place[B]{b, kind}) && n.rev == 0 })
}

// Empty reports whether no write was noted.
func (w *Writes[B, K, R]) Empty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.notes) == 0
}

// Writing reports whether a write was begun whose outcome is not known yet: a watch may
// show it before it is noted.
func (w *Writes[B, K, R]) Writing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun > 0
}

// Begin is called before a commit, and End after it; nil: nothing collects the writes of the
// context.
func Begin[B, K comparable, R ~uint64](ctx context.Context) *Writes[B, K, R] {
	w, ok := ctx.Value(contextKey{}).(*Writes[B, K, R])
	if !ok {
		return nil
	}
	w.mu.Lock()
	w.begun++
	w.mu.Unlock()
	return w
}

// End says that the outcome of a commit that was begun is known, and noted.
func (w *Writes[B, K, R]) End() {
	w.mu.Lock()
	w.begun--
	w.mu.Unlock()
	if w.Landed != nil {
		w.Landed()
	}
}
