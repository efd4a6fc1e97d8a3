package lease

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/store"
)

// session is one lease of the backend, from its grant to the moment it is given
// back or can no longer be trusted.
type session struct {
	*elector
	id    string
	lease store.LeaseID
	board *board
	work  Work

	// ctx ends with ErrLost when the lease can no longer be trusted. The
	// contexts of all work under this session descend from it.
	ctx  context.Context
	lose context.CancelCauseFunc
	// rest ends the renewals and nothing else: the lease runs out by itself.
	rest context.CancelFunc

	mu    sync.Mutex    // guards asked and read
	asked moment        // when the renewal that the trust counts from was asked for
	alarm *time.Timer   // fires when the trust has run out, and ends ctx
	doubt chan struct{} // capacity 1: the machine may have been suspended

	renewed chan struct{} // capacity 1: the lease was renewed, or a plan written; see confirm
	sureAt  time.Time     // when the lease was last found to be ours for certain; renew's alone
	read    moment        // when the last list was asked for that the members were told of
	old     *time.Timer   // fires when that is too long ago

	// The rest belongs to the goroutine in runSession.

	holds map[int]*hold
	// given is, of each shard, the fence of the hold last given up. The board
	// may go on showing that record for a while; only one with a later fence
	// can be a claim of ours.
	given map[int]store.Revision
	// unreleased are holds whose record could not be deleted yet.
	unreleased map[int]*hold
	// share is what wants answered for the members as they were at shareOf.
	share   []bool
	shareOf int
	// rule has to hold for a claim made by that share: see census.
	rule []store.Compare
	// due is the plan that the store should have; nil: it has it. dueAt is when this session
	// writes it: the oldest one at once, the others in turn if the plan in the store has been
	// out of date for so long.
	due    *plan
	dueAt  time.Time
	planAt store.Revision // of the plan in the store that due was made of
	// planFails is that the last write of a plan failed, which was logged.
	planFails bool
	// loads is what was announced of the load of shards, and measured has the shards that were
	// held at the last measurement.
	loads    map[int]int64
	measured map[int]*hold
	// announced is the revision at which the member's record was created; 0: it was not yet.
	announced store.Revision
	// waits is into how many shards the servers that we wait for divide the keys; 0: we wait for none.
	waits int
	// behind is the session that holds the one lease, as the log was told.
	behind string
}

// hold is one shard held under a session.
type hold struct {
	*session
	shard   int
	created store.Revision // of the shard's record: the fence
	// ctx is the work's: it ends when the work is to end. Its parent ends when
	// the hold is not to be trusted any more, which is the same moment, or later
	// if the work is sent away in good order.
	ctx      context.Context
	cancel   context.CancelCauseFunc
	distrust context.CancelCauseFunc
	// leaving is when the hold was cancelled; zero while it is not.
	leaving time.Time
}

// runSession takes a lease and works under it. It returns nil after ctx ended
// and everything was given back, else why the lease is no longer trusted. Work
// may still be winding up then; Run waits for it.
func (e *elector) runSession(ctx context.Context, work Work) (err error) {
	s := &session{elector: e, id: newID(), board: newBoard(e.name, e.member, len(e.shards), e.division), work: work, doubt: make(chan struct{}, 1), renewed: make(chan struct{}, 1), holds: make(map[int]*hold), given: make(map[int]store.Revision), unreleased: make(map[int]*hold)}
	e.seen.Store(s.board)
	s.ctx, s.lose = context.WithCancelCause(context.WithoutCancel(ctx))
	defer s.lose(ErrLost)
	if err := s.grant(ctx); err != nil {
		return e.notGranted(ctx, err)
	}
	defer s.alarm.Stop()
	defer func() {
		if err != nil {
			e.lost = append(e.lost, lostLease{s.lease, time.Now()})
		}
	}()

	var helpers sync.WaitGroup
	defer helpers.Wait() // after s.lose, which ends both
	defer s.lose(ErrLost)
	renewing, rest := context.WithCancel(s.ctx)
	defer rest()
	s.rest = rest
	helpers.Go(func() { s.renew(renewing) })
	helpers.Go(func() { s.board.follow(s.ctx, e.backend, s.trouble("cannot watch leases")) })
	helpers.Go(func() { s.confirm(s.ctx) })

	if e.member != "" {
		if err := s.announce(); err != nil {
			return e.notGranted(ctx, err)
		}
	}
	sleep.Wake(s.renewed) // what was listed may lack this server
	e.without.Store(nil)
	if e.joined != nil {
		e.joined(s.current)
		defer e.joined(nil)
		s.old = time.AfterFunc(s.trust(), e.stale)
		defer s.old.Stop()
	}
	return s.loop(ctx)
}

