package cache

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/store"
)

// A cache of shards (Options.Shards) holds the objects of those that HoldShard asks
// for:
//
//	            ┌──── watch goroutine ◀── WatchSlots (slots of all shards held)
//	Run's loop ◀┤
//	            └──── list goroutine  ◀── ListSlots  (slots of the shards just gained)
//
//	        HoldShard                 the list ends            released
//	shard ────────────▶ being listed ───────────────▶ ready ────────────▶ forgotten
//
// When a shard is gained, the watch is opened again with its slots, from the revision
// that the cache has reached, and only then the list begins: so the list is no older
// than the watch, and together they have no gap. Changes of a shard that is being listed
// wait until the list has ended; those that are no newer than the list are dropped. Shards that
// are gained during a list wait for the next one, or begin it again: see readAgain.
type shards struct {
	n    int
	wake chan struct{} // capacity 1: wanted has changed

	wanted map[int]*want // by shard; guarded by Cache.mu
	others uint64        // guarded by Cache.mu

	// Run's goroutine alone has these.
	parts    map[int]*part
	watch    *stream[store.Batch] // nil: none is open
	watched  store.SlotSet        // by watch
	opened   time.Time            // when watch was
	snapshot map[int]*part        // the parts that the watch's snapshot shows; nil: none is on its way
	list     *stream[store.Page]  // nil: none is on its way
	listed   map[int]*part        // the parts that list is for
	late     []store.Change       // of listed, in order: what the watch said meanwhile
	listFrom store.Revision       // what the watch said up to here, the list has
	failures int                  // of the watch, in a row
	retry    <-chan time.Time
	relistAt <-chan time.Time // when a list that failed is tried again
	lists    int              // failures of lists, in a row
}

// want is a shard that is asked for.
type want struct {
	users   int
	since   time.Time
	ready   chan struct{}
	isReady bool // it is complete
	closed  bool // ready is: what holds the shard has seen its objects. It stays so when Run ends, and isReady does not
}

// part is a shard that the cache holds or is about to.
type part struct {
	of    *want // a shard that was released and is asked for again is another part: it is listed again
	ready bool
	at    store.Revision // of the list that showed it
}

// HoldShard asks for the objects of a shard. ready is closed once the cache has all of
// them, as they were after HoldShard was called or later; it is closed already if another call
// holds the shard, and then they are as the watch has shown them so far. So controllers that share
// such a cache need one placement, by which both are given a shard at once. They stay until each call's
// release was called; calling it again does nothing. Then the cache forgets them: a
// consumer of Changes sees them go with Left. HoldShard does not block. It panics if the
// cache is not one of shards (Options.Shards), or has no such shard.
func (c *Cache[S, T]) HoldShard(shard int) (ready <-chan struct{}, release func()) {
	return c.core.holdShard(shard)
}

func (c *core) holdShard(shard int) (ready <-chan struct{}, release func()) {
	if c.shards == nil || shard < 0 || shard >= c.shards.n {
		panic(fmt.Sprintf("cache: %s: HoldShard(%d) of %d", c.name, shard, c.opts.Shards))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.shards.wanted[shard]
	if w == nil {
		w = &want{since: time.Now(), ready: make(chan struct{})}
		c.shards.wanted[shard] = w
		c.shards.notify()
	}
	w.users++
	return w.ready, sync.OnceFunc(func() { c.releaseShard(shard, w) })
}

func (c *core) releaseShard(shard int, w *want) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.users--; w.users == 0 {
		delete(c.shards.wanted, shard)
		c.shards.notify()
	}
}

func (s *shards) notify() {
	sleep.Wake(s.wake)
}

// Shards is Options.Shards: 0 for a cache of the whole kind.
func (c *Cache[S, T]) Shards() int { return c.core.opts.Shards }

// Holds reports whether what Get says of the key can be relied on: whether the cache
// has synced and, if it is one of shards, has the whole shard of the key.
func (c *Cache[S, T]) Holds(k store.Key) bool { return c.core.holds(k) }

