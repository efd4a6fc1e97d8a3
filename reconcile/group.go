package reconcile

import (
	"context"
	"sync"

	"github.com/tendhq/tend/reconcile/lease"
)

// group lets several controllers share one placement: it is run once, and its
// work is the work of all of them. A shard is given up when the last has let go of
// it; each controller is done when its own runs are, however long those of others take.
type group struct {
	lease.Placement
	size int
	done chan struct{} // closed when the placement's Run has returned

	mu      *sync.Mutex // the Manager's; guards what follows
	members []*groupMember
	told    int // members that were told to end
	left    int // … and have returned, but for the last one
	cancel  context.CancelFunc

	err error // of the placement, written before done is closed
}

// groupMember is one of the controllers.
type groupMember struct {
	ctx   context.Context
	work  lease.Work
	works sync.WaitGroup
}

// Run runs the placement from when the last controller has joined until the last was told to
// end, and waits for the member's own work; the last to leave waits for the placement.
func (g *group) Run(ctx context.Context, work lease.Work) error {
	g.mu.Lock()
	m := &groupMember{ctx: ctx, work: work}
	if g.members = append(g.members, m); len(g.members) == g.size {
		placed, cancel := context.WithCancel(context.WithoutCancel(ctx))
		g.cancel = cancel
		go func() { // ended by cancel; waited for by the last member
			defer close(g.done)
			g.err = isolate(func() error { return g.Placement.Run(placed, g.work) })
		}()
	}
	g.mu.Unlock()
	select {
	case <-g.done:
		return g.err // it ended by itself
	case <-ctx.Done():
	}
	g.mu.Lock()
	g.told++
	if g.told == g.size {
		g.cancel()
	}
	g.mu.Unlock()
	m.works.Wait()
	g.mu.Lock()
	g.left++
	last := g.left == g.size
	g.mu.Unlock()
	if last {
		<-g.done
		return g.err
	}
	return nil
}

func (g *group) work(ctx context.Context, shard int) error {
	var wg sync.WaitGroup
	for _, m := range g.members { // nothing joins any more
		wg.Go(func() { g.workOf(ctx, m, shard) })
	}
	wg.Wait()
	return nil
}

// workOf is a member's work for a shard, until that is lost or the member is told to end.
func (g *group) workOf(ctx context.Context, m *groupMember, shard int) {
	g.mu.Lock()
	if m.ctx.Err() != nil {
		g.mu.Unlock()
		return
	}
	m.works.Add(1) // before the member waits for it, which it does with the lock after its end
	g.mu.Unlock()
	defer m.works.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(m.ctx, func() { cancel(context.Cause(m.ctx)) })()
	_ = m.work(ctx, shard) // a controller's never fails
}

// ungrouped is the placement itself of one that several controllers share.
func ungrouped(p lease.Placement) lease.Placement {
	if g, ok := p.(*group); ok {
		return g.Placement
	}
	return p
}

// readyOf asks what keeps a placement from working: its Ready, or where it has none its Health.
func readyOf(p lease.Placement) error {
	if r, ok := p.(interface{ Ready() error }); ok {
		return r.Ready()
	}
	return healthOf(p)
}
