package queue

import (
	"math/bits"
	"sync/atomic"
)

// shards spreads keys over shards by their hash, and chooses the shard that a
// getter takes from:
//
//  1. one whose top band is highest;
//  2. among equals the current shard, or the next one after it whose lock is free;
//  3. after each 16th dispatch of a shard the next shard becomes current and the next
//     dispatch is from it, whatever its band;
//  4. no shard becomes current before the one before it had that dispatch.
//
// So every shard with ready keys is served in 32·N dispatches: of these at least
// (32·N-15·N)/16 ≥ N are a 16th one of some shard, for each of N shards may have
// 15 more under way. That a lock is found taken changes only the order among
// equals.
type shards struct {
	all  []shard
	mask uint64

	// What getters see without the locks. It is never less than what may run once
	// the locks are free, so that no getter goes to sleep over a ready key.
	_ [64]byte
	shown
	current  atomic.Uint32
	unserved atomic.Uint32 // the current shard until it had its dispatch, plus one; 0: it had
	_        [64]byte
}

// init makes n shards.
func (r *shards) init(n int, v *env, keys layout) {
	r.all = make([]shard, n)
	r.mask = uint64(n - 1)
	for k := range r.all {
		r.all[k].init(uint8(k), v, keys)
		r.all[k].shown = &r.shown
	}
}

// of is the shard of a hash. Tables use its lower bits.
func (r *shards) of(hash uint64) *shard { return &r.all[hash>>58&r.mask] }

// lock locks the shard to take from, nil if nothing may run.
func (r *shards) lock() *shard {
	if r.unserved.Load() != 0 {
		if k := r.unserved.Swap(0); k != 0 && r.some.Load()>>(k-1)&1 != 0 {
			r.all[k-1].mu.Lock()
			return &r.all[k-1]
		}
	}
	equals := r.highest()
	if equals == 0 {
		return nil
	}
	at := int(r.current.Load())
	inTurn := bits.RotateLeft64(equals, -at) // the current shard has bit 0
	for set := inTurn; set != 0; set &= set - 1 {
		if s := &r.all[(bits.TrailingZeros64(set)+at)%maxShards]; s.mu.TryLock() {
			return s
		}
	}
	s := &r.all[(bits.TrailingZeros64(inTurn)+at)%maxShards]
	s.mu.Lock()
	return s
}

// highest is the set of the shards whose top band is highest; 0: no key may run.
func (r *shards) highest() (equals uint64) {
	some := r.some.Load()
	if r.odd.Load() == 0 {
		return some
	}
	top := uint32(0)
	for ; some != 0; some &= some - 1 {
		k := bits.TrailingZeros64(some)
		t := r.top(k)
		if t > top {
			top, equals = t, 0
		}
		if t == top {
			equals |= 1 << k
		}
	}
	return equals
}

// rotate makes the next shard current, unless the last one still waits for its
// dispatch.
func (r *shards) rotate() {
	if r.unserved.Load() != 0 {
		return
	}
	next := (r.current.Load() + 1) & uint32(r.mask)
	if r.unserved.CompareAndSwap(0, next+1) {
		r.current.Store(next)
	}
}
