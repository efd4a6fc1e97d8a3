package reconcile

import (
	"context"
	"time"

	"github.com/tendhq/tend/internal/sleep"
)

// adaptive changes the number of workers. Its fields belong to the goroutine of run.
type adaptive struct {
	Adapt
	before Counts // when the number was last thought over
	took   time.Duration
}

// next is the number of workers to have after n, when so many runs have ended and
// taken so long in all.
func (a *adaptive) next(n int, all Counts, took time.Duration, waiting bool) int {
	runs, throttled := all.Runs()-a.before.Runs(), all.Throttled-a.before.Throttled
	slow := a.Latency > 0 && runs > 0 && (took-a.took)/time.Duration(runs) > a.Latency
	a.before, a.took = all, took
	switch {
	case throttled > 0 || slow:
		n /= 2
	case waiting && runs > 0:
		n++
	}
	return min(max(n, a.Min), a.Max)
}

// pooled is the part of a pool that is adapted.
type pooled interface {
	size() (want, running int)
	adaptTo(n int)
	totals() (Counts, time.Duration)
	waiting() bool
}

func (a *adaptive) run(ctx context.Context, p pooled) {
	for sleep.For(ctx, a.Interval) {
		was, _ := p.size()
		if was == 0 {
			continue // they were stopped on purpose
		}
		all, took := p.totals()
		p.adaptTo(a.next(was, all, took, p.waiting()))
	}
}
