package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// WriteHealth is the part of a backend's health that only writes can show: a full disk, a database
// that is read-only, a quota that is used up. A backend tells it the outcome of each Commit
// and returns its Health. It is safe for concurrent use.
//
//	commit fails      ill at once, until a commit succeeds
//	… and again       within 30 s: the same illness, until no commit failed for 30 s
//	while it is ill   every 5 s a probe, which is a commit of a record of the kind "_health"
//	healthy           no probe, unless another write than a commit fails
//
// A full disk is ill, well and ill again: a probe finds room where an object does not.
type WriteHealth struct {
	b     Backend
	place string
	log   *slog.Logger

	ill atomic.Pointer[UnavailableError]

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu      sync.Mutex // guards the rest, and the changes of ill
	first   time.Time  // the beginning of the illness, or of the last one
	fails   time.Time  // when a commit failed last
	ended   time.Time  // when the last illness ended
	again   bool       // it came back: a commit that succeeds is not its end
	next    *time.Timer
	asked   bool // a probe is due or under way
	probed  time.Time
	probing sync.WaitGroup
}

const (
	probeEvery = 5 * time.Second  // between two probes
	calm       = 30 * time.Second // without a commit that failed, after which an illness is another one
)

// probeTxn writes one small record, whatever is there.
var probeTxn = Txn{Ops: []Op{{Kind: "_health", Key: Key{Name: "probe"}, Put: Bytes("{}")}}}

// NewWriteHealth returns the WriteHealth of a backend whose place (a path, endpoints) errors and the log
// name. Probes are made by b.Commit, whose outcome b passes on like that of any other. log gets
// a line when commits begin to fail and one when they succeed again; nil logs nothing.
func NewWriteHealth(b Backend, place string, log *slog.Logger) *WriteHealth {
	h := &WriteHealth{b: b, place: place, log: log}
	if log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

// Committed notes the outcome of b.Commit(ctx, t), and does not block. An error that is the
// caller's says nothing of the store: a condition or a guard that does not hold, an invalid write, a
// context that was cancelled. One whose deadline ended the Commit only asks for a probe. So does the error of
// a write that is no Commit, that of a lease for example: it comes with an empty Txn, and asks for one probe in 5 s.
func (h *WriteHealth) Committed(ctx context.Context, t Txn, err error) {
	switch {
	case len(t.Ops) == 0:
		h.suspect(ctx, err)
	case err == nil && h.ill.Load() == nil || !puts(t):
		// Deletions are let through where puts are refused for want of space.
	case err == nil:
		h.succeeded()
	case ctx.Err() != nil:
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			h.probeAfter(0, true)
		}
	case ofCaller(err):
	default:
		h.failed(err)
	}
}

func puts(t Txn) bool {
	for i := range t.Ops {
		if t.Ops[i].Put != nil {
			return true
		}
	}
	return false
}

// ofCaller reports whether a store that works refuses a write with err.
func ofCaller(err error) bool {
	for _, e := range []error{ErrConflict, ErrFenced, ErrUnguarded, ErrClosed, ErrInvalid, ErrLeaseGone} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (h *WriteHealth) suspect(ctx context.Context, err error) {
	if err == nil || ofCaller(err) || errors.Is(ctx.Err(), context.Canceled) || h.ill.Load() != nil {
		return
	}
	h.mu.Lock()
	wait := time.Duration(0)
	if !h.probed.IsZero() {
		wait = max(0, probeEvery-time.Since(h.probed))
	}
	h.mu.Unlock()
	h.probeAfter(wait, true)
}

func (h *WriteHealth) failed(err error) {
	h.mu.Lock()
	now := time.Now()
	begins := h.ill.Load() == nil
	if h.fails = now; begins {
		if h.again = !h.ended.IsZero() && now.Sub(h.ended) < calm; !h.again {
			h.first = now
		}
	}
	first, again := h.first, h.again
	h.ill.Store(&UnavailableError{Since: first, Err: fmt.Errorf("commits fail: %s: %w", h.place, err)})
	h.mu.Unlock()
	switch {
	case begins && again:
		h.log.Warn("store: commits fail again", "place", h.place, "since", first.Format(time.TimeOnly), "err", Brief(err))
	case begins:
		h.log.Warn("store: commits fail", "place", h.place, "err", Brief(err))
	}
	h.probeAfter(probeEvery, false)
}

func (h *WriteHealth) succeeded() {
	h.mu.Lock()
	now := time.Now()
	ends := h.ill.Load() != nil && (!h.again || now.Sub(h.fails) >= calm)
	if ends {
		h.ill.Store(nil)
		h.ended = now
	}
	first := h.first
	h.mu.Unlock()
	if ends {
		h.log.Info("store: commits succeed again", "place", h.place, "after", now.Sub(first).Round(time.Millisecond))
	}
}

// probeAfter makes a probe after d, unless one is due or under way. One that is not of a suspicion is
// dropped if the store is well by then.
func (h *WriteHealth) probeAfter(d time.Duration, suspected bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked || h.ctx.Err() != nil {
		return
	}
	h.asked = true
	h.next = time.AfterFunc(d, func() { h.probe(suspected) })
}

// probe is called by a timer. Close waits for it.
func (h *WriteHealth) probe(suspected bool) {
	h.mu.Lock()
	due := h.ctx.Err() == nil && (suspected || h.ill.Load() != nil)
	if due {
		h.probed = time.Now()
		h.probing.Add(1)
		defer h.probing.Done()
	}
	h.asked = due
	h.mu.Unlock()
	if !due {
		return
	}
	_, _ = h.b.Commit(h.ctx, probeTxn) // its outcome comes by Committed
	h.mu.Lock()
	h.asked = false
	h.mu.Unlock()
	if h.ill.Load() != nil {
		h.probeAfter(probeEvery, false)
	}
}

// Health returns an [*UnavailableError] while commits fail, and otherwise nil.
func (h *WriteHealth) Health() error {
	if u := h.ill.Load(); u != nil {
		return u
	}
	return nil
}

// Close ends the probes and returns after the one under way. A backend calls it before it waits for its
// commits.
func (h *WriteHealth) Close() {
	h.stop()
	h.mu.Lock()
	if h.next != nil {
		h.next.Stop()
	}
	h.mu.Unlock()
	h.probing.Wait()
}
