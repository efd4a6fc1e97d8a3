// Package lifecycle takes declared objects through their life: created,
// changed, looked at again, deleted. It is the one place that touches
// finalizers and says how an object is doing; user code says what to do.
//
// Two shapes of user code are served:
//
//   - [New] calls an ordered list of handlers (Add, Update, Delete, Resync).
//   - [NewProvider] calls typed CreateOrUpdate and Delete with a config and the
//     access that one object needs.
//
// Package external, for resources of other systems, stands on the same parts.
//
// Every run goes the same way:
//
//	Begin ─ ignored? ─ paused? ─ finalizer by compare-and-swap ─ user code ─ End
//
// It promises:
//
//   - The finalizer is stored before the first side effect, so that no deletion
//     passes unnoticed, and goes after the last one. No other finalizer is
//     touched, and no write brings back an object that has vanished.
//   - The status is written on every way out of a run, a panic and a deadline
//     included, once, and only if it changed. It speaks of the generation that
//     was run.
//   - Add is called until it has succeeded once, Delete until it has succeeded,
//     over restarts.
//
// It does not promise that Add or Delete is called exactly once: a crash after
// one has done its work and before that is on record makes it happen again.
// They have to be idempotent.
package lifecycle

// Design notes.
//
// object.Run is a struct with few methods, and not a framework with hooks: the three
// users of it differ in their order of steps (external observes before it adds
// its finalizer), and a sequence that one can read beats one that one has to
// configure.
//
// Whether an Add has succeeded is in the name of the finalizer ("pending." and
// the name, or the name), not in an annotation beside it or in the status: it
// changes in one write of one field that only this package edits. How far a deletion
// has got is an annotation all the same, since no finalizer can be added to an
// object in deletion.
//
// An event is not remembered. What a handler is called for follows from the
// object, from the finalizer, and from what the handler last succeeded with, so
// a burst of changes costs one call and a retry works on the newest object. A
// run that nothing of this explains was asked for by something else (a resync,
// a source of dependencies, a kick) and is every handler's Resync; so one that
// was already served by an earlier run may show up as a Resync too many, and
// never as one too few.
//
// Writes that record what has happened (Swap, Remove, Record, End) go on after
// the run was cancelled or timed out, bounded by 30 s; they keep the run's
// guard, so a deposed server is refused. Writes that come before a side effect
// (Ensure, Write) do not, and are never retried on a conflict: what the run was
// about to do rests on what it has read.
