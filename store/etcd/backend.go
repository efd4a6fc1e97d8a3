package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/tendhq/tend/store"
)

// Options of a Backend. The zero value works.
type Options struct {
	// Prefix is put before every key, so that several installations can share
	// a cluster. "" means "/tend". It must not end in a slash, nor begin with that of another
	// installation and a slash: "/tend/x" is where one at "/tend" keeps the kind "x".
	Prefix string
	// Timeout bounds every request to the server; a request without a bound
	// blocks for as long as a partition lasts. 0 means 5 s.
	Timeout time.Duration
	// batch is how many Commits may share a request, at most 120 (etcd counts
	// them, plus the operations of the largest, against 128). 0 means 32, 1
	// means none.
	batch int
	// inFlight is how many such requests may be under way at a time. 0 means 2.
	inFlight int
	// History is how many batches of changes each watched kind keeps, for slow
	// watchers and for those that resume. 0 means 4,096.
	History int
	// silence is for how long a watch stream may say nothing before it is asked
	// for a sign of life; after as long again without one it is opened again. A
	// stream on a dead connection stays silent for ever otherwise. A cluster that
	// gives no sign of life for one and a half times Silence is not available: see
	// Health. 0 means 10 s.
	silence time.Duration
	// firstLook is how long after New the space of the cluster is looked at first; see
	// space. 0 means a minute.
	firstLook time.Duration
	// logger gets one line when the cluster stops answering and one when it
	// answers again. nil means slog.Default().
	logger *slog.Logger
}

func (o *Options) withDefaults() (Options, error) {
	var v Options
	if o != nil {
		v = *o
	}
	if v.Prefix == "" {
		v.Prefix = "/tend"
	}
	if v.Timeout == 0 {
		v.Timeout = 5 * time.Second
	}
	if v.batch == 0 {
		v.batch = 32
	}
	if v.inFlight == 0 {
		v.inFlight = 2
	}
	if v.History == 0 {
		v.History = 4096
	}
	if v.silence == 0 {
		v.silence = 10 * time.Second
	}
	if v.firstLook == 0 {
		v.firstLook = time.Minute
	}
	if v.logger == nil {
		v.logger = slog.Default()
	}
	switch {
	case strings.HasSuffix(v.Prefix, "/"):
		return v, fmt.Errorf("etcd: prefix %q ends in a slash", v.Prefix)
	case v.Timeout < 0 || v.inFlight < 0 || v.History < 0 || v.silence < 0:
		return v, errors.New("etcd: a negative option")
	case v.batch < 1 || v.batch > 120:
		return v, fmt.Errorf("etcd: batch of %d is not between 1 and 120", v.batch)
	}
	return v, nil
}

// backend keeps the state of several servers in an etcd cluster. It is safe for
// concurrent use.
type backend struct {
	client  *clientv3.Client // for requests
	streams *streams         // for watches
	opts    Options
	batch   *batcher
	health  *health
	writes  *store.WriteHealth
	space   space
	weights sync.Map // kind: bytes of a record, in the page that was listed last

	// ctx ends when the backend is closed, and with it every watch.
	ctx  context.Context
	stop context.CancelCauseFunc

	mu     sync.Mutex // guards hubs and closed
	hubs   map[string]*hub
	closed bool
	live   sync.WaitGroup // hubs, and space
}

var (
	_ store.Backend       = (*backend)(nil)
	_ store.Leaser        = (*backend)(nil)
	_ store.SlotReader    = (*backend)(nil)
	_ store.HealthChecker = (*backend)(nil)
)

