package lease

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/tendhq/tend/store"
)

// Members tells how many servers live that call themselves members of a name:
// to divide among them what none of them owns, such as the quota of an API. It
// costs a lease, a record, a watch and three lists of the members a TTL per server, and no
// call per question. It is a Runner: while Run does not run, this server is no member.
type Members struct {
	e       *elector
	changed chan struct{} // capacity 1: one notification waits, none is lost

	mu      sync.Mutex // guards what follows
	live    int
	said    map[string]string // by server
	says    string            // by this server
	trusted func() bool       // whether this server can be sure of being a member; nil: it is none
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
	e.joined, e.stale = m.joined, m.notify
	e.says, e.speak = m.own, make(chan struct{}, 1)
	e.wants = func(members map[string]string, session string, _ int) []bool {
		m.saw(members, session)
		return []bool{}
	}
	return m, nil
}

// String says whose members.
func (m *Members) String() string { return m.e.String() }

// Health returns why this server cannot become a member: the backend is unavailable, or grants
// no lease.
func (m *Members) Health() error { return m.e.Health() }

// TTL is how long a member that vanished goes on being counted, and the most
// that one goes on for that was cut off.
func (m *Members) TTL() time.Duration { return m.e.opts.TTL }

// Live is how many members there are, this server included. It is 0 while this
// server cannot be sure: before it has joined, when it could not renew its lease, and when
// what it knows of the others is older than a TTL less the margin, because no list was
// answered. A member that Live does not count joined less than a TTL ago, also where a watch
// hangs. Live does not block.
func (m *Members) Live() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	// The clock is read here, and not by a timer alone: see state.Held.
	if m.trusted == nil || !m.trusted() {
		return 0
	}
	return m.live
}

// Say tells the other members a text, which replaces the one before: it is stored in
// this server's record, which the others read in [Members.Said] soon after. A few hundred
// bytes are meant, and no secrets. It does not block; while Run does not run, the text
// is kept for the next time that this server is a member.
func (m *Members) Say(text string) {
	m.mu.Lock()
	changed := m.says != text
	m.says = text
	m.mu.Unlock()
	if changed {
		select {
		case m.e.speak <- struct{}{}:
		default: // one waits already, and own tells the latest
		}
	}
}

func (m *Members) own() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.says
}

// Said is what each live member said last, by the name of its server ("" if it said
// nothing), as far as this server has heard, this server included. It is for the caller
// to keep. Said does not block.
func (m *Members) Said() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.said)
}

// Server is the name of this server among the members.
func (m *Members) Server() string { return m.e.opts.Server }

// Changed receives a value after what Live or Said says has changed. It holds one
// notification until it is received, and is for one listener.
func (m *Members) Changed() <-chan struct{} { return m.changed }

// Run is a member until ctx ends, and leaves before it returns. Calling it twice
// at a time is an error.
func (m *Members) Run(ctx context.Context) error {
	return m.e.Run(ctx, func(context.Context, int) error { return nil }) // without shards there is no work
}

func (m *Members) joined(trusted func() bool) {
	m.mu.Lock()
	m.live, m.said, m.trusted = 0, nil, trusted
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
	said := m.e.seen.Load().said()
	m.mu.Lock()
	m.live, m.said = len(servers), said
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
