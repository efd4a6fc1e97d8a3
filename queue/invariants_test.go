package queue

import (
	"fmt"
	"testing"
)

// checkInvariants looks at everything that must be true of a queue whenever no
// lock is held, and reports what is not.
func checkInvariants[K comparable](t testing.TB, q *Queue[K]) {
	t.Helper()
	for k := range q.shards.all {
		q.shards.all[k].mu.Lock()
		defer q.shards.all[k].mu.Unlock()
	}
	var f faults
	for k, c := range q.keepers {
		verifyKeeper[K](c, &f)
		if v, top := q.shards.top(k), c.s.ready.top(); v != top {
			f.want(false, "shard %d shows band %d, has %d", k, v, top)
		}
	}
	held := q.keepers[0].whole.lasts()
	f.want(held == (q.env.may()&paused != 0) && held == (q.env.heldBy.Load() != nil), "the queue is held: %v, but the word is %b", held, q.env.may())
	for _, err := range f {
		t.Error(err)
	}
}

// faults collects what is wrong.
type faults []string

func (f *faults) want(ok bool, format string, args ...any) {
	if !ok && len(*f) < 10 {
		*f = append(*f, fmt.Sprintf(format, args...))
	}
}

// census is what a walk over the slab finds.
type census struct {
	count             [states]int
	live, records     int
	timed, ages       int
	tenants, running  map[uint32]int
	throttled         map[int64]int
	out, blocked      map[int64]int // keys that a line let go
	limited, unlisted int           // holds with a maximum, without
	began             map[int64]int // runs by the time at which they began
}

func verifyKeeper[K comparable](k *keeper, f *faults) {
	s := k.s
	c := census{tenants: map[uint32]int{}, running: map[uint32]int{}, throttled: map[int64]int{}, out: map[int64]int{}, blocked: map[int64]int{}, began: map[int64]int{}}
	for n := range s.chunks {
		for at := uint32(0); s.chunks[n].first != nil && at < uint32(s.places); at++ {
			if i := uint32(n)<<chunkBits | at; s.at(i).state != absent {
				inspectEntry[K](k, i, f, &c)
			}
		}
	}
	f.want(c.count == s.count, "keys by state %v, counted %v", c.count, s.count)
	f.want(c.live == s.inUse(), "%d entries live, %d places in use", c.live, s.inUse())
	f.want(c.live == s.table.words(), "%d entries live, %d in the table", c.live, s.table.words())
	f.want(c.records == s.recordsInUse(), "%d entries with a record, %d records", c.records, s.recordsInUse())
	f.want(c.timed == s.timed.n, "%d entries wait for a time, %d in the heap", c.timed, s.timed.n)
	f.want(int(s.running.runs()) == c.ages, "%d keys run, %d have an age", c.ages, s.running.runs())
	n, before := s.running.here, int64(-1)
	f.want(n == int64(c.began[s.running.at]), "%d runs began last, counted %d", c.began[s.running.at], n)
	for _, b := range s.running.blocks {
		for _, x := range b.cells[b.at:] {
			at := int64(x.seq())
			f.want(x.i > 0 && int(x.i) == c.began[at] && at > before && at < s.running.at, "%d runs began at %d, counted %d", c.began[at], at, x.i)
			n, before = n+int64(x.i), at
		}
	}
	f.want(n == int64(c.ages), "%d runs have an age, want %d", n, c.ages)
	f.want(s.fx == 0, "something was not done after the lock")
	f.want(s.moment == 0, "the time of a critical section outlives it")
	f.want(s.most <= maxTouched, "%d entries and cells were touched in one critical section", s.most)
	verifyHeap(f, "times", s.timed)
	s.verifyOrder(f, s.ready, StateReady, c.count[StateReady])
	for number, l := range k.lines {
		f.want(l.bucket.ID() == number, "bucket %s: its line is lost", l.bucket.Name())
		f.want(l.admitted == c.out[number] && l.blocked == c.blocked[number], "bucket %s: %d keys are out, %d of blocked tenants, counted %d, %d", l.bucket.Name(), c.out[number], c.blocked[number], l.admitted, l.blocked)
		f.want(c.throttled[number] > 0 || l.admitted > 0, "bucket %s: an empty line is kept", l.bucket.Name())
		s.verifyOrder(f, l.order, StateThrottled, c.throttled[number])
		delete(c.throttled, number)
		delete(c.out, number)
	}
	f.want(len(c.throttled) == 0 && len(c.out) == 0, "entries wait in lines that are gone: %v, %v", c.throttled, c.out)
	verifyHeap(f, "lines", k.byWake)
	f.want(k.byWake.n == len(k.lines), "%d lines wait, of %d", k.byWake.n, len(k.lines))
	for _, t := range k.roster.of {
		if t == nil {
			continue
		}
		f.want(t.keys == c.tenants[t.number], "tenant %s: %d keys, counted %d", t.name, c.tenants[t.number], t.keys)
		f.want(t.running == c.running[t.number], "tenant %s: %d running, counted %d", t.name, c.running[t.number], t.running)
		f.want(t.keys > 0 || t.holds.lasts(), "tenant %s is kept for nothing", t.name)
		blocked := t.holds.lasts() || k.roster.cap > 0 && t.running >= k.roster.cap
		f.want(t.blocked == blocked, "tenant %s is blocked: %v, want %v", t.name, t.blocked, blocked)
		if t.holds != nil {
			f.want(t.holds.lasts(), "tenant %s has a set of no holds", t.name)
			c.holds(f, t.holds)
		}
	}
	c.holds(f, &k.whole)
	verifyHeap(f, "holds", k.expiry)
	f.want(k.expired == nil, "the hooks of expired holds were not called")
	f.want(c.limited == k.expiry.n, "%d holds have a maximum, %d are watched", c.limited, k.expiry.n)
}