// New opens a connection as cfg says: endpoints, TLS and authentication are
// etcd's own. Keepalive that cfg does not set is set (a ping after 10 s, 3 s to
// answer it), because nothing else notices a connection that died silently. New
// does not wait for the server to be reachable.
func New(cfg clientv3.Config, o *Options) (store.FullBackend, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.DialKeepAliveTime == 0 {
		cfg.DialKeepAliveTime, cfg.DialKeepAliveTimeout = 10*time.Second, 3*time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop() // what it would say is in the errors; it says it for each retry
	}
	client, err := connect(cfg)
	if err != nil {
		return nil, err
	}
	b := &backend{
		client: client, opts: opts, streams: &streams{cfg: cfg}, hubs: make(map[string]*hub),
		health: &health{place: placeOf(cfg.Endpoints), log: opts.logger, ill: make(map[*hub]*store.UnavailableError)},
	}
	b.batch = &batcher{
		kv: clientv3.RetryKVClient(client), opts: callOptions(cfg),
		most: opts.batch, bytes: 1 << 20, inflight: opts.inFlight, timeout: opts.Timeout,
		touched: make(map[address]bool),
	}
	b.writes = store.NewWriteHealth(b, b.health.place, opts.logger)
	b.ctx, b.stop = context.WithCancelCause(context.Background())
	b.space.begin(b, pb.NewMaintenanceClient(client.ActiveConnection()))
	b.live.Go(func() { b.space.run(b.ctx) })
	return b, nil
}

// callOptions are those that etcd's client gives its own calls.
func callOptions(cfg clientv3.Config) []grpc.CallOption {
	send, recv := cfg.MaxCallSendMsgSize, cfg.MaxCallRecvMsgSize
	if send <= 0 {
		send = 2 << 20
	}
	if recv <= 0 {
		recv = math.MaxInt32
	}
	return []grpc.CallOption{grpc.WaitForReady(true), grpc.MaxCallSendMsgSize(send), grpc.MaxCallRecvMsgSize(recv)}
}

// Close ends every watch, refuses further calls with store.ErrClosed, and
// returns after the last request has been answered or timed out.
func (b *backend) Close() error {
	b.mu.Lock()
	was := b.closed
	b.closed = true
	b.mu.Unlock()
	if was {
		return nil
	}
	b.stop(store.ErrClosed)
	b.writes.Close()
	b.batch.close()
	b.live.Wait()
	b.streams.close()
	return b.client.Close()
}

// request bounds ctx by the request timeout.
func (b *backend) request(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if b.ctx.Err() != nil {
		return nil, nil, store.ErrClosed
	}
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, b.opts.Timeout, errTimeout)
	return ctx, cancel, nil
}

// Keys are PREFIX/KIND/NAMESPACE/NAME. Kind and namespace hold no slash, so the
// first two after the prefix end them; a name may hold some.
func (b *backend) path(kind string, k store.Key) []byte {
	p := make([]byte, 0, len(b.opts.Prefix)+len(kind)+len(k.Namespace)+len(k.Name)+3)
	p = append(append(p, b.opts.Prefix...), '/')
	p = append(append(p, kind...), '/')
	p = append(append(p, k.Namespace...), '/')
	return append(p, k.Name...)
}

func (b *backend) keyOf(kind string, path []byte) store.Key {
	rest := string(path[len(b.opts.Prefix)+len(kind)+2:])
	ns, name, _ := strings.Cut(rest, "/")
	return store.Key{Namespace: ns, Name: name}
}

func (b *backend) record(kind string, kv *mvccpb.KeyValue) store.Record {
	return store.Record{
		Kind: kind, Key: b.keyOf(kind, kv.Key), Bytes: kv.Value,
		Created: store.Revision(kv.CreateRevision), Revision: store.Revision(kv.ModRevision),
	}
}

// Get implements store.Backend. It is linearizable.
func (b *backend) Get(ctx context.Context, kind string, key store.Key) (store.Record, error) {
	if err := store.CheckAddress(kind, key); err != nil {
		return store.Record{}, err
	}
	ctx, cancel, err := b.request(ctx)
	if err != nil {
		return store.Record{}, err
	}
	defer cancel()
	resp, err := b.client.Get(ctx, string(b.path(kind, key)))
	if err != nil {
		return store.Record{}, b.readFailed(ctx, err)
	}
	if len(resp.Kvs) == 0 {
		return store.Record{}, fmt.Errorf("etcd: %w: %s %s", store.ErrNotFound, kind, key)
	}
	return b.record(kind, resp.Kvs[0]), nil
}

