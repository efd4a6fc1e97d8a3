package reconcile

import (
	"slices"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
)

// A change is somebody else's unless the key's own run wrote it. The store's
// watch can be faster than the call that wrote, so while the key is running the
// question waits for the end of the run (slot.maybe); after the run it is
// answered from afters.

// seen is one revision that a cache showed for a key.
type seen[K comparable] struct {
	key   K
	cache Cached
	rev   store.Revision
}

// object is the key of the object that changed, which is the key that it adds: only a
// source of a controller's own kind asks whose the change was.
func (s seen[K]) object() store.Key {
	k, _ := any(s.key).(store.Key)
	return k
}

// live admits a change that is urgent unless the key's own run made it.
func (c *Controller[K]) live(key K, cached Cached, rev store.Revision, o queue.AddOptions) error {
	at := seen[K]{key, cached, rev}
	if c.elsewhere(key) {
		return nil
	}
	running := c.askRunning(at) // before what is remembered: a run notes that before it ends
	k := c.after.ask(key)
	o.Urgent = !running && !own(k, at)
	c.holdKept(key, k)
	return c.enqueue(key, o)
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

// hasShown reports whether every source that can has shown what was written.
func (c *Controller[K]) hasShown(w *store.Writes) bool {
	return !slices.ContainsFunc(c.sources(), func(f *feed[K]) bool {
		return f.cache != nil && !f.mapped && store.Revision(f.shown.Load()) < w.Highest(f.cache.Backend(), f.cache.Kind())
	})
}

// saw notes that a source has taken a change: what was remembered of the key's
// own writes up to there is not needed any more.
func (s *sink[K]) saw(key K, from Cached, rev store.Revision) {
	s.shown.Store(uint64(rev))
	s.c.after.saw(seen[K]{key, from, rev})
}

// ask notes the question if the slot is running the key.
func (s *slot[K]) ask(at seen[K]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.going() || !slices.Contains(s.keys, at.key) {
		return false
	}
	s.maybe = append(s.maybe, at)
	return true
}

// answer makes urgent what was asked during a run and not written by it.
func (c *Controller[K]) answer(asked []seen[K], w *store.Writes) {
	for _, at := range asked {
		if w != nil && w.Has(at.cache.Backend(), at.cache.Kind(), at.object(), at.rev) {
			continue
		}
		c.holdIfBehind(at.key)
		// The queue cannot be full, the key is running; when stopped it does not matter.
		_ = c.enqueue(at.key, queue.AddOptions{Urgent: true, Reason: "changed during the run"})
	}
}
