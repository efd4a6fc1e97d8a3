package reconcile

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/internal/written"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile/internal/inrun"
	"github.com/tendhq/tend/store"
)

// run is one run of a key, or of the keys of a batch, and the context of that run.
//
//	run ── Done, Err, Deadline   its own; the channel is made when Done is called
//	  ├── runLog                 the handler of its logger
//	  ├── writes                 what stores note
//	  └── values ── hold.base    the guard, and the values of Run's context
//
// Each run has its own: it is cancelled when the run has returned, and never used
// again, so that a goroutine which keeps it sees that the run is over. A context with a
// deadline alone is seven allocations and a timer; runs of a worker are allocated
// runsAtOnce at a time, so what keeps the context of one keeps the memory of all of them.
type run[K comparable] struct {
	k       *kernel[K]
	hold    *hold
	keys    []K // its key, or those of a batch
	one     [1]K
	attempt int32         // 32 bits, so that a run fits a smaller size of the allocator
	stale   bool          // the caches may lack what was written before, see Info
	started time.Duration // since the controller's epoch

	mu     *sync.Mutex // the slot's; guards what follows
	done   chan struct{}
	cause  error // set once: the context is over
	logger slog.Logger
	writes *runWrites // nil until a store asks for it, so nothing was written
	after  map[*func()]struct{}
	more   *more[K] // nil until it is needed
}

const runsAtOnce = 8

// runWrites are the writes of a run, as the stores note them.
type runWrites = written.Writes[store.Backend, store.Key, store.Revision]

// more is what few runs need: they are smaller without it.
type more[K comparable] struct {
	over  time.Duration // when the context ended while the run went on; 0: it did not
	id    uint64        // 0 until asked for
	doing *string       // what it waits for, see inrun.WaitsFor
	added []slog.Attr   // to its log lines, see AddToLog; replaced, never written to
	stuck bool          // it was reported
	ended chan struct{} // closed when the run has returned; nil: nothing waits
	asked []seen[K]     // changes that matter unless the run wrote them

	// With Options.EndSuperseded:
	since  map[Cached]store.Revision // what caches showed when the run began: it has seen that
	landed func()                    // called after each write of the run
}

func (x *run[K]) moreLocked() *more[K] {
	if x.more == nil {
		x.more = new(more[K])
	}
	return x.more
}

// Info says which run a context belongs to.
type Info struct {
	Controller string
	Key        any    // of the controller's key type; the first of a batch
	Run        uint64 // unique in the process
	Attempt    int    // failures in a row before this run
	// Stale says that the caches may not have seen yet what runs before this one
	// wrote, or may have written (store.ErrUnknownOutcome): read the store. Of what another
	// server wrote before it handed the key over it says nothing: that is in a cache of
	// shards, and one of the whole kind may be behind it.
	Stale bool
}

// seen is one revision that a cache showed for a key.
type seen[K comparable] struct {
	key   K
	cache Cached
	rev   store.Revision

	urgent     bool          // it ends a backoff of the key
	byOthers   bool          // it matters only if the key's own run did not make it
	after      time.Duration // the key runs so much later because of it; 0: at once
	supersedes bool          // a run that began before it need not go on, see Options.EndSuperseded
}

// add is how the change adds the key.
func (s seen[K]) add() queue.AddOptions {
	o := queue.AddOptions{Priority: bandLive, Urgent: s.urgent, After: s.after}
	if s.after > 0 && !s.byOthers {
		o.Reason = reasonSlowed
	}
	return o
}

// object is the key of the object that changed. It is the key that the change adds:
// only sources of the controller's own kind ask whose the change was.
func (s seen[K]) object() store.Key {
	k, _ := any(s.key).(store.Key)
	return k
}

// in reports whether w has the write that made the change. A revision alone does not
// tell: other writes, of this run too, may be higher, and commits of other records may
// share it.
func (s seen[K]) in(w *runWrites) bool {
	return w != nil && w.Has(s.cache.Backend(), s.cache.Kind(), s.object(), s.rev)
}

// anyRun is a run of any type of key.
type anyRun interface {
	identify() (Info, bool)
	isStale() bool
	log() *slog.Logger
	addToLog(attrs []slog.Attr)
	soFar() (wrote *runWrites, over error)
}

// noRun stands for the run outside of one.
type noRun struct{}

func (noRun) identify() (Info, bool)     { return Info{}, false }
func (noRun) isStale() bool              { return false }
func (noRun) log() *slog.Logger          { return slog.Default() }
func (noRun) addToLog([]slog.Attr)       {}
func (noRun) soFar() (*runWrites, error) { return nil, nil }

// runOf is the run that ctx belongs to.
func runOf(ctx context.Context) anyRun {
	if r, ok := ctx.Value(inrun.Key{}).(anyRun); ok {
		return r
	}
	return noRun{}
}

// RunInfo tells which run ctx belongs to; not ok outside of a run.
func RunInfo(ctx context.Context) (Info, bool) {
	return runOf(ctx).identify()
}

// Logger returns the logger of the run that ctx belongs to. Its lines carry the
// controller, the key, the run's id and the attempt. Outside of a run it is
// slog.Default().
func Logger(ctx context.Context) *slog.Logger {
	return runOf(ctx).log()
}

// AddToLog adds attributes to the log lines of the run that ctx belongs to: to those of
// Logger, also of a Logger that was asked for before, and to the kernel's lines about how
// the run ended. Middleware calls it: package tracing adds the trace's id. Outside of a
// run it does nothing. It is safe for concurrent use.
func AddToLog(ctx context.Context, attrs ...slog.Attr) {
	runOf(ctx).addToLog(attrs)
}

