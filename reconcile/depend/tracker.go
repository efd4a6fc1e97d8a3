package depend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// Options of [New]. Nil and zero fields mean the stated default. They are copied.
type Options struct {
	// burst is how many objects are handed to the queue at once when what they wait for
	// is there; further ones follow at perSecond. More than burst at one moment run in
	// the low band, so that a change of one object does not wait for them. Zero: 1,000.
	burst int
	// perSecond is the pace beyond burst. Zero: 1,000 a second.
	perSecond int
	// fresh is the least time between two changes of what an object needs that start its
	// attempts from 0. What changes more often ends a backoff and a park all the same,
	// and keeps the attempts. Zero: 1 minute.
	fresh time.Duration
	// Graph is shared by the trackers of several kinds, so that cycles over kinds are
	// found and orders known. Nil: one of its own.
	Graph *Graph
	// Logger hears of removed finalizers, and of panics of the functions of needs. Nil: slog.Default() at that time.
	Logger *slog.Logger
}

const (
	defaultBurst     = 1000
	defaultPerSecond = 1000
	defaultFresh     = time.Minute
)

var (
	bandLive = queue.At(0)
	bandLow  = queue.At(-100)
)

// Tracker knows what the objects of one kind need: it says which of them may run, wakes
// those that wait, and keeps what they use from being deleted. Give its Source to the
// controller of the kind, and let its runs ask [Tracker.Admit]: lifecycle and external
// do both by themselves, [Tracker.Wrap] is for other reconcilers. One controller may use
// a tracker. Its methods are safe for concurrent use.
type Tracker[S, T any] struct {
	users     *cache.Cache[S, T]
	kind      string
	finalizer string
	needs     []Needs[S, T]
	o         Options
	epoch     time.Time
	signal    chan struct{} // holds a value when the source has something to do
	sourced   atomic.Bool   // the source has run

	mu       sync.Mutex // guards what follows
	index    index
	pace     pacer
	dirty    map[store.Key]struct{} // users to be looked at by the source
	changed  map[target]struct{}    // needed objects to be looked at by the source
	wakes    []wake                 // to be handed to the queue by the source
	held     map[Ref]int            // users that hold an object, as the source has seen them
	released []Ref                  // objects that may have no user any more
}

// New makes a tracker of the objects of a cache. It starts nothing. It fails without a
// cache or needs, on needs that lack a part, on needs of one kind in two backends, and on
// a needed object's store with store.Options.RequireGuard.
func New[S, T any](users *cache.Cache[S, T], needs Needs[S, T], o *Options) (*Tracker[S, T], error) {
	if users == nil {
		return nil, errors.New("depend: there is no cache of the objects that need others")
	}
	t := &Tracker[S, T]{
		users: users, kind: users.Kind(), finalizer: Finalizer(users.Kind()), needs: needs.list(),
		epoch: time.Now(), signal: make(chan struct{}, 1),
		dirty: make(map[store.Key]struct{}), changed: make(map[target]struct{}), held: make(map[Ref]int),
	}
	if o != nil {
		t.o = *o
	}
	if err := t.complete(); err != nil {
		return nil, fmt.Errorf("depend: needs of kind %q: %w", t.kind, err)
	}
	t.index = newIndex(t.o.fresh)
	t.pace = newPacer(t.o.perSecond, t.o.burst)
	return t, t.o.Graph.add(t.kind, t)
}

func (t *Tracker[S, T]) complete() error {
	if len(t.needs) == 0 {
		return errors.New("there are none")
	}
	for _, n := range t.needs {
		switch {
		case n.err != nil:
			return n.err
		case n.cache == nil:
			return errors.New("one is made by neither On, Watching nor All")
		}
		for _, other := range t.needs {
			if other.kind == n.kind && other.cache.Backend() != n.cache.Backend() {
				return fmt.Errorf("objects of kind %q are needed from two backends: a hold names an object by its kind and key only", n.kind)
			}
		}
	}
	o := &t.o
	switch {
	case o.burst < 0:
		return fmt.Errorf("Burst is %d, want 0 or more", o.burst)
	case o.perSecond < 0:
		return fmt.Errorf("PerSecond is %d, want 0 or more", o.perSecond)
	case o.fresh < 0:
		return fmt.Errorf("Fresh is %v, want 0 or more", o.fresh)
	}
	if o.burst == 0 {
		o.burst = defaultBurst
	}
	if o.perSecond == 0 {
		o.perSecond = defaultPerSecond
	}
	if o.fresh == 0 {
		o.fresh = defaultFresh
	}
	if o.Graph == nil {
		o.Graph = NewGraph()
	}
	return nil
}

// Caches are those of the needed objects and of the objects that need them, for the
// Options.Reads of the controller, which then waits for them and has the Manager run them.
func (t *Tracker[S, T]) Caches() []reconcile.Cached {
	all := []reconcile.Cached{t.users} // the controller may have another one, as that of reconcile.For
	for _, n := range t.needs {
		all = append(all, n.cache)
	}
	return all
}

