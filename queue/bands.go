package queue

import (
	"math"
	"slices"
)

// bands is the order of a shard's ready keys, and of the keys that wait in a bucket's
// line. The highest band is first. In a band each tenant has a flow of its own, and the
// flows take turns; keys without a tenant share one flow.
//
//	band 128 ──▶ acme: key ─ key ─ key ─ …
//	  ▲          umbra: key
//	  └───────── zeta: key ─ key
//
// Every run costs the same, so deficit round robin comes down to turns of as many keys
// as the tenant's weight says. The flows of a blocked tenant are out of their circles,
// and what it has ready costs nothing.
//
// Keys are numbered as they come in, and a key that is raised comes in again in its
// higher band. A heap of all flows by the number of their heads gives the oldest key.
type bands[K comparable] struct {
	es      *slab[K]
	number  *numbers
	roster  *roster
	best    *flow[K]             // whose turn it is in the highest band with a key that may run; nil: none
	all     []*band[K]           // highest first
	groups  map[uint32]*group[K] // by number of the tenant
	none    *group[K]            // keys without a tenant
	byAge   heap[*flow[K]]
	n       int             // keys, those of blocked tenants included
	blocked int             // … how many those are
	pass    func(t *tenant) // notes a blocked tenant that next came upon, in a bucket's line
}

// band is the flows of one band that may run.
type band[K comparable] struct {
	is    uint8
	first *flow[K] // whose turn it is
}

// group is what one tenant has.
type group[K comparable] struct {
	tenant  *tenant
	flows   []*flow[K]
	blocked bool
}

// flow is what one tenant has in one band.
type flow[K comparable] struct {
	ring[K]
	is         uint8 // that of its band
	group      *group[K]
	band       *band[K]
	next, prev *flow[K] // in the circle, nil outside
	left       int      // keys until its turn ends
	oldest     uint64   // a sequence number that is not above its head's
	at         int      // in the heap
}

func (f *flow[K]) rank() uint64 { return f.oldest }
func (f *flow[K]) placed() *int { return &f.at }

func (o *bands[K]) init(es *slab[K], number *numbers, r *roster) {
	o.es, o.number, o.roster = es, number, r
	o.byAge.by = byRank[*flow[K]]{}
	o.groups, o.none = make(map[uint32]*group[K]), &group[K]{tenant: &tenant{weight: 1}}
}

// flow is the flow of entry i, made if there is none.
func (o *bands[K]) flow(i uint32, e *entry[K]) *flow[K] {
	g := o.none
	if e.is(recorded) {
		if number := o.es.record(i).tenant; number != 0 {
			g = o.group(number)
		}
	}
	for _, f := range g.flows {
		if f.is == e.band {
			return f
		}
	}
	at, ok := slices.BinarySearchFunc(o.all, e.band, func(b *band[K], is uint8) int { return int(is) - int(b.is) })
	if !ok {
		o.all = slices.Insert(o.all, at, &band[K]{is: e.band})
	}
	f := &flow[K]{is: e.band, group: g, band: o.all[at], oldest: math.MaxUint64}
	g.flows = append(g.flows, f)
	o.byAge.add(f)
	return f
}

// group is what a tenant has, made if there is none.
func (o *bands[K]) group(number uint32) *group[K] {
	g := o.groups[number]
	if g == nil {
		g = &group[K]{tenant: o.roster.of[number-1]}
		o.groups[number] = g
	}
	return g
}

// trim forgets what a tenant has if that is nothing.
func (o *bands[K]) trim(g *group[K]) {
	if g.blocked || slices.ContainsFunc(g.flows, func(f *flow[K]) bool { return f.live > 0 }) {
		return
	}
	for _, f := range g.flows {
		o.byAge.remove(f)
	}
	delete(o.groups, g.tenant.number)
}

func (o *bands[K]) push(i uint32, e *entry[K], front bool) {
	f := o.flow(i, e)
	if front {
		e.order = o.number.before()
		f.pushFront(cellOf(e.order, i))
	} else {
		e.order = o.number.next()
		f.push(cellOf(e.order, i))
	}
	o.n++
	if f.group.blocked {
		o.blocked++
	}
	if f.oldest > e.order {
		f.oldest = e.order
		o.byAge.fix(f)
	}
	if f.next == nil && !f.group.blocked {
		o.link(f)
	}
}

