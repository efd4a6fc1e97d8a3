package queue

import "slices"

// tenants is the order of a queue with tenants, and of the keys that wait for one
// of its buckets: in a band each tenant has a flow of its own, and the flows take
// turns.
//
//	band 128 ──▶ acme: key ─ key ─ key ─ …
//	  ▲          umbra: key
//	  └───────── zeta: key ─ key
//
// Every run costs the same, so that deficit round robin comes down to turns of as
// many keys as the tenant's weight says. The flows of a blocked tenant are out of
// their circles, and what it has ready costs nothing. A heap of the flows by the age
// of their heads gives the oldest key.
type tenants[K comparable] struct {
	es      *slab[K]
	number  *numbers
	roster  *roster
	groups  map[uint32]*group[K] // by number of the tenant
	circles []*circle[K]         // highest band first
	byAge   heap[*flow[K]]
	may     int             // keys of tenants that are not blocked
	all     int             // keys
	pass    func(t *tenant) // notes a blocked tenant that next came upon, in a bucket's line
}

// group is what one tenant has.
type group[K comparable] struct {
	tenant  *tenant
	flows   []*flow[K]
	n       int
	blocked bool
}

// circle is the flows of one band that may run.
type circle[K comparable] struct {
	band  uint8
	first *flow[K] // whose turn it is
	n     int      // keys, those of blocked tenants included
}

// flow is what one tenant has in one band.
type flow[K comparable] struct {
	ring[K]
	group      *group[K]
	circle     *circle[K]
	next, prev *flow[K] // in the circle, nil outside
	left       int      // keys until its turn ends
	oldest     uint64   // a sequence number that is not above its head's
	at         int      // in the heap
}

func (f *flow[K]) rank() uint64 { return f.oldest }
func (f *flow[K]) place() *int  { return &f.at }

func newTenants[K comparable](es *slab[K], number *numbers, r *roster) *tenants[K] {
	return &tenants[K]{es: es, number: number, roster: r, groups: make(map[uint32]*group[K])}
}

// flow is the flow of entry i, made if there is none.
func (o *tenants[K]) flow(i uint32, e *entry[K]) *flow[K] {
	number := o.es.record(i).tenant
	g := o.groups[number]
	if g == nil {
		t := o.roster.of[number-1]
		g = &group[K]{tenant: t}
		o.groups[number] = g
	}
	for _, f := range g.flows {
		if f.circle.band == e.band {
			return f
		}
	}
	f := &flow[K]{group: g, circle: o.circle(e.band)}
	g.flows = append(g.flows, f)
	return f
}

func (o *tenants[K]) circle(band uint8) *circle[K] {
	at, ok := slices.BinarySearchFunc(o.circles, band, func(c *circle[K], b uint8) int { return int(b) - int(c.band) })
	if !ok {
		o.circles = slices.Insert(o.circles, at, &circle[K]{band: band})
	}
	return o.circles[at]
}

func (o *tenants[K]) push(i uint32, e *entry[K]) {
	e.order = o.number.next()
	f := o.flow(i, e)
	f.push(cellOf(e.order, i))
	o.added(f, e.order)
}

func (o *tenants[K]) pushFront(i uint32, e *entry[K]) {
	e.order = o.number.before()
	f := o.flow(i, e)
	f.pushFront(cellOf(e.order, i))
	o.added(f, e.order)
	if f.at > 0 {
		f.oldest = e.order
		o.byAge.fix(f)
	}
}

// added counts a key of flow f, which comes into its circle with the first.
func (o *tenants[K]) added(f *flow[K], seq uint64) {
	o.all++
	f.circle.n++
	f.group.n++
	if f.group.blocked {
		return
	}
	o.may++
	if f.next == nil {
		f.oldest = seq
		o.link(f)
	}
}

// link puts a flow at the end of its circle: just before the one whose turn it is.
func (o *tenants[K]) link(f *flow[K]) {
	o.byAge.add(f)
	f.left = f.group.tenant.weight
	first := f.circle.first
	if first == nil {
		f.next, f.prev, f.circle.first = f, f, f
		return
	}
	f.next, f.prev = first, first.prev
	f.prev.next, first.prev = f, f
}

