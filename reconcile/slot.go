package reconcile

import (
	"context"
	"sync"
	"time"

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
// of all its runs. A run takes its lock twice, at the begin and at the end, and
// nobody else holds it for long.
type slot[K comparable] struct {
	c      *Controller[K]
	cancel context.CancelFunc // ends the worker after its present run

	mu      sync.Mutex // guards what follows
	ctx     *runCtx[K] // of the present or the next run
	hold    *hold      // nil: nothing is running
	keys    []K        // what is running; its first element for a single key
	attempt int
	started time.Duration // since the controller's epoch
	over    time.Duration // when the context ended; 0: it has not
	stuck   bool
	ended   chan struct{} // closed at the end of the run; nil: nobody waits
	maybe   []seen[K]     // changes that are urgent unless the run wrote them
	counts  Counts
}

// begin makes ready for a run of keys. It fails if the hold was lost.
func (s *slot[K]) begin(h *hold, keys []K, attempt int) (*runCtx[K], bool) {
	c := s.c
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.holds[h.shard].Load() != h {
		return nil, false
	}
	if s.ctx == nil {
		s.ctx = &runCtx[K]{c: c}
	}
	s.hold, s.keys, s.attempt = h, keys, attempt
	s.started, s.over, s.stuck = time.Since(c.epoch), 0, false
	x := s.ctx
	x.base, x.key, x.attempt = h.base, keys[0], attempt
	if c.o.Timeout > 0 {
		x.by = s.started + c.o.Timeout
	}
	return x, true
}

// finish records how the run ended, frees the slot, and gives the questions that
// waited for its end.
func (s *slot[K]) finish(verdicts []verdict, timeout bool) (maybe []seen[K]) {
	s.mu.Lock()
	for _, v := range verdicts {
		s.counts.add(v)
	}
	if timeout {
		s.counts.Timeout++
	}
	maybe, s.maybe = s.maybe, nil
	s.freeLocked()
	s.mu.Unlock()
	return maybe
}

// succeed is finish for a run that succeeded and touched nothing. It reports
// whether that was all there is to do.
func (s *slot[K]) succeed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.maybe) > 0 || s.ctx.touched.Load() {
		return false
	}
	s.counts.Success++
	s.freeLocked()
	return true
}

func (s *slot[K]) freeLocked() {
	if s.ctx.touched.Load() {
		s.ctx = nil // somebody may still hold it: the next run gets a new one
	}
	s.hold, s.keys, s.stuck = nil, nil, false
	if s.ended != nil {
		close(s.ended)
		s.ended = nil
	}
}

// endRun ends the context of the present run if which says so, and gives a
// channel that is closed when the run ends; nil if there is no such run.
func (s *slot[K]) endRun(which func(*slot[K]) bool, err, cause error) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold == nil || !which(s) {
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
	}
}
