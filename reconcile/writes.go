package reconcile

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
)

// Promise S4: a key whose run wrote to a store does not run again before every
// cache that the controller uses has seen the write. A run on an older cache would
// act on the past, and create a second time what it just created. Revisions are
// compared per backend and kind, because another kind's stream never reaches them
// by itself. No worker waits.
//
//	run of a wrote r7 ─▶ of[a] = r7 ─▶ the cache reaches r7, the sources show it ─▶ forgotten
//	                         │
//	                         ├─ a is to run again by itself ─▶ held at once
//	                         ├─ a is added                  ─▶ held before the add
//	                         └─ a worker has got a          ─▶ held, and given back
//
// Most keys are not to run before the cache has caught up, and a hold costs more than
// all the rest of this. So a key is held only when there is a reason to run it. A
// worker that finds such a key gives it back, which costs one token of its buckets.
//
// After Options.CacheWait the key runs and is told to read the store itself
// (Info.Stale), and so does each later run until the caches have caught up. Then the key
// runs once more: what such a run read may be gone before the caches came to it, and an
// object that they never showed is no change to their sources.
//
// The same holds, without waiting and without a run more, after a write of unknown outcome:
// it may have landed, at a revision that is not known. There it ends with the first run that
// was told so and succeeded, for that has read what landed. What lands later still (a request
// that was under way all the while) no such run sees; the compare-and-swap of the key's next
// write finds it.

// pendingWrites remembers what the last runs of keys wrote, until the caches have
// reached it and the sources have shown it.
type pendingWrites[K comparable] struct {
	k *kernel[K]
	n atomic.Int32 // len(of), kept beside it: most questions end here

	pending sync.Mutex // guards what follows; the mutex of a runWrites is taken under it
	of      map[K]*pendingWrite
	shown   map[Cached]store.Revision // up to which its source has turned changes into keys
	waits   map[Cached]*waits[K]      // for what some key lacks
}

// waits are the keys that wait for one cache. Of all of them one call is asked of the cache, for
// the least revision: writes are many, and a cache comes to many at once.
type waits[K comparable] struct {
	of    []waiting[K]   // by revision; a key that lacks something waits for one cache, in one place
	spare []waiting[K]   // empty
	asked store.Revision // the least for which the cache is going to call; zero: it is not going to
}

type waiting[K comparable] struct {
	rev store.Revision
	key K
}

// add puts a key in its place: mostly the last one, since writes come in the order of their
// revisions but for those that are concluded side by side.
func (w *waits[K]) add(key K, rev store.Revision) {
	i := len(w.of)
	for i > 0 && w.of[i-1].rev > rev {
		i--
	}
	w.of = slices.Insert(w.of, i, waiting[K]{rev, key})
}

// take returns those whose revision is reached, or all.
func (w *waits[K]) take(reached store.Revision, all bool) []waiting[K] {
	n := len(w.of)
	if !all {
		n, _ = slices.BinarySearchFunc(w.of, reached+1, func(x waiting[K], r store.Revision) int { return cmp.Compare(x.rev, r) })
	}
	due := w.of[:n:n]
	if w.of = w.of[n:]; len(w.of) == 0 {
		w.of, w.spare = w.spare, nil
	}
	return due
}

// giveBack keeps the memory of what take returned for what comes.
func (w *waits[K]) giveBack(due []waiting[K]) {
	if cap(due) <= 1024 && cap(due) > cap(w.spare) {
		clear(due)
		w.spare = due[:0]
	}
}

// pendingWrite is what one run of a key wrote.
type pendingWrite struct {
	writes  *runWrites
	until   time.Duration // since the epoch: the key waits no longer
	lacking []Cached      // the caches that have not reached it; the key waits for one after the other
	one     [1]Cached     // the memory of lacking: mostly there is at most one
	release func()        // of the queue's hold; nil: the key is not held
	unsure  bool          // a write has an unknown outcome, and no run has looked for it
	owed    bool          // a run when nothing is lacking: the key's last run was told to read the store
	ages    int           // how often age was called since nothing is lacking
}

