package queue

import (
	"context"
	"fmt"
	"strings"
)

// The phases of a queue.
const (
	open    uint32 = iota
	closed         // takes no more keys, hands out what is ready
	stopped        // hands out nothing
)

// StopError says what was left when Stop or Drain had no more time.
type StopError struct {
	Queue   string
	Running []string // keys that were still on loan
	Waiting int      // keys that were to run: ready, delayed, backing off and so on
	Cause   error    // why there was no more time
}

func (e *StopError) Error() string {
	return fmt.Sprintf("queue: %s: %v with %d running (%s) and %d waiting",
		e.Queue, e.Cause, len(e.Running), strings.Join(e.Running, ", "), e.Waiting)
}

func (e *StopError) Unwrap() error { return e.Cause }

// Close ends the intake: adds fail with ErrStopped, and what waits for a time
// does not become due any more. Get hands out what is ready and then fails with
// ErrStopped. Close does not wait and may be called again.
func (q *Queue[K]) Close() { q.advance(closed) }

// advance moves the queue on to a phase; it never goes back.
func (q *Queue[K]) advance(to uint32) {
	for {
		was := q.phase.Load()
		if was >= to || q.phase.CompareAndSwap(was, to) {
			break
		}
	}
	for k := range q.shards {
		s := &q.shards[k]
		s.mu.Lock()
		s.closed, s.stopped = true, s.stopped || to == stopped
		for _, w := range s.throttling.lists {
			w.bucket.unwatch(w) // it may be shared with queues that live longer
		}
		s.mu.Unlock()
	}
	q.alarm.stop()
	q.clock.Stop()
	q.bell.close()
	q.news.ring()
}

// Drain is Close, and waits until nothing is ready or running: workers must go
// on calling Get. If ctx ends before, it fails with a *StopError and the queue
// stays closed.
func (q *Queue[K]) Drain(ctx context.Context) error {
	q.advance(closed)
	return q.wait(ctx, q.drained)
}

// drained looks at each shard once: what is ready in one moment may be running in the
// next, but in the same shard.
func (q *Queue[K]) drained() bool {
	for k := range q.shards {
		s := &q.shards[k]
		s.mu.Lock()
		over := s.counted(StateRunning) == 0 && (s.stopped || s.counted(StateReady) == 0)
		s.mu.Unlock()
		if !over {
			return false
		}
	}
	return true
}

// Stop is Close, makes Get fail with ErrStopped at once, and waits until all
// items are settled. If ctx ends before, it fails with a *StopError that names
// their keys; none of them will run again here. What waited is not run: it is to
// be added again after a restart. Stop may be called again, from any state.
func (q *Queue[K]) Stop(ctx context.Context) error {
	q.gate.Or(shutByStop)
	q.advance(stopped)
	return q.wait(ctx, func() bool {
		return q.counted(StateRunning) == 0
	})
}

func (q *Queue[K]) wait(ctx context.Context, over func() bool) error {
	select {
	case <-q.alarm.quiet: // even if ctx has ended too
	default:
		select {
		case <-q.alarm.quiet:
		case <-ctx.Done(): // most likely a hook is being called
			return q.leftovers(fmt.Errorf("a hook or timer has not returned: %w", context.Cause(ctx)))
		}
	}
	for !over() {
		select {
		case <-q.news.token:
		case <-ctx.Done():
			if over() {
				continue
			}
			return q.leftovers(context.Cause(ctx))
		}
	}
	q.news.ring() // for others who wait
	return nil
}

// leftovers describes what is left.
func (q *Queue[K]) leftovers(cause error) *StopError {
	e := &StopError{Queue: q.opts.Name, Cause: cause}
	for x := range q.Snapshot() {
		switch x.State {
		case StateRunning:
			e.Running = append(e.Running, fmt.Sprint(x.Key))
		case StateIdle, StateParked:
		default:
			e.Waiting++
		}
	}
	return e
}

// settled tells those who wait in Drain or Stop that a run has ended, or that a key
// may not be ready any more.
func (q *Queue[K]) settled() {
	if q.phase.Load() != open {
		q.news.ring()
	}
}

// news is a token that says: look again.
type news struct{ token chan struct{} }

func (n *news) ring() {
	select {
	case n.token <- struct{}{}:
	default:
	}
}
