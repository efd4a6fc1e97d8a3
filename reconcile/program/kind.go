package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/internal/declared"
	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/internal/inrun"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// KindOptions tune a Kind. Nil and zero fields mean the stated default. An object at which
// a function panics is failing, and not done: Left has the panic and its stack.
type KindOptions[S, T any] struct {
	// Done reports whether an object that is not being deleted is as declared, by what is
	// stored of it. It must not block or change the object. Default: it is Ready in its
	// present generation, or with Track also if it has no Ready condition.
	Done func(o *store.Object[S, T]) bool
	// Stuck reports whether an object that is not done needs a person, and why: waiting
	// does not help it. It is asked besides what the Kind knows: paused objects, those that a newer
	// version of the program stored or that cannot be decoded, and
	// those whose last run in this process failed with reconcile.Terminal. What it says counts when a
	// run of the object's present generation, with Track one of this process, has ended; where
	// no run is tracked, the generation of the conditions says so. Default: no other is.
	Stuck func(o *store.Object[S, T]) (why string, stuck bool)
}

// A Kind is the objects of one kind as a Part. Make one with Of. It is safe for
// concurrent use, and starts no goroutine but in Follow.
type Kind[S, T any] struct {
	cache *cache.Cache[S, T]
	o     KindOptions[S, T]
	only  func(o *store.Object[S, T]) bool // which objects the controller is about: see reconcile.ForOptions; nil: all

	mu      sync.Mutex // guards what follows
	tracked bool
	runs    map[store.Key]lastRun // with Track: of this process
	tidyAt  int                   // so many runs
	parked  map[string]parkedKey  // by the printed key, without Track, replaced as a whole: see noteParked
	wake    subscribers
}

// lastRun is how the last run of a key in this process ended.
type lastRun struct {
	uid        string
	revision   store.Revision // of the object that it began with
	generation int64          // that a run without an error began with; 0: there was none
	looked     int64          // that the last run began with that found out what is stored, or a terminal error
	err        error          // of the last run; nil: none
	unseen     store.Revision // the highest at which a run wrote, until the cache shows it; 0: nothing
}

// manyRuns is how many runs are kept before those of objects that are gone are looked for.
const manyRuns = 100

// Of makes a Part of the objects of a cache, which the program has to run: a Manager
// does so if a controller watches it or if it is registered. It fails on a nil cache.
func Of[S, T any](c *cache.Cache[S, T], o *KindOptions[S, T]) (*Kind[S, T], error) {
	if c == nil {
		return nil, errors.New("program: Of: no cache")
	}
	k := &Kind[S, T]{cache: c, runs: make(map[store.Key]lastRun), tidyAt: manyRuns}
	if o != nil {
		k.o = *o
	}
	return k, nil
}

// Track returns a copy of o, which may be nil, for a controller whose runs are what counts:
// see the package's comment. The copy has one more Middleware; give it to one controller
// only, whose keys are those of the objects. A second Track fails: two controllers of one
// kind cannot both be tracked.
func (k *Kind[S, T]) Track(o *reconcile.Options[reconcile.Request]) (*reconcile.Options[reconcile.Request], error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tracked {
		return nil, fmt.Errorf("program: Track: the runs of %s are tracked already", k.cache.Kind())
	}
	k.tracked = true
	return k.noting(o), nil
}

// noting is o with the middleware that notes runs, if they are tracked when the controller runs.
func (k *Kind[S, T]) noting(o *reconcile.Options[reconcile.Request]) *reconcile.Options[reconcile.Request] {
	var with reconcile.Options[reconcile.Request]
	if o != nil {
		with = *o
	}
	with.Middleware = append(slices.Clip(with.Middleware), func(next reconcile.Reconciler[reconcile.Request]) reconcile.Reconciler[reconcile.Request] {
		return &tracked[S, T]{k, next}
	})
	return &with
}

// tracked is a reconciler whose runs are noted.
type tracked[S, T any] struct {
	kind *Kind[S, T]
	next reconcile.Reconciler[reconcile.Request]
}

