package queue

import (
	"math"
	"slices"
)

// bands is the order of keys of tenants. The highest band is first. In a band each tenant
// has a flow of its own, and the flows take turns.
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
// higher band. The oldest key is the head of some flow. A flow whose head came in as the
// last of all is put at the end of the chain, which so is in order of age; all others are in a
// heap by the number of their heads. So a tenant with one key at a time costs no search,
// however many tenants there are.
type bands struct {
	best    *flow // whose turn it is in the highest band with a key that may run; nil: none
	n       int   // keys, those of blocked tenants included
	ends    flow  // the chain: its last flow is older, its first one newer
	es      *slab
	number  *numbers
	roster  *roster
	all     []*band           // highest first
	groups  map[uint32]*group // of a bucket's line, by number of the tenant; nil: see tenant.ready
	byAge   heap[*flow]       // the flows in the circles that are not in the chain
	blocked int               // keys of blocked tenants
	pass    func(t *tenant)   // notes a blocked tenant that next came upon, in a bucket's line
}

// band is the flows of one band that may run, in a circle.
type band struct {
	is    uint8
	n     int   // keys, those of blocked tenants included
	first *flow // whose turn it is
}

// group is what one tenant has.
type group struct {
	n       int   // keys
	own     flow  // the first of its flows: most tenants have keys in one band at a time
	flows   *flow // linked by sibling; an empty one is there for the next band
	tenant  *tenant
	blocked bool
}

// flow is what one tenant has in one band.
type flow struct {
	deque
	next, prev   *flow  // in the circle, nil outside
	older, newer *flow  // in the chain, if it is in the circle and not in the heap
	left         int    // keys until its turn ends
	oldest       uint64 // the number of its head, while it is in the circle
	at           int    // in the heap
	group        *group
	sibling      *flow
	band         *band
}

func (f *flow) rank() uint64 { return f.oldest }
func (f *flow) placed() *int { return &f.at }

func (o *bands) init(es *slab, number *numbers, r *roster) {
	o.es, o.number, o.roster = es, number, r
	o.byAge.by = byRank[*flow]{}
	o.ends.oldest, o.ends.older, o.ends.newer = math.MaxUint64, &o.ends, &o.ends
}

// group is what a tenant has, made if there is none.
func (o *bands) group(t *tenant) *group {
	if o.groups == nil {
		return &t.ready
	}
	g := o.groups[t.number]
	if g == nil {
		g = &group{tenant: t}
		o.groups[t.number] = g
	}
	return g
}

// trim forgets what a tenant has in a line if that is nothing.
func (o *bands) trim(g *group) {
	if o.groups != nil && g.n == 0 && !g.blocked {
		delete(o.groups, g.tenant.number)
	}
}

// flow is the flow of entry i. If there is none, an empty one is put into its band.
func (o *bands) flow(i uint32, e *entry) *flow {
	g := o.group(o.roster.of[o.es.record(i).tenant-1])
	var empty *flow
	for f := g.flows; f != nil; f = f.sibling {
		if f.band.is == e.band {
			return f
		}
		if f.deque.n == 0 {
			empty = f
		}
	}
	if empty == nil {
		if empty = &g.own; g.flows != nil {
			empty = new(flow)
		}
		empty.group, empty.sibling, g.flows = g, g.flows, empty
	}
	at, ok := slices.BinarySearchFunc(o.all, e.band, func(b *band, is uint8) int { return int(is) - int(b.is) })
	if !ok {
		o.all = slices.Insert(o.all, at, &band{is: e.band})
	}
	empty.band = o.all[at]
	return empty
}

func (o *bands) push(i uint32, e *entry, number uint64) {
	f := o.flow(i, e)
	e.order = number
	o.es.touched += f.insert(cellOf(number, i))
	o.changed(f, 1)
}

func (o *bands) remove(i uint32, e *entry) {
	f := o.flow(i, e)
	o.es.touched += f.remove(e.order)
	e.order = 0
	o.changed(f, -1)
}

// changed is called when a flow has one key more or less.
func (o *bands) changed(f *flow, by int) {
	o.n += by
	f.band.n += by
	f.group.n += by
	if f.group.blocked {
		o.blocked += by
	}
	o.place(f)
	o.trim(f.group)
}

// place puts a flow into its circle and by its age if it has keys that may run, and takes
// it out of both if not.
func (o *bands) place(f *flow) {
	before := o.byAge.swaps
	switch {
	case f.deque.n == 0 || f.group.blocked:
		if f.next != nil {
			o.unlink(f)
			o.unchain(f)
			o.byAge.remove(f)
		}
	case f.next == nil:
		o.link(f)
		f.oldest = f.first().seq()
		if f.oldest == uint64(*o.number) {
			f.older, f.newer = o.ends.older, &o.ends
			f.older.newer, o.ends.older = f, f
		} else {
			o.byAge.add(f)
		}
	case f.oldest != f.first().seq():
		f.oldest = f.first().seq()
		if o.unchain(f); f.at == 0 {
			o.byAge.add(f)
		} else {
			o.byAge.fix(f)
		}
	}
	o.es.touched += heapChildren * (o.byAge.swaps - before) // each swap looks at so many
}

// unchain takes a flow out of the chain, if it is in.
func (o *bands) unchain(f *flow) {
	if f.at == 0 {
		f.older.newer, f.newer.older = f.newer, f.older
		f.older, f.newer = nil, nil
	}
}

