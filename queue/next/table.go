package queue

// table finds entries by hash. It holds words of hash<<32 | index+1 and no
// pointers; a hit compares the key only when all 32 bits of the hash agree.
//
// It grows by segments, so that no add ever waits for a whole rehash: the top
// bits of the hash choose a segment from a directory, the bits below them the
// first slot to look at, and slots are tried in turn. A full segment grows, and
// one of full size splits in two, which keeps between 10 and 15 bytes per key at
// any large number of keys:
//
//	dir (depth 2)   00 ──▶ [ 672 words ]
//	                01 ──▶ [ 768 words ]
//	                10 ─┬▶ [ 1024 words ]   splits next: 10 and 11 part
//	                11 ─┘
type table struct {
	dir   []segment
	depth uint8 // len(dir) == 1<<depth
}

// segment is copied into every slot of the directory that leads to it, so that
// a lookup does not have to go through a pointer; what changes lies behind one.
type segment struct {
	words []uint64
	fill  *fill
	depth uint8 // how many bits of the hash lead here
}

type fill struct {
	n, low, high uint32 // words in use; shrink below low, grow at high
}

const (
	minSegment   = 16
	splitSegment = 1024
	afterSplit   = 672
	sparseDepth  = 4  // up to some 4,000 keys segments are a quarter full at most, beyond it four fifths
	maxDepth     = 22 // beyond it segments grow without splitting: hashes have 32 bits
)

func (t *table) init() {
	t.dir = []segment{newSegment(minSegment, 0)}
	t.depth = 0
}

func newSegment(size int, depth uint8) segment {
	f := &fill{low: uint32(size / 16), high: uint32(size / 5 * 4)}
	if depth < sparseDepth {
		f.high = uint32(size / 4)
	}
	if size == minSegment {
		f.low = 0
	}
	return segment{words: make([]uint64, size), fill: f, depth: depth}
}

func (t *table) segment(hash uint32) *segment {
	return &t.dir[uint64(hash)<<(t.depth&31)>>32]
}

// home is where the search for hash begins: the bits below the segment's own,
// scaled to its size.
func (s *segment) home(hash uint32) uint32 {
	return uint32(uint64(hash<<(s.depth&31)) * uint64(len(s.words)) >> 32)
}

// insert adds index i, which must not be there: into the empty slot p, where the
// search for it ended. It tells how many words it moved to make room.
func (t *table) insert(hash, i, p uint32) (moved int) {
	s := t.segment(hash)
	word := uint64(hash)<<32 | uint64(i+1)
	if s.fill.n < s.fill.high {
		s.fill.n++
		s.words[p] = word
		return 0
	}
	for s.fill.n >= s.fill.high {
		moved += int(s.fill.n)
		t.grow(hash)
		s = t.segment(hash)
	}
	s.fill.n++
	s.put(word)
	return moved
}

func (s *segment) put(word uint64) {
	p := s.home(uint32(word >> 32))
	for s.words[p] != 0 {
		if p++; int(p) == len(s.words) {
			p = 0
		}
	}
	s.words[p] = word
}

// remove takes index i out and moves back what was displaced by it, so that
// there are no tombstones. It tells whether the segment could be smaller now.
func (t *table) remove(hash, i uint32) (loose bool) {
	s := t.segment(hash)
	word := uint64(hash)<<32 | uint64(i+1)
	words := s.words
	p := s.home(hash)
	for words[p] != word {
		if p++; int(p) == len(words) {
			p = 0
		}
	}
	next := p + 1
	if int(next) == len(words) {
		next = 0
	}
	if words[p] = 0; words[next] != 0 {
		s.closeGap(p)
	}
	s.fill.n--
	return s.fill.n < s.fill.low
}

