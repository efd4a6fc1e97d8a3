package lease

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"

	"github.com/tendhq/tend/store"
)

// Singletons are several singletons that the servers share evenly: each runs on one server
// at a time, and each server has its part of them, as of the shards of [NewSharded] and by
// the same plan. With [NewSingleton] the first server of a fleet may have them all.
//
// A server takes part while it runs all of them: until the last one's Run is called, and
// from the end of the first one's, the other servers have all.
type Singletons struct {
	e      *elector
	places []*place

	mu      sync.Mutex // guards the rest
	running int        // places with a Run under way
	stop    context.CancelCauseFunc
	done    chan struct{} // closed when the engine has returned; nil: it was never started
}

// place is the placement of one of them.
type place struct {
	*state // the lease
	group  *Singletons
	name   string
	shard  int
	once   running
	work   Work // guarded by group.mu
}

// NewSingletons makes singletons of these names, in any order, that share the servers which
// call it with the same group name. The backend must have leases ([store.Leaser]) and be the
// same for all servers.
//
// All servers have to say the same names. Where a deployment changes them, the servers with
// the names of the server that is there longest work, and the others wait, with a warning,
// until the last of them has left. To make this of singletons made with [NewSingleton], stop
// all servers first.
func NewSingletons(b store.Backend, group string, names []string, o *Options) (*Singletons, error) {
	names = slices.Sorted(slices.Values(names))
	if len(names) < 1 || len(names) > MaxShards {
		return nil, fmt.Errorf("lease: %d singletons are not between 1 and %d", len(names), MaxShards)
	}
	e, err := newElector(b, group, fmt.Sprintf("%d singletons %q", len(names), group), len(names), o)
	if err != nil {
		return nil, err
	}
	e.member = "member-"
	e.wants, e.divides, e.opts.Load = share, true, nil
	s := &Singletons{e: e}
	h := fnv.New32a()
	for i, name := range names {
		if name == "" || i > 0 && name == names[i-1] {
			return nil, fmt.Errorf("lease: singleton %q is empty or given twice", name)
		}
		fmt.Fprintf(h, "%q", name)
		s.places = append(s.places, &place{state: e.shards[i], group: s, name: name, shard: i})
	}
	// The shards of two lists of names are not the same, even if they are as many.
	e.division = MaxShards + 1 + int(h.Sum32()>>2)
	return s, nil
}

// Placement is the placement of one of the singletons. It panics if there is none of that name.
func (s *Singletons) Placement(name string) Placement {
	i, ok := slices.BinarySearchFunc(s.places, name, func(p *place, name string) int {
		if p.name < name {
			return -1
		} else if p.name > name {
			return 1
		}
		return 0
	})
	if !ok {
		panic(fmt.Sprintf("lease: no singleton %q in %v", name, s))
	}
	return s.places[i]
}

// String says how many singletons of which group.
func (s *Singletons) String() string { return s.e.String() }

func (p *place) String() string                        { return fmt.Sprintf("singleton %q of %q", p.name, p.group.e.name) }
func (p *place) Shards() int                           { return 1 }
func (p *place) Lease(int) Lease                       { return p.state }
func (p *place) Holder(int) (server string, ok bool)   { return p.group.e.Holder(p.shard) }
func (p *place) Previous(int) (server string, ok bool) { return p.group.e.Previous(p.shard) }
func (p *place) Health() error                         { return p.group.e.Health() }
func (p *place) Ready() error                          { return p.group.e.Ready() }

func (p *place) Run(ctx context.Context, work Work) error {
	if !p.once.begin() {
		return errRunning
	}
	defer p.once.end()
	p.group.join(ctx, p, work)
	<-ctx.Done()
	p.group.leave(context.Cause(ctx), p)
	return nil
}

// join starts the engine when p is the last one to run. The engine before has returned: the
// place whose end stopped it has waited for that, and runs again by now.
func (s *Singletons) join(ctx context.Context, p *place, work Work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.work = work
	if s.running++; s.running < len(s.places) {
		return
	}
	done := make(chan struct{})
	ctx, s.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	s.done = done
	go func() { // ended by stop, waited for by leave
		defer close(done)
		_ = s.e.Run(ctx, s.workOn) // the only error is that it runs already
	}()
}

func (s *Singletons) workOn(ctx context.Context, shard int) error {
	s.mu.Lock()
	work := s.places[shard].work
	s.mu.Unlock()
	if work == nil {
		return nil // its Run has ended, and the engine is about to
	}
	return work(ctx, 0)
}

// leave stops the engine, and waits until all its work has ended.
func (s *Singletons) leave(why error, p *place) {
	s.mu.Lock()
	done := s.done
	if s.running == len(s.places) {
		s.stop(why)
	}
	s.running--
	s.mu.Unlock()
	if done != nil {
		<-done
	}
	s.mu.Lock()
	p.work = nil
	s.mu.Unlock()
}