// errNoReturn is noted of a run that panicked or ended its goroutine.
var errNoReturn = errors.New("the run did not return; the log has the stack")

// Reconcile implements reconcile.Reconciler.
func (r *tracked[S, T]) Reconcile(ctx context.Context, key reconcile.Request) (res reconcile.Result, err error) {
	if !r.kind.tracked { // it is set before anything runs
		return r.next.Reconcile(ctx, key)
	}
	began, exists := r.kind.began(ctx, key)
	err = errNoReturn
	defer func() {
		if exists {
			r.kind.note(ctx, began, res, err)
		}
	}()
	res, err = r.next.Reconcile(ctx, key)
	return res, err
}

// began is the object that a run begins with, or an older version of it. The run reads its
// controller's caches, which may be behind the Kind's or ahead of it.
func (k *Kind[S, T]) began(ctx context.Context, key store.Key) (o *store.Object[S, T], exists bool) {
	for c := range inrun.Caches(ctx) {
		own, ok := c.(*cache.Cache[S, T])
		if !ok || own.Kind() != k.cache.Kind() || own.Backend() != k.cache.Backend() {
			continue
		}
		seen, there := own.Get(key)
		if !there {
			return nil, false
		}
		if o == nil || seen.Revision < o.Revision {
			o = seen
		}
	}
	if o != nil {
		return o, true
	}
	return k.cache.Get(key)
}

// note keeps how a run ended.
func (k *Kind[S, T]) note(ctx context.Context, began *store.Object[S, T], res reconcile.Result, err error) {
	switch {
	case ratelimit.IsThrottled(err), err == nil && (res.StillFailing || res.Requeue && res.RequeueAfter > 0),
		err != nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), reconcile.ErrDeadline):
		return // it says nothing new about the object
	}
	wrote := inrun.Wrote(ctx, k.cache.Backend(), k.cache.Kind())
	k.keep(began, wrote, res, err)
	if wrote != 0 {
		k.cache.OnRevision(wrote, func() { k.shown(began.Key(), wrote) })
	}
}

// shown notes that the cache shows what a run wrote.
func (k *Kind[S, T]) shown(key store.Key, wrote store.Revision) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if last, ok := k.runs[key]; ok && last.unseen == wrote {
		last.unseen = 0
		k.runs[key] = last
		k.wake.notify()
	}
}

// keep keeps how a run ended that wrote up to a revision.
func (k *Kind[S, T]) keep(began *store.Object[S, T], wrote store.Revision, res reconcile.Result, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	last := k.runs[began.Key()]
	before := last
	if last.uid != began.UID {
		last = lastRun{uid: began.UID}
	}
	switch {
	case asksAgain(res, err):
		last.err, last.generation = nil, 0
	case err != nil:
		last.err, last.generation = err, 0
	default:
		last.err, last.generation = nil, began.Generation
	}
	if last.generation != 0 || wrote != 0 || errors.Is(last.err, reconcile.ErrTerminal) {
		last.looked = began.Generation
	}
	last.revision, last.unseen = began.Revision, max(last.unseen, wrote)
	k.runs[began.Key()] = last
	if len(k.runs) > k.tidyAt {
		k.tidyLocked()
		k.tidyAt = max(manyRuns, 2*len(k.runs))
	}
	if before.uid != last.uid || before.looked != last.looked || before.generation != last.generation || !sameText(before.err, last.err) {
		k.wake.notify()
	}
}

func sameText(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
}

// asksAgain reports whether the run said that it is not done, without a failure.
func asksAgain(res reconcile.Result, err error) bool {
	if err == nil {
		return res.Requeue && res.RequeueAfter <= 0
	}
	_, delayed := reconcile.Delay(err)
	return delayed && errors.Unwrap(err) == nil
}

// Progress implements Part.
func (k *Kind[S, T]) Progress() Progress {
	p, _ := k.look(false)
	return p
}

// Left implements Part: the objects in the order of their keys.
func (k *Kind[S, T]) Left() []Left {
	_, left := k.look(true)
	return left
}

