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
// higher band. The oldest key is the head of some flow. A flow whose head is its first
// key since it was empty is in the chain, in which flows are in order of age because they
// came in so; all others are in a heap, by the number of their heads. So a tenant
// with one key at a time costs no search, however many tenants there are.
type bands struct {
	best    *flow // whose turn it is in the highest band with a key that may run; nil: none
	n       int   // keys, those of blocked tenants included
	none    group // keys without a tenant
	ends    flow  // the chain: its last flow is older, its first one newer
	es      *slab
	number  *numbers
	roster  *roster
	all     []*band           // highest first
	groups  map[uint32]*group // of a bucket's line, by number of the tenant; nil: see tenant.ready
	byAge   heap[*flow]
	blocked int             // keys of blocked tenants
	pass    func(t *tenant) // notes a blocked tenant that next came upon, in a bucket's line
}

// band is the flows of one band that may run.
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
	older, newer *flow // in the chain, if it has keys and is not in the heap
	ring
	next, prev *flow  // in the circle, nil outside
	left       int    // keys until its turn ends
	oldest     uint64 // a sequence number that is not above its head's
	at         int    // in the heap
	is         uint8  // that of its band
	group      *group
	sibling    *flow
	band       *band
}

func (f *flow) rank() uint64 { return f.oldest }
func (f *flow) placed() *int { return &f.at }

func (o *bands) init(es *slab, number *numbers, r *roster) {
	o.es, o.number, o.roster = es, number, r
	o.byAge.by = byRank[*flow]{}
	o.none.tenant = &tenant{weight: 1}
	o.ends.oldest, o.ends.older, o.ends.newer = math.MaxUint64, &o.ends, &o.ends
}

// tenantOf is the tenant of an entry, nil if it has none.
func (o *bands) tenantOf(i uint32, e *entry) *tenant {
	if e.is(recorded) {
		if n := o.es.record(i).tenant; n != 0 {
			return o.roster.of[n-1]
		}
	}
	return nil
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
	g := &o.none
	if t := o.tenantOf(i, e); t != nil {
		g = o.group(t)
	}
	var empty *flow
	for f := g.flows; f != nil; f = f.sibling {
		if f.is == e.band {
			return f
		}
		if f.live == 0 {
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
	empty.is, empty.band = e.band, o.all[at]
	return empty
}

func (o *bands) push(i uint32, e *entry, front bool) {
	f := o.flow(i, e)
	if front {
		e.order = o.number.before()
		f.pushFront(cellOf(e.order, i))
	} else {
		e.order = o.number.next()
		f.push(cellOf(e.order, i))
	}
	o.n++
	f.band.n++
	f.group.n++
	if f.live == 1 {
		f.oldest, f.older, f.newer = e.order, o.ends.older, &o.ends
		f.older.newer, o.ends.older = f, f
	}
	if front {
		o.rank(f, e.order)
	}
	if f.group.blocked {
		o.blocked++
	} else if f.next == nil {
		o.link(f)
	}
}

// unchain takes a flow out of the chain.
func (o *bands) unchain(f *flow) { f.older.newer, f.newer.older = f.newer, f.older }

// rank gives a flow another place in the heap, or one at all.
func (o *bands) rank(f *flow, oldest uint64) {
	before := o.byAge.swaps
	f.oldest = oldest
	if f.at == 0 {
		o.unchain(f)
		o.byAge.add(f)
	} else {
		o.byAge.fix(f)
	}
	o.es.touched += 1 + 2*(o.byAge.swaps-before) // each swap compares two
}

// link puts a flow at the end of its circle: just before the one whose turn it is.
func (o *bands) link(f *flow) {
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
func (o *bands) unlink(f *flow) {
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

func (o *bands) remove(i uint32, e *entry) {
	e.order = 0
	f := o.flow(i, e)
	f.leave(o.es)
	o.removed(f)
}

// removed uncounts a key of flow f, which leaves all orders with the last.
func (o *bands) removed(f *flow) {
	o.n--
	f.band.n--
	f.group.n--
	if f.group.blocked {
		o.blocked--
	}
	if f.live > 0 {
		return
	}
	o.unlink(f)
	if f.at == 0 {
		o.unchain(f)
	} else {
		o.byAge.remove(f)
	}
	o.trim(f.group)
}

func (o *bands) next(oldest bool) (i uint32, e *entry, again bool) {
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
			if f.left--; f.left <= 0 && f.next != f {
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

func (o *bands) highest() *flow {
	for _, b := range o.all {
		if b.first != nil {
			return b.first
		}
	}
	return nil
}

// oldest is the flow with the oldest head, of which there must be one; nil: the search
// has used its steps up. A flow whose head is another one by now, or may not run, gets
// its place in the heap here.
func (o *bands) oldest() *flow {
	for !o.es.tired() {
		f, seq := o.ends.newer, uint64(math.MaxUint64)
		if late, ok := o.byAge.first(); ok && late.oldest < f.oldest {
			f = late
		}
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
		o.rank(f, seq)
	}
	return nil
}

// block takes the flows of a tenant out of their circles, or puts them back; more:
// keys may run now that could not before.
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
		if blocked {
			o.unlink(f)
		} else if f.live > 0 {
			o.link(f)
			if f.at != 0 {
				o.rank(f, 0)
			}
		}
	}
	o.trim(g)
	return !blocked && g.n > 0
}

func (o *bands) runnable() int { return o.n - o.blocked }

func (o *bands) top() uint32 {
	if o.best == nil {
		return 0
	}
	return uint32(o.best.is) + 1
}

// depths adds the keys of each band.
func (o *bands) depths(to *[maxBands]int) {
	for _, b := range o.all {
		to[b.is] += b.n
		o.es.touched++
	}
}

// oldestEntry is the entry of the oldest key that may run, nil if there is none.
func (o *bands) oldestEntry() (e *entry) {
	if o.best != nil {
		if f := o.oldest(); f != nil {
			_, e = f.first(o.es)
		}
	}
	return e
}

// roster numbers the tenants that have keys or holds.
type roster struct {
	named  map[string]*tenant
	of     []*tenant // by number
	unused []uint32  // numbers
	spare  []*tenant // for the next, with the memory of its ring
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

	// How many of its keys each line has admitted and no worker has taken, by the number of
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
	if memory := t.ready.own.ring; len(r.spare) < maxSpareTenants && memory.isSmall() {
		*t = tenant{}
		t.ready.own.ring = memory
		r.spare = append(r.spare, t)
	}
}
