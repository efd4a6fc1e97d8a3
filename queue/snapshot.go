package queue

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"
)

// Entry is what a queue knows about a key.
type Entry[K comparable] struct {
	Key       K
	State     State
	Since     time.Time // in that state, to a microsecond; in a busy queue up to two milliseconds early
	Attempts  int       // failures in a row
	Next      time.Time // when it runs next; zero: not by time
	LastError error     // of the last run, until one succeeds; its text is cut to 1,024 bytes
	Reasons   []string  // given by adds since the last run
	Priority  Priority
	Tenant    string
	// Why says why a key that is to run does not: held for which reason, throttled
	// by which bucket, backing off or parked.
	Why string
}

// maxErrorText is how many bytes of an error's text a Snapshot shows.
const maxErrorText = 1024

// briefError cuts the text of an error when it is asked for it: an Error method is
// user code, and entries are described under a lock.
type briefError struct{ err error }

func (e briefError) Unwrap() error { return e.err }

func (e briefError) Error() string {
	text := e.err.Error()
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText-len("…")], "") + "…"
	}
	return text
}

// Snapshot yields every key. It is not of one instant: it walks the queue in
// steps that hold a lock for less than a millisecond. A key that is in the queue
// throughout appears exactly once, in a state that it had during the walk. Use
// Stats for exact totals.
func (q *Queue[K]) Snapshot() iter.Seq[Entry[K]] {
	return func(yield func(Entry[K]) bool) {
		p := pager[K]{PageOptions: PageOptions{Limit: math.MaxInt}, last: lastCursor}
		for place := uint64(0); q.has(place); {
			p.found = p.found[:0]
			place = p.look(q, place)
			for _, c := range p.found {
				if !yield(c.Entry) {
					return
				}
			}
		}
	}
}

