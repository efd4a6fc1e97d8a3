package queue

import (
	"sync/atomic"

	"github.com/tendhq/tend/internal/spin"
)

// shard is a queue of its own for the keys whose hash leads to it: one lock,
// one order. All fields are guarded by mu; methods need it held.
//
// What each cycle of a key writes comes first and close together. It goes from
// the cache of one core to that of another with nearly each add and get, and
// that, line by line of 64 bytes, is most of what a busy queue costs.
type shard[K comparable] struct {
	mu      spin.Mutex
	loud    bool   // a key became ready: somebody must be woken after the lock
	closed  bool   // takes no more keys
	stopped bool   // hands none out
	top     uint32 // the top band that getters see, plus one; 0: nothing
	tally   tally
	slab[K]
	table table
	_     [24]byte
	ready line

	wheel      wheel
	sides      sides
	rares      map[uint32]*rare // what few entries have, by index
	throttling throttling

	count   [states]int // entries by state; see counted for ready and running ones
	retries uint64
	refused uint64 // dispatches that a bucket took back
	id      uint32
	slack   slack
	armed   atomic.Int64 // when the alarm rings for this shard at the latest; written under mu
	holds   uint64       // made so far, to number them
	expired []expired[K] // holds to report after the lock
	due     []uint32     // scratch of tick
	read    uint64       // sum of what warm read, so that it is read
	q       *Queue[K]
	_       [40]byte // a multiple of 64, so that the next shard's lock is in another cache line
}

func (s *shard[K]) init(q *Queue[K], id int) {
	s.q, s.id = q, uint32(id)
	s.tally.sampled = new(sampled)
	s.table.init()
	s.wheel.wake, s.throttling.wake, s.slack.due = never, never, never
	s.armed.Store(never)
	if q.opts.Tenant != nil {
		s.ready.fair = newFairness(q.opts.TenantRunning)
	}
}

// find is the entry of key, and the slot of the table where the search ended.
func (s *shard[K]) find(hash uint32, key *K) (i, p uint32, ok bool) {
	g := s.table.segment(hash)
	words := g.words
	p = g.home(hash)
	for {
		w := words[p]
		if w == 0 {
			return 0, p, false
		}
		if uint32(w>>32) == hash {
			if i = uint32(w) - 1; *s.key(i) == *key {
				return i, p, true
			}
		}
		if p++; int(p) == len(words) {
			p = 0
		}
	}
}

// create makes an entry for key, in the idle state.
func (s *shard[K]) create(hash, p uint32, key *K) uint32 {
	i := s.alloc(s.ready.turn)
	*s.key(i) = *key
	e := s.at(i)
	e.next, e.prev = 0, 0
	e.hash = hash
	e.setBand(middle)
	s.table.insert(hash, i, p)
	s.set(e, StateIdle)
	return i
}

// forget ends the entry. It must be in no list.
func (s *shard[K]) forget(i uint32) {
	e := s.at(i)
	if e.is(inside) {
		s.leave(i)
		if s.sides.drop(i) {
			s.loosen()
		}
	}
	if e.is(israre) {
		delete(s.rares, i)
	}
	s.count[e.state]--
	s.end(i, e)
	if s.q.opts.MaxKeys > 0 {
		s.q.keys.Add(-1)
	}
}

// counted is the number of entries in a state. The two states that every key
// goes through are counted by what happens anyway.
func (s *shard[K]) counted(in State) int {
	switch in {
	case StateReady:
		return s.ready.depth()
	case StateRunning:
		return int(s.ready.turn - s.tally.ended)
	}
	return s.count[in]
}

// end is forget for an entry that has nothing but itself.
func (s *shard[K]) end(i uint32, e *entry) {
	loose := s.table.remove(e.hash, i)
	if s.release(i, e) || loose {
		s.loosen()
	}
}

func (s *shard[K]) set(e *entry, to State) {
	s.count[e.state]--
	s.count[to]++
	e.state = to
}

// detach takes the entry out of the list of its state.
func (s *shard[K]) detach(i uint32) {
	e := s.at(i)
	switch e.state {
	case StateReady:
		s.ready.remove(&s.entries, &s.sides, i)
	case StateThrottled:
		s.leaveBucket(i)
	case StateDelayed, StateBackingOff:
		s.wheel.remove(&s.entries, i)
	case StateIdle, StateHeld:
		if e.when != 0 {
			s.wheel.remove(&s.entries, i)
		}
	}
}

// begin lets a detached entry run at due, or at once.
func (s *shard[K]) begin(i uint32, due int64) {
	if due > 0 {
		s.wait(i, StateDelayed, due)
		return
	}
	s.enter(i)
}

// rest is what becomes of a detached entry that has nothing to run: it goes,
// unless it is held or cools down.
func (s *shard[K]) rest(i uint32) {
	e := s.at(i)
	if e.is(israre) {
		s.rares[i].first = 0 // its row of debounced adds is over
	}
	if e.is(israre) && (s.blocked(i, StateIdle) || s.cooling(i)) {
		return
	}
	s.forget(i)
}

// wake is when something is due.
func (s *shard[K]) wake() int64 { return min(s.wheel.wake, s.throttling.wake, s.slack.due) }

// tick lets the entries run that are due, and tells whether there are more.
func (s *shard[K]) tick(now int64) (more bool) {
	s.due, more = s.wheel.fire(&s.entries, now, s.due[:0])
	s.warm(s.due)
	for _, i := range s.due {
		if s.at(i).state == StateIdle {
			s.rest(i)
		} else {
			s.enter(i)
		}
	}
	s.pump(now)
	if !more {
		s.wheel.rest(&s.entries, now)
	}
	if now >= s.slack.due && s.tighten() {
		more = true
	}
	return more
}

// warm reads what the runs of keys that came due read first: the key, its text, and
// its place in the table. Nobody has since the key was added, so all of it lies in
// memory. Who runs the keys would wait for one of these misses after the other; here
// many are under way at once, for nothing depends on what is read.
func (s *shard[K]) warm(due []uint32) {
	var sum uint64
	var last K
	for _, i := range due {
		hash := s.at(i).hash
		g := s.table.segment(hash)
		sum += g.words[g.home(hash)]
		if *s.key(i) == last { // zero: no text is read yet
			sum++
		}
	}
	for _, i := range due {
		key := s.key(i)
		if *key == last { // strings of one length: their text is
			sum++
		}
		last = *key
	}
	s.read = sum
}

// wait puts a detached entry into the wheel.
func (s *shard[K]) wait(i uint32, as State, due int64) {
	e := s.at(i)
	s.set(e, as)
	e.since = s.q.clock.tick()
	e.when = due
	s.wheel.add(&s.entries, i)
}

// enter makes a detached entry ready, or held if somebody holds it.
func (s *shard[K]) enter(i uint32) {
	e := s.at(i)
	if e.is(israre) && s.blocked(i, StateHeld) {
		return
	}
	s.set(e, StateReady)
	e.since = s.tally.enter(&s.q.clock, i)
	s.ready.push(&s.entries, &s.sides, i)
	s.loud = true
}
