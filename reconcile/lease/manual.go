package lease

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/store"
)

// ErrStaleTerm says that a host claims to hold a lease by a term lower than one
// that the store has already seen: another server has been elected since.
var ErrStaleTerm = errors.New("lease: term is older than the one in the store")

// Manual is the placement of a host that has an election of its own (Raft, a
// cloud's lock, a person): the host says when the lease is held, before or
// while Run is called. It is safe for concurrent use.
//
// With a backend the term is written into a record there by compare-and-swap,
// and the record's revision is the guard: writes under an older term are
// refused. Without one nothing is fenced.
type Manual struct {
	name    string
	backend store.Backend // nil: not fenced
	state   *state
	once    running
	logger  *slog.Logger

	mu      sync.Mutex // guards the two below
	want    setting
	refused error         // why the lease is not held although the host says so
	news    chan struct{} // capacity 1
}

type setting struct {
	held bool
	term uint64
}

var _ Placement = (*Manual)(nil)

// NewManual makes a lease that is not held yet. The backend may be nil.
func NewManual(b store.Backend, name string) (*Manual, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	return &Manual{
		name: name, backend: b, state: newState(name), logger: slog.Default(),
		news: make(chan struct{}, 1),
	}, nil
}

// Set says whether this server holds the lease, and under which term of the
// host's election; a host without terms passes 0 and is not fenced. It does not
// block: Run follows, and where it lags only the latest setting counts. A new
// term is a new hold: work under the old one ends first.
func (m *Manual) Set(held bool, term uint64) {
	m.mu.Lock()
	m.want = setting{held, term}
	m.mu.Unlock()
	sleep.Wake(m.news)
}

func (m *Manual) wanted() setting {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.want
}

// String implements Placement.
func (m *Manual) String() string { return fmt.Sprintf("set by the host %q", m.name) }

// Shards implements Placement: 1.
func (m *Manual) Shards() int { return 1 }

// Lease implements Placement.
func (m *Manual) Lease(int) Lease { return m.state }

// Health returns what the backend says of itself, or why this server does not hold the
// lease although the host says so: another one has a higher term, or the store did not take
// the term.
func (m *Manual) Health() error { return m.wrong(store.Health(m.backend)) }

// Ready is Health without what the backend only warns of.
func (m *Manual) Ready() error { return m.wrong(unavailable(m.backend)) }

func (m *Manual) wrong(err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err = cmp.Or(err, m.refused); err != nil {
		return fmt.Errorf("lease: %v: %w", m, err)
	}
	return nil
}

func (m *Manual) refuse(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused = why
}

// Run implements Placement.
func (m *Manual) Run(ctx context.Context, work Work) error {
	if !m.once.begin() {
		return errRunning
	}
	defer m.once.end()
	defer m.refuse(nil)
	tried, failures := setting{}, 0
	for ctx.Err() == nil {
		want := m.wanted()
		if want != tried {
			tried, failures = want, 0
			m.refuse(nil)
		}
		if !want.held {
			m.await(ctx, 0)
			continue
		}
		guard, err := m.claim(ctx, want.term)
		m.refuse(err)
		if err != nil {
			if failures == 0 {
				m.logger.Warn("lease: the host's term was not accepted", "lease", m.name, "term", want.term, "err", store.Brief(err))
			}
			failures++
			m.await(ctx, restarts.After(failures))
			continue
		}
		failures = 0
		m.hold(ctx, want, guard, work)
	}
	return nil
}

// await waits for a new setting, for d if that is not 0, or for the end of ctx.
func (m *Manual) await(ctx context.Context, d time.Duration) {
	var after <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		after = t.C
	}
	select {
	case <-m.news:
	case <-after:
	case <-ctx.Done():
	}
}

// hold works until the setting changes or ctx ends, and returns after the work
// has: that is what keeps a lease set back and forth from giving two live runs.
func (m *Manual) hold(ctx context.Context, as setting, guard store.Compare, work Work) {
	hctx, cancel, distrust := withHold(context.WithoutCancel(ctx), guard, as.term)
	defer distrust(ErrLost)
	m.state.win(guard, forever)
	done := make(chan struct{})
	go func() { // ended by cancel, waited for below
		defer close(done)
		supervise(hctx, 0, work)
	}()
	for m.wanted() == as && ctx.Err() == nil {
		m.await(ctx, 0)
	}
	m.state.lose()
	if ctx.Err() != nil {
		cancel(context.Cause(ctx)) // and it may wind up, as long as the host lets it
	} else {
		distrust(ErrLost) // also if the setting is by now what it was: the hold is over
	}
	for {
		if m.wanted() != as {
			distrust(ErrLost)
		}
		select {
		case <-done:
			return
		case <-m.news:
		}
	}
}

// term is the value of the record that fences a Manual.
type term struct {
	Term uint64 `json:"term,string"`
}

// Encode implements store.Value.
func (t term) Encode() ([]byte, error) { return json.Marshal(t) }

func readTerm(r store.Record) (t term, err error) {
	if t, ok := r.Value.(term); ok {
		return t, nil
	}
	err = json.Unmarshal(r.Bytes, &t)
	return t, err
}

// claim writes the term into the store, unless a higher one is there, and gives
// the guard that the writes of this hold stand behind.
func (m *Manual) claim(ctx context.Context, t uint64) (store.Compare, error) {
	if m.backend == nil || t == 0 {
		return store.Compare{}, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Second, errors.New("lease: no answer from the store"))
	defer cancel()
	key := store.Key{Namespace: m.name, Name: "term"}
	was := store.Compare{Kind: Kind, Key: key}
	switch rec, err := m.backend.Get(ctx, Kind, key); {
	case err == nil:
		stored, err := readTerm(rec)
		if err != nil {
			return store.Compare{}, fmt.Errorf("lease: reading the term of %q: %w", m.name, err)
		}
		if stored.Term > t {
			return store.Compare{}, fmt.Errorf("%w: %d, the store has %d", ErrStaleTerm, t, stored.Term)
		}
		was.Revision = rec.Revision
	case !errors.Is(err, store.ErrNotFound):
		return store.Compare{}, err
	}
	revision, err := m.backend.Commit(ctx, store.Txn{
		If:  []store.Compare{was},
		Ops: []store.Op{{Kind: Kind, Key: key, Put: term{Term: t}}},
	})
	if err != nil {
		return store.Compare{}, err
	}
	return store.Compare{Kind: Kind, Key: key, Revision: revision}, nil
}