// announce writes the record of a member, with what it says to the others. Only the first time it
// creates the record: a write that reaches the store late does not bring back a member that has left.
func (s *session) announce() error {
	n := s.note()
	if s.divides {
		n.Rule, n.Weight = ruleLoads, s.opts.Weight
		n.Measures, n.Loads = s.opts.Load != nil, formatLoads(s.loads)
	}
	if s.says != nil {
		n.Says = s.says()
	}
	key := memberKey(s.name, s.member, s.id)
	var same *store.Compare
	if s.announced != 0 {
		same = &store.Compare{Kind: Kind, Key: key, Created: s.announced}
	}
	at, err := s.commit(s.ctx, store.Op{Kind: Kind, Key: key, Put: n, Lease: s.lease}, same)
	switch {
	case errors.Is(err, store.ErrConflict): // the record was removed by hand: the next time creates it
		s.announced = 0
	case err == nil && s.announced == 0:
		s.announced = at
	}
	return err
}

func (s *session) note() note {
	return note{Session: s.id, Server: s.opts.Server, Shards: s.division}
}

// trouble reports err, once per call made of it.
func (s *session) trouble(what string) func(error) {
	return func(err error) {
		s.opts.Logger.Warn("lease: "+what, "lease", s.name, "server", s.opts.Server, "err", store.Brief(err))
	}
}

func (s *session) grant(ctx context.Context) error {
	asked := s.clock.now()
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.TTL/2, errors.New("lease: no answer to a grant"))
	defer cancel()
	id, err := s.leaser.Grant(ctx, s.opts.TTL)
	if err != nil {
		return err
	}
	s.lease, s.asked, s.sureAt = id, asked, time.Now()
	s.alarm = time.AfterFunc(s.trust()-time.Since(asked.at), func() { s.lose(ErrLost) })
	return nil
}

// trust is how long a lease may be trusted after its renewal was asked for.
func (s *session) trust() time.Duration { return s.opts.TTL - s.opts.margin }

// trusted reports whether the lease is this server's for certain. After a suspension
// of the machine, or what may have been one, it is not before it has been renewed.
func (s *session) trusted() bool {
	if s.ctx.Err() != nil {
		return false
	}
	elapsed, sure := s.sinceRenewal()
	if !sure {
		select {
		case s.doubt <- struct{}{}:
		default: // one waits already
		}
	}
	return sure && elapsed < s.trust()
}

// current reports whether the lease is this server's for certain and the board shows what
// the store held less than the time of trust ago: any member that the board does not show
// came later.
func (s *session) current() bool {
	s.mu.Lock()
	read := s.read
	s.mu.Unlock()
	elapsed, sure := s.clock.since(read)
	return sure && elapsed < s.trust() && s.trusted()
}

// listed is after how many renewals the leases are listed: one, and one more for each so many
// shards, so that a large fleet does not list all the time.
const listed = 1000

// confirm compares the board with the store at once, after renewals and after a plan of
// ours, until ctx ends: a watch may be silent without a sign of it, and a server that renews and
// does not hear that a shard is free keeps it from all others. A list that fails is tried again
// soon; it costs the lease nothing.
func (s *session) confirm(ctx context.Context) {
	again := time.NewTimer(s.opts.TTL)
	again.Stop() // until a list has failed
	defer again.Stop()
	for failed := false; ; {
		asked := s.clock.now()
		bounded, cancel := context.WithTimeoutCause(ctx, s.opts.TTL/3, errors.New("lease: no answer to a list"))
		err := s.board.read(bounded, s.backend, asked)
		cancel()
		switch {
		case errors.Is(err, errBack):
			s.lose(fmt.Errorf("%w: %w", ErrLost, errBack))
		case err != nil:
			if !failed && ctx.Err() == nil {
				s.trouble("cannot list leases")(err)
			}
			again.Reset(s.opts.TTL / 10)
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return
		case <-s.renewed:
		case <-again.C:
		}
	}
}

