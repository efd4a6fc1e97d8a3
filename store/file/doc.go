// Package file keeps a store in one file, durably, for one process at a time.
//
// It is the backend for a service on one machine: no server to run, and nothing
// to lose when the machine is switched off. Underneath is bbolt.
//
// # What it promises
//
//   - A Commit that returned is on disk. A process killed at any instant loses
//     nothing that was acknowledged, and its next start needs no repair.
//   - Everything goes on across restarts: revisions, leases, and the history, so
//     that a watch resumes where it was. The history is bounded by count and
//     bytes; what is older gets store.ErrCompacted.
//   - Concurrent writers share a disk write. Each is decided on its own, and one
//     that gives up does not take the others along.
//   - A second Open, in this or another process, is refused with ErrLocked, before it
//     has read anything.
//   - A file that is another's, torn, or altered is refused with ErrForeign or
//     ErrCorrupt and left exactly as it is. Nothing is ever repaired silently:
//     a record lost unnoticed reads as deleted, and something in a cloud would
//     be deleted for it.
//   - A file that is removed, replaced or written over under a running process is noticed
//     within half a second, and before each commit. From then on every operation is
//     refused, and Health says so.
//   - A full or failing disk gives the system's error, and nothing was written.
//     If the disk fails so late that this cannot be known, the outcome is
//     store.ErrUnknownOutcome and the backend refuses everything until it is
//     opened again.
//
// # What it does not
//
//   - It is not shared: Shared is false. Two processes take turns, by Close and Open.
//   - It trusts the disk to keep what it said it has synced, and to write 80
//     bytes of one sector whole or not at all.
//   - It does not shrink the file, and does not encrypt it; the file is created
//     with mode 0600.
//   - A network file system whose locks do not work is no place for it.
package file

// Design notes.
//
// A commit appends to a log; the records themselves are brought up to date at a
// checkpoint, every few thousand of them. Writing each record in place at each
// commit, as one would with bbolt alone, costs a page per record, scattered
// over the file, and the history, which a watch needs in order to resume, would
// come on top. The log is that history, it is written in one piece, and a
// record that changes often is put in its place once per checkpoint. The price
// is one slower commit per checkpoint, and that what is later than the
// checkpoint is held in memory.
//
// Open reads the whole file before bbolt may: bbolt follows its pages through
// mapped memory, and a damaged page makes it panic, fault, or answer wrongly.
// It has no checksums either, so every row and chunk carries one that includes
// its key, and the number and the sum of all rows are kept, which tells when a
// page full of records has vanished. The check is not optional: it would not
// be run. From a warm cache, with records of 500 bytes, Open takes
// 1.1 s per gigabyte: 0.5 for the pages, 0.35 for rows and chunks with their sums,
// and 0.25 for bbolt to find the free pages. Checking a page when it is first read
// was rejected: bbolt cannot be told to, and what a lost page held would be missing
// from a list long before anybody met the damage.
//
// bbolt's DB.Batch was rejected for group commit: it runs every function of the batch
// again when one fails, and waits a fixed time for more. Here the group is the writers
// that came while the last one was on its way to the disk.
//
// bbolt's list of free pages is not kept in the file (NoFreelistSync): a checkpoint
// frees thousands of pages, and bbolt writes the whole list with every commit. With
// it a commit wrote 9.0 pages, without it 4.9, where bbolt alone, with 6.0, writes a
// record in its place. It is found again at Open.
//
// Beside bbolt with batches of the same size (BenchmarkStore in module bench) a lone
// writer gets 0.97 of its throughput, where it was 0.82 with the list in the file and
// each commit handed to another goroutine; 16 and 128 writers get 1.16 and 1.22. In
// commits interleaved with bbolt's 259 µs (medians, on a virtual disk), one took
// 319 µs, 290 without the list, 299 without the hand-over, 275 without either. A
// writer with a deadline still pays the hand-over: on its own goroutine a disk that
// hangs would hold it for longer. A checkpoint takes about 40 ms, one commit in 4096.
//
// A pinned list is rolled back from the history instead of holding a read
// transaction from page to page: a bbolt reader that stays keeps every page
// written since from being reused, and the file grows. Such a list does not
// outlive the process.
//
// Close to the end of a lease its clock decides, not the file: clocks are not
// kept across restarts, a lease has its whole time again after Open.

// Reading the source.
//
// file.go opens, reads one record and closes, url.go is for store.Open, list.go, kinds.go and
// watch.go read many, commit.go is the group commit, txn.go decides a transaction, lease.go
// ends leases, checkpoint.go, layout.go and encode.go say what lies where, history.go is
// the log in memory, verify.go and pages.go what is checked at Open, place.go whether the
// file is still at its path, and resident_*.go gives memory of its pages back.
