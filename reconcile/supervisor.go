package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile/internal/inrun"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// state is what a controller's supervisor does. The diagram is in doc.go.
type state uint8

const (
	stateNew        state = iota // Run was not called
	stateWaiting                 // no shard is held: no source and no worker runs
	stateSyncing                 // sources run, and have not listed everything yet (promise R4)
	stateRunning                 // workers run
	stateReleasing               // the last shard was lost, and sources have not ended yet
	stateDraining                // told to stop: runs may go on for two thirds of StopTimeout
	stateCancelling              // their contexts have ended: they have another quarter
	stateStopped
)

func (s state) String() string {
	return [...]string{"new", "waiting", "syncing", "running", "releasing", "draining", "cancelling", "stopped"}[s]
}

// transitions are the states that may follow each state.
var transitions = map[state][]state{
	stateNew:        {stateWaiting},
	stateWaiting:    {stateSyncing, stateRunning, stateDraining},
	stateSyncing:    {stateRunning, stateReleasing, stateWaiting, stateDraining},
	stateRunning:    {stateReleasing, stateWaiting, stateDraining},
	stateReleasing:  {stateWaiting, stateSyncing, stateRunning, stateDraining},
	stateDraining:   {stateCancelling, stateStopped},
	stateCancelling: {stateStopped},
}

// supervisor runs a controller: it brings sources and workers in line with which
// shards are held and which sources have synced. The goroutine of Run owns it, and
// learns from messages what happened; others read what kernel.mu guards.
type supervisor[K comparable] struct {
	k       *kernel[K]
	writes  *pendingWrites[K]
	pool    *pool[K]
	sources *sources[K]
	adapt   *adaptive
	owned   []Cached // made by For: run by the controller itself, unless a Manager runs it

	now     state                  // written by the supervisor, guarded by kernel.mu
	loading map[int]string         // the cache that each shard waits for: see loaded; guarded by kernel.mu
	leases  introspect.LeaseCounts // written by the supervisor, guarded by kernel.mu

	// The supervisor alone has these.
	errs     []error                // why the controller cannot go on, and what failed while it stopped
	held     int                    // shards
	gained   []int                  // shards whose keys are not listed yet
	opened   bool                   // the workers ran, or it was said what they wait for
	asked    time.Time              // when the first of the shards was gained
	told     introspect.LeaseCounts // what leases was at the last line about it
	won      []int                  // shards since then
	why      error                  // the last shard was lost
	together <-chan time.Time       // for one line about many shards that came or went; nil: none did
	patience <-chan time.Time       // Options.SyncTimeout, while syncing
}

// run is Controller.Run.
func (s *supervisor[K]) run(ctx context.Context) error {
	// It ends too when the placement fails: what waits for something until then, such
	// as a source to end, must not wait for ever.
	ctx, end := context.WithCancel(ctx)
	defer end()
	s.k.mu.Lock()
	again := s.sources.running != nil
	if !again {
		s.sources.running = ctx
	}
	s.k.mu.Unlock()
	if again {
		return fmt.Errorf("reconcile: controller %q: %w", s.k.name, errRunning)
	}
	for _, f := range s.sources.allFeeds() {
		if f.owns && s.k.kindOf() == "" {
			return fmt.Errorf("reconcile: controller %q: source %q needs to know the kind of its owners: watch From a cache of it, or use Owners", s.k.name, f.Name)
		}
	}
	if err := s.k.checkShards(); err != nil {
		return err
	}
	// What serves the runs outlives ctx: they go on while the controller drains.
	bg, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	s.k.parts.start("watchdog", func() { s.pool.watch(bg) })
	if s.adapt != nil {
		s.k.parts.start("Adapt", func() { s.pool.follow(bg, s.adapt) })
	}
	for _, cached := range s.owned {
		s.k.parts.start("cache "+cached.Name(), func() {
			if err := cached.Run(bg); err != nil { // without it no change would be heard of any more
				s.fail(fmt.Errorf("its cache: %w", err))
			}
		})
	}
	for _, cached := range s.k.o.Reads {
		s.k.parts.start("cache "+cached.Name(), func() {
			waitFor(bg.Done(), cached.Synced())
			s.k.wake()
		})
	}
	s.k.work.start(partPlacement, func() { s.placed(ctx, s.k.placementOf()) }) // ends with ctx and the last run
	s.supervise(ctx)
	end()
	err := s.stop(cancel)
	s.k.takeMail() // what failed while the controller stopped
	return errors.Join(append(s.errs, err)...)
}

