package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// Options of a [Set].
type Options struct {
	// Limits says what the cloud grants under a name, to all servers together.
	// It is asked once for each name, and again for one that was forgotten, by the
	// callers of Get: at the same time for several names, and of callers that come at once
	// for one name by each, of which the first answer counts. Required.
	Limits func(Name) (Limits, error)
	// Members are the servers that share what is granted; the Set runs them.
	// Nil: this server has all of it.
	Members *lease.Members
	// Backend is where servers tell each other that the cloud asked one of them to
	// wait, for a second or longer; it has to be a [store.Leaser]. Nil: a pause
	// holds for this server alone. The Set watches it while Run runs.
	Backend store.Backend
	// Logger gets a line when a breaker opens, with the error of the last call, and one when
	// it closes. Default: [slog.Default].
	Logger *slog.Logger
}

// Set holds the quotas of a process by their names, and, where there are several
// servers, keeps each at its part. It is a Runner for a Manager: without
// Members, Run has nothing to do and need not be called; with them there is no
// budget before it has found the live members.
//
// A quota that is not held and that was not used for an hour is forgotten, once there
// are some thousand names: accounts come and go. By then its buckets are full again,
// so that the next Get of its name loses nothing but its counters, and the rate that
// was found.
type Set struct {
	o Options

	mu     sync.Mutex // guards what follows; taken before any lock of a quota
	quotas map[Name]*entry
	tidyAt int               // so many names
	share  float64           // of a budget that is new
	said   needs             // what this server said last; its parts are no greater
	unsaid map[string]unsaid // what it said within the last TTL and says no more
	pauses pauses            // has a lock of its own
}

// unsaid is a need that this server said until some time: for a TTL after it, servers may
// go on with their parts of what was left.
type unsaid struct {
	need  float64
	until time.Time
}

// NewSet makes an empty set. It fails without Limits.
func NewSet(o *Options) (*Set, error) {
	if o == nil || o.Limits == nil {
		return nil, errors.New("quota: Options.Limits is required")
	}
	s := &Set{o: *o, quotas: map[Name]*entry{}, tidyAt: manyNames, share: 1, unsaid: map[string]unsaid{}}
	if o.Members != nil {
		s.share = 0
	}
	leaser, ok := o.Backend.(store.Leaser)
	if o.Backend != nil && !ok {
		return nil, errors.New("quota: Options.Backend has no leases")
	}
	s.pauses = pauses{
		leaser: leaser, server: rand.Text(), more: make(chan struct{}, 1),
		tell: map[string]time.Duration{}, told: map[string]time.Time{}, heard: map[store.Key]heardPause{},
		busy: map[string]bool{},
	}
	return s, nil
}

// String names the set, for logs.
func (s *Set) String() string { return "quotas" }

// Health returns why this server cannot become one of Options.Members, without which it makes
// no calls, and which endpoints are down, since when and why: their breakers are open, and a call has
// failed within 10 minutes.
func (s *Set) Health() error {
	var ill []error
	if s.o.Members != nil {
		ill = append(ill, s.o.Members.Health())
	}
	for _, b := range s.budgets() {
		if since, err := b.down(); !since.IsZero() {
			why := ""
			if err != nil { // in one line, for each of the endpoints has one
				why = ": " + strings.Join(strings.Fields(store.Clip(err.Error())), " ")
			}
			ill = append(ill, fmt.Errorf("quota: %s: %s since %s%s", b.bucket.Name(), downText, since.Format(time.RFC3339), why))
		}
	}
	return errors.Join(ill...)
}

// Get is the quota of that name: the same one at every call, for as long as it is
// held. An error is that of Limits, or says which of the limits cannot be; it too
// is the same at every call, for an hour.
func (s *Set) Get(name Name) (*Quota, error) {
	s.mu.Lock()
	q, err := s.heldLocked(name)
	s.mu.Unlock()
	if q != nil || err != nil {
		return q, err
	}
	limits, limitsErr := s.limits(name) // user code: without the lock
	s.mu.Lock()
	defer s.mu.Unlock()
	if q, err := s.heldLocked(name); q != nil || err != nil { // another caller was faster
		return q, err
	}
	e := &entry{made: time.Now(), err: limitsErr}
	if e.err == nil {
		if q, e.err = s.makeLocked(name, limits); e.err == nil {
			e.hold(q)
		}
	}
	s.tidyLocked() // first: it must not find the new one
	s.quotas[name] = e
	return q, e.err
}

