package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tendhq/tend/store"
)

// Members tells how many servers live that call themselves members of a name:
// to divide among them what none of them owns, such as the quota of an API. It
// costs a lease, a record and a watch per server, and no call per question. It
// is a Runner: while Run does not run, this server is no member.
type Members struct {
	e       *elector
	changed chan struct{} // capacity 1: one notification waits, none is lost

	mu      sync.Mutex // guards the two below
	live    int
	trusted func() bool // whether this server can be sure of being a member; nil: it is none
}

// NewMembers makes a membership under a name, in a backend that all of them
// use. It starts nothing. Servers are told apart by Options.Server, so that one
// which comes back after a crash is not counted twice: give each a name of its
// own, and let it keep it.
func NewMembers(b store.Backend, name string, o *Options) (*Members, error) {
	e, err := newElector(b, name, fmt.Sprintf("members of %q", name), 0, o)
	if err != nil {
		return nil, err
	}
	m := &Members{e: e, changed: make(chan struct{}, 1)}
	e.member = "peer-"
	e.joined = m.joined
	e.wants = func(members map[string]string, session string, _ int) []bool {
		m.saw(members, session)
		return []bool{}
	}
	return m, nil
}

// String says whose members.
func (m *Members) String() string { return m.e.String() }

// TTL is how long a member that vanished goes on being counted, and the most
// that one goes on for that was cut off.
func (m *Members) TTL() time.Duration { return m.e.opts.TTL }

// Live is how many members there are, this server included. It is 0 while this
// server cannot be sure of being one: before it has joined, and when it could
// not renew its lease. Live does not block.
func (m *Members) Live() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	// The clock is read here, and not by a timer alone: see state.Held.
	if m.trusted == nil || !m.trusted() {
		return 0
	}
	return m.live
}

// Changed receives a value after what Live says has changed. It holds one
// notification until it is received, and is for one listener.
func (m *Members) Changed() <-chan struct{} { return m.changed }

// Run is a member until ctx ends, and leaves before it returns. Calling it twice
// at a time is an error.
func (m *Members) Run(ctx context.Context) error {
	return m.e.Run(ctx, func(context.Context, int) error { return nil }) // without shards there is no work
}

func (m *Members) joined(trusted func() bool) {
	m.mu.Lock()
	m.live, m.trusted = 0, trusted
	m.mu.Unlock()
	m.notify()
}

// saw takes note of the live servers. As long as this one is not among them the
// board is older than its join.
func (m *Members) saw(members map[string]string, session string) {
	servers := map[string]bool{}
	for _, server := range members {
		servers[server] = true
	}
	m.mu.Lock()
	m.live = len(servers)
	if _, ok := members[session]; !ok {
		m.live = 0
	}
	m.mu.Unlock()
	m.notify()
}

func (m *Members) notify() {
	select {
	case m.changed <- struct{}{}:
	default: // one waits already, and Live tells the latest
	}
}