// link puts a flow at the end of its circle: just before the one whose turn it is.
func (o *bands[K]) link(f *flow[K]) {
	f.left = f.group.tenant.weight
	first := f.band.first
	if first == nil {
		f.next, f.prev, f.band.first = f, f, f
		if o.best == nil || o.best.is < f.is {
			o.best = f
		}
		return
	}
	f.next, f.prev = first, first.prev
	f.prev.next, first.prev = f, f
}

// unlink takes a flow out of its circle, if it is in.
func (o *bands[K]) unlink(f *flow[K]) {
	if f.next == nil {
		return
	}
	f.prev.next, f.next.prev = f.next, f.prev
	if f.band.first == f {
		if f.band.first = f.next; f.next == f {
			f.band.first = nil
		}
		o.best = o.highest()
	}
	f.next, f.prev = nil, nil
}

func (o *bands[K]) remove(i uint32, e *entry[K]) {
	e.order = 0
	f := o.flow(i, e)
	f.leave(o.es)
	o.removed(f)
}

// removed uncounts a key of flow f, which leaves its circle with the last.
func (o *bands[K]) removed(f *flow[K]) {
	o.n--
	if f.group.blocked {
		o.blocked--
	}
	if f.live == 0 {
		o.unlink(f)
		if f.group != o.none {
			o.trim(f.group)
		}
	}
}

func (o *bands[K]) next(oldest bool) (i uint32, e *entry[K], again bool) {
	for f := o.best; f != nil; f = o.best {
		if oldest {
			if f = o.oldest(); f == nil {
				return 0, nil, true
			}
		}
		if t := f.group.tenant; t.blocked {
			// A line learns only here that a tenant is blocked: it may be one of many.
			o.es.touched++
			o.block(t, true)
			o.pass(t)
			continue
		}
		i, e = f.first(o.es)
		if e == nil {
			return 0, nil, true
		}
		if !oldest {
			if f.left--; f.left <= 0 {
				f.left = f.group.tenant.weight
				f.band.first, o.best = f.next, f.next
			}
		}
		f.take(o.es)
		e.order = 0
		o.removed(f)
		return i, e, false
	}
	return 0, nil, false
}

func (o *bands[K]) highest() *flow[K] {
	for _, b := range o.all {
		if b.first != nil {
			return b.first
		}
	}
	return nil
}

// oldest is the flow with the oldest head, of which there must be one; nil: the search
// has used its steps up. What the heap orders by may be too old, because keys have left;
// then it is mended.
func (o *bands[K]) oldest() *flow[K] {
	for !o.es.tired() {
		f, seq := *o.byAge.at(0), uint64(math.MaxUint64)
		if f.next != nil {
			_, e := f.first(o.es)
			if e == nil {
				break
			}
			seq = e.order
		}
		if f.oldest == seq {
			return f
		}
		f.oldest = seq
		o.byAge.fix(f)
		o.es.touched++
	}
	return nil
}

// block takes the flows of a tenant out of their circles, or puts them back; more:
// keys may run now that could not before.
func (o *bands[K]) block(t *tenant, blocked bool) (more bool) {
	g := o.groups[t.number]
	if g == nil && !blocked {
		return false
	}
	g = o.group(t.number)
	if g.blocked == blocked {
		return false
	}
	g.blocked = blocked
	for _, f := range g.flows {
		switch {
		case blocked:
			o.unlink(f)
			o.blocked += f.live
		case f.live > 0:
			o.blocked -= f.live
			o.link(f)
			f.oldest = 0
			o.byAge.fix(f)
			more = true
		}
	}
	o.trim(g)
	return more
}

func (o *bands[K]) runnable() int { return o.n - o.blocked }

func (o *bands[K]) top() uint32 {
	if o.best == nil {
		return 0
	}
	return uint32(o.best.is) + 1
}

func (o *bands[K]) depths(to *[maxBands]int) {
	for k := range o.byAge.n {
		f := *o.byAge.at(k)
		to[f.is] += f.live
	}
}

func (o *bands[K]) eldest() (e *entry[K]) {
	if o.best != nil {
		if f := o.oldest(); f != nil {
			_, e = f.first(o.es)
		}
	}
	return e
}
