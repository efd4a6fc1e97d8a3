package cache

import (
	"hash/maphash"

	"github.com/tendhq/tend/store"
)

// A relist is a snapshot on its way in. The table stays readable meanwhile and
// turns new object by object; at the end, what the snapshot did not name is
// gone, and is turned into deletions.
type relist struct {
	seen     map[store.Key]struct{} // nil: the table was empty, nothing can vanish
	restored bool                   // the revision went back: equal numbers mean nothing
}

// beginSnapshot is called for each batch of a snapshot; the first begins it.
func (c *core) beginSnapshot(at store.Revision) {
	if c.feed.relist != nil {
		return
	}
	c.feed.relist = &relist{restored: at < c.at()}
	if n := c.len() + len(c.broken); n > 0 {
		c.feed.relist.seen = make(map[store.Key]struct{}, n)
	}
}

func (c *core) takeSnapshot(b store.Batch) {
	steps := c.feed.steps[:0]
	for _, ch := range b.Changes {
		if c.feed.relist.seen != nil {
			c.feed.relist.seen[ch.Record.Key] = struct{}{}
			if c.unchanged(ch.Record) {
				c.mend(ch.Record.Key) // of a version that this history does not have
				continue
			}
		}
		if s, ok := c.read(ch.Record, b.Revision); ok {
			s.initial = !c.feed.parts[c.shardOf(s.key)].closed
			steps = append(steps, s)
		}
	}
	c.applyScratch(steps)
}

// unchanged reports whether the cache holds this very version, so that a relist
// of 100,000 objects of which ten changed decodes ten.
func (c *core) unchanged(r store.Record) bool {
	h, ok := c.objects.Load(r.Key)
	// In a history that was written beyond what the cache has seen of another one, the
	// same revision may be of another version.
	return ok && !c.feed.relist.restored && h.obj.Load().Revision == r.Revision && h.print == recordPrint(r)
}

var recordSeed = maphash.MakeSeed()

// recordPrint tells the bytes of one record from those of another. Values need none: a
// backend that keeps them has no other history.
func recordPrint(r store.Record) uint64 {
	if r.Value != nil {
		return 0
	}
	return maphash.Bytes(recordSeed, r.Bytes)
}

// endSnapshot removes what the snapshot did not name. An object that is stored
// but cannot be decoded was named, so it is not mistaken for a deleted one.
func (c *core) endSnapshot(at store.Revision) {
	r := c.feed.relist
	c.feed.relist = nil
	if r.seen != nil {
		c.apply(c.vanished(r.seen, at))
	}
	c.mu.Lock()
	c.conn.snapshots++
	if r.restored {
		c.conn.restores++
	}
	c.mu.Unlock()
	c.reach(at, r.restored) // first: what a part that is ready waits for is of this history
	c.mu.Lock()
	defer c.mu.Unlock()
	c.feed.startOver = false
	for _, p := range c.feed.parts {
		p.at = at
	}
	c.feed.completeLocked(at)
}

func (c *core) vanished(seen map[store.Key]struct{}, at store.Revision) []step {
	var steps []step
	for _, o := range c.copyList() {
		if _, ok := seen[o.Key()]; !ok {
			if s, ok := c.prepare(o.Key(), nil, at); ok {
				steps = append(steps, s)
			}
		}
	}
	for key := range c.broken { // the feed alone writes it
		if _, ok := seen[key]; !ok {
			c.mend(key)
		}
	}
	return steps
}
