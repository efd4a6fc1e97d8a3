package etcd

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/tendhq/tend/store"
)

// maxTxnOps is what etcd allows by default for the operations of a transaction
// plus those of the largest transaction inside it (--max-txn-ops).
const maxTxnOps = 128

// member is one Commit on its way to the server.
type member struct {
	txn  store.Txn
	req  *pb.TxnRequest
	size int // bytes it adds to a request
	ops  int // what it counts against maxTxnOps

	done chan struct{} // closed when what follows is set; nil: no caller waits for it
	resp *pb.TxnResponse
	head *pb.ResponseHeader
	err  error
}

// batcher sends the Commits of many goroutines in few requests: while the
// requests in flight are under way, what arrives is gathered, and goes out
// together as transactions nested in one. Each keeps its own compares and its
// own outcome. A Commit that finds a request free goes out alone, at once, and
// on its caller's goroutine:
//
//	lone caller ── request ──▶                     no hand-over
//	callers ──▶ queue ── sender ── request of many ──▶ sender ── …
//	                     (a goroutine while there is a queue)
//
// All compares of such a request are evaluated before any of its operations is
// applied (compareToPath in etcd's server), so members may only share keys that
// none of them writes: with one writing what another compares, both would see
// the state before, and two Commits that each invalidate the other's compare
// could both succeed.
type batcher struct {
	kv       pb.KVClient
	opts     []grpc.CallOption
	most     int           // members in a request
	bytes    int           // and their size
	inflight int           // requests at a time
	timeout  time.Duration // of a request

	mu      sync.Mutex // guards what follows
	queue   []*member  // empty unless all requests are under way
	sending int
	closed  bool
	touched map[address]bool // scratch of takeLocked: is it written?
	idle    sync.WaitGroup   // requests in flight
}

type address struct {
	kind string
	key  store.Key
}

// commit sends m and waits for its outcome. When ctx ends first, m is withdrawn
// if it has not been sent, and its outcome is unknown if it has: a request that
// others share goes on.
func (b *batcher) commit(ctx context.Context, m *member) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return store.ErrClosed
	}
	if b.sending < b.inflight {
		b.sending++
		b.idle.Add(1) // taken back by next
		b.mu.Unlock()
		b.sendOne(ctx, m)
		if batch := b.next(); batch != nil {
			// Ends when the queue is empty; waited for by close.
			go b.sender(batch)
		}
		return m.err
	}
	m.done = make(chan struct{})
	b.queue = append(b.queue, m)
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

// sender makes requests while there is a queue. It is one goroutine for all of
// them, because gRPC needs a deep stack, which a new goroutine has to grow first.
func (b *batcher) sender(batch []*member) {
	for batch != nil {
		b.send(batch)
		// The callers just answered often have the next Commit ready: let them
		// come before the next request leaves, instead of making them wait for
		// the one after it.
		runtime.Gosched()
		batch = b.next()
	}
}

// next is the request that follows one that has ended: nil if no caller waits.
func (b *batcher) next() []*member {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) > 0 {
		return b.takeLocked()
	}
	b.sending--
	b.idle.Done()
	return nil
}

// takeLocked removes from the queue, in order, what may go out together.
func (b *batcher) takeLocked() []*member {
	clear(b.touched)
	batch := make([]*member, 0, min(len(b.queue), b.most))
	rest := b.queue[:0]
	size, ops := 0, 0
	for i, m := range b.queue {
		full := len(batch) >= b.most || size+m.size > b.bytes || len(batch)+1+max(ops, m.ops) > maxTxnOps
		if len(batch) > 0 && full {
			rest = append(rest, b.queue[i:]...)
			break
		}
		if !m.fits(b.touched) {
			// What comes after it may still go before it: concurrent Commits
			// have no order, and a caller waits for one before it makes the next.
			rest = append(rest, m)
			continue
		}
		m.touch(b.touched)
		batch = append(batch, m)
		size += m.size
		ops = max(ops, m.ops)
	}
	clear(b.queue[len(rest):])
	b.queue = rest
	return batch
}

func (m *member) fits(touched map[address]bool) bool {
	for _, op := range m.txn.Ops {
		if _, ok := touched[address{op.Kind, op.Key}]; ok {
			return false
		}
	}
	for c := range conditions(&m.txn) {
		if touched[address{c.Kind, c.Key}] {
			return false
		}
	}
	return true
}

func (m *member) touch(touched map[address]bool) {
	for c := range conditions(&m.txn) {
		a := address{c.Kind, c.Key}
		touched[a] = touched[a] || false
	}
	for _, op := range m.txn.Ops {
		touched[address{op.Kind, op.Key}] = true
	}
}

// send makes one request of the batch and hands out the answers.
func (b *batcher) send(batch []*member) {
	if len(batch) == 1 {
		b.sendOne(context.Background(), batch[0])
		return
	}
	req := together(batch)
	// The contexts of the members must not end the request for each other.
	ctx, cancel := b.deadline(context.Background())
	defer cancel()
	resp, err := b.do(ctx, req)
	if err != nil && refused(err) {
		// Nothing of it was applied, and one member may be to blame for all
		// (a lease that has run out, a value too large): each on its own.
		for _, m := range batch {
			b.sendOne(context.Background(), m)
		}
		return
	}
	for i, m := range batch {
		if err != nil {
			m.answer(nil, nil, failed(ctx, err))
			continue
		}
		m.answer(resp.Responses[i].GetResponseTxn(), resp.Header, nil)
	}
}

func (b *batcher) sendOne(ctx context.Context, m *member) {
	ctx, cancel := b.deadline(ctx)
	defer cancel()
	resp, err := b.do(ctx, m.req)
	if err != nil {
		m.answer(nil, nil, failed(ctx, err))
		return
	}
	m.answer(resp, resp.Header, nil)
}

// do is clientv3's Txn without its builder, which clones every compare twice by
// reflection.
func (b *batcher) do(ctx context.Context, req *pb.TxnRequest) (*pb.TxnResponse, error) {
	resp, err := b.kv.Txn(ctx, req, b.opts...)
	return resp, clientv3.ContextError(ctx, err)
}

func (m *member) answer(resp *pb.TxnResponse, head *pb.ResponseHeader, err error) {
	m.resp, m.head, m.err = resp, head, err
	if m.done != nil {
		close(m.done)
	}
}

// deadline bounds a request: one without a bound blocks for as long as a
// partition lasts.
func (b *batcher) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, b.timeout, errTimeout)
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