// viewOf is what a queue knows of an entry.
func viewOf[K comparable](k *keeper, i uint32) Entry[K] {
	s := k.s
	e := s.at(i)
	x := Entry[K]{
		Key: withKey[K](e).key, State: e.state, Since: s.env.timeSince(e.since()),
		Attempts: int(e.attempts), Priority: atBand(e.band),
	}
	if e.is(recorded) {
		r := s.record(i)
		if r.err != nil {
			x.LastError = briefError{r.err}
		}
		x.Reasons = s.reasonsOf(r.reasons)
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
func (k *keeper) why(i uint32, e *entry) string {
	switch {
	case k.s.env.may().phase() != open && e.state != StateRunning:
		return "shut down"
	case k.isHeld(i, e):
		return "held: " + *k.s.record(i).holds.reason()
	case e.state == StateThrottled:
		return "throttled by " + k.lines[e.due].bucket.Name()
	case e.state == StateBackingOff || e.state == StateParked:
		return e.state.String()
	case e.state != StateReady:
		return ""
	}
	if by := k.s.env.heldBy.Load(); by != nil {
		return "queue held: " + *by
	}
	switch t := k.tenantOf(i, e); {
	case t == nil || !t.blocked:
		return ""
	case t.holds.lasts():
		return "tenant held: " + *t.holds.reason()
	}
	return "tenant runs as many as it may"
}

// PageOptions say which keys a Page holds. Nil and the zero value are the first hundred.
type PageOptions struct {
	// States are those of the keys that are wanted. Default: all.
	States []State
	// Failed wants only keys whose last run failed.
	Failed bool
	// Order is how they are sorted. Default ByPlace.
	Order Order
	// Limit is how many keys a page holds. Default 100, at most 1,000.
	Limit int
	// From is where to go on: Page.Next of the page before, made with the same
	// options and match. Default: at the start.
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

// Page is what some keys of a queue are, each as an [Entry] or as what a caller made of it.
type Page[E any] struct {
	Entries []E
	Next    Cursor // where to go on, if More
	More    bool   // there may be further keys
	Looked  int    // keys that were there to choose from
}

const (
	defaultPage = 100
	maxPage     = 1000
)

// Page returns some of the keys, for pages that people look at: with a match only keys for which
// that is true, which is called without a lock. However many keys
// there are, it keeps no more than a page of them, and holds a lock only for a
// thousand at a time; like Snapshot it is not of one instant. Looking at a million
// takes some milliseconds, and match in addition.
//
// The end of ctx ends a page ByPlace early: it holds what was found until then, and
// Next goes on. In the other orders half a look is no page, and Page returns the
// cause. It fails as well on options that make no sense.
func (q *Queue[K]) Page(ctx context.Context, match func(key K) bool, o *PageOptions) (page Page[Entry[K]], err error) {
	p := pager[K]{match: match, last: lastCursor}
	if o != nil {
		p.PageOptions = *o
	}
	p.Limit = cmp.Or(p.Limit, defaultPage)
	switch {
	case p.Order >= orders:
		return page, fmt.Errorf("queue: %s: Page: Order is %d, which is none", q.opts.Name, p.Order)
	case p.Limit < 0 || p.Limit > maxPage:
		return page, fmt.Errorf("queue: %s: Page: Limit is %d, want 0 to %d", q.opts.Name, p.Limit, maxPage)
	case slices.ContainsFunc(p.States, func(s State) bool { return s == absent || s >= states }):
		return page, fmt.Errorf("queue: %s: Page: States are %d, of which one is no state of a key", q.opts.Name, p.States)
	}
	byPlace, place := p.Order == ByPlace, uint64(0)
	if byPlace {
		p.From.Rank, place = 0, p.From.Place
	}
	for q.has(place) && !(byPlace && len(p.found) > p.Limit) {
		if ctx.Err() != nil {
			if !byPlace {
				return page, fmt.Errorf("queue: %s: Page: %w", q.opts.Name, context.Cause(ctx))
			}
			page.More, page.Next.Place = true, place
			break
		}
		before := len(p.found)
		place = p.look(q, place)
		p.choose(before)
	}
	if len(p.found) > p.Limit {
		p.found = p.found[:p.Limit]
		page.More, page.Next = true, p.found[p.Limit-1].Cursor
		page.Next.Place++
	}
	for _, c := range p.found {
		page.Entries = append(page.Entries, c.Entry)
	}
	page.Looked = p.looked
	return page, nil
}

// Lookup is what the queue knows of one key; not ok: nothing.
func (q *Queue[K]) Lookup(key K) (e Entry[K], ok bool) {
	ok = q.with(key, func(s *shard, i uint32, _ *entry) bool {
		e = viewOf[K](q.keepers[s.id], i)
		return true
	})
	return e, ok
}

// candidate is a key that may be on a page.
type candidate[K comparable] struct {
	Cursor
	Entry[K]
}

// pager makes a page: it looks at chunk after chunk of the entries. A place is the number
// of a shard in the upper and the index of an entry in the lower half.
type pager[K comparable] struct {
	PageOptions
	match  func(K) bool // nil: all keys are wanted
	looked int
	found  []candidate[K] // sorted; one more than the page shows if there are more
	last   Cursor         // what comes after it is not on the page
}

var lastCursor = Cursor{math.MaxInt64, math.MaxUint64}

func (c Cursor) compare(o Cursor) int {
	return cmp.Or(cmp.Compare(c.Rank, o.Rank), cmp.Compare(c.Place, o.Place))
}

// has tells whether a place is in one of the shards.
func (q *Queue[K]) has(place uint64) bool { return place>>32 < uint64(len(q.keepers)) }

// look adds the candidates of one chunk to those found, and gives the place where the
// next chunk begins.
func (p *pager[K]) look(q *Queue[K], place uint64) (next uint64) {
	k := q.keepers[place>>32]
	s := k.s
	s.mu.Lock()
	defer s.mu.Unlock()
	n := uint32(place) >> chunkBits
	if int(n) >= len(s.chunks) {
		return (place>>32 + 1) << 32
	}
	place = place >> chunkBits << chunkBits
	next = place + 1<<chunkBits
	if s.chunks[n].first == nil {
		return next
	}
	for at := range s.places {
		i := uint32(place) + uint32(at)
		e := s.at(i)
		c := Cursor{p.rank(e), place + uint64(at)}
		if e.state != absent && p.wants(k, i, e, c) {
			p.found = append(p.found, candidate[K]{c, viewOf[K](k, i)})
		}
	}
	return next
}

// wants tells whether an entry may be on the page.
func (p *pager[K]) wants(k *keeper, i uint32, e *entry, at Cursor) bool {
	p.looked++
	switch {
	case len(p.States) > 0 && !slices.Contains(p.States, e.state),
		p.Failed && !(e.is(recorded) && k.s.record(i).err != nil),
		p.Order == ByPlace && p.match == nil && len(p.found) > p.Limit:
		return false
	}
	return at.compare(p.From) >= 0 && at.compare(p.last) <= 0
}

// rank is that of an entry in the order of the page.
func (p *pager[K]) rank(e *entry) int64 {
	switch p.Order {
	case ByAge:
		return e.since()
	case ByFailures:
		return math.MaxUint16 - int64(e.attempts)
	case ByNext:
		if e.state == StateDelayed || e.state == StateBackingOff {
			return e.due
		}
		return never
	}
	return 0
}

// choose keeps what match wants of the candidates that came after the first ones, and of
// all of them as many as can be on the page, and one more.
func (p *pager[K]) choose(first int) {
	if p.match != nil {
		fresh := slices.DeleteFunc(p.found[first:], func(c candidate[K]) bool { return !p.match(c.Key) })
		p.found = p.found[:first+len(fresh)]
	}
	slices.SortFunc(p.found, func(a, b candidate[K]) int { return a.compare(b.Cursor) })
	if len(p.found) > p.Limit {
		p.found = p.found[:p.Limit+1]
		p.last = p.found[p.Limit].Cursor
	}
}
