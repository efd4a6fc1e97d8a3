package reconcile

import (
	"context"
	"slices"
	"sync"
	"time"
)

// SampleEvery is how often a Manager calls what Sample was given.
const SampleEvery = 10 * time.Second

// sampling calls functions while a Manager runs.
type sampling struct {
	mu    sync.Mutex // guards what follows
	fs    []func()
	ctx   context.Context //nolint:containedctx // that of a Manager that runs; else nil
	begun bool
	over  sync.WaitGroup // the goroutine
}

// add adds a function, which is called at once if a Manager runs.
func (s *sampling) add(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fs = append(s.fs, f)
	s.startLocked()
}

// start begins the calls; stop ends them and waits.
func (s *sampling) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx = ctx
	s.startLocked()
	return func() {
		cancel()
		s.mu.Lock()
		s.ctx = nil
		s.mu.Unlock()
		s.over.Wait()
	}
}

func (s *sampling) startLocked() {
	if s.ctx == nil || s.begun || len(s.fs) == 0 {
		return
	}
	s.begun = true
	ctx := s.ctx
	s.over.Go(func() { s.run(ctx) }) // ended by stop, which waits for it
}

func (s *sampling) run(ctx context.Context) {
	ticks := time.NewTicker(SampleEvery)
	defer ticks.Stop()
	for ctx.Err() == nil {
		s.mu.Lock()
		fs := slices.Clone(s.fs)
		s.mu.Unlock()
		for _, f := range fs {
			f()
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
		}
	}
}
