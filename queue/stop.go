package queue

import (
	"context"
	"fmt"
	"strings"
)

// StopError says what was left when Stop or Drain had no more time.
type StopError struct {
	queue   string
	Running []string // keys that were still running
	Waiting int      // keys that were to run: ready, delayed, backing off and so on
	cause   error    // why there was no more time
}

func (e *StopError) Error() string {
	return fmt.Sprintf("queue: %s: %v with %d running (%s) and %d waiting",
		e.queue, e.cause, len(e.Running), strings.Join(e.Running, ", "), e.Waiting)
}

func (e *StopError) Unwrap() error { return e.cause }

// Close ends the intake: adds fail with ErrStopped, and what waits for a time or a
// token does not become due any more. Get gives what is ready and then fails with
// ErrStopped. Holds over the queue and over tenants still end in time. Close does
// not wait and may be called again.
func (q *Queue[K]) Close() { q.advance(draining) }

// advance moves the queue on to a phase; it never goes back.
func (q *Queue[K]) advance(to word) {
	q.env.word.Or(uint32(to))
	next := int64(never)
	for _, k := range q.keepers {
		k.locked(func() { // an add that found the queue open ends before Close does
			k.close()
			next = min(next, k.s.wake())
		})
	}
	if to == stopped {
		q.timer.stop()
		q.env.watch.stop()
	}
	// Never put off: a hold that was made meanwhile may have set it, and a tick for
	// nothing does no harm.
	q.timer.set(next)
	q.waiters.wake()
	signal(q.news)
}

// Drain is Close, and waits until no key is ready or running: workers must go on
// calling Get. Keys that a hold over the queue or their tenant keeps back count as
// ready: Drain waits until the hold ends. If ctx ends before, it fails with a
// *StopError and the queue stays closed.
func (q *Queue[K]) Drain(ctx context.Context) error {
	q.advance(draining)
	if err := q.awaitEnd(ctx); err != nil {
		return err
	}
	q.timer.stop()
	return q.awaitEnd(ctx)
}

// Stop is Close, makes Get fail with ErrStopped at once, and waits until all
// items are settled. If ctx ends before, it fails with a *StopError that names
// their keys; none of them runs again here. What waited does not run: it is to be
// added again after a restart. Stop may be called again, from any state.
func (q *Queue[K]) Stop(ctx context.Context) error {
	q.advance(stopped)
	return q.awaitEnd(ctx)
}

// ended looks at each shard once: what is ready in one moment may be running in the
// next, but in the same shard.
func (q *Queue[K]) ended() bool {
	stops, busy := q.env.may().phase() == stopped, false
	for _, k := range q.keepers {
		if k.locked(func() { busy = k.s.count[StateRunning] > 0 || !stops && k.s.count[StateReady] > 0 }); busy {
			return false
		}
	}
	return !q.timer.fires()
}

// awaitEnd waits until nothing runs, or is ready as long as Get gives something, and the
// timer does nothing.
func (q *Queue[K]) awaitEnd(ctx context.Context) error {
	for over := false; !q.ended(); {
		if over {
			return q.leftovers(context.Cause(ctx))
		}
		select {
		case <-q.news:
		case <-ctx.Done():
			over = true
		}
	}
	signal(q.news) // for others that wait
	return nil
}

// leftovers describes what is left.
func (q *Queue[K]) leftovers(cause error) *StopError {
	e := &StopError{queue: q.opts.Name, cause: cause}
	for x := range q.Snapshot() {
		switch x.State {
		case StateRunning:
			e.Running = append(e.Running, fmt.Sprint(x.Key))
		case StateIdle, StateParked:
		default:
			e.Waiting++
		}
	}
	if len(e.Running) == 0 && q.timer.fires() { // most likely a hook has not returned
		e.cause = fmt.Errorf("a hook or timer has not returned: %w", cause)
	}
	return e
}
