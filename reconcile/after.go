package reconcile

import (
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/internal/spin"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
)

// Promise S4: a key whose run wrote to a store does not run again before every
// cache that the controller uses has seen the write. A run on an older cache would
// act on the past, and create a second time what it just created. Revisions are
// compared per backend and kind, because another kind's stream never reaches them
// by itself. No worker waits.
//
//	run of a wrote r7 ─▶ after[a] = r7 ─▶ the cache reaches r7, the sources show it ─▶ forgotten
//	                         │
//	                         ├─ a is to run again by itself ─▶ held at once
//	                         ├─ somebody adds a             ─▶ held before the add
//	                         └─ a worker has got a          ─▶ held, and given back
//
// A hold costs more than all the rest of this, and most keys have nothing to run
// for before the cache has caught up. That is why holding waits for a reason.
//
// When the time to wait is over, the key runs and is told to read the store itself
// (Info.Stale), and so does each later run until the caches have caught up. The same
// holds, without waiting, after a write of unknown outcome: it may have landed, at a
// revision that nobody can wait for. There it ends with the first run that was told so
// and succeeded, for that has read what landed. What lands later still (a request that
// was under way all the while) is seen by no such run; the compare-and-swap of its
// next write is what finds it.

// keepBack notes what a key's run wrote; again says that the key is going to run
// again without being added.
func (c *Controller[K]) keepBack(key K, w *store.Writes, again bool) {
	if w == nil {
		return
	}
	if c.after.note(key, w, time.Since(c.epoch)+c.o.SettleTimeout) && again {
		c.hold(key, w, c.o.SettleTimeout)
	}
}

// holdIfBehind is asked before a key is added.
func (c *Controller[K]) holdIfBehind(key K) {
	if c.after.n.Load() == 0 {
		return
	}
	c.holdKept(key, c.after.ask(key))
}

func (c *Controller[K]) holdKept(key K, k owed) {
	if k.left > 0 && !k.held {
		c.hold(key, k.writes, k.left)
	}
}

// mayRun is asked by a worker that has the key. If not, the key is held and must be
// given back. stale says that the caches may lack what the key's earlier runs wrote,
// and that there is no more waiting for them: the run is to read the store itself.
func (c *Controller[K]) mayRun(key K) (stale, ok bool) {
	if c.after.n.Load() == 0 {
		return false, true
	}
	k := c.after.ask(key)
	if k.left > 0 {
		c.hold(key, k.writes, k.left) // again, if it was: somebody held it when we had it, or the hold ended a moment too soon
		return false, false
	}
	return k.stale, true
}

// hold keeps a key in the queue until the caches have seen what it wrote, which they
// may have meanwhile.
func (c *Controller[K]) hold(key K, w *store.Writes, left time.Duration) {
	release := c.q.Hold(c.q.OfKey(key), queue.Hold{Reason: c.waitingFor(w), Max: left})
	if before, ok := c.after.held(key, w, release); !ok {
		release()
	} else if before != nil {
		before()
	}
}

// waitingFor is the reason of such a hold.
func (c *Controller[K]) waitingFor(w *store.Writes) string {
	var names []string
	for _, cached := range c.caches() {
		if lacks(cached, w) {
			names = append(names, cached.Name())
		}
	}
	return "waiting for cache " + strings.Join(names, ", ") + " to see its write"
}

// isBehind reports whether a cache has not reached what was written to its kind.
func (c *Controller[K]) isBehind(w *store.Writes) bool {
	for _, cached := range c.caches() {
		if lacks(cached, w) {
			return true
		}
	}
	return false
}

func lacks(cached Cached, w *store.Writes) bool {
	return cached.Revision() < w.Highest(cached.Backend(), cached.Kind())
}

// holdExpired passes on what the queue says. The controller itself need not know:
// the key's next run, which may have begun already, looks at the caches.
func (c *Controller[K]) holdExpired(over queue.Scope[K], reason string) {
	if user := c.userHooks.HoldExpired; user != nil {
		c.contain("HoldExpired", func() { user(over, reason) })
	}
}

// afters remembers what the last runs of keys wrote, until the caches have reached
// it and the source has shown it: a key is kept back until the first, and asked
// about (owed.own) until the second.
type afters[K comparable] struct {
	c *Controller[K]
	n atomic.Int32 // len(of), or more: most questions end here

	mu    spin.Mutex // guards what follows; Writes' own is taken under it
	of    map[K]*after[K]
	lines []*line[K]
	spare []*after[K] // not in of; a line may still have them, under other writes
}

// maxSpare is how many records are kept for use again.
const maxSpare = 1024

// after is what one run of a key wrote.
type after[K comparable] struct {
	key     K
	writes  *store.Writes // nil: the record is not in use
	until   time.Duration // since the epoch: it is kept back no longer
	behind  int           // lines that it stands in
	release func()        // of the queue's hold; nil: it is not held
	shown   bool          // by the sources of all caches that have one
	unsure  bool          // one of unknown outcome, which no run has looked for
	aged    bool          // it was there when age was called
}

