package queue

import (
	"slices"
	"time"
)

// rare is what hardly any key has.
type rare struct {
	holds []hold
	first int64 // the first add of a debounced run, 0: none
	cool  int64 // it must not start before, by Debounce.Interval
}

// hold keeps a key from running.
type hold struct {
	id    uint64
	why   string
	until int64 // 0: until released
	pause bool  // by PauseKey, for ResumeKey
}

// expired is a hold that reached its maximum.
type expired[K comparable] struct {
	key K
	why string
}

// Hold keeps key from running until release is called, or until max has passed;
// zero or less means no maximum. It can be called before the key is added, and
// while it is running: then it holds what comes after the run. A key may be held
// several times; why is shown by Snapshot. release may be called again, from
// anywhere.
func (q *Queue[K]) Hold(key K, why string, max time.Duration) (release func()) {
	id := q.hold(key, hold{why: why}, max)
	return func() { q.release(key, func(h hold) bool { return h.id == id }) }
}

// PauseKey holds key until ResumeKey, or until max has passed; zero or less
// means no maximum. Pausing it again replaces why and maximum. It is a hold of
// this process, not the lasting pause of an object in a store.
func (q *Queue[K]) PauseKey(key K, why string, max time.Duration) {
	q.hold(key, hold{why: why, pause: true}, max)
}

// ResumeKey ends PauseKey and tells whether the key was paused.
func (q *Queue[K]) ResumeKey(key K) bool {
	return q.release(key, func(h hold) bool { return h.pause })
}

func (q *Queue[K]) hold(key K, h hold, max time.Duration) (id uint64) {
	if max > 0 {
		h.until = after(q.now(), max)
	}
	hash := q.hash(key)
	s := q.shard(hash)
	s.mu.Lock()
	i, p, ok := s.find(uint32(hash), &key)
	if !ok {
		if s.q.opts.MaxKeys > 0 {
			s.q.keys.Add(1)
		}
		i = s.create(uint32(hash), p, &key)
	}
	s.holds++
	h.id = s.holds
	s.addHold(i, h)
	q.unlock(s)
	q.settled() // a ready key may be held now
	return h.id
}

// addHold adds h; a key that is due or idle goes to the state that it has now.
func (s *shard[K]) addHold(i uint32, h hold) {
	r := s.rare(i)
	if h.pause {
		r.holds = slices.DeleteFunc(r.holds, func(h hold) bool { return h.pause })
	}
	r.holds = append(r.holds, h)
	switch s.at(i).state {
	case StateReady, StateThrottled, StateHeld:
		s.detach(i)
		s.enter(i)
	case StateIdle:
		s.detach(i)
		s.rest(i)
	}
}

func (q *Queue[K]) release(key K, which func(hold) bool) bool {
	return q.with(key, func(s *shard[K], i uint32) bool {
		r := s.rares[i]
		if r == nil {
			return false
		}
		n := len(r.holds)
		r.holds = slices.DeleteFunc(r.holds, which)
		if n == len(r.holds) {
			return false
		}
		s.released(i)
		return true
	})
}

// released lets an entry go on that one hold less keeps.
func (s *shard[K]) released(i uint32) {
	switch s.at(i).state {
	case StateHeld:
		s.detach(i)
		s.enter(i)
	case StateIdle:
		s.detach(i)
		s.rest(i)
	default:
		s.trimRare(i)
	}
}

// blocked keeps a detached entry in the given state while somebody holds it. It
// looks again when the first hold expires.
func (s *shard[K]) blocked(i uint32, as State) bool {
	r := s.rares[i]
	if len(r.holds) == 0 {
		s.trimRare(i)
		return false
	}
	s.expire(i, r)
	if len(r.holds) == 0 {
		s.trimRare(i)
		return false
	}
	s.stay(i, as, r.next())
	return true
}

// expire drops the holds that have reached their maximum.
func (s *shard[K]) expire(i uint32, r *rare) {
	if r.next() == 0 {
		return
	}
	now := s.q.now()
	r.holds = slices.DeleteFunc(r.holds, func(h hold) bool {
		if h.until == 0 || h.until > now {
			return false
		}
		if s.q.opts.Hooks.HoldExpired != nil {
			s.expired = append(s.expired, expired[K]{*s.key(i), h.why})
		}
		return true
	})
}

// next is when the first hold expires; 0: never.
func (r *rare) next() int64 {
	var at int64
	for _, h := range r.holds {
		if h.until > 0 && (at == 0 || h.until < at) {
			at = h.until
		}
	}
	return at
}

// stay puts a detached entry into state Held or Idle until at, if that is not 0.
func (s *shard[K]) stay(i uint32, as State, at int64) {
	e := s.at(i)
	if e.state != as {
		s.set(e, as)
		e.since = s.q.clock.tick()
	}
	if e.when = at; at != 0 {
		s.wheel.add(&s.entries, i)
	}
}

// rare is the entry's record, made if there is none.
func (s *shard[K]) rare(i uint32) *rare {
	e := s.at(i)
	if !e.is(israre) {
		e.flags |= israre
		if s.rares == nil {
			s.rares = make(map[uint32]*rare)
		}
		s.rares[i] = &rare{}
	}
	return s.rares[i]
}

// trimRare drops the record of an entry that does not need it any more.
func (s *shard[K]) trimRare(i uint32) {
	if r := s.rares[i]; r != nil && len(r.holds) == 0 && r.first == 0 && r.cool == 0 {
		delete(s.rares, i)
		s.at(i).flags &^= israre
	}
}