// look counts the objects of the cache. It holds no lock meanwhile, so that a run may end between
// two objects: its end calls the followers, which look again.
func (k *Kind[S, T]) look(list bool) (p Progress, left []Left) {
	select {
	case <-k.cache.Synced():
		p.Synced = true
	default:
		return p, []Left{{Kind: k.cache.Kind(), Why: "the store has not been read yet"}}
	}
	broken := k.cache.Snapshot().Undecodable
	total := 0
	for o := range k.cache.All() {
		total++
		o, n, there := k.noted(o.Key())
		if !there {
			continue // it is gone since
		}
		if _, is := broken[o.Key()]; is {
			continue // this is an earlier version of it
		}
		if !k.isFor(o) {
			continue // no run here would confirm it
		}
		l, done := k.judge(o, n)
		switch {
		case o.Deleting():
			p.Deleting++
		case done:
			p.Declared++
			p.Done++
			continue
		default:
			p.Declared++
		}
		if l.Failing {
			p.Failing++
		}
		if l.Stuck {
			p.Stuck++
		}
		if list {
			left = append(left, l)
		}
	}
	for key, err := range broken {
		p.Declared++
		p.Failing++
		p.Stuck++
		if list {
			left = append(left, k.unreadable(key, err))
		}
	}
	k.mu.Lock()
	if len(k.runs) > total {
		k.tidyLocked()
	}
	k.mu.Unlock()
	sortLeft(left)
	return p, left
}

// isFor reports whether the controller is about an object. One at which only panics is: its run fails for that.
func (k *Kind[S, T]) isFor(o *store.Object[S, T]) bool {
	is := true
	if k.only == nil {
		return is
	}
	return contain.Apart(func() error { is = k.only(o); return nil }) != nil || is
}

// unreadable is what is left of an object that cannot be decoded: no run does anything about it.
func (k *Kind[S, T]) unreadable(key store.Key, err error) Left {
	return Left{Kind: k.cache.Kind(), Key: key, Why: store.Clip(err.Error()), Err: err, Failing: true, Stuck: true}
}

// tidyLocked forgets the runs of objects that are gone.
func (k *Kind[S, T]) tidyLocked() {
	for key, last := range k.runs {
		if _, there := k.cache.Get(key); !there && last.revision <= k.cache.Revision() {
			delete(k.runs, key)
		}
	}
}

// noted is what this process knows of an object besides what the cache has.
type noted struct {
	tracked bool // runs count
	last    lastRun
	parked  parkedKey
}

// noted is an object and what is known besides. The object is read last: it is at least as new as
// what the run that is noted saw and wrote, so that no run confirms a version before its own.
func (k *Kind[S, T]) noted(key store.Key) (o *store.Object[S, T], n noted, there bool) {
	k.mu.Lock()
	n = noted{tracked: k.tracked, last: k.runs[key]}
	if len(k.parked) > 0 {
		n.parked = k.parked[key.String()]
	}
	k.mu.Unlock()
	if o, there = k.cache.Get(key); there && n.last.uid != o.UID {
		n.last = lastRun{}
	}
	return o, n, there
}

