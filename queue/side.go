package queue

import "math/bits"

// side is what only some keys have: those that failed, that were added with a
// reason, or that belong to a tenant. An entry with the flag inside has one.
type side struct {
	err     error  // of the last run, until one succeeds
	reasons uint32 // a bit for each, see reasons
	tenant  uint32 // number+1
}

// sides keeps side records in a slab of their own, found through an index
// beside the entries. Both have memory only where they are used.
type sides struct {
	slots   slots
	chunks  []*[chunkSize]side
	index   []*[chunkSize]uint32 // by entry
	used    []uint32             // entries with a side, by chunk of the index
	spare   *[chunkSize]uint32   // a chunk of the index kept for the next that needs one
	reasons reasons
}

func (d *sides) of(i uint32) *side {
	n := d.index[i>>chunkBits][i&chunkMask]
	return &d.chunks[n>>chunkBits][n&chunkMask]
}

func (d *sides) add(i uint32) *side {
	c := i >> chunkBits
	for int(c) >= len(d.index) {
		d.index = append(d.index, nil)
		d.used = append(d.used, 0)
	}
	if d.index[c] == nil {
		if d.spare == nil {
			d.spare = new([chunkSize]uint32)
		}
		d.index[c], d.spare = d.spare, nil
	}
	d.used[c]++
	n, fresh := d.slots.take()
	if fresh {
		for int(n>>chunkBits) >= len(d.chunks) {
			d.chunks = append(d.chunks, nil)
		}
		d.chunks[n>>chunkBits] = new([chunkSize]side)
	}
	d.index[c][i&chunkMask] = n
	return d.of(i)
}

// drop takes a record back; empty says that its chunk is not in use any more.
func (d *sides) drop(i uint32) (empty bool) {
	*d.of(i) = side{}
	c := i >> chunkBits
	n := d.index[c][i&chunkMask]
	if d.used[c]--; d.used[c] == 0 {
		d.index[c], d.spare = nil, d.index[c]
	}
	return d.slots.put(n)
}

// side is the entry's record, made if there is none.
func (s *shard[K]) side(i uint32) *side {
	e := s.at(i)
	if e.is(inside) {
		return s.sides.of(i)
	}
	e.flags |= inside
	return s.sides.add(i)
}

// trim drops the record of an entry that does not need it any more.
func (s *shard[K]) trim(i uint32) {
	e := s.at(i)
	if e.is(inside) && *s.sides.of(i) == (side{}) {
		e.flags &^= inside
		if s.sides.drop(i) {
			s.loosen()
		}
	}
}

// note adds a reason.
func (s *shard[K]) note(i uint32, reason string) {
	if reason != "" {
		s.side(i).reasons |= s.sides.reasons.bit(reason)
	}
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
