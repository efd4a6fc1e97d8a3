package reconcile

import (
	"context"
	"sync"

	"github.com/tendhq/tend/reconcile/lease"
)

// group lets several controllers share one placement: it is run once, and its
// work is the work of all of them. A shard is given up when the last has let go of
// it.
type group struct {
	lease.Placement
	size int
	done chan struct{} // closed when the placement's Run has returned

	mu    *sync.Mutex // the Manager's; guards works
	works []lease.Work

	// Written before done is closed.
	err     error
	stopped bool // the placement was told to end
}

// Run waits for the last controller to join; that one runs the placement.
func (g *group) Run(ctx context.Context, work lease.Work) error {
	g.mu.Lock()
	g.works = append(g.works, work)
	last := len(g.works) == g.size
	g.mu.Unlock()
	if last {
		g.err = isolate(func() error { return g.Placement.Run(ctx, g.work) })
		g.stopped = ctx.Err() != nil
		close(g.done)
		return g.err
	}
	select {
	case <-g.done:
		if g.stopped {
			<-ctx.Done() // controllers are stopped one after the other
		}
		return g.err
	case <-ctx.Done():
	}
	g.mu.Lock()
	begun := len(g.works) == g.size
	g.mu.Unlock()
	if begun {
		<-g.done
		return g.err
	}
	return nil
}

func (g *group) work(ctx context.Context, shard int) error {
	var wg sync.WaitGroup
	for _, work := range g.works {
		wg.Go(func() { _ = work(ctx, shard) }) // a controller's work never fails
	}
	wg.Wait()
	return nil
}

// ungrouped is the placement itself of one that several controllers share.
func ungrouped(p lease.Placement) lease.Placement {
	if g, ok := p.(*group); ok {
		return g.Placement
	}
	return p
}
