package queue

import (
	"math"
	"sync/atomic"
	"time"

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
	mu      spin.Mutex
	fx      effects
	moment  int64 // the time of this critical section; 0: it was not asked for
	id      uint8
	top     uint32 // the band that was published last
	adds    uint64
	begun   uint64
	began   uint64 // the sum of the times at which the keys that are running began
	turns   turns
	number  numbers
	count   [states]int // entries by state
	running deque       // keys whose run has begun, by run number
	ready   bands
	slab
	table     table
	env       *env
	retries   uint64
	timed     heap[uint32] // entries that wait for a time
	admission admission
	carryOut  func(*shard, effects) // called without the lock
	published *atomic.Uint32        // the top band that getters see without the lock
	due       atomic.Int64          // for fxTimer
	waited    Histogram             // how long keys were ready
	worked    Histogram             // how long they ran
	_         [64]byte              // the next shard's lock is in another cache line
}

// env is what the shards of a queue have in common.
type env struct {
	start   time.Time
	word    atomic.Uint32
	heldBy  atomic.Pointer[string] // the reason of the first hold over the whole queue
	maxKeys int64
	keys    atomic.Int64 // entries, counted only under MaxKeys
	asks    bool         // buckets are asked before a run begins
	delays  bool         // adds and runs are debounced
}

func (v *env) may() word { return word(v.word.Load()) }

// now is the time since the queue's start, on the monotonic clock. It is at least
// 1: 0 means no time.
func (v *env) now() int64 { return int64(time.Since(v.start)) + 1 }

// at is the time of now for a time of the calendar, at least 1. What is further
// away than a Duration can say is as good as never.
func (v *env) at(t time.Time) int64 { return max(plus(1, t.Sub(v.start)), 1) }

// time is the opposite of at.
func (v *env) time(at int64) time.Time { return v.start.Add(time.Duration(at - 1)) }

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

// plus is now+d; far beyond a lifetime it is as good as never.
func plus(now int64, d time.Duration) int64 {
	if int64(d) > math.MaxInt64-1-now {
		return math.MaxInt64 - 1
	}
	return now + int64(d)
}

// turns counts what an order has given: one key in agingEvery is the oldest,
// whatever its band. A key that its bucket refuses gives its turn back.
type turns uint64

const agingEvery = 16

func (t turns) aged() bool { return (t+1)%agingEvery == 0 }

// admission decides whether a key may run now, and if not until when. It is asked
// only about keys with a record, and in queues with debouncing or buckets.
type admission interface {
	// join notes what an add says of the key: its tenant, its reason.
	join(i uint32, e *entry, reason, tenant string, weight int)
	// delay puts an add off.
	delay(i uint32, e *entry, r request, now int64) request
	// floor is the time before which the key's next run does not begin; 0: any.
	floor(i uint32, e *entry) int64
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
	// forget makes the record that of a key that never ran, or, unless cool, of one whose
	// interval since its last run goes on; discard ends it.
	forget(i uint32, e *entry, cool bool)
	discard(i uint32, e *entry)
	// expire ends the holds that have reached their maximum at now, and pump lets keys run
	// for which buckets have tokens; wake is when there is something to do.
	expire(now int64) (more bool)
	pump(now int64) (more bool)
	wake() int64
}

// ask is an add with everything looked up that needs no lock.
type ask struct {
	request
	reason, tenant string
	weight         int   // of the tenant; 0: the queue has no tenants
	now            int64 // set if debouncing
}

// effects is what has to happen once the lock is free.
type effects uint8

const (
	fxWake  effects = 1 << iota // a key became ready: wake a getter
	fxTimer                     // something may be due earlier than before, see due
	fxLeft                      // a key is not ready or running any more, while Drain or Stop wait
	fxTick                      // something may run now: before the lock is free, see unlock
)

func (s *shard) init(id uint8, v *env, keys layout) {
	s.id, s.env, s.number = id, v, firstNumber
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
	fx := s.fx &^ fxTick
	s.fx, s.moment = 0, 0
	s.most, s.touched = max(s.most, s.touched), 0
	if top := s.ready.top(); top != s.top {
		s.top = top
		s.published.Store(top)
	}
	if fx&fxTimer != 0 {
		s.due.Store(s.wake())
	}
	s.mu.Unlock()
	if fx != 0 {
		s.carryOut(s, fx)
	}
}

