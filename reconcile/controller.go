package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
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
	m machineOf[K] // nil: no constructor made it
}

// machineOf is a machine, as its Controller calls it. A package in which a Controller is named compiles all methods of that
// type, and what they call, for itself: behind an interface that is little.
type machineOf[K comparable] interface {
	controller
	Watch(sources []Source[K]) error
	Unwatch(name string) error
	Queue() *queue.Queue[K]
	add(key K, o queue.AddOptions) error
	SetWorkers(n int) error
	String() string
	condition() condition
	inspect() Inspection
	own(c Cached)
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
	return &Controller[K]{c}, nil
}

// NewBatch is New for a reconciler of several keys at once. Options.Middleware
// does not apply to it and must be empty.
func NewBatch[K comparable](name string, r BatchReconciler[K], o *Options[K]) (*Controller[K], error) {
	c, err := build(name, r, o, true)
	if err != nil {
		return nil, fmt.Errorf("reconcile: NewBatch(%s): %w", name, err)
	}
	c.k.batch = r
	return &Controller[K]{c}, nil
}

var errNotMade = errors.New("reconcile: this Controller is nil or zero: make one with New, NewBatch or For")

// made refuses a Controller that no constructor made.
func (c *Controller[K]) made() bool { return c != nil && c.m != nil }

// machine is what a Manager runs; nil: no constructor made the Controller.
func (c *Controller[K]) machine() controller {
	if !c.made() {
		return nil
	}
	return c.m
}

func (c *Controller[K]) inspect() Inspection {
	if !c.made() {
		return nil
	}
	return c.m.inspect()
}

// Watch adds sources. While the controller runs, a new source is started at
// once; the keys of a running controller do not wait for it, and a cache that it
// reads and that nothing has used before is the caller's to run. It fails with
// ErrSourceExists, and with another error if a source of the name was removed and has not
// returned yet, and on a source without a name or Run; then none is added.
func (c *Controller[K]) Watch(sources ...Source[K]) error {
	if !c.made() {
		return fmt.Errorf("%w: Watch", errNotMade)
	}
	return c.m.Watch(sources)
}

// Unwatch removes a source and returns when it has ended. Keys that it added
// stay. It fails if there is no such source, and if the source has not
// ended after the time that Options.Timeout says, or when Run's context ends before: then Run waits
// for it and names it. A source that calls Unwatch for itself gets that error.
func (c *Controller[K]) Unwatch(name string) error {
	if !c.made() {
		return fmt.Errorf("%w: Unwatch", errNotMade)
	}
	return c.m.Unwatch(name)
}

// Name is the controller's name.
func (c *Controller[K]) Name() string { return c.m.Name() }

// Queue is the controller's queue, to pause, hold or inspect keys.
func (c *Controller[K]) Queue() *queue.Queue[K] { return c.m.Queue() }

// Add runs key as soon as it can. It fails with queue.ErrStopped, queue.ErrFull
// and, when another server runs the key, ErrElsewhere.
func (c *Controller[K]) Add(key K) error {
	return c.add(key, queue.AddOptions{Priority: bandLive})
}

// Kick is Add that does not wait: it ends a backoff or a park.
func (c *Controller[K]) Kick(key K) error {
	return c.add(key, kick)
}

func (c *Controller[K]) add(key K, o queue.AddOptions) error {
	if !c.made() {
		return fmt.Errorf("%w: Add", errNotMade)
	}
	return c.m.add(key, o)
}

// SetWorkers changes how many keys are run at once, to at most 100,000; 0 runs none.
// More workers start at once; one too many goes when its present run has ended. With
// Options.Adapt the number goes on changing from n.
func (c *Controller[K]) SetWorkers(n int) error {
	if !c.made() {
		return fmt.Errorf("%w: SetWorkers", errNotMade)
	}
	return c.m.SetWorkers(n)
}

// String describes the controller, the same text every time.
func (c *Controller[K]) String() string {
	if !c.made() {
		return "controller that was not made"
	}
	return c.m.String()
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
	if !c.made() {
		return fmt.Errorf("%w: Run", errNotMade)
	}
	return c.m.Run(ctx)
}

// Snapshot says how the controller is, for pages and metrics: what it has changes with them.
// Queue().Snapshot() has every key.
func (c *Controller[K]) Snapshot() introspect.Controller { return c.condition().Controller }

// Health is nil, or says what is wrong with the controller: a source that keeps
// failing, has ended, or was removed and goes on; a run that is stuck; a queue that
// the program stopped; a store that does not answer or grants no leases. It says nothing about the
// keys; one that fails is ordinary life.
func (c *Controller[K]) Health() error { return c.condition().health }

// Ready is nil, or says what a controller that runs is waiting for. One whose
// lease is held by another server is ready: it is there to take over, as long as the store of
// its leases answers and grants them.
func (c *Controller[K]) Ready() error { return c.condition().ready }

func (c *Controller[K]) condition() condition {
	if !c.made() {
		return condition{health: errNotMade, ready: errNotMade}
	}
	return c.m.condition()
}
