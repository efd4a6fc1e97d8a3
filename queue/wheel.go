package queue

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

const (
	tickBits = 18 // a tick is 262 µs
	slotBits = 6
	lastSlot = 1<<slotBits - 1
	levels   = 5
	never    = math.MaxInt64

	maxStep = 256 // entries that one step looks at
	maxScan = 64  // … to find when the next one is due
)

// wheel keeps entries until they are due: a hierarchical timing wheel on the
// entries' own links, O(1) to add and to take out.
//
//	level 0   64 slots of 262 µs     entries due within 17 ms
//	level 1   64 slots of  17 ms                        1.1 s
//	level 2   64 slots of 1.1 s                         69 s
//	level 3   64 slots of  69 s                         73 min
//	level 4   64 slots of  73 min                       3 days, and all beyond
//
// When the wheel reaches a slot of a higher level, its entries move down. In the
// slot of the present tick the exact times count: nothing fires early, and what is
// due now does not wait for the tick to end.
type wheel[K comparable] struct {
	slots [levels << slotBits]chain
	used  [levels]uint64 // a bit for each slot with entries
	tick  int64          // all before it has fired
	wake  int64          // nothing is due before; never if there is nothing
	n     int
}

// chain is the first and the last entry of a slot, index+1; 0: none.
type chain struct{ head, tail uint32 }

// add puts an entry in, which has a time.
func (w *wheel[K]) add(es *slab[K], i uint32, e *entry[K]) {
	t, level := max(e.due>>tickBits, w.tick), 0
	for level < levels-1 && t>>(slotBits*level)-w.tick>>(slotBits*level) > lastSlot {
		level++
	}
	slot := min(t>>(slotBits*level), w.tick>>(slotBits*level)+lastSlot) & lastSlot
	w.used[level] |= 1 << slot
	e.slot = uint16(level<<slotBits) | uint16(slot)
	l := &w.slots[e.slot]
	e.order = uint64(l.tail)
	if l.tail == 0 {
		l.head = i + 1
	} else {
		es.at(l.tail - 1).setNext(i + 1)
	}
	l.tail = i + 1
	w.wake = min(w.wake, e.due)
	w.n++
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
		w.used[e.slot>>slotBits] &^= 1 << (e.slot & lastSlot)
	}
	e.order = 0
	w.n--
}

// fire looks at the next slot that is reached at now. It appends to due what is due,
// in order of time, and leaves it in the wheel for the caller to take out; the entries of
// a slot of a higher level move down. More: there may be more to do.
func (w *wheel[K]) fire(es *slab[K], now int64, due []uint32) (_ []uint32, more bool) {
	t, level := w.first()
	target := now >> tickBits
	w.tick = max(w.tick, min(t, target))
	if t > target {
		return due, false
	}
	i := w.slots[level<<slotBits|int(t>>(slotBits*level)&lastSlot)].head
	for range maxStep {
		if i == 0 {
			break
		}
		es.touched++
		e := es.at(i - 1)
		next := e.next()
		if level > 0 {
			w.remove(es, e)
			w.add(es, i-1, e)
		} else if e.due <= now {
			due = append(due, i-1)
		}
		i = next
	}
	slices.SortStableFunc(due, func(a, b uint32) int { return cmp.Compare(es.at(a).due, es.at(b).due) })
	return due, level > 0 || t < target || len(due) == maxStep
}

// first is the tick at which the next slot of any level begins, and the level;
// the highest level of several, for its entries may belong below.
func (w *wheel[K]) first() (tick int64, level int) {
	tick = never
	for l := levels - 1; l >= 0; l-- {
		at := w.tick >> (slotBits * l)
		if ahead := bits.RotateLeft64(w.used[l], -int(at&lastSlot)); ahead != 0 {
			if t := max((at+int64(bits.TrailingZeros64(ahead)))<<(slotBits*l), w.tick); t < tick {
				tick, level = t, l
			}
		}
	}
	return tick, level
}

// schedule finds when to look again: when the next slot of a higher level is reached,
// or when the first entry of the next slot of level 0 is due.
func (w *wheel[K]) schedule(es *slab[K], now int64) {
	t, level := w.first()
	if w.wake = never; t == never {
		return
	}
	w.wake = max(t<<tickBits, now+1)
	if level > 0 {
		return
	}
	due, i := int64(never), w.slots[t&lastSlot].head
	for range maxScan {
		if i == 0 {
			break
		}
		es.touched++
		due, i = min(due, es.at(i-1).due), es.at(i-1).next()
	}
	if i != 0 { // there are many: with the next tick
		due = max(w.wake, (now>>tickBits+1)<<tickBits)
	}
	w.wake = due
}