func (c *census) holds(f *faults, set *holdSet) {
	for x := set.holds.Front(); x != nil; x = x.Next() {
		h := x.Value.(*heldBack)
		f.want(h.set == set, "a hold is in another set")
		if h.until == never {
			c.unlisted++
		} else {
			c.limited++
		}
		f.want(h.name == "" || set.named[h.name] == h, "two holds over one scope are named %q", h.name)
	}
}

func inspectEntry[K comparable](k *keeper, i uint32, f *faults, c *census) {
	s := k.s
	e := s.at(i)
	c.live++
	c.count[e.state]++
	found, _, _ := find(s, e.hash, &withKey[K](e).key)
	f.want(found == i, "entry %d is not found by its key", i)
	f.want(e.state == StateRunning || !e.is(duringRun|asked), "entry %d is %v with flags %b", i, e.state, e.flags)
	f.want(!e.is(urgent) || e.is(added), "entry %d is urgent, but not added", i)
	f.want(e.is(asked) == (s.env.asks && e.state == StateRunning && e.is(asked)), "entry %d is asked about", i)
	if e.is(admitted) {
		f.want(e.state == StateReady || e.is(asked), "entry %d is %v and admitted", i, e.state)
		line := s.record(i).was.line
		c.out[line]++
		if t := k.tenantOf(i, e); t != nil && t.blocked {
			c.blocked[line]++
		}
	}
	switch e.state {
	case StateRunning:
		f.want(e.order >= 1<<63, "entry %d has no number of a run", i)
		if !e.is(asked) {
			c.ages++
			c.began[e.since()]++
		}
	case StateDelayed, StateBackingOff:
		c.timed++
		f.want(e.due > 0, "entry %d waits for no time", i)
	case StateThrottled:
		c.throttled[e.due]++
	case StateReady:
		f.want(!k.isHeld(i, e), "entry %d is ready and held", i)
		f.want(e.due == 0, "entry %d is ready for line %d", i, e.due)
	case StateHeld:
		f.want(e.due == 0 && (k.isHeld(i, e) || s.env.may().phase() != open), "entry %d is held by nothing", i)
	case StateIdle:
		f.want(k.isHeld(i, e), "entry %d is idle for no reason", i)
		if e.due != 0 {
			c.timed++
		}
	}
	if !e.is(recorded) {
		return
	}
	c.records++
	r := s.record(i)
	f.want(*r != record{}, "entry %d has an empty record", i)
	if x := r.extra; x != nil && x.holds != nil {
		c.holds(f, x.holds)
	}
	if r.tenant != 0 {
		c.tenants[r.tenant]++
		if e.state == StateRunning {
			c.running[r.tenant]++
		}
	}
}

