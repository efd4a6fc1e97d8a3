package queue

// slab holds entries and their keys. They lie in arrays of their own: a cycle
// touches only what it needs, and the collector scans the keys alone (and not
// even those if K holds no pointer).
type slab[K comparable] struct {
	hot uint32 // the slot freed last, index+1: it is in the cache, and reused first
	slots
	entries
	keys []*[chunkSize]K
}

func (s *slab[K]) key(i uint32) *K {
	return &s.keys[i>>chunkBits][i&chunkMask]
}

// alloc gives a slot. Its entry keeps the run number of its former life, so
// that an Item settled twice is noticed even when its slot has a new key. In a chunk
// that had no memory it begins with the number of runs so far, which no slot of the
// shard can have passed.
func (s *slab[K]) alloc(runs uint64) uint32 {
	if s.hot != 0 {
		i := s.hot - 1
		s.hot = 0
		return i
	}
	i, fresh := s.slots.take()
	if fresh {
		s.addChunk(int(i>>chunkBits), uint32(runs)<<8)
	}
	return i
}

func (s *slab[K]) addChunk(n int, stamp uint32) {
	if n == len(s.keys) {
		s.chunks = append(s.chunks, nil)
		s.keys = append(s.keys, nil)
	}
	s.chunks[n] = new([chunkSize]entry)
	for i := range s.chunks[n] {
		s.chunks[n][i].stamp = stamp
	}
	s.keys[n] = new([chunkSize]K)
}

// release takes a slot back; empty says that its chunk is not in use any more.
func (s *slab[K]) release(i uint32, e *entry) (empty bool) {
	var zero K
	*s.key(i) = zero
	*e = entry{stamp: e.stamp &^ 0xff}
	if s.hot == 0 {
		s.hot = i + 1
		return false
	}
	return s.slots.put(i)
}
