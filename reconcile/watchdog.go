package reconcile

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/store"
)

// watchdog ends the runs that are past their deadline and reports those that do not
// care. One goroutine looks at all runs, so that no run needs a timer.
//
// It sleeps until due. A run that begins, and one whose context ends, bring that
// forward if they need a look before; after a look it is never, until one of the
// runs that are going on brings it forward again. So it does not wake up while
// nothing runs, and otherwise at most once in the length of a deadline, however
// many runs begin and end meanwhile.
type watchdog struct {
	due    atomic.Int64  // when to look, since the controller's epoch; never: notDue
	signal chan struct{} // capacity 1: due was brought forward
	looks  atomic.Int64  // how often it looked; for tests
}

const notDue = math.MaxInt64

func newWatchdog() *watchdog {
	w := &watchdog{signal: make(chan struct{}, 1)}
	w.due.Store(notDue)
	return w
}

// lookBy has the watchdog look at the runs at a time, since the controller's epoch,
// or before; zero asks for nothing. Whoever calls it has made the run visible first.
func (w *watchdog) lookBy(at time.Duration) {
	for at > 0 {
		due := w.due.Load()
		if int64(at) >= due {
			return
		}
		if w.due.CompareAndSwap(due, int64(at)) {
			select {
			case w.signal <- struct{}{}:
			default:
			}
			return
		}
	}
}

// sleep waits until it is time to look, or reports false when ctx ends.
func (w *watchdog) sleep(ctx context.Context, epoch time.Time) bool {
	timer := time.NewTimer(notDue)
	defer timer.Stop()
	for {
		if due := w.due.Load(); due != notDue {
			timer.Reset(time.Duration(due) - time.Since(epoch))
		}
		select {
		case <-timer.C:
			return ctx.Err() == nil
		case <-w.signal:
		case <-ctx.Done():
			return false
		}
	}
}

func (l *life[K]) watch(ctx context.Context) {
	for l.sleep(ctx, l.c.epoch) {
		for _, r := range l.look() {
			l.c.reportStuck(r)
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

func (l *life[K]) look() (stuck []stuckRun[K]) {
	l.looks.Add(1)
	l.due.Store(notDue) // before looking: a run that begins now is seen, or says when it is due
	now := time.Since(l.c.epoch)
	for _, s := range l.c.pool.all() {
		if run := s.look(now); run != nil {
			stuck = append(stuck, *run)
		}
	}
	return stuck
}

// look ends the slot's run if it is past its deadline, and gives it if it is stuck.
func (s *slot[K]) look(now time.Duration) (stuck *stuckRun[K]) {
	o := &s.c.o
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.going() || s.stuck {
		return nil
	}
	if s.over == 0 && o.Timeout > 0 && now >= s.ctx.by {
		s.endLocked(context.DeadlineExceeded, s.c.errDeadline)
	}
	switch {
	case s.over == 0:
		s.c.life.lookBy(s.ctx.by)
		return nil
	case now < s.over+o.StuckAfter:
		s.c.life.lookBy(s.over + o.StuckAfter)
		return nil
	}
	s.stuck = true
	// A copy: the run may return before it is reported, and the worker's next begin.
	return &stuckRun[K]{s, slices.Clone(s.keys), now - s.started, s.ctx.ended(), s.ctx.because()}
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
