package queue

import (
	"iter"
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
	// Why says why a key that is to run does not: held or paused by whom,
	// throttled by which bucket, for which error it is parked.
	Why string
}

// MaxErrorText is how many bytes of an error's text a Snapshot shows.
const MaxErrorText = 1024

// briefError cuts the text of an error that may come from anywhere, when it is
// asked for it: an Error method is user code, and entries are described under a
// lock.
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
		for k := range q.shards {
			s := &q.shards[k]
			for c, more := 0, true; more; c++ {
				step, more = s.snapshot(c, step[:0])
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
func (s *shard[K]) snapshot(c int, to []Entry[K]) (_ []Entry[K], more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c >= len(s.chunks) {
		return to, false
	}
	if s.chunks[c] == nil {
		return to, true
	}
	now := s.q.clock.Exact()
	for k := range uint32(chunkSize) {
		if i := uint32(c)<<chunkBits | k; s.at(i).state != free {
			to = append(to, s.describe(i, now))
		}
	}
	return to, true
}

func (s *shard[K]) describe(i uint32, now uint64) Entry[K] {
	e := s.at(i)
	x := Entry[K]{
		Key: *s.key(i), State: e.state, Since: s.q.clock.Begin(whole(e.since, now)),
		Attempts: int(e.attempts), Priority: atBand(e.band()),
	}
	if e.is(inside) {
		d := s.sides.of(i)
		if d.err != nil {
			x.LastError = briefError{d.err}
		}
		x.Reasons = s.sides.reasons.list(d.reasons)
		if d.tenant != 0 {
			x.Tenant = s.ready.fair.of[d.tenant-1].name
		}
	}
	if e.state == StateDelayed || e.state == StateBackingOff || e.state == StateRunning && e.is(added) && e.when != 0 {
		x.Next = s.q.time(e.when)
	}
	x.Why = s.why(i)
	return x
}

// why says why the key does not run now.
func (s *shard[K]) why(i uint32) string {
	e := s.at(i)
	if s.q.phase.Load() != open && e.state != StateRunning {
		return "shut down"
	}
	if r := s.rares[i]; r != nil && len(r.holds) > 0 {
		return r.holds[0].verb() + r.holds[0].why
	}
	switch e.state {
	case StateThrottled:
		return "throttled by " + s.throttling.byID[e.when>>waitingShift-1].bucket.name
	case StateBackingOff:
		return "backing off"
	case StateParked:
		return "parked"
	case StateReady:
		return s.whyReady(i)
	}
	return ""
}

func (s *shard[K]) whyReady(i uint32) string {
	if p := s.q.paused.Load(); p != nil {
		return "paused: " + p.why
	}
	if f := s.ready.fair; f != nil {
		t := f.of[s.sides.of(i).tenant-1]
		switch {
		case t.paused != nil:
			return "tenant paused: " + t.paused.why
		case t.barred:
			return "tenant runs as many as it may"
		}
	}
	return ""
}

func (h *hold) verb() string {
	if h.pause {
		return "held by PauseKey: "
	}
	return "held: "
}
