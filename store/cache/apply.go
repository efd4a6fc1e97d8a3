package cache

import (
	"fmt"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/store"
)

// A step is one change made ready outside the lock: decoded, checked against
// the limits, its index values computed by the user's functions.
type step[S, T any] struct {
	key      store.Key
	held     *held[S, T] // of the key, if the table had it
	old, new *store.Object[S, T]
	oldAt    [][]string // index values, in the order of Cache.indexes
	newAt    [][]string
	revision store.Revision
	print    uint64      // of the record of new; see held
	look     fingerprint // of new, with Options.DetectMutations
	initial  bool        // see Change
	left     bool
}

// read decodes a stored version. One that cannot be decoded is reported, and
// what the cache held of it stays: to drop it would look like a deletion. What is in another
// namespace is not the cache's to report.
func (c *Cache[S, T]) read(r store.Record, at store.Revision) (s step[S, T], ok bool) {
	if ns := c.opts.Selector.Namespace; ns != "" && r.Key.Namespace != ns {
		return s, false
	}
	obj, err := c.store.Decode(r)
	if err != nil {
		c.breaks(r.Key, fmt.Errorf("cache: %s: %w", c.name, err))
		return s, false
	}
	c.mend(r.Key)
	s, ok = c.prepare(r.Key, obj, at)
	s.print = recordPrint(r)
	return s, ok
}

// takeRevision applies all changes of one revision at once.
func (c *Cache[S, T]) takeRevision(changes []store.Change) {
	steps := c.steps[:0]
	for _, ch := range changes {
		var s step[S, T]
		var ok bool
		if ch.Deleted {
			c.mend(ch.Record.Key)
			s, ok = c.prepare(ch.Record.Key, nil, ch.Record.Revision)
		} else {
			s, ok = c.read(ch.Record, ch.Record.Revision)
		}
		if ok {
			steps = append(steps, s)
		}
	}
	c.applyScratch(steps)
}

// applyScratch applies steps that were appended to c.steps.
func (c *Cache[S, T]) applyScratch(steps []step[S, T]) {
	c.apply(steps)
	clear(steps) // what was replaced must not be kept alive
	c.steps = steps[:0]
}

// breaks notes an object that cannot be decoded, and reports it.
func (c *Cache[S, T]) breaks(key store.Key, err error) {
	c.mu.Lock()
	c.broken[key] = err
	c.mu.Unlock()
	c.report(key, err)
}

// mend forgets what was noted of an object that can be read again, or is gone.
func (c *Cache[S, T]) mend(key store.Key) {
	if _, ok := c.broken[key]; !ok { // Run's goroutine alone writes it
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.broken, key)
}

// prepare turns what the backend said about a key into a step; ok is false when
// there is nothing to do. Only Run's goroutine calls it, and it alone writes
// the table, so old cannot change before the step is applied.
func (c *Cache[S, T]) prepare(key store.Key, obj *store.Object[S, T], at store.Revision) (s step[S, T], ok bool) {
	var old *store.Object[S, T]
	h, ok := c.objects.Load(key)
	if ok {
		old = h.obj.Load()
	}
	if obj != nil && !c.within(obj) {
		obj = nil
	}
	if old == nil && obj == nil {
		return s, false
	}
	s = step[S, T]{key: key, held: h, old: old, new: obj, revision: at}
	s.oldAt, s.newAt = c.indexValues(old), c.indexValues(obj)
	return s, true
}

// indexValues asks each index function where o belongs.
func (c *Cache[S, T]) indexValues(o *store.Object[S, T]) [][]string {
	if o == nil || len(c.indexes) == 0 {
		return nil
	}
	values := make([][]string, len(c.indexes))
	for i, x := range c.indexes {
		values[i] = c.ask(x, o)
	}
	return values
}

// ask contains a panic of the user's function: the object is then not found
// under this index, and everything else goes on.
func (c *Cache[S, T]) ask(x *Index[S, T], o *store.Object[S, T]) (values []string) {
	if err := contain.Apart(func() error { values = x.fn(o); return nil }); err != nil {
		c.report(o.Key(), fmt.Errorf("cache: index %s of %s: %w", x.name, o.Key(), err))
	}
	return values
}

// apply makes the steps visible, all at once to All and By, and hands them to
// the consumers.
func (c *Cache[S, T]) apply(steps []step[S, T]) {
	if len(steps) == 0 {
		return
	}
	if c.opts.DetectMutations {
		c.fingerprint(steps)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range steps {
		c.applyLocked(&steps[i])
	}
}

func (c *Cache[S, T]) applyLocked(s *step[S, T]) {
	c.tableLocked(s, s.held)
	if c.opts.DetectMutations {
		c.lookLocked(s)
	}
	for i, x := range c.indexes {
		if s.old != nil {
			x.remove(s.old, s.oldAt[i])
		}
		if s.new != nil {
			x.add(s.new, s.newAt[i])
		}
	}
	ch := Change[S, T]{Key: s.key, Old: s.old, New: s.new, Revision: s.revision, Initial: s.initial, Left: s.left}
	for _, q := range c.consumers {
		q.add(ch)
	}
}

// tableLocked stores what the step has under its key, or removes the key where that is
// nothing. h is what the table has for the key, nil if nothing.
func (c *Cache[S, T]) tableLocked(s *step[S, T], h *held[S, T]) {
	if h == nil && s.new != nil {
		added := &held[S, T]{slot: len(c.list), print: s.print}
		added.obj.Store(s.new)
		if h, _ = c.objects.LoadOrStore(s.key, added); h == added {
			c.list = append(c.list, s.new)
			return
		}
	}
	if h == nil || h.slot < 0 { // a key that the batch named twice may have come or gone
		h, _ = c.objects.Load(s.key)
	}
	switch {
	case s.new == nil && h == nil:
	case s.new == nil:
		c.objects.Delete(s.key)
		c.unlistLocked(h)
	case h == nil:
		c.tableLocked(s, nil)
	default:
		c.list[h.slot] = s.new
		h.print = s.print
		h.obj.Store(s.new)
	}
}

// unlistLocked puts the last of the list in the place of what is gone.
func (c *Cache[S, T]) unlistLocked(h *held[S, T]) {
	last := len(c.list) - 1
	if h.slot != last {
		moved := c.list[last]
		c.list[h.slot] = moved
		if its, ok := c.objects.Load(moved.Key()); ok {
			its.slot = h.slot
		}
	}
	c.list[last] = nil
	c.list = c.list[:last]
	h.slot = -1
}

// reach records that the kind is complete up to r, which a cache first is when
// it has synced, and calls the waiters for it. reset calls all waiters: the
// history they waited in is gone.
func (c *Cache[S, T]) reach(r store.Revision, reset bool) {
	c.mu.Lock()
	c.revision.Store(uint64(r))
	due := c.dueLocked(reset)
	if !c.hasSynced() {
		for _, q := range c.early {
			c.beginLocked(q)
		}
		c.early = nil
		close(c.synced) // under mu, or OnRevision could miss both
	}
	c.mu.Unlock()
	for i, f := range due {
		due[i] = nil
		f()
	}
}