// confirmed notes that what the members were told of is no older than a list that was asked
// for then.
func (s *session) confirmed(asked moment) {
	if s.stale == nil || !asked.at.After(s.read.at) {
		return
	}
	was := s.current()
	s.mu.Lock()
	s.read = asked
	s.mu.Unlock()
	s.old.Reset(s.trust() - time.Since(asked.at))
	if !was {
		s.stale()
	}
}

func (s *session) sinceRenewal() (elapsed time.Duration, sure bool) {
	s.mu.Lock()
	asked := s.asked
	s.mu.Unlock()
	return s.clock.since(asked)
}

// renew keeps the lease alive until the session ends or rests. The trust that a
// renewal buys is counted from before it was asked for: the store may have
// counted from any moment between the question and the answer.
func (s *session) renew(until context.Context) {
	renewals := 0
	for wait, failed := s.opts.TTL/3, false; s.await(until, wait, failed); {
		asked := s.clock.now()
		ctx, cancel := context.WithTimeoutCause(until, s.opts.TTL/3, errors.New("lease: no answer to a renewal"))
		err := s.leaser.Renew(ctx, s.lease)
		cancel()
		failed = err != nil
		switch {
		case err == nil:
			s.mu.Lock()
			s.asked = asked
			s.alarm.Reset(s.trust() - time.Since(asked.at))
			s.mu.Unlock()
			s.ascertain()
			if renewals++; renewals%(len(s.shards)/listed+1) == 0 {
				sleep.Wake(s.renewed)
			}
			wait = s.opts.TTL / 3
		case errors.Is(err, store.ErrLeaseGone): // the store has dropped it
			s.lose(ErrLost)
		default:
			wait = s.opts.TTL / 10
		}
	}
}

// await waits until the next renewal is due: after d, or at once when the machine may
// have been suspended. It looks for that every tenth of a TTL, because timers do not
// count a suspension. After a renewal that failed, d is the pause before the next one in
// any case. It reports false when until has ended. A lease whose time is over for
// certain is lost.
func (s *session) await(until context.Context, d time.Duration, failed bool) bool {
	look := time.NewTicker(s.opts.TTL / 10)
	defer look.Stop()
	due := time.NewTimer(d)
	defer due.Stop()
	for {
		select {
		case <-until.Done():
			return false
		case <-due.C:
			return until.Err() == nil
		case <-look.C:
		case <-s.doubt:
		}
		if !s.ascertain() && !failed {
			return until.Err() == nil
		}
	}
}

// ascertain reports whether the lease is certain to be ours or, if its time is over, lost. One
// that was not for a whole TTL, although it was renewed, is lost too: other servers can use it.
func (s *session) ascertain() (sure bool) {
	elapsed, sure := s.sinceRenewal()
	switch {
	case elapsed >= s.trust():
		s.lose(ErrLost)
		return true
	case sure:
		s.sureAt = time.Now()
	case time.Since(s.sureAt) > s.opts.TTL:
		s.lose(fmt.Errorf("%w: %w", ErrLost, errClocks))
	}
	return sure
}

// commit writes one record under the session's lease, or deletes it.
func (s *session) commit(ctx context.Context, op store.Op, only *store.Compare) (store.Revision, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.TTL/3, errors.New("lease: no answer to a write"))
	defer cancel()
	t := store.Txn{Ops: []store.Op{op}}
	if only != nil {
		t.If = []store.Compare{*only}
	}
	return s.backend.Commit(ctx, t)
}

// loop is the session's life: what the store says, what work reports and the
// end of ctx are taken in turn by this one goroutine.
func (s *session) loop(ctx context.Context) error {
	retry := time.NewTimer(s.opts.TTL / 10)
	defer retry.Stop()
	measuring, stop := s.measuring()
	defer stop()
	for ctx.Err() == nil {
		if s.act(ctx) {
			retry.Reset(s.opts.TTL / 10)
		}
		select {
		case <-ctx.Done():
		case <-s.ctx.Done():
			s.loseAll()
			return context.Cause(s.ctx)
		case <-s.board.changed:
		case <-s.speak:
			if s.announce() != nil { // the store is away, and the lease may be soon
				s.sleepThenSpeak()
			}
		case <-retry.C:
		case <-measuring:
			s.measure()
		case h := <-s.finished:
			s.release(s.returned(h))
		}
	}
	return s.giveBack(ctx)
}

