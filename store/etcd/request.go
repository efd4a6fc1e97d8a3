package etcd

import (
	"fmt"
	"iter"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tendhq/tend/store"
)

// condition and operation are what a compare and a write are made of, each in
// one piece of memory: most transactions have one of either.
type condition struct {
	cmp    pb.Compare
	rev    pb.Compare_ModRevision
	get    pb.RangeRequest
	union  pb.RequestOp_RequestRange
	lookup pb.RequestOp
}

type operation struct {
	put   pb.PutRequest
	union pb.RequestOp_RequestPut
	op    pb.RequestOp
}

// conditions are those of t in the order in which they are judged.
func conditions(t *store.Txn) iter.Seq[*store.Compare] {
	return func(yield func(*store.Compare) bool) {
		for i := range t.Guards {
			if !yield(&t.Guards[i]) {
				return
			}
		}
		for i := range t.If {
			if !yield(&t.If[i]) {
				return
			}
		}
	}
}

// member translates a transaction. Its Else branch reads what was compared, so
// that a conflict costs no second round trip to see what is there.
func (b *backend) member(t store.Txn) (*member, error) {
	m := &member{txn: t, req: new(pb.TxnRequest)}
	if n := len(t.Guards) + len(t.If); n > 0 {
		m.req.Compare = make([]*pb.Compare, 0, n)
		m.req.Failure = make([]*pb.RequestOp, 0, n)
	}
	values, err := t.Encode()
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	var last []byte // the path of the condition before; mostly the one that is written
	for c := range conditions(&t) {
		last = b.path(c.Kind, c.Key)
		m.compare(last, c)
	}
	m.req.Success = make([]*pb.RequestOp, 0, max(1, len(t.Ops)))
	for i := range t.Ops {
		op := &t.Ops[i]
		path := last
		if n := len(t.If); n == 0 || t.If[n-1].Key != op.Key || t.If[n-1].Kind != op.Kind {
			path = b.path(op.Kind, op.Key)
		}
		m.write(path, op, values[i])
	}
	if len(t.Ops) == 0 {
		// A transaction that asks for nothing is answered by whichever member
		// got it, from what that one has heard of. A read makes it linearizable.
		get := &pb.RangeRequest{Key: []byte(b.opts.Prefix + "/"), CountOnly: true}
		m.req.Success = append(m.req.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: get}})
	}
	m.ops = max(len(m.req.Compare), len(m.req.Success), len(m.req.Failure))
	return m, nil
}

func (m *member) compare(path []byte, c *store.Compare) {
	x := new(condition)
	x.cmp.Key = path
	x.cmp.Result = pb.Compare_EQUAL
	if c.Created == 0 || c.Revision != 0 {
		// A ModRevision of 0 is that of a key that does not exist.
		x.rev.ModRevision = int64(c.Revision)
		x.cmp.Target, x.cmp.TargetUnion = pb.Compare_MOD, &x.rev
		m.req.Compare = append(m.req.Compare, &x.cmp)
	}
	if c.Created != 0 {
		m.req.Compare = append(m.req.Compare, &pb.Compare{
			Key: path, Result: pb.Compare_EQUAL, Target: pb.Compare_CREATE,
			TargetUnion: &pb.Compare_CreateRevision{CreateRevision: int64(c.Created)},
		})
	}
	x.get.Key = path
	x.union.RequestRange = &x.get
	x.lookup.Request = &x.union
	m.req.Failure = append(m.req.Failure, &x.lookup)
	m.size += 2*len(path) + 64
}

func (m *member) write(path []byte, op *store.Op, value []byte) {
	m.size += len(path) + 64
	if op.Put == nil {
		m.req.Success = append(m.req.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
			RequestDeleteRange: &pb.DeleteRangeRequest{Key: path},
		}})
		return
	}
	m.size += len(value)
	x := new(operation)
	x.put.Key, x.put.Value, x.put.Lease = path, value, int64(op.Lease)
	x.union.RequestPut = &x.put
	x.op.Request = &x.union
	m.req.Success = append(m.req.Success, &x.op)
}

// nested is a member as an operation of a larger transaction.
type nested struct {
	union pb.RequestOp_RequestTxn
	op    pb.RequestOp
}

// together makes one request of several.
func together(batch []*member) *pb.TxnRequest {
	all := make([]nested, len(batch))
	ops := make([]*pb.RequestOp, len(batch))
	for i, m := range batch {
		all[i].union.RequestTxn = m.req
		all[i].op.Request = &all[i].union
		ops[i] = &all[i].op
	}
	return &pb.TxnRequest{Success: ops}
}
