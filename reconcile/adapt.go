package reconcile

import (
	"context"
	"fmt"
	"sync"
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

// adaptive is what a controller has seen since it last thought the number over.
type adaptive struct {
	Adapt

	mu        sync.Mutex // guards what follows
	runs      int
	throttled int
	took      time.Duration
	raised    uint64
	lowered   uint64
}

// AdaptSnapshot is what Options.Adapt did so far.
type AdaptSnapshot struct {
	Min     int    `json:"min"`
	Max     int    `json:"max"`
	Raised  uint64 `json:"raised"`  // how often the number of workers went up by one
	Lowered uint64 `json:"lowered"` // how often it was halved
}

func (a *adaptive) snapshot() *AdaptSnapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &AdaptSnapshot{Min: a.Min, Max: a.Max, Raised: a.raised, Lowered: a.lowered}
}

func (a *adaptive) saw(kind resultKind, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs++
	a.took += took
	if kind == resultThrottled {
		a.throttled++
	}
}

// next is the number of workers to have after n, and forgets what was seen.
func (a *adaptive) next(n int, waiting bool) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	was, slow := n, a.Latency > 0 && a.runs > 0 && a.took/time.Duration(a.runs) > a.Latency
	switch {
	case a.throttled > 0 || slow:
		n /= 2
	case waiting && a.runs > 0:
		n++
	}
	a.runs, a.throttled, a.took = 0, 0, 0
	n = min(max(n, a.Min), a.Max)
	switch {
	case n > was:
		a.raised++
	case n < was:
		a.lowered++
	}
	return n
}

// pooled is the part of a controller that is adapted.
type pooled interface {
	Workers() int
	SetWorkers(n int) error
	waiting() bool
}

func (a *adaptive) run(ctx context.Context, c pooled) {
	for sleep.For(ctx, a.Interval) {
		was := c.Workers()
		if was == 0 {
			continue // somebody stopped them on purpose
		}
		if n := a.next(was, c.waiting()); n != was {
			_ = c.SetWorkers(n) // n is positive
		}
	}
}

// waiting reports whether more workers would have something to do.
func (c *Controller[K]) waiting() bool { return c.q.Len() > 0 }