// unseen are the caches that have not shown all that runs wrote, and what each has to reach.
func (p *pendingWrites[K]) unseen() map[Cached]store.Revision {
	p.pending.Lock()
	defer p.pending.Unlock()
	behind := make(map[Cached]store.Revision)
	for _, r := range p.of {
		for _, cached := range r.lacking {
			behind[cached] = max(behind[cached], revisionFor(cached, r.writes))
		}
	}
	return behind
}

// revisionFor is what a cache has to reach to show the writes.
func revisionFor(cached Cached, w *runWrites) store.Revision {
	return w.Highest(cached.Backend(), cached.Kind())
}

func lacks(cached Cached, w *runWrites) bool { return cached.Revision() < revisionFor(cached, w) }

// wrote remembers the writes of a run of key that has returned; again says that the key
// is to run again without being added.
func (p *pendingWrites[K]) wrote(key K, w *runWrites, again bool) {
	if w == nil {
		return
	}
	r := &pendingWrite{writes: w, until: p.k.since() + p.k.o.CacheWait}
	r.lacking = r.one[:0]
	v := p.k.view.Load()
	p.pending.Lock()
	var before pendingWrite // for what the key wrote before, which r includes
	if p.of[key] != nil {
		before = *p.of[key]
	}
	r.unsure, r.owed = before.unsure, before.owed
	if before.writes != nil {
		w.NoteAll(before.writes, func(b store.Backend, kind string, r store.Revision) bool {
			return slices.ContainsFunc(v.caches, func(c Cached) bool {
				if c.Backend() != b || c.Kind() != kind {
					return false
				} else if r > c.Revision() {
					return slices.Contains(before.lacking, c) // the run did not wait for it any more: the key still does
				}
				return p.shown[c] < r && slices.Contains(v.shows, c) // the source is still to ask whose it was
			})
		})
	}
	for _, cached := range v.caches {
		r.unsure = r.unsure || w.Unsure(cached.Backend(), cached.Kind())
		if lacks(cached, w) {
			r.lacking = append(r.lacking, cached)
		}
	}
	p.of[key] = r
	behind := len(r.lacking) > 0
	var ask func()
	if behind && len(before.lacking) == 0 { // else the key waits already, for what it wrote before
		ask = p.awaitLocked(key, r)
	}
	p.forgetLocked(key)
	p.pending.Unlock()
	if before.release != nil {
		before.release()
	}
	switch {
	case ask != nil:
		ask()
	case !behind && len(before.lacking) == 0 && r.owed:
		p.runOwed(key, r)
	}
	if behind && again {
		p.hold(key, w, p.k.o.CacheWait)
	}
}

// forgetLocked forgets the record of a key if there is one and nothing is left of it.
func (p *pendingWrites[K]) forgetLocked(key K) {
	r := p.of[key]
	if r != nil && len(r.lacking) == 0 && !r.unsure && !r.owed && (r.ages > 1 || p.hasShownLocked(p.k.view.Load(), r.writes)) {
		delete(p.of, key)
	}
	p.n.Store(int32(len(p.of)))
}

// awaitLocked puts a key that lacks something among those that wait for the first cache of
// these, and returns what is to be asked of that cache without the lock; nil: it is asked already.
func (p *pendingWrites[K]) awaitLocked(key K, r *pendingWrite) (ask func()) {
	cached := r.lacking[0]
	w := p.waits[cached]
	if w == nil {
		w = new(waits[K])
		p.waits[cached] = w
	}
	w.add(key, revisionFor(cached, r.writes))
	return p.askLocked(cached, w)
}

