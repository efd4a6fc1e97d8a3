package queue

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
	"unicode/utf8"
)

// Entry is what a queue knows about a key.
type Entry[K comparable] struct {
	Key       K
	State     State
	Since     time.Time // in that state, to some milliseconds
	Attempts  int       // failures in a row
	Next      time.Time // when it runs next; zero: not by time
	LastError error     // of the last run, until one succeeds; its text is cut to MaxErrorText
	Reasons   []string  // given by adds since the last run
	Priority  Priority
	Tenant    string
	// Why says why a key that is to run does not: held for which reason, throttled
	// by which bucket, backing off or parked.
	Why string
}

// MaxErrorText is how many bytes of an error's text a Snapshot shows.
const MaxErrorText = 1024

// briefError cuts the text of an error when it is asked for it: an Error method is
// user code, and entries are described under a lock.
type briefError struct{ err error }

func (e briefError) Unwrap() error { return e.err }

func (e briefError) Error() string {
	text := e.err.Error()
	if len(text) <= MaxErrorText {
		return text
	}
	n := MaxErrorText - len("…")
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// Snapshot yields every key. It is not of one instant: it walks the queue in
// steps that hold a lock for less than a millisecond. A key that is in the queue
// throughout appears exactly once, in a state that it had during the walk. Use
// Stats for exact totals.
func (q *Queue[K]) Snapshot() iter.Seq[Entry[K]] {
	return func(yield func(Entry[K]) bool) {
		var step []Entry[K]
		q.walk(0, func(uint64) bool {
			for _, e := range step {
				if !yield(e) {
					return false
				}
			}
			step = step[:0]
			return true
		}, func(k *keeper[K], place, now uint64) {
			step = append(step, k.describe(uint32(place), now))
		})
	}
}

// walk calls look under the lock for every entry from a place on, and step without
// the lock before each chunk, with the place where it begins, and at the end; it ends
// as well when that returns false. A place is the number of a shard in the upper and
// the index of an entry in the lower half.
func (q *Queue[K]) walk(place uint64, step func(next uint64) bool, look func(k *keeper[K], place, now uint64)) {
	for step(place) && place>>32 < uint64(len(q.keepers)) {
		k := q.keepers[place>>32]
		s := k.s
		size := uint64(1) << s.bits
		place &^= size - 1
		s.mu.Lock()
		n, now := uint32(place)>>s.bits, q.env.clock.Exact()
		there := int(n) < len(s.entries)
		if there {
			for at := range s.entries[n] {
				if s.entries[n][at].state != absent {
					look(k, place+uint64(at), now)
				}
			}
		}
		s.mu.Unlock()
		if place += size; !there {
			place = (place>>32 + 1) << 32
		}
	}
}

func (k *keeper[K]) describe(i uint32, now uint64) Entry[K] {
	s := k.s
	e := s.at(i)
	x := Entry[K]{
		Key: e.key, State: e.state, Since: s.env.clock.Begin(extend(e.since, now)),
		Attempts: int(e.attempts), Priority: atBand(e.band),
	}
	if e.is(recorded) {
		r := s.record(i)
		if r.err != nil {
			x.LastError = briefError{r.err}
		}
		x.Reasons = s.reasons.of(r.reasons)
		if t := k.tenantOf(i, e); t != nil {
			x.Tenant = t.name
		}
	}
	if e.state == StateDelayed || e.state == StateBackingOff || e.state == StateRunning && e.is(added) && e.due != 0 {
		x.Next = s.env.time(e.due)
	}
	x.Why = k.why(i, e)
	return x
}

// why says why the key does not run now.
func (k *keeper[K]) why(i uint32, e *entry[K]) string {
	if k.s.env.may().phase() != open && e.state != StateRunning {
		return "shut down"
	}
	if k.isHeld(i, e) {
		return "held: " + k.s.record(i).holds.first.reason
	}
	switch e.state {
	case StateThrottled:
		return "throttled by " + k.lines.byNumber[e.due-1].bucket.name
	case StateBackingOff:
		return "backing off"
	case StateParked:
		return "parked"
	case StateReady:
		return k.whyReady(i, e)
	}
	return ""
}

// whyReady says why a ready key does not run now.
func (k *keeper[K]) whyReady(i uint32, e *entry[K]) string {
	if by := k.s.env.heldBy.Load(); by != nil {
		return "queue held: " + *by
	}
	switch t := k.tenantOf(i, e); {
	case t == nil:
		return ""
	case t.holds.first != nil:
		return "tenant held: " + t.holds.first.reason
	case t.blocked:
		return "tenant runs as many as it may"
	}
	return ""
}

// PageOptions say which keys a Page holds. Nil and the zero value are the first hundred.
type PageOptions[K comparable] struct {
	// States are those of the keys that are wanted. Default: all.
	States []State
	// Failed wants only keys whose last run failed.
	Failed bool
	// Match wants only keys for which it is true. It is called without a lock.
	// Default: all.
	Match func(key K) bool
	// Order is how they are sorted. Default ByPlace.
	Order Order
	// Limit is how many keys a page holds. Default 100, at most 1,000.
	Limit int
	// From is where to go on: Page.Next of the page before, made with the same
	// options. Default: at the start.
	From Cursor
}

// Order is the order of the keys of a Page.
type Order uint8

// The orders. All but ByPlace look at every key for each page.
const (
	// ByPlace is as the keys lie in memory: it ends when the page is full, and no
	// key that is there throughout is missed or seen twice over all pages.
	ByPlace Order = iota
	// ByNext has the key whose timer ends first before the others; those that do
	// not wait for a timer come last.
	ByNext
	// ByAge has the key before that is in its state for longest.
	ByAge
	// ByFailures has the key before that failed most often in a row.
	ByFailures
	orders
)

// Cursor says where a page ended. It is plain data, to be kept in a link; the zero
// Cursor is the start.
type Cursor struct {
	Rank  int64  // in the order of the page
	Place uint64 // of the last key, plus one
}

// Page is some keys of a queue.
type Page[K comparable] struct {
	Entries []Entry[K]
	Next    Cursor // where to go on, if More
	More    bool   // there may be further keys
	Looked  int    // keys that were there to choose from
}

const (
	defaultPage = 100
	maxPage     = 1000
)

// Page returns some of the keys, for pages that people look at. However many keys
// there are, it keeps no more than a page of them, and holds a lock only for a
// thousand at a time; like Snapshot it is not of one instant. Looking at a million
// takes some milliseconds, and Match in addition.
//
// The end of ctx ends a page ByPlace early: it holds what was found until then, and
// Next goes on. In the other orders half a look is no page, and Page returns the
// cause. It fails as well on options that make no sense.
func (q *Queue[K]) Page(ctx context.Context, o *PageOptions[K]) (Page[K], error) {
	p := pager[K]{now: q.env.clock.Exact()}
	if o != nil {
		p.PageOptions = *o
	}
	if err := p.complete(); err != nil {
		return Page[K]{}, fmt.Errorf("queue: %s: Page: %w", q.opts.Name, err)
	}
	start := uint64(0)
	if p.Order == ByPlace {
		start = p.From.Place
	}
	stopped := false
	q.walk(start, func(next uint64) bool {
		p.sift()
		if stopped = ctx.Err() != nil && next>>32 < uint64(len(q.keepers)); stopped {
			p.next = Cursor{Place: next}
		}
		return !stopped && !p.full()
	}, p.consider)
	if stopped && p.Order != ByPlace {
		return Page[K]{}, fmt.Errorf("queue: %s: Page: %w", q.opts.Name, context.Cause(ctx))
	}
	return p.page(stopped), nil
}

// Lookup is what the queue knows of one key; not ok: nothing.
func (q *Queue[K]) Lookup(key K) (e Entry[K], ok bool) {
	hash := q.hash(key)
	k := q.keepers[hash>>58&q.shards.mask]
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	i, _, ok := k.s.find(uint32(hash), &key)
	if ok {
		e = k.describe(i, q.env.clock.Exact())
	}
	return e, ok
}

// pager makes a page.
type pager[K comparable] struct {
	PageOptions[K]
	states uint16 // bits of the states wanted
	now    uint64 // the tick in which it began
	looked int
	step   []candidate[K] // of one chunk
	found  []candidate[K]
	worst  *candidate[K] // of the last cut: what comes after it is of no use
	next   Cursor        // where to go on if there was no time for more
}

// full says that a page ByPlace has one key more than it shows, so that it is
// known that there are more.
func (p *pager[K]) full() bool { return p.Order == ByPlace && len(p.found) > p.Limit }

// candidate is a key that may be on the page.
type candidate[K comparable] struct {
	Cursor
	Entry[K]
}

func (c Cursor) compare(o Cursor) int {
	return cmp.Or(cmp.Compare(c.Rank, o.Rank), cmp.Compare(c.Place, o.Place))
}

func (p *pager[K]) complete() error {
	switch {
	case p.Order >= orders:
		return fmt.Errorf("Order is %d, which is none", p.Order)
	case p.Limit < 0 || p.Limit > maxPage:
		return fmt.Errorf("Limit is %d, want 0 to %d", p.Limit, maxPage)
	case p.Limit == 0:
		p.Limit = defaultPage
	}
	if p.Order == ByPlace {
		p.From.Rank = 0
	}
	for _, s := range p.States {
		if s == absent || s >= states {
			return fmt.Errorf("States holds %d, which is no state of a key", s)
		}
		p.states |= 1 << s
	}
	if len(p.States) == 0 {
		p.states = ^uint16(0)
	}
	return nil
}

// consider makes an entry a candidate if it is wanted. Its shard is locked.
func (p *pager[K]) consider(k *keeper[K], place, now uint64) {
	e := k.s.at(uint32(place))
	p.looked++
	if p.states&(1<<e.state) == 0 || p.Failed && !(e.is(recorded) && k.s.record(uint32(place)).err != nil) {
		return
	}
	at := Cursor{p.rank(e), place}
	if at.compare(p.From) < 0 || p.worst != nil && at.compare(p.worst.Cursor) > 0 {
		return
	}
	if p.Order == ByPlace && p.Match == nil && len(p.found)+len(p.step) > p.Limit {
		return
	}
	p.step = append(p.step, candidate[K]{at, k.describe(uint32(place), now)})
}

func (p *pager[K]) rank(e *entry[K]) int64 {
	switch {
	case p.Order == ByPlace:
		return 0
	case p.Order == ByAge:
		return int64(extend(e.since, p.now))
	case p.Order == ByFailures:
		return 1<<16 - 1 - int64(e.attempts)
	case e.state == StateDelayed || e.state == StateBackingOff:
		return e.due
	}
	return never
}

// sift keeps what Match wants of a chunk.
func (p *pager[K]) sift() {
	for _, c := range p.step {
		if !p.full() && (p.Match == nil || p.Match(c.Key)) {
			p.found = append(p.found, c)
		}
	}
	p.step = p.step[:0]
	if len(p.found) > 2*p.Limit {
		p.cut()
	}
}

// cut keeps what can still be on the page, and one more.
func (p *pager[K]) cut() {
	slices.SortFunc(p.found, func(a, b candidate[K]) int { return a.compare(b.Cursor) })
	if len(p.found) > p.Limit {
		worst := p.found[p.Limit]
		p.found, p.worst = p.found[:p.Limit+1], &worst
	}
}

func (p *pager[K]) page(more bool) Page[K] {
	p.cut()
	page := Page[K]{Looked: p.looked, More: more, Next: p.next}
	if len(p.found) > p.Limit {
		page.More, p.found = true, p.found[:p.Limit]
		page.Next = p.found[p.Limit-1].Cursor
		page.Next.Place++
	}
	for _, c := range p.found {
		page.Entries = append(page.Entries, c.Entry)
	}
	return page
}
