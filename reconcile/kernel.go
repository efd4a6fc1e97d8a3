package reconcile

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile/internal/recent"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// kernel is what the parts of a controller share: what it was made with, its queue,
// and which keys it may run. Each part has it.
//
// The queue is one for the whole life of the controller, over all holds of a lease:
// the run of a key that outlives a hold keeps the key locked, which a new queue would
// forget.
type kernel[K comparable] struct {
	name    string
	rec     Reconciler[K]
	batch   BatchReconciler[K] // instead of rec
	forgets []Forgetter[K]     // the reconciler and its middleware, as far as they remember keys
	sweeps  []sweeper[K]       // the same, as far as they remember keys that wait
	o       Options[K]
	q       *queue.Queue[K]
	epoch   time.Time // times of runs are counted from here
	ownHash bool      // o.Hash is the user's

	// The locks of the package, in the order in which one goroutine may take them:
	//
	//	Manager.mu ▶ kernel.mu ▶ slot.mu ▶ that of a runWrites
	//	pendingWrites.pending ▶ that of a runWrites
	//	mapping.mu
	//	failures.mu
	//
	// No hook, reconciler, source, log line or queue operation runs under any of them. Under
	// Manager.mu runners and placements are asked for their names, shards and leases, and
	// under pendingWrites.pending caches for their kinds and revisions. A run that does not
	// fail takes slot.mu and, if a run has written something, pendingWrites.pending: kernel.mu
	// is for what changes seldom, and for the brake. A run takes it only while view.braking says
	// that the spec of a key changed.
	mu   sync.Mutex              // guards mail, replacing view, parts, and what pool, sources and supervisor say
	view atomic.Pointer[view[K]] // a change replaces what it points to
	mail []func()                // for the supervisor to call, in order
	rung chan struct{}           // capacity 1: see wake

	brake brake[K] // R5: guarded by mu
	fails failures[K]

	// What Run waits for at its end.
	work  parts // the sources, the workers and the placement
	parts parts // what serves them, and hooks
}

// wake has the supervisor look at what there is to do: there is mail, a source was added or
// removed, has synced or ended, or a cache of Options.Reads has synced. It does not wait.
func (k *kernel[K]) wake() { sleep.Wake(k.rung) }

// post has the supervisor call f. It does not wait; what is posted when the controller does
// not run is called when it does.
func (k *kernel[K]) post(f func()) {
	k.mu.Lock()
	k.mail = append(k.mail, f)
	k.mu.Unlock()
	k.wake()
}

// takeMail calls what was posted. It is for the supervisor's goroutine.
func (k *kernel[K]) takeMail() {
	k.mu.Lock()
	mail := k.mail
	k.mail = nil
	k.mu.Unlock()
	for _, f := range mail {
		f()
	}
}

// Priorities of what sources add: what was there at the start comes after what
// happens. What is not in order there comes first, so that a process that does not live
// long enough to look at everything still gets on. A resync comes last.
var (
	bandResync  = queue.At(-101)
	bandInitial = queue.At(-100)
	bandUnready = queue.At(-99)
	bandLive    = queue.At(0)
)

// othersPause is how long a key waits that runs for FromOptions.ByOthers: two writers that
// disagree about an object keep no worker busy.
const othersPause = time.Second

// view is the part of a controller's state that every add and every run reads. A
// change replaces it as a whole, so that they need no lock.
type view[K comparable] struct {
	holds  []atomic.Pointer[hold] // the hold of each shard; nil: this server may not run its keys
	place  lease.Placement        // Options.Placement, or the Manager's choice; nil: here, at once
	leased bool                   // place takes leases
	kind   string                 // of the objects that the controller is about; "": not known
	logger *slog.Logger
	opened time.Duration // when the workers began, since epoch

	caches []Cached       // that the controller reads: those of its sources and Options.Reads
	shows  []Cached       // of these, those whose changes a source turns into keys of their own kind
	exists []func(K) bool // ask a source whether anything is declared under a key

	recent  *recent.Runs[K] // nil: nothing keeps runs
	braking bool            // the brake has keys
}

// changeView replaces the view by a copy that f has changed.
func (k *kernel[K]) changeView(f func(v *view[K])) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changeViewLocked(f)
}

func (k *kernel[K]) changeViewLocked(f func(v *view[K])) {
	v := *k.view.Load()
	f(&v)
	k.view.Store(&v)
}

// hold is the right to run the keys of one shard, from gaining it to losing it.
// A controller without leases has one for all keys.
type hold struct {
	shard int
	base  context.Context // never cancelled; carries the guard and the values of Run's context
	lease lease.Lease     // nil: there is nothing to lose
}

// trusted asks the lease itself. A process that was stopped for longer than its
// lease is back at work before it has been told of the loss.
func (h *hold) trusted() bool {
	if h.lease == nil {
		return true
	}
	_, ok := h.lease.Held()
	return ok
}

func (k *kernel[K]) log() *slog.Logger { return cmp.Or(k.view.Load().logger, slog.Default()) }

// since is the time since the controller was made.
func (k *kernel[K]) since() time.Duration { return time.Since(k.epoch) }