// askLocked returns how to have the cache call for the first of those that wait for it; nil: it
// is going to, or none waits.
func (p *pendingWrites[K]) askLocked(cached Cached, w *waits[K]) func() {
	if len(w.of) == 0 || w.asked != 0 && w.asked <= w.of[0].rev {
		return nil
	}
	rev := w.of[0].rev
	w.asked = rev
	return func() { cached.OnRevision(rev, func() { p.reached(cached, rev) }) } // it may call at once
}

// reached is called by a cache that has reached rev, and looks after all keys whose writes it
// shows. If it has not reached rev it was restored from a backup, and the revisions of its
// backend mean nothing any more.
func (p *pendingWrites[K]) reached(cached Cached, rev store.Revision) {
	var after []func() // what is done without the lock
	p.pending.Lock()
	now := cached.Revision()
	w := p.waits[cached]
	if w.asked == rev {
		w.asked = 0
	}
	due := w.take(now, now < rev)
	for _, x := range due {
		if f := p.lookLocked(x.key, cached, now < rev); f != nil {
			after = append(after, f)
		}
	}
	w.giveBack(due)
	if ask := p.askLocked(cached, w); ask != nil {
		after = append(after, ask)
	}
	p.pending.Unlock()
	for _, f := range after {
		f()
	}
}

// lookLocked takes the caches that show what a key wrote off those that it lacks, and has it
// wait for the next one of the others. When none is left, the key is held no longer, and runs if
// a run is owed. It returns what is to be done without the lock, if anything is. restored says
// that by was restored from a backup.
func (p *pendingWrites[K]) lookLocked(key K, by Cached, restored bool) (after func()) {
	r := p.of[key]
	if r == nil {
		return nil
	}
	r.lacking = slices.DeleteFunc(r.lacking, func(c Cached) bool {
		return !lacks(c, r.writes) || restored && c.Backend() == by.Backend()
	})
	if len(r.lacking) > 0 {
		return p.awaitLocked(key, r)
	}
	release, owed := r.release, r.owed
	r.release = nil
	p.forgetLocked(key)
	if release == nil && !owed {
		return nil
	}
	return func() {
		if release != nil {
			release()
		}
		if owed {
			p.runOwed(key, r)
		}
	}
}

// runOwed runs a key of which the last run was told to read the store, now that the caches
// have reached what it wrote. If the queue is full, age asks again.
func (p *pendingWrites[K]) runOwed(key K, r *pendingWrite) {
	err := p.k.enqueue(key, queue.AddOptions{Priority: bandLive, Reason: "ran while a cache was behind"})
	if errors.Is(err, queue.ErrFull) {
		return
	}
	p.clear(key, &r.owed)
}

// clear resets left, a field that kept a record of the key, and forgets the key's record if
// nothing else does.
func (p *pendingWrites[K]) clear(key K, left *bool) {
	p.pending.Lock()
	defer p.pending.Unlock()
	*left = false
	p.forgetLocked(key)
}

// pendingOf is what is remembered of a key. The zero value: nothing is.
type pendingOf struct {
	writes *runWrites
	left   time.Duration // for so long the key is to wait; zero or less: it may run
	held   bool          // it is held already
	stale  bool          // a run that does not wait is to read the store itself
}

// lookup asks for everything at once, because cores that ask take the memory of the
// answer from each other. runs says that the key runs unless it is to wait.
func (p *pendingWrites[K]) lookup(key K, runs bool) (k pendingOf) {
	if p.n.Load() == 0 {
		return k
	}
	p.pending.Lock()
	defer p.pending.Unlock()
	r := p.of[key]
	if r == nil {
		return k
	}
	behind := slices.ContainsFunc(r.lacking, func(c Cached) bool { return lacks(c, r.writes) })
	k = pendingOf{writes: r.writes, held: r.release != nil, stale: r.unsure || behind}
	if behind {
		k.left = r.until - p.k.since()
	}
	if runs && k.left <= 0 {
		r.owed = behind // set with the lock that await takes: what it does not find it has not missed
		p.forgetLocked(key)
	}
	return k
}