// Commit implements store.Backend.
func (b *backend) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	t, err := t.Prepare(ctx)
	if err != nil {
		return 0, err
	}
	m, err := b.member(t)
	if err != nil {
		return 0, err
	}
	err = b.batch.commit(ctx, m)
	if err != nil || m.resp.Succeeded {
		b.writes.Committed(ctx, t, err)
	}
	if err != nil {
		return 0, err
	}
	if m.resp.Succeeded {
		return store.Revision(m.head.Revision), nil
	}
	return 0, b.conflict(t, m.resp)
}

// conflict tells which compare failed, from what the Else branch read in the
// same instant.
func (b *backend) conflict(t store.Txn, resp *pb.TxnResponse) error {
	i := -1
	for c := range conditions(&t) {
		i++
		var rec store.Record
		kvs := resp.Responses[i].GetResponseRange().GetKvs()
		if len(kvs) > 0 {
			rec = b.record(c.Kind, kvs[0])
		}
		switch {
		case c.Holds(rec, len(kvs) > 0):
		case i < len(t.Guards):
			return fmt.Errorf("etcd: %w: %v", store.ErrFenced, c)
		default:
			return &store.ConflictError{Want: *c, Current: rec}
		}
	}
	return store.ErrConflict // not reached: some compare failed
}

// Shared implements store.Leaser: other processes can open the same cluster.
func (b *backend) Shared() bool { return true }

// Grant implements store.Leaser. etcd counts in whole seconds; ttl is rounded
// up.
func (b *backend) Grant(ctx context.Context, ttl time.Duration) (store.LeaseID, error) {
	if ttl < store.MinTTL {
		return 0, fmt.Errorf("etcd: %w: lease of %v, at least %v", store.ErrInvalid, ttl, store.MinTTL)
	}
	ctx, cancel, err := b.request(ctx)
	if err != nil {
		return 0, err
	}
	defer cancel()
	resp, err := b.client.Grant(ctx, int64(math.Ceil(ttl.Seconds())))
	if err != nil {
		return 0, b.leaseFailed(ctx, err)
	}
	return store.LeaseID(resp.ID), nil
}

// Renew implements store.Leaser: one renewal, answered. etcd's client would
// renew by itself, but counts trust from the answer instead of the question.
//
// etcd's leader renews from its memory, without asking the others: one that stood still while
// another was elected renews what that one ends. So a renewal counts only if a linearizable read
// after it is of the same term: then no other leader was there when it was made.
//
// A member that hangs neither answers nor refuses, until its connection is given up. So the next one
// is asked besides when a quarter of the time has gone by, and when one that was asked besides fails.
func (b *backend) Renew(ctx context.Context, id store.LeaseID) error {
	var asked sync.WaitGroup
	defer asked.Wait()
	ctx, cancel, err := b.request(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	by, _ := ctx.Deadline()
	next := time.Tick(max(time.Until(by)/renewals, time.Millisecond))
	answer := make(chan error, renewals)
	open := 0 // renewals without an answer
	for n := 0; ; n++ {
		if n < renewals {
			asked.Go(func() { answer <- b.renew(ctx, id) })
			open++
		}
		select {
		case err := <-answer:
			if open--; err == nil || errors.Is(err, store.ErrLeaseGone) || open == 0 {
				return err
			}
		case <-next:
		}
	}
}

const renewals = 4 // under way at once

func (b *backend) renew(ctx context.Context, id store.LeaseID) error {
	renewed, err := b.client.KeepAliveOnce(ctx, clientv3.LeaseID(id))
	if err != nil {
		return b.leaseFailed(ctx, err)
	}
	read, err := b.client.Get(ctx, b.opts.Prefix+"/", clientv3.WithCountOnly())
	if err != nil {
		return b.leaseFailed(ctx, err)
	}
	if read.Header.RaftTerm != renewed.RaftTerm {
		return errOldLeader
	}
	return nil
}

// errOldLeader is the error of a renewal that counts for nothing; the next one may.
var errOldLeader = errors.New("etcd: another leader was elected while a lease was renewed")

// Revoke implements store.Leaser.
func (b *backend) Revoke(ctx context.Context, id store.LeaseID) error {
	ctx, cancel, err := b.request(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	_, err = b.client.Revoke(ctx, clientv3.LeaseID(id))
	if err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return b.leaseFailed(ctx, err)
}