// eldest is the flow with the oldest head. There must be one.
func (o *bands) eldest() *flow {
	if f, ok := o.byAge.first(); ok && f.oldest < o.ends.newer.oldest {
		return f
	}
	return o.ends.newer
}

// link puts a flow at the end of its circle: just before the one whose turn it is.
func (o *bands) link(f *flow) {
	f.left = f.group.tenant.weight
	first := f.band.first
	if first == nil {
		f.next, f.prev, f.band.first = f, f, f
		if o.best == nil || o.best.band.is < f.band.is {
			o.best = f
		}
		return
	}
	f.next, f.prev = first, first.prev
	f.prev.next, first.prev = f, f
}

// unlink takes a flow out of its circle.
func (o *bands) unlink(f *flow) {
	f.prev.next, f.next.prev = f.next, f.prev
	if f.band.first == f {
		if f.band.first = f.next; f.next == f {
			f.band.first = nil
		}
		o.best = nil
		if at := slices.IndexFunc(o.all, func(b *band) bool { return b.first != nil }); at >= 0 {
			o.best = o.all[at].first
		}
	}
	f.next, f.prev = nil, nil
}

// next finds none as well if, in a bucket's line, it has looked at enough blocked tenants.
func (o *bands) next(oldest bool) (i uint32, e *entry) {
	for f := o.best; f != nil && !o.es.tired(); f = o.best {
		if oldest {
			f = o.eldest()
		}
		if t := f.group.tenant; t.blocked {
			// A line learns only here that a tenant is blocked: it may be one of many.
			o.es.touched++
			o.block(t, true)
			o.pass(t)
			continue
		}
		if !oldest {
			if f.left--; f.left <= 0 && f.next != f {
				f.left = f.group.tenant.weight
				f.band.first, o.best = f.next, f.next
			}
		}
		i = f.first().i
		f.take()
		o.changed(f, -1)
		return i, o.es.at(i)
	}
	return 0, nil
}

// block takes the flows of a tenant out of their circles, or puts them back.
func (o *bands) block(t *tenant, blocked bool) (more bool) {
	if o.groups != nil && o.groups[t.number] == nil && !blocked {
		return false
	}
	g := o.group(t)
	if g.blocked == blocked {
		return false
	}
	g.blocked = blocked
	if blocked {
		o.blocked += g.n
	} else {
		o.blocked -= g.n
	}
	for f := g.flows; f != nil; f = f.sibling {
		o.es.touched++
		o.place(f)
	}
	o.trim(g)
	return !blocked && g.n > 0
}

func (o *bands) size() int     { return o.n }
func (o *bands) runnable() int { return o.n - o.blocked }

func (o *bands) top() uint32 {
	if o.best == nil {
		return 0
	}
	return uint32(o.best.band.is) + 1
}

// depths adds the keys of each band.
func (o *bands) depths(to *[maxBands]int) {
	for _, b := range o.all {
		to[b.is] += b.n
		o.es.touched++
	}
}

func (o *bands) oldestEntry() *entry {
	if o.best == nil {
		return nil
	}
	return o.es.at(o.eldest().first().i)
}

// roster numbers the tenants that have keys or holds.
type roster struct {
	named  map[string]*tenant
	of     []*tenant // by number
	unused []uint32  // numbers
	spare  []*tenant // for the next, with the memory of its keys
	cap    int       // of keys that run at once, 0: none
}

const maxSpareTenants = 64

// tenant is a tenant that has keys or holds.
type tenant struct {
	name    string
	number  uint32 // +1
	blocked bool   // its keys may not run: it is held, or runs as many as it may
	weight  int    // keys it runs in a turn
	keys    int    // entries; without any and without a hold the tenant is forgotten
	running int
	holds   *holdSet // nil: none
	ready   group    // of its keys, those that are ready

	// How many of its keys each line has admitted and do not run yet, by the number of
	// the line's bucket. A line that passed over the tenant because it is blocked has an
	// entry of 0.
	lines map[int64]int
}

// get is the tenant of a name, a new one if it is not known.
func (r *roster) get(name string) *tenant {
	if t := r.named[name]; t != nil {
		return t
	}
	if len(r.unused) == 0 {
		r.of = append(r.of, nil)
		r.unused = append(r.unused, uint32(len(r.of)))
	}
	if len(r.spare) == 0 {
		r.spare = append(r.spare, new(tenant))
	}
	last := len(r.unused) - 1
	t := r.spare[len(r.spare)-1]
	t.name, t.weight, t.number, t.ready.tenant = name, 1, r.unused[last], t
	r.spare = r.spare[:len(r.spare)-1]
	r.unused, r.of[t.number-1], r.named[name] = r.unused[:last], t, t
	return t
}

// trim forgets a tenant for which there is no reason any more.
func (r *roster) trim(t *tenant) {
	if t.keys > 0 || t.holds.lasts() {
		return
	}
	delete(r.named, t.name)
	r.of[t.number-1] = nil
	r.unused = append(r.unused, t.number)
	if memory := t.ready.own.deque; len(r.spare) < maxSpareTenants && memory.isSmall() {
		*t = tenant{}
		t.ready.own.deque = memory
		r.spare = append(r.spare, t)
	}
}