// Kind is the kind of the objects that need others.
func (t *Tracker[S, T]) Kind() string { return t.kind }

// Needs are the objects that an object needs or watches, in the order in which they were
// declared.
func (t *Tracker[S, T]) Needs(o *store.Object[S, T]) (refs []Ref) {
	for _, g := range t.targets(o) {
		refs = append(refs, t.ref(g))
	}
	return refs
}

// targets are the needed objects, none twice and none with a key that cannot be.
func (t *Tracker[S, T]) targets(o *store.Object[S, T]) (all []target) {
	seen := make(map[target]struct{})
	for i, n := range t.needs {
		for _, key := range n.keys(o) {
			g := target{i, key}
			if _, twice := seen[g]; twice || key.Check() != nil {
				continue
			}
			seen[g] = struct{}{}
			all = append(all, g)
		}
	}
	return all
}

func (t *Tracker[S, T]) ref(g target) Ref { return Ref{t.needs[g.needs].kind, g.key} }

func (t *Tracker[S, T]) look(g target) state { return t.needs[g.needs].look(t.finalizer, g.key) }

func (t *Tracker[S, T]) now() time.Duration { return time.Since(t.epoch) }

func (t *Tracker[S, T]) poke() {
	sleep.Wake(t.signal)
}

// Source wakes the objects whose needs have changed. It is synced when it knows of every
// object what it needs. It also removes the finalizers of needed objects that nothing
// uses any more.
func (t *Tracker[S, T]) Source() reconcile.Source[reconcile.Request] {
	s := reconcile.Source[reconcile.Request]{Name: t.users.Name() + " dependencies", Run: t.run}
	for _, n := range t.needs {
		s.Relations = append(s.Relations, introspect.Relation{Kind: n.kind, As: n.role()})
	}
	return s
}