func (c *core) holds(k store.Key) bool {
	if !c.hasSynced() || c.shards == nil {
		return c.hasSynced()
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	w := c.shards.wanted[store.ShardOf(k, c.shards.n)]
	return w != nil && w.isReady
}

// snapshotLocked says which shards are there.
func (s *shards) snapshotLocked() *introspect.CacheShards {
	out := &introspect.CacheShards{Of: s.n, Others: s.others}
	for shard, w := range s.wanted {
		if w.isReady {
			out.Ready = append(out.Ready, shard)
			continue
		}
		out.Waiting = append(out.Waiting, shard)
		if out.Since.IsZero() || w.since.Before(out.Since) {
			out.Since = w.since
		}
	}
	slices.Sort(out.Ready)
	slices.Sort(out.Waiting)
	return out
}

// stream is a goroutine that reads the store for Run's loop.
type stream[T any] struct {
	ch   chan result[T]
	stop func() // ends the goroutine and waits for it
}

type result[T any] struct {
	v   T
	err error
}

// startStream calls read on a goroutine of its own. read passes on what it finds by
// give, which reports whether to go on; the error that read returns is passed on last.
func startStream[T any](ctx context.Context, read func(ctx context.Context, give func(T) bool) error) *stream[T] {
	ctx, cancel := context.WithCancel(ctx)
	s := &stream[T]{ch: make(chan result[T])}
	done := make(chan struct{})
	give := func(r result[T]) bool {
		select {
		case s.ch <- r:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() { // ended and waited for by stop
		defer close(done)
		err := read(ctx, func(v T) bool { return give(result[T]{v: v}) })
		give(result[T]{err: err})
	}()
	s.stop = func() { cancel(); <-done }
	return s
}

func (s *stream[T]) results() <-chan result[T] {
	if s == nil {
		return nil
	}
	return s.ch
}

// runShards is Run of a cache of shards.
func (c *core) runShards(ctx context.Context) error {
	s := c.shards
	c.startOver = true
	for _, p := range s.parts { // those of the run before, of which what changed meanwhile is not known
		p.ready = false
	}
	c.reach(c.at(), false) // of no shard everything is there
	defer c.unready()
	defer s.stopWatch()
	defer s.stopList()
	for fits := false; ; {
		if !fits { // not for each change: it looks at every shard
			c.fitParts(ctx)
		}
		fits = false
		var err error
		select {
		case <-ctx.Done():
			c.down(nil)
			return c.checkMutations()
		case <-s.wake:
		case <-s.retry:
			s.retry = nil
		case <-s.relistAt:
			s.relistAt = nil
		case r := <-s.watch.results():
			fits = r.err == nil && r.v.Kind != store.BatchSnapshotEnd
			err = c.takeWatched(ctx, r)
		case r := <-s.list.results():
			c.takeListed(ctx, r)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func (s *shards) stopWatch() {
	if s.watch != nil {
		s.watch.stop()
		s.watch, s.snapshot = nil, nil
	}
}

func (s *shards) stopList() {
	if s.list != nil {
		s.list.stop()
		s.list, s.listed, s.late = nil, nil, nil
	}
}

// unready notes that nothing feeds the cache any more: what it holds is not relied on.
func (c *core) unready() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.shards.wanted {
		if w.isReady {
			w.isReady, w.since = false, time.Now()
		}
	}
	c.shards.notify()
}

// fitParts brings the parts, the watch and the list in line with what is wanted.
func (c *core) fitParts(ctx context.Context) {
	s := c.shards
	gained := make(map[int]*want)
	c.mu.Lock()
	for shard, w := range s.wanted {
		if p := s.parts[shard]; p == nil || p.of != w {
			gained[shard] = w
		} else if p.ready && !w.isReady {
			if w.isReady = true; !w.closed {
				w.closed = true
				close(w.ready)
			}
		}
	}
	lost := make(map[int]bool)
	for shard, p := range s.parts {
		if s.wanted[shard] != p.of {
			lost[shard] = true
		}
	}
	c.mu.Unlock()

	if len(lost) > 0 {
		for shard := range lost {
			delete(s.parts, shard)
		}
		c.dropParts(func(shard int) bool { return lost[shard] })
	}
	if len(s.parts)+len(gained) == 0 {
		s.stopList()
		s.stopWatch()
		c.down(nil) // also what went wrong before: nothing is missing now
		c.abandonSnapshot()
		c.startOver = true
		return
	}
	if s.retry != nil || s.relistAt != nil || !c.readAgain(len(gained)) {
		gained = nil // they come next
	}
	for shard, w := range gained {
		s.parts[shard] = &part{of: w}
	}
	if s.watch == nil && s.retry == nil || s.watch != nil && s.snapshot == nil && s.watched != s.slots() {
		c.openWatch(ctx)
	}
	if s.snapshot == nil && s.list == nil && s.watch != nil && s.relistAt == nil {
		c.openList(ctx)
	}
}

// readAgain ends what is being read of the store if at least as many parts wait as it reads for
// the first time: one list of all costs no more than its rest and another whole list. They double
// each time, so that no part waits for long. It reports whether the parts that wait can be read now.
func (c *core) readAgain(waiting int) bool {
	s := c.shards
	if s.snapshot == nil && s.list == nil {
		return true
	}
	first := 0
	for _, p := range s.parts {
		if !p.ready {
			first++
		}
	}
	if waiting == 0 || waiting < first {
		return false
	}
	if s.snapshot != nil {
		s.stopWatch() // the next one begins with a snapshot again
	} else {
		c.dropList()
	}
	return true
}

// slots are those of all parts.
func (s *shards) slots() (all store.SlotSet) {
	for shard := range s.parts {
		all = all.Union(store.SlotsOf(shard, s.n))
	}
	return all
}

// openWatch watches the slots of all parts, from where the cache is; or, where that is
// not possible, from a snapshot of all, which makes a list superfluous.
func (c *core) openWatch(ctx context.Context) {
	s := c.shards
	s.stopWatch()
	after := c.resumeFrom()
	if c.abandonSnapshot(); after == 0 { // also of a store without a commit
		c.startOver = true
		s.stopList()
		s.snapshot = make(map[int]*part, len(s.parts))
		maps.Copy(s.snapshot, s.parts)
	}
	slots := s.slots()
	s.watched, s.opened = slots, time.Now()
	s.watch = startStream(ctx, func(ctx context.Context, give func(store.Batch) bool) error {
		for b, err := range store.WatchSlots(ctx, c.backend, c.kind, slots, after) {
			if err != nil || !give(b) {
				return err
			}
		}
		return errEnded
	})
}

// watchFailed has the watch opened again. Its error ends Run.
func (c *core) watchFailed(err error) error {
	s := c.shards
	if hadWorked(s.opened) {
		s.failures = 0
	}
	if err := c.watchEnded(err, s.failures > 0); err != nil {
		return err
	}
	if c.startOver {
		s.stopList()
	}
	if s.failures > 0 {
		s.retry = time.After(reopen.After(s.failures - 1))
	}
	s.failures++
	return nil
}

// takeWatched applies what the watch says. Its error ends Run.
func (c *core) takeWatched(ctx context.Context, r result[store.Batch]) error {
	s, b := c.shards, r.v
	if r.err != nil {
		s.stopWatch()
		c.abandonSnapshot()
		if ctx.Err() == nil {
			return c.watchFailed(r.err)
		}
		return nil
	}
	if b.Kind == store.BatchChanges || b.Kind == store.BatchProgress {
		s.failures = 0
	}
	b = c.ours(b)
	c.take(b)
	if b.Kind == store.BatchSnapshotEnd {
		for shard, p := range s.snapshot {
			if s.parts[shard] == p {
				p.ready, p.at = true, b.Revision
			}
		}
		s.snapshot = nil
	}
	return nil
}

// ours is the batch without what the cache does not hold, or knows already. It does not
// write to what it shares with b.
func (c *core) ours(b store.Batch) store.Batch {
	s := c.shards
	skipped := b.Skipped
	keep := func(ch *store.Change) bool {
		shard := store.ShardOf(ch.Key, s.n)
		p := s.parts[shard]
		switch {
		case p == nil || b.Kind == store.BatchSnapshot && s.snapshot[shard] != p:
			skipped++
			return false
		case b.Kind != store.BatchChanges:
			return true
		case s.listed[shard] == p:
			s.late = append(s.late, *ch)
			return false
		}
		return p.ready && ch.Revision > p.at
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
		s.others += uint64(skipped)
		c.mu.Unlock()
	}
	return b
}

// dropParts forgets what the cache has of some shards.
func (c *core) dropParts(lost func(shard int) bool) {
	var steps []step
	for _, o := range c.copyList() {
		if key := o.Key(); lost(store.ShardOf(key, c.shards.n)) {
			if st, ok := c.prepare(key, nil, c.at()); ok {
				st.left = true
				steps = append(steps, st)
			}
		}
	}
	for key := range c.broken { // Run's goroutine alone writes it
		if lost(store.ShardOf(key, c.shards.n)) {
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

// listPage is how many records a page of a list has at most.
const listPage = 1000

// openList lists the parts that are not ready, if there are any.
func (c *core) openList(ctx context.Context) {
	s := c.shards
	listed := make(map[int]*part)
	var slots store.SlotSet
	for shard, p := range s.parts {
		if !p.ready {
			listed[shard] = p
			slots = slots.Union(store.SlotsOf(shard, s.n))
		}
	}
	if len(listed) == 0 {
		return
	}
	s.listFrom, s.listed = c.at(), listed
	s.list = startStream(ctx, func(ctx context.Context, give func(store.Page) bool) error {
		o := store.ListOptions{Limit: listPage}
		for {
			p, err := store.ListSlots(ctx, c.backend, c.kind, slots, o)
			if err != nil || !give(p) || p.Cursor == "" {
				return err
			}
			o.Cursor = p.Cursor
		}
	})
}

// dropList gives up the list that is on its way, and what it has shown: what changed meanwhile is
// dropped.
func (c *core) dropList() {
	listed := c.shards.listed
	c.shards.stopList()
	c.dropParts(func(shard int) bool { return listed[shard] != nil })
}

// takeListed applies a page of the list of the parts that were gained.
func (c *core) takeListed(ctx context.Context, r result[store.Page]) {
	s, page := c.shards, r.v
	if r.err != nil {
		c.dropList()
		if ctx.Err() == nil {
			c.reportWatch(fmt.Errorf("cache: list of %s: %w", c.name, r.err), s.lists > 0)
		}
		s.lists++
		s.relistAt = time.After(reopen.After(s.lists - 1))
		return
	}
	if page.Revision < s.listFrom {
		s.stopList() // the store is older than what was seen of it
		s.stopWatch()
		c.abandonSnapshot()
		c.startOver = true
		return
	}
	steps := c.steps[:0]
	for _, rec := range page.Records {
		shard := store.ShardOf(rec.Key, s.n)
		p := s.parts[shard]
		if p == nil || s.listed[shard] != p {
			continue
		}
		if st, ok := c.read(rec, page.Revision); ok {
			st.initial = !p.of.closed
			steps = append(steps, st)
		}
	}
	c.applyScratch(steps)
	if page.Cursor != "" {
		return
	}
	for shard, p := range s.listed {
		if s.parts[shard] == p {
			p.ready, p.at = true, page.Revision
		}
	}
	late := s.late
	s.lists = 0
	s.stopList()
	c.takeChanges(c.ours(store.Batch{Kind: store.BatchChanges, Changes: late}))
}
