package lease

import (
	"context"

	"github.com/tendhq/tend/store"
)

// EveryServer is the placement without a lease: each server does all the work.
// It is for work that concerns the server itself, or that changes nothing.
func EveryServer() Placement {
	p := &everyServer{state: newState("every server")}
	p.win(store.Compare{}, forever)
	return p
}

type everyServer struct {
	*state
	once running
}

func (p *everyServer) String() string  { return "every server" }
func (p *everyServer) Shards() int     { return 1 }
func (p *everyServer) Lease(int) Lease { return p.state }

func (p *everyServer) Run(ctx context.Context, work Work) error {
	if !p.once.begin() {
		return errRunning
	}
	defer p.once.end()
	supervise(ctx, 0, work)
	<-ctx.Done()
	return nil
}