// now is the time of this critical section: the clock is read once, be it for one key or
// for a thousand.
func (s *shard) now() int64 {
	if s.moment == 0 {
		s.moment = s.env.now()
	}
	return s.moment
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

// findOrCreate is the entry of a key that is added.
func findOrCreate[K comparable](s *shard, hash uint32, key *K) (i uint32, e *entry, err error) {
	if !s.env.may().takesAdds() {
		return 0, nil, ErrStopped
	}
	i, e, at := find(s, hash, key)
	if e == nil {
		if !s.env.room() {
			return 0, nil, ErrFull
		}
		i, e = create(s, hash, key, at)
	}
	return i, e, nil
}

// add is the way of every add.
func (s *shard) add(i uint32, e *entry, a *ask) {
	s.adds++
	if a.weight != 0 || a.reason != "" {
		s.admission.join(i, e, a.reason, a.tenant, a.weight)
	}
	if a.now != 0 {
		a.request = s.admission.delay(i, e, a.request, a.now)
	}
	x, band := e.status(), e.band
	if x.reborn() {
		band = middle
	}
	if raises(x, band, a.request) {
		band = uint8(a.band)
		a.flags |= raised
	}
	s.move(i, e, onAdd(x, a.request), band)
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
		if e.order != 0 { // else it was taken
			s.ready.remove(i, e)
		}
	case StateRunning:
		s.end(i, e)
	case StateThrottled:
		s.admission.leave(i, e, to.state == StateThrottled)
	case StateDelayed, StateBackingOff, StateIdle:
		if e.due != 0 {
			s.timed.remove(i)
			e.order = 0
		}
	}
	if s.env.may().phase() != open && (from == StateReady || from == StateRunning) {
		s.fx |= fxLeft
	}
	e.set(to)
	e.band = band
	s.count[from]--
	s.count[to.state]++
	if from != to.state && to.state != StateRunning { // begin says since when it runs
		e.setSince(s.now())
	}
	switch to.state {
	case absent:
		s.forget(i, e)
	case StateReady:
		s.ready.push(i, e, s.number.next())
		s.fx |= fxWake
	case StateThrottled:
		s.admission.enter(i, e)
	case StateDelayed, StateBackingOff, StateIdle:
		if to.due != 0 {
			e.order = s.number.next() << 33 >> 1
			s.timed.add(i)
			if first, _ := s.timed.first(); first == i {
				s.fx |= fxTimer
			}
		}
	}
}

// forget ends an entry that is in no order.
func (s *shard) forget(i uint32, e *entry) {
	s.count[absent]--
	if e.is(recorded) {
		s.admission.discard(i, e)
	}
	s.touched += s.table.remove(e.hash, i)
	s.free(i, e)
	if s.env.maxKeys > 0 {
		s.env.keys.Add(-1)
	}
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
	s.waited.observe(s.now() - e.since())
	e.setSince(s.now())
	s.begun++
	s.began += uint64(e.since())
	e.order = s.number.next()
	s.running.push(cellOf(e.order, i))
	if e.flags != 0 || s.env.delays {
		if e.is(admitted) {
			s.admission.unadmit(i, e, StateRunning)
		}
		e.flags &^= asked
		s.admission.began(i, e)
	}
}

// end ends the run of a key, or what was to be one.
func (s *shard) end(i uint32, e *entry) {
	if !e.is(asked) {
		began := e.since()
		s.worked.observe(s.now() - began)
		s.began -= uint64(began)
		s.touched += s.running.remove(e.order)
	}
	e.order = 0
	if e.is(recorded) {
		s.admission.ran(i, e, -1)
	}
}

// runs is the entry of the run with a number, nil if that has ended.
func (s *shard) runs(i uint32, number uint64) *entry {
	if c, _ := s.split(i); c.first == nil {
		return nil
	}
	if e := s.at(i); e.state == StateRunning && e.order == number {
		return e
	}
	return nil
}

// settle ends the run of an entry, and tells the state it is in then.
func (s *shard) settle(i uint32, e *entry, o outcome, err error) State {
	if e.is(recorded) || err != nil {
		s.result(i, e, &o, err)
	}
	x := e.status()
	if o.kind.fails() && x.flags&removed == 0 {
		s.retries++
	}
	to := onSettle(x, o, s.now())
	s.move(i, e, to, e.band)
	return to.state
}

// result writes the error of a run into the record, and keeps the key's next run
// from beginning too early.
func (s *shard) result(i uint32, e *entry, o *outcome, err error) {
	switch {
	case e.is(removed):
		return // what the record has came after Remove
	case o.kind <= later:
		s.record(i).err = nil
	case err != nil:
		s.recorded(i, e).err = err
	}
	if first := s.admission.floor(i, e); first != 0 {
		o.due = max(o.due, first)
		if e.is(added) && !e.is(urgent) {
			e.due = max(e.due, first)
		}
	}
	if e.is(recorded) {
		s.trim(i, e)
	}
}

// remove forgets a key; ok: there was something to forget.
func (s *shard) remove(i uint32, e *entry) bool {
	if e.is(recorded) {
		s.admission.forget(i, e, true)
	}
	to, ok := onRemove(e.status())
	s.move(i, e, to, e.band)
	return ok
}

// cancel takes back what was to run later; ok: there was something.
func (s *shard) cancel(i uint32, e *entry) bool {
	if e.is(recorded) && e.state == StateDelayed {
		s.admission.forget(i, e, false)
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
