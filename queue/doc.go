// Package queue is a work queue of keys. A key that is added is run, once, by
// whoever calls Get; it never runs twice at the same time; if it fails it backs
// off. There is one entry per key, whatever state it is in, so adding is always
// cheap and always safe: add a key whenever something about it may have changed.
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
//   - Q1: A key that was added is run, or Snapshot says why it is not: paused,
//     held, throttled, backing off, parked, shut down. No key is lost.
//   - Q2: One key never runs twice at once in a process. Added while it runs, it
//     runs exactly once more, however often it was added.
//   - Q3: One entry per key. Between adds the earliest time and the highest
//     priority win; an immediate add uses a timer up.
//   - Q4: A failing key backs off, with full jitter, whatever is added before or
//     during its failing run. Only an urgent add ends a backoff.
//   - Q5: Higher bands first, in order of arrival inside a band. Of every 16
//     dispatches one goes to the oldest ready key, whatever its band: a key that
//     may run, with n older ones ahead, waits at most 16(n+1) dispatches. (A key
//     that is raised to a higher band arrives there anew.) The bound counts
//     dispatches, not time: with runs of ten minutes and one worker it is hours.
//   - Q6: Tokens are taken when a run begins. A bucket without tokens holds its
//     own keys and no others. They wait by priority and in the order in which
//     they would have run; tenants do not take turns there.
//   - Q7: Nothing is kept for a key that succeeded, was removed or went idle.
//   - Q8: Stop can be called from any state and again. When it has returned no
//     goroutine of the queue lives, and no key it named runs again.
//
// It does not promise that a key runs once per add, or that Get follows the
// order of adds across shards: see Shards below. It keeps nothing across a
// restart; sources add everything again. A pause or hold of this queue is one of
// this process, not the lasting pause of an object in a store.
//
// # What happens when things meet
//
// An add meets a key in some state. "Now" is an add without a delay, "after d"
// one with; priority is the higher of the two in every row, and that of the add
// for Replace.
//
//	state        now          after d            urgent                 Replace
//	absent       ready        delayed            like now, after d      like now, after d
//	ready        nothing      nothing            attempts anew          delayed, if after d
//	delayed      ready        the earlier time   like now, after d      the new time
//	backing off  noted        noted              the earlier of its     the later time; if
//	                                             time and the retry,    urgent the new time
//	                                             attempts anew
//	throttled    noted        noted              attempts anew          delayed, if after d
//	held         noted        noted              attempts anew          delayed, if after d
//	parked       noted        noted              ready or delayed,      noted, unless urgent
//	                                             attempts anew
//	running      what came during the run is kept as one add, the earliest and
//	             highest, urgent if one was; Replace replaces it
//
// "Noted" means that priority and reason are taken over and nothing else. The end
// of a run meets what came during the run:
//
//	result       nothing came     now               after d             urgent
//	Done         gone             ready             delayed             ready or delayed
//	After(r)     delayed by r     ready             the earlier         the earlier
//	Retry        backing off      backing off       backing off         the earlier, attempts anew
//	throttled    backing off      backing off       backing off         the earlier, attempts anew
//	Park         parked           backing off once  backing off once    ready or delayed
//	any, after   gone             like absent       like absent         like absent
//	Remove
//
// "Once": what was added during a run that parked may be the cure of what made
// it park, so it is tried one time more. After(r) is exact: never early, no jitter. A timer that was added
// is used up by any run; say the time that is left at the end of each run.
//
// # Shards
//
// With more than one shard, keys are spread over as many queues by their hash,
// each with a lock and an order of its own. All that is said of one key holds
// whatever the number of shards. Order does not: a getter takes from a shard
// whose top band is highest, among equals from the one that had the last turn, or
// by chance where getters met lately. After each sixteenth dispatch of a shard the
// next one is owed a turn, after each 64th while all have the middle band on top. So
// every shard with ready keys is served at least once in 32·Shards dispatches while
// some shard has another band on top, else in 128·Shards (and what other getters had
// under way; a GetBatch of more than sixteen keys, or 64, counts as so many), and
// inside the shard Q5 holds. Shards: 1 gives one order. Tenants and buckets need one
// order, and a queue with them has one shard.
//
// # Design notes
//
// An entry is 32 bytes without a pointer, in chunks of 1,024 that are allocated
// when needed; keys lie in chunks of their own. The table finds entries by 64-bit
// words of hash and index, in segments that grow and split one by one. So the
// collector scans keys only, a key costs about 61 bytes at a million keys in any
// state (string header included, its text not), and no operation rehashes or
// copies everything under a lock. Entries never move, which lets an Item be an
// index with a run number: settling needs no lookup, settling twice is noticed,
// and Snapshot can walk chunk by chunk. What few keys have (last error, reasons,
// tenant) is in a side slab; what hardly any has (holds, debouncing) in a map by
// index. Chunks and segments that came out of use are given back a second later
// (slack.go), in steps.
//
// What was rejected:
//
//   - A heap for delays: at a million keys each pop is ten levels of cache misses.
//     The wheel is O(1), uses the entry's own links, and compares exact times in
//     the present slot, so that nothing is early and little is late.
//   - One flat table with a second one while it grows: every lookup in two tables
//     meanwhile, and a table of 16 MB to clear at once. Segments bound both.
//   - A list of all ready keys by age, for Q5: eight bytes a key. Each band's list
//     is in order of age already, so the oldest key is one of the heads.
//   - Spreading tenants over shards: turn-taking would hold only inside each, and
//     the cap on running keys would need a counter that all shards share.
//   - Reserving tokens ahead, as rate limiters offer: reservations of keys that
//     were deduplicated, or failed early, add up to hours of debt.
//   - Asking Options.Buckets when a key is added: it is asked when the key is about
//     to run, without a lock, so that it may look at the object as it is then.
//   - Reading the clock for every key. See clock and sampler: a busy queue reads it
//     once in 64 keys and when a timer of 4 ms says so.
//   - A goroutine for delays. One runtime timer is armed while something waits.
//
// A run charges what it really used with Bucket.Charge; the next runs wait for it.
//
// # Speed: what was tried
//
// Add, Get and settling a key are three calls that may come from anywhere. Three
// uncontended locks with nothing under them take 32 ns on the two cores of an AMD
// EPYC where all this was measured, and a queue stripped of every promise (module
// bench, impl=least: a set of hashes and a ring of keys under each lock) 63 ns a
// cycle. Ours takes 77 with one shard and 94 with eight, client-go's 125. Nothing is
// allocated. Metrics are nearly free, for counting is an addition under a lock that
// is held anyway. Module bench has the comparison, with the losses.
//
// Where two cores pass keys to each other, what counts is how many cache lines go
// back and forth: handing one over takes 44 ns there (BenchmarkMachine).
//
//   - The short way (fast.go) instead of add, take and settle composed: 205 → 125.
//     Most of it came from not building a request, not copying an Item through
//     memory, and looking an entry up once.
//   - An Item of few fields, so that Get returns it in registers: some 10 ns for
//     string keys; {Namespace, Name} keys are too wide for that.
//   - Counting ready and running keys by dispatches and ends, rather than by state
//     changes; one sample for both times, no counter for what is not sampled; the
//     slot freed last reused first; the search's end handed to the insertion:
//     125 → 102 together.
//   - Looking three times (Gosched) before a getter sleeps, and no wake-up while
//     somebody looks: pipelines of 8 by 8 and 64 by 64, which had been slower than
//     client-go's, halved.
//   - Slack that is kept for a second, instead of segments that shrink and chunks
//     that go as soon as they are empty: 600 → 460 for 8 by 8 together with the next.
//   - What a cycle writes in two cache lines of the shard, what getters read of all
//     shards (the top bands) in lines that are seldom written.
//   - A lock that looks again for a microsecond (lock.go): with 1,000 workers and 64
//     goroutines that add, the slowest hundredth of all Adds took 1.1 ms and takes
//     3 µs (two runs each); a controller with 64 workers 590 → 380 ns a run, with 8
//     500 → 400 (medians of three, on cores that share little cache; the best of
//     three numbers of looks, chosen by the same runs).
//   - Eight shards instead of four on two cores: 134 → 115 for 8 by 8 (sixteen: 102),
//     140 → 112 for 64 by 64, a controller with 8 workers 195 → 172, a cycle of one
//     goroutine 91 → 94.
//   - Sixteen dispatches from one shard rather than each from any, and no look at the
//     others while none has anything above the middle band (Queue.pick): among 64 keys
//     117 → 96, among a thousand 145 → 133 and with the next 115, among a million
//     420 → 285, pipelines and controllers unchanged. Entries that follow each other
//     lie side by side.
//   - Segments of up to 672 words after a split instead of 768: 62.9 → 61.4 bytes a key
//     at a full load of 488 keys each, and no slower; small tables half full at most
//     instead of four fifths: among a thousand keys 132 → 122, ten thousand 154 → 137.
//   - Dropped: a bitmap of free slots alone (13 ns a cycle against 5 with the slot
//     freed last); four such slots instead of one (nothing); random choice among
//     shards when only one has keys; the table's first look written out in Add
//     (nothing); an assembler's prefetch of the next key's entry and word (3 % among a
//     million, 13 to 20 % among ten million: too little for assembler); counters of
//     segments kept together (nothing).
//
// What was aimed at and not reached, in ratios to client-go's queue on that machine
// (bench/RESULTS.md), and what the stripped queue reaches beside it. That one was
// measured at real-time priority beside other work, three to five runs, the best:
//
//   - A cycle: 1.3 instead of 4.3; stripped 2.0. With {Namespace, Name} keys and
//     through the adapter it is alike. With metrics 5 instead of 6.5, with one shard 6:
//     eight cost 17 ns where each cycle finds its shard empty and leaves it so, which
//     must be shown to getters, and 8 ns where there is always something.
//   - Duplicate adds: 1.2 instead of 1.3; stripped 1.5, which compares hashes only. We
//     compare the key too, or two keys with one hash would become one. From two cores
//     1.4 instead of 2; stripped 1.3: it is the locks' cache lines.
//   - Pipelines of 8 by 8: 3.1 instead of 6; stripped 5.2. Of 64 by 64: 3.6 instead of
//     5.8; stripped 6.6. The stripped queue writes two lines an operation, ours four
//     or five (entry, key, list, table): the 38 ns of two cores between them are two
//     hand-overs. Where the two cores share little cache, all queues take two to
//     three times as long, and client-go's five: then 8 by 8 is 5.4.
//   - A cycle among a million keys: 2.0 instead of 2.7; stripped 3.2. Each has two
//     reads that miss, the table's words for the key that comes and the one that goes
//     (of 16 MiB a read takes 27 ns there, of 256 MiB 185); ours has the entry besides.
//     Among ten million it is 1.1 to 1.3.
//   - Retries: 3 to 5 instead of 7; stripped 10. They come back in the order of their
//     backoff, so that entry, key and word of each are somewhere else. The stripped
//     one has the word alone.
//   - A million delayed keys: 2 to 2.5 times less CPU instead of 4; stripped 6. The
//     alarm rings 52,000 times in ten seconds and wakes a getter each time. Ringing
//     not sooner than 250 µs after the last time takes a fifth of the CPU away and
//     makes keys 0.15 ms later (0.67 instead of 0.52 at the median, 1.65 instead of
//     1.44 at the slowest hundredth): not done, for what is due should run. AddAfter
//     3 times faster instead of 6; stripped 3.9.
//   - A controller's run is its pipeline, and what misses there misses here.
//   - The slowest hundredth of contended Adds is faster than controller-runtime's by
//     3, not by 20. There an Add appends to a buffer, and a goroutine does the rest.
//
// The critical sections of Add, Get and Done last 20 to 35 ns each, and Done fused
// with Get saves one. Where a contended lock changes hands every 50 to 100 ns, a
// shard gives 4 to 7 million items a second whatever the number of cores. By default
// there are four shards for each processor, at most 16: that should serve 60 million
// items a second, more than reconciling asks for, and each shard that was used keeps
// some 60 KB. That is a projection: only two cores were at hand.
package queue
