package queue

import (
	"math"
	"time"
)

// AddAfter makes key run after d. If it is added again before, the earlier time
// counts; use Replace to put it off. A run for another reason uses the timer up,
// so what must happen again at a certain time is best said anew at the end of
// each run, by Item.After.
func (q *Queue[K]) AddAfter(key K, d time.Duration) error {
	return q.add(key, AddOptions{After: d}, false)
}

// AddWith is Add with options.
func (q *Queue[K]) AddWith(key K, o AddOptions) error {
	if q.plain && o.After <= 0 && o.Reason == "" {
		return q.addNow(key, o.Priority.n-1, o.Urgent)
	}
	return q.add(key, o, false)
}

// Replace is AddWith, but this time and priority win over those the key has: a
// key that is due can be put off. A running key is not touched, only what comes
// after the run. If it is not urgent it can put a backoff off, never shorten it.
func (q *Queue[K]) Replace(key K, o AddOptions) error { return q.add(key, o, true) }

// Kick adds key urgently: it ends a backoff or a park.
func (q *Queue[K]) Kick(key K) error {
	return q.add(key, AddOptions{Urgent: true, Reason: "kick"}, false)
}

// Cancel takes back what was to run later, and tells whether there was such a
// thing: a key that is delayed is forgotten, an add with a delay that came while
// the key was running is dropped. It leaves alone what is due and what failed.
func (q *Queue[K]) Cancel(key K) bool {
	return q.with(key, func(s *shard[K], i uint32) bool { return s.cancel(i) })
}

// Remove forgets key, its attempts and what it waits for, and tells whether it
// was there. If it is running it is forgotten when the run ends, whatever the
// run says; adds that come after Remove make it run anew. Holds stay.
func (q *Queue[K]) Remove(key K) bool {
	return q.with(key, func(s *shard[K], i uint32) bool { return s.drop(i) })
}

// request is an add with everything looked up that needs no lock.
type request struct {
	due     int64 // 0: at once
	now     int64 // set if debouncing
	band    int16 // -1: keep
	urgent  bool
	replace bool
	window  bool // due comes from debouncing
	reason  string
	tenant  string
}

func (q *Queue[K]) add(key K, o AddOptions, replace bool) error {
	r := request{band: o.Priority.n - 1, urgent: o.Urgent, replace: replace, reason: o.Reason}
	if o.After > 0 {
		r.due = after(q.now(), o.After)
	}
	if !q.plain {
		q.prepare(key, &r)
	}
	hash := q.hash(key)
	s := q.shard(hash)
	s.mu.Lock()
	err := s.add(uint32(hash), &key, &r)
	q.unlock(s)
	return err
}

// after is now+d; far beyond a lifetime it is as good as never.
func after(now int64, d time.Duration) int64 {
	if int64(d) > math.MaxInt64-1-now {
		return math.MaxInt64 - 1
	}
	return now + int64(d)
}

// prepare asks what is asked of each key in a queue that is not plain.
func (q *Queue[K]) prepare(key K, r *request) {
	if q.opts.Tenant != nil {
		r.tenant = q.opts.Tenant(key)
	}
	if q.opts.Debounce.on() {
		r.now = q.now()
	}
}

func (s *shard[K]) add(hash uint32, key *K, r *request) error {
	if s.closed {
		return ErrStopped
	}
	i, p, ok := s.find(hash, key)
	if !ok {
		if !s.q.room() {
			return ErrFull
		}
		i = s.create(hash, p, key)
	}
	s.tally.adds++
	s.merge(i, r)
	return nil
}

