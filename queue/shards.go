package queue

import (
	"cmp"
	"math/bits"
	"sync/atomic"
)

// shards spreads keys over shards by their hash, and chooses the shard that a
// getter takes from:
//
//  1. one whose top band is highest;
//  2. among equals the current shard, or the next one after it whose lock is free;
//  3. after each 16th dispatch of a shard the next shard becomes current and is owed
//     one dispatch, whatever its band;
//  4. an owed dispatch is taken before all others, and is not passed over.
//
// So every shard with ready keys is served in 32·N dispatches: of these at least
// (32·N-15·N)/16 ≥ N are a 16th one of some shard, for each of N shards may have
// 15 more under way. That a lock is found taken changes only the order among
// equals.
type shards[K comparable] struct {
	all  []shard[K]
	mask uint64

	// What getters see without the locks. It is never less than what may run once
	// the locks are free, so that no getter goes to sleep over a ready key.
	_       [64]byte
	some    atomic.Uint64            // a bit for each shard with something that may run
	odd     atomic.Uint64            // … whose top band is not the middle one
	tops    [maxShards]atomic.Uint32 // top bands, plus one
	current atomic.Uint32
	owed    atomic.Uint32 // the shard that is owed a dispatch, plus one; 0: none
	_       [64]byte
}

// init makes n shards.
func (r *shards[K]) init(n int, v *env) {
	r.all = make([]shard[K], n)
	r.mask = uint64(n - 1)
	for k := range r.all {
		s := &r.all[k]
		s.init(v)
		s.id = uint8(k)
		if n > 1 {
			s.topMayChange = fxTop
			s.publish = func(top uint32) { r.publish(k, top) }
		}
	}
}

// of is the shard of a hash. Tables use its lower bits.
func (r *shards[K]) of(hash uint64) *shard[K] { return &r.all[hash>>58&r.mask] }

// publish lets getters see the top band of shard k, whose lock is held. A shard with
// nothing keeps what it showed last: a bit of some says whether that counts.
func (r *shards[K]) publish(k int, top uint32) {
	if was := r.tops[k].Load(); top != 0 && top != was {
		r.tops[k].Store(top) // first, for the words lead to it
		flip(&r.odd, k, isOdd(top))
	}
	flip(&r.some, k, top != 0)
}

func isOdd(top uint32) bool { return top != 0 && top != middle+1 }

// flip sets or clears the bit of a shard. Its lock is held, so that nothing else
// changes the bit and an addition will do.
func flip(word *atomic.Uint64, k int, on bool) {
	switch is := word.Load()>>k&1 == 1; {
	case on && !is:
		word.Add(1 << k)
	case is && !on:
		word.Add(-(1 << k))
	}
}

// lock locks the shard to take from, nil if nothing may run.
func (r *shards[K]) lock() *shard[K] {
	if r.mask == 0 {
		r.all[0].mu.Lock()
		return &r.all[0]
	}
	if r.owed.Load() != 0 {
		if k := r.owed.Swap(0); k != 0 && r.some.Load()>>(k-1)&1 != 0 {
			r.all[k-1].mu.Lock()
			return &r.all[k-1]
		}
	}
	equals := r.highest()
	if equals == 0 {
		return nil
	}
	at := r.current.Load()
	behind := equals >> at << at
	for _, set := range [2]uint64{behind, equals &^ behind} {
		for ; set != 0; set &= set - 1 {
			if s := &r.all[bits.TrailingZeros64(set)]; s.mu.TryLock() {
				return s
			}
		}
	}
	s := &r.all[bits.TrailingZeros64(cmp.Or(behind, equals))]
	s.mu.Lock()
	return s
}

// highest is the set of the shards whose top band is highest.
func (r *shards[K]) highest() (equals uint64) {
	some := r.some.Load()
	if r.odd.Load()&some == 0 {
		return some
	}
	var top uint32
	for set := some; set != 0; set &= set - 1 {
		k := bits.TrailingZeros64(set)
		switch t := r.tops[k].Load(); {
		case t > top || equals == 0:
			top, equals = t, 1<<k
		case t == top:
			equals |= 1 << k
		}
	}
	return equals
}

// rotate makes the next shard current, unless the last one is owed its dispatch
// still.
func (r *shards[K]) rotate() {
	if r.mask == 0 || r.owed.Load() != 0 {
		return
	}
	next := (r.current.Load() + 1) & uint32(r.mask)
	if r.owed.CompareAndSwap(0, next+1) {
		r.current.Store(next)
	}
}

// ready tells whether a key may run.
func (r *shards[K]) ready() bool {
	if r.mask != 0 {
		return r.some.Load() != 0
	}
	s := &r.all[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready.top() != 0
}
