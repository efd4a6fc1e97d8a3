//go:build peers

package bench

import (
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// least is a queue stripped of everything but what the work itself asks for: a
// key is there once, it is added, got and settled in three calls from anywhere,
// and getters sleep while nothing is ready. A shard is a set of hashes and a
// ring of keys under a lock. Keys have neither state nor age, priority, attempts
// or counters, a running key cannot be added again, no shard's turn ever comes,
// timers are good to a millisecond, and memory is never given back. What it
// takes is what the work costs on a machine; what tend takes beyond is the price
// of its promises.
type least[K comparable] struct {
	seed    maphash.Seed
	shards  [8]leastShard[K]
	waiting atomic.Int32
	bell    chan struct{}
	closed  chan struct{}
	closing sync.Once
	ticking sync.Once
	start   time.Time
	backoff time.Duration
	held    []leastItem[K]
	kept    bool // least-entry
}

type leastShard[K comparable] struct {
	mu       leastLock
	from, to uint32
	ring     []leastItem[K] // 1<<n
	marks    []uint64       // 1<<n: hashes of the keys there, 0: none; linear probing
	n        int            // of them
	id       uint32
	full     atomic.Bool // something is ready
	later    [][]leastItem[K]
	leastEntries[K]
	_ [128]byte
}

type leastItem[K comparable] struct {
	key      K
	hash     uint64
	idx, run uint32
}

// leastLock looks some times before it sleeps, as the lock of tend's queue does.
type leastLock struct{ sync.Mutex }

func (l *leastLock) Lock() {
	for range 100 {
		if l.TryLock() {
			return
		}
		for range 10 {
		}
	}
	l.Mutex.Lock()
}

const leastSlots = 1 << 14 // of a millisecond: more than the longest delay

func newLeast[K comparable](_ *testing.B, backoff time.Duration) subject[K] {
	l := &least[K]{
		seed: maphash.MakeSeed(), bell: make(chan struct{}, 1), closed: make(chan struct{}),
		start: time.Now(), backoff: backoff,
	}
	for k := range l.shards {
		l.shards[k].id = uint32(k)
		l.shards[k].ring, l.shards[k].marks = make([]leastItem[K], 64), make([]uint64, 128)
	}
	return l
}

func (l *least[K]) shard(hash uint64) *leastShard[K] { return &l.shards[hash>>61] }

func (l *least[K]) Add(key K) {
	hash := maphash.Comparable(l.seed, key) | 1
	s := l.shard(hash)
	if !s.mu.TryLock() {
		s.mu.Lock()
	}
	if l.kept {
		if i, fresh := s.enter(uint32(hash), &key); fresh {
			s.ready(i)
		}
	} else if s.mark(hash) {
		s.push(leastItem[K]{key: key, hash: hash})
	}
	s.mu.Unlock()
	if l.waiting.Load() != 0 {
		l.ring()
	}
}

func (l *least[K]) ring() {
	select {
	case l.bell <- struct{}{}:
	default:
	}
}

// mark puts the hash into the set; false says that it is there.
func (s *leastShard[K]) mark(hash uint64) bool {
	m := uint64(len(s.marks) - 1)
	p := hash >> 8 & m
	for s.marks[p] != 0 {
		if s.marks[p] == hash {
			return false
		}
		p = (p + 1) & m
	}
	if s.n++; s.n > len(s.marks)/2 {
		old := s.marks
		s.marks = make([]uint64, 2*len(old))
		s.n = 0
		for _, w := range old {
			if w != 0 {
				s.mark(w)
			}
		}
		return s.mark(hash)
	}
	s.marks[p] = hash
	return true
}

func (s *leastShard[K]) unmark(hash uint64) {
	m := uint64(len(s.marks) - 1)
	gap := hash >> 8 & m
	for s.marks[gap] != hash {
		gap = (gap + 1) & m
	}
	s.n--
	for p := (gap + 1) & m; s.marks[p] != 0; p = (p + 1) & m {
		if home := s.marks[p] >> 8 & m; (p-home)&m >= (p-gap)&m {
			s.marks[gap] = s.marks[p]
			gap = p
		}
	}
	s.marks[gap] = 0
}

func (s *leastShard[K]) push(item leastItem[K]) {
	if int(s.to-s.from) == len(s.ring) {
		ring := make([]leastItem[K], 2*len(s.ring))
		for at := s.from; at != s.to; at++ {
			ring[at&uint32(len(ring)-1)] = s.ring[at&uint32(len(s.ring)-1)]
		}
		s.ring = ring
	}
	s.ring[s.to&uint32(len(s.ring)-1)] = item
	if s.to++; !s.full.Load() {
		s.full.Store(true)
	}
}

func (s *leastShard[K]) pop() (item leastItem[K], ok bool) {
	if s.words != nil {
		if s.head == 0 {
			return item, false
		}
		i := s.first()
		if s.head == 0 {
			s.full.Store(false)
		}
		return leastItem[K]{s.keys[i], uint64(s.id)<<61 | uint64(s.entries[i].hash), i, s.entries[i].run}, true
	}
	if s.from == s.to {
		return item, false
	}
	item = s.ring[s.from&uint32(len(s.ring)-1)]
	if s.from++; s.from == s.to {
		s.full.Store(false)
	}
	return item, true
}

// try gets a key from near if that has one, else from any shard.
func (l *least[K]) try(near *leastShard[K]) (item leastItem[K], ok bool) {
	if near != nil && near.full.Load() {
		near.mu.Lock()
		item, ok = near.pop()
		near.mu.Unlock()
	}
	from := 0
	if !ok {
		from = int(rand.Uint32() & 7)
	}
	for k := 0; k < len(l.shards) && !ok; k++ {
		if s := &l.shards[(from+k)&7]; s.full.Load() {
			s.mu.Lock()
			item, ok = s.pop()
			s.mu.Unlock()
		}
	}
	return item, ok
}

// get waits for a key; ok is false once the queue is closed and empty.
func (l *least[K]) get(near *leastShard[K]) (item leastItem[K], ok bool) {
	for range 3 {
		if item, ok = l.try(near); ok {
			return item, true
		}
		runtime.Gosched()
	}
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	for {
		if item, ok = l.try(near); ok {
			l.ring() // perhaps there is more
			return item, true
		}
		select {
		case <-l.bell:
		case <-l.closed:
			return l.try(near)
		}
	}
}

// ready puts an entry behind the ready ones.
func (s *leastShard[K]) ready(i uint32) {
	if s.link(i); !s.full.Load() {
		s.full.Store(true)
	}
}

// end settles a run.
func (s *leastShard[K]) end(item *leastItem[K]) {
	switch {
	case s.words == nil:
		s.unmark(item.hash)
	case s.leastEntries.end(item.idx, item.run):
		s.ready(item.idx)
	}
}

func (l *least[K]) done(item leastItem[K]) {
	s := l.shard(item.hash)
	if !s.mu.TryLock() {
		s.mu.Lock()
	}
	s.end(&item)
	s.mu.Unlock()
}

// doneNext is done followed by get under one lock, where that can be.
func (l *least[K]) doneNext(item leastItem[K]) (next leastItem[K], ok bool) {
	s := l.shard(item.hash)
	if !s.mu.TryLock() {
		s.mu.Lock()
	}
	s.end(&item)
	next, ok = s.pop()
	s.mu.Unlock()
	if ok {
		return next, true
	}
	return l.get(nil)
}

func (l *least[K]) Close() { l.closing.Do(func() { close(l.closed) }) }
func (l *least[K]) Drop()  { l.held = nil }

func (l *least[K]) Fill(keys []K) {
	for _, key := range keys {
		l.Add(key)
	}
}

func (l *least[K]) Cycle(keys []K, n int) {
	var near *leastShard[K]
	for i, at := 0, 0; i < n; i++ {
		l.Add(keys[at])
		item, _ := l.get(near)
		near = l.shard(item.hash)
		l.done(item)
		if at++; at == len(keys) {
			at = 0
		}
	}
}

func (l *least[K]) Dup(keys []K, n int) {
	for i, at := 0, 0; i < n; i++ {
		l.Add(keys[at])
		if at++; at == len(keys) {
			at = 0
		}
	}
}

func (l *least[K]) Readd(n int) {
	for range n {
		item, _ := l.get(nil)
		if l.kept {
			l.Add(item.key)
			l.done(item)
		} else { // it would be lost
			l.done(item)
			l.Add(item.key)
		}
	}
}

func (l *least[K]) Turn(ring []K, n int) {
	var near *leastShard[K]
	for i, at := 0, 0; i < n; i++ {
		item, _ := l.get(near)
		near = l.shard(item.hash)
		l.done(item)
		key := ring[at]
		ring[at] = item.key
		l.Add(key)
		if at++; at == len(ring) {
			at = 0
		}
	}
}

func (l *least[K]) Consume(each func(key K)) {
	item, ok := l.get(nil)
	for ok {
		each(item.key)
		item, ok = l.doneNext(item)
	}
}

func (l *least[K]) AddAfter(key K, d time.Duration) {
	hash := maphash.Comparable(l.seed, key) | 1
	s := l.shard(hash)
	due := time.Since(l.start) + d
	s.mu.Lock()
	if l.kept {
		if i, fresh := s.enter(uint32(hash), &key); fresh {
			s.entries[i].due = int64(due)
			s.wait(leastItem[K]{idx: i}, due)
		}
	} else if s.mark(hash) {
		s.wait(leastItem[K]{key: key, hash: hash}, due)
	}
	s.mu.Unlock()
	l.ticking.Do(func() { go l.tick() })
}

func (s *leastShard[K]) wait(item leastItem[K], due time.Duration) {
	if s.words != nil {
		s.sleep(item.idx, due)
		return
	}
	if s.later == nil {
		s.later = make([][]leastItem[K], leastSlots)
	}
	slot := &s.later[(due/time.Millisecond+1)%leastSlots]
	*slot = append(*slot, item)
}

// tick makes ready what is due, each millisecond until Close.
func (l *least[K]) tick() {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for done := time.Duration(-1); ; {
		select {
		case <-ticker.C:
		case <-l.closed:
			return
		}
		now := time.Since(l.start) / time.Millisecond
		for k := range l.shards {
			s := &l.shards[k]
			s.mu.Lock()
			for at := max(done+1, now-leastSlots+1); at <= now && s.asleep != nil; at++ {
				s.awake(at % leastSlots)
			}
			for at := max(done+1, now-leastSlots+1); at <= now && s.later != nil; at++ {
				slot := &s.later[at%leastSlots]
				for _, item := range *slot {
					s.push(item)
				}
				*slot = (*slot)[:0]
			}
			some := s.full.Load()
			s.mu.Unlock()
			if some && l.waiting.Load() != 0 {
				l.ring()
			}
		}
		done = now
	}
}

func (l *least[K]) Take(n int) {
	var near *leastShard[K]
	l.held = l.held[:0]
	for range n {
		item, _ := l.get(near)
		near = l.shard(item.hash)
		l.held = append(l.held, item)
	}
}

func (l *least[K]) Fail() {
	for _, item := range l.held {
		s := l.shard(item.hash)
		due := time.Since(l.start) + 1 + rand.N(l.backoff)
		s.mu.Lock()
		if l.kept {
			s.entries[item.idx].state = 0
		}
		s.wait(item, due)
		s.mu.Unlock()
	}
	l.ticking.Do(func() { go l.tick() })
}

func (l *least[K]) Succeed() {
	for _, item := range l.held {
		l.done(item)
	}
}
