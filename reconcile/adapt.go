package reconcile

import (
	"context"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/internal/sleep"
)

// adaptive changes the number of workers. Its fields are guarded by kernel.mu.
type adaptive struct {
	Adapt
	before          introspect.Counts // when the number was last thought over
	took            time.Duration
	raised, lowered uint64 // how often it changed the number
}

// next is the number of workers to have after n, when so many runs have ended and
// taken so long in all.
func (a *adaptive) next(n int, all introspect.Counts, took time.Duration, waiting bool) int {
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

// follow has the number of workers follow a, until ctx ends.
func (p *pool[K]) follow(ctx context.Context, a *adaptive) {
	for sleep.For(ctx, a.interval) {
		all, took := p.totals()
		waiting := p.k.q.Len() > 0
		p.change(func() {
			if p.want == 0 {
				return // they were stopped on purpose
			}
			before := p.want
			p.want = a.next(before, all, took, waiting)
			switch {
			case p.want > before:
				a.raised++
			case p.want < before:
				a.lowered++
			}
		})
	}
}
