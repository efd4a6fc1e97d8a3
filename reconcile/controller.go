package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// A Controller runs a Reconciler for every key that its sources name:
//
//	sources ──▶ queue ──▶ workers ──▶ Reconcile
//	              ▲                      │ Result, error
//	              └──── settle ◀─────────┘
//
// Make one with New, NewBatch or For, give it sources with Watch, and Run it, best
// through a Manager. Its methods are safe for concurrent use; only Run blocks.
type Controller[K comparable] struct {
	k          *kernel[K] // nil: no constructor made it
	writes     *pendingWrites[K]
	pool       *pool[K]
	sources    *sources[K]
	supervisor supervisor[K]
	summed     introspect.Counts // what the last summary counted; the summaries alone have it
}

// New returns a controller that runs r. K is inferred from r's method. The name
// is for logs, metrics, leases and the debug page, and unique in a Manager. New
// starts nothing. It fails on a nil r, on options that make no sense, and on a
// key type that holds a pointer, an interface or a float: two such keys can look
// alike and be different.
func New[K comparable](name string, r Reconciler[K], o *Options[K]) (*Controller[K], error) {
	c, err := build(name, r, o, false)
	if err != nil {
		return nil, fmt.Errorf("reconcile: New(%s): %w", name, err)
	}
	c.k.rec = r
	for _, m := range slices.Backward(c.k.o.Middleware) {
		if c.k.rec = m(c.k.rec); isNil(c.k.rec) {
			return nil, fmt.Errorf("reconcile: New(%s): a middleware returned nil", name)
		}
		c.k.remember(c.k.rec)
	}
	return c, nil
}

// NewBatch is New for a reconciler of several keys at once. Options.Middleware
// does not apply to it and must be empty.
func NewBatch[K comparable](name string, r BatchReconciler[K], o *Options[K]) (*Controller[K], error) {
	c, err := build(name, r, o, true)
	if err != nil {
		return nil, fmt.Errorf("reconcile: NewBatch(%s): %w", name, err)
	}
	c.k.batch = r
	return c, nil
}

// remember has r told of keys that have left or were removed, if it is a Forgetter or a sweeper.
func (k *kernel[K]) remember(r any) {
	if f, ok := r.(Forgetter[K]); ok {
		k.forgets = append(k.forgets, f)
	}
	if s, ok := r.(sweeper[K]); ok {
		k.sweeps = append(k.sweeps, s)
	}
}

// build makes a controller of r, a Reconciler or a BatchReconciler.
func build[K comparable](name string, r any, o *Options[K], batch bool) (*Controller[K], error) {
	k := &kernel[K]{name: name, o: orZero(o), epoch: time.Now(), rung: make(chan struct{}, 1)}
	switch {
	case name == "":
		return nil, errors.New("no name")
	case isNil(r):
		return nil, errors.New("no reconciler")
	}
	if err := k.o.complete(batch); err != nil {
		return nil, err
	}
	k.ownHash = k.o.Hash != nil
	k.view.Store(&view[K]{logger: k.o.Logger, caches: k.o.Reads})
	if err := k.makeQueue(); err != nil {
		return nil, err
	}
	k.remember(r)
	k.work = parts{&k.mu, make(map[chan struct{}]string)}
	k.parts = parts{&k.mu, make(map[chan struct{}]string)}
	w := &pendingWrites[K]{k: k, of: make(map[K]*pendingWrite), shown: make(map[Cached]store.Revision), waits: make(map[Cached]*waits[K])}
	p := &pool[K]{k: k, settler: settler[K]{k, w}, alarm: &alarm{signal: make(chan struct{}, 1)}, want: k.o.Workers, slots: make(map[*slot[K]]struct{})}
	from := &sources[K]{k: k, writes: w, pool: p}
	c := &Controller[K]{k: k, writes: w, pool: p, sources: from}
	c.supervisor = supervisor[K]{k: k, writes: w, pool: p, sources: from, loading: make(map[int]string)}
	if k.o.Adapt != nil {
		c.supervisor.adapt = &adaptive{Adapt: *k.o.Adapt}
	}
	return c, c.setPlacement(k.o.Placement)
}

