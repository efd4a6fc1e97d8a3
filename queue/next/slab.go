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
	return status{due: e.due, attempts: e.attempts, state: e.state, flags: e.flags, band: e.band}
}

func (e *entry[K]) set(x status) {
	e.due, e.attempts, e.state, e.flags, e.band = x.due, x.attempts, x.state, x.flags, x.band
}

func (e *entry[K]) is(f flag) bool { return e.flags&f != 0 }

func (e *entry[K]) next() uint32 { return uint32(e.order >> 32) }
func (e *entry[K]) prev() uint32 { return uint32(e.order) }

func (e *entry[K]) setNext(i uint32) { e.order = e.order&(1<<32-1) | uint64(i)<<32 }
func (e *entry[K]) setPrev(i uint32) { e.order = e.order&^(1<<32-1) | uint64(i) }

// Sequence and run numbers come from one counter of 64 bits that begins here, so
// that no link of the wheel can look like one.
const firstNumber = 1 << 63

// slots hands out the indices of an array that lies in chunks, those freed last
// first. Chunks that are not in use are given back by reclaim.
type slots struct {
	bits   uint8  // of an index, for the place in its chunk
	open   uint32 // first chunk with a free place, number+1
	gone   uint32 // first chunk without memory, number+1
	memory int    // chunks with memory
	chunk  []chunk
}

type chunk struct {
	free       []uint16 // by place: the next free one+1
	head       uint16   // the first free place+1
	used       uint16   // places from here on were never in use
	live       uint16
	bare       bool   // has no memory
	next, prev uint32 // in the list of open chunks, or next in that of the gone
}

const (
	chunkBits  = 10 // at most 1,024 places a chunk, and less if they are large
	chunkBytes = 64 << 10
)

// chunkBitsFor is how many bits an index in a chunk of places of a size has.
func chunkBitsFor(size uintptr) uint8 {
	return uint8(min(chunkBits, bits.Len64(max(chunkBytes/uint64(size), 1))-1))
}

// take gives a place; fresh says that its chunk needs memory first.
func (s *slots) take() (i uint32, fresh bool) {
	if s.open == 0 {
		s.addChunk()
		fresh = true
	}
	c := &s.chunk[s.open-1]
	at := c.head
	if at != 0 {
		c.head = c.free[at-1]
	} else {
		c.used++
		at = c.used
	}
	i = (s.open-1)<<s.bits | uint32(at-1)
	if c.live++; int(c.live) == len(c.free) {
		s.unlink(s.open)
	}
	return i, fresh
}

// put takes a place back; reclaim says that its chunk is not in use any more and
// is not the only one.
func (s *slots) put(i uint32) (reclaim bool) {
	n, at := i>>s.bits, i&(1<<s.bits-1)
	c := &s.chunk[n]
	c.free[at] = c.head
	c.head = uint16(at + 1)
	if int(c.live) == len(c.free) {
		s.link(n + 1)
	}
	c.live--
	return c.live == 0 && s.memory > 1
}

// reclaim calls drop for each chunk that is not in use, but the last one with
// memory. It looks at some hundred chunks from the given one on and returns where
// it got to, 0 at the end.
func (s *slots) reclaim(from int, drop func(chunk int)) int {
	to := min(from+512, len(s.chunk))
	for n := from; n < to; n++ {
		if c := &s.chunk[n]; c.live == 0 && !c.bare && s.memory > 1 {
			s.unlink(uint32(n + 1))
			*c = chunk{bare: true, next: s.gone}
			s.gone = uint32(n + 1)
			s.memory--
			drop(n)
		}
	}
	if to == len(s.chunk) {
		return 0
	}
	return to
}

func (s *slots) addChunk() {
	n := s.gone
	if n != 0 {
		s.gone = s.chunk[n-1].next
	} else {
		s.chunk = append(s.chunk, chunk{})
		n = uint32(len(s.chunk))
	}
	s.chunk[n-1] = chunk{free: make([]uint16, 1<<s.bits)}
	s.memory++
	s.link(n)
}

// link puts chunk n first among the open ones.
func (s *slots) link(n uint32) {
	c := &s.chunk[n-1]
	c.next, c.prev = s.open, 0
	if s.open != 0 {
		s.chunk[s.open-1].prev = n
	}
	s.open = n
}

func (s *slots) unlink(n uint32) {
	c := &s.chunk[n-1]
	if c.prev == 0 {
		s.open = c.next
	} else {
		s.chunk[c.prev-1].next = c.next
	}
	if c.next != 0 {
		s.chunk[c.next-1].prev = c.prev
	}
	c.next, c.prev = 0, 0
}

// slab holds the entries of a shard, and the records of those that have one.
type slab[K comparable] struct {
	slots
	chunks  [][]entry[K]
	records records
	touched int // entries and cells that loops looked at under this hold of the lock
}