// merge applies an add to an entry. The package comment has the rules as a
// table, state by state.
func (s *shard[K]) merge(i uint32, r *request) {
	e := s.at(i)
	if r.now != 0 {
		s.debounce(i, r)
	}
	if r.reason != "" {
		s.note(i, r.reason)
	}
	if e.state == StateRunning {
		s.mergeRun(e, r)
		return
	}
	s.reband(i, r)
	if r.urgent {
		e.attempts = 0
	}
	switch e.state {
	case StateIdle:
		if s.ready.fair != nil {
			s.join(i, r.tenant)
		}
		s.detach(i)
		s.begin(i, r.due)
	case StateReady, StateThrottled, StateHeld:
		if r.replace && r.due > 0 {
			s.detach(i)
			s.begin(i, r.due)
		}
	case StateDelayed:
		if r.replace || r.window || r.due < e.when {
			s.detach(i)
			s.begin(i, r.due)
		}
	case StateBackingOff:
		s.mergeBackoff(i, r)
	case StateParked:
		if r.urgent {
			s.begin(i, r.due)
		}
	}
}

// mergeBackoff absorbs the add, unless it is urgent.
func (s *shard[K]) mergeBackoff(i uint32, r *request) {
	e := s.at(i)
	switch {
	case r.urgent && (r.replace || r.due < e.when):
		s.detach(i)
		s.begin(i, r.due)
	case r.urgent:
		// Its attempts start anew, and what is due first is the retry.
		due := e.when
		s.detach(i)
		s.begin(i, due)
	case r.replace && r.due > e.when:
		s.detach(i)
		s.wait(i, StateBackingOff, r.due)
	}
}

// mergeRun remembers the add for the end of the run.
func (s *shard[K]) mergeRun(e *entry, r *request) {
	band := r.band
	if e.is(removed) && !e.is(added) {
		// The first add after Remove is the first of a new life.
		e.setBand(middle)
	}
	switch {
	case band < 0:
	case r.replace, e.is(removed) && !e.is(added), uint8(band) > e.band():
		e.setBand(uint8(band))
		e.flags |= raised
	}
	switch {
	case !e.is(added), r.replace, r.window && !e.is(urgent):
		e.when = r.due
	default:
		e.when = min(e.when, r.due)
	}
	e.flags |= added
	if r.urgent {
		e.flags |= urgent
	} else if r.replace {
		e.flags &^= urgent
	}
}

// reband gives the entry the priority of the add if it is higher, or if it
// replaces.
func (s *shard[K]) reband(i uint32, r *request) {
	e := s.at(i)
	band := uint8(r.band)
	if r.band < 0 || band == e.band() || band < e.band() && !r.replace && e.state != StateIdle {
		return
	}
	switch e.state {
	case StateReady:
		s.ready.remove(&s.entries, &s.sides, i)
		e.setBand(band)
		s.ready.push(&s.entries, &s.sides, i)
	case StateThrottled:
		s.rebandThrottled(i, band)
	default:
		e.setBand(band)
	}
}

// with runs f on the entry of key under the lock, if there is one.
func (q *Queue[K]) with(key K, f func(s *shard[K], i uint32) bool) bool {
	hash := q.hash(key)
	s := q.shard(hash)
	s.mu.Lock()
	i, _, ok := s.find(uint32(hash), &key)
	if ok {
		ok = f(s, i)
	}
	q.unlock(s)
	q.settled() // a ready key may have gone
	return ok
}

func (s *shard[K]) cancel(i uint32) bool {
	e := s.at(i)
	switch {
	case e.state == StateDelayed:
		s.detach(i)
		s.rest(i)
		return true
	case e.state == StateRunning && e.is(added) && e.when > 0:
		e.flags &^= added | urgent
		return true
	}
	return false
}

func (s *shard[K]) drop(i uint32) bool {
	e := s.at(i)
	switch e.state {
	case StateRunning:
		was := !e.is(removed) || e.is(added)
		e.flags = e.flags&^(added|urgent|raised) | removed
		return was
	case StateIdle:
		return false
	}
	s.detach(i)
	s.renew(i)
	s.rest(i)
	return true
}

// renew makes the entry as if its key had never run.
func (s *shard[K]) renew(i uint32) {
	e := s.at(i)
	e.attempts = 0
	if e.is(inside) {
		d := s.sides.of(i)
		d.err, d.reasons = nil, 0
		s.trim(i)
	}
}