// setPlacement decides where the controller runs; nil: here, at once. It is
// called before Run.
func (c *Controller[K]) setPlacement(p lease.Placement) error {
	shards := 1
	if p != nil {
		shards = p.Shards()
	}
	if shards < 1 {
		return fmt.Errorf("placement %v has %d shards, want 1 or more", p, shards)
	}
	if shards > 1 && c.k.o.Hash == nil {
		hash, ok := any(lease.HashKey).(func(K) uint64)
		if !ok {
			return fmt.Errorf("%v needs Options.Hash: there is no stable hash of %T", p, *new(K))
		}
		c.k.o.Hash = hash
	}
	c.k.changeView(func(v *view[K]) {
		v.place = p
		if len(v.holds) != shards {
			v.holds = make([]atomic.Pointer[hold], shards)
		}
		v.leased = leased(p)
	})
	return nil
}

// Watch adds sources. While the controller runs, a new source is started at
// once; the keys of a running controller do not wait for it, and a cache that it
// reads and that nothing has used before is the caller's to run. It fails with
// ErrSourceExists, and with another error if a source of the name was removed and has not
// returned yet, and on a source without a name or Run; then none is added.
func (c *Controller[K]) Watch(sources ...Source[K]) error {
	if err := c.made(); err != nil {
		return fmt.Errorf("%w: Watch", err)
	}
	began := c.startable() != nil
	for _, src := range sources {
		if p, ok := src.cache.(partial); ok && began && p.Shards() > 0 {
			return fmt.Errorf("reconcile: controller %q: Watch: cache %q holds shards: watch it before Run", c.k.name, p.Name())
		}
	}
	if err := c.sources.addSources(sources); err != nil {
		return fmt.Errorf("reconcile: controller %q: Watch: %w", c.k.name, err)
	}
	c.k.wake()
	return nil
}

// Unwatch removes a source and returns when it has ended. Keys that it added
// stay. It fails if there is no such source, and if the source has not
// ended after the time that Options.Timeout says, or when Run's context ends before: then Run waits
// for it and names it. A source that calls Unwatch for itself gets that error.
func (c *Controller[K]) Unwatch(name string) error {
	if err := c.made(); err != nil {
		return fmt.Errorf("%w: Unwatch", err)
	}
	ended, err := c.sources.removeSource(name)
	if err == nil && !ended {
		err = fmt.Errorf("Unwatch(%q): %w", name, errSourceRunning)
	}
	if err != nil {
		return fmt.Errorf("reconcile: controller %q: %w", c.k.name, err)
	}
	return nil
}

var errNotMade = errors.New("reconcile: this Controller is nil or zero: make one with New, NewBatch or For")

// made refuses a Controller that no constructor made.
func (c *Controller[K]) made() error {
	if c == nil || c.k == nil {
		return errNotMade
	}
	return nil
}

// startable refuses a Controller that no constructor made, and one that has run.
func (c *Controller[K]) startable() error {
	if err := c.made(); err != nil {
		return err
	}
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	if c.sources.running != nil {
		return fmt.Errorf("controller %q: %w", c.k.name, errRunning)
	}
	return nil
}

// Name is the controller's name.
func (c *Controller[K]) Name() string { return c.k.name }

// Queue is the controller's queue, to pause, hold or inspect keys.
func (c *Controller[K]) Queue() *queue.Queue[K] { return c.k.q }

// Add runs key as soon as it can. It fails with queue.ErrStopped, queue.ErrFull
// and, when another server runs the key, ErrElsewhere.
func (c *Controller[K]) Add(key K) error {
	return c.add(key, queue.AddOptions{Priority: bandLive})
}

// Kick is Add that does not wait: it ends a backoff or a park.
func (c *Controller[K]) Kick(key K) error {
	return c.add(key, queue.AddOptions{Priority: bandLive, Urgent: true, Reason: "kick"})
}

