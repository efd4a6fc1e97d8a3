package queue

import "math/bits"

// fairness shares the dispatches of a band among tenants: each has a list of its
// own there, and the lists with keys form a ring that is served in turn.
//
//	band 128  ──▶ acme: key ─ key ─ key ─ …
//	  ▲           umbra: key
//	  └────────── zeta: key ─ key
//
// Every run costs the same, so taking turns is deficit round robin with a
// quantum of one. A tenant that is paused, or has as many keys running as it
// may, is taken out of all rings until that changes; what it has ready costs
// nothing meanwhile.
type fairness struct {
	names  map[string]uint32 // number+1
	of     []*tenantState
	unused []uint32
	rings  [maxBands]*flow // whose turn it is
	bitmap [4]uint64
	cap    int
	n      int // keys of tenants that may run
}

type tenantState struct {
	name    string
	keys    int // entries; without any and without a pause it is forgotten
	running int
	paused  *pause
	barred  bool // out of the rings
	flows   map[uint8]*flow
}

// flow is what one tenant has ready in one band.
type flow struct {
	list
	n          int
	band       uint8
	next, prev *flow // in the ring, nil outside
}

func newFairness(cap int) *fairness {
	return &fairness{names: make(map[string]uint32), cap: cap}
}

// number gives a tenant's number+1, a new one if it is not known.
func (f *fairness) number(name string) uint32 {
	if n, ok := f.names[name]; ok {
		return n
	}
	var n uint32
	if k := len(f.unused); k > 0 {
		n, f.unused = f.unused[k-1], f.unused[:k-1]
	} else {
		f.of = append(f.of, nil)
		n = uint32(len(f.of))
	}
	f.of[n-1] = &tenantState{name: name, flows: make(map[uint8]*flow)}
	f.names[name] = n
	return n
}

func (f *fairness) forget(n uint32) {
	if t := f.of[n-1]; t.keys == 0 && t.paused == nil {
		delete(f.names, t.name)
		f.of[n-1] = nil
		f.unused = append(f.unused, n)
	}
}

func (f *fairness) push(es *entries, tenant, i uint32, seq int64) {
	t, e := f.of[tenant-1], es.at(i)
	e.when = seq
	l := t.flows[e.band()]
	if l == nil {
		l = &flow{band: e.band()}
		t.flows[e.band()] = l
	}
	l.pushBack(es, i)
	l.n++
	if !t.barred {
		f.n++
		f.enter(l)
	}
}

func (f *fairness) remove(es *entries, tenant, i uint32) {
	t, e := f.of[tenant-1], es.at(i)
	l := t.flows[e.band()]
	l.remove(es, i)
	l.n--
	if !t.barred {
		f.n--
	}
	if l.n == 0 {
		f.exit(l)
		delete(t.flows, l.band)
	}
}

// enter puts l at the end of its ring: just before the one whose turn it is.
func (f *fairness) enter(l *flow) {
	if l.next != nil {
		return
	}
	first := f.rings[l.band]
	if first == nil {
		l.next, l.prev = l, l
		f.rings[l.band] = l
		f.bitmap[l.band>>6] |= 1 << (l.band & 63)
		return
	}
	l.next, l.prev = first, first.prev
	l.prev.next, first.prev = l, l
}

func (f *fairness) exit(l *flow) {
	switch {
	case l.next == nil:
		return
	case l.next == l:
		f.rings[l.band] = nil
		f.bitmap[l.band>>6] &^= 1 << (l.band & 63)
	default:
		l.prev.next, l.next.prev = l.next, l.prev
		if f.rings[l.band] == l {
			f.rings[l.band] = l.next
		}
	}
	l.next, l.prev = nil, nil
}

func (f *fairness) top() int {
	for w := 3; w >= 0; w-- {
		if f.bitmap[w] != 0 {
			return w<<6 + bits.Len64(f.bitmap[w])
		}
	}
	return 0
}

// pop takes the head of the list whose turn it is, or the oldest of all heads.
func (f *fairness) pop(es *entries, oldest bool) uint32 {
	l := f.rings[f.top()-1]
	if oldest {
		l = f.oldest(es)
	} else {
		f.rings[l.band] = l.next
	}
	i := l.head - 1
	l.list.remove(es, i)
	f.n--
	if l.n--; l.n == 0 {
		f.exit(l) // the empty list stays with its tenant, for the next key of that band
	}
	return i
}

// oldest looks at every head, once in sixteen dispatches.
func (f *fairness) oldest(es *entries) *flow {
	var found *flow
	var first int64
	for _, ring := range f.rings {
		if ring == nil {
			continue
		}
		for l := ring; ; {
			if at := es.at(l.head - 1).when; found == nil || at < first {
				found, first = l, at
			}
			if l = l.next; l == ring {
				break
			}
		}
	}
	return found
}

// running counts a tenant's running keys and tells whether its ready keys may
// run now that could not before.
func (f *fairness) running(tenant uint32, by int) bool {
	t := f.of[tenant-1]
	t.running += by
	return f.admit(t)
}

// admit takes a tenant out of the rings, or back in.
func (f *fairness) admit(t *tenantState) bool {
	barred := t.paused != nil || f.cap > 0 && t.running >= f.cap
	if barred == t.barred {
		return false
	}
	t.barred = barred
	for _, l := range t.flows {
		switch {
		case l.n == 0:
		case barred:
			f.exit(l)
			f.n -= l.n
		default:
			f.enter(l)
			f.n += l.n
		}
	}
	return !barred
}

// join makes an entry a key of the tenant.
func (s *shard[K]) join(i uint32, name string) {
	d := s.side(i)
	if d.tenant == 0 {
		d.tenant = s.ready.fair.number(name)
		s.ready.fair.of[d.tenant-1].keys++
	}
}

// leave is called when the entry's key is forgotten.
func (s *shard[K]) leave(i uint32) {
	if n := s.sides.of(i).tenant; n != 0 {
		s.ready.fair.of[n-1].keys--
		s.ready.fair.forget(n)
	}
}

func (f *fairness) depths(to *[maxBands]int) {
	for _, t := range f.of {
		if t == nil {
			continue
		}
		for b, l := range t.flows {
			to[b] += l.n
		}
	}
}

func (t *tenantState) depth() (n int) {
	for _, l := range t.flows {
		n += l.n
	}
	return n
}