// line is those who wait for one cache, the lowest revision first. Only the first of
// them asks the cache.
type line[K comparable] struct {
	cache   Cached
	asked   []store.Revision // what the cache was asked for and has not answered
	first   int
	waiting []waiting[K]
}

// waiting is in vain when the record is about other writes: a later run of the key has
// taken its place.
type waiting[K comparable] struct {
	record *after[K]
	writes *store.Writes
	rev    store.Revision
}

// note remembers the writes of a run that has just ended, and reports whether a
// cache is behind them.
func (a *afters[K]) note(key K, w *store.Writes, until time.Duration) (behind bool) {
	r := after[K]{key: key, writes: w, until: until}
	var few [2]*line[K]
	joined := few[:0]
	caches := a.c.caches()
	a.mu.Lock()
	record, release := a.of[key], (func())(nil)
	if record == nil {
		record = a.newLocked()
	} else {
		r.unsure, release = record.unsure, record.release
		if record.behind > 0 { // it ran because there was no more waiting: that is still to come
			for _, cached := range caches {
				if lacks(cached, record.writes) {
					w.Note(cached.Backend(), cached.Kind(), store.Key{}, record.writes.Highest(cached.Backend(), cached.Kind()))
				}
			}
		}
	}
	a.n.Store(int32(len(a.of)) + 1) // before asking what was shown: saw does it the other way round
	for _, cached := range caches {
		rev := w.Highest(cached.Backend(), cached.Kind())
		r.unsure = r.unsure || w.Unsure(cached.Backend(), cached.Kind())
		if cached.Revision() >= rev {
			continue
		}
		r.behind++
		l := a.lineLocked(cached)
		l.push(waiting[K]{record, w, rev})
		joined = append(joined, l)
	}
	if r.shown = a.c.hasShown(w); r.behind > 0 || !r.shown || r.unsure {
		a.setLocked(record, r)
	} else if record.writes == nil {
		a.spareLocked(record)
	}
	a.n.Store(int32(len(a.of)))
	a.mu.Unlock()
	if release != nil {
		release() // what it was for is part of the new record
	}
	for _, l := range joined {
		a.call(l)
	}
	return r.behind > 0
}

func (a *afters[K]) newLocked() *after[K] {
	last := len(a.spare) - 1
	if last < 0 {
		return new(after[K])
	}
	r := a.spare[last]
	a.spare = a.spare[:last]
	return r
}

func (a *afters[K]) setLocked(record *after[K], r after[K]) {
	if record.writes == nil {
		if a.of == nil {
			a.of = make(map[K]*after[K])
		}
		a.of[r.key] = record
	}
	*record = r
}

func (a *afters[K]) spareLocked(record *after[K]) {
	*record = after[K]{}
	if len(a.spare) < maxSpare {
		a.spare = append(a.spare, record)
	}
}

func (a *afters[K]) lineLocked(cached Cached) *line[K] {
	for _, l := range a.lines {
		if l.cache == cached {
			return l
		}
	}
	l := &line[K]{cache: cached}
	a.lines = append(a.lines, l)
	return l
}

// push puts somebody in his place, which is the last or nearly so, and uses the
// room at the front again.
func (l *line[K]) push(w waiting[K]) {
	if l.first > 64 && l.first > len(l.waiting)/2 {
		n := copy(l.waiting, l.waiting[l.first:])
		clear(l.waiting[n:])
		l.waiting, l.first = l.waiting[:n], 0
	}
	l.waiting = append(l.waiting, w)
	for i := len(l.waiting) - 1; i > l.first && l.waiting[i-1].rev > w.rev; i-- {
		l.waiting[i-1], l.waiting[i] = l.waiting[i], l.waiting[i-1]
	}
}

// pop takes out the first whose revision is at most r.
func (l *line[K]) pop(r store.Revision) (w waiting[K], ok bool) {
	if l.first == len(l.waiting) || l.waiting[l.first].rev > r {
		return w, false
	}
	w = l.waiting[l.first]
	l.waiting[l.first] = waiting[K]{}
	l.first++
	return w, true
}

// call has the cache call when it reaches the first in line, unless it is going to
// call before that anyway. It is done without the lock, because the cache may
// answer at once.
func (a *afters[K]) call(l *line[K]) {
	a.mu.Lock()
	if l.first == len(l.waiting) {
		a.mu.Unlock()
		return
	}
	rev := l.waiting[l.first].rev
	sooner := slices.ContainsFunc(l.asked, func(r store.Revision) bool { return r <= rev })
	if !sooner {
		l.asked = append(l.asked, rev)
	}
	a.mu.Unlock()
	if !sooner {
		l.cache.OnRevision(rev, func() { a.reached(l, rev) })
	}
}

