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
// that neither a link of the wheel nor a free place can look like one.
type numbers struct{ last, first uint64 }

const firstNumber = 3 << 62

func (n *numbers) next() uint64 {
	n.last++
	return n.last
}

func (n *numbers) before() uint64 {
	n.first--
	return n.first
}

// slab holds the entries of a shard, in chunks, and the records of those that have
// one. Places freed last are used first, and of the chunks without an entry one keeps
// its memory.
type slab[K comparable] struct {
	bits    uint8        // of an index, for the place in its chunk
	entries [][]entry[K] // by chunk; nil: it has no memory
	records [][]*record  // by chunk and place; nil: none had one
	chunks  []chunk
	open    []uint32  // chunks with a free place
	empty   int       // chunks with memory and no entry, at most one
	spare   []*record // for the next that need one
	reasons reasons
	touched int // entries and cells that loops looked at under this hold of the lock
}

type chunk struct {
	free uint16 // the first free place+1; its entry has the next one in order
	used uint16 // places from here on were never in use
	n    uint16 // entries
}

const (
	chunkBits  = 10 // at most 1,024 places a chunk, and less if they are large
	chunkBytes = 64 << 10
	maxSpare   = 64
)

func (s *slab[K]) init() {
	var e entry[K]
	s.bits = uint8(min(chunkBits, bits.Len64(max(chunkBytes/uint64(unsafe.Sizeof(e)), 1))-1))
}

// at is the entry of an index that alloc gave.
func (s *slab[K]) at(i uint32) *entry[K] {
	return &s.entries[i>>(s.bits&31)][i&(1<<(s.bits&31)-1)]
}

// get is at, or nil if the chunk of i has no memory any more.
func (s *slab[K]) get(i uint32) *entry[K] {
	if n := i >> (s.bits & 31); int(n) < len(s.entries) && s.entries[n] != nil {
		return s.at(i)
	}
	return nil
}

// alloc gives the index of a zero entry.
func (s *slab[K]) alloc() uint32 {
	if len(s.open) == 0 {
		s.open = append(s.open, uint32(len(s.chunks)))
		s.chunks, s.entries = append(s.chunks, chunk{}), append(s.entries, nil)
	}
	n := s.open[len(s.open)-1]
	c := &s.chunks[n]
	if s.entries[n] == nil {
		s.entries[n] = make([]entry[K], 1<<s.bits)
		*c = chunk{}
		s.empty++
	}
	if c.n == 0 {
		s.empty--
	}
	at := c.free
	if at != 0 {
		e := &s.entries[n][at-1]
		c.free, e.order = uint16(e.order), 0
	} else {
		c.used++
		at = c.used
	}
	if c.n++; int(c.n) == len(s.entries[n]) {
		s.open = s.open[:len(s.open)-1]
	}
	return n<<(s.bits&31) | uint32(at-1)
}

// free takes an index back, whose entry has no record any more.
func (s *slab[K]) free(i uint32) {
	n, at := i>>(s.bits&31), i&(1<<(s.bits&31)-1)
	c := &s.chunks[n]
	s.entries[n][at] = entry[K]{order: uint64(c.free)}
	c.free = uint16(at + 1)
	if int(c.n) == len(s.entries[n]) {
		s.open = append(s.open, n)
	}
	if c.n--; c.n > 0 {
		return
	}
	if s.empty++; s.empty > 1 {
		s.empty--
		s.entries[n] = nil
		if int(n) < len(s.records) {
			s.records[n] = nil
		}
	}
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

// record is the entry's record. It must have one.
func (s *slab[K]) record(i uint32) *record {
	return s.records[i>>s.bits][i&(1<<s.bits-1)]
}

// recorded is the entry's record, made if there is none.
func (s *slab[K]) recorded(i uint32, e *entry[K]) *record {
	if e.is(recorded) {
		return s.record(i)
	}
	e.flags |= recorded
	n := int(i >> s.bits)
	for n >= len(s.records) {
		s.records = append(s.records, nil)
	}
	if s.records[n] == nil {
		s.records[n] = make([]*record, 1<<s.bits)
	}
	if len(s.spare) == 0 {
		s.spare = append(s.spare, new(record))
	}
	last := len(s.spare) - 1
	s.records[n][i&(1<<s.bits-1)] = s.spare[last]
	s.spare = s.spare[:last]
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
	r := &s.records[i>>s.bits][i&(1<<s.bits-1)]
	if len(s.spare) < maxSpare {
		**r = record{}
		s.spare = append(s.spare, *r)
	}
	*r = nil
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

// of names the reasons in set.
func (r *reasons) of(set uint32) []string {
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
