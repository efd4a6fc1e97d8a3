package lease

import (
	"context"
	"errors"
	"sync"
	"time"

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

	mu    sync.Mutex // guards until
	until time.Time
	alarm *time.Timer // fires at until and ends ctx

	// The rest belongs to the goroutine in runSession.

	holds map[int]*hold
	// given is, of each shard, the fence of the hold last given up. The board
	// may go on showing that record for a while; only one with a later fence
	// can be a claim of ours.
	given map[int]store.Revision
	// owed are holds whose record could not be deleted yet.
	owed map[int]*hold
	// share is what wants answered for the members as they were at shareOf.
	share   []bool
	shareOf int
}

// hold is one shard held under a session.
type hold struct {
	*session
	shard   int
	created store.Revision // of the shard's record: the fence
	ctx     context.Context
	cancel  context.CancelCauseFunc
	// leaving is when the hold was cancelled; zero while it is not.
	leaving time.Time
}

// runSession takes a lease and works under it. It returns nil after ctx ended
// and everything was given back, else why the lease is no longer trusted. Work
// may still be winding up then; Run waits for it.
func (e *elector) runSession(ctx context.Context, work Work) error {
	s := &session{elector: e, id: newID(), board: newBoard(e.name), work: work, holds: make(map[int]*hold), given: make(map[int]store.Revision), owed: make(map[int]*hold)}
	s.ctx, s.lose = context.WithCancelCause(context.WithoutCancel(ctx))
	defer s.lose(ErrLost)
	if err := s.grant(ctx); err != nil {
		return err
	}
	defer s.alarm.Stop()

	var helpers sync.WaitGroup
	defer helpers.Wait() // after s.lose, which ends both
	defer s.lose(ErrLost)
	helpers.Go(s.renew)
	helpers.Go(func() { s.board.follow(s.ctx, e.backend, s.trouble("cannot watch leases")) })

	if e.member {
		if err := s.commit(store.Op{Kind: Kind, Key: memberKey(e.name, s.id), Put: s.note(), Lease: s.lease}, nil); err != nil {
			return err
		}
	}
	return s.loop(ctx)
}

func (s *session) note() note { return note{Session: s.id, Server: s.opts.Server} }

// trouble reports err, once per call made of it.
func (s *session) trouble(what string) func(error) {
	return func(err error) {
		s.opts.Logger.Warn("lease: "+what, "lease", s.name, "server", s.opts.Server, "err", err)
	}
}

func (s *session) grant(ctx context.Context) error {
	asked := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.TTL/2, errors.New("lease: no answer to a grant"))
	defer cancel()
	id, err := s.leaser.Grant(ctx, s.opts.TTL)
	if err != nil {
		return err
	}
	s.lease = id
	s.until = asked.Add(s.opts.TTL - s.opts.Margin)
	s.alarm = time.AfterFunc(time.Until(s.until), func() { s.lose(ErrLost) })
	return nil
}

