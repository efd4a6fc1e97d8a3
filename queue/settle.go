package queue

import "math"

// outcome is how a run ended.
type outcome struct {
	kind outcomeKind
	due  int64 // when to run again, 0: at once
	err  error
}

type outcomeKind uint8

const (
	done      outcomeKind = iota
	later                 // succeeded, runs again at due
	retry                 // failed, runs again at due
	again                 // was throttled: neither, runs again at due
	park                  // failed for good
	exhausted             // failed, and the policy gave up
)

func (i Item[K]) settle(o outcome) {
	s := i.from
	s.mu.Lock()
	e := s.lent(i.loan)
	if e == nil {
		s.mu.Unlock()
		panic("queue: Item settled twice")
	}
	if i.loan.differs(i.Priority) {
		s.reprioritise(e, i.Priority.band())
	}
	s.tally.ended++
	s.tally.work(&s.q.clock, i.loan.idx(), e.since)
	s.settle(i.loan.idx(), &o)
	isParked := o.kind >= park && e.state == StateParked
	s.q.unlock(s)
	if isParked {
		defer s.q.settled() // also if the hook panics
		i.tell(o)
		return
	}
	s.q.settled()
}

// tell calls the hook for a key that was parked.
func (i Item[K]) tell(o outcome) {
	hook := i.from.q.opts.Hooks.Parked
	if o.kind == exhausted {
		hook = i.from.q.opts.Hooks.Exhausted
	}
	if hook != nil {
		hook(i.Key, i.Attempt+1, o.err)
	}
}

// lent is the entry of a loan, nil if it was settled.
func (s *shard[K]) lent(l loan) *entry {
	chunk := s.chunks[l.idx()>>chunkBits]
	if chunk == nil {
		return nil
	}
	e := &chunk[l.idx()&chunkMask]
	if e.state != StateRunning || e.stamp>>8 != l.stamp()>>8 {
		return nil
	}
	return e
}

func (s *shard[K]) reprioritise(e *entry, band uint8) {
	if !e.is(raised|removed) || !e.is(removed) && band > e.band() {
		e.setBand(band)
	}
}

// settle ends the run of entry i. What came during the run meets the run's own
// result as the table in the package comment says.
func (s *shard[K]) settle(i uint32, o *outcome) {
	e := s.at(i)
	was, due := e.flags, e.when
	e.flags &^= added | urgent | removed | raised
	if was&(removed|added) == 0 && o.kind == done && e.flags == 0 {
		s.forget(i)
		return
	}
	s.unrun(i)
	e.when = 0
	if was&removed != 0 {
		s.renew(i)
		o.kind = done
	} else {
		s.count1(i, o)
	}
	switch {
	case was&added == 0:
		s.proceed(i, o)
	case was&urgent != 0:
		e.attempts = 0
		s.proceedAt(i, min(due, s.notBefore(i, o.earliest())))
	case o.kind == done:
		s.proceedAt(i, s.notBefore(i, due))
	case o.kind == later:
		s.proceedAt(i, s.notBefore(i, min(due, o.due)))
	default:
		s.wait(i, StateBackingOff, s.notBefore(i, o.due))
	}
}

// proceedAt runs the key again at due, at once if that has passed during the run.
func (s *shard[K]) proceedAt(i uint32, due int64) {
	if due != 0 && due <= s.q.now() {
		due = 0
	}
	s.begin(i, due)
}

// earliest is when the outcome alone would run the key again.
func (o *outcome) earliest() int64 {
	if o.kind == later || o.kind == retry || o.kind == again {
		return o.due
	}
	return math.MaxInt64
}

// count1 counts the failure or clears the failures before it.
func (s *shard[K]) count1(i uint32, o *outcome) {
	e := s.at(i)
	switch o.kind {
	case done, later:
		e.attempts = 0
		if e.is(inside) {
			s.sides.of(i).err = nil
			s.trim(i)
		}
		return
	case again:
	default:
		e.fail()
		s.retries++
	}
	if o.err != nil {
		s.side(i).err = o.err
	}
}

// proceed is what becomes of a key that nobody added during its run.
func (s *shard[K]) proceed(i uint32, o *outcome) {
	switch o.kind {
	case done:
		s.rest(i)
	case later:
		s.begin(i, s.notBefore(i, o.due))
	case retry, again:
		s.wait(i, StateBackingOff, s.notBefore(i, o.due))
	default:
		e := s.at(i)
		s.set(e, StateParked)
		e.since = s.q.clock.tick()
	}
}