// heldLocked is what Get has for the name; neither: it has to be made.
func (s *Set) heldLocked(name Name) (*Quota, error) {
	e, ok := s.quotas[name]
	if !ok {
		return nil, nil
	}
	if q := e.quota.Value(); q != nil {
		return q, nil
	}
	if time.Since(e.made) < idle {
		return nil, e.err
	}
	return nil, nil
}

func (s *Set) limits(name Name) (Limits, error) {
	if name == (Name{}) {
		return Limits{}, errors.New("quota: a quota needs a name")
	}
	l, err := s.o.Limits(name)
	if err != nil {
		return Limits{}, fmt.Errorf("quota: limits of %s: %w", name, err)
	}
	return l, nil
}

func (s *Set) makeLocked(name Name, l Limits) (*Quota, error) {
	q, err := newQuota(name, l, s.o.Logger)
	if err != nil {
		return nil, err
	}
	q.set = s
	for _, b := range q.distinct() {
		b.setShare(min(s.share, s.boundLocked(b.key)))
	}
	if s.o.Backend != nil {
		for _, b := range q.distinct() {
			b.tell = func(d time.Duration) { s.pauses.share(b.key, d) }
			b.pauseUntil(s.pauses.heardOf(b))
		}
	}
	return q, nil
}

// boundLocked is the most that this server takes of a new budget by what it said of one of
// that key that was forgotten: what it left may be with other servers for a TTL more.
func (s *Set) boundLocked(key string) float64 {
	if need := s.said[key]; need > 0 {
		return need
	}
	if u, ok := s.unsaid[key]; ok && time.Since(u.until) < s.o.Members.TTL() {
		return u.need
	}
	return 1
}

// Run keeps this server at its part of every budget until ctx ends: 1/n of it
// among n members, and more where this server waits for it and others need less than
// their parts. Less is taken at once; more, and the first part where others
// live, only after a TTL, by when the others have heard of it too and what left
// has drained. A server that is not sure of its own membership has no part.
//
// While a server waits for a budget, the members write what they need of it into their
// own records: at most ten times a TTL, and not at all while no server waits.
//
// With a Backend it tells the other servers of pauses, and hears of theirs.
func (s *Set) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer cancel() // first
	if s.o.Backend != nil {
		parts.Go(func() { s.sharePauses(ctx) }) // ends with ctx
	}
	if s.o.Members == nil {
		<-ctx.Done()
		return nil
	}
	s.divide(&following{parts: map[*budget]*steered{}}, board{})
	var err error
	var members sync.WaitGroup
	members.Go(func() { // ends with ctx, or at once with an error
		defer cancel()
		err = s.o.Members.Run(ctx)
	})
	s.follow(ctx)
	members.Wait()
	// The part is kept: runs that drain may finish what they began. Those that
	// stay wait for a TTL before they take it.
	return err
}

// looks is how often a server looks at what it needs within a TTL.
const looks = 10

// follow brings the parts in line with what the live members say, until ctx ends.
func (s *Set) follow(ctx context.Context) {
	ttl := s.o.Members.TTL()
	look := time.NewTicker(ttl / looks)
	defer look.Stop()
	grow := time.NewTimer(ttl)
	grow.Stop() // it runs while more is coming to us than we take
	defer grow.Stop()
	f := following{parts: map[*budget]*steered{}, gauges: map[*budget]*gauge{}, ttl: ttl}
	for measured := false; ; {
		b := s.board()
		if ctx.Err() != nil {
			return // no member lives because we have left: the parts are kept
		}
		if measured && b.live > 0 {
			s.say(f.measure(s.budgets(), b))
		}
		if next := s.divide(&f, b); !next.IsZero() {
			grow.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return
		case <-s.o.Members.Changed():
			measured = false
		case <-grow.C:
			measured = false
		case <-look.C:
			measured = true
		}
	}
}

// following is what follow knows of each budget.
type following struct {
	ttl    time.Duration
	equal  steered // of a budget of which no server has said anything
	parts  map[*budget]*steered
	gauges map[*budget]*gauge
}

