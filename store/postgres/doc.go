// Package postgres keeps the state of several servers in a PostgreSQL database, which
// may be the one that the service has anyway.
//
//	b, err := postgres.Open(ctx, "postgres://app@db1,db2/app", nil)
//
// A backend is a [store.FullBackend]; the contract is there. Its
// tables and functions lie in a schema of their own, which [Open] creates and upgrades.
// The package is a module of its own, so that programs that do not use it do not
// download the driver. How to operate it is in docs/POSTGRES.md.
//
// # How it works
//
//		head      one row: the revision, the era
//		records   what exists: kind, namespace, name, slot → value, revisions, lease
//		changes   the log: each change with its value, in order of revision
//		leases    id, ttl, a count of renewals
//
//	  - A commit locks the row head, judges its conditions, writes records and log, and
//	    takes the revision from the row. The order of revisions is therefore that of
//	    commits, and no revision becomes visible after a later one. A sequence has neither
//	    property: its numbers are taken before the commit, and are lost with a rollback.
//	  - Commits of many goroutines share a transaction, each with its own conditions and
//	    its own outcome. The whole transaction is one call of a function, so that the
//	    server holds the lock only for its own work and its disk, and never while it waits
//	    for a client.
//	  - A watch reads the log. A notification says when to look and nothing else: one that
//	    is lost, late or doubled changes nothing, because every process looks once a
//	    second anyway. A transaction sends one at most.
//	    Every look also asks which server it is (see below): 0.05 to 0.1 ms of it, by
//	    bench/HISTORY.md, and the price of noticing a restore at once.
//	  - A page of a list at an earlier revision is made of the records and of what the log
//	    says they were before.
//	  - A lease ends when a server has seen its count of renewals stand still for its TTL,
//	    by that server's monotonic clock. No wall clock is read, no session and no advisory
//	    lock carries meaning. See package reconcile/lease for what holders do.
//
// # Failover and restore
//
// Every commit compares the server's system identifier, its timeline and the table with
// those of the commit before, and the revision with the highest that this process has
// seen. If one of them differs, the store is a standby that was promoted or a backup that
// was restored, and may lack the last commits. A new era begins: the revision jumps, so
// that none is handed out twice; watches end with [store.ErrCompacted] and begin again
// with a snapshot; leases of before are gone for their holders; and none is granted
// until the longest lease ever granted has had its time.
//
// # Unknown outcomes
//
// What the server reports as an error was rolled back. Serialization failures, deadlocks,
// shutdowns and connections that could not be made are tried again within
// [Options.Timeout]. A connection that breaks while the answer to a commit is awaited is
// [store.ErrUnknownOutcome], and nothing else is.
package postgres