const partPlacement = "placement"

// placed runs the controller where its placement says, until ctx ends.
func (s *supervisor[K]) placed(ctx context.Context, place lease.Placement) {
	if !leased(place) {
		s.holdShard(ctx, 0, nil)
		return
	}
	var works sync.WaitGroup
	over := false // guarded by kernel.mu: a work is counted before it is waited for, or refused
	err := isolate(func() error {
		return place.Run(ctx, func(ctx context.Context, shard int) error {
			s.k.mu.Lock()
			if over {
				s.k.mu.Unlock()
				return errPlacementEnded
			}
			works.Add(1)
			s.k.mu.Unlock()
			defer works.Done()
			s.holdShard(ctx, shard, place.Lease(shard))
			return nil
		})
	})
	s.k.mu.Lock()
	over = true
	s.k.mu.Unlock()
	if err == nil && ctx.Err() == nil {
		err = errors.New("it ended")
	}
	if err != nil && (ctx.Err() == nil || !onlyCanceled(err)) {
		s.fail(fmt.Errorf("placement %v: %w", place, err)) // which ends ctx
	}
	works.Wait() // a placement that panicked has not waited for them
}

// fail ends the controller, which cannot go on.
func (s *supervisor[K]) fail(err error) {
	s.k.post(func() { s.errs = append(s.errs, fmt.Errorf("reconcile: controller %q: %w", s.k.name, err)) })
}

var errPlacementEnded = errors.New("the placement's Run has returned")

// holdShard holds one shard for as long as ctx lives. It returns after the last run of
// one of its keys has, and what the reconciler remembers of them is forgotten: only then
// may another server have the lease. l is the lease; nil: there is nothing to lose.
func (s *supervisor[K]) holdShard(ctx context.Context, shard int, l lease.Lease) {
	caches := s.k.partialCaches()
	readies := make([]<-chan struct{}, len(caches))
	for i, p := range caches {
		ready, release := p.HoldShard(shard)
		defer release() // after the last run, which reads the caches
		readies[i] = ready
	}
	if !s.loaded(ctx, shard, caches, readies) {
		return
	}
	// A value that is asked of WithoutCancel's context allocates; one that is asked of
	// a context with a value around it does not, and each run asks.
	h := &hold{shard, context.WithValue(context.WithoutCancel(ctx), inrun.Key{}, nil), l}
	held := &s.k.view.Load().holds[shard]
	held.Store(h)
	s.k.post(func() { s.gain(shard) })

	<-ctx.Done()
	held.CompareAndSwap(h, nil) // a placement that does not wait for work may have given the shard again
	why := context.Cause(ctx)
	stopping := s.sources.running.Err() != nil // it was set before this goroutine was started, and stays
	mine := func(x *run[K]) bool { return x.hold == h }
	if stopping {
		// stop ends them when it is time, unless the lease does not last so long.
		if waitFor(lease.Gone(ctx), s.pool.cancelRuns(mine, nil)...) {
			return
		}
		why = lease.ErrLost
	} else {
		s.k.post(func() { s.lose(why) })
	}
	cause := fmt.Errorf("reconcile: controller %q: %w: %w", s.k.name, ErrLeaseLost, why)
	waitFor(nil, s.pool.cancelRuns(mine, cause)...)
	if stopping {
		return
	}
	// Before the shard can come back: its keys are another server's now.
	for _, f := range s.k.forgets {
		s.k.contain("Forget", func() { f.Forget(func(key K) bool { return s.k.holdOf(key) == nil }) })
	}
}

// loaded waits until the caches have all of a shard: before, no key of it may run (promise
// R4). It reports false if ctx ends first.
func (s *supervisor[K]) loaded(ctx context.Context, shard int, caches []partial, readies []<-chan struct{}) bool {
	defer s.setLoading(shard, "")
	for i, ready := range readies {
		s.setLoading(shard, caches[i].Name())
		if !waitFor(ctx.Done(), ready) {
			return false
		}
	}
	return ctx.Err() == nil
}

// setLoading notes which cache a shard waits for; "": none.
func (s *supervisor[K]) setLoading(shard int, cache string) {
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	if s.loading[shard] = cache; cache == "" {
		delete(s.loading, shard)
	}
}