// unlink takes a flow out of its circle, if it is in.
func (o *tenants[K]) unlink(f *flow[K]) {
	if f.next == nil {
		return
	}
	o.byAge.remove(f)
	f.prev.next, f.next.prev = f.next, f.prev
	if f.circle.first == f {
		if f.circle.first = f.next; f.next == f {
			f.circle.first = nil
		}
	}
	f.next, f.prev = nil, nil
}

func (o *tenants[K]) remove(i uint32, e *entry[K]) {
	e.order = 0
	f := o.flow(i, e)
	f.leave(o.es)
	o.removed(f)
}

// removed uncounts a key of flow f, which leaves its circle with the last.
func (o *tenants[K]) removed(f *flow[K]) {
	o.all--
	f.circle.n--
	f.group.n--
	if !f.group.blocked {
		o.may--
	}
	if f.live > 0 {
		return
	}
	o.unlink(f)
	g := f.group
	g.flows = slices.DeleteFunc(g.flows, func(x *flow[K]) bool { return x == f })
	if len(g.flows) == 0 && !g.blocked {
		delete(o.groups, g.tenant.number)
	}
}

func (o *tenants[K]) next(oldest bool) (i uint32, ok, again bool) {
	steps := maxDropped
	defer func() { o.es.touched += maxDropped - steps }()
	f := o.highest()
	for ; f != nil; f = o.highest() {
		if oldest {
			if f, ok = o.oldest(&steps); !ok {
				return 0, false, true
			}
		}
		t := f.group.tenant
		if !t.blocked {
			break
		}
		// A line learns only here that a tenant is blocked: it may be one of many.
		steps--
		o.block(t, true)
		o.pass(t)
	}
	if f == nil {
		return 0, false, false
	}
	c, ok := f.first(o.es, &steps)
	if !ok {
		return 0, false, true
	}
	if !oldest {
		if f.left--; f.left <= 0 {
			f.left = f.group.tenant.weight
			f.circle.first = f.next
		}
	}
	f.take(o.es)
	o.es.at(c.i).order = 0
	o.removed(f)
	return c.i, true, false
}

func (o *tenants[K]) highest() *flow[K] {
	for _, c := range o.circles {
		if c.first != nil {
			return c.first
		}
	}
	return nil
}

// oldest is the flow with the oldest head. What the heap orders by may be too old,
// because keys have left; then it is mended.
func (o *tenants[K]) oldest(steps *int) (*flow[K], bool) {
	for {
		f := o.byAge.items[0]
		c, ok := f.first(o.es, steps)
		if !ok || f.oldest == c.seq() {
			return f, ok
		}
		f.oldest = c.seq()
		o.byAge.fix(f)
		if *steps--; *steps < 0 {
			return f, false
		}
	}
}

// block takes the flows of a tenant out of their circles, or puts them back; more:
// keys may run now that could not before.
func (o *tenants[K]) block(t *tenant, blocked bool) (more bool) {
	g := o.groups[t.number]
	if g == nil {
		if !blocked {
			return false
		}
		g = &group[K]{tenant: t}
		o.groups[t.number] = g
	}
	if g.blocked == blocked {
		return false
	}
	g.blocked = blocked
	for _, f := range g.flows {
		if blocked {
			o.unlink(f)
		} else {
			o.link(f)
		}
	}
	if blocked {
		o.may -= g.n
		return false
	}
	o.may += g.n
	if g.n == 0 {
		delete(o.groups, t.number)
	}
	return g.n > 0
}

func (o *tenants[K]) top() uint32 {
	if f := o.highest(); f != nil {
		return uint32(f.circle.band) + 1
	}
	return 0
}

func (o *tenants[K]) len() (may, all int) { return o.may, o.all }

func (o *tenants[K]) depths(to *[maxBands]int) {
	for _, c := range o.circles {
		to[c.band] += c.n
	}
}

func (o *tenants[K]) eldest() (uint32, bool) {
	if len(o.byAge.items) == 0 {
		return 0, false
	}
	steps := maxDropped
	f, ok := o.oldest(&steps)
	o.es.touched += maxDropped - steps
	if !ok {
		return 0, false
	}
	c, ok := f.first(o.es, &steps)
	return c.i, ok
}
