package cache

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/internal/spin"
	"github.com/tendhq/tend/store"
)

// A backlog holds what one consumer of Changes has yet to see.
//
//	near:   pending = [a1→a2  b→∅  a2→a3]           in order, as they happened
//	behind: pending = [a1→a3  b→∅  c→c9 …]          one per key, byKey says where
//
// It turns from near to behind when more than limit changes wait, and back as
// soon as the consumer takes what is pending. A full view per consumer, to diff
// against, would cost an entry for each object held; the folded backlog is that
// same diff and costs an entry for each object that changed.
type backlog struct {
	limit int
	wake  chan struct{} // one token: pending is not empty

	initial []*store.Meta  // what it begins with; written under Cache.mu, before synced is closed
	at      store.Revision // of initial

	mu      spin.Mutex // guards what follows; taken under Cache.mu, never the other way round
	pending []change
	since   time.Time         // when the first of pending came
	byKey   map[store.Key]int // nil while near
	folds   uint64            // how often this consumer fell behind, for the Snapshot
}

// spareBacklog is how many changes a consumer has room for while nothing happens.
const spareBacklog = 1024

func newBacklog(limit int) *backlog {
	return &backlog{limit: limit, wake: make(chan struct{}, 1)}
}

// add never blocks.
func (q *backlog) add(ch change) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pending) == 0 { // else the consumer was told, and has not taken it yet
		sleep.Wake(q.wake)
		q.since = time.Now()
	}
	if q.byKey == nil && len(q.pending) >= q.limit {
		q.foldLocked()
	}
	if q.byKey == nil {
		q.pending = append(q.pending, ch)
	} else {
		q.mergeLocked(ch)
	}
}

// foldLocked turns an ordered backlog into one change per key.
func (q *backlog) foldLocked() {
	q.folds++
	ordered := q.pending
	q.pending, q.byKey = nil, make(map[store.Key]int, len(ordered))
	for _, ch := range ordered {
		q.mergeLocked(ch)
	}
}

func (q *backlog) mergeLocked(ch change) {
	i, ok := q.byKey[ch.Key]
	if !ok {
		q.byKey[ch.Key] = len(q.pending)
		q.pending = append(q.pending, ch)
		return
	}
	// Old stays what the consumer last saw. An object that came and went
	// meanwhile leaves an entry with neither, which deliver skips.
	p := &q.pending[i]
	p.New, p.Revision, p.Left = ch.New, ch.Revision, ch.Left
	p.Initial = ch.Initial // a change after it is news
}

// take returns what is pending and starts a new, ordered backlog in spare.
func (q *backlog) take(spare []change) []change {
	q.mu.Lock()
	batch, behind := q.pending, q.byKey != nil
	if behind {
		spare = nil // let the big folded slice go instead of keeping two
	}
	q.pending, q.byKey = spare, nil
	q.mu.Unlock()
	if behind { // so that what was shown of a revision was shown of those before it
		slices.SortStableFunc(batch, func(a, b change) int { return cmp.Compare(a.newest(), b.newest()) })
	}
	return batch
}

// newest is the revision of what the change led to.
func (ch *change) newest() store.Revision {
	if ch.New != nil {
		return ch.New.Revision
	}
	return ch.Revision
}

// yieldChanges reports whether the consumer wants to go on.
func yieldChanges(ctx context.Context, batch []change, yield func(change, error) bool) bool {
	for i, ch := range batch {
		batch[i] = change{} // the consumer may be slow: hold nothing it has seen
		if ctx.Err() != nil {
			yield(change{}, context.Cause(ctx))
			return false
		}
		if !yieldSteps(ch, yield) {
			return false
		}
	}
	return true
}

// yieldSteps splits a change between two lives of a key, so that no consumer
// mistakes the new object for an edit of the old one.
func yieldSteps(ch change, yield func(change, error) bool) bool {
	switch {
	case ch.Old == nil && ch.New == nil:
		return true
	case ch.Old != nil && ch.New != nil && ch.Old.UID != ch.New.UID:
		gone := ch
		gone.New, gone.Initial, ch.Old = nil, false, nil
		return yield(gone, nil) && yield(ch, nil)
	}
	return yield(ch, nil)
}

// snapshot reports how many changes wait, since when, and how often the consumer fell behind.
func (q *backlog) snapshot() introspect.CacheConsumer {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := introspect.CacheConsumer{Pending: len(q.pending), Folds: q.folds}
	if c.Pending > 0 {
		c.Since = q.since
	}
	return c
}