// lastID is the last number of a run or a worker.
var lastID atomic.Uint64

func (x *run[K]) identify() (Info, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	m := x.moreLocked()
	if m.id == 0 {
		m.id = lastID.Add(1)
	}
	return Info{Controller: x.k.name, Key: x.keys[0], Run: m.id, Attempt: int(x.attempt), Stale: x.stale}, true
}

func (x *run[K]) isStale() bool { return x.stale }

// Caches implements inrun.Run.
func (x *run[K]) Caches() iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, c := range x.k.view.Load().shows {
			if !yield(c) {
				return
			}
		}
	}
}

// Wrote implements inrun.Run.
func (x *run[K]) Wrote(b store.Backend, kind string) store.Revision {
	if w, _ := x.soFar(); w != nil {
		return w.Highest(b, kind)
	}
	return 0
}

func (x *run[K]) log() *slog.Logger {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.logger == (slog.Logger{}) {
		x.logger = *slog.New((*runLog[K])(x))
	}
	return &x.logger
}

func (x *run[K]) addToLog(attrs []slog.Attr) {
	x.mu.Lock()
	defer x.mu.Unlock()
	m := x.moreLocked()
	m.added = slices.Concat(m.added, attrs)
}

// toLog is what AddToLog added.
func (x *run[K]) toLog() []slog.Attr {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.moreLocked().added
}

// Note implements inrun.Run.
func (x *run[K]) Note(what *string) (before *string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	m := x.moreLocked()
	before, m.doing = m.doing, what
	return before
}

// does says what the run does instead of ending.
func (x *run[K]) does() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if doing := x.moreLocked().doing; doing != nil {
		return "it waits for " + *doing
	}
	return "it goes on although its context ended"
}

// runLog is a run as the handler of its logger. It makes the attributes when a line is
// written: for most runs none is.
type runLog[K comparable] run[K]

// Enabled implements slog.Handler.
func (l *runLog[K]) Enabled(ctx context.Context, level slog.Level) bool {
	return l.k.log().Handler().Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (l *runLog[K]) Handle(ctx context.Context, r slog.Record) error {
	return l.handler().Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l *runLog[K]) WithAttrs(attrs []slog.Attr) slog.Handler { return l.handler().WithAttrs(attrs) }

// WithGroup implements slog.Handler.
func (l *runLog[K]) WithGroup(name string) slog.Handler { return l.handler().WithGroup(name) }

func (l *runLog[K]) handler() slog.Handler {
	x := (*run[K])(l)
	i, _ := x.identify()
	attrs := []slog.Attr{
		slog.String("controller", i.Controller), slog.Any("key", i.Key), slog.Uint64("run", i.Run), slog.Int("attempt", i.Attempt),
	}
	return x.k.log().Handler().WithAttrs(append(attrs, x.toLog()...))
}

// Deadline implements context.Context.
func (x *run[K]) Deadline() (time.Time, bool) {
	if by := x.by(); by > 0 {
		return x.k.epoch.Add(by), true
	}
	return time.Time{}, false
}

// by is the deadline, since the controller's epoch; 0: none.
func (x *run[K]) by() time.Duration {
	if x.k.o.Timeout <= 0 {
		return 0
	}
	return x.started + x.k.o.Timeout
}

// Done implements context.Context.
func (x *run[K]) Done() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.done == nil {
		x.done = make(chan struct{})
		if x.cause != nil {
			close(x.done)
		}
	}
	return x.done
}

// Err implements context.Context.
func (x *run[K]) Err() error {
	_, over := x.soFar()
	switch {
	case over == nil:
		return nil
	case errors.Is(over, ErrDeadline):
		return context.DeadlineExceeded
	}
	return context.Canceled
}

// Value implements context.Context. context.Cause asks for a value too.
func (x *run[K]) Value(key any) any {
	if _, ok := key.(inrun.Key); ok {
		return x
	}
	x.mu.Lock()
	if (*runWrites)(nil).Value(key) != nil {
		defer x.mu.Unlock()
		if x.writes == nil {
			x.writes = new(runWrites)
			if x.more != nil {
				x.writes.Landed = x.more.landed
			}
		}
		return x.writes
	}
	cause := x.cause
	x.mu.Unlock()
	if cause == nil {
		return x.hold.base.Value(key)
	}
	over, cancel := context.WithCancelCause(x.hold.base) // which has the cause for context.Cause
	cancel(cause)
	return over.Value(key)
}

// AfterFunc is what the context package looks for in a parent that is not its
// own; without it every derived context costs a goroutine.
func (x *run[K]) AfterFunc(f func()) (stop func() bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cause != nil {
		go f() // as context.AfterFunc does: f is the caller's to wait for
		return func() bool { return false }
	}
	if x.after == nil {
		x.after = make(map[*func()]struct{})
	}
	id := &f
	x.after[id] = struct{}{}
	return func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		_, ok := x.after[id]
		delete(x.after, id)
		return ok
	}
}

// endLocked cancels the context. Only the first end counts.
func (x *run[K]) endLocked(cause error) {
	if x.cause != nil {
		return
	}
	x.cause = cause
	if x.done != nil {
		close(x.done)
	}
	for f := range x.after {
		delete(x.after, f)
		go (*f)() // as context.AfterFunc does
	}
}

// soFar gives what the run wrote to stores, nil for nothing, and the cause of the end of
// its context, nil if that has not ended.
func (x *run[K]) soFar() (wrote *runWrites, over error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.writes != nil && !x.writes.Empty() {
		wrote = x.writes
	}
	return wrote, x.cause
}
