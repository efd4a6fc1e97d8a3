// Package cache keeps a live, read-only copy of one kind in memory, so that a
// reconcile costs no read of the store.
//
// A Cache is fed by one watch, however many use it. It decodes each stored
// version once and hands everybody the same object: read it, and edit a copy that
// Store.Clone made. Over the memory backend it holds the very values that are stored.
//
// # What it promises
//
//   - Get takes no lock and copies nothing. All and By show one moment, and hold
//     no lock while the caller's loop runs.
//   - Synced is closed only after a whole snapshot. What was deleted while the
//     cache was not looking (a cut connection, a compaction, a backend restored
//     from a backup) is found by comparing with the new snapshot and becomes an
//     ordinary deletion.
//   - OnRevision says when the cache has seen a write of one's own (promise S4),
//     so that no key is reconciled from a copy older than its own write.
//   - Each consumer of Changes has its own pace. One that is slow, or has
//     failed, skips intermediate states, alone; the others do not notice.
//   - An object that cannot be decoded is reported with its key. The cache keeps
//     the last version it could read, or none, and everything else flows.
//   - A cache limited by Selector goes on holding an object that carries one of
//     Options.Finalizers, so that no deletion hangs because a label changed.
//
// # What it does not
//
//   - It never writes, and a read is as old as the watch is late. Read the
//     store where that matters.
//   - Two caches, or a cache and the store, are not one moment.
//   - Nothing stops a caller from writing to a shared object.
//     Options.DetectMutations finds such writes, in tests.
package cache

// Design notes.
//
// The table is xsync's: its read path is lock-free, and the cache is read far
// more often than it is written. Version 4 hashes a key of two strings as fast as the
// hash function that version 3 was given here (a Get of one among 100,000 took 0.31 µs of
// CPU time against 0.33, medians of 12; 0.39 with version 3's own), in 38 bytes a key
// instead of 70. A mutex and a map cost a locked read-modify-write
// per Get on a cache line that all workers share. It has the address of an entry whose
// object is replaced in place: a change is one search of the table instead of three, and
// allocates nothing; a Get follows one address more, 2 ns. Next to the table there is a dense slice
// of the same pointers: All copies it in one go (eight bytes an object) and so
// shows one moment, where a walk over a concurrent table shows none.
//
// Indexes file objects by their address rather than their key, so a change of
// an object whose index values stay costs no string hash. The values of the
// replaced object are computed again instead of being kept, hence an indexFunc
// must depend on the object alone.
//
// A consumer that falls behind is not cut off and relisted from a view of its
// own: that view would cost every consumer an entry per object held, for a
// case that is rare. Its backlog is folded to one entry per changed key, which
// is the difference between what it saw and what is there.
//
// The selector is never pushed to a backend. "Matches, or carries our
// finalizer" has to be evaluated on the object, and not on what the cache
// remembers: after a restart an object that stopped matching earlier has never
// been seen, and its finalizer must be found all the same.
//
// The cache reads the backend's own batches, not Store.Watch: only a batch says
// where a revision ends, and OnRevision must not call before the last of
// several records that one commit wrote.