// admit adds a key, unless it is another server's.
func (p *pendingWrites[K]) admit(key K, o queue.AddOptions) error {
	if p.k.elsewhere(key) {
		return nil
	}
	if k := p.lookup(key, false); k.left > 0 && !k.held {
		p.hold(key, k.writes, k.left)
	}
	return p.k.enqueue(key, o)
}

// mayRun is asked by a worker that has the key. If not, the key is held and must be
// given back. stale says that the caches may lack what the key's earlier runs wrote,
// and that there is no more waiting for them: the run is to read the store itself.
func (p *pendingWrites[K]) mayRun(key K) (stale, ok bool) {
	k := p.lookup(key, true)
	if k.left > 0 {
		p.hold(key, k.writes, k.left) // also if it was held: the hold may have begun after the queue gave the key, or ended a moment early
		return false, false
	}
	return k.stale, true
}

// hold keeps a key in the queue until the caches have seen what it wrote, which they
// may have meanwhile.
func (p *pendingWrites[K]) hold(key K, w *runWrites, left time.Duration) {
	release := p.k.q.Hold(p.k.q.OfKey(key), queue.Hold{Reason: p.waitingFor(w), Max: left})
	p.pending.Lock()
	if r := p.of[key]; r != nil && r.writes == w && len(r.lacking) > 0 {
		release, r.release = r.release, release // what is released now is the hold before this one
	}
	p.pending.Unlock()
	if release != nil {
		release()
	}
}

// waitingForCache begins the reason of such a hold.
const waitingForCache = "waiting for cache "

// waitingFor is the reason of such a hold.
func (p *pendingWrites[K]) waitingFor(w *runWrites) string {
	var names []string
	for _, cached := range p.k.caches() {
		if lacks(cached, w) {
			names = append(names, cached.Name())
		}
	}
	return waitingForCache + strings.Join(names, ", ") + " to see its write"
}

// lookedFor notes that no write of unknown outcome is to be looked for any more: a run of the
// key that was told to read the store has succeeded.
func (p *pendingWrites[K]) lookedFor(key K) {
	p.pending.Lock()
	defer p.pending.Unlock()
	if r := p.of[key]; r != nil && r.unsure {
		r.unsure = false
		p.forgetLocked(key)
	}
}

// hasShownLocked reports whether every source that can has shown what was written.
func (p *pendingWrites[K]) hasShownLocked(v *view[K], w *runWrites) bool {
	return !slices.ContainsFunc(v.shows, func(c Cached) bool { return p.shown[c] < revisionFor(c, w) })
}

// show notes that a source has taken a change: the key's own writes up to there are
// not asked for any more.
func (p *pendingWrites[K]) show(at seen[K]) {
	p.pending.Lock()
	defer p.pending.Unlock()
	p.shown[at.cache] = at.rev
	p.forgetLocked(at.key)
}

// age forgets what has waited since the call before the last for a source alone, and
// what is not known of keys that are not to run again: their runs took it for a success, or
// they are another server's now. Called once in a while, it bounds what is kept for keys
// whose writes no source ever shows. It runs those for which the queue had no room.
func (p *pendingWrites[K]) age() {
	owed, unsure := make(map[K]*pendingWrite), make(map[K]*pendingWrite)
	p.pending.Lock()
	for key, r := range p.of {
		if len(r.lacking) > 0 {
			continue
		}
		if r.owed {
			owed[key] = r
		}
		if r.unsure && r.ages > 0 {
			unsure[key] = r
		}
		r.ages++
		p.forgetLocked(key)
	}
	p.pending.Unlock()
	for key, r := range unsure { // without the lock: the queue has its own
		if _, waits := p.k.q.Lookup(key); !waits {
			p.clear(key, &r.unsure)
		}
	}
	for key, r := range owed {
		p.runOwed(key, r)
	}
}
