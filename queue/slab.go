package queue

import (
	"math/bits"
	"slices"
	"unsafe"

	"github.com/tendhq/tend/queue/ratelimit"
)

// entry is all there is to know about a key that is not held, not failing with
// an error and of no tenant. An entry never moves while its key lives: that lets an
// Item be an index with the number of a run, lists link by index, and Snapshot walk
// chunk by chunk.
type entry struct {
	// order is, of a ready or throttled key, the sequence number of its cell in a
	// deque, and 0 when it is in none; of a running one the number of the run, or
	// before that of the question to its buckets; of one
	// that waits for a time its place in the heap, below 31 bits of a number that tells
	// which of several with the same time came first.
	order     uint64
	due       int64 // see status
	hash      uint32
	sinceLow  uint32 // when it came into its state, see since
	attempts  uint16 // failures in a row
	band      uint8
	state     State
	flags     flag
	sinceHigh uint16
}

// keyed is an entry with its key beside it, so that both are in one cache line. Only
// what adds, finds and shows keys knows their type: all else is compiled once, not
// for each type of keys and each package that uses one.
type keyed[K comparable] struct {
	entry
	key K
}

// layout makes and clears the places of a slab for one type of keys.
type layout interface {
	size() uintptr
	make(n int) unsafe.Pointer // the first of n zero places, which lie side by side
	clear(e *entry)
}

type layoutOf[K comparable] struct{}

func (layoutOf[K]) size() uintptr { return unsafe.Sizeof(keyed[K]{}) }
func (layoutOf[K]) make(n int) unsafe.Pointer {
	return unsafe.Pointer(unsafe.SliceData(make([]keyed[K], n)))
}
func (layoutOf[K]) clear(e *entry) { *withKey[K](e) = keyed[K]{} }

// withKey is e with its key. Every entry of a slab has one beside it.
func withKey[K comparable](e *entry) *keyed[K] { return (*keyed[K])(unsafe.Pointer(e)) }

func (e *entry) status() status {
	return status{due: e.due, attempts: e.attempts, state: e.state, flags: e.flags}
}

func (e *entry) set(x status) {
	e.due, e.attempts, e.state, e.flags = x.due, x.attempts, x.state, x.flags
}

func (e *entry) is(f flag) bool { return e.flags&f != 0 }

// sinceUnit is how many bits of nanoseconds an entry leaves out of the time at which it came
// into its state: it tells microseconds, for nine years.
const sinceUnit = 10

func (e *entry) setSince(now int64) {
	at := uint64(now) >> sinceUnit
	e.sinceLow, e.sinceHigh = uint32(at), uint16(at>>32)
}

// since is when e came into its state: what setSince was told, rounded down to sinceUnit. See
// watch.timeSince.
func (e *entry) since() int64 {
	return int64(uint64(e.sinceHigh)<<32|uint64(e.sinceLow)) << sinceUnit
}

// numbers gives sequence and run numbers, ascending and each once. They begin here, so
// that neither a place in the heap nor a free one can look like one.
type numbers uint64

const firstNumber = 3 << 62

func (n *numbers) next() uint64 {
	*n++
	return uint64(*n)
}

// slab holds the entries of a shard, in chunks, and the records of those that have
// one. Places freed last are used first, and of the chunks without an entry one keeps
// its memory.
type slab struct {
	touched int     // entries and cells that loops looked at in this critical section
	most    int     // of them in one critical section
	empty   int     // chunks with memory and no entry, at most one
	places  int     // of a chunk
	size    uintptr // of a place
	layout  layout
	chunks  []chunk
	open    []uint32  // chunks with a free place
	spare   []*record // for the next that need one
	reasons []string  // the different ones, so that a key can have several in 32 bits
}

type chunk struct {
	first         unsafe.Pointer // of its places; nil: it has no memory
	records       []*record      // nil: none had one
	free, used, n uint16         // the first free place+1, whose entry has the next one in order; places ever used; entries
}

const (
	chunkBits  = 10       // of an index, for the place in its chunk
	chunkBytes = 64 << 10 // at most, of large keys: a chunk of them has fewer places
	maxSpare   = 64

	// maxTouched bounds the entries and cells that one critical section looks at.
	maxTouched = 4096
)

func (s *slab) init(l layout) {
	s.reasons, s.layout, s.size = []string{"other"}, l, l.size()
	s.places = int(max(min(chunkBytes/s.size, 1<<chunkBits), 1))
}

// tired tells whether this critical section has looked at enough: what is left is for
// the next one.
func (s *slab) tired() bool { return s.touched >= maxTouched/2 }

// split is the chunk of an index and the place in it.
func (s *slab) split(i uint32) (c *chunk, at uint32) {
	return &s.chunks[i>>chunkBits], i % (1 << chunkBits)
}

// at is the entry of an index that alloc gave.
func (s *slab) at(i uint32) *entry {
	c, at := s.split(i)
	return (*entry)(unsafe.Add(c.first, uintptr(at)*s.size))
}

