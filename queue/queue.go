package queue

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// Queue is a work queue of keys. Make one with New. All methods are safe for
// concurrent use and none but Get, GetBatch, Item.DoneNext, Drain and Stop
// blocks.
//
//	Queue ── shards, by hash of the key
//	           ├─ table    hash ▶ entry
//	           ├─ slab     entries, keys, side records
//	           ├─ ready    bands ▶ lists of entries (by tenant, if there are tenants)
//	           ├─ wheel    entries that wait for a time
//	           └─ tally    counters, read by Stats
//	      ── alarm   one runtime timer for all of them
//	      ── bell    wakes getters
type Queue[K comparable] struct {
	opts   Options[K]
	seed   maphash.Seed
	start  time.Time
	shards []shard[K]
	mask   uint64 // of the hash bits that choose a shard
	plain  bool   // neither tenants, buckets, debounce nor MaxKeys

	alarm   alarm
	news    news          // for Drain and Stop
	phase   atomic.Uint32 // open, closed, stopped
	pausing sync.Mutex    // makes one step of changes of paused and its bit in gate
	paused  atomic.Pointer[pause]
	gate    atomic.Uint32 // 0: keys may run; else see notPlain
	keys    atomic.Int64  // entries, counted only under MaxKeys
	clock   clock

	// What is above is read by all and seldom written, what is below is written
	// often: were they in one cache line, each read would wait for another core.
	_     [64]byte
	bell  bell
	_     [64]byte
	shown shown
	_     [64]byte
}

// New makes a queue. It starts nothing. It fails on options that make no sense
// and on a key type that holds a pointer, an interface or a float.
func New[K comparable](o *Options[K]) (*Queue[K], error) {
	q := &Queue[K]{seed: maphash.MakeSeed(), start: time.Now()}
	if o != nil {
		q.opts = *o
	}
	if err := q.opts.complete(); err != nil {
		return nil, err
	}
	q.plain = q.opts.Tenant == nil && q.opts.Buckets == nil && !q.opts.Debounce.on() && q.opts.MaxKeys == 0
	if !q.plain {
		q.gate.Store(notPlain)
	}
	q.shards = make([]shard[K], q.opts.Shards)
	q.mask = uint64(len(q.shards) - 1)
	for k := range q.shards {
		q.shards[k].init(q, k)
	}
	q.bell.init()
	q.news.token = make(chan struct{}, 1)
	q.alarm.init(q.start, q.ring)
	q.clock.Init(q.start)
	return q, nil
}

// Name is the queue's name.
func (q *Queue[K]) Name() string { return q.opts.Name }

// String names the queue and says how many keys are in which state.
func (q *Queue[K]) String() string {
	s := q.Stats()
	return fmt.Sprintf("%s: %d ready, %d delayed, %d backing off, %d throttled, %d held, %d running, %d parked",
		s.Name, s.Ready, s.Delayed, s.BackingOff, s.Throttled, s.Held, s.Running, s.Parked)
}

// now is the time since the queue's start, on the monotonic clock. It is at
// least 1: 0 means no time.
func (q *Queue[K]) now() int64 { return int64(time.Since(q.start)) + 1 }

func (q *Queue[K]) hash(key K) uint64 { return maphash.Comparable(q.seed, key) }

func (q *Queue[K]) shard(hash uint64) *shard[K] { return &q.shards[hash>>58&q.mask] }

// Len is the number of keys that are ready to run.
func (q *Queue[K]) Len() int { return q.counted(StateReady) }

// counted is the number of keys in a state.
func (q *Queue[K]) counted(in State) (n int) {
	for k := range q.shards {
		s := &q.shards[k]
		s.mu.Lock()
		n += s.counted(in)
		s.mu.Unlock()
	}
	return n
}

// room tells whether there is room for one more key, and counts it. The count is
// never too high in between: an add that is refused must not have another refused.
func (q *Queue[K]) room() bool {
	for most := int64(q.opts.MaxKeys); most > 0; {
		n := q.keys.Load()
		if n >= most {
			return false
		}
		if q.keys.CompareAndSwap(n, n+1) {
			break
		}
	}
	return true
}

// at is the time of now for a time of the calendar, at least 1. What is further away
// than a Duration can say is as good as never.
func (q *Queue[K]) at(t time.Time) int64 { return max(after(1, t.Sub(q.start)), 1) }

// time is the opposite of at.
func (q *Queue[K]) time(at int64) time.Time { return q.start.Add(time.Duration(at - 1)) }
