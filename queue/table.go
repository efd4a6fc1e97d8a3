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
	dir   []*segment
	depth uint8 // len(dir) == 1<<depth
}

type segment struct {
	words   []uint64
	n, high uint32 // words in use; grow at high
	depth   uint8  // how many bits of the hash lead here
}

// spot is a slot of a segment.
type spot struct {
	in *segment
	p  uint32
}

const (
	minSegment   = 16
	splitSegment = 1008
	afterSplit   = 672
	sparseDepth  = 4  // up to some 4,000 keys segments are half full at most, beyond it four fifths
	maxDepth     = 22 // beyond it segments grow without splitting: hashes have 32 bits
)

func (t *table) init() { t.dir, t.depth = []*segment{(&segment{}).part(0, 0, 0, minSegment)}, 0 }

func (t *table) segment(hash uint32) *segment {
	return t.dir[uint64(hash)<<(t.depth&31)>>32]
}

// home is where the search for hash begins: the bits below the segment's own,
// scaled to its size.
func (s *segment) home(hash uint32) uint32 {
	return uint32(uint64(hash<<(s.depth&31)) * uint64(len(s.words)) >> 32)
}

// seek is the first slot from the home of hash on that has a word.
func (s *segment) seek(hash uint32, word uint64) uint32 {
	p := s.home(hash)
	for s.words[p] != word {
		if p++; int(p) == len(s.words) {
			p = 0
		}
	}
	return p
}

// insert adds index i, which must not be there: into the empty slot where the search
// for it ended. It tells how many words it moved to make room.
func (t *table) insert(hash, i uint32, at spot) (moved int) {
	if at.in.n >= at.in.high {
		at, moved = t.room(hash, at)
	}
	at.in.n++
	at.in.words[at.p] = uint64(hash)<<32 | uint64(i+1)
	return moved
}

func (t *table) room(hash uint32, at spot) (_ spot, moved int) {
	for at.in.n >= at.in.high {
		moved += int(at.in.n)
		t.grow(hash)
		at.in = t.segment(hash)
		at.p = at.in.seek(hash, 0)
	}
	return at, moved
}

// remove takes index i out and moves back what was displaced by it, so that
// there are no tombstones. In a large table a segment that is a sixteenth as full as it may
// be shrinks to a quarter; moved is how many words that moved. A small one keeps its at most
// 64 KB: where the number of keys goes up and down all the time it would grow again as often.
func (t *table) remove(hash, i uint32) (moved int) {
	s := t.segment(hash)
	gap := s.seek(hash, uint64(hash)<<32|uint64(i+1))
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
		if h := s.home(uint32(w >> 32)); distance(h, p, size) >= distance(gap, p, size) {
			words[gap], gap = w, p
		}
	}
	words[gap] = 0
	if s.n--; s.n*16 < s.high && s.depth >= sparseDepth && len(s.words) > minSegment {
		moved = int(s.n)
		t.replace(hash, s.part(0, 0, s.depth, max(len(s.words)/4, minSegment)))
	}
	return moved
}

// distance is how many slots it is from a to b, on over the end.
func distance(a, b, size uint32) uint32 {
	if b < a {
		b += size
	}
	return b - a
}

// grow makes room in the segment of hash: it doubles, or splits in two.
func (t *table) grow(hash uint32) {
	old := t.segment(hash)
	size := len(old.words)
	if size < splitSegment || old.depth == maxDepth {
		if size *= 2; old.depth < maxDepth {
			size = min(size, splitSegment)
		}
		t.replace(hash, old.part(0, 0, old.depth, size))
		return
	}
	if old.depth == t.depth { // the directory doubles
		dir := make([]*segment, 2*len(t.dir))
		for k, s := range t.dir {
			dir[2*k], dir[2*k+1] = s, s
		}
		t.dir = dir
		t.depth++
	}
	bit := uint32(1) << (31 - old.depth)
	t.replace(hash&^bit, old.part(bit, 0, old.depth+1, afterSplit))
	t.replace(hash|bit, old.part(bit, bit, old.depth+1, afterSplit))
}

// part is a segment with the words of s whose hashes have a bit or have it not. It
// has a size, or more if they are that many.
func (s *segment) part(bit, is uint32, depth uint8, size int) *segment {
	n := 0
	for _, w := range s.words {
		if w != 0 && uint32(w>>32)&bit == is {
			n++
		}
	}
	size = max(size, n*3/2)
	to := &segment{words: make([]uint64, size), n: uint32(n), high: uint32(size / 5 * 4), depth: depth}
	if depth < sparseDepth {
		to.high = uint32(size / 2)
	}
	for _, w := range s.words {
		if w != 0 && uint32(w>>32)&bit == is {
			to.words[to.seek(uint32(w>>32), 0)] = w
		}
	}
	return to
}

// replace puts s into every slot of the directory that shares its leading bits.
func (t *table) replace(hash uint32, s *segment) {
	many := 1 << (t.depth - s.depth)
	first := int(uint64(hash)>>(32-t.depth)) &^ (many - 1)
	for k := range many {
		t.dir[first+k] = s
	}
}
