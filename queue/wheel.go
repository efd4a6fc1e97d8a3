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

	// What one lock hold may do, so that nobody waits long for it.
	maxFire    = 256
	maxCascade = 256
	maxScan    = 64
)

// wheel keeps entries until they are due: a hierarchical timing wheel on the
// entries' own links, 8 bytes a key and O(1) to add and to take out.
//
//	level 0   256 slots of 262 µs     entries due within 67 ms
//	level 1   256 slots of  67 ms                        17 s
//	level 2   256 slots of  17 s                         73 min
//	level 3   256 slots of  73 min                       13 days, and all beyond
//
// When the wheel reaches a slot of a higher level, its entries move down. In
// the slot of the present tick the exact times count: nothing fires early, and
// what is due now does not wait for the tick to end.
type wheel struct {
	slots  [levels][256]list
	bitmap [levels][4]uint64
	tick   int64 // all before it has fired
	wake   int64 // nothing is due before; never if there is nothing
	n      int
}

// In the wheel the outer links of a slot's first and last entry name the slot,
// so that an entry can be taken out without knowing where it is.
const slotLink = 1 << 31

func (w *wheel) add(es *entries, i uint32) {
	e := es.at(i)
	level, slot := w.place(e.when)
	l := &w.slots[level][slot]
	link := slotLink | uint32(level)<<8 | slot
	e.next, e.prev = link, l.tail
	if l.tail == 0 {
		l.head, e.prev = i+1, link
		w.bitmap[level][slot>>6] |= 1 << (slot & 63)
	} else {
		es.at(l.tail - 1).next = i + 1
	}
	l.tail = i + 1
	w.wake = min(w.wake, e.when)
	w.n++
}

// place is the slot for a due time.
func (w *wheel) place(when int64) (level int, slot uint32) {
	t := max(when>>tickBits, w.tick)
	for level < levels-1 && t>>(8*level)-w.tick>>(8*level) > 255 {
		level++
	}
	far := w.tick>>(8*level) + 255
	return level, uint32(min(t>>(8*level), far)) & 255
}

func (w *wheel) remove(es *entries, i uint32) {
	e := es.at(i)
	first, last := e.prev&slotLink != 0, e.next&slotLink != 0
	switch {
	case first && last:
		level, slot := e.prev>>8&3, e.prev&255
		w.slots[level][slot] = list{}
		w.bitmap[level][slot>>6] &^= 1 << (slot & 63)
	case first:
		w.slot(e.prev).head = e.next
		es.at(e.next - 1).prev = e.prev
	case last:
		w.slot(e.next).tail = e.prev
		es.at(e.prev - 1).next = e.next
	default:
		es.at(e.prev - 1).next = e.next
		es.at(e.next - 1).prev = e.prev
	}
	e.next, e.prev = 0, 0
	w.n--
}

func (w *wheel) slot(link uint32) *list {
	return &w.slots[link>>8&3][link&255]
}

// fire appends to due what is due at now, in order of time, and takes it out
// of the wheel. It does a bounded amount of work; more says that it is to be
// called again.
func (w *wheel) fire(es *entries, now int64, due []uint32) (_ []uint32, more bool) {
	target := now >> tickBits
	for range maxCascade {
		t, level := w.first()
		if t > target {
			break
		}
		w.tick = max(w.tick, t)
		switch slot := uint32(t>>(8*level)) & 255; {
		case level > 0:
			more = w.cascade(es, level, slot)
		default:
			due, more = w.take(es, slot, now, due)
			if t == target {
				return due, more
			}
		}
		if more {
			return due, true
		}
	}
	if t, _ := w.first(); t <= target {
		return due, true
	}
	w.tick = max(w.tick, target)
	return due, false
}

// take removes the entries of a slot of level 0 that are due.
func (w *wheel) take(es *entries, slot uint32, now int64, due []uint32) (_ []uint32, more bool) {
	from := len(due)
	i := w.slots[0][slot].head
	for range maxScan * 4 {
		if i == 0 || i&slotLink != 0 || len(due) == maxFire {
			break
		}
		e := es.at(i - 1)
		next := e.next
		if e.when <= now {
			w.remove(es, i-1)
			due = append(due, i-1)
		}
		i = next
	}
	slices.SortStableFunc(due[from:], func(a, b uint32) int {
		return cmp.Compare(es.at(a).when, es.at(b).when)
	})
	left := i != 0 && i&slotLink == 0
	return due, left && now>>tickBits > w.tick || len(due) == maxFire
}

// cascade moves the entries of a slot of a higher level down.
func (w *wheel) cascade(es *entries, level int, slot uint32) (more bool) {
	for range maxCascade {
		i := w.slots[level][slot].head
		if i == 0 {
			return false
		}
		w.remove(es, i-1)
		w.add(es, i-1)
	}
	return true
}

// first is the tick at which the next slot of any level begins, and the level;
// the highest level of several, for its entries may belong below.
func (w *wheel) first() (tick int64, level int) {
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

// rest finds when to look again. It looks at few entries: in a crowded slot
// the slot's own beginning or end must do.
func (w *wheel) rest(es *entries, now int64) {
	w.wake = never
	for l := range levels {
		at := w.tick >> (8 * l)
		d := nextBit(&w.bitmap[l], uint32(at)&255)
		if d < 0 {
			continue
		}
		begin := (at + int64(d)) << (8*l + tickBits)
		if begin >= w.wake {
			continue // nothing in it is due before
		}
		if begin <= now {
			begin += 1 << tickBits
		}
		slot := uint32(at+int64(d)) & 255
		w.wake = min(w.wake, w.earliest(es, &w.slots[l][slot], begin))
	}
}

func (w *wheel) earliest(es *entries, l *list, crowded int64) int64 {
	found, i := int64(never), l.head
	for range maxScan {
		if i&slotLink != 0 {
			return found
		}
		found = min(found, es.at(i-1).when)
		i = es.at(i - 1).next
	}
	return crowded
}

// nextBit is how far it is from bit on to the next one that is set, in a ring
// of 256; -1 if none is.
func nextBit(m *[4]uint64, bit uint32) int {
	w := bit >> 6
	if rest := m[w] >> (bit & 63); rest != 0 {
		return bits.TrailingZeros64(rest)
	}
	for k := uint32(1); k <= 4; k++ {
		if word := m[(w+k)&3]; word != 0 {
			return int((k<<6 + uint32(bits.TrailingZeros64(word)) - bit&63) & 255)
		}
	}
	return -1
}
