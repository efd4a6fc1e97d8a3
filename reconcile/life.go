package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// life is a controller while it runs. Its governor is one goroutine that looks at
// what should be (which shards are held, which sources there are, whether they
// have synced) and starts or stops sources and workers accordingly; everybody
// else changes the facts and pokes it.
//
//	no shard held     sources stopped, workers stopped, queue empty
//	first shard held  sources started; workers when all have synced (promise R4)
//	one more          sources list again what is new
//	one less          its keys dropped, its runs ended and waited for, its keys forgotten
//	stop              see run
type life[K comparable] struct {
	c      *Controller[K]
	signal chan struct{} // capacity 1: look again
	broken chan error    // capacity 1: why it cannot go on

	mu      sync.Mutex // guards what follows
	ctx     context.Context
	sources context.Context // the sources' parent; nil: not running
	held    int             // shards
	gained  []int           // shards whose keys are not listed yet
	lost    bool            // there may be keys in the queue that are not ours
	left    bool            // the last run of such keys has ended
	open    bool            // the workers run
	opened  bool            // they ran before
	over    bool            // no source is started any more
	leases  LeaseCounts
}

func newLife[K comparable](c *Controller[K]) *life[K] {
	return &life[K]{c: c, signal: make(chan struct{}, 1), broken: make(chan error, 1)}
}

func (l *life[K]) poke() { notify(l.signal) }

// run is Controller.Run.
func (l *life[K]) run(ctx context.Context, place lease.Placement) error {
	// It ends too when the placement fails: whoever waits for something until
	// then, such as a source to end, must not wait for ever.
	ctx, end := context.WithCancel(ctx)
	defer end()
	l.mu.Lock()
	l.ctx = ctx
	l.mu.Unlock()
	// What serves the runs outlives ctx: they go on while the controller drains.
	bg, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { l.govern(bg) })
	wg.Go(func() { l.c.watch(bg) })
	if l.c.adapt != nil {
		wg.Go(func() { l.c.adapt.run(bg, l.c) })
	}
	for _, cached := range l.c.owned {
		wg.Go(func() { l.runCache(bg, cached) })
	}
	placed := make(chan error, 1)
	go func() { placed <- l.placed(ctx, place) }() // ends with ctx and the last run; waited for by stop
	var err error
	select {
	case <-ctx.Done():
	case err = <-l.broken:
	case err = <-placed:
		placed <- nil
	}
	end()
	err = errors.Join(err, l.stop(placed))
	cancel()
	wg.Wait()
	return err
}

// runCache runs a cache that only this controller uses. Without it no change would
// be heard of any more.
func (l *life[K]) runCache(ctx context.Context, cached Cached) {
	if err := cached.Run(ctx); err != nil && ctx.Err() == nil {
		l.fail(fmt.Errorf("reconcile: controller %q: its cache: %w", l.c.name, err))
	}
}

// fail ends run, if it does not end already.
func (l *life[K]) fail(err error) {
	select {
	case l.broken <- err:
	default:
	}
}

// placed runs the controller where its placement says, until ctx ends.
func (l *life[K]) placed(ctx context.Context, place lease.Placement) error {
	if !leased(place) {
		return l.work(ctx, 0)
	}
	var works sync.WaitGroup
	var mu sync.Mutex // guards over; a work is counted before it is waited for, or refused
	over := false
	err := isolate(func() error {
		return place.Run(ctx, func(ctx context.Context, shard int) error {
			mu.Lock()
			if over {
				mu.Unlock()
				return errPlacementEnded
			}
			works.Add(1)
			mu.Unlock()
			defer works.Done()
			return l.work(ctx, shard)
		})
	})
	mu.Lock()
	over = true
	mu.Unlock()
	if err == nil {
		err = errors.New("it ended")
	}
	if ctx.Err() == nil {
		l.fail(fmt.Errorf("reconcile: controller %q: placement %v: %w", l.c.name, place, err)) // which ends ctx
	}
	works.Wait() // a placement that panicked has not waited for them
	return nil
}

var errPlacementEnded = errors.New("the placement's Run has returned")

