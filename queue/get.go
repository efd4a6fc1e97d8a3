package queue

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
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
	if q.phase.Load() == open && q.bell.spin() {
		for range spins {
			runtime.Gosched()
			if n := q.take(dst); n > 0 {
				q.bell.spinning.Add(-1)
				q.pass()
				return n, nil
			}
		}
		q.bell.waiting.Add(1)
		q.bell.spinning.Add(-1)
	} else {
		q.bell.waiting.Add(1)
	}
	defer q.bell.waiting.Add(-1)
	for {
		if ctx.Err() != nil {
			q.bell.ring() // the token may have been for us
			return 0, context.Cause(ctx)
		}
		if n := q.take(dst); n > 0 {
			q.pass()
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

// more tells whether something is ready.
func (q *Queue[K]) more() bool {
	if q.idle() {
		return false
	}
	if len(q.shards) == 1 {
		return q.Len() > 0
	}
	for k := range q.shards {
		if q.shown.top[k].Load() != 0 {
			return true
		}
	}
	return false
}

// pick is the shard to take from: the one that is owed a turn, else one of those
// whose top band is highest. It goes by what the shards show, which may be more
// than they have, never less. Among equals it is the one that was owed the last
// turn, or the next after it: with entries side by side, sixteen dispatches in a
// row are faster than sixteen here and there. Where getters meet at one shard, they
// choose by chance instead, for the next thousand dispatches.
func (q *Queue[K]) pick() *shard[K] {
	if len(q.shards) == 1 {
		return &q.shards[0]
	}
	return q.pickOne()
}

func (q *Queue[K]) pickOne() *shard[K] {
	if q.turn.Load() != 0 {
		if k := q.turn.Swap(0); k != 0 && q.shown.top[k-1].Load() != 0 {
			return &q.shards[k-1]
		}
	}
	last := q.owed.Load()
	near, calm := (last-1)&uint32(len(q.shards)-1), last-q.met.Load() > calmAfter
	if calm && q.shown.above.Load() == 0 && q.shown.top[near].Load() == middle+1 {
		return &q.shards[near]
	}
	var best *shard[K]
	var top, equal uint32
	for k := range q.shards {
		switch t := q.shown.top[k].Load(); {
		case t > top:
			best, top, equal = &q.shards[k], t, 1
		case t == top:
			equal++
		}
	}
	if top == 0 || equal == 1 {
		return best
	}
	if !calm {
		near = rand.Uint32()
	}
	for k := range uint32(len(q.shards)) {
		if at := (near + k) & uint32(len(q.shards)-1); q.shown.top[at].Load() >= top {
			return &q.shards[at]
		}
	}
	return best // what was shown has changed meanwhile
}

// calmAfter is how many turns must have been owed since getters met.
const calmAfter = 64

// meet notes that a getter found a shard locked.
func (q *Queue[K]) meet() {
	if o := q.owed.Load(); q.met.Load() != o {
		q.met.Store(o)
	}
}

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
		if s.ready.turn%agingEvery == 0 && len(s.q.shards) > 1 {
			s.q.owe()
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

// owe gives the next shard in turn a dispatch, after each sixteenth of any one, so
// that none with a low top band waits for ever. The rotation is the queue's and not
// the shard's: were each to count for itself, two busy shards could owe the same
// few again and again. A turn that nobody has taken yet is not passed over.
func (q *Queue[K]) owe() {
	next := q.owed.Load()&uint32(len(q.shards)-1) + 1
	if q.turn.CompareAndSwap(0, next) {
		q.owed.Add(1)
	}
}

func (s *shard[K]) item(i uint32, it *Item[K]) {
	e := s.at(i)
	it.Key = *s.key(i)
	it.Attempt = int(e.attempts)
	it.Priority = atBand(e.band())
	it.loan, it.from = uint64(i)<<32|uint64(e.stamp), s
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
	arm := wake < s.armed
	if arm {
		s.armed = wake
	}
	if len(q.shards) > 1 {
		s.show()
	}
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
	for _, x := range told {
		q.opts.Hooks.HoldExpired(x.key, x.why)
	}
}

// shown is what getters see of the shards without their locks. It is never lower
// than what is ready once the lock is free, so no getter goes to sleep over a ready
// key.
type shown struct {
	top   [maxShards]atomic.Uint32 // the top band of each shard, plus one; 0: nothing
	above atomic.Int32             // how many of these are above the middle band
}

// show lets getters see the top band.
func (s *shard[K]) show() {
	t, was := uint32(s.ready.top()), s.shown.Load()
	if t == was {
		return
	}
	s.shown.Store(t)
	if (t > middle+1) != (was > middle+1) {
		if t > was {
			s.q.shown.above.Add(1)
		} else {
			s.q.shown.above.Add(-1)
		}
	}
}

// ring is the alarm's callback: every shard does what is due, in steps that hold
// its lock for a moment only.
func (q *Queue[K]) ring() {
	now := q.now()
	q.expirePauses(now)
	for k := range q.shards {
		s := &q.shards[k]
		for more := true; more; {
			s.mu.Lock()
			more = !s.closed && s.wake() <= now && s.tick(now)
			s.armed = never
			if more {
				s.armed = 0 // nobody else need arm it
			}
			q.unlock(s)
		}
	}
}
