package queue

import (
	"math"
	"slices"
)

// order is the order of a shard's ready keys, or of those that wait in a bucket's line.
type order interface {
	// push puts a key where its number belongs.
	push(i uint32, e *entry, number uint64)
	remove(i uint32, e *entry)
	// next takes out the key that is next, or the oldest one, which has its number still.
	next(oldest bool) (i uint32, e *entry)
	// top is the highest band with a key that may run, plus one; 0: none may.
	top() uint32
	size() int
	runnable() int
	depths(to *[maxBands]int)
	// oldestEntry is the entry of the key that may run and has the lowest number, nil if there is
	// none. A key that was raised to a higher band has a new number, and may be ready for longer.
	oldestEntry() *entry
}

// plain is the order of keys without tenants: the highest band is first, and in a band the
// key that came first.
type plain struct {
	best   *lane // the highest with a key
	n      int
	es     *slab
	middle lane // nearly all keys are in it
	lanes  []*lane
}

func newPlain(es *slab) *plain {
	o := &plain{es: es, middle: lane{is: middle}}
	o.lanes = []*lane{&o.middle}
	return o
}

// lane is a band of a plain order.
type lane struct {
	deque
	is uint8
}

// lane is that of a band. There are at most as many as bands were ever used.
func (o *plain) lane(band uint8) *lane {
	if band == middle {
		return &o.middle
	}
	return o.another(band)
}

func (o *plain) another(band uint8) *lane {
	at, ok := slices.BinarySearchFunc(o.lanes, band, func(l *lane, is uint8) int { return int(is) - int(l.is) })
	if !ok {
		o.lanes = slices.Insert(o.lanes, at, &lane{is: band})
	}
	return o.lanes[at]
}

func (o *plain) push(i uint32, e *entry, number uint64) {
	l := o.lane(e.band)
	e.order = number
	o.es.touched += l.insert(cellOf(number, i))
	if o.n++; o.best == nil || l.is > o.best.is {
		o.best = l
	}
}

func (o *plain) remove(i uint32, e *entry) {
	of := o.lane(e.band)
	o.es.touched += of.remove(e.order)
	e.order = 0
	o.left(of)
}

// left is called when a lane has one key less.
func (o *plain) left(l *lane) {
	if o.n--; l.n == 0 && l == o.best {
		o.best = o.highest()
	}
}

//go:noinline
func (o *plain) highest() *lane { // seldom: left is to be inlined
	if o.n == 0 {
		return nil
	}
	return o.lanes[slices.IndexFunc(o.lanes, func(l *lane) bool { return l.n > 0 })]
}

func (o *plain) next(oldest bool) (i uint32, e *entry) {
	l := o.best
	if l == nil {
		return 0, nil
	}
	if oldest {
		l = o.eldest()
	}
	i = l.first().i
	l.take()
	o.left(l)
	return i, o.es.at(i)
}

// eldest is the lane with the oldest key. There must be one.
func (o *plain) eldest() (eldest *lane) {
	least := uint64(math.MaxUint64)
	for _, l := range o.lanes {
		if l.n > 0 && l.first().seq() < least {
			eldest, least = l, l.first().seq()
		}
	}
	return eldest
}

func (o *plain) oldestEntry() *entry {
	if o.n == 0 {
		return nil
	}
	return o.es.at(o.eldest().first().i)
}

func (o *plain) top() uint32 {
	if o.best == nil {
		return 0
	}
	return uint32(o.best.is) + 1
}

func (o *plain) depths(to *[maxBands]int) {
	for _, l := range o.lanes {
		to[l.is] += l.n
	}
}

func (o *plain) size() int     { return o.n }
func (o *plain) runnable() int { return o.n }
