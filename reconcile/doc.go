// Package reconcile keeps things as declared: it calls your function for every key
// that something happened to, until it says that the world is as it should be.
//
//	sources ──▶ queue ──▶ workers ──▶ Reconcile(ctx, key) (Result, error)
//	              ▲                      │
//	              └──── settle ◀─────────┘        a Manager runs all of it
//
// A program is a [Controller] for each kind of thing ([For], [New], [NewBatch]), the
// sources that wake its keys ([Controller.Watch]), and a [Manager] that runs the
// controllers with the caches and leases they use. Sources are the changes of a
// store ([From]; [Map], [Owns] and [Same] for keys that depend on other objects), a list
// that is polled ([Every]), a channel ([Chan]), HTTP calls (package webhook), or any [Source].
//
// # What is promised
//
//   - R1. Level-triggered: a reconciler gets a key, never an event.
//   - R2. An error beats the Result. [RetryAfter] carries a delay with an error or
//     without one; [Terminal] parks the key with its reason until what is wanted
//     changes, the key is kicked, or the slow resync comes round. A restart tries
//     everything once more.
//   - R3. A panic is an error with a stack; the others go on. A run past its
//     deadline has its context ended with a cause that names whose deadline it
//     was; one that ignores this is reported as stuck and keeps its key.
//   - R4. No key is run before every source has listed what there is.
//   - S4. A key that wrote to a store is not run again before the caches that its
//     controller uses have seen the write, or [Options.CacheWait] has passed;
//     then [Info] says that they are stale. No worker waits.
//   - L1, L2. Under a lease the run's context carries the guard that the store
//     checks, so a deposed server's write is refused. A lost lease ends the runs and
//     waits for them; lost and won again never gives two live runs.
//   - Q8. Run returns after the last goroutine has ended. What ignores the end of
//     its context is named in the error, and no second run of its key begins.
//
// # What is not
//
// A run may happen again at any time: reconcilers must be idempotent. States in between
// are skipped. There is no order between keys beyond priority.
//
// # The context of a run
//
// It ends at [Options.Timeout] ([ErrDeadline]), when the lease is lost
// ([ErrLeaseLost]), when the controller's time to drain is over ([ErrShutdown]), with
// [Options.EndSuperseded] when the object has changed ([ErrSuperseded]), and
// when the run returns. [context.Cause] tells which. It carries the values of Run's
// context, the lease's guard, and what [Logger] and [RunInfo] give. It does not end
// when Run's context does: runs are drained first.
//
// # Urgency
//
// Only an urgent change ends a backoff: the generation rose, deletion was asked for, the
// object is new, gone or unpaused, or it got [store.AnnotationReconcileNow], and the key's
// own run did not write that revision.
//
// # Several servers
//
// [Options.Placement] says where keys run; package lease has the placements. Without
// one, a Manager runs controllers on a backend that other processes can open on one server
// at a time, and all others at once.
package reconcile

