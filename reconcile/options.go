package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// Options tune a Controller. Nil and zero fields mean the stated default. New
// copies them: one value may serve several controllers and be changed afterwards.
// Times of more than a century count as a century.
type Options[K comparable] struct {
	// Workers is how many keys are run at once. Default 8, at most 100,000. See
	// SetWorkers.
	Workers int
	// Adapt lets the number of workers follow throttling and latency. Default:
	// it stays as set.
	Adapt *Adapt
	// Batch is how many keys a BatchReconciler gets at most. Default 16, at most
	// 100,000; without a BatchReconciler it means nothing and must be 0.
	Batch int

	// Timeout is a run's deadline: its context ends with the cause ErrDeadline.
	// Default 5 minutes; negative: none.
	//
	// A run that goes on for a tenth of Timeout after its context ended, but at least
	// for 10 ms and at most for 30 s, is reported as stuck: in the log, to
	// Hooks.OnStuck, in the Snapshot and in Health. Its key stays locked until it
	// returns. A source that goes on for so long after it was told to end is reported
	// too.
	Timeout time.Duration
	// EndSuperseded ends a run's context, with the cause ErrSuperseded, when the object of
	// its key gets a newer spec, is to be deleted, or goes, and the run did not do that
	// itself. The run should return soon: what it returns because of that is no failure,
	// and the key runs again at once. An object that changes faster than its runs take
	// never has a whole one. It counts for sources of the controller's own kind (From),
	// and not for batches. Default: the run is not told.
	EndSuperseded bool
	// ReplaceStuck starts a spare worker for each stuck run, so that hung calls
	// cannot use the workers up. Each one left behind costs its goroutine for as
	// long as it hangs. Default: off.
	ReplaceStuck bool
	// StopTimeout bounds how long stopping takes. For two thirds of it running keys may
	// go on. Then their contexts end (ErrShutdown), earlier if the lease cannot be kept
	// for so long (ErrLeaseLost). For another quarter Run waits for them; then it returns
	// and names those that are left. What remains of it is for hooks that have not
	// returned, and for caches.
	//
	// Default: the Manager's StopTimeout, which is also the most; without a Manager 45 s.
	// Negative: contexts end at once, and Run waits as long as by default.
	StopTimeout time.Duration

	// Backoff is how long a failed key waits. Default: queue.Backoff's.
	Backoff queue.Backoff
	// Queue is for what else a queue can do: a Policy in place of Backoff,
	// MaxAttempts, MaxKeys, Tenant, Buckets. Its Name is the
	// controller's, whatever it says. A panic of one of its functions, or
	// runtime.Goexit, is logged. Then the key backs off as Backoff does by default
	// (Policy), belongs to the tenant "" (Tenant), whose weight is 1 (TenantWeight),
	// or waits for up to a second until they are asked again (Buckets). MaxKeys needs
	// room for what the sources list at the start: no key runs before all of that is in.
	Queue queue.Options[K]

	// Resync runs a key again this long after it succeeded without asking for
	// a time itself, less a random 0 to 20 %, so that drift is found and the
	// runs of a fleet spread. After a start, when the whole list runs at once, the
	// first resyncs are spread over all of the interval. It runs in the lowest
	// band. Keys that are known to be gone are not. Default 0: no resync.
	//
	// A parked key is tried again too although nothing happened: after Resync, but at
	// least after an hour, less a random 0 to 20 %.
	Resync time.Duration
	// CacheWait is how long a key that wrote to the store is kept back at most until
	// the caches its controller uses have seen the write (promise S4). Default 30 s.
	CacheWait time.Duration
	// SyncTimeout is how long the sources and caches may take to sync, from when
	// the controller holds its lease, if it needs one. After that Run fails, so that a
	// supervisor or another server can try. Default 0: as long as it takes; Ready and a
	// warning say what is waited for.
	SyncTimeout time.Duration
	// Reads are caches that the reconciler reads although no source watches
	// them: they count for promise S4, for R4, and for the Manager, which runs
	// them. Default: none.
	Reads []Cached

	// Placement says on which servers it runs. Default: the Manager's choice;
	// without a Manager it runs at once.
	Placement lease.Placement
	// Hash spreads keys over shards. It must be the same in every process and
	// version. Default: lease.HashKey, for K = Request; other keys need one when
	// the Placement has shards. A key for which it panics, or calls runtime.Goexit,
	// does not run: each try is logged and fails, and the key backs off.
	Hash func(key K) uint64
	// Writes names the kinds that the reconciler writes besides its own. It is
	// for the Manager's dependency graph only. Default: none.
	Writes []string
	// OnlyDeletes says that the reconciler does nothing to its objects but delete
	// them. An object is deleted once, so such a controller ends every circle of
	// controllers that wake each other, and the Manager does not refuse it for one.
	// Default: it may write them.
	OnlyDeletes bool

	// Middleware wraps the reconciler, the first outermost. Default: none.
	Middleware []func(Reconciler[K]) Reconciler[K]
	// Hooks hear what happens. Default: none.
	Hooks Hooks[K]
	// Logger takes what there is to say. Default: the Manager's, else
	// slog.Default().
	Logger *slog.Logger
}

