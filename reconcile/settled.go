package reconcile

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
)

// keepBack keeps a key from running again until every cache that the controller
// uses has seen what the run wrote (promise S4): a run on an older cache would
// act on the past, and create a second time what it just created. Revisions are
// compared per backend and kind, because another kind's stream never reaches
// them by itself. No worker waits.
func (c *Controller[K]) keepBack(key K, w *store.Writes) {
	if w == nil {
		return
	}
	for _, cached := range c.caches() {
		rev := w.Highest(cached.Backend(), cached.Kind())
		if rev == 0 {
			continue
		}
		if c.unseen(cached, rev) {
			c.own.note(key, w)
		}
		if cached.Revision() >= rev {
			continue
		}
		at := need{cached, rev}
		c.stale.add(key, at)
		release := c.q.Hold(key, c.waitingFor(cached), c.o.SettleTimeout)
		cached.OnRevision(rev, func() {
			c.stale.met(key, at)
			release()
		})
	}
}

// waitingFor is the reason of such a hold; runs of one kind write it again and
// again.
func (c *Controller[K]) waitingFor(cached Cached) string {
	if why, ok := c.behind.Load(cached); ok {
		return why.(string)
	}
	why := "waiting for cache " + cached.Name() + " to see its write"
	c.behind.Store(cached, why)
	return why
}

// holdExpired passes on what the queue says. It is no news to us: the key's next
// run, which may have begun already, looks at the caches itself.
func (c *Controller[K]) holdExpired(key K, why string) {
	if user := c.userHooks.HoldExpired; user != nil {
		c.contain("HoldExpired", func() { user(key, why) })
	}
}

// staleKeys says what the caches must show before a key's next run can trust
// them. What a cache has shown is forgotten.
type staleKeys[K comparable] struct {
	mu    sync.Mutex // guards needs
	needs map[K]needs
	n     atomic.Int32 // len(needs): a run asks this first
}

// needs of a key: mostly it wrote to one kind.
type needs struct {
	first need
	rest  []need
}

func (n needs) has(which func(need) bool) bool {
	return n.first.cache != nil && which(n.first) || slices.ContainsFunc(n.rest, which)
}

// need is a revision that a cache is to reach.
type need struct {
	cache Cached
	rev   store.Revision
}

func (s *staleKeys[K]) add(key K, at need) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.needs == nil {
		s.needs = make(map[K]needs)
	}
	n := s.needs[key]
	if n.first.cache == nil {
		n.first = at
	} else {
		n.rest = append(n.rest, at)
	}
	s.needs[key] = n
	s.n.Store(int32(len(s.needs)))
}

func (s *staleKeys[K]) met(key K, at need) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.needs[key]
	if n.first == at {
		n.first = need{}
	}
	n.rest = slices.DeleteFunc(n.rest, func(n need) bool { return n == at })
	if n.first.cache == nil && len(n.rest) == 0 {
		delete(s.needs, key)
	} else {
		s.needs[key] = n
	}
	s.n.Store(int32(len(s.needs)))
}

// take reports, at the begin of a run, whether a cache is still behind what the
// key's runs before it wrote. It asks once: the run will read the store itself.
func (s *staleKeys[K]) take(key K) bool {
	if s.n.Load() == 0 {
		return false
	}
	s.mu.Lock()
	needs := s.needs[key]
	delete(s.needs, key)
	s.n.Store(int32(len(s.needs)))
	s.mu.Unlock()
	return needs.has(func(n need) bool { return n.cache.Revision() < n.rev })
}

// A change is somebody else's unless the key's own run wrote it. The store's
// watch can be faster than the call that wrote, so while the key is running the
// question waits for the end of the run (slot.maybe); after the run it is
// answered from ownWrites.

// seen is one revision that a cache showed for a key.
type seen[K comparable] struct {
	key   K
	cache Cached
	rev   store.Revision
}

// live admits a change that is urgent unless the key's own run made it.
func (c *Controller[K]) live(key K, cached Cached, rev store.Revision, o queue.AddOptions) error {
	at := seen[K]{key, cached, rev}
	o.Urgent = !c.askRunning(at) && !c.own.has(at)
	return c.admit(key, o)
}

// askRunning leaves the question with the key's run, if there is one. A run that
// is about to begin has written nothing yet; one that is about to be settled has
// noted what it wrote.
func (c *Controller[K]) askRunning(at seen[K]) bool {
	if _, running := c.q.Running(at.key); !running {
		return false
	}
	return slices.ContainsFunc(c.pool.all(), func(s *slot[K]) bool { return s.ask(at) })
}

// unseen reports whether a source is still to show revision rev of a cache.
func (c *Controller[K]) unseen(cached Cached, rev store.Revision) bool {
	return slices.ContainsFunc(c.sources(), func(f *feed[K]) bool {
		return f.cache == cached && !f.mapped && store.Revision(f.shown.Load()) < rev
	})
}

// saw notes that a source has taken a change: what was remembered of the key's
// own writes up to there is not needed any more.
func (s *sink[K]) saw(key K, from Cached, rev store.Revision) {
	s.shown.Store(uint64(rev))
	s.c.own.forget(seen[K]{key, from, rev})
}

// ask notes the question if the slot is running the key.
func (s *slot[K]) ask(at seen[K]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold == nil || !slices.Contains(s.keys, at.key) {
		return false
	}
	s.maybe = append(s.maybe, at)
	return true
}

// answer makes urgent what was asked during a run and not written by it.
func (c *Controller[K]) answer(asked []seen[K], w *store.Writes) {
	for _, at := range asked {
		if w != nil && w.Has(at.cache.Backend(), at.cache.Kind(), at.rev) {
			continue
		}
		// It cannot be full, the key is on loan; when stopped it does not matter.
		_ = c.q.AddWith(at.key, queue.AddOptions{Urgent: true, Reason: "changed during the run"})
	}
}

// ownWrites remembers what runs wrote, until the sources have seen it.
type ownWrites[K comparable] struct {
	mu       sync.Mutex // guards what follows
	now, old map[K]*store.Writes
}

// note keeps the writes of a run that the watching caches have not shown yet.
func (o *ownWrites[K]) note(key K, w *store.Writes) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now == nil {
		o.now = make(map[K]*store.Writes)
	}
	o.now[key] = w
}

func (o *ownWrites[K]) has(at seen[K]) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range [2]map[K]*store.Writes{o.now, o.old} {
		if w := m[at.key]; w != nil && w.Has(at.cache.Backend(), at.cache.Kind(), at.rev) {
			return true
		}
	}
	return false
}

// forget drops what was noted of a key up to a revision.
func (o *ownWrites[K]) forget(at seen[K]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range [2]map[K]*store.Writes{o.now, o.old} {
		if w := m[at.key]; w != nil && w.Highest(at.cache.Backend(), at.cache.Kind()) <= at.rev {
			delete(m, at.key)
		}
	}
}

// age forgets what was noted before the last call but one. Called once in a
// while, it bounds what is kept for keys whose writes no source ever shows.
func (o *ownWrites[K]) age() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now, o.old = nil, o.now
}