func (s *segment) closeGap(gap uint32) {
	words, size := s.words, uint32(len(s.words))
	for p := gap; ; {
		if p++; p == size {
			p = 0
		}
		w := words[p]
		if w == 0 {
			break
		}
		// w may move to the gap unless its home lies between the two.
		h := s.home(uint32(w >> 32))
		if distance(h, p, size) >= distance(gap, p, size) {
			words[gap] = w
			gap = p
		}
	}
	words[gap] = 0
}

// distance is how far it is from a on to b in a ring.
func distance(a, b, size uint32) uint32 {
	if b >= a {
		return b - a
	}
	return b + size - a
}

// grow makes room in the segment of hash: by a third, or by splitting it.
func (t *table) grow(hash uint32) {
	old := *t.segment(hash)
	if len(old.words) < splitSegment || old.depth == maxDepth {
		t.resize(hash, nextSize(len(old.words)))
		return
	}
	if old.depth == t.depth {
		t.double()
	}
	t.split(hash, old)
}

// sizes are those that a segment grows through. Each fills a size class of the
// allocator. At a million keys in one shard segments have 672 words for 488 keys.
var sizes = [...]int{16, 32, 64, 128, 256, 384, 512, 672, 768, 1024}

func nextSize(size int) int {
	for _, s := range sizes {
		if s > size {
			return s
		}
	}
	return 2 * size
}

// shrink gives memory back after a burst. It looks at some segments from a place
// in the directory on and returns where it got to, 0 at the end, and how many words
// it moved. The directory stays: it is small, and segments that may differ in size
// need no merging.
func (t *table) shrink(from int) (to, moved int) {
	for range 32 {
		if from >= len(t.dir) {
			return 0, moved
		}
		s := t.dir[from]
		if s.fill.n < s.fill.low {
			room := 2
			if s.depth < sparseDepth {
				room = 4
			}
			moved += int(s.fill.n)
			t.resize(uint32(from)<<(32-t.depth), nextSize(room*int(s.fill.n)))
		}
		from += 1 << (t.depth - s.depth)
	}
	return from % len(t.dir), moved
}

// resize replaces the segment of hash by one of another size.
func (t *table) resize(hash uint32, size int) {
	old := *t.segment(hash)
	s := newSegment(size, old.depth)
	s.fill.n = old.fill.n
	for _, w := range old.words {
		if w != 0 {
			s.put(w)
		}
	}
	t.replace(hash, s)
}

func (t *table) split(hash uint32, old segment) {
	bit := uint32(1) << (31 - old.depth)
	// Halves are even in all likelihood; should hashes be far from that, one
	// that got everything must still have room for it.
	size := max(afterSplit, int(old.fill.n)*3/2)
	if size > afterSplit && old.balanced(bit) {
		size = afterSplit
	}
	low, high := newSegment(size, old.depth+1), newSegment(size, old.depth+1)
	for _, w := range old.words {
		switch {
		case w == 0:
		case uint32(w>>32)&bit == 0:
			low.put(w)
			low.fill.n++
		default:
			high.put(w)
			high.fill.n++
		}
	}
	t.replace(hash&^bit, low)
	t.replace(hash|bit, high)
}

// balanced tells whether each half would fit into a segment of its own.
func (s *segment) balanced(bit uint32) bool {
	high := 0
	for _, w := range s.words {
		if w != 0 && uint32(w>>32)&bit != 0 {
			high++
		}
	}
	return high < afterSplit && int(s.fill.n)-high < afterSplit
}

// replace puts s into every slot of the directory that shares its leading bits.
func (t *table) replace(hash uint32, s segment) {
	many := 1 << (t.depth - s.depth)
	first := int(uint64(hash)>>(32-t.depth)) &^ (many - 1)
	for k := range many {
		t.dir[first+k] = s
	}
}

func (t *table) double() {
	dir := make([]segment, 2*len(t.dir))
	for k, s := range t.dir {
		dir[2*k], dir[2*k+1] = s, s
	}
	t.dir = dir
	t.depth++
}
