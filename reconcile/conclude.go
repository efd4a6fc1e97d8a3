package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
)

// conclude does everything that follows a run: it keeps the key back until the
// caches have seen what it wrote, frees the slot, settles the item, tells. The
// key is on loan until it is settled, so nothing of this can overlap with its
// next run.
func (c *Controller[K]) conclude(s *slot[K], x *runCtx[K], item queue.Item[K], o Outcome) {
	c.concludeAll(s, x, []queue.Item[K]{item}, func(int) Outcome { return o })
}

func (c *Controller[K]) concludeAll(s *slot[K], x *runCtx[K], items []queue.Item[K], outcome func(i int) Outcome) {
	over := x.ended()
	var one [1]verdict // most runs are of one key
	verdicts := one[:0]
	for i := range items {
		verdicts = append(verdicts, judge(outcome(i), over))
	}
	took := time.Since(c.epoch) - s.started
	for i, item := range items {
		c.keepBack(item.Key, x.wrote(), verdicts[i].do != settleDone)
	}
	if x.touched.Load() {
		x.end(context.Canceled, errRunOver) // so that what hangs on it is let go
	}
	maybe := s.finish(verdicts, errors.Is(over, ErrDeadline))
	c.answer(maybe, x.wrote())
	// All are settled before anybody is told: a hook that ends the goroutine must
	// not leave keys on loan.
	for i, item := range items {
		verdicts[i].again = c.failing(item, verdicts[i])
		c.settle(item, verdicts[i], outcome(i).Result)
	}
	for i, item := range items {
		c.tell(item, verdicts[i], outcome(i), took)
	}
}

// succeed is conclude for the run of one key that succeeded, asked for nothing, and
// of which nobody is to be told. It leaves the item to be settled by Done, and
// reports whether that was all there is to do.
func (c *Controller[K]) succeed(s *slot[K], x *runCtx[K], key K) bool {
	if s.succeed() {
		return true
	}
	if x.ended() != nil {
		return false
	}
	c.keepBack(key, x.wrote(), false)
	x.end(context.Canceled, errRunOver)
	c.answer(s.finish([]verdict{{}}, false), x.wrote())
	return true
}

// settle carries a verdict out.
func (c *Controller[K]) settle(item queue.Item[K], v verdict, r Result) {
	if v.err == nil {
		item = item.WithPriority(r.Priority)
	}
	switch v.do {
	case settleAfter:
		item.After(v.delay)
	case settleRetry:
		item.Retry(v.err, v.delay)
	case settlePark:
		item.Park(v.err)
	case settleStill:
		c.stillFailing(item, v.delay)
	default:
		c.rest(item)
	}
}

// stillFailing settles a run that tried nothing of what failed before. The queue leaves
// attempts as they are for what was throttled, and for nothing else.
func (c *Controller[K]) stillFailing(item queue.Item[K], d time.Duration) {
	e, _ := c.q.Lookup(item.Key)
	if e.LastError == nil {
		item.After(d)
		return
	}
	last := &untriedError{failure: e.LastError}
	if before, ok := errors.AsType[*untriedError](e.LastError); ok {
		last.failure = before.failure
	}
	last.wait = queue.Throttled(nil, time.Now().Add(d), nil)
	item.Retry(last, 0)
}

// untriedError is the last error of a key whose runs since then have tried nothing of
// what failed. It reads as that failure does.
type untriedError struct{ failure, wait error }

func (e *untriedError) Error() string   { return e.failure.Error() }
func (e *untriedError) Unwrap() []error { return []error{e.failure, e.wait} }

// rest settles a key that succeeded and asked for nothing: it comes back at the
// resync, if there is one and the key is not known to be gone.
func (c *Controller[K]) rest(item queue.Item[K]) {
	if c.o.Resync <= 0 || c.gone(item.Key) {
		item.Done()
		return
	}
	item.WithPriority(bandInitial).After(c.untilResync())
}

// untilResync takes a random 0 to 20 % off the interval, so that keys that ran
// together do not come back together. A fifth is not enough after a start, when
// the whole list ran at once: keys that ran then are spread over the interval.
func (c *Controller[K]) untilResync() time.Duration {
	jitter := c.o.Resync / 5
	since := time.Since(c.epoch) - time.Duration(c.opened.Load())
	return c.o.Resync - rand.N(max(jitter, c.o.Resync-5*since)+1)
}

