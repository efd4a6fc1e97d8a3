package queue

import (
	"math/bits"
	"unsafe"
)

// entry is all there is to know about a key that is not held, not failing with
// an error and of no tenant. The key lies beside it. An entry never moves while its
// key lives: that lets an Item be an index with the number of a run, lists link by
// index, and Snapshot walk chunk by chunk.
type entry[K comparable] struct {
	key K
	// order is, of a ready or throttled key, the sequence number of its cell in a
	// ring, and 0 when it is in none; of a running one the number of the run; of one
	// in the wheel its links, next<<32 | previous, as index+1.
	order    uint64
	due      int64 // see status; throttled: the number of the bucket's line
	hash     uint32
	since    uint32 // the tick in which it came into its state
	attempts uint16 // failures in a row
	slot     uint16 // of the wheel
	band     uint8
	state    State
	flags    flag
}

func (e *entry[K]) status() status {
	return status{due: e.due, attempts: e.attempts, state: e.state, flags: e.flags}
}

func (e *entry[K]) set(x status) {
	e.due, e.attempts, e.state, e.flags = x.due, x.attempts, x.state, x.flags
}

func (e *entry[K]) is(f flag) bool { return e.flags&f != 0 }

func (e *entry[K]) next() uint32 { return uint32(e.order >> 32) }
func (e *entry[K]) prev() uint32 { return uint32(e.order) }

func (e *entry[K]) setNext(i uint32) { e.order = e.order&(1<<32-1) | uint64(i)<<32 }
func (e *entry[K]) setPrev(i uint32) { e.order = e.order&^(1<<32-1) | uint64(i) }

// numbers gives sequence and run numbers, each once: those of what comes in are
// ascending, those of what is put before all others descending. They begin here, so
// that no link of the wheel can look like one.
type numbers struct{ last, first uint64 }

const first = 3 << 62

func (n *numbers) next() uint64 {
	n.last++
	return n.last
}

func (n *numbers) before() uint64 {
	n.first--
	return n.first
}

// pool is an array of values that never move. It lies in chunks; places freed last
// are used first, and of the chunks in which nothing is left one keeps its memory.
type pool[T any] struct {
	bits   uint8  // of an index, for the place in its chunk
	open   uint32 // first chunk with a free place, number+1
	gone   uint32 // first chunk without memory, number+1
	unused int    // chunks with memory in which nothing is left, at most one
	chunks []chunk[T]
}

type chunk[T any] struct {
	items      []T
	free       []uint16 // by place: the next free one+1
	head       uint16   // the first free place+1
	used       uint16   // places from here on were never in use
	live       uint16
	next, prev uint32 // in the list of open chunks, or next in that of the gone
}

const (
	chunkBits  = 10 // at most 1,024 places a chunk, and less if they are large
	chunkBytes = 64 << 10
)

func (p *pool[T]) init() {
	var one T
	p.bits = uint8(min(chunkBits, bits.Len64(max(chunkBytes/max(uint64(unsafe.Sizeof(one)), 1), 1))-1))
}

// at is the value of an index that take gave.
func (p *pool[T]) at(i uint32) *T {
	return &p.chunks[i>>(p.bits&31)].items[i&(1<<(p.bits&31)-1)]
}

// get is at, or nil if the chunk of i has no memory any more.
func (p *pool[T]) get(i uint32) *T {
	if n := i >> (p.bits & 31); int(n) < len(p.chunks) {
		if at := i & (1<<(p.bits&31) - 1); int(at) < len(p.chunks[n].items) {
			return &p.chunks[n].items[at]
		}
	}
	return nil
}

// take gives the index of a zero value.
func (p *pool[T]) take() (i uint32) {
	if p.open == 0 {
		p.grow()
	}
	c := &p.chunks[p.open-1]
	at := c.head
	if at != 0 {
		c.head = c.free[at-1]
	} else {
		c.used++
		at = c.used
	}
	i = (p.open-1)<<(p.bits&31) | uint32(at-1)
	if c.live++; c.live == 1 {
		p.unused--
	}
	if int(c.live) == len(c.items) {
		p.unlink(p.open)
	}
	return i
}

// put takes an index back, and tells whether the memory of its chunk went.
func (p *pool[T]) put(i uint32) (gone bool) {
	n, at := i>>(p.bits&31), i&(1<<(p.bits&31)-1)
	c := &p.chunks[n]
	var none T
	c.items[at] = none
	c.free[at] = c.head
	c.head = uint16(at + 1)
	if int(c.live) == len(c.items) {
		p.link(n + 1)
	}
	if c.live--; c.live > 0 {
		return false
	}
	if p.unused++; p.unused == 1 {
		return false
	}
	p.unlink(n + 1)
	*c = chunk[T]{next: p.gone}
	p.gone = n + 1
	p.unused--
	return true
}

