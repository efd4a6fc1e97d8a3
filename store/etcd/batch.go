package etcd

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tendhq/tend/store"
)

// maxTxnOps is what etcd allows by default for the operations of a transaction
// plus those of the largest transaction inside it (--max-txn-ops).
const maxTxnOps = 128

// member is one Commit on its way to the server.
type member struct {
	cmps  []clientv3.Cmp
	then  []clientv3.Op
	else_ []clientv3.Op

	reads, writes []string // the keys it looks at, the keys it changes
	size          int      // bytes it adds to a request
	ops           int      // what it counts against maxTxnOps

	done chan struct{} // closed when what follows is set
	resp *etcdserverpb.TxnResponse
	head *etcdserverpb.ResponseHeader
	err  error
}

// batcher sends the Commits of many goroutines in few requests: while the
// requests in flight are under way, what arrives is gathered, and goes out
// together as transactions nested in one. Each keeps its own compares and its
// own outcome. A Commit that arrives alone goes out alone, at once.
//
// All compares of such a request are evaluated before any of its operations is
// applied (compareToPath in etcd's server), so members may only share keys that
// none of them writes: with one writing what another compares, both would see
// the state before, and two Commits that each invalidate the other's compare
// could both succeed.
type batcher struct {
	kv       clientv3.KV
	most     int           // members in a request
	bytes    int           // and their size
	inflight int           // requests at a time
	timeout  time.Duration // of a request

	mu      sync.Mutex // guards what follows
	queue   []*member
	sending int
	closed  bool
	idle    sync.WaitGroup // requests in flight
}

// commit sends m and waits for its outcome. When ctx ends first, m is withdrawn
// if it has not been sent, and its outcome is unknown if it has: the request
// goes on, because others share it.
func (b *batcher) commit(ctx context.Context, m *member) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return store.ErrClosed
	}
	b.queue = append(b.queue, m)
	b.sendLocked()
	b.mu.Unlock()
	select {
	case <-m.done:
		return m.err
	case <-ctx.Done():
		return b.withdraw(ctx, m)
	}
}

func (b *batcher) withdraw(ctx context.Context, m *member) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, q := range b.queue {
		if q == m {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			return context.Cause(ctx)
		}
	}
	select {
	case <-m.done: // it was answered after all
		return m.err
	default:
		return errors.Join(store.ErrUnknownOutcome, context.Cause(ctx))
	}
}

// sendLocked starts requests while there is something to send and room in
// flight.
func (b *batcher) sendLocked() {
	for len(b.queue) > 0 && b.sending < b.inflight {
		batch := b.takeLocked()
		b.sending++
		// Ends by its own timeout; waited for by close.
		b.idle.Go(func() {
			b.send(batch)
			b.mu.Lock()
			b.sending--
			b.sendLocked()
			b.mu.Unlock()
		})
	}
}

// takeLocked removes from the queue, in order, what may go out together.
func (b *batcher) takeLocked() []*member {
	batch := b.queue[:0:0]
	rest := b.queue[:0:0]
	touched := make(map[string]bool) // key: is it written?
	size, ops := 0, 0
	for i, m := range b.queue {
		full := len(batch) >= b.most || size+m.size > b.bytes || len(batch)+1+max(ops, m.ops) > maxTxnOps
		if len(batch) > 0 && full {
			rest = append(rest, b.queue[i:]...)
			break
		}
		if len(batch) > 0 && !m.fits(touched) {
			// What comes after it may still go before it: concurrent Commits
			// have no order, and a caller waits for one before it makes the next.
			rest = append(rest, m)
			m.touch(touched)
			continue
		}
		m.touch(touched)
		batch = append(batch, m)
		size += m.size
		ops = max(ops, m.ops)
	}
	b.queue = rest
	return batch
}

func (m *member) fits(touched map[string]bool) bool {
	for _, k := range m.writes {
		if _, ok := touched[k]; ok {
			return false
		}
	}
	for _, k := range m.reads {
		if touched[k] {
			return false
		}
	}
	return true
}

func (m *member) touch(touched map[string]bool) {
	for _, k := range m.reads {
		touched[k] = touched[k] || false
	}
	for _, k := range m.writes {
		touched[k] = true
	}
}

// send makes one request of the batch and hands out the answers.
func (b *batcher) send(batch []*member) {
	if len(batch) == 1 {
		b.sendOne(batch[0])
		return
	}
	ops := make([]clientv3.Op, len(batch))
	for i, m := range batch {
		ops[i] = clientv3.OpTxn(m.cmps, m.then, m.else_)
	}
	ctx, cancel := b.deadline()
	defer cancel()
	resp, err := b.kv.Txn(ctx).Then(ops...).Commit()
	if err != nil && refused(err) {
		// Nothing of it was applied, and one member may be to blame for all
		// (a lease that has run out, a value too large): each on its own.
		for _, m := range batch {
			b.sendOne(m)
		}
		return
	}
	for i, m := range batch {
		if err != nil {
			m.answer(nil, nil, failed(err))
			continue
		}
		m.answer(resp.Responses[i].GetResponseTxn(), resp.Header, nil)
	}
}

func (b *batcher) sendOne(m *member) {
	ctx, cancel := b.deadline()
	defer cancel()
	resp, err := b.kv.Txn(ctx).If(m.cmps...).Then(m.then...).Else(m.else_...).Commit()
	if err != nil {
		m.answer(nil, nil, failed(err))
		return
	}
	m.answer((*etcdserverpb.TxnResponse)(resp), resp.Header, nil)
}

func (m *member) answer(resp *etcdserverpb.TxnResponse, head *etcdserverpb.ResponseHeader, err error) {
	m.resp, m.head, m.err = resp, head, err
	close(m.done)
}

// deadline is a request's own: the contexts of its members must not end it for
// each other, and a request without one blocks for as long as a partition lasts.
func (b *batcher) deadline() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), b.timeout, errTimeout)
}

// close refuses what is still to be sent and waits for what is under way.
func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	for _, m := range b.queue {
		m.answer(nil, nil, store.ErrClosed)
	}
	b.queue = nil
	b.mu.Unlock()
	b.idle.Wait()
}
