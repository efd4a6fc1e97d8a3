package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/store"
)

// watch ends the runs that are past their deadline and reports those that do not
// care. One goroutine looks at all runs, so that no run needs a timer. A run that
// begins after a look is due no earlier than one timeout after it: sleeping until
// the earliest known deadline, or for one timeout, misses none.
func (l *life[K]) watch(ctx context.Context) {
	for {
		next, stuck := l.look()
		for _, r := range stuck {
			l.c.reportStuck(r)
		}
		if !sleep.For(ctx, next) {
			return
		}
	}
}

// stuckRun is a run that goes on after its context ended.
type stuckRun[K comparable] struct {
	slot  *slot[K]
	keys  []K
	since time.Duration // how long it has been running
	cause error
	what  string // it does
}

func (l *life[K]) look() (next time.Duration, stuck []stuckRun[K]) {
	c := l.c
	now := time.Since(c.epoch)
	next = c.o.StuckAfter
	if c.o.Timeout > 0 {
		next = min(next, c.o.Timeout)
	}
	for _, s := range c.pool.all() {
		wait, run := s.look(now)
		if wait > 0 {
			next = min(next, wait)
		}
		if run != nil {
			stuck = append(stuck, *run)
		}
	}
	return next, stuck
}

// look ends the slot's run if it is past its deadline, gives it if it is stuck,
// and tells when to look again (0: no need to).
func (s *slot[K]) look(now time.Duration) (next time.Duration, stuck *stuckRun[K]) {
	o := &s.c.o
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.going() || s.stuck {
		return 0, nil
	}
	if s.over == 0 && o.Timeout > 0 && now >= s.ctx.by {
		s.endLocked(context.DeadlineExceeded, s.c.errDeadline)
	}
	switch {
	case s.over == 0 && o.Timeout > 0:
		return s.ctx.by - now, nil
	case s.over == 0:
		return 0, nil
	case now < s.over+o.StuckAfter:
		return s.over + o.StuckAfter - now, nil
	}
	s.stuck = true
	// A copy: the run may return before it is reported, and the worker's next begin.
	return 0, &stuckRun[K]{s, slices.Clone(s.keys), now - s.started, s.ctx.ended(), s.ctx.because()}
}

// reportStuck says that a run goes on after the end of its context.
func (c *Controller[K]) reportStuck(r stuckRun[K]) {
	for _, key := range r.keys {
		c.log().Error("reconcile: run is stuck: "+r.what,
			"controller", c.name, "key", key, "running", r.since, "cause", store.Brief(r.cause))
		if f := c.o.Hooks.OnStuck; f != nil {
			c.contain("OnStuck", func() { f(key, r.since) })
		}
	}
	if c.o.ReplaceStuck {
		c.pool.replace(r.slot)
	}
}

// deadlineError names whose deadline a run is past.
func deadlineError(name string, d time.Duration) error {
	return fmt.Errorf("reconcile: controller %q: %w of %v", name, ErrDeadline, d)
}
