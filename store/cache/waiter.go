package cache

import (
	"slices"
	"time"

	"github.com/tendhq/tend/store"
)

// OnRevision calls f once, as soon as the cache has applied everything of its
// kind up to revision r: at once and on the caller's goroutine if it already
// has, otherwise later on the goroutine of Run, which waits for f, so f must be
// quick and must not block. stop reports whether it came before f.
//
// A revision orders one backend's commits only: hand in what was written to
// this cache's kind (Kind) on this cache's backend (Backend). When the backend
// was restored from a backup, revisions handed out before have no meaning any
// more, and every waiter is called.
//
// promise S4 rests on this: a key whose run wrote at r is held until then.
func (c *Cache[S, T]) OnRevision(r store.Revision, f func()) (stop func() bool) {
	return c.core.onRevision(r, f)
}

func (c *core) onRevision(r store.Revision, f func()) (stop func() bool) {
	c.mu.Lock()
	if c.hasSynced() && r <= c.at() {
		c.mu.Unlock()
		f()
		return func() bool { return false }
	}
	c.lastWaiter++
	id := c.lastWaiter
	c.waiters.push(waiter{r, id, f, time.Now()})
	c.mu.Unlock()
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.waiters.remove(id)
	}
}

// dueLocked takes out the waiters that the cache's revision has reached, or all
// of them when the revisions they wait for belong to a history that is gone.
func (c *core) dueLocked(all bool) []func() {
	due := c.feed.due[:0]
	for len(c.waiters) > 0 && (all || c.waiters[0].revision <= c.at()) {
		due = append(due, c.waiters.pop().f)
	}
	c.feed.due = due
	return due
}

type waiter struct {
	revision store.Revision
	id       uint64
	f        func()
	since    time.Time
}

// waiters is a heap, earliest revision first. Its elements are values, because
// every write of every run waits here once. Finding one to remove is slow, and
// rare.
type waiters []waiter

func (h *waiters) push(w waiter) {
	*h = append(*h, w)
	h.up(len(*h) - 1)
}

func (h *waiters) pop() waiter {
	first := (*h)[0]
	h.cut(0)
	return first
}

func (h *waiters) remove(id uint64) bool {
	i := slices.IndexFunc(*h, func(w waiter) bool { return w.id == id })
	if i < 0 {
		return false
	}
	h.cut(i)
	return true
}

// cut takes out the i-th; the last one fills its place.
func (h *waiters) cut(i int) {
	last := len(*h) - 1
	(*h)[i] = (*h)[last]
	(*h)[last] = waiter{}
	*h = (*h)[:last]
	if i < last {
		h.up(i)
		h.down(i)
	}
}

func (h waiters) up(i int) {
	for parent := (i - 1) / 2; i > 0 && h[i].revision < h[parent].revision; parent = (i - 1) / 2 {
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

func (h waiters) down(i int) {
	for {
		child := 2*i + 1
		if child+1 < len(h) && h[child+1].revision < h[child].revision {
			child++
		}
		if child >= len(h) || h[i].revision <= h[child].revision {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
