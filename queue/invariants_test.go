package queue

import (
	"fmt"
	"testing"
)

// checkInvariants looks at everything that must be true of a queue whenever no
// lock is held, and reports what is not.
func checkInvariants[K comparable](t testing.TB, q *Queue[K]) {
	t.Helper()
	var some, above, below uint64
	for k := range q.shards {
		q.shards[k].mu.Lock()
	}
	for k := range q.shards {
		s := &q.shards[k]
		for _, err := range s.verify() {
			t.Errorf("shard %d: %s", k, err)
		}
		switch {
		case s.top == 0:
			continue
		case s.top > middle+1:
			above |= 1 << k
		case s.top <= middle:
			below |= 1 << k
		}
		some |= 1 << k
		if v := q.shown.top[k].Load(); s.top != middle+1 && v != s.top && len(q.shards) > 1 {
			t.Errorf("shard %d shows band %d, has %d", k, v, s.top)
		}
	}
	if v := &q.shown; len(q.shards) > 1 && (v.some.Load() != some || v.above.Load() != above || v.below.Load() != below) {
		t.Errorf("shards %b show something, %b above, %b below, but have %b, %b, %b",
			v.some.Load(), v.above.Load(), v.below.Load(), some, above, below)
	}
	for k := range q.shards {
		q.shards[k].mu.Unlock()
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
	count           [states]int
	live            int
	inside, rare    int
	timed           int
	tenants, onLoan map[uint32]int
}

func (s *shard[K]) verify() []string {
	var f faults
	c := s.census(&f)
	for st := StateIdle; st < states; st++ {
		f.want(c.count[st] == s.counted(st), "%d keys are %v, counted %d", c.count[st], st, s.counted(st))
	}
	f.want(c.live == s.slots.inUse()-s.spare(), "%d entries live, %d slots in use", c.live, s.slots.inUse()-s.spare())
	f.want(c.live == s.table.words(), "%d entries live, %d in the table", c.live, s.table.words())
	f.want(c.inside == s.sides.slots.inUse(), "%d entries with a side, %d sides", c.inside, s.sides.slots.inUse())
	f.want(c.rare == len(s.rares), "%d rare entries, %d records", c.rare, len(s.rares))
	f.want(c.timed == s.wheel.n, "%d entries wait for a time, %d in the wheel", c.timed, s.wheel.n)
	s.verifyWheel(&f)
	s.verifyReady(&f, &c)
	s.verifyWaiting(&f, &c)
	s.verifySlots(&f)
	f.want(int(s.top) == s.ready.top(), "shows band %d, has %d", s.top, s.ready.top())
	f.want(!s.loud && s.expired == nil, "something was not done after the lock")
	return f
}

// spare is 1 if a free slot is kept as the hot one.
func (s *shard[K]) spare() int {
	if s.hot != 0 {
		return 1
	}
	return 0
}

func (s *shard[K]) census(f *faults) census {
	c := census{tenants: map[uint32]int{}, onLoan: map[uint32]int{}}
	for n, chunk := range s.chunks {
		if chunk == nil {
			continue
		}
		for k := range chunk {
			if i := uint32(n)<<chunkBits | uint32(k); chunk[k].state != free {
				s.inspect(i, f, &c)
			}
		}
	}
	return c
}

func (s *shard[K]) inspect(i uint32, f *faults, c *census) {
	e := s.at(i)
	c.live++
	c.count[e.state]++
	found, _, ok := s.find(e.hash, s.key(i))
	f.want(ok && found == i, "entry %d is not found by its key", i)
	f.want(e.state == StateRunning || !e.is(added|urgent|removed|raised), "entry %d is %v with flags %b", i, e.state, e.flags)
	f.want(!e.is(urgent) || e.is(added), "entry %d is urgent, but not added", i)
	switch e.state {
	case StateDelayed, StateBackingOff:
		c.timed++
		f.want(e.when > 0, "entry %d waits for no time", i)
	case StateIdle, StateHeld:
		f.want(e.is(israre), "entry %d is %v for no reason", i, e.state)
		if e.when != 0 {
			c.timed++
		}
	}
	if e.is(israre) {
		c.rare++
		f.want(s.rares[i] != nil, "entry %d has no rare record", i)
	}
	if e.is(inside) {
		c.inside++
		if t := s.sides.of(i).tenant; t != 0 {
			c.tenants[t]++
			if e.state == StateRunning {
				c.onLoan[t]++
			}
		}
	}
}

func (s *shard[K]) verifyWheel(f *faults) {
	n := 0
	for level := range s.wheel.slots {
		for slot, l := range s.wheel.slots[level] {
			bit := s.wheel.bitmap[level][slot>>6]>>(slot&63)&1 == 1
			f.want(bit == (l.head != 0), "wheel slot %d/%d: bit %v, head %d", level, slot, bit, l.head)
			link := slotLink | uint32(level)<<8 | uint32(slot)
			prev := link
			for i := l.head; i != 0 && i&slotLink == 0; i = s.at(i - 1).next {
				f.want(s.at(i-1).prev == prev, "wheel slot %d/%d: links disagree", level, slot)
				f.want(s.at(i-1).when>>tickBits>>(8*level) >= s.wheel.tick>>(8*level) || level == 0, "entry %d was passed by", i-1)
				f.want(s.at(i-1).when >= s.wheel.wake || s.closed, "entry %d is due before the wheel wakes", i-1)
				prev = i
				n++
			}
			f.want(l.head == 0 || s.at(l.tail-1).next == link, "wheel slot %d/%d: bad end", level, slot)
		}
	}
	f.want(n == s.wheel.n, "%d entries in the wheel's slots, counted %d", n, s.wheel.n)
}

func (s *shard[K]) verifyReady(f *faults, c *census) {
	if s.ready.fair == nil {
		n := verifyBands(f, &s.entries, &s.ready.bands, StateReady)
		f.want(n == c.count[StateReady], "%d entries in the ready bands, %d ready", n, c.count[StateReady])
		return
	}
	n, free := 0, 0
	for k, t := range s.ready.fair.of {
		if t == nil {
			continue
		}
		id := uint32(k + 1)
		f.want(t.keys == c.tenants[id], "tenant %s: %d keys, counted %d", t.name, c.tenants[id], t.keys)
		f.want(t.running == c.onLoan[id], "tenant %s: %d running, counted %d", t.name, c.onLoan[id], t.running)
		f.want(t.keys > 0 || t.paused != nil, "tenant %s is kept for nothing", t.name)
		for band, l := range t.flows {
			m := verifyList(f, &s.entries, l.list, StateReady, band)
			f.want(m == l.n, "tenant %s band %d: %d keys, counted %d", t.name, band, m, l.n)
			f.want((l.next != nil) == (m > 0 && !t.barred), "tenant %s band %d: in ring %v with %d keys", t.name, band, l.next != nil, m)
			n += m
			if !t.barred {
				free += m
			}
		}
	}
	f.want(n == c.count[StateReady], "%d entries in flows, %d ready", n, c.count[StateReady])
	f.want(free == s.ready.fair.n, "%d entries may run, counted %d", free, s.ready.fair.n)
}

func (s *shard[K]) verifyWaiting(f *faults, c *census) {
	n := 0
	for b, w := range s.throttling.lists {
		f.want(w.bucket == b && s.throttling.byID[w.id-1] == w, "bucket %s: list is lost", b.name)
		f.want(w.top() > 0, "bucket %s: an empty list is kept", b.name)
		f.want(s.throttling.wake <= w.wake, "bucket %s: wakes after the shard", b.name)
		n += verifyBands(f, &s.entries, &w.bands, StateThrottled)
	}
	f.want(n == c.count[StateThrottled], "%d entries wait for buckets, %d are throttled", n, c.count[StateThrottled])
}

func verifyBands(f *faults, es *entries, b *bands, in State) (n int) {
	for band := range b.lanes {
		l := b.lane(uint8(band))
		m := verifyList(f, es, l.list, in, uint8(band))
		f.want(m == int(l.n), "band %d: %d keys, counted %d", band, m, l.n)
		bit := b.bitmap[band>>6]>>(band&63)&1 == 1
		f.want(bit == (m > 0), "band %d: bit %v with %d keys", band, bit, m)
		n += m
	}
	return n
}

func verifyList(f *faults, es *entries, l list, in State, band uint8) (n int) {
	prev, seq := uint32(0), int64(-1)
	for i := l.head; i != 0; i = es.at(i - 1).next {
		e := es.at(i - 1)
		f.want(e.prev == prev, "entry %d: links disagree", i-1)
		f.want(e.state == in && e.band() == band, "entry %d is %v in band %d, in the list of %v in %d", i-1, e.state, e.band(), in, band)
		f.want(e.when >= seq, "entry %d is older than the one before it", i-1)
		prev, seq = i, e.when
		n++
	}
	f.want(l.tail == prev, "list ends at %d, not at %d", prev, l.tail)
	return n
}

// inUse and words count what is in use: nobody else asks, and a counter would cost
// each cycle a write.
func (s *slots) inUse() (n int) {
	for c := range s.chunk {
		n += int(s.chunk[c].live)
	}
	return n
}

func (t *table) words() (n int) {
	var last *fill
	for _, s := range t.dir {
		if s.fill != last {
			n += int(s.fill.n)
		}
		last = s.fill
	}
	return n
}

func (s *shard[K]) verifySlots(f *faults) {
	for n := range s.slots.chunk {
		live := 0
		if s.chunks[n] == nil {
			continue
		}
		for k := range s.chunks[n] {
			used := s.slots.chunk[n].free[k>>6]>>(k&63)&1 == 0
			hot := uint32(n)<<chunkBits|uint32(k) == s.hot-1
			f.want(used == (hot || s.chunks[n][k].state != free), "slot %d of chunk %d: used %v", k, n, used)
			if used {
				live++
			}
		}
		f.want(live == int(s.slots.chunk[n].live), "chunk %d: %d live, counted %d", n, live, s.slots.chunk[n].live)
	}
}