// trustedUntil is the moment from which on the lease may be somebody else's.
func (s *session) trustedUntil() time.Time {
	if s.ctx.Err() != nil {
		return time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until
}

// renew keeps the lease alive until the session ends. The trust that a renewal
// buys is counted from before it was asked for: the store may have counted from
// any moment between the question and the answer.
func (s *session) renew() {
	for wait := s.opts.TTL / 3; ; {
		sleep(s.ctx, wait)
		if s.ctx.Err() != nil {
			return
		}
		asked := time.Now()
		ctx, cancel := context.WithTimeoutCause(s.ctx, s.opts.TTL/3, errors.New("lease: no answer to a renewal"))
		err := s.leaser.Renew(ctx, s.lease)
		cancel()
		switch {
		case err == nil:
			s.mu.Lock()
			s.until = asked.Add(s.opts.TTL - s.opts.Margin)
			s.alarm.Reset(time.Until(s.until))
			s.mu.Unlock()
			wait = s.opts.TTL / 3
		case errors.Is(err, store.ErrLeaseGone): // the store has dropped it
			s.lose(ErrLost)
		default:
			wait = s.opts.TTL / 10
		}
	}
}

// commit writes one record under the session's lease, or deletes it.
func (s *session) commit(op store.Op, only *store.Compare) error {
	ctx, cancel := context.WithTimeoutCause(s.ctx, s.opts.TTL/3, errors.New("lease: no answer to a write"))
	defer cancel()
	t := store.Txn{Ops: []store.Op{op}}
	if only != nil {
		t.If = []store.Compare{*only}
	}
	_, err := s.backend.Commit(ctx, t)
	return err
}

// loop is the session's life: what the store says, what work reports and the
// end of ctx are taken in turn by this one goroutine.
func (s *session) loop(ctx context.Context) error {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for ctx.Err() == nil {
		if s.act() {
			retry.Reset(s.opts.TTL / 10)
		}
		select {
		case <-ctx.Done():
		case <-s.ctx.Done():
			s.loseAll()
			return context.Cause(s.ctx)
		case <-s.board.changed:
		case <-retry.C:
		case h := <-s.finished:
			s.settle(h)
		}
	}
	return s.giveBack(ctx)
}

// act brings what is held in line with what should be. It says whether to look
// again soon although nothing changed: a claim failed, or a hand-over drags on.
func (s *session) act() (again bool) {
	wanted := s.wanted()
	for shard := range s.shards {
		h := s.holds[shard]
		o, held, known := s.board.holder(shard, s.fence(h))
		if s.owed[shard] != nil {
			s.release(s.owed[shard])
			again = again || s.owed[shard] != nil
			continue
		}
		if !known {
			continue
		}
		switch wanted := wanted[shard]; {
		case h != nil && (!held || o.created != h.created):
			h.leave(ErrLost) // somebody removed our record: the fence is down
			delete(s.holds, shard)
		case h != nil && !wanted:
			h.leave(errMoved)
			again = true
			s.abandon(h)
		case h == nil && held && o.Session == s.id && o.created > s.given[shard] && !s.busy[shard]:
			s.begin(shard, o.created) // our own claim, whose answer was lost
		case h == nil && !held && wanted && !s.busy[shard]:
			again = !s.claim(shard) || again
		}
	}
	return again
}

// wanted says of every shard whether it is to be held here.
func (s *session) wanted() []bool {
	if members, version := s.board.members(); s.share == nil || version != s.shareOf {
		s.share, s.shareOf = s.wants(members, s.id, len(s.shards)), version
	}
	return s.share
}

// fence is the revision that the board must have reached to be heard about h.
func (s *session) fence(h *hold) store.Revision {
	if h == nil {
		return 0
	}
	return h.created
}

func (s *session) claim(shard int) bool {
	key := shardKey(s.name, shard)
	ctx, cancel := context.WithTimeoutCause(s.ctx, s.opts.TTL/3, errors.New("lease: no answer to a claim"))
	defer cancel()
	created, err := s.backend.Commit(ctx, store.Txn{
		If:  []store.Compare{{Kind: Kind, Key: key}},
		Ops: []store.Op{{Kind: Kind, Key: key, Put: s.note(), Lease: s.lease}},
	})
	if err != nil {
		// A conflict is a race lost, and the board will say to whom. Anything
		// else is settled by looking at the board again: an unknown outcome
		// shows there as a record of ours.
		return errors.Is(err, store.ErrConflict)
	}
	s.begin(shard, created)
	return true
}

// begin starts the work of a shard just won.
func (s *session) begin(shard int, created store.Revision) {
	guard := store.Compare{Kind: Kind, Key: shardKey(s.name, shard), Created: created}
	h := &hold{session: s, shard: shard, created: created}
	h.ctx, h.cancel = context.WithCancelCause(withHold(s.ctx, guard, uint64(created)))
	s.holds[shard] = h
	s.busy[shard] = true
	s.shards[shard].win(guard, s.trustedUntil)
	// Stopped by h.cancel or the end of the session; waited for by Run, through
	// busy and finished.
	go func() {
		supervise(h.ctx, shard, s.work)
		<-h.ctx.Done()
		s.finished <- h
	}()
}

// leave ends a hold: first the trust, then the work.
func (h *hold) leave(why error) {
	if h.leaving.IsZero() {
		h.leaving = time.Now()
		h.shards[h.shard].lose()
		h.cancel(why)
	}
}

// settle takes note that the work of h has returned, and gives its shard up.
func (s *session) settle(h *hold) {
	s.busy[h.shard] = false
	if s.holds[h.shard] == h {
		delete(s.holds, h.shard)
		s.release(h)
	}
}

// release removes the record of a hold whose work is over. A removal whose
// outcome is not known is owed: were the shard taken again before it is settled,
// a late removal would pull the fence away under the new hold.
func (s *session) release(h *hold) {
	key := shardKey(s.name, h.shard)
	err := s.commit(store.Op{Kind: Kind, Key: key}, &store.Compare{Kind: Kind, Key: key, Created: h.created})
	s.given[h.shard] = h.created
	if err == nil || errors.Is(err, store.ErrConflict) { // a conflict: it is gone already
		delete(s.owed, h.shard)
	} else {
		s.owed[h.shard] = h
	}
}

// abandon gives up waiting for work that ignores its cancellation during a
// hand-over: after a whole TTL its shard goes to the next, as if this server
// had died. Its store writes are fenced from then on, and this server does not
// take the shard again before that work has returned.
func (s *session) abandon(h *hold) {
	if time.Since(h.leaving) > s.opts.TTL {
		delete(s.holds, h.shard)
		s.release(h)
	}
}

func (s *session) loseAll() {
	for _, h := range s.holds {
		h.leave(ErrLost)
	}
}

// giveBack ends a session in good order: the others learn that this server is
// leaving, work is cancelled and waited for, each shard is freed as its work
// returns, and the lease goes last. The lease is kept alive for one TTL of
// that; then it runs out.
func (s *session) giveBack(ctx context.Context) error {
	if s.member {
		_ = s.commit(store.Op{Kind: Kind, Key: memberKey(s.name, s.id)}, nil)
	}
	for _, h := range s.holds {
		h.leave(context.Cause(ctx))
	}
	patience := time.NewTimer(s.opts.TTL)
	defer patience.Stop()
	for len(s.holds) > 0 {
		select {
		case h := <-s.finished:
			s.settle(h)
		case <-patience.C:
			return nil // not revoked: left to expire
		case <-s.ctx.Done():
			return nil
		}
	}
	rctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), s.opts.TTL/3, errors.New("lease: no answer to a revoke"))
	defer cancel()
	if err := s.leaser.Revoke(rctx, s.lease); err != nil {
		s.trouble("could not be revoked, runs out by itself")(err)
	}
	return nil
}
