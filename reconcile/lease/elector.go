package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/store"
)

// Kind is the store kind of the records that leases are kept in: a record for
// each shard, and for a sharded placement one for each live member.
const Kind = "_lease"

// Options of the placements that keep their leases in a store. The zero value
// works.
type Options struct {
	// TTL is how long a lease outlives a holder that vanished, and so the
	// greater part of a takeover; docs/TAKEOVER.md says how long one takes. 0 means
	// 15 s; the least is 2 s, which is the least that etcd grants with its default
	// election timeout (one and a half of it, in whole seconds); the most is 24 h.
	TTL time.Duration
	// margin is how long before the end of its TTL a lease that could not be
	// renewed is given up, to leave room for clocks that run at different
	// rates. 0 means a tenth of the TTL.
	margin time.Duration
	// Server names this server to the others. In a sharded placement it decides
	// which shards are its own, so a name that stays the same over restarts
	// brings the same shards back. "" means the host's name with a random
	// suffix.
	Server string
	// Weight is how large a part of a sharded placement this server takes: one with 2 takes
	// twice the shards of one with 1. 0 means 1; the most is 1,000.
	Weight int
	// Load measures what a shard that this server holds costs it: in any unit that is the same
	// on all servers, such as the time of its runs in a minute. With it a sharded placement
	// divides the load instead of the number of shards, as soon as one server has it; a shard
	// whose load is not known counts as an average one. Shards move when a server has less than
	// 0.75 or more than 1.25 of its part (by Weight), until all have 0.9 to 1.1, or until no shard
	// is small enough to be moved. A server whose shards are too large keeps what it has, and the
	// others divide the rest. It is called every four TTLs for each shard that is held, and
	// must neither block nor take long. A value counts once the shard has been held for as long. Less
	// than 1 is 1. nil means that shards count by their number. Other placements do not call it.
	Load func(shard int) int64
	// Logger hears of leases won and lost and of trouble on the way. nil means
	// slog.Default.
	Logger *slog.Logger
}

// maxTTL is the longest TTL. What a crashed server held is without an owner for so long.
const maxTTL = 24 * time.Hour

// maxWeight is the most that Options.Weight may be.
const maxWeight = 1000

func (o *Options) withDefaults() (Options, error) {
	var v Options
	if o != nil {
		v = *o
	}
	if v.TTL == 0 {
		v.TTL = 15 * time.Second
	}
	if v.margin == 0 {
		v.margin = v.TTL / 10
	}
	if v.Logger == nil {
		v.Logger = slog.Default()
	}
	if v.Server == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "server"
		}
		v.Server = host + "-" + newID()[:6]
	}
	switch {
	case v.TTL < 2*time.Second:
		return v, fmt.Errorf("lease: TTL %v is below the least, 2s", v.TTL)
	case v.TTL > maxTTL:
		return v, fmt.Errorf("lease: TTL %v is above the most, %v", v.TTL, maxTTL)
	case v.Weight < 0 || v.Weight > maxWeight:
		return v, fmt.Errorf("lease: weight %d is not between 0 and %d", v.Weight, maxWeight)
	case v.margin < 0 || v.margin > v.TTL/2:
		return v, fmt.Errorf("lease: margin %v is not between 0 and half of the TTL %v", v.margin, v.TTL)
	}
	return v, nil
}

// elector keeps the leases of one placement in a store. See doc.go.
//
//	Run ── session (one backend lease) ── hold (one shard) ── work
//	         │ renews, and is over when it cannot
//	         └ board: what the store says of the holders
type elector struct {
	title   string // for String
	name    string
	backend store.Backend
	leaser  store.Leaser
	opts    Options
	shards  []*state
	keys    []store.Key // of the shards' records
	// wants says, for each of n shards, whether the session with this id is to
	// hold it, given the sessions that live and their servers' names.
	wants func(members map[string]string, id string, n int) []bool
	// member is how the names of records begin by which sessions announce
	// themselves to each other, because wants needs the live servers. It differs between
	// Sharded and Members, whose names people choose alike: a session that holds no
	// shards must not be given a share of them. "": sessions are not announced.
	member string
	// division tells ways to divide the keys apart: servers of two must not work beside each
	// other. It is the number of shards where that says all.
	division int
	// divides says that wants is the rule of before, and that the servers divide by a plan
	// in the store as soon as each of them can.
	divides bool
	// joined is told of each session of a member, with what reports whether it may
	// be trusted, and with nil of its end. Nil: there is nothing to tell.
	joined func(trusted func() bool)
	// stale is told when the answer of trusted may have changed. Set with joined.
	stale func()
	// says is what a member tells the others, and speak has a token when that has
	// changed. Nil: it tells nothing.
	says  func() string
	speak chan struct{}
	clock clock

	once running
	seen atomic.Pointer[board] // of the present or the last session; nil: none yet
	// without is since when and why no session could begin. Nil: the last one did, or the
	// first is about to.
	without atomic.Pointer[refusal]

	// The rest belongs to the goroutine in Run.

	// busy marks the shards with a call of work that has not returned. It
	// outlives the session: that is what keeps a lease won back from giving two
	// live runs.
	busy []bool
	// lost are the leases of sessions that could not renew them, and may live on in the store.
	lost []lostLease
	// finished has room for every shard, so that no work waits to say it ended.
	finished chan *hold
}

