package postgres

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/tendhq/tend/store"
)

// batcher sends the Commits of many goroutines in few transactions. While one is under
// way, what arrives is gathered, and goes out together in the next. Each Commit keeps its
// own conditions and its own outcome. One that finds no transaction under way goes out
// alone, at once, and on its caller's goroutine:
//
//	lone caller ── transaction ──▶                 no hand-over
//	callers ──▶ queue ── sender ── transaction of many ──▶ sender ── …
//	                     (a goroutine while there is a queue)
//
// One transaction at a time is enough: every commit updates the row head, whose lock it
// holds until it is durable, so that a second one would only wait in the server.
//
// All conditions of such a transaction are judged by the state before it, so its members
// may only share records that none of them writes.
type batcher struct {
	b     *backend
	most  int // members in a transaction
	bytes int // and their size

	yields  int           // maxYields
	longest time.Duration // maxSettle

	mu      sync.Mutex // guards what follows
	queue   []*member  // empty unless a transaction is under way
	sending bool
	closed  bool
	touched map[address]bool // scratch of takeLocked: is it written?
	idle    sync.WaitGroup   // the transaction under way
}

type address struct {
	kind string
	key  store.Key
}

func newBatcher(b *backend) *batcher {
	return &batcher{b: b, most: b.opts.batch, bytes: 1 << 20, yields: maxYields, longest: maxSettle, touched: make(map[address]bool)}
}

// commit sends m and waits for its outcome. When ctx ends first, m is withdrawn if it
// has not been sent, and its outcome is unknown if it has: a transaction that others
// share goes on, and still writes to m.
func (q *batcher) commit(ctx context.Context, m *member) (store.Revision, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return 0, store.ErrClosed
	}
	if !q.sending {
		q.sending = true
		q.idle.Add(1) // taken back by next
		q.mu.Unlock()
		q.b.send(ctx, []*member{m})
		if batch := q.next(); batch != nil {
			// Ends when the queue is empty; waited for by close.
			go q.sender(batch)
		}
		return m.revision, m.err
	}
	m.done = make(chan struct{})
	q.queue = append(q.queue, m)
	q.mu.Unlock()
	select {
	case <-m.done:
		return m.revision, m.err
	case <-ctx.Done():
		return q.withdraw(ctx, m)
	}
}

func (q *batcher) withdraw(ctx context.Context, m *member) (store.Revision, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.queue, m); i >= 0 {
		q.queue = slices.Delete(q.queue, i, i+1)
		return 0, context.Cause(ctx)
	}
	select {
	case <-m.done: // it was answered after all
		return m.revision, m.err
	default:
		return 0, fmt.Errorf("postgres: %w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
	}
}

// sender makes transactions while there is a queue.
func (q *batcher) sender(batch []*member) {
	for batch != nil {
		// The contexts of the members must not end the transaction for each other.
		q.b.send(context.Background(), batch)
		for _, m := range batch {
			close(m.done)
		}
		q.settle(len(batch))
		batch = q.next()
	}
}

// maxYields and maxSettle bound settle: how often it yields, and how long, because a yield is not
// short where other goroutines use up the processors.
const (
	maxYields = 200
	maxSettle = 500 * time.Microsecond
)

// settle lets the callers that were just answered queue their next Commits, which they often have
// ready, before the next transaction leaves. Without it they split into groups that take turns at
// the server, each smaller than one of all. It yields the processor until as many wait as were
// answered, or some tens of microseconds if they do not come: a transaction takes longer.
func (q *batcher) settle(answered int) {
	began := time.Now()
	for range q.yields {
		runtime.Gosched()
		if answered == 1 || q.queued() >= answered || time.Since(began) > q.longest {
			return
		}
	}
}

func (q *batcher) queued() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue)
}

// next returns the batch that follows the transaction that has ended; nil if none waits.
func (q *batcher) next() []*member {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) > 0 {
		return q.takeLocked()
	}
	q.sending = false
	q.idle.Done()
	return nil
}

// takeLocked removes from the queue, in order, what may go out together.
func (q *batcher) takeLocked() []*member {
	clear(q.touched)
	batch := make([]*member, 0, min(len(q.queue), q.most))
	rest := q.queue[:0]
	size := 0
	for i, m := range q.queue {
		if len(batch) > 0 && (len(batch) >= q.most || size+m.size > q.bytes) {
			rest = append(rest, q.queue[i:]...)
			break
		}
		if !m.fits(q.touched) {
			// What comes after it may still go before it: concurrent Commits have no
			// order, and a caller waits for one before it makes the next.
			rest = append(rest, m)
			continue
		}
		m.touch(q.touched)
		batch = append(batch, m)
		size += m.size
	}
	clear(q.queue[len(rest):])
	q.queue = rest
	return batch
}

// fits says whether m neither reads what touched has as written nor writes what it has
// at all.
func (m *member) fits(touched map[address]bool) bool {
	for _, op := range m.txn.Ops {
		if _, ok := touched[address{op.Kind, op.Key}]; ok {
			return false
		}
	}
	for _, c := range conditions(&m.txn) {
		if touched[address{c.Kind, c.Key}] {
			return false
		}
	}
	return true
}

func (m *member) touch(touched map[address]bool) {
	for _, c := range conditions(&m.txn) {
		a := address{c.Kind, c.Key}
		touched[a] = touched[a] || false
	}
	for _, op := range m.txn.Ops {
		touched[address{op.Kind, op.Key}] = true
	}
}

// close refuses what has not been sent and waits for what is under way.
func (q *batcher) close() {
	q.mu.Lock()
	q.closed = true
	for _, m := range q.queue {
		m.err = store.ErrClosed
		close(m.done)
	}
	clear(q.queue)
	q.queue = nil
	q.mu.Unlock()
	q.idle.Wait()
}
