package queue

import (
	"sync/atomic"

	"github.com/tendhq/tend/internal/spin"
)

// shard is a whole queue with one lock and one order: the core. It knows of no
// other shard and of no getter. Its fields are guarded by mu, and its methods need
// it held; unlock carries out what is to be done once it is free.
//
//	shard ── table      hash ▶ entry
//	      ── slab       entries with their keys, records
//	      ── ready      which ready key is next
//	      ── timed      entries that wait for a time
//	      ── admission  may a key run, and if not until when
type shard struct {
	// What each run of a key changes lies together: an add in one processor and the run
	// in another bring each cache line of it over.
	mu spin.Mutex
	fx effects
	clock
	id      uint8
	top     uint32 // the band that was published last
	adds    uint64
	begun   uint64
	turns   turns
	number  numbers
	count   [states]int // entries by state
	running ages
	ready   order
	slab
	table     table
	env       *env
	retries   uint64
	timed     heap[uint32] // entries that wait for a time
	admission admission
	carryOut  func(*shard, effects) // called without the lock
	shown     *shown
	due       atomic.Int64 // for fxTimer
	waited    Histogram    // how long keys were ready
	worked    Histogram    // how long they ran
	_         [64]byte     // the next shard's lock is in another cache line
}

// env is what the shards of a queue have in common.
type env struct {
	watch
	word     atomic.Uint32
	heldBy   atomic.Pointer[string] // the reason of the first hold over the whole queue
	maxKeys  int64
	sleeping *atomic.Int32 // see waiters
	keys     atomic.Int64  // entries, counted only under MaxKeys
	asks     bool          // buckets are asked before a run begins
	more     bool          // the queue has tenants: each add has an ask
}

func (v *env) may() word { return word(v.word.Load()) }