// alloc gives a zero entry and its index.
func (s *slab) alloc() (i uint32, e *entry) {
	if len(s.open) == 0 {
		s.open = append(s.open, uint32(len(s.chunks)))
		s.chunks = append(s.chunks, chunk{})
	}
	n := s.open[len(s.open)-1]
	c := &s.chunks[n]
	if c.first == nil {
		*c = chunk{first: s.layout.make(s.places)}
	} else if c.n == 0 {
		s.empty--
	}
	i = n << chunkBits
	if c.free != 0 {
		i |= uint32(c.free - 1)
		e = s.at(i)
		c.free, e.order = uint16(e.order), 0
	} else {
		i |= uint32(c.used)
		e = s.at(i)
		c.used++
	}
	if c.n++; int(c.n) == s.places {
		s.open = s.open[:len(s.open)-1]
	}
	return i, e
}

// free takes an entry back, which has no record any more.
func (s *slab) free(i uint32, e *entry) {
	c, at := s.split(i)
	s.layout.clear(e)
	e.order = uint64(c.free)
	c.free = uint16(at + 1)
	if int(c.n) == s.places {
		s.open = append(s.open, i>>chunkBits)
	}
	if c.n--; c.n > 0 {
		return
	}
	if s.empty == 0 {
		s.empty = 1
	} else {
		*c = chunk{}
	}
}

// record is what only some keys have: those that failed with an error, were added
// with a reason, are held or admitted by a line, or belong to a tenant.
type record struct {
	err     error  // of the last run, until one succeeds
	reasons uint32 // a bit for each
	tenant  uint32 // number+1
	*extra         // most have none, and a key that failed costs half with it
}

// extra is what hardly any key has, but those that a bucket's line has admitted.
type extra struct {
	holds *holdSet
	was   place // should the line that has admitted it refuse it again
	saved *savings
}

// savings are the buckets whose token a key has, while it waits for one of another bucket.
type savings struct{ of []*ratelimit.Bucket }

// place is where a key was in a bucket's line; the zero place: in none.
type place struct {
	line   int64 // the number of its bucket
	number uint64
	band   uint8
}

// record is the entry's record. It must have one.
func (s *slab) record(i uint32) *record {
	c, at := s.split(i)
	return c.records[at]
}

// recorded is the entry's record, made if there is none.
func (s *slab) recorded(i uint32, e *entry) *record {
	c, at := s.split(i)
	if e.is(recorded) {
		return c.records[at]
	}
	e.flags |= recorded
	if c.records == nil {
		c.records = make([]*record, s.places)
	}
	if len(s.spare) == 0 {
		s.spare = append(s.spare, new(record))
	}
	last := len(s.spare) - 1
	c.records[at], s.spare = s.spare[last], s.spare[:last]
	return c.records[at]
}

// extra is what there is beside the record, made if there is none.
func (s *slab) extra(i uint32, e *entry) *extra {
	r := s.recorded(i, e)
	if r.extra == nil {
		r.extra = new(extra)
	}
	return r.extra
}

// trim drops the record of an entry that needs none any more.
func (s *slab) trim(i uint32, e *entry) {
	r := s.record(i)
	if r.extra != nil && *r.extra == (extra{}) {
		r.extra = nil
	}
	if *r == (record{}) {
		s.dropRecord(i, e)
	}
}

// dropRecord drops the record.
func (s *slab) dropRecord(i uint32, e *entry) {
	e.flags &^= recorded
	c, at := s.split(i)
	if len(s.spare) < maxSpare {
		*c.records[at] = record{}
		s.spare = append(s.spare, c.records[at])
	}
	c.records[at] = nil
}

// byTime is the ranking of entries that wait for a time.
type byTime struct{ of *slab }

func (b byTime) before(i, j uint32) bool {
	x, y := b.of.at(i), b.of.at(j)
	return x.due < y.due || x.due == y.due && int32((x.order>>32-y.order>>32)<<1) < 0
}

func (b byTime) place(i uint32) int { return int(uint32(b.of.at(i).order)) }

func (b byTime) moved(i uint32, place int) {
	e := b.of.at(i)
	e.order = e.order>>32<<32 | uint64(place)
}

// reasonBit is the bit of a reason. The last bit is that of the first name, "other", which
// stands for all that find no bit left.
func (s *slab) reasonBit(name string) uint32 {
	n := slices.Index(s.reasons, name)
	if n < 0 && len(s.reasons) < 32 {
		n, s.reasons = len(s.reasons), append(s.reasons, name)
	}
	return 1 << ((max(n, 0) + 31) % 32)
}

// reasonsOf names the reasons in set.
func (s *slab) reasonsOf(set uint32) (names []string) {
	for ; set != 0; set &= set - 1 {
		names = append(names, s.reasons[(bits.TrailingZeros32(set)+1)%32])
	}
	return names
}
