package etcd

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tendhq/tend/store"
)

const (
	// pageRecords bounds a page by count, pageBytes by weight: etcd has a limit
	// of the one kind only, and an answer beyond gRPC's message size fails
	// whole.
	pageRecords = 1000
	pageBytes   = 1 << 20
)

// List implements store.Backend. A page holds at most 1,000 records and about
// 1 MiB.
func (b *backend) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	return b.list(ctx, kind, nil, o)
}

// list lists the records of some slots: it reads the keys of all, and the values of these. No
// slots are all.
func (b *backend) list(ctx context.Context, kind string, slots *store.SlotSet, o store.ListOptions) (store.Page, error) {
	if err := store.CheckKind(kind); err != nil {
		return store.Page{}, err
	}
	if o.Limit < 0 {
		return store.Page{}, fmt.Errorf("etcd: %w: limit %d", store.ErrInvalid, o.Limit)
	}
	if o.Cursor == "" && o.At > math.MaxInt64 { // negative for etcd, which takes it for now
		return store.Page{}, fmt.Errorf("etcd: %w: revision %d is not reached yet", store.ErrInvalid, o.At)
	}
	prefix := b.opts.Prefix + "/" + kind + "/"
	if o.Namespace != "" {
		prefix += o.Namespace + "/"
	}
	at, from := o.At, prefix
	if o.Cursor != "" {
		rev, last, err := readCursor(prefix, o.Cursor)
		if err != nil {
			return store.Page{}, err
		}
		at, from = rev, prefix+last+"\x00"
	}
	limit := pageRecords
	if o.Limit > 0 {
		limit = min(limit, o.Limit)
	}
	ask := portion{n: limit, again: o.Cursor != ""}
	if slots != nil {
		ask.n *= keysARecord
	} else {
		ask.n = min(ask.n, b.pageOf(kind))
	}
	for {
		resp, err := b.rangeOf(ctx, from, clientv3.GetPrefixRangeEnd(prefix), at, ask.n, slots != nil)
		switch {
		case err == nil:
			if at == 0 {
				at = store.Revision(resp.Header.Revision)
			}
			if slots != nil {
				return b.own(ctx, kind, prefix, at, limit, slots, resp)
			}
			return b.page(kind, prefix, at, resp), nil
		case ask.less(ctx, err):
		case o.At != 0 && o.Cursor == "" && futureRevision(err):
			return store.Page{}, fmt.Errorf("etcd: %w: revision %d is not reached yet", store.ErrInvalid, at)
		default:
			return store.Page{}, b.readFailed(ctx, err)
		}
	}
}