// judge reports whether o is done, and if not what is in the way.
func (k *Kind[S, T]) judge(o *store.Object[S, T], n noted) (l Left, done bool) {
	last := n.last
	var failure error // of a function of KindOptions
	if !o.Deleting() {
		if done, failure = k.done(o, n); done {
			return l, true
		}
	}
	l = Left{Kind: k.cache.Kind(), Key: o.Key(), Deleting: o.Deleting()}
	synced, _ := o.Condition(store.ConditionSynced)
	l.Failing = last.err != nil || synced.Status == store.False
	switch {
	case o.Paused:
		l.Why, l.Stuck = "paused", true
		return l, false
	case o.Newer: // every run stands off, see reconcile.CheckNewer
		l.Err, l.Failing, l.Stuck = fmt.Errorf("%w: this program leaves it alone", store.ErrNewer), true, true
		l.Why = l.Err.Error()
	case last.err != nil:
		l.Why, l.Err = store.Clip(last.err.Error()), last.err
		l.Stuck = last.looked >= o.Generation && errors.Is(last.err, reconcile.ErrTerminal)
	case n.parked.sure && n.parked.generation == o.Generation:
		l.Why, l.Stuck, l.Failing = store.Clip(n.parked.why), true, true
	default:
		l.Why = inTheWay(o)
	}
	if k.o.Stuck != nil && !l.Stuck {
		why, stuck := "", false
		err := protect("KindOptions.Stuck", func() { why, stuck = k.o.Stuck(o) })
		if stuck {
			l.Why, l.Stuck, l.Failing = store.Clip(why), n.present(o.Generation, o.Conditions), true
		}
		failure = cmp.Or(failure, err)
	}
	if failure != nil {
		l.Failing = true
		if l.Err == nil && !l.Stuck { // what the run or Stuck says tells more
			l.Why, l.Err = store.Clip(failure.Error()), failure
		}
	}
	if l.Why == "" {
		l.Why = "no run has confirmed it yet"
		if !n.tracked {
			l.Why = "not ready"
		}
	}
	return l, false
}

// done reports whether o was reconciled for its generation or a later one. The error
// is a panic of Done, which makes it false.
func (k *Kind[S, T]) done(o *store.Object[S, T], n noted) (done bool, err error) {
	if o.Newer || n.unconfirmed(o.Generation) {
		return false, nil
	}
	if k.o.Done != nil {
		err = protect("KindOptions.Done", func() { done = k.o.Done(o) })
		return done, err
	}
	if _, has := o.Condition(store.ConditionReady); !has {
		return n.tracked, nil
	}
	return declared.Is(&o.Meta, o.Conditions, n.last.err != nil), nil
}

// unconfirmed reports whether runs count, and the last one has not confirmed this
// generation.
func (n noted) unconfirmed(generation int64) bool {
	return n.tracked && (n.last.err != nil || n.last.generation < generation || n.last.unseen != 0)
}

// protect calls the function of the options that has the name.
func protect(name string, f func()) error {
	err := contain.Apart(func() error { f(); return nil })
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*contain.Panic](err); ok {
		err = (*reconcile.PanicError)(p)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// present reports whether what is stored of an object was found by a run of its present
// generation, with Track one of this process, rather than for an earlier spec.
func (n noted) present(generation int64, conditions []store.Condition) bool {
	if n.tracked {
		return n.last.looked >= generation && n.last.unseen == 0
	}
	return len(conditions) == 0 || slices.ContainsFunc(conditions, func(c store.Condition) bool {
		return c.ObservedGeneration >= generation
	})
}

// inTheWay is what the conditions of an object say is missing; empty: nothing.
func inTheWay[S, T any](o *store.Object[S, T]) string {
	var ready string
	for _, c := range o.Conditions {
		if c.Status != store.False || c.Reason == "" && c.Message == "" {
			continue
		}
		text := strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
		if c.Type != store.ConditionReady {
			return text // Ready only sums up
		}
		ready = text
	}
	if ready == "" && o.Deleting() && len(o.Finalizers) > 0 {
		return "it has the finalizers " + strings.Join(o.Finalizers, ", ")
	}
	return ready
}

// Follow implements Part.
func (k *Kind[S, T]) Follow(ctx context.Context, changed func()) {
	k.mu.Lock()
	remove := k.wake.add(changed)
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		remove()
	}()
	ctx, stop := context.WithCancel(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer stop()
	looking.Go(func() { k.followUndecodable(ctx, changed) })
	for _, err := range k.cache.Changes(ctx, nil) {
		if err != nil {
			return // ctx ended
		}
		changed()
	}
}

// followUndecodable calls changed when objects cannot be decoded any more, or can be again, or are
// gone: the cache has no changes of those.
func (k *Kind[S, T]) followUndecodable(ctx context.Context, changed func()) {
	var before map[store.Key]error
	for sleep.For(ctx, parkedEvery) {
		now := k.cache.Snapshot().Undecodable
		if !maps.EqualFunc(before, now, sameText) {
			changed()
		}
		before = now
	}
}