// work holds one shard for as long as ctx lives. It returns after the last run of
// one of its keys has: only then may the lease be given to somebody else.
func (l *life[K]) work(ctx context.Context, shard int) error {
	h := newHold(ctx, shard, l.leaseOf(shard))
	holds := l.c.view.Load().holds
	l.mu.Lock()
	l.held++
	l.leases.Won++
	l.gained = append(l.gained, shard)
	holds[shard].Store(h)
	l.mu.Unlock()
	l.poke()

	<-ctx.Done()
	l.mu.Lock()
	l.held--
	holds[shard].Store(nil)
	stopping := l.ctx.Err() != nil
	l.lost = l.lost || !stopping // what waits when we stop is to be counted
	l.leases.end(context.Cause(ctx), stopping)
	l.mu.Unlock()
	l.poke()

	mine := func(x *run[K]) bool { return x.hold == h }
	why := context.Cause(ctx)
	if stopping {
		// stop ends them when it is time, unless the lease does not last so long.
		if allClosed(l.c.cancelRuns(mine, nil, nil), lease.Gone(ctx)) {
			return nil
		}
		why = lease.ErrLost
	}
	l.c.endRuns(mine, context.Canceled, fmt.Errorf("reconcile: controller %q: %w: %w", l.c.name, ErrLeaseLost, why))
	l.mu.Lock()
	l.left = true
	l.mu.Unlock()
	l.poke()
	return nil
}

// leaseOf is the lease of a shard; nil: there is nothing to lose.
func (l *life[K]) leaseOf(shard int) lease.Lease {
	if place := l.c.placementOf(); leased(place) {
		return place.Lease(shard)
	}
	return nil
}

// allClosed waits until all are closed, or reports false if until is before.
func allClosed(all []<-chan struct{}, until <-chan struct{}) bool {
	for _, ch := range all {
		select {
		case <-ch:
		case <-until:
			return false
		}
	}
	return true
}

func (l *life[K]) leaseCounts() LeaseCounts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leases
}

// govern is the governor's loop.
func (l *life[K]) govern(ctx context.Context) {
	for _, cached := range l.c.o.Reads {
		stop := make(chan struct{})
		defer func() { <-stop }()
		go func() { // ends with ctx; waited for above
			defer close(stop)
			select {
			case <-cached.Synced():
				l.poke()
			case <-ctx.Done():
			}
		}()
	}
	tick := time.NewTicker(l.c.housekeeping())
	defer tick.Stop()
	sync := time.NewTimer(0) // runs while the workers wait, if they are not to wait for ever
	sync.Stop()
	defer sync.Stop()
	waiting := false
	for {
		l.step()
		if now := l.c.o.SyncTimeout > 0 && l.waiting(); now != waiting {
			sync.Stop()
			if waiting = now; now {
				sync.Reset(l.c.o.SyncTimeout)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-l.signal:
		case <-sync.C:
			l.tooLate()
		case <-tick.C:
			l.c.keepHouse()
			l.sayWaiting()
		}
	}
}

// step brings sources and workers in line with the facts.
func (l *life[K]) step() {
	l.mu.Lock()
	held, gained, lost, left, running := l.held, l.gained, l.lost, l.left, l.sources
	l.gained, l.lost, l.left = nil, false, false
	over := l.over
	l.mu.Unlock()
	switch {
	case over:
	case held == 0 && running != nil:
		l.stopSources(l.ctx, errNotHeld, l.c.sources())
		l.setOpen(false)
	case held > 0:
		l.startSources(gained)
	}
	if lost {
		l.c.dropOthers()
	}
	if left && !over && l.c.forgets != nil {
		l.c.contain("Forget", func() { l.c.forgets.Forget(func(key K) bool { return l.c.holdOf(key) == nil }) })
	}
	if what, _ := l.unsynced(); held > 0 && !over && what == "" {
		l.setOpen(true)
	}
}

var errNotHeld = errors.New("nothing is held any more")

func (l *life[K]) setOpen(open bool) {
	l.mu.Lock()
	was := l.open
	l.open = open
	if open && !was {
		l.c.changeView(func(v *view[K]) { v.opened = l.c.since() })
	}
	if open {
		l.opened = true
	}
	l.mu.Unlock()
	if was != open {
		l.c.setOpen(open)
	}
}

// startSources starts what is not running, and has the others list what was
// gained.
func (l *life[K]) startSources(gained []int) {
	l.mu.Lock()
	if l.sources == nil {
		l.sources = context.WithoutCancel(l.ctx)
	}
	ctx := l.sources
	l.mu.Unlock()
	for _, f := range l.c.sources() {
		if !f.started() {
			l.startSource(ctx, f)
		} else if len(gained) > 0 {
			f.listAgain(ctx, l.ctx, gained)
		}
	}
}

// startSource starts a source unless stop has begun: it, who waits for all that
// were started, must not miss one.
func (l *life[K]) startSource(ctx context.Context, f *feed[K]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		f.start(ctx) // takes feed.mu below life.mu
	}
}

