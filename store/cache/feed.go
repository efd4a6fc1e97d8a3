package cache

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/store"
)

// feed is what a cache reads the store with. What it reads are parts: the shards that HoldShard
// asks for, or, without Options.Shards, one part that is the whole kind and always wanted.
//
//	       HoldShard          fit              the reading ends       released
//	part ────────────▶ waits ─────▶ being read ────────────────▶ ready ────────▶ forgotten
//
//	Run's goroutine    keepUp: fit, follow (the watch of all parts), take each batch
//	that of the lists  readLists: listParts of those that are not ready, takePage; of shards only
//	any goroutine      HoldShard and its release: stirLocked ends the watch, so that Run fits again
//
// A part is read by the snapshot that a watch begins with, or, where the watch goes on from a
// revision, by a list. fit takes the part up and has the watch opened from the revision that the
// cache has reached, and the list begins after fit: so the list is no older than the watch, and
// together they have no gap. Changes of a part that is being listed wait until the list has
// ended; those that are no newer than the list are dropped. Parts that are asked for meanwhile
// wait for the end, or have it begin again: see againLocked.
type feed struct {
	// mu is the right to write what the cache shows. Run's goroutine has it for each batch and that
	// of the lists for each page, also while they call code of the user's: index functions, OnError
	// and waiters. So no method of the cache takes it, but Run. It is taken before Cache.mu.
	mu    sync.Mutex
	late  []store.Change // of the parts that are being listed, in order
	steps []step         // scratch, see applyScratch

	// Run's goroutine alone uses these.
	relist *relist  // nil unless a snapshot is on its way in
	isUp   bool     // conn.connected, which each batch asks for
	due    []func() // scratch of reach

	// Written with mu and Cache.mu held, and so read with either.
	parts     map[int]*part // that Run reads, by shard
	startOver bool          // a watch begins with a snapshot, the next one or the one that is open; until that has ended
	watched   int           // how many parts the watch was opened for
	giveUp    func()        // ends the list; nil: there is none

	// Guarded by Cache.mu.
	wanted map[int]*part // by shard
	stop   func()        // ends the watch; nil: it was called
	others uint64        // changes of what the cache does not hold

	unread chan struct{} // capacity 1: parts may have to be listed, or forgotten
}

// part is a shard, or the whole kind, from the first HoldShard to the last release. A shard that was
// released and is asked for again is another part: it is read again.
type part struct {
	users int
	since time.Time     // it is waited for
	done  chan struct{} // what HoldShard returns

	// Written with both locks held.
	ready  bool           // all of it is there
	closed bool           // done is: what holds the shard has seen its objects. It stays so when Run ends, and ready does not
	at     store.Revision // of what showed it: the watch may still be older
}

func newPart() *part { return &part{since: time.Now(), done: make(chan struct{})} }

// shardOf is the part that has the key.
func (c *core) shardOf(k store.Key) int {
	if c.opts.Shards == 0 {
		return 0
	}
	return store.ShardOf(k, c.opts.Shards)
}

// fit forgets the parts that are not wanted any more, takes up those that are, and says which
// slots the next watch has, none if no part is wanted, and after which revision; zero asks for a
// snapshot. That watch is ended by stop.
func (c *core) fit(stop func()) (slots store.SlotSet, after store.Revision) {
	f := &c.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	c.mu.Lock()
	gone := f.forgetLocked()
	if !f.startOver && len(f.wanted) > 0 {
		after = c.at()
	}
	if f.startOver = after == 0; f.startOver { // also of a store without a commit
		f.endListLocked() // the snapshot shows all
	}
	if f.giveUp != nil && f.againLocked() {
		f.endListLocked()
		maps.Copy(gone, f.unready()) // what it has shown of them: what changed meanwhile is dropped
	}
	if f.giveUp == nil {
		maps.Copy(f.parts, f.wanted)
	}
	f.watched = len(f.parts)
	for shard := range f.parts {
		slots = slots.Union(store.SlotsOf(shard, max(1, c.opts.Shards)))
	}
	f.stop = stop
	c.mu.Unlock()
	c.dropParts(gone)
	if len(f.parts) == 0 {
		c.down(nil) // also what went wrong before: nothing is missing now
	}
	sleep.Wake(f.unread)
	return slots, after
}