// Cached is a cache of any kind: *cache.Cache is one.
type Cached interface{ cached }

// cached is what a controller needs to know of a cache. All methods are safe for concurrent
// use, and none but Run blocks.
type cached interface {
	// Name is the cache's name, for logs and snapshots.
	Name() string
	// Kind is the kind of the objects in the cache.
	Kind() string
	// Backend is the backend that feeds the cache. With Kind it says which writes OnRevision
	// can wait for.
	Backend() store.Backend
	// Revision is the one up to which the cache has every change of its kind; zero
	// before it has synced.
	Revision() store.Revision
	// OnRevision calls f once the cache has every change up to r: at once, on the caller's
	// goroutine, if it has them, else later on Run's, which waits for f. Stop reports
	// whether it came before f.
	OnRevision(r store.Revision, f func()) (stop func() bool)
	// Synced is closed once the cache has a whole list of what it holds, and stays closed.
	Synced() <-chan struct{}
	// Run feeds the cache until ctx ends, and blocks meanwhile.
	Run(ctx context.Context) error
}

// Hooks is a set of functions to be told; any may be nil. They are called without a
// lock held, and should be quick: what happened waits for them, except for OnStuck. OnAdd
// and OnDone are called on the goroutine that found out, the others on one of their own. A
// panic in one, or runtime.Goexit, is contained and logged. Run names one that has not
// returned when Options.StopTimeout is over.
type Hooks[K comparable] struct {
	// OnError hears every failure of the reconciler, a mapper or a source, once.
	// Nil: they are logged instead, the first in a row and the one that parks the
	// key as a warning, its retries at debug level, and the success that ends the
	// row as information.
	OnError func(Failure[K])
	// OnAdd hears of a change in a store that makes a source add the key, before
	// it does. What was there when the source started, and what other sources
	// add, it does not hear of.
	OnAdd func(key K, by Origin)
	// OnStuck hears of a run that goes on long after its context ended. The reports of
	// two runs may come at the same time.
	OnStuck func(key K, since time.Duration)
	// OnDone hears the end of every run, with how long it took.
	OnDone func(key K, o Outcome, took time.Duration)
}

// Origin is the change of an object that made a source add a key.
type Origin struct {
	Controller string
	Source     string
	Kind       string
	Key        store.Key // of the object, which may be another than what it is mapped to
	Revision   store.Revision
}

// A Failure is one thing that went wrong.
type Failure[K comparable] struct {
	Controller string
	// Source names the source or mapper that failed; empty: the reconciler did.
	Source string
	// Key is what was run; zero when a source failed.
	Key K
	// Attempt counts the failures in a row before this one.
	Attempt int
	// Parked says that the key is not tried again by itself, but for the slow
	// resync (Options.Resync).
	Parked bool
	Err    error
}

const (
	defaultWorkers     = 8
	defaultBatch       = 16
	defaultTimeout     = 5 * time.Minute
	defaultStopTimeout = 45 * time.Second
	defaultCacheWait   = 30 * time.Second

	maxWorkers = 100_000
	maxBatch   = 100_000
	// Sums of two times, and of one and the age of a process, must not overflow.
	maxTime = 100 * 365 * 24 * time.Hour
)