// kindOf is the kind of the objects that the controller is about; "": not known.
func (k *kernel[K]) kindOf() string { return k.view.Load().kind }

func (k *kernel[K]) placementOf() lease.Placement { return k.view.Load().place }

// caches gives what the controller reads; the slice is never written to.
func (k *kernel[K]) caches() []Cached { return k.view.Load().caches }

// shardOf is the shard of a key; not ok: Options.Hash failed.
func (k *kernel[K]) shardOf(key K) (shard int, ok bool) { return k.shardIn(k.view.Load(), key) }

func (k *kernel[K]) shardIn(v *view[K], key K) (shard int, ok bool) {
	if len(v.holds) == 1 {
		return 0, true
	}
	if !k.ownHash {
		return lease.Shard(k.o.Hash(key), len(v.holds)), true
	}
	var hash uint64
	ok = k.contain("Hash", func() { hash = k.o.Hash(key) })
	return lease.Shard(hash, len(v.holds)), ok
}

// unknownHold stands for the hold of a key whose Options.Hash failed. Such a key is kept
// in the queue and fails until Hash works: any server may be the one that is to run it.
var unknownHold = &hold{shard: -1}

var errHash = errors.New("Options.Hash panicked or called runtime.Goexit: the key's shard is not known")

// holdOf is the right to run the key; nil: this server has none.
func (k *kernel[K]) holdOf(key K) *hold {
	v := k.view.Load()
	shard, ok := k.shardIn(v, key)
	if !ok {
		return unknownHold
	}
	return v.holds[shard].Load()
}

// elsewhere reports whether the key needs a lease that this server does not have.
func (k *kernel[K]) elsewhere(key K) bool { return k.view.Load().leased && k.holdOf(key) == nil }

// enqueue adds a key, and drops it if its shard was lost meanwhile: what was dropped
// with the shard does not include it, and it would be ready for ever.
func (k *kernel[K]) enqueue(key K, o queue.AddOptions) error {
	err := k.q.AddWith(key, o)
	if err == nil && k.elsewhere(key) {
		k.drop(key)
	}
	return err
}

// drop removes a key of another server. Its shard may have come back since the caller
// asked, and with it an add that was dropped too: sources that list bring such a key
// again, others do not.
func (k *kernel[K]) drop(key K) {
	if k.q.Remove(key) && k.holdOf(key) != nil {
		_ = k.q.AddWith(key, queue.AddOptions{Priority: bandLive}) // fails only when the controller stops
	}
}

// dropOthers removes the keys that this server may not run any more.
func (k *kernel[K]) dropOthers() {
	for e := range k.q.Snapshot() {
		if k.holdOf(e.Key) == nil {
			k.drop(e.Key)
		}
	}
}