// stopSources ends sources, and waits for them until ctx ends. It names those
// that are left.
func (l *life[K]) stopSources(ctx context.Context, cause error, feeds []*feed[K]) (left []string) {
	for _, f := range feeds {
		f.end(cause)
	}
	for _, f := range feeds {
		if !f.wait(ctx) {
			left = append(left, "source "+f.Name)
		}
	}
	l.mu.Lock()
	l.sources = nil
	l.mu.Unlock()
	return left
}

// unsynced names something that has not synced, and says why if that is known; "":
// everything has.
func (l *life[K]) unsynced() (what string, why error) {
	for _, f := range l.c.sources() {
		if synced, err := f.isSynced(); !synced {
			return "source " + f.Name, err
		}
	}
	for _, cached := range l.c.o.Reads {
		select {
		case <-cached.Synced():
		default:
			return "cache " + cached.Name(), healthOf(cached)
		}
	}
	return "", nil
}

// healthOf asks what is wrong with something that may be able to tell.
func healthOf(v any) error {
	if h, ok := v.(interface{ Health() error }); ok {
		return h.Health()
	}
	return nil
}

// waiting tells whether the workers could run but for what has not synced.
func (l *life[K]) waiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held > 0 && !l.open && !l.over
}

// tooLate ends run, unless all has synced after all.
func (l *life[K]) tooLate() {
	what, why := l.unsynced()
	if what == "" {
		return
	}
	err := fmt.Errorf("reconcile: controller %q: %s: %w (%v)", l.c.name, what, ErrNotSynced, l.c.o.SyncTimeout)
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	l.fail(err)
}

// sayWaiting says once what the workers wait for.
func (l *life[K]) sayWaiting() {
	l.mu.Lock()
	waits := l.held > 0 && !l.opened && !l.over
	l.opened = l.opened || waits
	l.mu.Unlock()
	if what, why := l.unsynced(); waits && what != "" {
		attrs := []any{"controller", l.c.name, "waitingFor", what}
		if why != nil {
			attrs = append(attrs, "err", store.Brief(why))
		}
		l.c.log().Warn("reconcile: controller waits for its sources", attrs...)
	}
}

// isOver reports whether Run stops, or has returned.
func (l *life[K]) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// context is that of Run; background if it was not called.
func (l *life[K]) context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		return context.Background()
	}
	return l.ctx
}

// stop ends everything in order: see Controller.Run.
func (l *life[K]) stop(placed <-chan error) error {
	c := l.c
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	for _, f := range c.sources() {
		f.end(ErrShutdown)
	}
	drain, cancel := context.WithTimeoutCause(context.Background(), max(c.o.Drain, 0), errors.New("time to drain is over"))
	defer cancel()
	err := c.q.Stop(drain)
	// One grace for all that is left: what a Manager allows for stopping is
	// counted on the sum of the two.
	grace, cancel := context.WithTimeoutCause(context.Background(), c.o.Grace, errors.New("grace is over"))
	defer cancel()
	if err != nil {
		cause := fmt.Errorf("reconcile: controller %q: %w", c.name, ErrShutdown)
		every := func(*run[K]) bool { return true }
		c.cancelRuns(every, context.Canceled, cause)
		err = c.q.Stop(grace)
	}
	return l.finish(grace, placed, err)
}

// finish waits for what is left besides runs; with a stopErr runs are left, and
// the workers and the placement that wait for them are too.
func (l *life[K]) finish(ctx context.Context, placed <-chan error, stopErr error) error {
	left := l.stopSources(ctx, ErrShutdown, slices.Concat(l.c.sources(), l.c.removedSources()))
	l.c.shut()
	if stopErr == nil {
		if !l.c.wait(ctx) {
			left = append(left, "workers")
		}
		select {
		case err := <-placed:
			stopErr = err
		case <-ctx.Done():
			left = append(left, "placement")
		}
	} else if stop := new(queue.StopError); errors.As(stopErr, &stop) {
		stopErr = fmt.Errorf("reconcile: controller %q: %w", l.c.name, stopErr)
	}
	if len(left) > 0 {
		stopErr = errors.Join(stopErr, fmt.Errorf("reconcile: controller %q: still running: %v", l.c.name, left))
	}
	return stopErr
}
