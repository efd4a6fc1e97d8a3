package cache

import (
	"fmt"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/store"
)

// A step is one change made ready outside the lock: decoded, checked against
// the limits, its index values computed by the user's functions.
type step struct {
	key      store.Key
	held     *held // of the key, if the table had it
	old, new *store.Meta
	oldAt    [][]string // index values, in the order of Cache.indexes
	newAt    [][]string
	revision store.Revision
	print    uint64 // of the record of new; see held
	initial  bool   // see Change
	left     bool
}

// read decodes a stored version. One that cannot be decoded is reported, and
// what the cache held of it stays: to drop it would look like a deletion. What is in another
// namespace is not the cache's to report.
func (c *core) read(r store.Record, at store.Revision) (s step, ok bool) {
	if ns := c.opts.Selector.Namespace; ns != "" && r.Key.Namespace != ns {
		return s, false
	}
	obj, err := c.decode(r)
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
func (c *core) takeRevision(changes []store.Change) {
	steps := c.feed.steps[:0]
	for _, ch := range changes {
		var s step
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

// applyScratch applies steps that were appended to feed.steps.
func (c *core) applyScratch(steps []step) {
	c.apply(steps)
	clear(steps) // what was replaced must not be kept alive
	c.feed.steps = steps[:0]
}

// breaks notes an object that cannot be decoded, and reports it.
func (c *core) breaks(key store.Key, err error) {
	c.mu.Lock()
	c.broken[key] = err
	c.unread.Store(int64(len(c.broken)))
	c.mu.Unlock()
	c.report(key, err)
}

// mend forgets what was noted of an object that can be read again, or is gone.
func (c *core) mend(key store.Key) {
	if _, ok := c.broken[key]; !ok { // the feed alone writes it
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.broken, key)
	c.unread.Store(int64(len(c.broken)))
}

// prepare turns what the backend said about a key into a step; ok is false when
// there is nothing to do. feed.mu is held, and the table is written with it alone, so
// old cannot change before the step is applied.
func (c *core) prepare(key store.Key, obj *store.Meta, at store.Revision) (s step, ok bool) {
	var old *store.Meta
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
	s = step{key: key, held: h, old: old, new: obj, revision: at}
	s.oldAt, s.newAt = c.indexValues(old), c.indexValues(obj)
	return s, true
}

// indexValues asks each index function where o belongs.
func (c *core) indexValues(o *store.Meta) [][]string {
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
func (c *core) ask(x *index, o *store.Meta) (values []string) {
	if err := contain.Apart(func() error { values = x.fn(o); return nil }); err != nil {
		c.report(o.Key(), fmt.Errorf("cache: index %s of %s: %w", x.name, o.Key(), err))
	}
	return values
}

// apply makes the steps visible, all at once to All and By, and hands them to
// the consumers.
func (c *core) apply(steps []step) {
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

func (c *core) applyLocked(s *step) {
	c.tableLocked(s, s.held)
	for i, x := range c.indexes {
		if s.old != nil {
			x.remove(s.old, s.oldAt[i])
		}
		if s.new != nil {
			x.add(s.new, s.newAt[i])
		}
	}
	ch := change{Key: s.key, Old: s.old, New: s.new, Revision: s.revision, Initial: s.initial, Left: s.left}
	for _, q := range c.consumers {
		q.add(ch)
	}
}

// tableLocked stores what the step has under its key, or removes the key where that is
// nothing. h is what the table has for the key, nil if nothing.
func (c *core) tableLocked(s *step, h *held) {
	if h == nil && s.new != nil {
		added := &held{slot: len(c.list), print: s.print}
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
func (c *core) unlistLocked(h *held) {
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
func (c *core) reach(r store.Revision, reset bool) {
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
