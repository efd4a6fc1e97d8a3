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