// gone reports whether every source that can tell says that nothing is declared
// under key.
func (c *Controller[K]) gone(key K) bool {
	asked := false
	for _, f := range c.sources() {
		if f.exists == nil {
			continue
		}
		if f.exists(key) {
			return false
		}
		asked = true
	}
	return asked
}

// failing reports whether the run before this one failed too, for the log: a row
// of failures is two lines there, its begin and its end. It is asked before the
// item is settled, and only where it matters: while no key fails, a success need
// not ask. A run that was throttled did not fail.
func (c *Controller[K]) failing(item queue.Item[K], v verdict) bool {
	if c.o.Hooks.OnError != nil || v.err == nil && c.ill.Load() == 0 {
		return false
	}
	e, _ := c.q.Lookup(item.Key)
	last := e.LastError
	if untried, ok := errors.AsType[*untriedError](last); ok {
		last = untried.failure
	}
	return last != nil && !queue.IsThrottled(last)
}

// tell calls the hooks, or logs.
func (c *Controller[K]) tell(item queue.Item[K], v verdict, o Outcome, took time.Duration) {
	switch {
	case v.err != nil && v.kind != resultThrottled:
		c.failedAgain(Failure[K]{
			Controller: c.name, Key: item.Key, Attempt: item.Attempt, Parked: v.do == settlePark, Err: v.err,
		}, v.again)
		if !v.again && c.o.Hooks.OnError == nil {
			c.ill.Add(1)
		}
	case v.err == nil && v.again && (v.kind == resultSuccess || v.kind == resultRequeueAfter):
		c.ill.Add(-1)
		c.mended("key", item.Key)
	}
	if f := c.o.Hooks.OnDone; f != nil {
		c.containHere("OnDone", func() { f(item.Key, o, took) })
	}
	if c.adapt != nil {
		c.adapt.saw(v.kind, took)
	}
}

// failed reports one failure, once: to the hook or else to the log.
func (c *Controller[K]) failed(f Failure[K]) { c.failedAgain(f, f.Attempt > 0) }

// failedAgain is failed, of a failure that may be one more in a row.
func (c *Controller[K]) failedAgain(f Failure[K], again bool) {
	if hook := c.o.Hooks.OnError; hook != nil {
		c.contain("OnError", func() { hook(f) })
		return
	}
	level := slog.LevelWarn
	if again && !f.Parked {
		level = slog.LevelDebug
	}
	if !c.log().Enabled(context.Background(), level) {
		return
	}
	attrs := []any{"controller", f.Controller, "err", store.Brief(f.Err)}
	if f.Source == "" {
		attrs = append(attrs, "key", f.Key, "attempt", f.Attempt)
	} else {
		attrs = append(attrs, "source", f.Source)
	}
	if p := new(PanicError); errors.As(f.Err, &p) {
		attrs = append(attrs, "stack", string(p.Stack))
	}
	what := "reconcile: run failed"
	switch {
	case f.Source != "":
		what = "reconcile: source failed"
	case f.Parked:
		what = "reconcile: run failed for good, its key is parked"
	}
	c.log().Log(context.Background(), level, what, attrs...)
}

// exhausted is the queue's hook for a key that was given up after too many
// failures.
func (c *Controller[K]) exhausted(key K, attempts int, err error) {
	if user := c.userHooks.Exhausted; user != nil {
		c.contain("Exhausted", func() { user(key, attempts, err) })
	}
	if c.o.Hooks.OnError == nil {
		c.log().Warn("reconcile: key is given up and parked", "controller", c.name, "key", key, "attempt", attempts-1, "err", store.Brief(err))
	}
}

// parked passes on what the queue says of a key that was parked.
func (c *Controller[K]) parked(key K, attempts int, err error) {
	if user := c.userHooks.Parked; user != nil {
		c.contain("Parked", func() { user(key, attempts, err) })
	}
}

// mended says that a row of failures that was logged is over.
func (c *Controller[K]) mended(attrs ...any) {
	if c.o.Hooks.OnError == nil {
		c.log().Info("reconcile: works again", append([]any{"controller", c.name}, attrs...)...)
	}
}
