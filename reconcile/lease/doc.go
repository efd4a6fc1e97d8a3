// Package lease decides which server does the work, and makes sure that the
// others cannot.
//
// A [Placement] says where a controller runs: on one server at a time
// ([NewSingleton]), on all of them ([EveryServer]), on each a share of the keys
// ([NewSharded]; [NewSingletons] does it for several singletons), or where a host with an election of its own says
// ([Manual]). All four are used the same way:
//
//	err := placement.Run(ctx, func(ctx context.Context, shard int) error {
//		// ctx ends when the hold ends; every store write made with it is
//		// fenced. Returning releases the lease.
//	})
//
// # What is promised
//
//   - Trust in a lease is counted from before the request that renewed it, less
//     a margin, so that a holder stops before anybody else can start, as long
//     as its clock does not run slower than the store's by more than the margin
//     is of the TTL, by default a tenth. Beyond that the store writes of the
//     slower one are still refused.
//   - The time for which a machine was suspended counts, although timers and the
//     monotonic clock stand still: by the time since its start on Linux, elsewhere by
//     the wall clock. After a suspension, or a jump of the wall clock that may be one,
//     a lease is not trusted before it has been renewed. Wall clocks that jump end no
//     hold.
//   - The context of the work carries the lease's guard ([store.WithGuard]): a
//     store write by a deposed holder fails with [store.ErrFenced], however
//     long it was frozen between its check and its write.
//   - Work is cancelled first, then it is waited for, then the lease is
//     released. Work that ignores its cancellation keeps its lease from being
//     released: it runs out by itself. A server that stops in good order lets
//     work finish what it has begun while the lease can be kept; [Gone] says when
//     it cannot.
//   - After a crash work goes on elsewhere within the TTL, a tenth of it, and what
//     the store takes to notice; after an orderly stop, as soon as the last runs
//     have ended. docs/TAKEOVER.md has the bound and what was measured.
//   - A lease lost and won again in one process never gives two live runs: work
//     for a shard is not begun before the call before it has returned.
//
// # What is not
//
// A call to something that knows no fencing token (most clouds) can be finished
// by a process that was frozen in the middle of it, after another server has
// taken over. [Token] gives the token to calls that can use one; for the others
// the create intent and deterministic names of reconcile/external are the
// answer. A machine that was suspended notices within a tenth of the TTL after its
// resume, or with the next question whether a lease is held; what it had begun goes on
// until then. A controller asks as the last thing before it calls the reconciler: a
// process that was stopped between the answer and the call counts as stopped in the run.
//
// A server whose clocks never agree is never sure of its lease, although it renews it, and
// begins no run. After a TTL of that it gives its shards up, with a line in the log, and takes
// none before its clocks agree; Health of the placement says so.
//
// A virtual machine that was paused by its host, or restored from a snapshot, may have no
// clock that counted: its store writes are fenced, its other calls are not until its lease
// is found to be gone.
package lease

// Design notes.
//
// One engine serves Singleton and Sharded: a session (one lease of the backend
// with a fresh random name), the shard records bound to it, and one question,
// "which free shards do I want". A singleton wants its only shard always; a
// sharded placement wants those that the plan in the store gives it. The plan is
// computed from the plan before and the members that live (plan.next), so a shard
// keeps its owner where it can. A function of the members alone was rejected: no such
// function that is even leaves each shard of the servers that stay where it is.
// Plans decide nothing about safety: a claim is a compare-and-swap in any case.
//
// The guard is the create revision of the shard's record (Chubby's sequencer,
// in etcd's terms): a server that takes the shard over has to create the record
// again, so the compare fails for ever. Fencing by the backend's lease id, or by a
// clock of ours, was rejected: neither is known to the store at the moment it
// commits.
//
// "Done" channels such as those of etcd's concurrency.Session were rejected as
// the signal to stop: they count from when the answer to a renewal arrived, not
// from when it was asked for, and were seen to fire up to a second after the
// server had dropped the lease. TestSessionDoneAsTrustGivesTwoHolders has an
// election written on one, and sees both servers at work.
//
// Claims and releases of many shards go out together, as single writes and not
// as one transaction: a transaction of many claims fails when one of them is
// lost, and backends put concurrent writes into few requests anyway.
//
// Run takes a function instead of giving out acquire and release calls, because
// the order "cancel, wait, release" is the promise: with a function there is no
// other order to write.