// room counts one more key, if there is room for it. CompareAndSwap, not Add and
// undo: a transient overshoot would make a concurrent add fail.
func (v *env) room() bool {
	for n := v.keys.Load(); n < v.maxKeys; n = v.keys.Load() {
		if v.keys.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return v.maxKeys == 0
}

// shown is what getters see of the shards without their locks.
type shown struct {
	some atomic.Uint64            // a bit for each shard with a key that may run
	odd  atomic.Uint64            // … whose top band is not the middle one, that of nearly all keys
	tops [maxShards]atomic.Uint32 // of these: their top bands, plus one
}

// top is the top band that a shard shows, plus one; 0: nothing may run.
func (r *shown) top(k int) uint32 {
	switch {
	case r.some.Load()>>k&1 == 0:
		return 0
	case r.odd.Load()>>k&1 == 0:
		return middle + 1
	}
	return r.tops[k].Load()
}

// show lets getters see that the top of a shard, whose lock is held, has changed.
func (r *shown) show(k uint8, was, is uint32) {
	odd := func(top uint32) bool { return top != 0 && top != middle+1 }
	if odd(was) || odd(is) {
		r.tops[k].Store(is)
		flip(&r.odd, k, odd(was), odd(is))
	}
	flip(&r.some, k, was != 0, is != 0)
}

// flip changes the bit of a shard whose lock is held, so that an addition will do.
func flip(word *atomic.Uint64, k uint8, was, is bool) {
	if was != is {
		bit := uint64(1) << k
		if was {
			bit = -bit
		}
		word.Add(bit)
	}
}

// turns counts what an order has given: one key in agingEvery is the oldest,
// whatever its band. A key that its bucket refuses gives its turn back.
type turns uint64

const agingEvery = 16

func (t turns) aged() bool { return (t+1)%agingEvery == 0 }

// admission decides whether a key may run now, and if not until when. It is asked
// only about keys with a record, and in queues with buckets.
type admission interface {
	// join notes what an add says of the key: its tenant, its reason.
	join(i uint32, e *entry, reason, tenant string, weight int)
	// review changes the status that an entry is to have: a ready key may be held,
	// and one with nothing to run is absent unless something keeps its entry.
	review(i uint32, e *entry, to status) status
	// enter and leave are called for the line of a throttled key; stays: it enters
	// again at once.
	enter(i uint32, e *entry)
	leave(i uint32, e *entry, stays bool)
	// unadmit is called when an admitted key begins its run, or is not to run any more.
	unadmit(i uint32, e *entry, to State)
	// ran is called when a key is taken, by 1, and when its run ends, by -1; began when
	// the run begins.
	ran(i uint32, e *entry, by int)
	began(i uint32, e *entry)
	// forget makes the record that of a key that never ran; discard ends it.
	forget(i uint32, e *entry)
	discard(i uint32, e *entry)
	// expire ends the holds that have reached their maximum at now, and pump lets keys run
	// for which buckets have tokens; wake is when there is something to do.
	expire(now int64) (more bool)
	pump(now int64) (more bool)
	wake() int64
}

// ask is what only some adds have besides their request, looked up without a lock.
type ask struct {
	reason, tenant string
	weight         int // of the tenant; 0: the queue has no tenants
}

// effects is what has to happen once the lock is free.
type effects uint8

const (
	fxWake   effects = 1 << iota // a key became ready: wake a getter
	fxTimer                      // something may be due earlier than before, see due
	fxLeft                       // a key is not ready or running any more, while Drain or Stop wait
	fxTick                       // something may run now: before the lock is free, see unlock
	fxRefund                     // tokens go back to buckets
	fxTop                        // another key may be next: getters may see another top band
)

func (s *shard) init(id uint8, v *env, keys layout) {
	s.id, s.env, s.number = id, v, firstNumber
	s.clock.init(&v.watch)
	s.table.init()
	s.slab.init(keys)
	s.timed.by = byTime{&s.slab}
}

// unlock frees the lock, and has carried out what is to be done then. What may run now is
// made ready before a getter looks, which might take a key of lower priority and so keep it
// from running once more.
func (s *shard) unlock() {
	if s.fx&fxTick != 0 && s.env.may().phase() == open {
		if s.admission.pump(s.env.now()) {
			s.fx |= fxTimer
		}
	}
	fx := s.fx
	if s.moment = 0; fx == 0 && s.touched == 0 { // as when a key is gone, or is in the queue already
		s.mu.Unlock()
		return
	}
	s.fx, s.most, s.touched = 0, max(s.most, s.touched), 0
	if fx&fxTop != 0 {
		if top := s.ready.top(); top != s.top {
			s.shown.show(s.id, s.top, top)
			s.top = top
		}
	}
	if fx&fxTimer != 0 {
		s.due.Store(s.wake())
	}
	s.mu.Unlock()
	if fx&(fxTimer|fxLeft|fxRefund) != 0 || fx&fxWake != 0 && s.env.sleeping.Load() != 0 {
		s.carryOut(s, fx)
	}
}

// wake is when something is due. What waits for a time does not become due any
// more once the queue takes no adds.
func (s *shard) wake() int64 {
	at := s.admission.wake()
	if i, ok := s.timed.first(); ok && s.env.may().phase() == open {
		at = min(at, s.at(i).due)
	}
	return at
}

// find is the entry of key, nil if there is none, and where in the table the search
// ended.
func find[K comparable](s *shard, hash uint32, key *K) (i uint32, e *entry, at spot) {
	g := s.table.segment(hash)
	words := g.words
	p := g.home(hash)
	for {
		w := words[p]
		if w == 0 {
			return 0, nil, spot{g, p}
		}
		if uint32(w>>32) == hash {
			i = uint32(w) - 1
			if e = s.at(i); withKey[K](e).key == *key {
				return i, e, spot{g, p}
			}
		}
		if p++; int(p) == len(words) {
			p = 0
		}
	}
}

// create makes an entry for key that is in no state yet; at is where the search for
// it ended.
func create[K comparable](s *shard, hash uint32, key *K, at spot) (i uint32, e *entry) {
	i, e = s.alloc()
	withKey[K](e).key = *key
	e.hash, e.band = hash, middle
	s.touched += s.table.insert(hash, i, at)
	s.count[absent]++
	return i, e
}

// add is the way of every add.
func (s *shard) add(i uint32, e *entry, r request, more *ask) {
	s.adds++
	if more != nil {
		s.admission.join(i, e, more.reason, more.tenant, more.weight)
	}
	if e.state == StateReady && r == (request{band: -1}) {
		return // as the tables say; most adds are of this kind
	}
	x, band := e.status(), e.band
	if x.reborn() {
		band = middle
	}
	if raises(x, band, r) {
		band = uint8(r.band)
		r.flags |= raised
	}
	if to := onAdd(x, r); to != x || band != e.band {
		s.move(i, e, to, band)
	}
}

// move gives an entry another status and band. It is the only place where an entry
// goes from one structure to another: it keeps orders, timers, counters and ages right, and
// notes what has to happen once the lock is free.
func (s *shard) move(i uint32, e *entry, to status, band uint8) {
	from := e.state
	if to.state == from && from != StateIdle && (to.due == e.due || from == StateRunning) &&
		(band == e.band || from != StateReady && from != StateThrottled) {
		e.set(to)
		e.band = band
		return
	}
	if to.state == StateIdle {
		to.state = absent
	}
	if to.flags&recorded != 0 && (to.state == StateReady || to.state == absent) {
		to = s.admission.review(i, e, to)
	}
	if e.is(admitted) && to.flags&admitted == 0 {
		s.admission.unadmit(i, e, to.state)
	}
	switch from {
	case StateReady:
		s.fx |= fxTop
		if e.order != 0 { // else it was taken
			s.ready.remove(i, e)
		}
	case StateRunning:
		if !e.is(asked) { // else its run has not begun
			s.worked.count(s.until(e)-e.since(), e.flags)
			s.touched += s.running.end(e.since())
		}
		e.order = 0
		if e.is(recorded) {
			s.admission.ran(i, e, -1)
		}
	case StateThrottled:
		s.admission.leave(i, e, to.state == StateThrottled)
	case StateDelayed, StateBackingOff:
		s.timed.remove(i)
		e.order = 0
	}
	if s.env.may().phase() != open && (from == StateReady || from == StateRunning) {
		s.fx |= fxLeft
	}
	e.set(to)
	e.band = band
	s.count[from]--
	s.count[to.state]++
	switch {
	case from == to.state, to.state == absent, to.state == StateRunning: // begin says since when it runs
	case to.state == StateReady:
		s.stamp(e)
	default:
		e.setSince(s.now())
	}
	switch to.state {
	case absent:
		s.count[absent]--
		if e.is(recorded) {
			s.admission.discard(i, e)
		}
		s.touched += s.table.remove(e.hash, i)
		s.free(i, e)
		if s.env.maxKeys > 0 {
			s.env.keys.Add(-1)
		}
	case StateReady:
		s.ready.push(i, e, s.number.next())
		s.fx |= fxWake | fxTop
	case StateThrottled:
		s.admission.enter(i, e)
	case StateDelayed, StateBackingOff:
		e.order = s.number.next() << 33 >> 1
		s.timed.add(i)
		if first, _ := s.timed.first(); first == i {
			s.fx |= fxTimer
		}
	}
}

// stamp notes since when a key is ready, and chooses how exactly it is timed until its run has
// ended.
func (s *shard) stamp(e *entry) {
	e.flags &^= clocked | sample
	switch {
	case s.sample():
		e.flags |= clocked | sample
		e.setSince(s.exact())
	case s.isWarm():
		e.setSince(s.last)
	default:
		e.flags |= clocked
		e.setSince(s.exact())
	}
}

// until is now for a key, as exactly as it is timed.
func (s *shard) until(e *entry) int64 {
	if e.is(clocked) {
		return s.exact()
	}
	return s.now()
}

// take hands out the key whose turn it is, nil if there is none.
func (s *shard) take() (i uint32, e *entry) {
	if !s.env.may().gives() {
		return 0, nil
	}
	if i, e = s.ready.next(s.turns.aged()); e == nil {
		return 0, nil
	}
	e.order = 0
	s.turns++
	if e.is(recorded) {
		s.admission.ran(i, e, 1)
	}
	to := e.status()
	to.state, to.due = StateRunning, 0
	s.move(i, e, to, e.band)
	if s.env.asks {
		e.flags |= asked
		e.order = s.number.next()
	} else {
		s.begin(i, e)
	}
	return i, e
}

// begin begins the run of a key that was taken.
func (s *shard) begin(i uint32, e *entry) {
	now := s.until(e)
	s.waited.count(now-e.since(), e.flags)
	e.setSince(now)
	s.begun++
	e.order = s.number.next()
	s.running.begin(e.since())
	if e.flags&^(clocked|sample) != 0 {
		if e.is(admitted) {
			s.admission.unadmit(i, e, StateRunning)
		}
		e.flags &^= asked
		s.admission.began(i, e)
	}
}

// runs is the entry of the run with a number, nil if that has ended.
func (s *shard) runs(i uint32, number uint64) *entry {
	if c, _ := s.split(i); c.first == nil {
		return nil
	}
	if e := s.at(i); e.order == number {
		return e
	}
	return nil
}

// settle ends the run of an entry, and tells the state it is in then.
func (s *shard) settle(i uint32, e *entry, o outcome, err error) State {
	if e.is(recorded) || err != nil {
		s.result(i, e, o.kind, err)
	}
	x := e.status()
	if o.kind.fails() && x.flags&removed == 0 {
		s.retries++
	}
	to := onSettle(x, o, s.now())
	s.move(i, e, to, e.band)
	return to.state
}

// result writes the error of a run into the record.
func (s *shard) result(i uint32, e *entry, kind outcomeKind, err error) {
	switch {
	case e.is(removed):
		return // what the record has came after Remove
	case kind <= later:
		s.record(i).err = nil
	case err != nil:
		s.recorded(i, e).err = err
	}
	if e.is(recorded) {
		s.trim(i, e)
	}
}

// remove forgets a key; ok: there was something to forget.
func (s *shard) remove(i uint32, e *entry) bool {
	if e.is(recorded) {
		s.admission.forget(i, e)
	}
	to, ok := onRemove(e.status())
	s.move(i, e, to, e.band)
	return ok
}

// cancel takes back what was to run later; ok: there was something.
func (s *shard) cancel(i uint32, e *entry) bool {
	if e.is(recorded) && e.state == StateDelayed && e.attempts == 0 {
		s.admission.forget(i, e) // before to is made: it may take the flag
	}
	to, ok := onCancel(e.status())
	s.move(i, e, to, e.band)
	return ok
}

// tick lets the entries run that are due, and tells whether there are more.
func (s *shard) tick(now int64) (more bool) {
	for s.env.may().phase() == open && !more {
		i, ok := s.timed.first()
		if !ok || s.at(i).due > now {
			break
		}
		before, e := s.timed.swaps, s.at(i)
		s.move(i, e, onDue(e.status()), e.band)
		s.touched += 1 + heapChildren*(s.timed.swaps-before) // each swap looks at so many
		more = s.tired()
	}
	more = s.admission.expire(now) || more
	return s.env.may().phase() == open && s.admission.pump(now) || more
}