func (s *shard) verifyOrder(f *faults, order order, in State, want int) {
	f.want(order.size() == want, "%d keys are %v, %d in their order", want, in, order.size())
	o, ok := order.(*bands)
	if !ok {
		s.verifyPlain(f, order.(*plain), in)
		return
	}
	n, held, flows := 0, 0, 0
	perBand := map[uint8]int{}
	chained := map[*flow]bool{}
	inspect := func(g *group) {
		inFlows := 0
		for x := g.flows; x != nil; x = x.sibling {
			keys, band := x.deque.n, x.band.is
			verifyDeque(f, &x.deque, func(e *entry) bool { return e.state == in && e.band == band }, s)
			f.want(x.group == g, "tenant %s band %d: the flow is another's", g.tenant.name, band)
			f.want((x.next != nil) == (keys > 0 && !g.blocked), "tenant %s band %d: in circle %v with %d keys", g.tenant.name, band, x.next != nil, keys)
			f.want(x.at == 0 || x.next != nil, "tenant %s band %d: its place by age is %d", g.tenant.name, band, x.at)
			f.want(x.next == nil || x.oldest == x.first().seq(), "tenant %s band %d: its age is not that of its head", g.tenant.name, band)
			if x.next != nil && x.at == 0 {
				chained[x] = true
			}
			inFlows += keys
			perBand[band] += keys
			if x.at != 0 {
				flows++
			}
		}
		n += inFlows
		f.want(g.n == inFlows, "tenant %s: %d keys in flows, counted %d", g.tenant.name, inFlows, g.n)
		if g.blocked {
			held += inFlows
		}
		f.want(o.groups == nil || inFlows > 0 || g.blocked, "tenant %s has a group for nothing", g.tenant.name)
	}
	for number, g := range o.groups {
		f.want(g.tenant.number == number && o.roster.of[number-1] == g.tenant, "tenant %s is lost", g.tenant.name)
		inspect(g)
	}
	for at, t := range o.roster.of {
		if t != nil && o.groups == nil {
			f.want(t.number == uint32(at)+1 && t.ready.tenant == t && t.ready.blocked == t.blocked, "tenant %s is lost", t.name)
			inspect(&t.ready)
		}
	}
	f.want(n == o.n && held == o.blocked, "%d keys in flows, %d of blocked tenants, counted %d and %d", n, held, o.n, o.blocked)
	for k, x := range o.all {
		f.want(k == 0 || o.all[k-1].is > x.is, "bands are not in order")
		f.want(x.n == perBand[x.is], "band %d: %d keys, counted %d", x.is, perBand[x.is], x.n)
	}
	f.want(flows == o.byAge.n, "%d flows, %d ordered by age", flows, o.byAge.n)
	verifyHeap(f, "flows", o.byAge)
	last, inChain := &o.ends, 0
	for x := last.newer; x != &o.ends; last, x = x, x.newer {
		f.want(x.older == last && (last == &o.ends || last.oldest < x.oldest), "the chain of flows is not in order")
		f.want(chained[x], "a flow is in the chain that should not be")
		inChain++
	}
	f.want(o.ends.older == last && inChain == len(chained), "%d flows in the chain, want %d", inChain, len(chained))
}

// verifyPlain looks at an order without tenants.
func (s *shard) verifyPlain(f *faults, o *plain, in State) {
	n, best := 0, (*lane)(nil)
	for k, l := range o.lanes {
		f.want(k == 0 || o.lanes[k-1].is > l.is, "lanes are not in order")
		verifyDeque(f, &l.deque, func(e *entry) bool { return e.state == in && e.band == l.is }, s)
		if n += l.n; l.n > 0 && best == nil {
			best = l
		}
	}
	f.want(n == o.n, "%d keys in lanes, counted %d", n, o.n)
	f.want(best == o.best, "the best lane is another one")
}

// flows are all that have keys or had some.
func (o *bands) flows() (all []*flow) {
	var groups []*group
	for _, g := range o.groups {
		groups = append(groups, g)
	}
	for _, t := range o.roster.of {
		if t != nil && o.groups == nil {
			groups = append(groups, &t.ready)
		}
	}
	for _, g := range groups {
		for f := g.flows; f != nil; f = f.sibling {
			all = append(all, f)
		}
	}
	return all
}

// verifyDeque looks at a deque whose keys are all as they should be.
func verifyDeque(f *faults, d *deque, fits func(e *entry) bool, s *shard) {
	n, places, seq := 0, 0, uint64(0)
	for _, b := range d.blocks {
		f.want(len(b.cells) > b.at || len(d.blocks) == 1, "a deque of %d keys has an empty block", d.n)
		for _, c := range b.cells[b.at:] {
			e := s.at(c.i)
			f.want(fits(e) && e.order == c.seq(), "entry %d is %v in band %d with number %d, and %d in a deque of others", c.i, e.state, e.band, e.order, c.seq())
			f.want(c.seq() > seq, "entry %d is older than the one before it", c.i)
			seq = c.seq()
			n++
		}
		places += cap(b.cells)
	}
	f.want(n == d.n, "%d keys in a deque, counted %d", n, d.n)
	f.want(places <= 2*n+mostPlaces, "a deque of %d keys has room for %d", n, places)
}

// mostPlaces is how many places for cells a deque has beyond two for each key, at most.
const mostPlaces = 1024

func verifyHeap[T any](f *faults, what string, h heap[T]) {
	for k := range h.n {
		f.want(h.by.place(*h.at(k)) == k+1, "%s: an element of the heap does not know its place", what)
		f.want(k == 0 || !h.by.before(*h.at(k), *h.at((k - 1) / heapChildren)), "%s: the heap is not in order", what)
	}
	f.want(len(h.chunks) <= h.n/heapChunk+2, "%s: %d chunks for %d elements", what, len(h.chunks), h.n)
}

// inUse and words count what is in use: nothing else asks, and a counter would cost
// each cycle a write.
func (s *slab) inUse() (n int) {
	for c := range s.chunks {
		n += int(s.chunks[c].n)
	}
	return n
}

// memory is how many chunks have memory.
func (s *slab) memory() (n int) {
	for _, c := range s.chunks {
		if c.first != nil {
			n++
		}
	}
	return n
}

// recordsInUse is how many records there are.
func (s *slab) recordsInUse() (n int) {
	for _, c := range s.chunks {
		for _, r := range c.records {
			if r != nil {
				n++
			}
		}
	}
	return n
}

func (t *table) words() (n int) {
	var last *segment
	for _, s := range t.dir {
		if s != last {
			n += int(s.n)
		}
		last = s
	}
	return n
}
