package queue

import (
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
)

// This file chooses the shard that a getter takes from.

// shown is what getters see of the shards without their locks: one bit a shard in
// each word. It is never less than what is ready once the lock is free, so no getter
// goes to sleep over a ready key. A shard whose top band is the middle one, which
// nearly all keys have, is in some alone, so that one addition shows that it has
// something, or nothing.
type shown struct {
	some  atomic.Uint64            // something is ready
	above atomic.Uint64            // … and the top band is above the middle one
	below atomic.Uint64            // … or below
	top   [maxShards]atomic.Uint32 // of shards in above or below: the top band, plus one

	turn atomic.Uint32 // shard that is owed a dispatch, plus one
	owed atomic.Uint32 // counts the turns that were owed
	met  atomic.Uint32 // the count when getters met last
}

// show lets getters see the top band. Whoever changes it under the lock calls show
// before the lock is free.
func (s *shard[K]) show() {
	if t := uint32(s.ready.top()); t != s.top {
		s.showTop(t)
	}
}

func (s *shard[K]) showTop(t uint32) {
	was := s.top
	s.top = t
	if len(s.q.shards) == 1 {
		return
	}
	v := &s.q.shown
	if t != 0 && t != middle+1 || was != 0 && was != middle+1 {
		v.top[s.id].Store(t) // first, for above and below lead to it
		flip(&v.above, s.id, was > middle+1, t > middle+1)
		flip(&v.below, s.id, was-1 < middle, t-1 < middle)
	}
	flip(&v.some, s.id, was != 0, t != 0)
}

// flip changes the bit of a shard. Only who holds the shard's lock does, so that an
// addition will do.
func flip(word *atomic.Uint64, id uint32, was, is bool) {
	switch {
	case is && !was:
		word.Add(1 << id)
	case was && !is:
		word.Add(-(1 << id))
	}
}

// more tells whether something is ready.
func (q *Queue[K]) more() bool {
	switch {
	case q.idle():
		return false
	case len(q.shards) == 1:
		return q.Len() > 0
	}
	return q.shown.some.Load() != 0
}

// pick is the shard to take from: the one that is owed a turn, else one of those
// whose top band is highest. It goes by what the shards show, which may be more
// than they have, never less. Among equals it is the one that was owed the last
// turn, or the next after it: with entries side by side, 64 dispatches in a row are
// faster than 64 here and there. Where getters meet at one shard, they
// choose by chance instead, for the next thousand dispatches.
func (q *Queue[K]) pick() *shard[K] {
	if len(q.shards) == 1 {
		return &q.shards[0]
	}
	v := &q.shown
	if v.turn.Load() != 0 {
		if k := v.turn.Swap(0); k != 0 && v.some.Load()>>(k-1)&1 != 0 {
			return &q.shards[k-1]
		}
	}
	equals := v.highest()
	if equals == 0 {
		return nil
	}
	near := v.owed.Load() - 1
	if near+1-v.met.Load() <= calmAfter {
		near = rand.Uint32()
	}
	near &= uint32(len(q.shards) - 1)
	if at := equals >> near; at != 0 {
		return &q.shards[near+uint32(bits.TrailingZeros64(at))]
	}
	return &q.shards[bits.TrailingZeros64(equals)]
}

// highest is the set of the shards whose top band is highest.
func (v *shown) highest() uint64 {
	some := v.some.Load()
	if above := v.above.Load() & some; above != 0 {
		return v.best(above)
	}
	if middle := some &^ v.below.Load(); middle != 0 {
		return middle
	}
	return v.best(some)
}

// best is the set of those among shards whose top band is highest.
func (v *shown) best(shards uint64) (equals uint64) {
	top := uint32(0)
	for ; shards != 0; shards &= shards - 1 {
		k := bits.TrailingZeros64(shards)
		switch t := v.top[k].Load(); {
		case t > top || equals == 0:
			top, equals = t, 1<<k
		case t == top:
			equals |= 1 << k
		}
	}
	return equals
}

// first tells whether s is a shard that pick could choose.
func (q *Queue[K]) first(s *shard[K]) bool {
	if len(q.shards) == 1 {
		return true
	}
	return q.shown.turn.Load() == 0 && q.shown.highest()>>s.id&1 != 0
}

const (
	stayFor   = 4 * agingEvery // dispatches from one shard in a row
	calmAfter = 16             // turns that must have been owed since getters met
)

// meet notes that a getter found a shard locked.
func (q *Queue[K]) meet() {
	if o := q.shown.owed.Load(); q.shown.met.Load() != o {
		q.shown.met.Store(o)
	}
}

// owe gives the next shard in turn a dispatch, after each sixteenth of any one, so
// that none with a low top band waits for ever; while all have the middle band on
// top, after each 64th will do. The rotation is the queue's and not the shard's: were
// each to count for itself, two busy shards could owe the same few again and again. A
// turn that nobody has taken yet is not passed over.
func (q *Queue[K]) owe(turn uint64) {
	v := &q.shown
	if len(q.shards) == 1 || turn%stayFor != 0 && v.above.Load()|v.below.Load() == 0 {
		return
	}
	owed := v.owed.Load()
	next := owed&uint32(len(q.shards)-1) + 1
	if v.turn.CompareAndSwap(0, next) {
		v.owed.CompareAndSwap(owed, owed+1) // else somebody was as quick: better twice than never
	}
}