// sleepThenSpeak has the member's record written again after a while.
func (s *session) sleepThenSpeak() {
	time.AfterFunc(s.opts.TTL/10, func() {
		select {
		case s.speak <- struct{}{}:
		default: // one waits already
		}
	})
}

// act brings what is held in line with what should be. It says whether to look
// again soon although nothing changed: a claim failed, or a hand-over drags on.
func (s *session) act(ctx context.Context) (again bool) {
	wanted := s.wanted()
	var claims []int
	var releases []*hold
	for shard := range s.shards {
		h := s.holds[shard]
		o, held, known := s.board.holder(s.keys[shard], s.fence(h))
		if h := s.unreleased[shard]; h != nil {
			releases = append(releases, h)
			continue
		}
		if !known {
			continue
		}
		switch wanted := wanted[shard]; {
		case h != nil && (!held || o.created != h.created):
			h.leave(ErrLost) // our record was removed: the fence is down
			delete(s.holds, shard)
		case h != nil && !wanted:
			h.leave(errMoved)
			again = true
			if time.Since(h.leaving) > s.opts.TTL {
				// The work ignores its cancellation. Its shard goes to the next,
				// as if this server had died: its store writes are fenced from
				// then on, and this server does not take the shard again before
				// that work has returned.
				delete(s.holds, shard)
				releases = append(releases, h)
			}
		case h == nil && held && o.Session == s.id && o.created > s.given[shard] && !s.busy[shard]:
			s.begin(shard, o.created) // our own claim, whose answer was lost
			again = again || !wanted  // then it is given up in a moment
		case h == nil && !held && wanted && !s.busy[shard]:
			claims = append(claims, shard)
		case h == nil && held && wanted && !s.busy[shard] && len(s.shards) == 1 && o.Session != s.id && o.Session != s.behind:
			s.behind = o.Session
			s.opts.Logger.Info("lease: another process holds it, and would for up to its TTL after a crash",
				"lease", s.name, "server", s.opts.Server, "holder", o.Server, "ttl", s.opts.TTL)
		}
	}
	reachable := s.release(releases)
	if !reachable {
		return true // claims would only wait for the store, one after another
	}
	if s.board.others() {
		return again // a key of ours may be in one of their shards
	}
	written := s.writePlan(ctx)
	claimed := s.claim(ctx, claims)
	return !s.endLost(ctx) || !claimed || again || !written
}

// lostLease is the lease of a session that was lost then.
type lostLease struct {
	id store.LeaseID
	at time.Time
}

// endLost ends leases that were lost, so that none waits for their records, once all work under
// them has returned. It reports false if that failed, and it is worth while to try again.
func (s *session) endLost(ctx context.Context) bool {
	for shard, busy := range s.busy {
		if busy && s.holds[shard] == nil {
			return true // this is called again when it returns
		}
	}
	rctx, cancel := context.WithTimeoutCause(s.ctx, s.opts.TTL/3, errors.New("lease: no answer to a revoke"))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	for len(s.lost) > 0 {
		over := time.Since(s.lost[0].at) > 3*s.opts.TTL // by itself
		if !over && s.leaser.Revoke(rctx, s.lost[0].id) != nil {
			return false
		}
		s.lost = s.lost[1:]
		sleep.Wake(s.renewed) // the board is to show it
	}
	return true
}

// wanted says of every shard whether it is to be held here.
func (s *session) wanted() []bool {
	read := s.board.confirmed() // first: what members shows then is no older
	defer func() { s.confirmed(read) }()
	if c, version, changed := s.board.members(s.shareOf); changed || s.share == nil {
		s.shareOf, s.rule = version, c.rule
		s.due, s.dueAt, s.planAt = s.plan(c)
		if s.divides && c.plans {
			s.share = c.planned(s.id, len(s.shards))
		} else {
			s.share = s.wants(c.live, s.id, len(s.shards))
		}
		if c.other != s.waits && c.other != 0 {
			s.warnOfOthers(c.other)
		}
		s.waits = c.other
	}
	return s.share
}

// warnOfOthers logs that this server waits for servers of another division.
func (s *session) warnOfOthers(theirs int) {
	log := s.opts.Logger.With("lease", s.name, "server", s.opts.Server)
	if max(s.division, theirs) > MaxShards { // a hash of names; see NewSingletons
		log.Warn("lease: waiting for the servers with other singletons to leave")
		return
	}
	log.Warn("lease: waiting for the servers that divide the keys otherwise to leave", "shards", s.division, "theirs", theirs)
}

