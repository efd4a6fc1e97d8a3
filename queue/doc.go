// Package queue is a work queue of keys. A key that is added runs once, in the
// worker that calls Get; it never runs twice at the same time; if it fails it backs
// off. There is one entry per key, whatever state it is in, so adding is always
// cheap and safe: add a key whenever something about it may have changed.
//
//	q, err := queue.New[string](nil)
//	…
//	q.Add("bucket/logs")
//	item, err := q.Get(ctx)
//	…
//	item.Done() // or item.After(time.Hour), item.Retry(err, 0), item.Park(err)
//
// # Promises
//
//   - Q1: A key that was added runs, or Snapshot says why it does not: held,
//     throttled, backing off, parked, shut down. No key is lost.
//   - Q2: One key never runs twice at once in a process. Added while it runs, it
//     runs exactly once more, however often it was added.
//   - Q3: One entry per key. Between adds the earliest time and the highest
//     priority win, except with AddOptions.Replace; an add without a delay uses a
//     timer up.
//   - Q4: A failing key backs off, with full jitter, whatever is added before or
//     during its failing run. Only an urgent add ends a backoff.
//   - Q5: Higher bands first, in order of arrival inside a band. Of every 16
//     dispatches one goes to the oldest ready key, whatever its band: a key that
//     may run, with n older ones ahead, waits at most 16(n+1) dispatches. (A key
//     that is raised to a higher band arrives there again.) The bound counts
//     dispatches, not time: with runs of ten minutes and one worker it is hours.
//     In a bucket's line the same holds of its tokens: a key with n older ones in it waits
//     for at most 16(n+1) of them, and a key of several buckets for so many of each, of one
//     bucket after the other.
//   - Q6: Tokens are taken when a run begins. A bucket without tokens holds its
//     own keys and no others. They wait in the order in which they would have run:
//     by priority, tenants in turns by weight, then by arrival. A key of several buckets
//     may take the token of one at its turn there, and keep it until the others have one:
//     if it is the oldest key in the line where it goes on waiting, or alone in the highest
//     band. Else it leaves the token to others, which never wait for it. A token that was
//     kept is given back if the key is removed; it is not used while its bucket is paused, and
//     counts in its bucket from when it is used: a bucket that was full meanwhile is not then.
//   - Q7: Nothing is kept for a key that succeeded, was removed or went idle.
//   - Q8: Stop can be called from any state and again. When it has returned no
//     goroutine of the queue lives, and no key it named runs again.
//
// It does not promise that a key runs once per add, or that Get follows the order of
// adds across shards. It keeps nothing across a restart; sources add everything
// again. A hold is one of this process, not the lasting pause of an object in a store.
//
// # How adds and results combine
//
// An add finds a key in some state. "Now" is an add without a delay, "after d" one
// with; priority is the higher of the two in every row, and that of the add for
// Replace.
//
//	state        now          after d            urgent                 Replace
//	absent       ready        delayed            like now, after d      like now, after d
//	ready        nothing      nothing            attempts from 0        delayed, if after d
//	delayed      ready        the earlier time   like now, after d      the new time
//	backing off  noted        noted              the earlier of its     the later time; if
//	                                             time and the retry,    urgent the new time
//	                                             attempts from 0
//	throttled    noted        noted              attempts from 0        delayed, if after d
//	held         noted        noted              attempts from 0        delayed, if after d
//	parked       noted        noted              ready or delayed,      noted, unless urgent
//	                                             attempts from 0
//	running      what came during the run is kept as one add, the earliest and
//	             highest, urgent if one was; Replace replaces it
//
// With AddOptions.KeepAttempts an urgent add does the same and leaves the attempts; of
// several urgent adds during a run, one without it starts them from 0.
//
// "Noted" means that priority and reason are taken over and nothing else. The end of
// a run finds what came during the run:
//
//	result       nothing came     now               after d             urgent
//	Done         gone             ready             delayed             ready or delayed
//	After(r)     delayed by r     ready             the earlier         the earlier
//	Retry        backing off      backing off       backing off         the earlier, attempts from 0
//	throttled    backing off      backing off       backing off         the earlier, attempts from 0
//	Park         parked           backing off once  backing off once    ready or delayed
//	any, after   gone             like absent       like absent         like absent
//	Remove
//
// "Once": what was added during a run that parked may be the cure, so the key is
// tried one time more. After(r) is exact: never early, no jitter. A timer that was
// added is used up by any run; say the time that is left at the end of each run.
//
// # Shards
//
// With more than one shard, keys are spread over as many queues by their hash, each
// with a lock and an order of its own. All that is said of one key holds whatever
// the number of shards. Order does not: a getter takes from a shard whose top band
// is highest, and after each sixteenth dispatch of a shard the next one gets a
// dispatch whatever its band. So every shard with ready keys is served at least once
// in 32·Shards dispatches (and what other getters had under way; a GetBatch of more
// than sixteen keys counts as so many), and inside the shard Q5 holds. Shards: 1
// gives one order. Tenants and buckets need one order, and a queue with them has one
// shard.
package queue

// The files, from the ground up; a file uses only what is declared in itself and in
// those before it (TestFilesPointDown):
//
//	state      the two tables: what adds and results do to a key; the queue-wide word
//	heap       what is next by some rank, or in time
//	scope      what can be held, and the holds over it
//	slab       entries with their keys, in chunks; records of what few keys have
//	table      from a key to its entry
//	deque      keys in order of arrival
//	ages       since when the oldest run goes on
//	histogram  how long keys are ready and run
//	clock      what time it is; which keys are timed exactly
//	options    what New is told; errors; backoff
//	plain      which ready key is next: bands with aging
//	bands      … tenants that take turns
//	shard      the core: one queue with one lock; its admission
//	keeper     the admission: records, caps of tenants
//	hold       … holds
//	throttle   … the lines of buckets
//	shards     which shard is next
//	waiters    getters that sleep; the timer
//	queue      Queue: adds, holds, what the timer does
//	item       Get, and how a run ends
//	stats      views: counters
//	snapshot   views: every key, or some of them in an order
//	stop       Close, Drain, Stop
