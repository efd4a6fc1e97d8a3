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
		for k, admission := range q.keepers {
			for c, more := 0, true; more; c++ {
				step, more = admission.snapshot(&q.shards.all[k], c, step[:0])
				for _, e := range step {
					if !yield(e) {
						return
					}
				}
			}
		}
	}
}

// snapshot appends the keys of chunk c; more says that there are further chunks.
func (k *keeper[K]) snapshot(s *shard[K], c int, to []Entry[K]) (_ []Entry[K], more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c >= len(s.chunks) {
		return to, false
	}
	now := s.env.clock.Exact()
	for n := range s.chunks[c].items {
		if i := uint32(c)<<s.bits | uint32(n); s.at(i).state != absent {
			to = append(to, k.describe(i, now))
		}
	}
	return to, true
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
		x.Reasons = s.reasons.list(r.reasons)
		if t := k.tenantOf(i); t != nil {
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
	if !e.is(recorded) {
		return ""
	}
	switch t := k.tenantOf(i); {
	case t == nil:
		return ""
	case t.holds.first != nil:
		return "tenant held: " + t.holds.first.reason
	case t.blocked:
		return "tenant runs as many as it may"
	}
	return ""
}

// PageOptions say which keys a Page holds. The zero value is the first hundred.
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
func (q *Queue[K]) Page(ctx context.Context, o PageOptions[K]) (Page[K], error) {
	w := walk[K]{PageOptions: o, q: q, now: q.env.clock.Exact(), size: 1 << q.shards.all[0].bits}
	if err := w.complete(); err != nil {
		return Page[K]{}, fmt.Errorf("queue: %s: Page: %w", q.opts.Name, err)
	}
	for w.at = w.start(); !w.full() && w.next(); w.at += w.size {
		if ctx.Err() != nil {
			if o.Order != ByPlace {
				return Page[K]{}, fmt.Errorf("queue: %s: Page: %w", q.opts.Name, context.Cause(ctx))
			}
			p := w.page()
			p.More, p.Next = true, Cursor{Place: max(w.at, o.From.Place)}
			return p, nil
		}
		w.chunk()
	}
	return w.page(), nil
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

// walk is the making of a page. A place is the number of a shard in the upper and
// the index of an entry in the lower half.
type walk[K comparable] struct {
	PageOptions[K]
	q      *Queue[K]
	states uint16 // bits of the states wanted
	size   uint64 // places in a chunk
	at     uint64 // place of the chunk's first entry
	now    uint64 // the tick in which it began
	looked int
	found  []candidate[K]
	step   []candidate[K] // of one chunk
	worst  *candidate[K]  // of the last cut: what comes after it is of no use
}

// candidate is a key that may be on the page.
type candidate[K comparable] struct {
	rank  int64
	place uint64
	key   K
}

func (c *candidate[K]) after(o Cursor) bool {
	return c.rank > o.Rank || c.rank == o.Rank && c.place >= o.Place
}

func (w *walk[K]) complete() error {
	if w.Order >= orders {
		return fmt.Errorf("Order is %d, which is none", w.Order)
	}
	if w.Limit < 0 || w.Limit > maxPage {
		return fmt.Errorf("Limit is %d, want 0 to %d", w.Limit, maxPage)
	}
	if w.Limit == 0 {
		w.Limit = defaultPage
	}
	for _, s := range w.States {
		if s == absent || s >= states {
			return fmt.Errorf("States holds %d, which is no state of a key", s)
		}
		w.states |= 1 << s
	}
	if len(w.States) == 0 {
		w.states = ^uint16(1 << absent)
	}
	return nil
}

func (w *walk[K]) start() uint64 {
	if w.Order == ByPlace {
		return w.From.Place &^ (w.size - 1)
	}
	return 0
}

// full says that a page ByPlace has one key more than it shows, so that it is
// known that there are more.
func (w *walk[K]) full() bool { return w.Order == ByPlace && len(w.found) > w.Limit }

// next moves to the next shard at the end of one; false: there are no more.
func (w *walk[K]) next() bool {
	for k := w.at >> 32; k < uint64(len(w.q.shards.all)); k++ {
		if w.at>>32 != k {
			w.at = k << 32
		}
		s := &w.q.shards.all[k]
		s.mu.Lock()
		chunks := len(s.chunks)
		s.mu.Unlock()
		if uint64(uint32(w.at))/w.size < uint64(chunks) {
			return true
		}
	}
	return false
}

// chunk looks at one chunk: under the lock only at what lies in the entries, and
// at the keys without it.
func (w *walk[K]) chunk() {
	w.step = w.step[:0]
	s := &w.q.shards.all[w.at>>32]
	s.mu.Lock()
	if first := uint32(w.at); s.chunks[first>>s.bits].items != nil {
		for i := first; i < first+uint32(w.size); i++ {
			w.consider(s, i)
		}
	}
	s.mu.Unlock()
	for _, c := range w.step {
		if w.Match != nil && !w.Match(c.key) {
			continue
		}
		if w.found = append(w.found, c); w.full() {
			return
		}
		if w.Order != ByPlace && len(w.found) == 2*w.Limit+2 {
			w.cut()
		}
	}
}

// consider makes the entry a candidate if it is wanted. The shard is locked.
func (w *walk[K]) consider(s *shard[K], i uint32) {
	e := s.at(i)
	if e.state != absent {
		w.looked++
	}
	if !w.wants(s, i) {
		return
	}
	c := candidate[K]{place: w.at&^(1<<32-1) | uint64(i)}
	if w.Order == ByPlace {
		if c.place < w.From.Place || w.Match == nil && len(w.found)+len(w.step) > w.Limit {
			return
		}
	} else {
		c.rank = w.rank(e)
		if !c.after(w.From) {
			return
		}
		if w.worst != nil && compareCandidates(c, *w.worst) > 0 {
			return
		}
	}
	c.key = e.key
	w.step = append(w.step, c)
}

func (w *walk[K]) wants(s *shard[K], i uint32) bool {
	e := s.at(i)
	if w.states&(1<<e.state) == 0 {
		return false
	}
	return !w.Failed || e.is(recorded) && s.record(i).err != nil
}

func (w *walk[K]) rank(e *entry[K]) int64 {
	switch w.Order {
	case ByNext:
		if e.state == StateDelayed || e.state == StateBackingOff {
			return e.due
		}
		return never
	case ByAge:
		return int64(extend(e.since, w.now))
	}
	return 1<<16 - 1 - int64(e.attempts)
}

func compareCandidates[K comparable](a, b candidate[K]) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.place, b.place))
}

// cut keeps what can still be on the page, and one more.
func (w *walk[K]) cut() {
	slices.SortFunc(w.found, compareCandidates[K])
	if len(w.found) > w.Limit {
		w.found = w.found[:w.Limit+1]
		worst := w.found[w.Limit]
		w.worst = &worst
	}
}

// page describes the candidates that are left. What changed meanwhile so that it
// is not wanted any more is left out.
func (w *walk[K]) page() Page[K] {
	if w.Order != ByPlace {
		w.cut()
	}
	p := Page[K]{Looked: w.looked}
	if p.More = len(w.found) > w.Limit; p.More {
		w.found = w.found[:w.Limit]
		last := w.found[w.Limit-1]
		p.Next = Cursor{Rank: last.rank, Place: last.place + 1}
	}
	for _, c := range w.found {
		if e, ok := w.describe(c); ok {
			p.Entries = append(p.Entries, e)
		}
	}
	return p
}

func (w *walk[K]) describe(c candidate[K]) (Entry[K], bool) {
	k, i := w.q.keepers[c.place>>32], uint32(c.place)
	s := k.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.get(i); e == nil || e.state == absent || e.key != c.key || !w.wants(s, i) {
		return Entry[K]{}, false
	}
	return k.describe(i, w.now), true
}