// run keeps the index until ctx ends:
//
//	users cache ─── follow ──▶ dirty, held ─┐
//	needed caches ─ follow ──▶ changed ─────┴─▶ work ──▶ wakes ──▶ the controller
//	                                              └────▶ released ──▶ releaser
//
// The user's functions are called by work alone, on the source's own goroutine.
func (t *Tracker[S, T]) run(ctx context.Context, to reconcile.Sink[reconcile.Request]) error {
	releaser, err := t.newReleaser()
	if err != nil {
		return err
	}
	t.begin()
	t.sourced.Store(true)
	ctx, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil) // before the Wait
	var listing atomic.Int64
	listing.Store(int64(1 + len(t.needs)))
	follow := func(f func(listed func()) error) {
		all.Go(func() { // ended by cancel, waited for above
			if err := f(sync.OnceFunc(func() { listing.Add(-1); t.poke() })); ctx.Err() == nil {
				cancel(fmt.Errorf("depend: %w", err))
			}
		})
	}
	follow(func(listed func()) error { return t.followUsers(ctx, listed) })
	for i, n := range t.needs {
		follow(func(listed func()) error {
			return n.changes(ctx, func(key store.Key) { t.noteChanged(target{i, key}) }, listed)
		})
	}
	for synced := false; ; {
		listed := listing.Load() == 0 // before the work: what was listed is worked on
		if err := t.work(ctx, to, releaser); err != nil {
			return err
		}
		if listed && !synced {
			synced = true
			to.Synced()
			all.Go(func() { _ = releaser.Run(ctx) }) // ended by cancel, waited for above; what is left it does when it runs again
		}
		select {
		case <-t.signal:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// begin makes the index ready for another life of the source. What was noted of users
// stays: those of this server are not listed again when it only gains others.
func (t *Tracker[S, T]) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = make(map[Ref]int)
	for key := range t.index.users {
		t.dirty[key] = struct{}{}
	}
	for g := range t.index.nodes { // no list shows what went meanwhile
		t.changed[g] = struct{}{}
	}
	t.poke()
}

// followUsers notes which users have changed, and counts their holds.
func (t *Tracker[S, T]) followUsers(ctx context.Context, listed func()) error {
	for ch, err := range t.users.Changes(ctx, nil) {
		switch {
		case err != nil:
			return err
		case ch.Synced:
			listed()
			continue
		}
		before, after := heldBy(ch.Old), heldBy(ch.New)
		t.mu.Lock()
		t.dirty[ch.Key] = struct{}{}
		t.noteLostLocked(ch.Key, before, after)
		for _, h := range after {
			t.held[h.ref]++
		}
		for _, h := range before {
			if t.held[h.ref]--; t.held[h.ref] <= 0 {
				delete(t.held, h.ref)
				t.released = append(t.released, h.ref)
			}
		}
		t.mu.Unlock()
		t.poke()
	}
	return context.Cause(ctx)
}

// noteLostLocked notes that an object has lost a hold on what it needs, by a restore of its
// store or by hand; mu is held.
func (t *Tracker[S, T]) noteLostLocked(key store.Key, before, after holds) {
	u := t.index.users[key]
	if u == nil || slices.Equal(before, after) {
		return
	}
	left := after.settled().find()
	for _, h := range before {
		if h.firm && left(h.ref) < 0 && slices.ContainsFunc(u.edges, func(e edge) bool { return t.ref(e.node.target) == h.ref }) {
			u.loseHold()
		}
	}
}

// heldBy is what an object holds. A record that cannot be read holds nothing here; the
// releaser, which reads it too, then releases nothing.
func heldBy[S, T any](o *store.Object[S, T]) holds {
	if o == nil {
		return nil
	}
	h, _ := readHolds(&o.Meta)
	return h
}

// noteChanged notes that a needed object has changed.
func (t *Tracker[S, T]) noteChanged(g target) {
	leaving := t.needs[g.needs].leaving(t.finalizer, g.key)
	t.mu.Lock()
	defer t.mu.Unlock()
	if leaving != "" && t.held[t.ref(g)] == 0 {
		t.released = append(t.released, t.ref(g))
		t.poke()
	}
	if t.index.nodes[g] != nil {
		t.changed[g] = struct{}{}
		t.poke()
	}
}

// work does what has been noted.
func (t *Tracker[S, T]) work(ctx context.Context, to reconcile.Sink[reconcile.Request], releaser *reconcile.Controller[reconcile.Request]) error {
	t.mu.Lock()
	dirty, changed, released := t.dirty, t.changed, t.released
	t.dirty, t.changed, t.released = make(map[store.Key]struct{}), make(map[target]struct{}), nil
	t.mu.Unlock()
	for key := range dirty {
		t.contain(Ref{t.kind, key}, func() { t.refresh(key, changed) })
	}
	for g := range changed {
		t.contain(t.ref(g), func() {
			now := t.look(g)
			t.mu.Lock()
			defer t.mu.Unlock()
			if n := t.index.nodes[g]; n != nil {
				t.wakes = append(t.wakes, t.index.set(n, now, t.now())...)
			}
		})
	}
	for key := range dirty { // those that were told to wait while the index was older than what they saw, or lost a hold
		t.mu.Lock()
		if u := t.index.users[key]; u != nil && (u.is(waiting) || u.is(unkept)) {
			if w, ok := t.index.consider(u, nil, false, t.now()); ok {
				t.wakes = append(t.wakes, w)
			}
		}
		t.mu.Unlock()
	}
	t.mu.Lock()
	broke := t.index.broke
	t.index.broke = false
	t.mu.Unlock()
	if broke {
		t.o.Graph.recheckCycles()
	}
	for _, r := range released {
		if err := releaser.Add(request(r)); err != nil && !errors.Is(err, queue.ErrStopped) {
			return err
		}
	}
	return t.send(ctx, to)
}

// contain calls f, and has a panic of the user's functions at one object concern no other.
// Runs call them too, and fail; work looks at the object again when it changes.
func (t *Tracker[S, T]) contain(object Ref, f func()) {
	if err := contain.Apart(func() error { f(); return nil }); err != nil {
		t.log().Error("depend: a function of the needs failed", append([]any{"object", object.String(), "err", store.Brief(err)}, contain.Stack(err)...)...)
	}
}

// refresh takes what an object refers to from the cache, and notes those of its needed
// objects that have to be looked at.
func (t *Tracker[S, T]) refresh(key store.Key, changed map[target]struct{}) {
	o, ok := t.users.Get(key)
	var targets []target
	if ok {
		targets = t.targets(o)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.index.users[key]
	if !ok || u == nil || u.revision <= o.Revision {
		var revision store.Revision
		if ok {
			revision = o.Revision
		}
		u, _ = t.index.refer(key, targets, revision)
	}
	if u == nil {
		return
	}
	for _, e := range u.edges {
		if u.is(waiting) || !e.node.known {
			changed[e.node.target] = struct{}{}
		}
	}
}

// send hands the wakes to the queue.
func (t *Tracker[S, T]) send(ctx context.Context, to reconcile.Sink[reconcile.Request]) error {
	t.mu.Lock()
	wakes := t.wakes
	t.wakes = nil
	t.mu.Unlock()
	band := bandLive
	if len(wakes) > t.o.burst {
		band = bandLow
	}
	for i, w := range wakes {
		t.mu.Lock()
		after := t.handOverLocked(w)
		t.mu.Unlock()
		o := queue.AddOptions{Urgent: true, KeepAttempts: w.keep, After: max(after, w.after), Priority: band, Reason: "dependency"}
		if err := reconcile.AddWaiting(ctx, to, w.key, o); err != nil {
			t.mu.Lock()
			t.wakes = append(wakes[i:], t.wakes...) // for the next life of the source
			t.mu.Unlock()
			return err
		}
	}
	return nil
}

// handOverLocked is when a wake goes to the queue; mu is held. One that is a repetition takes no place of the
// pace, and comes no earlier than the first one.
func (t *Tracker[S, T]) handOverLocked(w wake) (after time.Duration) {
	u, now := t.index.users[w.key], t.now()
	if w.again && u != nil {
		return max(0, u.due-now)
	}
	after = t.pace.delay(now)
	if u != nil {
		u.due = now + after
	}
	return after
}