// loadingShards are those whose lease is held and whose objects a cache does not have
// yet, and one of these caches.
func (s *supervisor[K]) loadingShards() (shards []int, cache string) {
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	shards = slices.Sorted(maps.Keys(s.loading))
	if len(shards) > 0 {
		cache = s.loading[shards[0]]
	}
	return shards, cache
}

// leased reports whether a placement takes leases: one that runs everywhere is as
// good as none.
func leased(p lease.Placement) bool {
	return p != nil && reflect.TypeOf(p) != reflect.TypeOf(lease.EveryServer())
}

// supervise does what messages ask for, until ctx ends or the controller cannot go on.
func (s *supervisor[K]) supervise(ctx context.Context) {
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	for len(s.errs) == 0 {
		s.step()
		select {
		case <-ctx.Done():
			return
		case <-s.k.rung:
			s.k.takeMail()
			s.sayHandovers(false)
		case <-s.together:
			s.sayHandovers(true)
		case <-s.patience:
			s.tooLate()
		case <-tick.C:
			s.keepHouse()
			s.sayWaiting()
		}
	}
}

// gain notes that a shard was gained; what follows from it does step.
func (s *supervisor[K]) gain(shard int) {
	if s.held++; s.held == 1 {
		s.asked = time.Now()
	}
	s.gained = append(s.gained, shard)
	s.won = append(s.won, shard)
	s.countLease(func(n *introspect.LeaseCounts) { n.Won++ })
}

// lose notes the end of a hold. One that is given back because the controller stops is
// not noted.
func (s *supervisor[K]) lose(why error) {
	s.held--
	s.countLease(func(n *introspect.LeaseCounts) {
		if errors.Is(why, lease.ErrLost) {
			n.Lost++
			s.why = why
		} else {
			n.HandedOver++
		}
	})
	if s.now < stateDraining { // what is left after the stop stays to be seen
		s.k.dropOthers()
	}
}

// sayHandovers logs which shards came and went: those of a second in one line.
func (s *supervisor[K]) sayHandovers(now bool) {
	place := s.k.placementOf()
	if s.leases == s.told || !leased(place) {
		return
	}
	if !now && place.Shards() > 1 {
		if s.together == nil {
			s.together = time.After(time.Second)
		}
		return
	}
	others := introspect.LeaseCounts{Lost: s.leases.Lost - s.told.Lost, HandedOver: s.leases.HandedOver - s.told.HandedOver}
	s.k.sayHandovers(ungrouped(place), s.won, others, s.why, s.held)
	s.told, s.won, s.together = s.leases, nil, nil
}

func (s *supervisor[K]) countLease(f func(*introspect.LeaseCounts)) {
	s.k.mu.Lock()
	f(&s.leases)
	s.k.mu.Unlock()
}

// step brings sources and workers in line with the facts.
func (s *supervisor[K]) step() {
	if s.held == 0 {
		s.release()
		return
	}
	for _, f := range s.sources.allFeeds() {
		if len(s.gained) > 0 {
			f.listAgain(s.gained)
		}
		f.start(context.WithoutCancel(s.sources.running))
	}
	s.gained = nil
	switch what, _ := s.sources.unsynced(); {
	case s.now == stateRunning: // new sources do not make the keys wait
	case what == "":
		s.k.changeView(func(v *view[K]) { v.opened = s.k.since() })
		s.opened = true
		s.pool.change(func() { s.pool.open = true })
		s.enter(stateRunning)
		s.k.saySynced(time.Since(s.asked))
	default:
		s.enter(stateSyncing)
	}
}

// release ends sources and workers, as no shard is held.
func (s *supervisor[K]) release() {
	if s.now == stateWaiting {
		return
	}
	s.pool.change(func() { s.pool.open = false })
	s.gained = nil
	next := stateWaiting
	for _, f := range s.sources.allFeeds() {
		if !f.end(errNotHeld) {
			next = stateReleasing
		}
	}
	s.enter(next)
}

var errNotHeld = errors.New("nothing is held any more")

// enter changes the state.
func (s *supervisor[K]) enter(next state) {
	if s.now == next {
		return
	}
	if !slices.Contains(transitions[s.now], next) {
		panic(fmt.Sprintf("reconcile: BUG: controller %q goes from %v to %v", s.k.name, s.now, next))
	}
	s.k.mu.Lock()
	s.now = next
	s.k.mu.Unlock()
	s.patience = nil
	if next == stateSyncing && s.k.o.SyncTimeout > 0 {
		s.patience = time.After(s.k.o.SyncTimeout)
	}
}