func (s *slab[K]) init() {
	s.bits = chunkBitsFor(unsafe.Sizeof(entry[K]{}))
	s.records.bits = chunkBits
	s.records.of.bits = s.bits
}

func (s *slab[K]) at(i uint32) *entry[K] {
	return &s.chunks[i>>(s.bits&31)][i&(1<<(s.bits&31)-1)]
}

// orderOf is the order of an entry, 0 if its chunk has no memory any more.
func (s *slab[K]) orderOf(i uint32) uint64 {
	c, at := s.chunks[i>>(s.bits&31)], i&(1<<(s.bits&31)-1)
	if int(at) < len(c) {
		return c[at].order
	}
	return 0
}

func (s *slab[K]) alloc() uint32 {
	i, fresh := s.take()
	if fresh {
		n := int(i >> s.bits)
		if n == len(s.chunks) {
			s.chunks = append(s.chunks, nil)
		}
		s.chunks[n] = make([]entry[K], 1<<s.bits)
	}
	return i
}

// record is the entry's record, made if there is none.
func (s *slab[K]) record(i uint32, e *entry[K]) *record {
	if !e.is(recorded) {
		e.flags |= recorded
		return s.records.add(i)
	}
	return s.records.at(i)
}

// trim drops the record of an entry that needs none any more; reclaim: there is
// memory to give back.
func (s *slab[K]) trim(i uint32, e *entry[K]) (reclaim bool) {
	if !e.is(recorded) {
		return false
	}
	r := s.records.at(i)
	x := s.records.extra(i)
	if x.holds != nil && x.holds.first == nil {
		x.holds = nil
	}
	if *x != (extra{}) {
		return false
	}
	delete(s.records.extras, i)
	if *r != (record{}) {
		return false
	}
	e.flags &^= recorded
	return s.records.drop(i)
}

// record is what only some keys have: those that failed with an error, were added
// with a reason, are held or debounced, or belong to a tenant.
type record struct {
	err     error  // of the last run, until one succeeds
	reasons uint32 // a bit for each, see reasons
	tenant  uint32 // number+1
}

// extra is what hardly any key has.
type extra struct {
	holds *holdSet
	first int64 // the first add of a debounced run, 0: none
	cool  int64 // it does not start before, by Debounce.Interval
}

var noExtra extra

// extra is what there is beside the record of entry i. It is not to be changed if
// there is nothing.
func (r *records) extra(i uint32) *extra {
	if len(r.extras) > 0 {
		if x := r.extras[i]; x != nil {
			return x
		}
	}
	return &noExtra
}

// more is extra, made if there is none. The entry has a record.
func (r *records) more(i uint32) *extra {
	x := r.extras[i]
	if x == nil {
		if r.extras == nil {
			r.extras = make(map[uint32]*extra)
		}
		x = new(extra)
		r.extras[i] = x
	}
	return x
}

// records is a slab of records, found by the index of their entry.
type records struct {
	slots
	chunks  [][]record
	of      index
	extras  map[uint32]*extra // by entry
	reasons reasons
}

func (r *records) at(i uint32) *record {
	n := r.of.get(i)
	return &r.chunks[n>>chunkBits][n&(1<<chunkBits-1)]
}

func (r *records) add(i uint32) *record {
	n, fresh := r.take()
	if fresh {
		for int(n>>chunkBits) >= len(r.chunks) {
			r.chunks = append(r.chunks, nil)
		}
		r.chunks[n>>chunkBits] = make([]record, 1<<chunkBits)
	}
	r.of.set(i, n)
	return r.at(i)
}

func (r *records) drop(i uint32) (reclaim bool) {
	*r.at(i) = record{}
	delete(r.extras, i)
	return r.put(r.of.clear(i))
}

// index maps the index of an entry to that of its record. It has memory for the
// chunks of entries that have a record.
type index struct {
	bits  uint8
	chunk [][]uint32
	used  []uint16
	spare []uint32 // a chunk kept for the next that needs one
}

func (x *index) get(i uint32) uint32 { return x.chunk[i>>x.bits][i&(1<<x.bits-1)] }

func (x *index) set(i, n uint32) {
	c := int(i >> x.bits)
	for c >= len(x.chunk) {
		x.chunk, x.used = append(x.chunk, nil), append(x.used, 0)
	}
	if x.chunk[c] == nil {
		if x.chunk[c], x.spare = x.spare, nil; x.chunk[c] == nil {
			x.chunk[c] = make([]uint32, 1<<x.bits)
		}
	}
	x.used[c]++
	x.chunk[c][i&(1<<x.bits-1)] = n
}

func (x *index) clear(i uint32) (was uint32) {
	was = x.get(i)
	c := i >> x.bits
	if x.used[c]--; x.used[c] == 0 {
		x.chunk[c], x.spare = nil, x.chunk[c]
	}
	return was
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
