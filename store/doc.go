// Package store keeps declared objects and what was found of them, with one
// contract for every place they can lie in.
//
// An [Object] is a spec (what is wanted), a status (what was found) and a
// [Meta]. A [Store] reads and writes the objects of one kind. It lies on a [Backend],
// which is small and knows nothing of types.
//
//	 Store[Spec, Status]      Get List All Watch WaitReady
//	      │                   Create Update UpdateStatus Mutate Delete Apply
//	      │  records: kind, namespace, name → value, revisions
//	   Backend                Get List Commit Watch Close  (+ Leaser, SlotReader)
//	      │
//	memory │ file │ etcd │ postgres
//
// # What is promised
//
// Every write is compare-and-swap on the revision, and reads by key see every
// write that returned before: a stale write is [ErrConflict], never a silent
// overwrite (S1). A watch is one ordered stream without gaps or repetitions: a
// snapshot, its end, then changes; it resumes after a disconnect, and after a
// compaction or the restore of a backup it begins again with a snapshot (S2).
// The generation counts changes of the spec and the request for deletion, never
// a status write, and an object with finalizers is marked, not removed (S3). A write
// whose outcome cannot be known is [ErrUnknownOutcome]; one made with a guarded context
// ([WithGuard]) by a server that lost the lease is [ErrFenced].
//
// # What is not
//
// There are no queries besides kind, namespace and labels; package cache has indexes. A write is
// of one object; [Backend] has transactions, of records. Owners are recorded and not followed.
//
// # What can be written
//
// [New] refuses types with fields that JSON drops. A write refuses NaN and infinities, years beyond 0 to 9999, map
// keys that JSON does not read back, more than [MaxDepth] levels, and a spec, an annotation or
// the output of a MarshalJSON that is not UTF-8, with [ErrInvalid]. In a status and in conditions such text
// gets U+FFFD. Other values are stored as JSON reads them back, on every backend: times without clock and zone's
// name, what omitempty leaves out as zero, a nil json.RawMessage as null.
//
// # Sharing
//
// Objects that Get, List, All and the writes return are the caller's own. What
// [Store.Decode] and [Store.Watch] hand out is shared and read-only: over the
// memory backend it is the very value that is kept.
//
// # Versions of a program
//
// The stored form carries Options.Version. A program reads an object of a newer
// version and refuses to write it ([ErrNewer]). Within a version, fields that a
// program does not know survive its writes, at any depth
// but not inside lists. A backend of Go values holds none.
//
// When the form changes in another way than by new fields, raise Options.Version and give
// Options.Convert a step, by which objects of the earlier form are converted when they are
// read. Deploy servers with the step first; when the others have gone, [Rewrite] all.
// [Encryption] is brought in, and its key changed, in the same way.
package store

// Design notes.
//
// Update reads before it commits, because it keeps the stored status and tells
// whether the spec changed. That is a second round trip on a cluster. Keeping
// the version read inside every object handed out would save it, and was
// rejected: it doubles the memory of every object in a caller's hands, and a
// hidden pointer in a plain struct breaks comparison in tests.
//
// Specs are copied and compared by a shape (internal/shape), made once per type from
// reflection, never by encoding and never by reflect.DeepEqual: the shape knows which fields
// need work at all, and refuses at construction what it cannot copy. Empty and nil slices and
// maps count as equal, because an encoding may turn one into the other, and a spec that changed
// by being read would be reconciled for ever. Equal bytes are at most a fast path.
//
// What a type of the user makes of itself (MarshalJSON, MarshalText) is read back at the write,
// and that is stored, also on a backend of values: a program that was tested on memory then
// reads in production what it read in its tests.
//
// A guard is not tied to a backend. Tied by identity, a wrapped backend would be
// another one and the guard silently not checked; as it is, a guarded write to a
// backend without the lease's record is refused, and [WithoutGuards] says in the
// code that a write is unfenced.
//
// Guards are checked by the backend, in [Txn.Prepare], and not by the typed
// store: what is written around the typed store is fenced too. Writes are noted
// (for promise S4) by the typed store, because only it knows which backend, as the
// caches see it, was written to.
//
// Validation is asked when the spec changes and not on every write. Asked every
// time, a rule made stricter would keep old objects from losing their
// finalizers.
//
// The label selector is evaluated on decoded objects and not by backends. A
// cache follows what matches or carries our finalizer, which no backend could
// evaluate.
//
// Measured with one object for all (two labels, a finalizer, a spec of five
// strings and a map of two, two conditions; 10,000 of them, memory backend)
// against a map of such objects under a lock with copies and comparisons
// written by hand, fastest of 20 interleaved runs on a busy machine of two
// cores: Get 1.1 times the time of the limit, Update 1.2 times with fewer bytes
// allocated, 1.07 times the heap per object. One update until 100 watchers saw
// it takes less than half the time of 100 channels, with 5,000 watchers about a
// tenth. Run it with
//
//	go test -run XXX -bench 'Store|Watch|Memory' ./store/memory
