package reconcile

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tendhq/tend/queue"
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
	for _, item := range items {
		c.keepBack(item.Key, x.wrote())
	}
	if x.touched.Load() {
		x.end(context.Canceled, errRunOver) // so that what hangs on it is let go
	}
	maybe := s.finish(verdicts, errors.Is(over, ErrDeadline))
	c.answer(maybe, x.wrote())
	// All are settled before anybody is told: a hook that ends the goroutine must
	// not leave keys on loan.
	for i, item := range items {
		c.settle(item, verdicts[i], outcome(i).Result)
	}
	for i, item := range items {
		c.tell(item, verdicts[i], outcome(i), took)
	}
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
	default:
		c.rest(item)
	}
}

// rest settles a key that succeeded and asked for nothing: it comes back at the
// resync, if there is one and the key is not known to be gone.
func (c *Controller[K]) rest(item queue.Item[K]) {
	if c.o.Resync <= 0 || c.gone(item.Key) {
		item.Done()
		return
	}
	item.WithPriority(bandInitial).After(spread(c.o.Resync))
}

// spread takes a random 0 to 20 % off d, so that a fleet that started together
// does not come back together.
func spread(d time.Duration) time.Duration { return d - rand.N(d/5+1) }

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

// tell calls the hooks, or logs.
func (c *Controller[K]) tell(item queue.Item[K], v verdict, o Outcome, took time.Duration) {
	if v.err != nil && v.kind != resultThrottled {
		c.failed(Failure[K]{Controller: c.name, Key: item.Key, Attempt: item.Attempt, Err: v.err})
	}
	if f := c.o.Hooks.OnDone; f != nil {
		c.contain("OnDone", func() { f(item.Key, o, took) })
	}
	if c.adapt != nil {
		c.adapt.saw(v.kind, took)
	}
}

// failed reports one failure, once: to the hook or else to the log.
func (c *Controller[K]) failed(f Failure[K]) {
	if hook := c.o.Hooks.OnError; hook != nil {
		c.contain("OnError", func() { hook(f) })
		return
	}
	attrs := []any{"controller", f.Controller, "err", f.Err}
	if f.Source == "" {
		attrs = append(attrs, "key", f.Key, "attempt", f.Attempt)
	} else {
		attrs = append(attrs, "source", f.Source)
	}
	if p := new(PanicError); errors.As(f.Err, &p) {
		attrs = append(attrs, "stack", string(p.Stack))
	}
	what := "reconcile: run failed"
	if f.Source != "" {
		what = "reconcile: source failed"
	}
	c.log().Warn(what, attrs...)
}

// contain calls a hook; a panic in it is logged and goes no further.
func (c *Controller[K]) contain(name string, hook func()) {
	defer func() {
		if v := recover(); v != nil {
			c.log().Error("reconcile: hook panicked", "controller", c.name, "hook", name,
				"err", newPanic(v), "stack", string(newPanic(v).Stack))
		}
	}()
	hook()
}
