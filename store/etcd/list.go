package etcd

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

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
func (b *Backend) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	if err := store.CheckKind(kind); err != nil {
		return store.Page{}, err
	}
	if o.Limit < 0 {
		return store.Page{}, fmt.Errorf("etcd: %w: limit %d", store.ErrInvalid, o.Limit)
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
	for {
		resp, err := b.rangeOf(ctx, from, clientv3.GetPrefixRangeEnd(prefix), at, limit)
		switch {
		case err == nil:
			if at == 0 {
				at = store.Revision(resp.Header.Revision)
			}
			return b.page(kind, prefix, at, resp), nil
		case limit > 1 && status.Code(err) == codes.ResourceExhausted:
			limit = max(limit/4, 1) // the answer does not fit into a message
		case o.At != 0 && o.Cursor == "" && futureRevision(err):
			return store.Page{}, fmt.Errorf("etcd: %w: revision %d is not reached yet", store.ErrInvalid, at)
		default:
			return store.Page{}, b.readFailed(ctx, err)
		}
	}
}

func (b *Backend) rangeOf(ctx context.Context, from, to string, at store.Revision, limit int) (*clientv3.GetResponse, error) {
	ctx, cancel, err := b.request(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return b.client.Get(ctx, from, clientv3.WithRange(to), clientv3.WithLimit(int64(limit)), clientv3.WithRev(int64(at)))
}

// page cuts an answer to about pageBytes and says where the next one begins.
func (b *Backend) page(kind, prefix string, at store.Revision, resp *clientv3.GetResponse) store.Page {
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
	return p
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