// plan is the plan that the store should have for the servers that live, nil if it has it;
// when this session writes it, and what it replaces. The time does not change while the same
// plan in the store is out of date, unless it comes earlier.
func (s *session) plan(c census) (due *plan, at time.Time, replaces store.Revision) {
	rank := c.rank(s.id)
	if rank < 0 || !s.divides || !c.plans { // rank: the board does not show yet that this server is a member
		return nil, time.Time{}, 0
	}
	next := c.next()
	if c.planAt != 0 && next.equal(c.plan) {
		return nil, time.Time{}, 0
	}
	at = time.Now().Add(time.Duration(rank) * s.opts.TTL / 10)
	if s.due != nil && s.planAt == c.planAt && s.dueAt.Before(at) {
		at = s.dueAt
	}
	return &next, at, c.planAt
}

// writePlan writes the plan that is due. It reports false if it is not written, and it is
// worth while to look again.
func (s *session) writePlan(ctx context.Context) bool {
	if s.due == nil {
		return true
	}
	if time.Now().Before(s.dueAt) {
		return false
	}
	key := store.Key{Namespace: s.name, Name: planName}
	wctx, cancel := context.WithTimeoutCause(s.ctx, s.opts.TTL/3, errors.New("lease: no answer to a plan"))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)() // a server that stops leaves the plan to the others
	_, err := s.backend.Commit(wctx, store.Txn{
		If:  append(slices.Clip(s.rule), store.Compare{Kind: Kind, Key: key, Revision: s.planAt}),
		Ops: []store.Op{{Kind: Kind, Key: key, Put: *s.due}},
	})
	if err == nil || errors.Is(err, store.ErrConflict) { // a conflict: the board will show why
		s.due, s.planFails = nil, false
		sleep.Wake(s.renewed) // the claims follow when the board shows the plan
		return true
	}
	if !s.planFails && s.ctx.Err() == nil && ctx.Err() == nil {
		s.planFails = true
		s.trouble("cannot write the plan of the shards")(err)
	}
	return false
}

// fence is the revision that the board must have reached to be heard about h.
func (s *session) fence(h *hold) store.Revision {
	if h == nil {
		return 0
	}
	return h.created
}

// claim takes the shards that it can, and begins with each as soon as it is won.
// It reports false if some could not be asked for.
func (s *session) claim(ctx context.Context, shards []int) bool {
	cctx, cancel := context.WithTimeoutCause(s.ctx, s.opts.TTL/3, errors.New("lease: no answer to a claim"))
	defer cancel()
	// A claim cut short is no harm: its record goes with the lease.
	defer context.AfterFunc(ctx, cancel)()
	type answer struct {
		shard   int
		created store.Revision
		err     error
	}
	ok := true
	for a := range together(shards, func(shard int) answer {
		key := s.keys[shard]
		free := store.Compare{Kind: Kind, Key: key}
		created, err := s.backend.Commit(cctx, store.Txn{
			// A server that looks after the rule has changed sees each claim made under it.
			If:  append(slices.Clip(s.rule), free),
			Ops: []store.Op{{Kind: Kind, Key: key, Put: s.note(), Lease: s.lease}},
		})
		return answer{shard, created, err}
	}) {
		if a.err == nil {
			s.begin(a.shard, a.created)
		}
		// A conflict is a race lost, and the board will show the winner, or the
		// oldest member now. Anything else is settled by looking at the board again:
		// an unknown outcome shows there as a record of ours.
		ok = ok && (a.err == nil || errors.Is(a.err, store.ErrConflict))
	}
	return ok
}

// writers is how many writes a session has under way at a time. A thousand
// shards one after another would take a thousand round trips; backends put what
// arrives together into few requests.
const writers = 64

// together calls f for every one of list, several at a time, and yields the
// answers as they come. All calls have returned when it ends.
func together[T, A any](list []T, f func(T) A) iter.Seq[A] {
	return func(yield func(A) bool) {
		answers := make(chan A, len(list))
		var next atomic.Int64
		var wg sync.WaitGroup
		defer wg.Wait()
		for range min(writers, len(list)) {
			wg.Go(func() { // ends with the list
				for i := next.Add(1) - 1; int(i) < len(list); i = next.Add(1) - 1 {
					answers <- f(list[i])
				}
			})
		}
		more := true
		for range list {
			if a := <-answers; more {
				more = yield(a)
			}
		}
	}
}