// complete copies what o refers to, fills in the defaults and refuses what
// cannot work.
func (o *Options[K]) complete(batch bool) error {
	switch {
	case o.Workers < 0 || o.Workers > maxWorkers:
		return fmt.Errorf("Workers is %d, want 0 to %d", o.Workers, maxWorkers)
	case o.Batch < 0 || o.Batch > maxBatch:
		return fmt.Errorf("Batch is %d, want 0 to %d", o.Batch, maxBatch)
	case o.Batch > 0 && !batch:
		return errors.New("Batch is set, but the reconciler is no BatchReconciler")
	case len(o.Middleware) > 0 && batch:
		return errors.New("Middleware wraps a Reconciler, and this is a BatchReconciler")
	case o.EndSuperseded && batch:
		return errors.New("EndSuperseded is set, but a batch has one context for many keys")
	case min(o.Resync, o.SyncTimeout, o.CacheWait) < 0:
		return fmt.Errorf("Resync is %v, SyncTimeout %v and CacheWait %v, want 0 or more", o.Resync, o.SyncTimeout, o.CacheWait)
	case o.Queue.Policy != nil && o.Backoff != (queue.Backoff{}):
		return errors.New("Backoff and Queue.Policy are both set: use one")
	case slices.ContainsFunc(o.Reads, func(c Cached) bool { return isNil(c) }):
		return errors.New("Reads holds a nil cache")
	}
	if i := slices.IndexFunc(o.Middleware, func(m func(Reconciler[K]) Reconciler[K]) bool { return m == nil }); i >= 0 {
		return fmt.Errorf("Middleware[%d] is nil", i)
	}
	o.Workers = cmp.Or(o.Workers, defaultWorkers)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.CacheWait = cmp.Or(o.CacheWait, defaultCacheWait)
	for _, d := range []*time.Duration{&o.Timeout, &o.StopTimeout, &o.Resync, &o.CacheWait, &o.SyncTimeout} {
		*d = min(*d, maxTime)
	}
	if batch {
		o.Batch = cmp.Or(o.Batch, defaultBatch)
	}
	o.Reads = slices.Clone(o.Reads)
	o.Writes = slices.Clone(o.Writes)
	o.Middleware = slices.Clone(o.Middleware)
	if o.Adapt == nil {
		return nil
	}
	a := *o.Adapt
	o.Adapt = &a
	return a.complete(o.Workers)
}

// orZero gives the options that o points to; nil: their zero value.
func orZero[T any](o *T) (options T) {
	if o != nil {
		options = *o
	}
	return options
}

// stuckAfter is how long a run or a source may go on after the end of its context before
// it is reported.
func (o *Options[K]) stuckAfter() time.Duration {
	if o.Timeout < 0 {
		return 30 * time.Second
	}
	return min(max(o.Timeout/10, 10*time.Millisecond), 30*time.Second)
}

// drain is how long runs may go on when the controller stops; grace is how long it then
// waits for the end of those whose contexts have ended.
func (o *Options[K]) drain() time.Duration {
	return max(cmp.Or(o.StopTimeout, defaultStopTimeout), 0) * 2 / 3
}

func (o *Options[K]) grace() time.Duration {
	return cmp.Or(max(o.StopTimeout, 0), defaultStopTimeout) / 4
}

// Adapt lets the number of workers follow what the other side can take, by
// additive increase and multiplicative decrease, as TCP does: after 5 s
// with a throttled run, or with a mean run time above Latency, there are half as
// many; after one without, in which keys were waiting, one more.
type Adapt struct {
	// Min and Max bound the number of workers. Defaults: 1, and eight times
	// Options.Workers. At most 100,000.
	Min, Max int
	// Latency is the mean time of a run above which the other side counts as
	// overloaded. Default: it does not count.
	Latency time.Duration

	interval time.Duration // how often the number is thought over; 5 s but in tests
}

func (a *Adapt) complete(workers int) error {
	switch {
	case min(a.Min, a.Max) < 0 || a.Latency < 0:
		return fmt.Errorf("Adapt has a negative field: %+v", *a)
	case max(a.Min, a.Max) > maxWorkers:
		return fmt.Errorf("Adapt wants %d to %d workers, at most %d can be had", a.Min, a.Max, maxWorkers)
	case a.Max > 0 && a.Min > a.Max:
		return fmt.Errorf("Adapt.Min %d is above Adapt.Max %d", a.Min, a.Max)
	}
	a.Min = cmp.Or(a.Min, 1)
	a.Max = cmp.Or(a.Max, max(min(8*workers, maxWorkers), a.Min))
	a.interval = cmp.Or(a.interval, 5*time.Second)
	return nil
}
