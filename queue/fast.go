package queue

import (
	"context"
	"hash/maphash"
)

// This file is the short way of a key through a queue: Add, Get and Done of a
// key that has nothing but itself, in a plain queue. It does what the long way
// does (add, take, settle), and leaves everything rarer to it. It is written out
// rather than composed, because calls, checks and counters made twice would cost
// more than the work; the package comment has the figures.

// Add makes key run as soon as it can. It fails with ErrStopped and ErrFull.
// Adding a key that is there already changes when it runs as the table in the
// package comment says, and never makes it run twice at once.
func (q *Queue[K]) Add(key K) error {
	if !q.plain {
		return q.add(key, AddOptions{}, false)
	}
	return q.addNow(key, -1, false)
}

// addNow is AddWith of a band, or -1, and whether it is urgent, in a plain queue.
func (q *Queue[K]) addNow(key K, band int16, urgent bool) error {
	long := maphash.Comparable(q.seed, key)
	s, hash := q.shard(long), uint32(long)
	if !s.mu.TryLock() {
		s.mu.Wait()
	}
	i, p, ok := s.find(hash, &key)
	if s.closed {
		s.mu.Unlock()
		return ErrStopped
	}
	if ok {
		s.tally.adds++
		if e := s.at(i); e.state != StateReady || band > int16(e.band()) || urgent {
			s.merge(i, &request{band: band, urgent: urgent})
			q.unlock(s)
			return nil
		}
		s.mu.Unlock()
		return nil
	}
	if band < 0 {
		band = middle
	}

	if s.hot != 0 {
		i, s.hot = s.hot-1, 0
	} else {
		i = s.alloc(s.ready.turn)
	}
	*s.key(i) = key
	e := s.at(i)
	e.hash = hash
	e.stamp |= uint32(band) // a free entry has band 0
	e.state = StateReady
	e.since = s.tally.enter(&q.clock, i)
	s.tally.adds++
	s.ready.append(&s.entries, i, e)
	s.table.insert(hash, i, p)
	if s.top <= uint32(band) {
		s.showTop(uint32(band) + 1)
	}
	s.mu.Unlock()
	q.bell.ring()
	return nil
}

// Get waits for a key that may run, and lends it to the caller, who must settle
// the Item. It fails with ErrStopped once the queue is closed and nothing may run
// (of what is paused, held or throttled then nothing will), and with the cause of ctx
// when that ends.
func (q *Queue[K]) Get(ctx context.Context) (it Item[K], err error) {
	if q.gate.Load() == 0 && ctx.Err() == nil {
		for s := q.pick(); s != nil; s = q.pick() {
			if !s.mu.TryLock() {
				q.meet()
				s.mu.Wait()
			}
			ok := s.lendOne(&it)
			s.mu.Unlock()
			if ok {
				return it, nil
			}
			if len(q.shards) == 1 || q.gate.Load() != 0 { // Stop has come meanwhile
				break
			}
		}
	}
	return q.getSlowly(ctx)
}

func (q *Queue[K]) getSlowly(ctx context.Context) (Item[K], error) {
	var one [1]Item[K]
	_, err := q.GetBatch(ctx, one[:])
	return one[0], err
}

// lendOne is lend for one key of a plain queue.
func (s *shard[K]) lendOne(it *Item[K]) bool {
	if s.top == 0 || s.stopped {
		return false
	}
	b := &s.ready.bands
	l := b.lane(uint8(s.top - 1))
	if b.turn++; b.turn%agingEvery == 0 {
		l = s.aged()
	}
	i := l.head - 1
	e := s.at(i)
	l.n--
	if l.head = e.next; l.head != 0 {
		s.at(l.head - 1).prev = 0
	} else {
		l.tail = 0
		b.emptied(e.band())
		s.show()
	}
	e.state = StateRunning
	e.stamp += 1 << 8
	e.since = s.tally.wait(&s.q.clock, i, e.since, b.turn)
	if e.flags != 0 {
		s.runMore(i, 0)
	}
	it.Key = *s.key(i)
	it.Attempt = int(e.attempts)
	it.Priority = atBand(e.band())
	it.loan, it.from = newLoan(i, e), s
	return true
}

// aged is the lane of the oldest key. It is asked at each sixteenth dispatch,
// which is also when another shard is owed a turn.
func (s *shard[K]) aged() *lane {
	s.q.owe(s.ready.turn)
	return s.ready.lane(s.at(s.ready.oldest(&s.entries)).band())
}

// Done says that the run succeeded: the attempts start anew, and the key leaves
// the queue unless it was added during the run.
func (i Item[K]) Done() {
	s := i.from
	if !s.mu.TryLock() {
		s.mu.Wait()
	}
	e := s.lent(i.loan)
	if e == nil || e.flags != 0 || i.loan.differs(i.Priority) || !s.q.plain {
		s.mu.Unlock()
		i.settle(outcome{kind: done})
		return
	}
	s.tally.ended++
	s.tally.work(&s.q.clock, i.loan.idx(), e.since)
	s.end(i.loan.idx(), e)
	if s.slack.due < s.armed.Load() {
		s.q.unlock(s)
	} else {
		s.mu.Unlock()
	}
	if s.q.phase.Load() != open {
		s.q.settled()
	}
}

// DoneNext is Done followed by Queue.Get, for the loop of a worker: both under
// one lock where that can be.
func (i Item[K]) DoneNext(ctx context.Context) (next Item[K], err error) {
	s := i.from
	q := s.q
	if q.gate.Load() != 0 || ctx.Err() != nil || !q.first(s) {
		i.Done()
		return q.Get(ctx)
	}
	if !s.mu.TryLock() {
		q.meet()
		s.mu.Wait()
	}
	e := s.lent(i.loan)
	if e == nil || e.flags != 0 || i.loan.differs(i.Priority) {
		s.mu.Unlock()
		i.Done()
		return q.Get(ctx)
	}
	s.tally.ended++
	s.tally.work(&q.clock, i.loan.idx(), e.since)
	s.end(i.loan.idx(), e)
	ok := s.lendOne(&next)
	if s.slack.due < s.armed.Load() {
		q.unlock(s)
	} else {
		s.mu.Unlock()
	}
	if q.phase.Load() != open {
		q.settled()
	}
	if ok {
		return next, nil
	}
	return q.Get(ctx)
}