// begin starts the work of a shard just won.
func (s *session) begin(shard int, created store.Revision) {
	guard := store.Compare{Kind: Kind, Key: s.keys[shard], Created: created}
	h := &hold{session: s, shard: shard, created: created}
	h.ctx, h.cancel, h.distrust = withHold(s.ctx, guard, uint64(created))
	s.holds[shard] = h
	s.busy[shard] = true
	s.shards[shard].win(guard, s.trusted)
	// Stopped by h.cancel or the end of the session; waited for by Run, through
	// busy and finished.
	go func() {
		supervise(h.ctx, shard, s.work)
		<-h.ctx.Done()
		s.finished <- h
	}()
}

// leave ends a hold: first the trust, then the work. Work that is sent away in
// good order is not to be disturbed while it winds up, so for it the trust goes
// when the shard is released.
func (h *hold) leave(why error) {
	if h.leaving.IsZero() {
		h.leaving = time.Now()
		h.shards[h.shard].lose()
		h.cancel(why)
	}
	if errors.Is(why, ErrLost) {
		h.distrust(why)
	}
}

// returned takes note that the work of h has returned, and that of others with
// it. It gives those whose shards are to be released.
func (s *session) returned(h *hold) (done []*hold) {
	for {
		s.busy[h.shard] = false
		if s.holds[h.shard] == h {
			delete(s.holds, h.shard)
			done = append(done, h)
		}
		select {
		case h = <-s.finished:
		default:
			return done
		}
	}
}

// release removes the records of holds whose work is over. A hold stays unreleased
// while the outcome of its removal is not known: were the shard taken again before, a
// late removal would delete the record of the new hold. It reports whether all were
// removed. It takes no longer than one write may, however many they are: what is not
// removed by then stays unreleased.
func (s *session) release(holds []*hold) (ok bool) {
	ctx, cancel := context.WithTimeoutCause(s.ctx, s.opts.TTL/3, errors.New("lease: no answer to a release"))
	defer cancel()

	type answer struct {
		*hold
		err error
	}
	for _, h := range holds {
		h.distrust(ErrLost)
	}
	ok = true
	for a := range together(holds, func(h *hold) answer {
		key := s.keys[h.shard]
		_, err := s.commit(ctx, store.Op{Kind: Kind, Key: key}, &store.Compare{Kind: Kind, Key: key, Created: h.created})
		return answer{h, err}
	}) {
		s.given[a.shard] = a.created
		if a.err == nil || errors.Is(a.err, store.ErrConflict) { // a conflict: it is gone already
			delete(s.unreleased, a.shard)
		} else {
			s.unreleased[a.shard], ok = a.hold, false
		}
	}
	return ok
}

func (s *session) loseAll() {
	for _, h := range s.holds {
		h.leave(ErrLost)
	}
}

// giveBack ends a session in good order: work is cancelled, the others learn
// that this server is leaving, each shard is freed as its work returns, and the
// lease goes last. The lease is renewed for one TTL of that; then it runs out.
// While the store does not answer, nothing is freed one by one: that would be a
// timeout for each.
func (s *session) giveBack(ctx context.Context) error {
	for _, h := range s.holds {
		h.leave(context.Cause(ctx))
	}
	reachable := len(s.unreleased) == 0
	if s.member != "" {
		_, err := s.commit(s.ctx, store.Op{Kind: Kind, Key: memberKey(s.name, s.member, s.id)}, nil)
		reachable = err == nil && reachable
	}
	patience := time.NewTimer(s.opts.TTL)
	defer patience.Stop()
	for len(s.holds) > 0 {
		select {
		case h := <-s.finished:
			if done := s.returned(h); reachable {
				reachable = s.release(done)
			}
		case <-patience.C:
			s.rest()
		case <-s.ctx.Done():
			return nil // not revoked: it has run out
		}
	}
	rctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), s.opts.TTL/3, errors.New("lease: no answer to a revoke"))
	defer cancel()
	if err := s.leaser.Revoke(rctx, s.lease); err != nil {
		s.trouble("could not be revoked, runs out by itself")(err)
	}
	return nil
}
