package lease

import (
	"sync"

	"github.com/tendhq/tend/store"
)

// state is what one server knows of one lease; it is the Lease that users see.
type state struct {
	name    string
	changed chan struct{} // capacity 1: one notification waits, none is lost

	mu    sync.Mutex // guards the two below
	guard store.Compare
	// trusted reports whether the hold may be trusted. It is a function of the
	// session because one renewal counts for every shard at once. nil: not held.
	trusted func() bool
}

var _ Lease = (*state)(nil)

func newState(name string) *state {
	return &state{name: name, changed: make(chan struct{}, 1)}
}

func (s *state) Name() string             { return s.name }
func (s *state) Changed() <-chan struct{} { return s.changed }

func (s *state) Held() (store.Compare, bool) {
	s.mu.Lock()
	guard, trusted := s.guard, s.trusted
	s.mu.Unlock()
	// The clock is read here and not by a timer: a process that was stopped for
	// longer than its lease must not trust it in the moment before its timers
	// have fired.
	if trusted == nil || !trusted() {
		return store.Compare{}, false
	}
	return guard, true
}

func (s *state) win(guard store.Compare, trusted func() bool) {
	s.mu.Lock()
	s.guard, s.trusted = guard, trusted
	s.mu.Unlock()
	s.notify()
}

func (s *state) lose() {
	s.mu.Lock()
	was := s.trusted != nil
	s.guard, s.trusted = store.Compare{}, nil
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
func forever() bool { return true }
