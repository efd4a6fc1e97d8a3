package store

import (
	"context"
	"slices"
	"sync"
)

type (
	guardsKey struct{}
	writesKey struct{}
)

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

// Writes collects the revisions written, per backend and kind. Revisions of two
// backends are not comparable, and another kind's stream never reaches a
// revision by itself, so both are part of the key. The zero value is ready; it
// is safe for concurrent use.
type Writes struct {
	// Landed is called after each write, once its outcome is known and noted. Nil: nothing
	// is. It is set before the first write and must not block.
	Landed func()

	mu    sync.Mutex // guards what follows
	begun int        // writes whose outcome is not known yet
	notes []note     // in the order of the writes
	one   [1]note    // their memory as long as there is one: mostly there is
}

type note struct {
	at  written
	key Key
	rev Revision
}

// written names where a write went.
type written struct {
	Backend Backend
	Kind    string
}

// WithWrites returns a context whose writes through a [Store] are noted in w, those of
// unknown outcome with the revision 0.
func WithWrites(ctx context.Context, w *Writes) context.Context {
	return context.WithValue(ctx, writesKey{}, w)
}

// Value returns w if key is the one under which [WithWrites] keeps it, else nil. It
// is for a context that has its Writes in it instead of around it.
func (w *Writes) Value(key any) any {
	if _, ok := key.(writesKey); ok {
		return w
	}
	return nil
}

// Note records a write of one record. The revision 0 is that of a write of unknown
// outcome ([ErrUnknownOutcome]): it may have landed, at a revision that is not known.
func (w *Writes) Note(b Backend, kind string, key Key, r Revision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notes == nil {
		w.notes = w.one[:0]
	}
	w.notes = append(w.notes, note{written{b, kind}, key, r})
}

// NoteAll records those of before's writes that want picks, but for those of unknown outcome,
// and of many the last, and the highest of each kind. It is for package reconcile, which remembers what several runs of a
// key wrote.
func (w *Writes) NoteAll(before *Writes, want func(b Backend, kind string, r Revision) bool) {
	before.mu.Lock()
	notes := slices.Clone(before.notes)
	before.mu.Unlock()
	notes = slices.DeleteFunc(notes, func(n note) bool { return n.rev == 0 || !want(n.at.Backend, n.at.Kind, n.rev) })
	cut := max(len(notes)-maxNoted, 0)
	older, notes := notes[:cut], notes[cut:]
	for _, n := range slices.Backward(older) { // what a cache is still to reach is the highest of its kind
		if !slices.ContainsFunc(notes, func(kept note) bool { return kept.at == n.at && kept.rev >= n.rev }) {
			notes = append(notes, n)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	notes = slices.DeleteFunc(notes, func(n note) bool { return slices.Contains(w.notes, n) }) // a batch has one w for all its keys
	w.notes = append(notes, w.notes...)
}

// maxNoted bounds what NoteAll adds, for a key that writes again and again while nothing
// shows it.
const maxNoted = 100

// Highest returns the highest revision written to kind on b; zero if nothing
// was.
func (w *Writes) Highest(b Backend, kind string) (r Revision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.notes {
		if n.at == (written{b, kind}) {
			r = max(r, n.rev)
		}
	}
	return r
}

// Has reports whether the record of that key was written at revision r. The key is
// part of the question because commits of other records may share the revision.
func (w *Writes) Has(b Backend, kind string, key Key, r Revision) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.notes, note{written{b, kind}, key, r})
}

// Unsure reports whether a write to kind on b had an unknown outcome.
func (w *Writes) Unsure(b Backend, kind string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.notes, func(n note) bool { return n.at == (written{b, kind}) && n.rev == 0 })
}

// Empty reports whether no write was noted.
func (w *Writes) Empty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.notes) == 0
}

// Writing reports whether a write was begun whose outcome is not known yet: a watch may
// show it before it is noted.
func (w *Writes) Writing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun > 0
}

// beginWrite is called before a commit, and what it gives after it; nil: nothing collects
// the writes of the context.
func beginWrite(ctx context.Context) *Writes {
	w, ok := ctx.Value(writesKey{}).(*Writes)
	if !ok {
		return nil
	}
	w.mu.Lock()
	w.begun++
	w.mu.Unlock()
	return w
}

// end notes the records of a commit that was begun; none if it did not land.
func (w *Writes) end(b Backend, ops []Op, r Revision) {
	if w == nil {
		return
	}
	for _, op := range ops {
		w.Note(b, op.Kind, op.Key, r)
	}
	w.mu.Lock()
	w.begun--
	w.mu.Unlock()
	if w.Landed != nil {
		w.Landed()
	}
}