func newElector(b store.Backend, name, title string, shards int, o *Options) (*elector, error) {
	if b == nil {
		return nil, errors.New("lease: no backend")
	}
	leaser, ok := b.(store.Leaser)
	if !ok {
		return nil, fmt.Errorf("lease: backend %T has no leases", b)
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &elector{
		title: title, name: name, backend: b, leaser: leaser, opts: opts, clock: systemClock(), division: shards,
		busy: make([]bool, shards), finished: make(chan *hold, shards),
	}
	for i := range shards {
		e.keys = append(e.keys, shardKey(name, i))
		e.shards = append(e.shards, newState(e.keys[i].String()))
	}
	return e, nil
}

// checkName refuses what cannot be the namespace of a record.
func checkName(name string) error {
	if name == "" {
		return errors.New("lease: no name")
	}
	if err := store.CheckAddress(Kind, shardKey(name, 0)); err != nil {
		return fmt.Errorf("lease: illegal name %q: %w", name, err)
	}
	return nil
}

func (e *elector) String() string        { return e.title }
func (e *elector) Shards() int           { return len(e.shards) }
func (e *elector) Lease(shard int) Lease { return e.shards[shard] }

// Holder is the server that holds a shard's lease, as far as this one has heard;
// not ok: none holds it, or this one has not heard yet. It is for people to look at: by
// the time it is read it may be another.
func (e *elector) Holder(shard int) (server string, ok bool) {
	b := e.seen.Load()
	if b == nil {
		return "", false
	}
	o, held, _ := b.holder(e.keys[shard], 0)
	return o.Server, held
}

// Previous is the server that held a shard's lease before the present holder, as far as
// this one has heard since it began to watch; not ok: it has not heard of one. It is for
// people to look at.
func (e *elector) Previous(shard int) (server string, ok bool) {
	b := e.seen.Load()
	if b == nil {
		return "", false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	server, ok = b.before[e.keys[shard].Name]
	return server, ok
}

// Health returns what the backend says of itself: while it is unavailable no lease can
// be won or renewed. A store that answers and grants no lease (one that is read-only, or
// whose disk is full) is unavailable to leases. While the clocks of this machine disagree so
// that it takes no lease, it says that.
func (e *elector) Health() error {
	if err := store.Health(e.backend); err != nil {
		return fmt.Errorf("lease: %s: %w", e.title, err)
	}
	return e.granted()
}

// Ready is Health without what the backend only warns of: it serves.
func (e *elector) Ready() error {
	if err := unavailable(e.backend); err != nil {
		return fmt.Errorf("lease: %s: %w", e.title, err)
	}
	return e.granted()
}

// unavailable is why a backend cannot serve; nil: it serves, and may warn.
func unavailable(b store.Backend) error {
	err := store.Health(b)
	if _, is := errors.AsType[*store.UnavailableError](err); !is {
		return nil
	}
	return err
}

// refusal is why no session could begin.
type refusal struct {
	store.UnavailableError
	down bool // the backend did not serve when a session was last tried
}

// granted is why no lease is granted although the backend answers. What was met while it did not
// answer says nothing of a backend that does: the next try is about to tell.
func (e *elector) granted() error {
	switch w := e.without.Load(); {
	case w == nil || w.down && unavailable(e.backend) == nil:
		return nil
	case errors.Is(w.Err, errClocks):
		return fmt.Errorf("lease: %s: since %s: %w", e.title, w.Since.Format(time.RFC3339), w.Err)
	default:
		return fmt.Errorf("lease: %s: no lease is granted: %w", e.title, &w.UnavailableError)
	}
}

// notGranted notes for Health that a session could not begin, and returns err.
func (e *elector) notGranted(ctx context.Context, err error) error {
	if ctx.Err() == nil { // else this server stops
		now := &refusal{store.UnavailableError{Since: time.Now(), Err: err}, unavailable(e.backend) != nil}
		if before := e.without.Load(); before != nil {
			now.Since = before.Since
		}
		e.without.Store(now)
	}
	return err
}

func (e *elector) Run(ctx context.Context, work Work) error {
	if !e.once.begin() {
		return errRunning
	}
	defer e.once.end()
	defer e.without.Store(nil)
	for failures := 0; ctx.Err() == nil; failures++ {
		began := time.Now()
		err := e.runSession(ctx, work)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > e.opts.TTL {
			failures = 0
		}
		if failures == 0 { // once per change of state, not per attempt
			e.opts.Logger.Warn("lease session ended", "lease", e.name, "server", e.opts.Server, "err", store.Brief(err))
		}
		e.pause(ctx, min(restarts.After(failures), e.opts.TTL/3))
		if errors.Is(err, errClocks) {
			e.awaitClocks(ctx)
		}
	}
	for e.anyBusy() {
		e.busy[(<-e.finished).shard] = false
	}
	return nil
}

// awaitClocks waits until the clocks agree, so that the leases are left to other servers.
func (e *elector) awaitClocks(ctx context.Context) {
	e.without.Store(&refusal{UnavailableError: store.UnavailableError{Since: time.Now(), Err: errClocks}})
	for ctx.Err() == nil {
		before := e.clock.now()
		e.pause(ctx, e.opts.TTL/3)
		if _, sure := e.clock.since(before); sure {
			return
		}
	}
}

// pause waits, and goes on listening to work that returns.
func (e *elector) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case h := <-e.finished:
			e.busy[h.shard] = false
		case <-t.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (e *elector) anyBusy() bool {
	for _, b := range e.busy {
		if b {
			return true
		}
	}
	return false
}

// running keeps Run from being called twice at a time.
type running struct{ on atomic.Bool }

func (r *running) begin() bool { return r.on.CompareAndSwap(false, true) }
func (r *running) end()        { r.on.Store(false) }
