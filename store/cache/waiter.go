package cache

import (
	"container/heap"
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
// more, and everybody who waits for one is called.
//
// promise S4 rests on this: a key whose run wrote at r is held until then.
func (c *Cache[S, T]) OnRevision(r store.Revision, f func()) (stop func() bool) {
	c.mu.Lock()
	if c.hasSynced() && r <= c.Revision() {
		c.mu.Unlock()
		f()
		return func() bool { return false }
	}
	w := &waiter{revision: r, f: f, since: time.Now()}
	heap.Push(&c.waiters, w)
	c.mu.Unlock()
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if w.index < 0 {
			return false
		}
		heap.Remove(&c.waiters, w.index)
		return true
	}
}

// dueLocked takes out the waiters that the cache's revision has reached, or all
// of them when the revisions they wait for belong to a history that is gone.
func (c *Cache[S, T]) dueLocked(all bool) []func() {
	var due []func()
	for len(c.waiters) > 0 && (all || c.waiters[0].revision <= c.Revision()) {
		due = append(due, heap.Pop(&c.waiters).(*waiter).f)
	}
	return due
}

type waiter struct {
	revision store.Revision
	f        func()
	since    time.Time
	index    int // in the heap; -1 once taken out
}

// waiters is a heap, earliest revision first.
type waiters []*waiter

func (h waiters) Len() int           { return len(h) }
func (h waiters) Less(i, j int) bool { return h[i].revision < h[j].revision }
func (h waiters) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *waiters) Push(x any) {
	w := x.(*waiter)
	w.index = len(*h)
	*h = append(*h, w)
}

func (h *waiters) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	w.index = -1
	return w
}