func (c *Controller[K]) add(key K, o queue.AddOptions) error {
	if err := c.made(); err != nil {
		return fmt.Errorf("%w: Add", err)
	}
	// Only what can never be meant is refused here, not all that a store would:
	// reading every byte of a key costs as much as queueing it.
	if k, ok := any(key).(store.Key); ok && k.Name == "" {
		return fmt.Errorf("reconcile: controller %q: %w", c.k.name, k.Check())
	}
	if c.k.elsewhere(key) {
		return fmt.Errorf("reconcile: controller %q: %v: %w", c.k.name, key, ErrElsewhere)
	}
	return c.writes.admit(key, o)
}

// SetWorkers changes how many keys are run at once, to at most 100,000; 0 runs none.
// More workers start at once; one too many goes when its present run has ended. With
// Options.Adapt the number goes on changing from n.
func (c *Controller[K]) SetWorkers(n int) error {
	if err := c.made(); err != nil {
		return fmt.Errorf("%w: SetWorkers", err)
	}
	if n < 0 || n > maxWorkers {
		return fmt.Errorf("reconcile: controller %q: SetWorkers(%d): want 0 to %d", c.k.name, n, maxWorkers)
	}
	c.pool.change(func() { c.pool.want = n })
	return nil
}

// counts says how the runs so far have ended. It may be called often.
func (c *Controller[K]) counts() introspect.Counts {
	n, _ := c.pool.totals()
	return n
}

// adopt makes the controller part of a Manager, which gives it stop in all to end and runs
// its cache. It is called before Run.
func (c *Controller[K]) adopt(l *slog.Logger, stop time.Duration) {
	c.k.changeView(func(v *view[K]) { v.logger = cmp.Or(v.logger, l) })
	c.k.o.StopTimeout = min(cmp.Or(c.k.o.StopTimeout, stop), stop)
	c.supervisor.owned = nil
}

// String describes the controller, the same text every time.
func (c *Controller[K]) String() string {
	if c.made() != nil {
		return "controller that was not made"
	}
	at, kind, watched := c.supervisor.condition(), "", []string{}
	if at.Kind != "" {
		kind = " of " + at.Kind
	}
	for _, f := range at.Sources {
		watched = append(watched, f.Name)
	}
	slices.Sort(watched)
	return fmt.Sprintf("controller %q%s, watches %s; %d workers, %s, timeout %v, %s", c.k.name, kind,
		cmp.Or(strings.Join(watched, ", "), "nothing"), c.k.o.Workers, c.backoff(), c.k.o.Timeout, at.Placement)
}

func (c *Controller[K]) backoff() string {
	if c.k.o.Queue.Policy != nil {
		return "a retry policy of its own"
	}
	b := c.k.o.Backoff
	base := cmp.Or(b.Base, queue.DefaultBase)
	return fmt.Sprintf("backoff %v to %v", base, max(base, cmp.Or(b.Max, queue.DefaultMax)))
}

// Run runs the controller until ctx ends. Then it stops in this order, and
// returns after its last goroutine has ended: sources; running keys, for two thirds of
// Options.StopTimeout; their contexts (ErrShutdown), for another quarter. What is still
// running then is named in the error, which is a *queue.StopError, and goes on
// alone: no second run of those keys starts in this process. Nothing that was
// only queued is lost, because after a restart the sources list everything again.
// What fails meanwhile, as a placement or the cache that For made, is in the error too.
//
// Values of ctx are there in the runs' contexts; its end is not. A second Run is
// an error: a controller runs once.
func (c *Controller[K]) Run(ctx context.Context) error {
	if err := c.made(); err != nil {
		return fmt.Errorf("%w: Run", err)
	}
	return c.supervisor.run(ctx)
}

// What a Manager and introspection ask the parts of a controller.

func (c *Controller[K]) shown() []Cached                   { return c.k.view.Load().shows }
func (c *Controller[K]) unseen() map[Cached]store.Revision { return c.writes.unseen() }
func (c *Controller[K]) caches() []Cached                  { return c.k.caches() }
func (c *Controller[K]) placementOf() lease.Placement      { return c.k.placementOf() }
