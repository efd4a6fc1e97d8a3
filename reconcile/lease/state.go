package lease

import (
	"sync"
	"time"

	"github.com/tendhq/tend/store"
)

// state is what one server knows of one lease; it is the Lease that users see.
type state struct {
	name    string
	changed chan struct{} // capacity 1: one notification waits, none is lost

	mu    sync.Mutex // guards the two below
	guard store.Compare
	// until tells to when the hold may be trusted. It is a function of the
	// session because one renewal moves it for every shard at once. nil: not
	// held.
	until func() time.Time
}

var _ Lease = (*state)(nil)

func newState(name string) *state {
	return &state{name: name, changed: make(chan struct{}, 1)}
}

func (s *state) Name() string             { return s.name }
func (s *state) Changed() <-chan struct{} { return s.changed }

func (s *state) Held() (store.Compare, bool) {
	s.mu.Lock()
	guard, until := s.guard, s.until
	s.mu.Unlock()
	// The clock is read here and not by a timer: a process that was stopped for
	// longer than its lease must not trust it in the moment before its timers
	// have fired.
	if until == nil || !time.Now().Before(until()) {
		return store.Compare{}, false
	}
	return guard, true
}

func (s *state) win(guard store.Compare, until func() time.Time) {
	s.mu.Lock()
	s.guard, s.until = guard, until
	s.mu.Unlock()
	s.notify()
}

func (s *state) lose() {
	s.mu.Lock()
	was := s.until != nil
	s.guard, s.until = store.Compare{}, nil
	s.mu.Unlock()
	if was {
		s.notify()
	}
}

func (s *state) notify() {
	select {
	case s.changed <- struct{}{}:
	default: // one waits already, and Held tells the latest
	}
}

// forever is the trust of leases that do not run out by themselves.
func forever() time.Time { return time.Now().Add(time.Hour) }
