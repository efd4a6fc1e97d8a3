// Package etcd keeps the state of several servers in an etcd cluster.
//
// A backend is a [store.FullBackend]; the contract is there.
// A record is one etcd key, PREFIX/KIND/NAMESPACE/NAME, and a [store.Revision] is
// etcd's own. It lives in a module of its own, so that a program that does not use
// it does not download etcd's client.
//
// # What etcd is asked for
//
//   - Reads by key and first pages are linearizable; later pages are pinned to
//     the revision of the first.
//   - A Commit is one transaction whose Else branch reads what was compared: a
//     conflict says what is there without a second round trip.
//   - Commits of many goroutines share requests, as transactions nested in one.
//     Each keeps its own compares and its own outcome. One that arrives alone
//     goes out alone and at once, on the caller's goroutine and with its context.
//   - Every request has a deadline ([Options.Timeout]); etcd's client has none. A
//     write that was not answered in it, or whose connection broke, is
//     [store.ErrUnknownOutcome]. One that no connection carried was not made, and the
//     error says so, with the endpoints and the reason: at once while there has been no
//     connection yet, later after the deadline.
//   - All watches of a kind share one stream. A slow reader is cut off alone, with
//     [store.ErrCompacted]. Of changes in slots that none of them asks for
//     ([store.SlotReader]) nothing is copied or decoded; etcd sends them all the same. A
//     watch that adds slots has the stream opened again from where the watch is.
//   - A list of up to half of the slots reads the keys of the kind, and the values of its own
//     slots by key. Read-only transactions of up to 120 gets do that.
//   - Leases are renewed one request at a time (KeepAliveOnce), because a holder
//     has to count its trust from the request. See package lease. A leader of etcd that stood
//     still while another was elected may revoke, when it goes on, a lease that was renewed
//     since (3.7.3; etcd's issue 15247): its holder learns it from the watch.
//
// # Versions
//
// The contract of store.Backend, and the restored and wiped stores below, are tested on
// 3.7.3 and on 3.4.23, which is Debian 12's; others from 3.4 on are expected to work.
// Before 3.5.8 the answers to progress requests are not in order with the changes, so
// the position of a watch without changes moves every ten minutes only: after a
// connection broke, it takes a new snapshot if the server compacted meanwhile.
//
// # Permissions
//
// With etcd's authentication on, a server needs read and write on the prefix.
// A user that may only look needs read on PREFIX/ and nothing else. Leases, shard
// and member records lie under PREFIX/_lease/; a user that may write there can depose
// any server.
package etcd

// How a watch stays honest.
//
// Six things were seen to leave a watch silent, or wrong, while the cluster was
// healthy, and each has its answer here:
//
//	a connection that died without a word     progress is asked for after a silence, and a
//	                                          connection without an answer is thrown away
//	a member cut off from its quorum          WithRequireLeader ends the stream
//	a store restored from a backup, behind    a stream that breaks is not resumed by etcd's
//	what was already seen, or wiped           client; the head and the cluster's id are
//	                                          compared whenever one is opened
//	a copy under the same cluster id that     the last change seen must be in the history
//	was written beyond what was seen          whenever a stream is opened
//	an idle kind, overtaken by the            progress moves its position along
//	compaction of others' changes
//	progress that overtakes changes           answers of such servers are a sign of life,
//	                                          and no progress
//
// What cannot be noticed: a copy under the same cluster id that was taken after the last
// change of the kind that this process saw, and was written beyond what it saw of the
// whole cluster before it connected again. etcdutl restore gives a new cluster id; use it.
//
// A cluster that gives no sign of life for one and a half times [Options.silence] is
// unavailable: [Backend.Health] says since when and why, the log has one line, and
// caches and managers go by it.

// Speed.
//
// Beside etcd's raw client, doing the same compare, put and read-if-not on one
// embedded member that shares two cores with both (BenchmarkStore in module bench;
// medians of six passes on a busy machine):
//
//	                    elapsed   CPU of client and server together
//	1 writer            1.0 to 1.1 times the raw client's latency, 1.0 to 1.08 the CPU
//	64 writers          3.3 times its throughput, a third of the CPU
//	256 writers         3.9 times, a quarter
//	100 watchers        8 times cheaper an event
//
// With many writers one short pass says little. In slices of 4,000 commits by turns
// with the raw client, at real-time priority, 256 writers had 3.27 times its
// throughput (40 slices; quartiles 3.1 and 3.5, extremes 2.8 and 4.9) and 64 writers
// 2.8 (12 slices; 2.8 and 3.4, 2.6 and 4.5). Neither etcd's snapshots nor the
// intervals of its disk commits are to blame: without them the spread was the same.
// With Batch 64, 256 writers had 3.85 times the raw client's throughput, and no more
// with four such requests under way; 64 writers had 2.7 with it, so it is not the
// default.
//
// A lone Commit costs 404 allocations where the raw client's costs 408, nearly all
// of them gRPC's and the server's. What it does beyond the raw client is to
// set a deadline and to check its arguments; leaving the deadline out made no
// difference that could be measured. With 64 writers, etcd's applying of the
// members takes a fifth of the CPU, encoding and decoding them a quarter and
// the allocator another; nothing of that is per request any more, so that
// larger batches than the default of 32 gain little.
//
// [store.Store.Update] is two round trips: it reads what is stored, because it has
// to keep the status and the fields that this program does not know, and then
// compares and swaps. Remembering what was read before would save the first one;
// but then a store restored from a backup, which hands out revisions a second
// time, could have the status of a lost history written over its own, and nothing
// would notice.

// Design notes.
//
// Members of one request may not share a key that one of them writes: etcd judges
// all compares of a transaction, nested ones too, by the state before any of its
// operations, so two Commits that each invalidate the other's compare would both
// succeed (write skew).
//
// When the server refuses a shared request outright (one member's lease is gone,
// one value is too large), nothing of it was applied, and each member is sent on
// its own: the one to blame must not take its neighbours with it.
//
// A Commit whose caller gives up is withdrawn if it has not been sent. If it has,
// its outcome is unknown; the request goes on for the others.
//
// Watches have a connection of their own. A silent one is thrown away whole, for a
// new stream on a dead connection is as silent; requests that wait on the other
// connection are not torn down with it.
//
// A deletion carries the record as it was before the transaction that deleted it:
// etcd refuses a put and a delete of one key in one transaction, so the last edit
// cannot be stored and removed at once.
//
// concurrency.Session and etcd's own cache package were rejected: the former
// counts trust from the answer of a renewal, and was seen to believe in a lease for
// up to a second after it was gone; the latter is marked experimental.
//
// Concurrent Commits of one process share a request, and so a revision; no two of them
// write the same record.
//
// Known limits are etcd's: requests of 1.5 MiB, a database of some GiB, and a space
// quota that, once exceeded, refuses lease grants too, so that elections stop with
// the writes until it is compacted, defragmented and disarmed. docs/ETCD.md says how to set and mend that.
