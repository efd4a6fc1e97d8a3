package reconcile

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/internal/sleep"
)

// Adapt lets the number of workers follow what the other side can take, by
// additive increase and multiplicative decrease, as TCP does: after an interval
// with a throttled run, or with a mean run time above Latency, there are half as
// many; after one without, in which keys were waiting, one more.
type Adapt struct {
	// Min and Max bound the number of workers. Defaults: 1, and eight times
	// Options.Workers. At most 100,000.
	Min, Max int
	// Latency is the mean time of a run above which the other side counts as
	// overloaded. Default: it does not count.
	Latency time.Duration
	// Interval is how often the number is thought over. Default 5 s.
	Interval time.Duration
}

func (a *Adapt) check() error {
	switch {
	case a == nil:
		return nil
	case a.Min < 0 || a.Max < 0 || a.Latency < 0 || a.Interval < 0:
		return fmt.Errorf("Adapt has a negative field: %+v", *a)
	case a.Min > maxWorkers || a.Max > maxWorkers:
		return fmt.Errorf("Adapt wants %d to %d workers, at most %d can be had", a.Min, a.Max, maxWorkers)
	case a.Max > 0 && a.Min > a.Max:
		return fmt.Errorf("Adapt.Min %d is above Adapt.Max %d", a.Min, a.Max)
	}
	return nil
}

func (a *Adapt) complete(workers int) {
	setDefault(&a.Min, 1)
	setDefault(&a.Max, max(min(8*workers, maxWorkers), a.Min))
	setDefault(&a.Interval, 5*time.Second)
}

// adaptive changes the number of workers. Its fields belong to the goroutine of its
// run, but for the counts.
type adaptive struct {
	Adapt
	before Counts // when the number was last thought over
	took   time.Duration

	raised, lowered atomic.Uint64
}

// AdaptSnapshot is what Options.Adapt did so far.
type AdaptSnapshot struct {
	Min     int    `json:"min"`
	Max     int    `json:"max"`
	Raised  uint64 `json:"raised"`  // how often the number of workers went up by one
	Lowered uint64 `json:"lowered"` // how often it was halved
}

func (a *adaptive) snapshot() *AdaptSnapshot {
	return &AdaptSnapshot{Min: a.Min, Max: a.Max, Raised: a.raised.Load(), Lowered: a.lowered.Load()}
}

// next is the number of workers to have after n, when so many runs have ended and
// taken so long in all.
func (a *adaptive) next(n int, all Counts, took time.Duration, waiting bool) int {
	runs, throttled := all.Runs()-a.before.Runs(), all.Throttled-a.before.Throttled
	slow := a.Latency > 0 && runs > 0 && (took-a.took)/time.Duration(runs) > a.Latency
	a.before, a.took = all, took
	was := n
	switch {
	case throttled > 0 || slow:
		n /= 2
	case waiting && runs > 0:
		n++
	}
	n = min(max(n, a.Min), a.Max)
	switch {
	case n > was:
		a.raised.Add(1)
	case n < was:
		a.lowered.Add(1)
	}
	return n
}

// pooled is the part of a controller that is adapted.
type pooled interface {
	size() (want, running int)
	resize(n int)
	totals() (Counts, time.Duration)
	waiting() bool
}

func (a *adaptive) run(ctx context.Context, c pooled) {
	for sleep.For(ctx, a.Interval) {
		was, _ := c.size()
		if was == 0 {
			continue // they were stopped on purpose
		}
		all, took := c.totals()
		if n := a.next(was, all, took, c.waiting()); n != was {
			c.resize(n)
		}
	}
}
