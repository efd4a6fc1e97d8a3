package queue

import "math/bits"

const (
	chunkBits = 10
	chunkSize = 1 << chunkBits
	chunkMask = chunkSize - 1
)

// slots hands out the indices of a slab. They come in chunks; reclaim takes the
// memory of those that are not in use, so that a burst leaves nothing behind. A
// low slot of the chunk used last is taken first: it is warm.
type slots struct {
	open  uint32 // first chunk with a free slot, number+1
	gone  uint32 // first chunk without memory, number+1
	chunk []chunkInfo
}

type chunkInfo struct {
	next, prev uint32 // in the list of open chunks, or in that of the gone
	live       uint32
	low        uint32 // no word before it has a bit set
	bare       bool   // has no memory
	free       [chunkSize / 64]uint64
}

// take gives a slot; fresh says that its chunk needs memory first.
func (s *slots) take() (i uint32, fresh bool) {
	if s.open == 0 {
		s.addChunk()
		fresh = true
	}
	c := &s.chunk[s.open-1]
	for c.free[c.low&15] == 0 {
		c.low++
	}
	w := &c.free[c.low&15]
	i = (s.open-1)<<chunkBits | c.low<<6 | uint32(bits.TrailingZeros64(*w))
	*w &= *w - 1
	if c.live++; c.live == chunkSize {
		s.unlink(s.open)
	}
	return i, fresh
}

// put takes a slot back; empty says that its chunk is not in use any more.
func (s *slots) put(i uint32) (empty bool) {
	n := i>>chunkBits + 1
	c := &s.chunk[n-1]
	w := i & chunkMask >> 6
	c.free[w] |= 1 << (i & 63)
	c.low = min(c.low, w)
	if c.live == chunkSize {
		s.link(n)
	}
	c.live--
	return c.live == 0
}

// reclaim calls take for each chunk that is not in use, so that its memory goes.
// It looks at some hundred chunks from the given one on and returns where it got
// to, 0 at the end.
func (s *slots) reclaim(from int, take func(chunk int)) int {
	to := min(from+512, len(s.chunk))
	for k := from; k < to; k++ {
		if c := &s.chunk[k]; c.live == 0 && !c.bare {
			s.unlink(uint32(k + 1))
			c.bare, c.next, s.gone = true, s.gone, uint32(k+1)
			take(k)
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
		s.chunk = append(s.chunk, chunkInfo{})
		n = uint32(len(s.chunk))
	}
	c := &s.chunk[n-1]
	*c = chunkInfo{}
	for w := range c.free {
		c.free[w] = ^uint64(0)
	}
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