// Design notes.
//
// An ordinary add of a key that is backing off does not end the backoff: a reconciler that
// fails after it wrote something would wake itself without pause. A watch can be faster than
// the write that it reports, so while the key is running the question whether a change is
// urgent waits for the end of the run.
//
// A controller is one queue, a pool of workers, and one supervisor: the goroutine of
// Run, which learns from messages what happened (shards gained and lost, sources synced
// and ended) and brings sources and workers in line with it. Were transitions made by
// whatever goroutine notices an event, a lease that is lost and won again could give a
// controller two lives at once.
//
// The queue is one for the controller's whole life, also over several holds of a
// lease: a key's run that outlives a hold keeps the key locked, which a fresh
// queue would forget.
//
// What becomes of a key is decided in pure code (outcome.go) and carried out in one
// place (settle.go).
//
// The run's context is a type of this package, not context.WithDeadline: that costs
// seven allocations and a timer for each run. Several of these are one allocation, whose
// memory is not used again; the channel is made when Done is called, and one timer serves
// the deadlines of all runs, which may end a few milliseconds late and never early.
//
// One generic type each; there are no Typed twins. Options are a struct, so that
// they can be read, compared and printed. Builders that chain, and constructors that
// panic, were left out: what is missing is an error of New.
//
// The parts of a controller are fields with names and not embedded: of an embedded type the
// compiler writes a wrapper for each method, at each level and in each package that makes a
// controller of some type of keys. They were two fifths of the functions of such a program,
// and a third of the time that it took to build.
//
// A Result beside an error is ignored, and RetryAfter is the one way to say both a
// failure and a time: a delay that is taken from the one and dropped with the other
// depends on which line of the reconciler failed.
//
// A failed poll takes no key for gone, a closed channel is reported, a source that
// ended is not restarted: silence is the worst answer of a source.
//
// Dependency cycles count mapped sources only. A parent that writes its children and
// watches them is everyday life; a cycle of mapped kinds feeds itself.

// The states of a controller that runs, which its supervisor goes through. A test holds
// this against the transitions in supervisor.go.
//
//	new         ─▶ waiting      Run was called
//	waiting     ─▶ syncing      a shard was gained: sources are started
//	waiting     ─▶ running      … and there is nothing to sync
//	waiting     ─▶ draining     Run's context ended, or the controller cannot go on
//	syncing     ─▶ running      all sources and caches have synced: workers are started
//	syncing     ─▶ releasing    the last shard was lost: sources are told to end
//	syncing     ─▶ waiting      … and there are none
//	syncing     ─▶ draining
//	running     ─▶ releasing    the last shard was lost: sources and workers are told to end
//	running     ─▶ waiting      … and there are no sources
//	running     ─▶ draining
//	releasing   ─▶ waiting      the last source has ended
//	releasing   ─▶ syncing      a shard was gained: sources start again as they end
//	releasing   ─▶ running      … and there is nothing to sync
//	releasing   ─▶ draining
//	draining    ─▶ cancelling   two thirds of Options.StopTimeout are over: the contexts of runs end
//	draining    ─▶ stopped      nothing is left
//	cancelling  ─▶ stopped      nothing is left, or another quarter is over

// The files, from the ground up; a file uses only what is declared in itself and in
// those before it (TestFilesPointDown):
//
//	reconciler    what users write: Reconciler, Result
//	errors        causes and errors, Terminal, RetryAfter
//	contain       panics and runtime.Goexit of user code
//	newer         S5: objects of a newer version
//	options       what New is told
//	parts         goroutines that Run waits for and names
//	outcome       what a run came to: pure
//	brake         R5: keys whose spec changes too often: pure
//	failures      which keys fail, and for which cause
//	kernel        what all parts of a controller share
//	shards        caches that hold some shards of a kind
//	run           one run and its context
//	writes        S4: what runs wrote and caches lack
//	slot          one worker as others see it; deadlines
//	settle        what follows a run
//	worker        the workers
//	adapt         … how many
//	source        Source, Sink
//	feed          a source of a running controller; its sink
//	outlet        … as the sources below see it
//	predicate     which changes matter
//	cachesource   sources: the changes of a cache
//	mapper        … mapped to other keys
//	owners        … to their owners
//	every         … a list that is polled
//	chan          … a channel
//	group         several controllers under one placement
//	milestones    what a healthy controller says
//	supervisor    what runs when
//	condition     how all of that is at a moment
//	machine       what a controller is made of
//	keys          introspection: its keys
//	controller    Controller
//	for           controllers of the objects of a store
//	each          … of a list
//	cycles        controllers that wake each other in a circle
//	summary       a line in the log for each controller
//	claims        what one Manager of a process has for itself
//	manager       Manager
//	stack         introspection: where a run stands
//	observe       … what a Manager runs
//	graph         … which controllers wake which
//	health        … health and readiness