func (s *Set) board() board {
	b := board{self: s.o.Members.Server(), said: map[string]needs{}}
	for server, text := range s.o.Members.Said() {
		b.said[server] = readNeeds(text)
	}
	if b.live = s.o.Members.Live(); b.live > 0 {
		b.live = max(b.live, len(b.said)) // one may have come between the two
	}
	return b
}

// measure is what this server needs.
func (f *following) measure(all []*budget, b board) needs {
	now, said := time.Now(), needs{}
	known := f.gauges
	f.gauges = make(map[*budget]*gauge, len(all))
	for _, one := range all {
		g := known[one]
		if g == nil {
			g = &gauge{}
		}
		f.gauges[one] = g
		if g.read(one, now, 1/float64(b.live), b.hungry(one.key, one.bucket.Name())); g.need > 0 && len(said) < mostNeeds {
			said[one.key] = g.need
		}
	}
	return said
}

// say tells the other members what this server needs. It is bound by it from now on.
func (s *Set) say(n needs) {
	now := time.Now()
	s.mu.Lock()
	maps.DeleteFunc(s.unsaid, func(_ string, u unsaid) bool { return now.Sub(u.until) >= s.o.Members.TTL() })
	for name, need := range s.said {
		if n[name] == 0 {
			s.unsaid[name] = unsaid{need, now}
		}
	}
	s.said = n
	s.mu.Unlock()
	s.o.Members.Say(n.String())
}

// divide gives each budget its part by the board, and says when the next one grows.
func (s *Set) divide(f *following, b board) (next time.Time) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	take := func(p *steered, names ...string) float64 {
		allowed := b.part(names...)
		if need := s.said[names[0]]; need > 0 {
			allowed = min(allowed, need)
		}
		if b.live == 1 && p.part == 0 {
			p.part, p.later = allowed, nil // no other member has it; what left may still drain
		}
		part := p.steer(allowed, now, f.ttl)
		if due := p.due(f.ttl); !due.IsZero() && (next.IsZero() || due.Before(next)) {
			next = due
		}
		return part
	}
	s.share = take(&f.equal, "")
	known := f.parts
	f.parts = make(map[*budget]*steered, len(known))
	for _, e := range s.quotas {
		q := e.quota.Value()
		if q == nil {
			continue
		}
		for _, one := range q.distinct() {
			p := known[one]
			if p == nil {
				p = &steered{part: one.part()}
			}
			f.parts[one] = p
			one.setShare(take(p, one.key, one.bucket.Name()))
		}
	}
	return next
}

func (s *Set) budgets() (all []*budget) {
	for _, q := range s.all() {
		all = append(all, q.distinct()...)
	}
	return all
}

// Buckets are those of all quotas, for the debug page: a read and a write bucket each,
// or one, named by the quota and the op.
func (s *Set) Buckets() []*ratelimit.Bucket {
	var all []*ratelimit.Bucket
	for _, q := range s.all() {
		for _, b := range q.distinct() {
			all = append(all, b.bucket)
		}
	}
	return all
}

func (q *Quota) distinct() []*budget { return slices.Compact(slices.Clone(q.budgets[:])) }

// all is the quotas in the order of their names.
func (s *Set) all() []*Quota {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*Quota
	for _, name := range slices.SortedFunc(maps.Keys(s.quotas), Name.compare) {
		if q := s.quotas[name].quota.Value(); q != nil {
			all = append(all, q)
		}
	}
	return all
}

// Snapshot is what all budgets are doing, in the order of their names.
func (s *Set) Snapshot() []introspect.Budget {
	live := 1
	if s.o.Members != nil {
		live = s.o.Members.Live()
	}
	var all []introspect.Budget
	for _, q := range s.all() {
		for _, b := range q.distinct() {
			snap := b.snapshot()
			snap.Live = live
			all = append(all, snap)
		}
	}
	return all
}

func (b *budget) snapshot() introspect.Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	return introspect.Budget{
		Bucket: b.bucket.Stats(), Found: b.found, Share: b.share, Open: !b.downLocked().IsZero(), Owing: b.owing,
		Calls: b.stats.calls, Throttled: b.stats.throttled, Down: b.stats.down, Refused: b.stats.refused,
	}
}
