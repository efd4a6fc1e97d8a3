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
// bench, impl=least: a set of hashes and a ring of keys under each lock) 64 ns a
// cycle; with an entry for each key, as ours (impl=least-entry), 66. Ours takes 75
// with one shard and 86 with eight, client-go's 128. Nothing is allocated. Metrics are
// nearly free, for counting is an addition under a lock that is held anyway. Module
// bench has the comparison, with the losses.
//
// What a processor does not see coming costs more than work: a locked instruction
// 5 ns, a branch that was guessed wrong about as much, a cache line that another core
// has 44 (BenchmarkMachine), on some hosts three times that. A cycle of ours has
// eight locked instructions: two for each of three locks, and two to show that its
// shard has something and then nothing.
//
//   - The short way (fast.go) instead of add, take and settle composed: 205 → 125.
//     Most of it came from not building a request, not copying an Item through
//     memory, and looking an entry up once. AddWith of a band, which is what sources
//     call, takes it too: a controller with 8 workers 146 → 137 ns a run.
//   - An Item of few fields, so that Get returns it in registers: some 10 ns for
//     string keys; {Namespace, Name} keys are too wide for that. And what settles it
//     asks its loan rather than the Item: each method of an Item first copies it,
//     96 → 90.
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
//     shards (pick.go) in lines that are seldom written.
//   - A lock that looks again for a microsecond (internal/spin): with 1,000 workers and 64
//     goroutines that add, the slowest hundredth of all Adds took 1.1 ms and takes
//     3 µs (two runs each); a controller with 64 workers 590 → 380 ns a run, with 8
//     500 → 400 (medians of three, on cores that share little cache; the best of
//     three numbers of looks, chosen by the same runs).
//   - Eight shards instead of four on two cores: 134 → 115 for 8 by 8 (sixteen: 102),
//     140 → 112 for 64 by 64, a controller with 8 workers 195 → 172, a cycle of one
//     goroutine 91 → 94.
//   - 64 dispatches from one shard rather than each from any, for entries that follow
//     each other lie side by side: among a million keys 420 → 255, among 100,000
//     240 → 205, pipelines of 8 by 8 106 → 99 (sixteen: most of the first, none of the
//     last; 1,024: no more).
//   - Small tables a quarter full at most instead of four fifths, up to some 4,000 keys
//     a shard: where a search ends cannot be foreseen, so the best is that it ends at
//     once. Among a thousand keys 132 → 98, ten thousand 154 → 110, retries of 100,000
//     keys 390 → 270 with the Item's loan. Beyond that size memory is worth more: up
//     to 125,000 keys a shard half full would be 3 % faster and take 72 bytes a key
//     instead of 64.
//   - Segments of up to 672 words after a split instead of 768: 62.9 → 61.4 bytes a key
//     at a full load of 488 keys each, and no slower.
//   - An alarm that is set once for all shards it rang for, and locks only those with
//     something due: 8 % of the CPU of a million delayed keys.
//   - Reading what a run reads first (key, text, place in the table) for all keys that
//     came due together, so that their misses overlap: 4 to 11 % of the same.
//   - Dropped: a bitmap of free slots alone (13 ns a cycle against 5 with the slot
//     freed last); four such slots instead of one (nothing); random choice among
//     shards when only one has keys; the table's first look written out in Add
//     (nothing); an assembler's prefetch of the next key's entry and word (3 % among a
//     million, 13 to 20 % among ten million: too little for assembler); counters of
//     segments kept together (nothing), or none in what removes a key (2 % of a
//     pipeline, and cycles slower); a lock of our own that begins with
//     compare-and-swap without a look before it (nothing; with 64 by 64 a fifth slower).
//
// What was aimed at and not reached: the ratios to client-go's queue in the quiet
// passes of bench/RESULTS.md, and what the stripped queues reach there, without and
// with entries. They were made in a slow hour: of one binary a cycle took 92 ns two
// hours before and 118 after, at real-time priority, where the stripped ones lost less.
//
//   - A cycle: 1.8 instead of 4.3; stripped 3.0 and 2.7, and the bare locks would be 5.5.
//     With {Namespace, Name} keys 2.1, stripped 2.4; through the adapter 1.5. With metrics
//     5.7 instead of 6.5; stripped 9.5 (25 times controller-runtime's instead of 35; 35 in
//     a faster hour; stripped 41). Eight shards cost 11 ns where each cycle finds its shard
//     empty and leaves it so, which must be shown to getters; bands, ages and samples the
//     other 9.
//   - Duplicate adds: 1.27 instead of 1.3; stripped 1.9, which compares hashes only, with
//     entries 1.6: comparing the key is what it costs, and without it two keys with one
//     hash would become one. From two cores 1.3 instead of 2; stripped 1.3: it is the
//     locks' cache lines.
//   - Pipelines of 8 by 8: 5.7 instead of 6; stripped 7.8 and 6.5. Of 64 by 64: 5.3
//     instead of 5.8; stripped 9.2 and 7.1. So an entry is most of the price: it and its
//     key lie in lines of their own, and 80 ns an item, which is what the stripped queue
//     takes, are two lines handed over and back. What ours does with the entry is 15 to
//     35 ns, as in a cycle of one goroutine.
//   - A cycle among a million keys: 1.4 instead of 2.7; stripped 2.4 and 2.2. In a faster
//     hour it was up to 2.1. Each has two reads that miss, the table's words for the key
//     that comes and the one that goes (of 16 MiB a read takes 112 ns there, of 256 MiB 196).
//     With one shard ours takes 225 instead of 270 ns: keys of eight shards alternate, so
//     that neither their texts nor their entries follow each other for long. The stripped
//     ones empty one shard before they look at the next; we owe the others turns. A million
//     keys add 390 ns to a cycle instead of 220; stripped 219 and 246. Among ten million it
//     is 1.5 instead of 2.2; stripped, without entries, 4.1.
//   - Retries: 4.5 instead of 7, 6.6 in CPU time; stripped 8.0 and 5.7. So it is the entry
//     here too. The order in which they come back is not (with entries, shuffled: the same),
//     and the copies of the Item were: the shorter the way, the more of the next key's misses
//     the processor begins early. What is left is the alarm at work on the other core, which
//     ticks once a millisecond in the stripped queues.
//   - A million delayed keys: 2.3 times less CPU instead of 4; stripped 4.2, with entries 3.
//     Nearly a third goes to threads that are woken up and fall asleep (bench, PROFILES.md):
//     in a millisecond, in which 100 keys are due, the alarm rings four times and getters
//     sleep six times. Ringing not sooner than 250 µs after the last time takes a fifth of
//     the CPU away and makes keys 0.15 ms later (0.67 instead of 0.52 at the median, 1.65
//     instead of 1.44 at the slowest hundredth; stripped 1.1 and 2.1): not done, for what is
//     due should run. With getters that do before they sleep what the alarm would do, one
//     ring and four sleeps are left, keys come no later, and 2 to 10 % of the CPU goes: not
//     done, for that is a second way in which time passes, with hooks called by whoever
//     gets. Waking a getter once for all shards, rather than at the first with something
//     due: a quarter more switches between threads, for the core that the timer's goroutine
//     woke sleeps again meanwhile. Fewer looks before sleep where they were in vain, and
//     reading entries of the wheel's next slots ahead: nothing. The slowest hundredth is
//     2.3 ms late instead of 1.6, at real-time priority 1.4 to 1.8; stripped 2.2 and 2.1: it
//     is who else has the cores. AddAfter 2.5 times faster instead of 6; stripped 2.8.
//   - The slowest hundredth of contended Adds is faster than controller-runtime's by
//     2.5, not by 20; stripped 2.5. There an Add appends to a buffer, and a goroutine
//     does the rest.
//
// The critical sections of Add, Get and Done last 20 to 35 ns each, and Done fused
// with Get saves one. Where a contended lock changes hands every 50 to 100 ns, a
// shard gives 4 to 7 million items a second whatever the number of cores. By default
// there are four shards for each processor, at most 16: that should serve 60 million
// items a second, more than reconciling asks for, and each shard that was used keeps
// some 60 KB. That is a projection: only two cores were at hand.
package queue