// forgetLocked takes out the parts that are not wanted any more. It returns their shards, whose
// objects the caller drops.
func (f *feed) forgetLocked() (gone map[int]bool) {
	gone = make(map[int]bool)
	for shard, p := range f.parts {
		if f.wanted[shard] != p {
			delete(f.parts, shard)
			gone[shard] = true
		}
	}
	return gone
}

// againLocked reports whether the parts that wait are to be read now: at once if nothing is being
// read, else if they are as many as are read for the first time. One reading of all costs no more
// than the rest of this one and another whole one. They double each time, so that no part waits for long.
func (f *feed) againLocked() bool {
	waiting, first := 0, 0
	for shard, p := range f.wanted {
		if f.parts[shard] != p {
			waiting++
		}
	}
	for _, p := range f.parts {
		if !p.ready {
			first++
		}
	}
	return waiting > 0 && (waiting >= first || !f.startOver && f.giveUp == nil)
}

// unready are the shards of the parts that are not ready. Either lock is held.
func (f *feed) unready() map[int]bool {
	shards := make(map[int]bool)
	for shard, p := range f.parts {
		if !p.ready {
			shards[shard] = true
		}
	}
	return shards
}

// stirLocked ends the watch if Run has to open another one for what is wanted now. A part that is
// lost while a snapshot is on its way is no reason: what it shows of the others may have taken minutes.
func (f *feed) stirLocked() {
	if f.stop == nil {
		return
	}
	lost := len(f.parts) < f.watched // the lists have forgotten it
	for shard, p := range f.parts {
		lost = lost || f.wanted[shard] != p
	}
	if f.againLocked() || lost && !f.startOver || len(f.wanted) == 0 {
		f.stopLocked()
	}
}

func (f *feed) stopLocked() {
	if f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

// endListLocked gives up the list that is on its way, if there is one, or notes that it has ended.
func (f *feed) endListLocked() {
	if f.giveUp != nil {
		f.giveUp()
		f.giveUp, f.late = nil, nil
	}
}

// completeLocked notes that all parts are there: those that were not yet are as of a revision.
func (f *feed) completeLocked(at store.Revision) {
	for _, p := range f.parts {
		if p.ready {
			continue
		}
		if p.ready, p.at = true, at; !p.closed {
			p.closed = true
			close(p.done)
		}
	}
	f.stirLocked() // for what has waited for this
}

// ended notes that nothing feeds the cache any more: what it holds of shards is not relied on.
func (c *core) ended() {
	f := &c.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	f.endListLocked()
	if c.opts.Shards == 0 {
		return // the next watch goes on from here
	}
	f.startOver = true
	for _, p := range f.wanted {
		if p.ready {
			p.ready, p.since = false, time.Now()
		}
	}
}

// ours is the batch without what the cache does not hold, or knows already. It does not
// write to what it shares with b.
func (c *core) ours(b store.Batch) store.Batch {
	f := &c.feed
	skipped := b.Skipped
	keep := func(ch *store.Change) bool {
		p := f.parts[c.shardOf(ch.Key)]
		switch {
		case p == nil:
			skipped++
			return false
		case b.Kind != store.BatchChanges:
			return true
		case p.ready:
			return ch.Revision > p.at
		case f.giveUp != nil:
			f.late = append(f.late, *ch)
		}
		return false
	}
	n := 0
	for n < len(b.Changes) && keep(&b.Changes[n]) {
		n++
	}
	if all := b.Changes; n < len(all) {
		b.Changes = slices.Clone(all[:n])
		for i := n + 1; i < len(all); i++ {
			if keep(&all[i]) {
				b.Changes = append(b.Changes, all[i])
			}
		}
	}
	if skipped > 0 {
		c.mu.Lock()
		f.others += uint64(skipped)
		c.mu.Unlock()
	}
	return b
}

// dropParts forgets what the cache has of some shards.
func (c *core) dropParts(gone map[int]bool) {
	if len(gone) == 0 {
		return
	}
	var steps []step
	for _, o := range c.copyList() {
		if key := o.Key(); gone[c.shardOf(key)] {
			if st, ok := c.prepare(key, nil, c.at()); ok {
				st.left = true
				steps = append(steps, st)
			}
		}
	}
	for key := range c.broken { // the feed alone writes it
		if gone[c.shardOf(key)] {
			c.mend(key)
		}
	}
	c.apply(steps)
	c.mu.Lock()
	defer c.mu.Unlock()
	if cap(c.list) > 2*len(c.list)+1024 {
		c.list = slices.Clone(c.list)
	}
}
