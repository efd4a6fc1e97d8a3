package queue

import "slices"

// bands is the order of a queue without tenants: a ring for each band, the highest
// first. Keys are numbered as they come in, so that the oldest key of all is the
// head of one of the rings. A key that is raised comes in again in its higher band.
type bands[K comparable] struct {
	es     *slab[K]
	number *numbers
	rings  []*band[K] // highest first
}

type band[K comparable] struct {
	ring[K]
	is uint8
}

func newBands[K comparable](es *slab[K], number *numbers) *bands[K] {
	b := &bands[K]{es: es, number: number}
	b.ring(middle)
	return b
}

// ring is the ring of a band, made if there is none.
func (b *bands[K]) ring(is uint8) *band[K] {
	for k, r := range b.rings {
		switch {
		case r.is == is:
			return r
		case r.is < is:
			b.rings = slices.Insert(b.rings, k, &band[K]{is: is})
			return b.rings[k]
		}
	}
	b.rings = append(b.rings, &band[K]{is: is})
	return b.rings[len(b.rings)-1]
}

func (b *bands[K]) push(i uint32, e *entry[K]) {
	e.order = b.number.next()
	b.ring(e.band).push(cellOf(e.order, i))
}

func (b *bands[K]) pushFront(i uint32, e *entry[K]) {
	e.order = b.number.before()
	b.ring(e.band).pushFront(cellOf(e.order, i))
}

func (b *bands[K]) remove(_ uint32, e *entry[K]) {
	e.order = 0
	b.ring(e.band).leave(b.es)
}

func (b *bands[K]) next(oldest bool) (i uint32, ok, again bool) {
	r := b.highest()
	if r == nil {
		return 0, false, false
	}
	steps := maxDropped
	if oldest {
		r, _ = b.oldest(&steps)
	}
	c, ok := r.first(b.es, &steps)
	b.es.touched += maxDropped - steps
	if !ok {
		return 0, false, true
	}
	r.take(b.es)
	b.es.at(c.i).order = 0
	return c.i, true, false
}

func (b *bands[K]) highest() *band[K] {
	for _, r := range b.rings {
		if r.live > 0 {
			return r
		}
	}
	return nil
}

// oldest is the ring with the oldest head. If the steps are used up it is one whose
// head is not known.
func (b *bands[K]) oldest(steps *int) (found *band[K], head cell) {
	for _, r := range b.rings {
		if r.live == 0 {
			continue
		}
		c, ok := r.first(b.es, steps)
		if !ok {
			return r, c
		}
		if found == nil || c.seq() < head.seq() {
			found, head = r, c
		}
	}
	return found, head
}

func (b *bands[K]) top() uint32 {
	if r := b.highest(); r != nil {
		return uint32(r.is) + 1
	}
	return 0
}

func (b *bands[K]) len() (may, all int) {
	for _, r := range b.rings {
		all += r.live
	}
	return all, all
}

func (b *bands[K]) depths(to *[maxBands]int) {
	for _, r := range b.rings {
		to[r.is] += r.live
	}
}

func (b *bands[K]) eldest() (uint32, bool) {
	steps := maxDropped
	r, c := b.oldest(&steps)
	b.es.touched += maxDropped - steps
	return c.i, r != nil && steps >= 0
}