// report reports one failure, once: to the hook or else to the log. again says that
// the one before it failed too, and that this one is no news. added goes to the log line.
func (k *kernel[K]) report(f Failure[K], again bool, added ...slog.Attr) {
	if hook := k.o.Hooks.OnError; hook != nil {
		k.contain("OnError", func() { hook(f) })
		return
	}
	level := slog.LevelWarn
	if again {
		level = slog.LevelDebug
	}
	if !k.log().Enabled(context.Background(), level) {
		return
	}
	what, of := "reconcile: run failed", []slog.Attr{slog.Any("key", f.Key), slog.Int("attempt", f.Attempt)}
	switch {
	case f.Source != "":
		what, of = "reconcile: source failed", []slog.Attr{slog.String("source", f.Source)}
	case f.Parked:
		what = "reconcile: run failed for good, its key is parked"
	}
	attrs := append([]slog.Attr{slog.String("controller", f.Controller), slog.Any("err", store.Brief(f.Err))}, of...)
	if p := new(PanicError); errors.As(f.Err, &p) {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	k.log().LogAttrs(context.Background(), level, what, append(attrs, added...)...)
}

// recovered logs the end of a row of failures that was logged.
func (k *kernel[K]) recovered(attrs ...slog.Attr) {
	if k.o.Hooks.OnError == nil {
		attrs = append([]slog.Attr{slog.String("controller", k.name)}, attrs...)
		k.log().LogAttrs(context.Background(), slog.LevelInfo, "reconcile: works again", attrs...)
	}
}

// makeQueue makes the queue. What it calls of the user's is contained.
func (k *kernel[K]) makeQueue() (err error) {
	qo := k.o.Queue
	qo.Name = k.name
	k.containFuncs(&qo)
	if qo.Policy == nil {
		qo.Policy = k.o.Backoff.Policy()
	}
	hooks := orZero(qo.Hooks)
	k.containHooks(&hooks)
	qo.Hooks = &hooks
	k.q, err = queue.New(&qo)
	return err
}

// containHooks wraps the hooks of the queue. The controller itself need not know that a hold
// expired: the key's next run, which may have begun already, looks at the caches.
func (k *kernel[K]) containHooks(h *queue.Hooks[K]) {
	if expired := h.HoldExpired; expired != nil {
		h.HoldExpired = func(over queue.Scope[K], reason string) { // the queue's timer calls this, and must go on
			k.parts.start("hook HoldExpired", func() {
				k.containHere("HoldExpired", func() { expired(over, reason) })
			})
		}
	}
	if parked := h.Parked; parked != nil {
		h.Parked = func(key K, attempts int, err error) {
			k.contain("Parked", func() { parked(key, attempts, err) })
		}
	}
	exhausted := h.Exhausted
	h.Exhausted = func(key K, attempts int, err error) {
		if exhausted != nil {
			k.contain("Exhausted", func() { exhausted(key, attempts, err) })
		}
		k.fails.gaveUp(key)
	}
}

// contain calls a hook on a goroutine of its own and waits for it, so that whatever
// the hook does ends nothing else. It reports whether the hook returned; if not, the
// log says why.
func (k *kernel[K]) contain(name string, hook func()) (ok bool) {
	return k.returned(name, contain.Apart(func() error { hook(); return nil }))
}

// containHere is contain on the goroutine of the caller, for hooks that are called
// too often for a goroutine each. One that calls runtime.Goexit ends the caller.
func (k *kernel[K]) containHere(name string, hook func()) (ok bool) {
	err := contain.ErrGoexit // what a deferred function sees if Call does not return
	defer func() { ok = k.returned(name, err) }()
	err = contain.Call(func() error { hook(); return nil })
	return
}

// returned logs why a hook did not return.
func (k *kernel[K]) returned(name string, err error) (ok bool) {
	if err != nil {
		k.log().Error("reconcile: hook failed", append([]any{"controller", k.name, "hook", name, "err", store.Brief(err)}, contain.Stack(err)...)...)
	}
	return err == nil
}

// containFuncs wraps the functions that the queue calls, so that a panic of one, or
// runtime.Goexit, is logged. It ends nothing, but that runtime.Goexit in Buckets ends a
// worker, which is replaced:
//
//	Policy        the failed key waits as Backoff says by default
//	Tenant        the key belongs to no tenant
//	TenantWeight  the tenant has the weight 1
//	Buckets       the key waits for up to a second, and they are asked again
//
// An add calls Tenant and TenantWeight, also one by the supervisor, and one by a worker
// whose items are not settled yet: neither may lose its goroutine.
func (k *kernel[K]) containFuncs(o *queue.Options[K]) {
	if policy := o.Policy; policy != nil {
		fallback := queue.Backoff{}.Policy()
		o.Policy = func(attempt int, err error) (d time.Duration) {
			if !k.contain("Queue.Policy", func() { d = policy(attempt, err) }) {
				d = fallback(attempt, err)
			}
			return d
		}
	}
	if tenant := o.Tenant; tenant != nil {
		o.Tenant = func(key K) (t string) {
			k.contain("Queue.Tenant", func() { t = tenant(key) })
			return t
		}
	}
	if weight := o.TenantWeight; weight != nil {
		o.TenantWeight = func(tenant string) (w int) {
			k.contain("Queue.TenantWeight", func() { w = weight(tenant) })
			return max(w, 1)
		}
	}
	if buckets := o.Buckets; buckets != nil {
		paused, _ := ratelimit.NewBucket("paused: Options.Queue.Buckets failed", 1e6, 1e6) // fails for other numbers
		o.Buckets = func(key K, dst []*ratelimit.Bucket) (b []*ratelimit.Bucket) {
			if !k.containHere("Queue.Buckets", func() { b = buckets(key, dst) }) {
				if paused.Stats().Until.IsZero() { // else each failure would keep all keys that wait for longer
					paused.Throttle(time.Now().Add(time.Second))
				}
				return append(dst[:0], paused)
			}
			return b
		}
	}
}

// mostBrake is the longest time for which a key is put off: it is never slower than its resync.
func (k *kernel[K]) mostBrake() time.Duration {
	if k.o.Resync > 0 {
		return min(k.o.Resync, maxBrake)
	}
	return maxBrake
}

// specChanged tells the brake that the spec of a key's object has changed (brake.change), that the object
// came, or that it is gone.
func (k *kernel[K]) specChanged(key K, came, gone bool) (wait time.Duration, first bool) {
	if came && !k.view.Load().braking { // a bulk create takes no lock for it
		return 0, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch now := k.since(); {
	case gone:
		k.brake.gone(key, now)
	case came:
		wait, first = k.brake.came(key, now)
	default:
		wait, first = k.brake.change(key, now)
	}
	if len(k.brake.of) > 0 && !k.view.Load().braking {
		k.changeViewLocked(func(v *view[K]) { v.braking = true })
	}
	return wait, first
}

// beganRun tells the brake that a run of the key begins.
func (k *kernel[K]) beganRun(key K) {
	if !k.view.Load().braking {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.brake.began(key, k.since(), k.mostBrake())
}

// sweepBrake has the brake forget the keys that are quiet.
func (k *kernel[K]) sweepBrake() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.brake.sweep(k.since())
	if k.view.Load().braking && len(k.brake.of) == 0 {
		k.changeViewLocked(func(v *view[K]) { v.braking = false })
	}
}
