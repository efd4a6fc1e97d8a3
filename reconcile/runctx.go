package reconcile

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/store"
)

// runCtx is the context of one run. A run that never looks at its context costs
// nothing for it: the deadline needs no timer (the watchdog looks at all runs),
// the channel and the logger are made when first asked for, and an untouched runCtx serves the next run too.
//
//	runCtx ── Done, Err, Deadline   its own: no allocation but the channel
//	   ├── writes             what a store notes
//	   └── values ── base     the hold's guard and the values of Run's ctx
//
// It is no wrapper around context.WithDeadline because that costs seven
// allocations and a timer for each run, several times the rest of the cycle.
type runCtx[K comparable] struct {
	c       *Controller[K]
	base    context.Context // never cancelled; carries the guard
	key     K
	attempt int
	stale   bool
	by      time.Duration // deadline, since the controller's epoch; 0: none
	touched atomic.Bool   // somebody may have kept something of it
	waits   atomic.Pointer[string]

	mu     sync.Mutex // guards what follows
	done   chan struct{}
	err    error // set once: the context is over
	cause  error
	values context.Context // base; after the end one that carries the cause too
	caused bool            // it does
	asked  bool            // for writes, by a store that is about to note one
	after  map[*func()]struct{}
	id     uint64       // 0 until asked for: few runs ever need one
	log    *slog.Logger // for this run; nil until asked for
	writes store.Writes
}

// Info says which run a context belongs to.
type Info struct {
	Controller string
	Key        any    // of the controller's key type; the first of a batch
	Run        uint64 // unique in the process
	Attempt    int    // failures in a row before this run
	// Stale says that the caches may not have seen yet what runs before this one
	// wrote, or may have written (store.ErrUnknownOutcome): read the store.
	Stale bool
}

// RunInfo tells which run ctx belongs to; not ok outside of a run.
func RunInfo(ctx context.Context) (Info, bool) {
	r, ok := ctx.Value(runKey{}).(interface{ identify() Info })
	if !ok {
		return Info{}, false
	}
	return r.identify(), true
}

// Logger returns the logger of the run that ctx belongs to. Its lines carry the
// controller, the key, the run's id and the attempt. Outside of a run it is
// slog.Default().
func Logger(ctx context.Context) *slog.Logger {
	r, ok := ctx.Value(runKey{}).(interface{ runLogger() *slog.Logger })
	if !ok {
		return slog.Default()
	}
	return r.runLogger()
}

type runKey struct{}

var lastRun atomic.Uint64

func (x *runCtx[K]) identify() Info {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.identifyLocked()
}

func (x *runCtx[K]) identifyLocked() Info {
	if x.id == 0 {
		x.id = lastRun.Add(1)
	}
	return Info{Controller: x.c.name, Key: x.key, Run: x.id, Attempt: x.attempt, Stale: x.stale}
}

func (x *runCtx[K]) runLogger() *slog.Logger {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.log == nil {
		i := x.identifyLocked()
		x.log = x.c.log().With("controller", i.Controller, "key", i.Key, "run", i.Run, "attempt", i.Attempt)
	}
	return x.log
}

func (x *runCtx[K]) touch() {
	if !x.touched.Load() { // reads are cheaper than writes when many goroutines share it
		x.touched.Store(true)
	}
}

// Deadline implements context.Context.
func (x *runCtx[K]) Deadline() (time.Time, bool) {
	x.touch()
	if x.by == 0 {
		return time.Time{}, false
	}
	return x.c.epoch.Add(x.by), true
}

// Done implements context.Context.
func (x *runCtx[K]) Done() <-chan struct{} {
	x.touch()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.done == nil {
		x.done = make(chan struct{})
		if x.err != nil {
			close(x.done)
		}
	}
	return x.done
}

// Err implements context.Context.
func (x *runCtx[K]) Err() error {
	x.touch()
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// Value implements context.Context. context.Cause asks for a value too, and
// gets it from the cancelled context that valuesLocked adds at the end.
func (x *runCtx[K]) Value(key any) any {
	x.touch()
	if _, ok := key.(runKey); ok {
		return x
	}
	if w := x.writes.Value(key); w != nil {
		x.mu.Lock()
		x.asked = true
		x.mu.Unlock()
		return w
	}
	x.mu.Lock()
	values := x.valuesLocked()
	x.mu.Unlock()
	return values.Value(key)
}

func (x *runCtx[K]) valuesLocked() context.Context {
	if x.values == nil {
		x.values = x.base
	}
	if x.cause != nil && !x.caused {
		over, cancel := context.WithCancelCause(x.values)
		cancel(x.cause)
		x.values, x.caused = over, true
	}
	return x.values
}

// AfterFunc is what the context package looks for in a parent that is not its
// own; without it every derived context costs a goroutine.
func (x *runCtx[K]) AfterFunc(f func()) (stop func() bool) {
	x.touch()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err != nil {
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

// end cancels the context. Only the first end counts.
func (x *runCtx[K]) end(err, cause error) {
	x.touch()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err != nil {
		return
	}
	x.err, x.cause = err, cause
	if x.done != nil {
		close(x.done)
	}
	for f := range x.after {
		go (*f)()
	}
	x.after = nil
}

// ended gives the cause if the context is over; nil: it is not.
func (x *runCtx[K]) ended() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cause
}

// wrote gives what the run wrote to stores; nil: nobody asked for it, so
// nothing.
func (x *runCtx[K]) wrote() *store.Writes {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.asked {
		return nil
	}
	return &x.writes
}