// tooLate ends the controller if something has not synced in time.
func (s *supervisor[K]) tooLate() {
	what, why := s.sources.unsynced()
	if what == "" {
		return
	}
	err := fmt.Errorf("reconcile: controller %q: %s: %w (%v)", s.k.name, what, errSyncTimeout, s.k.o.SyncTimeout)
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	s.errs = append(s.errs, err)
}

// sayWaiting says once what the workers wait for.
func (s *supervisor[K]) sayWaiting() {
	if shards, cache := s.loadingShards(); s.now == stateWaiting && len(shards) > 0 {
		s.k.log().Warn("reconcile: controller waits for a cache to list its shards", "controller", s.k.name, "cache", cache, "shards", shards)
	}
	if s.now != stateSyncing || s.opened {
		return
	}
	s.opened = true
	if what, why := s.sources.unsynced(); what != "" {
		attrs := []any{"controller", s.k.name, "waitingFor", what}
		if why != nil {
			attrs = append(attrs, "err", store.Brief(why))
		}
		s.k.log().Warn("reconcile: controller waits for its sources", attrs...)
	}
}

// stop ends everything in order: see Controller.Run. endParts ends what serves the runs.
func (s *supervisor[K]) stop(endParts func()) error {
	s.enter(stateDraining)
	for _, f := range s.sources.allFeeds() {
		f.end(ErrShutdown)
	}
	s.sayHandovers(true)
	stats := s.k.q.Stats()
	s.k.log().Info("reconcile: controller drains", "controller", s.k.name, "running", stats.Of(queue.StateRunning).Keys, "ready", stats.Of(queue.StateReady).Keys)
	drain, cancel := context.WithTimeoutCause(context.Background(), s.k.o.drain(), errors.New("time to drain is over"))
	defer cancel()
	err := s.k.q.Stop(drain)
	// One grace for all that is left: what a Manager allows for stopping is
	// counted on the sum of the two.
	grace, cancel := context.WithTimeoutCause(context.Background(), s.k.o.grace(), errors.New("grace is over"))
	defer cancel()
	var named []string // with the runs that err names
	if err != nil {
		s.enter(stateCancelling)
		cause := fmt.Errorf("reconcile: controller %q: %w", s.k.name, ErrShutdown)
		s.pool.cancelRuns(func(*run[K]) bool { return true }, cause)
		if err = s.k.q.Stop(grace); err != nil {
			named = []string{partWorkers, partPlacement} // which wait for these runs
		}
	}
	s.pool.change(func() { s.pool.open = false })
	left := s.k.work.wait(grace, named...)
	endParts()
	last, _ := grace.Deadline()
	// Grace may be over, and they end at once unless they hang.
	ending, cancel := context.WithTimeout(context.Background(), max(time.Until(last), s.k.o.grace()/3, 100*time.Millisecond))
	defer cancel()
	left = append(left, s.k.parts.wait(ending)...)
	s.enter(stateStopped)
	stop := new(queue.StopError)
	if errors.As(err, &stop) {
		err = fmt.Errorf("reconcile: controller %q: %w", s.k.name, err)
	}
	s.k.log().Info("reconcile: controller ended", "controller", s.k.name, "left", len(stop.Running)+len(left))
	if len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("reconcile: controller %q: still running: %v", s.k.name, left))
	}
	return err
}

// housekeeping is how often keepHouse is called.
const housekeeping = time.Minute

func (s *supervisor[K]) keepHouse() {
	s.writes.age()
	s.k.sweepBrake()
	s.k.sweepFailures()
	if s.k.q.Stats().Of(queue.StateParked).Keys > 0 {
		s.retryParked()
	}
	for _, w := range s.k.sweeps {
		s.k.contain("Sweep", func() {
			w.Sweep(func(key K) bool {
				_, queued := s.k.q.Lookup(key)
				return queued
			})
		})
	}
}

// retryParked runs once more what has been parked for long: whatever made it
// fail may have been mended without anything that its sources could see. The
// lowest band, because it most likely fails again.
func (s *supervisor[K]) retryParked() {
	now, limit := time.Now(), max(s.k.o.Resync, time.Hour)
	for e := range s.k.q.Snapshot() {
		if e.State == queue.StateParked && now.Sub(e.Since) >= limit-rand.N(limit/5) {
			_ = s.k.q.AddWith(e.Key, queue.AddOptions{Urgent: true, Replace: true, Priority: bandResync, Reason: "slow resync"})
		}
	}
}
