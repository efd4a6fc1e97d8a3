package queue

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

const (
	tickBits = 18 // a tick is 262 µs
	levels   = 4
	never    = math.MaxInt64

	// What one step does.
	maxFire    = 256
	maxCascade = 256
	maxScan    = 64
)

// wheel keeps entries until they are due: a hierarchical timing wheel on the
// entries' own links, O(1) to add and to take out.
//
//	level 0   256 slots of 262 µs     entries due within 67 ms
//	level 1   256 slots of  67 ms                        17 s
//	level 2   256 slots of  17 s                         73 min
//	level 3   256 slots of  73 min                       13 days, and all beyond
//
// When the wheel reaches a slot of a higher level, its entries move down. In the
// slot of the present tick the exact times count: nothing fires early, and what is
// due now does not wait for the tick to end.
type wheel[K comparable] struct {
	slots  [levels << 8]list
	bitmap [levels][4]uint64
	tick   int64 // all before it has fired
	wake   int64 // nothing is due before; never if there is nothing
	n      int
}

// list is the first and the last entry of a slot, index+1; 0: none.
type list struct{ head, tail uint32 }

// add puts an entry in, which has a time.
func (w *wheel[K]) add(es *slab[K], i uint32, e *entry[K]) {
	level, slot := w.place(e.due)
	e.slot = uint16(level)<<8 | uint16(slot)
	l := &w.slots[e.slot]
	e.order = uint64(l.tail)
	if l.tail == 0 {
		l.head = i + 1
		w.bitmap[level][slot>>6] |= 1 << (slot & 63)
	} else {
		es.at(l.tail - 1).setNext(i + 1)
	}
	l.tail = i + 1
	w.wake = min(w.wake, e.due)
	w.n++
}

// place is the slot for a due time.
func (w *wheel[K]) place(due int64) (level int, slot uint32) {
	t := max(due>>tickBits, w.tick)
	for level < levels-1 && t>>(8*level)-w.tick>>(8*level) > 255 {
		level++
	}
	far := w.tick>>(8*level) + 255
	return level, uint32(min(t>>(8*level), far)) & 255
}

// remove takes an entry out.
func (w *wheel[K]) remove(es *slab[K], e *entry[K]) {
	l := &w.slots[e.slot]
	next, prev := e.next(), e.prev()
	if prev == 0 {
		l.head = next
	} else {
		es.at(prev - 1).setNext(next)
	}
	if next == 0 {
		l.tail = prev
	} else {
		es.at(next - 1).setPrev(prev)
	}
	if l.head == 0 {
		w.bitmap[e.slot>>8][e.slot&255>>6] &^= 1 << (e.slot & 63)
	}
	e.order = 0
	w.n--
}

// fire appends to fired what is due at now, in order of time, and takes it out of
// the wheel: its time is 0 then. It does a bounded amount of work; more says that
// there is more.
func (w *wheel[K]) fire(es *slab[K], now int64, fired []uint32) (_ []uint32, more bool) {
	target := now >> tickBits
	for range 8 {
		t, level := w.first()
		if t > target {
			w.tick = max(w.tick, target)
			return fired, false
		}
		w.tick = max(w.tick, t)
		slot := uint32(t>>(8*level)) & 255
		if level > 0 {
			more = w.cascade(es, level, slot)
		} else {
			fired, more = w.take(es, slot, now, fired)
			if t == target {
				return fired, more
			}
		}
		if more {
			break
		}
	}
	return fired, true
}

// take removes the entries of a slot of level 0 that are due.
func (w *wheel[K]) take(es *slab[K], slot uint32, now int64, fired []uint32) (_ []uint32, more bool) {
	from := len(fired)
	i := w.slots[slot].head
	for range 4 * maxScan {
		if i == 0 || len(fired) >= maxFire {
			break
		}
		es.touched++
		e := es.at(i - 1)
		next := e.next()
		if e.due <= now {
			w.remove(es, e)
			fired = append(fired, i-1)
		}
		i = next
	}
	slices.SortStableFunc(fired[from:], func(a, b uint32) int {
		return cmp.Compare(es.at(a).due, es.at(b).due)
	})
	for _, k := range fired[from:] {
		es.at(k).due = 0
	}
	return fired, i != 0 && now>>tickBits > w.tick || len(fired) >= maxFire
}

// cascade moves the entries of a slot of a higher level down.
func (w *wheel[K]) cascade(es *slab[K], level int, slot uint32) (more bool) {
	l := &w.slots[uint32(level)<<8|slot]
	for range maxCascade {
		i := l.head
		if i == 0 {
			return false
		}
		es.touched++
		e := es.at(i - 1)
		w.remove(es, e)
		w.add(es, i-1, e)
	}
	return true
}

// first is the tick at which the next slot of any level begins, and the level;
// the highest level of several, for its entries may belong below.
func (w *wheel[K]) first() (tick int64, level int) {
	tick = never
	for l := levels - 1; l >= 0; l-- {
		at := w.tick >> (8 * l)
		d := nextBit(&w.bitmap[l], uint32(at)&255)
		if d < 0 {
			continue
		}
		if t := max((at+int64(d))<<(8*l), w.tick); t < tick {
			tick, level = t, l
		}
	}
	return tick, level
}

// schedule finds when to look again: when the next slot of a higher level is reached,
// or when the first entry of the next slot of level 0 is due.
func (w *wheel[K]) schedule(es *slab[K], now int64) {
	t, level := w.first()
	w.wake = never
	if t != never {
		w.wake = max(t<<tickBits, now+1)
	}
	if level == 0 && t != never {
		w.wake = w.earliest(es, w.slots[uint32(t)&255].head, max(w.wake, (now>>tickBits+1)<<tickBits))
	}
}

// earliest is the first due time from entry i on, or crowded if there are many.
func (w *wheel[K]) earliest(es *slab[K], i uint32, crowded int64) int64 {
	found := int64(never)
	for range maxScan {
		if i == 0 {
			return found
		}
		es.touched++
		found = min(found, es.at(i-1).due)
		i = es.at(i - 1).next()
	}
	return crowded
}

// nextBit is how far it is from bit on to the next one that is set, in a ring of
// 256; -1 if none is.
func nextBit(m *[4]uint64, bit uint32) int {
	w := bit >> 6
	if word := m[w] >> (bit & 63); word != 0 {
		return bits.TrailingZeros64(word)
	}
	for k := uint32(1); k <= 4; k++ {
		if word := m[(w+k)&3]; word != 0 {
			return int((k<<6 + uint32(bits.TrailingZeros64(word)) - bit&63) & 255)
		}
	}
	return -1
}
