package reconcile

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/internal/tick"
	"github.com/tendhq/tend/reconcile/lease"
)

// hold is the right to run the keys of one shard, from gaining it to losing it.
// A controller without leases has one for all keys.
type hold struct {
	shard int
	base  context.Context // never cancelled; carries the guard
	lease lease.Lease     // nil: there is nothing to lose
}

// trusted asks the lease itself. A process that was stopped for longer than its
// lease is back at work before anybody has told it of the loss.
func (h *hold) trusted() bool {
	if h.lease == nil {
		return true
	}
	_, ok := h.lease.Held()
	return ok
}

// slot is one worker as others see it: what it runs, since when, and what came
// of all its runs.
//
// A run begins with one store to phase, and ends with one compare-and-swap if nobody
// has looked at it meanwhile. Who wants to look takes mu and marks the run as watched:
// then it cannot end without mu. So a run costs two locked instructions, where a lock
// at its begin and one at its end would cost four.
//
//	idle ──begin──▶ running ──succeed──▶ idle
//	                   │ going (mu)
//	                   ▼
//	                watched ──finish (mu)──▶ idle
type slot[K comparable] struct {
	c      *Controller[K]
	cancel context.CancelFunc // ends the worker after its present run
	labels context.Context    // of its goroutine
	worker string             // the label that no other worker has
	place  int                // in the pool's list of slots; guarded by the pool's mu

	// phase is one of the phases, and above these bits the number of runs that
	// succeeded with nobody looking. The worker alone leaves idle.
	phase atomic.Uint64

	mu sync.Mutex // guards phase from running on, and what follows

	// While the phase is idle these are the worker's own; else they are guarded by mu,
	// but that the worker may read what only it writes.
	ctx     *runCtx[K] // of the present or the next run
	hold    *hold
	keys    []K // what is running; its first element for a single key
	attempt int
	started time.Duration // since the controller's epoch; up to two ticks early
	over    time.Duration // when the context ended; 0: it has not
	stuck   bool
	ended   chan struct{} // closed at the end of the run; nil: nobody waits
	maybe   []seen[K]     // changes that are urgent unless the run wrote them

	counts Counts // of runs that are not counted in phase
}

const (
	idle uint64 = iota
	running
	watched
	phaseBits = 2
	phases    = 1<<phaseBits - 1
)

// begin makes ready for a run of keys. It fails if the hold was lost.
func (s *slot[K]) begin(h *hold, keys []K, attempt int) (*runCtx[K], bool) {
	c := s.c
	if s.ctx == nil {
		s.ctx = &runCtx[K]{c: c}
	}
	s.hold, s.keys, s.attempt = h, keys, attempt
	s.over, s.stuck = 0, false
	x := s.ctx
	x.base, x.key, x.attempt = h.base, keys[0], attempt
	x.waits.Store(nil)
	s.started, x.by = c.begins()
	s.phase.Add(running - idle)
	c.life.lookBy(x.by)
	// Who takes the hold away does so first and looks for runs then: either we see
	// that it is gone, or we are seen.
	if c.holds[h.shard].Load() != h {
		s.finish(nil, false) // what was asked about its keys is asked of whoever has them now
		return nil, false
	}
	return x, true
}

// begins is when a run begins that begins now, and its deadline (0: it has none).
// With long deadlines the clock is asked for less than that: a reading costs as much
// as all else that a controller does for a run. A deadline is never early by that.
func (c *Controller[K]) begins() (at, by time.Duration) {
	read := true
	if c.exact {
		at = time.Since(c.epoch)
	} else {
		at, read = c.clock.Since()
	}
	if c.o.Timeout <= 0 {
		return at, 0
	}
	by = at + c.o.Timeout
	if !read {
		by += 2 * tick.Tick
	}
	return at, by
}

// going reports whether a run goes on, and keeps it from ending. The caller holds mu.
func (s *slot[K]) going() bool {
	for {
		p := s.phase.Load()
		switch p & phases {
		case idle:
			return false
		case watched:
			return true
		}
		if s.phase.CompareAndSwap(p, p+watched-running) {
			return true
		}
	}
}

// finish records how the run ended, frees the slot, and gives the questions that
// waited for its end.
func (s *slot[K]) finish(verdicts []verdict, timeout bool) (maybe []seen[K]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range verdicts {
		s.counts.add(v)
	}
	if timeout {
		s.counts.Timeout++
	}
	maybe, s.maybe = s.maybe, nil
	if s.ctx.touched.Load() {
		s.ctx = nil // somebody may still hold it: the next run gets a new one
	}
	s.hold, s.keys = nil, nil
	if s.ended != nil {
		close(s.ended)
		s.ended = nil
	}
	s.phase.And(^uint64(phases))
	return maybe
}

// succeed is finish for a run that succeeded, touched nothing and was looked at by
// nobody. It reports whether it was that.
func (s *slot[K]) succeed() bool {
	p := s.phase.Load()
	return p&phases == running && !s.ctx.touched.Load() &&
		s.phase.CompareAndSwap(p, p+1<<phaseBits+idle-running)
}

// count gives how the slot's runs have ended.
func (s *slot[K]) count() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.counts
	sum.Success += s.phase.Load() >> phaseBits
	return sum
}

// endRun ends the context of the present run if which says so, and gives a
// channel that is closed when the run ends; nil if there is no such run.
func (s *slot[K]) endRun(which func(*slot[K]) bool, err, cause error) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.going() || !which(s) {
		return nil
	}
	if err != nil {
		s.endLocked(err, cause)
	}
	if s.ended == nil {
		s.ended = make(chan struct{})
	}
	return s.ended
}

func (s *slot[K]) endLocked(err, cause error) {
	if s.over == 0 {
		s.over = time.Since(s.c.epoch)
		s.ctx.end(err, cause)
		s.c.life.lookBy(s.over + s.c.o.StuckAfter)
	}
}
