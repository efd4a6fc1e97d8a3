package queue

import "math/bits"

// Every agingEvery-th dispatch goes to the oldest key, whatever its band.
const agingEvery = 16

// bands is a priority queue of entries: one FIFO list for each of 256 bands
// and a bitmap of those that are not empty.
//
//	bitmap  …0010000100…
//	band 135 ──▶ key ─ key            highest: served first
//	band 128 ──▶ key ─ key ─ key ─ …  At(0)
//
// Keys are numbered as they come in, so that each list is sorted by age and
// the oldest key of all is one of the heads. A key that is raised comes in anew
// in its higher band.
type bands struct {
	bitmap [4]uint64
	seq    int64     // number of the last key that came in
	turn   uint64    // dispatches, for aging
	lanes  [256]lane // see lane: that of At(0) is the first, in the cache line of the rest
}

func (b *bands) lane(band uint8) *lane { return &b.lanes[band^middle] }

type lane struct {
	list
	n int32
}

// push adds entry i at the end of its band.
func (b *bands) push(es *entries, i uint32) {
	b.append(es, i, es.at(i))
}

func (b *bands) append(es *entries, i uint32, e *entry) {
	b.seq++
	e.when = b.seq
	band := e.band()
	l := b.lane(band)
	l.n++
	e.next, e.prev = 0, l.tail
	if l.tail == 0 {
		l.head = i + 1
		b.bitmap[band>>6] |= 1 << (band & 63)
	} else {
		es.at(l.tail - 1).next = i + 1
	}
	l.tail = i + 1
}

// putBack puts an entry that could not run at the head of its band again, as
// old as the one that was there.
func (b *bands) putBack(es *entries, i uint32) {
	e := es.at(i)
	l := b.lane(e.band())
	if l.head == 0 {
		b.push(es, i)
		return
	}
	e.when = es.at(l.head - 1).when
	l.pushFront(es, i)
	b.count(l, e.band(), 1)
}

func (b *bands) remove(es *entries, i uint32) {
	e := es.at(i)
	l := b.lane(e.band())
	l.remove(es, i)
	b.count(l, e.band(), -1)
}

func (b *bands) count(l *lane, band uint8, by int32) {
	l.n += by
	if l.n == 0 {
		b.bitmap[band>>6] &^= 1 << (band & 63)
	} else {
		b.bitmap[band>>6] |= 1 << (band & 63)
	}
}

// top is the highest band that has a key, plus one; 0 if there is none.
func (b *bands) top() int {
	for w := 3; w >= 0; w-- {
		if b.bitmap[w] != 0 {
			return w<<6 + bits.Len64(b.bitmap[w])
		}
	}
	return 0
}

// pop takes the entry whose turn it is. There must be one.
func (b *bands) pop(es *entries) uint32 {
	band := uint8(b.top() - 1)
	if b.turn++; b.turn%agingEvery == 0 {
		band = es.at(b.oldest(es)).band()
	}
	l := b.lane(band)
	i := l.head - 1
	e := es.at(i)
	l.n--
	if l.head = e.next; l.head != 0 {
		e.next = 0
		es.at(l.head - 1).prev = 0
	} else {
		l.tail = 0
		b.emptied(band)
	}
	return i
}

func (b *bands) emptied(band uint8) { b.bitmap[band>>6] &^= 1 << (band & 63) }

// oldest is the entry that came in first.
func (b *bands) oldest(es *entries) uint32 {
	found := b.lane(uint8(b.top()-1)).head - 1
	first := es.at(found).when
	for w, word := range b.bitmap {
		for ; word != 0; word &= word - 1 {
			head := b.lane(uint8(w<<6+bits.TrailingZeros64(word))).head - 1
			if at := es.at(head).when; at < first {
				found, first = head, at
			}
		}
	}
	return found
}

// all yields the bands that have keys, lowest first.
func (b *bands) all() func(yield func(uint8) bool) {
	return func(yield func(uint8) bool) {
		for w, word := range b.bitmap {
			for ; word != 0; word &= word - 1 {
				if !yield(uint8(w<<6 + bits.TrailingZeros64(word))) {
					return
				}
			}
		}
	}
}

// len is the number of keys.
func (b *bands) len() (n int) {
	for band := range b.all() {
		n += int(b.lane(band).n)
	}
	return n
}