func (p *pool[T]) grow() {
	n := p.gone
	if n != 0 {
		p.gone = p.chunks[n-1].next
	} else {
		p.chunks = append(p.chunks, chunk[T]{})
		n = uint32(len(p.chunks))
	}
	p.chunks[n-1] = chunk[T]{items: make([]T, 1<<p.bits), free: make([]uint16, 1<<p.bits)}
	p.unused++
	p.link(n)
}

// link puts chunk n first among the open ones.
func (p *pool[T]) link(n uint32) {
	c := &p.chunks[n-1]
	c.next, c.prev = p.open, 0
	if p.open != 0 {
		p.chunks[p.open-1].prev = n
	}
	p.open = n
}

func (p *pool[T]) unlink(n uint32) {
	c := &p.chunks[n-1]
	if c.prev == 0 {
		p.open = c.next
	} else {
		p.chunks[c.prev-1].next = c.next
	}
	if c.next != 0 {
		p.chunks[c.next-1].prev = c.prev
	}
	c.next, c.prev = 0, 0
}

// slab holds the entries of a shard, and the records of those that have one.
type slab[K comparable] struct {
	pool[entry[K]]
	records pool[record]
	of      [][]uint32 // the index of an entry's record, by chunk and place; nil where there was none
	reasons reasons
	touched int // entries and cells that loops looked at under this hold of the lock
}

// record is what only some keys have: those that failed with an error, were added
// with a reason, are held or debounced, or belong to a tenant.
type record struct {
	err     error  // of the last run, until one succeeds
	reasons uint32 // a bit for each, see reasons
	tenant  uint32 // number+1
	*extra
}

// extra is what hardly any key has.
type extra struct {
	holds *holdSet
	first int64 // the first add of a debounced run, 0: none
	cool  int64 // it does not start before, by Debounce.Interval
}

func (s *slab[K]) init() {
	s.pool.init()
	s.records.init()
}

// free takes back an entry, which has no record any more.
func (s *slab[K]) free(i uint32) {
	if n := int(i >> s.bits); s.put(i) && n < len(s.of) {
		s.of[n] = nil
	}
}

// record is the entry's record. It must have one.
func (s *slab[K]) record(i uint32) *record {
	return s.records.at(s.of[i>>s.bits][i&(1<<s.bits-1)])
}

// recorded is the entry's record, made if there is none.
func (s *slab[K]) recorded(i uint32, e *entry[K]) *record {
	if e.is(recorded) {
		return s.record(i)
	}
	e.flags |= recorded
	n := int(i >> s.bits)
	for n >= len(s.of) {
		s.of = append(s.of, nil)
	}
	if s.of[n] == nil {
		s.of[n] = make([]uint32, 1<<s.bits)
	}
	s.of[n][i&(1<<s.bits-1)] = s.records.take()
	return s.record(i)
}

// extra is what there is beside the record, made if there is none.
func (s *slab[K]) extra(i uint32, e *entry[K]) *extra {
	r := s.recorded(i, e)
	if r.extra == nil {
		r.extra = new(extra)
	}
	return r.extra
}

// trim drops the record of an entry that needs none any more.
func (s *slab[K]) trim(i uint32, e *entry[K]) {
	r := s.record(i)
	if x := r.extra; x != nil {
		if x.holds != nil && x.holds.first == nil {
			x.holds = nil
		}
		if *x == (extra{}) {
			r.extra = nil
		}
	}
	if *r == (record{}) {
		s.dropRecord(i, e)
	}
}

// dropRecord drops the record.
func (s *slab[K]) dropRecord(i uint32, e *entry[K]) {
	e.flags &^= recorded
	s.records.put(s.of[i>>s.bits][i&(1<<s.bits-1)])
}

// reasons numbers the different reasons, so that a key can have several in 32
// bits. What comes after the 31st is "other".
type reasons struct {
	bits  map[string]uint32
	names []string
}

const otherReason = 31

func (r *reasons) bit(name string) uint32 {
	if bit, ok := r.bits[name]; ok {
		return bit
	}
	if len(r.names) == otherReason {
		return 1 << otherReason
	}
	if r.bits == nil {
		r.bits = make(map[string]uint32)
	}
	bit := uint32(1) << len(r.names)
	r.bits[name] = bit
	r.names = append(r.names, name)
	return bit
}

// list names the reasons in set.
func (r *reasons) list(set uint32) []string {
	var names []string
	for ; set != 0; set &= set - 1 {
		n := bits.TrailingZeros32(set)
		if n == otherReason {
			names = append(names, "other")
			continue
		}
		names = append(names, r.names[n])
	}
	return names
}
