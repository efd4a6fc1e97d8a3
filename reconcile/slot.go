package reconcile

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/store"
)

// alarm is when to look at the runs: one timer for the deadlines of all of them.
//
// It is due when the first of them needs a look. A run that begins, and one whose
// context ends, bring that forward; after a look it is never, until one of the runs
// that are going on brings it forward again. So it does not ring while nothing runs,
// and otherwise at most once in the length of a deadline, however many runs begin and
// end meanwhile.
type alarm struct {
	due    atomic.Int64  // when to look, since the controller's epoch; 0: never
	signal chan struct{} // capacity 1: due was brought forward
}

// lookBy has the runs looked at by a time, since the controller's epoch; zero asks for
// nothing. The caller has made the run visible before.
func (a *alarm) lookBy(at time.Duration) {
	for due := a.due.Load(); at > 0 && (due == 0 || int64(at) < due); due = a.due.Load() {
		if a.due.CompareAndSwap(due, int64(at)) {
			sleep.Wake(a.signal)
			return
		}
	}
}

// wait waits until it is time to look, or reports false when ctx ends.
func (a *alarm) wait(ctx context.Context, epoch time.Time) bool {
	timer := time.NewTimer(maxTime)
	defer timer.Stop()
	for {
		if due := a.due.Load(); due > 0 {
			timer.Reset(time.Duration(due) - time.Since(epoch))
		}
		select {
		case <-timer.C:
			a.due.Store(0) // before the look: a run that begins now is seen, or says when it is due
			return ctx.Err() == nil
		case <-a.signal:
		case <-ctx.Done():
			return false
		}
	}
}

// slot is one worker as others see it: what it runs, and how all its runs ended.
type slot[K comparable] struct {
	k      *kernel[K]
	alarm  *alarm
	ctx    context.Context    // of the worker: it goes after its present run when this ends
	cancel context.CancelFunc // ends ctx
	labels context.Context    // of its goroutine
	worker string             // the label that no other worker has

	mu     sync.Mutex // guards what follows, and the present run's state
	run    *run[K]    // nil: none
	counts introspect.Counts
	took   time.Duration // all runs together; only where it is measured
}

// begin makes x the slot's run. It fails if the hold was lost.
func (s *slot[K]) begin(x *run[K]) bool {
	x.mu = &s.mu
	x.started = s.k.since()
	if s.k.o.EndSuperseded {
		x.more = &more[K]{since: make(map[Cached]store.Revision), landed: func() { s.endSuperseded(x.keys[0]) }}
		for _, cached := range s.k.view.Load().shows {
			x.more.since[cached] = cached.Revision()
		}
	}
	s.mu.Lock()
	s.run = x
	s.mu.Unlock()
	s.alarm.lookBy(x.by())
	// A hold is taken away before its runs are looked for: either this run sees that it
	// is gone, or it is seen.
	if s.k.view.Load().holds[x.hold.shard].Load() != x.hold {
		s.finish(x, nil, false, 0) // the server that has the keys now is asked about their changes
		return false
	}
	return true
}

// finish frees the slot, ends the run's context, counts, and gives the questions that
// waited for the end.
func (s *slot[K]) finish(x *run[K], decisions []decision, timeout bool, took time.Duration) (asked []seen[K]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run = nil
	x.endLocked(errRunOver) // so that what hangs on it is let go
	for _, d := range decisions {
		count(&s.counts, d)
	}
	if timeout {
		s.counts.Timeout++
	}
	s.took += took
	if x.more == nil {
		return nil
	}
	if x.more.ended != nil {
		close(x.more.ended)
	}
	return x.more.asked
}

// present is the slot's run; nil: none.
func (s *slot[K]) present() *run[K] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run
}

// count gives how the slot's runs have ended.
func (s *slot[K]) count() (n introspect.Counts, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts, s.took
}

// endRun ends the context of the present run if which says so, and gives a channel
// that is closed when the run returns; nil if there is no such run. With a nil cause the
// context goes on.
func (s *slot[K]) endRun(which func(*run[K]) bool, cause error) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.run
	if x == nil || !which(x) {
		return nil
	}
	if cause != nil {
		s.endLocked(x, s.k.since(), cause)
	}
	m := x.moreLocked()
	if m.ended == nil {
		m.ended = make(chan struct{})
	}
	return m.ended
}

func (s *slot[K]) endLocked(x *run[K], now time.Duration, cause error) {
	if m := x.moreLocked(); m.over == 0 {
		m.over = now
		x.endLocked(cause)
		s.alarm.lookBy(now + s.k.o.stuckAfter())
	}
}

// ask leaves the question whose a change is with the run of its key, if there is one.
func (s *slot[K]) ask(at seen[K]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.run
	if x == nil || !slices.Contains(x.keys, at.key) {
		return false
	}
	m := x.moreLocked()
	m.asked = append(m.asked, at)
	return true
}

// endSuperseded ends the present run if it is one of the key, and a change of the key's
// object is neither one that it has seen nor its own. A watch can be faster than the call
// that wrote: while a write of the run is under way it is not known whose the change is, and
// this is called again when the outcome of the write is.
func (s *slot[K]) endSuperseded(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.run
	if x == nil || !slices.Contains(x.keys, key) || x.writes != nil && x.writes.Writing() {
		return
	}
	for _, at := range x.moreLocked().asked {
		if at.supersedes && at.rev > x.more.since[at.cache] && !at.in(x.writes) {
			s.endLocked(x, s.k.since(), fmt.Errorf("reconcile: controller %q: %v: %w", s.k.name, key, ErrSuperseded))
		}
	}
}

// look ends the slot's run if it is past its deadline, and gives it if it is stuck: it goes
// on long after its context ended.
func (s *slot[K]) look(now time.Duration) (stuck *run[K]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.run
	if x == nil {
		return nil
	}
	m, by := x.moreLocked(), x.by()
	if by > 0 && now >= by {
		s.endLocked(x, now, fmt.Errorf("reconcile: controller %q: %w of %v", s.k.name, ErrDeadline, s.k.o.Timeout))
	}
	switch {
	case m.stuck:
	case m.over == 0:
		s.alarm.lookBy(by)
	case now < m.over+s.k.o.stuckAfter():
		s.alarm.lookBy(m.over + s.k.o.stuckAfter())
	default:
		m.stuck = true
		return x
	}
	return nil
}
