// Package memory keeps a store in the memory of one process.
//
// It is the default backend, and the one that tests use. Values are kept as
// they are given and never encoded: a cache and a list share them with the
// backend. With Options.Encode it keeps their encoding, as each other backend does:
// tests of a program that keeps its objects elsewhere set it, and meet the JSON that it
// reads in production, with its unknown fields and its bounds. Nothing survives the process, and no other process can see it.
//
// A watch can be resumed from any of the last Options.History changes of its
// kind. One that is under way may fall behind by as many changes as the kind has
// records, if that is more: a burst of new records is read to its end, however
// long. Beyond that it gets [store.ErrCompacted] and starts again with a snapshot,
// which is less to read by then. It holds up no writer, because watchers read from
// the history on their own and no commit waits for them.
//
// # Design notes
//
// One lock guards everything, so that a transaction over several kinds needs no
// second thought. It is a read-write lock that spins for a microsecond before it parks
// (internal/spin): with two cores at work three of four parks
// were for this lock, and without them an object converged in 9 % less time.
// Entries are values of the map: to change them in place behind an address saves a commit
// one look-up, and costs a list 10 to 17 %, a Get 5 %.
// Sharding it by kind was left out: commits take well under a
// microsecond, and the revision is one counter for all kinds anyway.
//
// The history of a kind is a row of chunks that are written once and never
// moved. A watcher gets a slice of a chunk instead of a copy, which is why a
// thousand watchers cost a thousand wake-ups and no more. A channel per watcher
// was rejected: it needs a bound, a policy for what to do when it is full, and a
// copy per watcher, and the history is needed for resuming all the same.
//
// The history asks the watchers where they are only when it is about to drop a
// chunk, and remembers the answer, so that a thousand watchers that keep up cost
// a commit nothing. What a watcher that stands still can cost is 112 bytes for
// each record and the values replaced meanwhile.
//
// A list that is read page by page keeps its instant by holding the records of
// that instant; the last 16 such lists are held, an older one gets
// ErrCompacted. A tree that shares its nodes between versions would hold any
// number of instants but costs every write; lists page by page are rare here,
// since a limit of 0 gives the whole list at once.
//
// Taking a snapshot of a kind holds the lock for its length, about 5 ms for
// 100,000 records, and writers wait that long.
package memory
