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
	at := len(c.waiters) // writes come about in the order of their revisions
	for at > 0 && c.waiters[at-1].revision > r {
		at--
	}
	c.waiters = slices.Insert(c.waiters, at, waiter{r, id, f, time.Now()})
	c.mu.Unlock()
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.IndexFunc(c.waiters, func(w waiter) bool { return w.id == id })
		if i >= 0 {
			c.waiters = slices.Delete(c.waiters, i, i+1)
		}
		return i >= 0
	}
}

// dueLocked takes out the waiters that the cache's revision has reached, or all
// of them when the revisions they wait for belong to a history that is gone.
func (c *core) dueLocked(all bool) []func() {
	due := c.feed.due[:0]
	for _, w := range c.waiters {
		if !all && w.revision > c.at() {
			break
		}
		due = append(due, w.f)
	}
	c.waiters = slices.Delete(c.waiters, 0, len(due))
	c.feed.due = due
	return due
}

type waiter struct {
	revision store.Revision
	id       uint64
	f        func()
	since    time.Time
}