func (b *backend) rangeOf(ctx context.Context, from, to string, at store.Revision, limit int, keys bool) (*clientv3.GetResponse, error) {
	ctx, cancel, err := b.request(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	opts := []clientv3.OpOption{clientv3.WithRange(to), clientv3.WithLimit(int64(limit)), clientv3.WithRev(int64(at))}
	if keys {
		opts = append(opts, clientv3.WithKeysOnly())
	}
	return b.client.Get(ctx, from, opts...)
}

// portion is how much one read asks for.
type portion struct {
	n     int
	again bool // also after a timeout, twice: the list would begin again from its start
	late  int
}

// less reports whether a read that failed is to be made again, with less: because the answer does
// not fit into a message, is of too many operations, or did not come in time.
func (p *portion) less(ctx context.Context, err error) bool {
	switch {
	case p.n <= 1 || ctx.Err() != nil:
		return false
	case status.Code(err) == codes.ResourceExhausted || errors.Is(err, rpctypes.ErrTooManyOps):
	case p.again && p.late < 2 && (errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded):
		p.late++
	default:
		return false
	}
	p.n = max(p.n/4, 1)
	return true
}

const (
	// keysARecord is how many keys are read for one record of a list of some slots. Lists of more
	// slots read all records.
	keysARecord = 4
	// valuesAtOnce is how many values one transaction reads; etcd's limit is 128.
	valuesAtOnce = 120
)

// own is the page of the records of some slots, of an answer that has the keys of all.
func (b *backend) own(ctx context.Context, kind, prefix string, at store.Revision, limit int, slots *store.SlotSet, resp *clientv3.GetResponse) (store.Page, error) {
	p := store.Page{Revision: at}
	next, size := 0, 0 // of resp.Kvs, and of p
	ask := portion{n: valuesAtOnce, again: true}
	for next < len(resp.Kvs) && len(p.Records) < limit && size < pageBytes {
		var ops []clientv3.Op
		i := next
		for ; i < len(resp.Kvs) && len(ops) < min(ask.n, limit-len(p.Records)); i++ {
			if key := resp.Kvs[i].Key; slots.HasKey(b.keyOf(kind, key)) {
				ops = append(ops, clientv3.OpGet(string(key), clientv3.WithRev(int64(at))))
			}
		}
		got, err := b.values(ctx, ops)
		if err != nil && ask.less(ctx, err) {
			continue
		} else if err != nil {
			return store.Page{}, b.readFailed(ctx, err)
		}
		for _, r := range got {
			for _, kv := range r.GetResponseRange().GetKvs() {
				p.Records = append(p.Records, b.record(kind, kv))
				size += len(kv.Key) + len(kv.Value)
			}
		}
		next = i
	}
	if next < len(resp.Kvs) || resp.More {
		p.Cursor = writeCursor(prefix, at, string(resp.Kvs[next-1].Key[len(prefix):]))
	}
	return p, nil
}

func (b *backend) values(ctx context.Context, ops []clientv3.Op) ([]*pb.ResponseOp, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	ctx, cancel, err := b.request(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	resp, err := b.client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return nil, err
	}
	return resp.Responses, nil
}

// page cuts an answer to about pageBytes and says where the next one begins.
func (b *backend) page(kind, prefix string, at store.Revision, resp *clientv3.GetResponse) store.Page {
	p := store.Page{Revision: at}
	size := 0
	for i, kv := range resp.Kvs {
		p.Records = append(p.Records, b.record(kind, kv))
		size += len(kv.Key) + len(kv.Value)
		last := i == len(resp.Kvs)-1
		if more := resp.More || !last; more && (last || size >= pageBytes) {
			p.Cursor = writeCursor(prefix, at, string(kv.Key[len(prefix):]))
			break
		}
	}
	if n := len(p.Records); n > 0 {
		b.weights.Store(kind, max(1, size/n))
	}
	return p
}

// pageOf is how many records of a kind make about pageBytes, as far as pages before tell: what is
// cut off a page is read again for the next one.
func (b *backend) pageOf(kind string) int {
	weight, _ := b.weights.LoadOrStore(kind, 1)
	return min(pageRecords, max(1, pageBytes/weight.(int)))
}

// A cursor is the pinned revision and the last key given, and a checksum of both and of
// the list that they belong to.
func writeCursor(prefix string, at store.Revision, last string) string {
	raw := append(binary.AppendUvarint(nil, uint64(at)), last...)
	sum := crc32.Update(crc32.ChecksumIEEE([]byte(prefix)), crc32.IEEETable, raw)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(raw, sum))
}

func readCursor(prefix, s string) (at store.Revision, last string, err error) {
	raw, _ := base64.RawURLEncoding.DecodeString(s)
	rev, n := binary.Uvarint(raw)
	if end := len(raw) - crc32.Size; n > 0 && n <= end {
		at, last = store.Revision(rev), string(raw[n:end])
		if at > 0 && writeCursor(prefix, at, last) == s {
			return at, last, nil
		}
	}
	return 0, "", fmt.Errorf("etcd: %w: cursor %.64q is of another list", store.ErrInvalid, s)
}

func futureRevision(err error) bool { return errors.Is(err, rpctypes.ErrFutureRev) }