// reached lets go those who waited for what the cache has reached. A cache that
// calls although it is not at rev was restored from a backup: the revisions of all
// who wait mean nothing any more.
func (a *afters[K]) reached(l *line[K], rev store.Revision) {
	restored := l.cache.Revision() < rev
	for more := true; more; {
		upTo := l.cache.Revision()
		if restored {
			upTo = math.MaxUint64
		}
		var free []func()
		free, more = a.letGo(l, upTo)
		for _, release := range free {
			release()
		}
	}
	a.mu.Lock()
	l.asked = slices.DeleteFunc(l.asked, func(r store.Revision) bool { return r == rev })
	a.mu.Unlock()
	a.call(l)
}

// letGo ends the wait of those up to a revision, of so many at a time that the lock
// is not held for long.
func (a *afters[K]) letGo(l *line[K], upTo store.Revision) (free []func(), more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for range 256 {
		w, ok := l.pop(upTo)
		if !ok {
			break
		}
		if release := a.metLocked(w.record, w.writes); release != nil {
			free = append(free, release)
		}
	}
	if l.first < len(l.waiting) {
		return free, l.waiting[l.first].rev <= upTo
	}
	if l.first = 0; cap(l.waiting) > 4096 {
		l.waiting = nil
	}
	l.waiting = l.waiting[:0]
	return free, false
}

// metLocked notes that one of the caches has reached what the key's run wrote.
func (a *afters[K]) metLocked(r *after[K], w *store.Writes) (release func()) {
	if r.writes != w || r.behind == 0 {
		return nil // a later run of the key has taken its place, or did not wait
	}
	if r.behind--; r.behind == 0 {
		release, r.release = r.release, nil
	}
	a.endLocked(r)
	return release
}

// endLocked forgets a record of which nothing is left.
func (a *afters[K]) endLocked(r *after[K]) {
	if r.behind == 0 && r.shown && !r.unsure {
		delete(a.of, r.key)
		a.spareLocked(r)
		a.n.Store(int32(len(a.of)))
	}
}

// owed is what is remembered of a key. The zero value is for one of which nothing is.
type owed struct {
	writes *store.Writes
	left   time.Duration // for so long it is to be kept back; zero or less: it may run
	held   bool          // it is kept back already
	stale  bool          // a run that is not kept back is to read the store itself
}

// ask is one question instead of several, because in a busy pool the answer's memory
// has to come from another core each time.
func (a *afters[K]) ask(key K) (k owed) {
	if a.n.Load() == 0 {
		return k
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.of[key]
	if r == nil {
		return k
	}
	k.writes = r.writes
	behind := r.behind > 0 && a.c.isBehind(r.writes)
	if behind {
		k.left, k.held = r.until-time.Since(a.c.epoch), r.release != nil
	}
	k.stale = r.unsure || behind
	return k
}

// own reports whether the last run of the key made the change.
func own[K comparable](k owed, at seen[K]) bool {
	return k.writes != nil && k.writes.Has(at.cache.Backend(), at.cache.Kind(), at.object(), at.rev)
}

// held notes the hold of a key, and gives the one that it takes the place of; not ok:
// it is not needed.
func (a *afters[K]) held(key K, w *store.Writes, release func()) (before func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.of[key]
	if r == nil || r.writes != w || r.behind == 0 {
		return nil, false
	}
	before, r.release = r.release, release
	return before, true
}

// sure notes that a run of the key that was told to read the store has succeeded.
func (a *afters[K]) sure(key K) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.of[key]; r != nil && r.unsure {
		r.unsure = false
		a.endLocked(r)
	}
}

// saw notes that the source has shown what was written to a key up to a revision.
func (a *afters[K]) saw(at seen[K]) {
	if a.n.Load() == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.of[at.key]
	if r != nil && r.writes.Highest(at.cache.Backend(), at.cache.Kind()) <= at.rev && a.c.hasShown(r.writes) {
		r.shown = true
		a.endLocked(r)
	}
}

// age forgets what has waited since the call before this one for a source alone, what
// is not known of keys that are not to run again, and who stands in a line for a run
// that a later one has taken the place of. Called once in a while, it bounds what is
// kept for keys whose writes no source ever shows, and while a cache is cut off.
func (a *afters[K]) age() {
	done := a.unsureAndDone()
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, r := range a.of {
		r.shown = r.shown || r.aged && r.behind == 0
		r.unsure = r.unsure && !(r.aged && done[key])
		r.aged = true
		a.endLocked(r)
	}
	for _, l := range a.lines {
		l.waiting = slices.DeleteFunc(l.waiting[l.first:], func(w waiting[K]) bool { return w.record.writes != w.writes })
		l.first = 0
	}
}

// unsureAndDone gives the keys with a write of unknown outcome that are not in the
// queue: their runs took it for a success, or they are another server's now.
func (a *afters[K]) unsureAndDone() map[K]bool {
	done := map[K]bool{}
	a.mu.Lock()
	for key, r := range a.of {
		if r.unsure && r.aged {
			done[key] = true
		}
	}
	a.mu.Unlock()
	for key := range done { // without the lock: the queue has its own
		if _, waits := a.c.q.Lookup(key); waits {
			done[key] = false
		}
	}
	return done
}
