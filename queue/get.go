package queue

import (
	"context"
	"runtime"
)

// GetBatch waits like Get, and fills dst as far as it goes without taking from
// others: a share of what is ready, at least one. It returns how many there are.
// Each Item is settled on its own.
func (q *Queue[K]) GetBatch(ctx context.Context, dst []Item[K]) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if n := q.take(dst); n > 0 {
		return n, nil
	}
	return q.await(ctx, dst)
}

// await is the slow way: it looks some times more and then sleeps until the bell
// rings.
func (q *Queue[K]) await(ctx context.Context, dst []Item[K]) (int, error) {
	counted := &q.bell.waiting
	// However it ends, also by a panic of Options.Buckets: while somebody is counted
	// as looking, nobody is woken, and the token that woke us may be others' too.
	defer func() {
		counted.Add(-1)
		q.pass()
	}()
	if q.phase.Load() == open && q.bell.spin() {
		counted = &q.bell.spinning
		for range spins {
			runtime.Gosched()
			if n := q.take(dst); n > 0 {
				return n, nil
			}
		}
		q.bell.waiting.Add(1)
		counted = &q.bell.waiting
		q.bell.spinning.Add(-1)
	} else {
		q.bell.waiting.Add(1)
	}
	for {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if n := q.take(dst); n > 0 {
			return n, nil
		}
		if q.phase.Load() != open {
			return 0, ErrStopped
		}
		select {
		case <-q.bell.token:
		case <-q.bell.closed:
		case <-ctx.Done():
		}
	}
}

// pass rings for the next getter if there is more to get.
func (q *Queue[K]) pass() {
	if q.bell.waiting.Load() != 0 && q.more() {
		q.bell.ring()
	}
}

// take fills dst with what may run now, one shard's keys only.
func (q *Queue[K]) take(dst []Item[K]) int {
	for !q.idle() {
		s := q.pick()
		if s == nil {
			return 0
		}
		n, again := q.takeFrom(s, dst)
		if n > 0 || !again {
			return n
		}
	}
	return 0
}

// idle tells whether nothing may run, whatever is ready.
func (q *Queue[K]) idle() bool { return q.gate.Load()&^notPlain != 0 }

// takeFrom takes from one shard; again says that it is worth another try.
func (q *Queue[K]) takeFrom(s *shard[K], dst []Item[K]) (n int, again bool) {
	s.mu.Lock()
	n = s.lend(dst)
	q.unlock(s)
	again = len(q.shards) > 1 || n > 0
	if n > 0 && q.opts.Buckets != nil {
		n = q.charge(s, dst[:n])
	}
	return n, again
}

// lend fills dst with the keys whose turn it is.
func (s *shard[K]) lend(dst []Item[K]) (n int) {
	if s.stopped {
		return 0
	}
	most := 1
	if len(dst) > 1 {
		most = min(len(dst), s.share())
	}
	var now int64
	if s.q.interval() > 0 {
		now = s.q.now()
	}
	for n < most && s.ready.top() != 0 {
		i := s.ready.pop(&s.entries)
		if s.ready.turn%agingEvery == 0 {
			s.q.owe(s.ready.turn)
		}
		e := s.at(i)
		s.toRunning(i, e)
		if e.flags != 0 || now != 0 {
			s.runMore(i, now)
		}
		s.item(i, &dst[n])
		n++
	}
	return n
}

// share is how many of the ready keys one getter may take at once: what leaves
// as much for everybody who runs or waits now.
func (s *shard[K]) share() int {
	others := s.counted(StateRunning)/shareBatch + int(s.q.bell.waiting.Load()) + 1
	return max(1, s.ready.len()/(2*others))
}

// A getter of batches has about so many items on loan.
const shareBatch = 8

// toRunning makes a ready entry that is in no list any more a running one.
func (s *shard[K]) toRunning(i uint32, e *entry) {
	e.state = StateRunning
	e.stamp += 1 << 8
	e.since = s.tally.wait(&s.q.clock, i, e.since, s.ready.turn)
}

// runMore does what only few entries need.
func (s *shard[K]) runMore(i uint32, now int64) {
	e := s.at(i)
	if e.is(inside) {
		s.ready.enlist(&s.sides, i)
		if s.q.opts.Buckets == nil { // else when it has paid
			s.sides.of(i).reasons = 0
			s.trim(i)
		}
	}
	s.ran(i, now)
}

// unrun is the opposite of enlist.
func (s *shard[K]) unrun(i uint32) {
	if s.at(i).is(inside) {
		s.loud = s.ready.discharge(&s.sides, i) || s.loud
	}
}

func (s *shard[K]) item(i uint32, it *Item[K]) {
	e := s.at(i)
	it.Key = *s.key(i)
	it.Attempt = int(e.attempts)
	it.Priority = atBand(e.band())
	it.loan, it.from = newLoan(i, e), s
}

// Running is the item of a key that is on loan, so that it can be settled by
// who knows only its key.
func (q *Queue[K]) Running(key K) (it Item[K], ok bool) {
	ok = q.with(key, func(s *shard[K], i uint32) bool {
		if s.at(i).state != StateRunning {
			return false
		}
		s.item(i, &it)
		return true
	})
	return it, ok
}

// unlock ends what mu guarded and does what must not be done under it.
func (q *Queue[K]) unlock(s *shard[K]) {
	loud, wake := s.loud, s.wake()
	s.loud = false
	arm := wake < s.armed.Load()
	if arm {
		s.armed.Store(wake)
	}
	s.show()
	var told []expired[K]
	if s.expired != nil {
		told, s.expired = s.expired, nil
	}
	s.mu.Unlock()

	if loud {
		q.bell.ring()
	}
	if arm {
		q.alarm.set(wake)
	}
	q.tell(told)
}

// tell calls the hook. No lock is held.
func (q *Queue[K]) tell(told []expired[K]) {
	for _, x := range told {
		q.opts.Hooks.HoldExpired(x.key, x.why)
	}
}

// ring is the alarm's callback: all shards do what is due, one step each by turns,
// until nothing is due. The alarm is set anew once, for all of them, before hooks are
// called: these may take their time.
func (q *Queue[K]) ring() {
	q.expirePauses(q.now())
	var told []expired[K]
	next, now := int64(0), int64(0)
	for next <= now {
		next, now = never, q.now()
		for k := range q.shards {
			next = min(next, q.shards[k].step(now, &told))
		}
	}
	q.alarm.set(next)
	q.tell(told)
}

// step does some of what is due, holding the lock for a moment only, and tells when
// there is more.
func (s *shard[K]) step(now int64, told *[]expired[K]) (next int64) {
	if at := s.armed.Load(); at > now {
		return at
	}
	s.mu.Lock()
	more := !s.closed && s.wake() <= now && s.tick(now)
	*told = append(*told, s.expired...)
	s.expired = nil
	switch {
	case more:
		next = 0
	case s.closed:
		next = never
	default:
		next = max(s.wake(), now+1)
	}
	s.armed.Store(next) // ring sets the alarm for it
	s.q.unlock(s)
	return next
}
