//go:build unix

package etcd_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
)

// reads counts what a backend's requests bring of its kind.
type reads struct {
	mu            sync.Mutex
	lists, values int                    // ranges that begin where the kind does, and values
	fail          func(method int) error // by the number of the request; nil: none fails
	requests      int
}

func (r *reads) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	_, of := req.(*pb.RangeRequest)
	txn, isTxn := req.(*pb.TxnRequest)
	of = of || isTxn && len(txn.Compare) == 0
	r.mu.Lock()
	var err error
	if of {
		if r.requests++; r.fail != nil {
			err = r.fail(r.requests)
		}
	}
	r.mu.Unlock()
	if err == nil {
		err = call(ctx, method, req, reply, cc, opts...)
	}
	if !of || err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch reply := reply.(type) {
	case *pb.RangeResponse:
		if strings.HasSuffix(string(req.(*pb.RangeRequest).Key), "/thing/") {
			r.lists++
		}
		r.count(reply.Kvs)
	case *pb.TxnResponse:
		for _, one := range reply.Responses {
			r.count(one.GetResponseRange().GetKvs())
		}
	}
	return nil
}

func (r *reads) count(kvs []*mvccpb.KeyValue) {
	for _, kv := range kvs {
		if len(kv.Value) > 0 {
			r.values++
		}
	}
}

// newReads makes a backend whose reads are counted, and so many records of the kind thing.
func newReads(t *testing.T, records, size int) (*reads, *etcd.Backend) {
	r := &reads{}
	b, err := etcd.New(clientv3.Config{
		Endpoints: []string{server}, DialTimeout: 5 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(r.intercept)},
	}, &etcd.Options{Prefix: newPrefix(), Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	for from := 0; from < records; from += 32 {
		var ops []store.Op
		for i := from; i < min(records, from+32); i++ {
			ops = append(ops, put(key(fmt.Sprintf("o%05d", i)), fmt.Sprintf("%*d", size, i)))
		}
		if _, err := b.Commit(t.Context(), store.Txn{Ops: ops}); err != nil {
			t.Fatal(err)
		}
	}
	return r, b.(*etcd.Backend)
}

// listOf reads the whole list of some slots.
func listOf(t *testing.T, b *etcd.Backend, slots store.SlotSet) (all []store.Record) {
	t.Helper()
	for o := (store.ListOptions{}); ; {
		p, err := store.ListSlots(t.Context(), b, "thing", slots, o)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Records) > 1000 {
			t.Errorf("a page of %d records", len(p.Records))
		}
		all = append(all, p.Records...)
		if o.Cursor = p.Cursor; o.Cursor == "" {
			return all
		}
	}
}

// A server that has a share of the slots reads the values of these alone, in its lists and in the
// snapshots of its watches.
//
// Negative control: mutant "a list of some slots reads the values of all".
func TestListOfAShareReadsItsValuesAlone(t *testing.T) {
	const records = 6000
	r, b := newReads(t, records, 10)
	all := listOf(t, b, store.AllSlots())
	if len(all) != records || r.values < records {
		t.Fatalf("%d records by %d values", len(all), r.values)
	}
	for _, shards := range []int{2, 8, 256} {
		slots := store.SlotsOf(1, shards)
		want := map[store.Key]store.Record{}
		for _, rec := range all {
			if slots.HasKey(rec.Key) {
				want[rec.Key] = rec
			}
		}
		check := func(what string, got []store.Record) {
			t.Helper()
			if len(got) != len(want) {
				t.Errorf("%s of a shard of %d: %d records, want %d", what, shards, len(got), len(want))
			}
			for _, rec := range got {
				if w := want[rec.Key]; w.Revision != rec.Revision || w.Created != rec.Created || string(w.Bytes) != string(rec.Bytes) {
					t.Errorf("%s of a shard of %d: %+v, want %+v", what, shards, rec, w)
				}
			}
			if r.values != len(want) {
				t.Errorf("%s of a shard of %d read %d values for %d records", what, shards, r.values, len(want))
			}
			// One for the keys of each 4,000 or each page, and one for each 120 values.
			if most := 4 + len(want)/1000 + len(want)/120 + 4; r.requests > most {
				t.Errorf("%s of a shard of %d took %d requests, want at most %d", what, shards, r.requests, most)
			}
		}
		r.values, r.requests = 0, 0
		check("a list", listOf(t, b, slots))

		r.values, r.requests = 0, 0
		var got []store.Record
		for batch, err := range store.WatchSlots(t.Context(), b, "thing", slots, 0) {
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range batch.Changes {
				got = append(got, c.Record)
			}
			if batch.Kind == store.BatchSnapshotEnd {
				break
			}
		}
		r.mu.Lock()
		check("a snapshot", got)
		r.mu.Unlock()
	}
}

// A read in the middle of a list that is not answered in time, or is of more than the server
// allows, is made again with less. The list does not begin again.
//
// Negative control: mutant "a page that comes too late ends the list".
func TestListGoesOnAfterAReadWithoutAnAnswer(t *testing.T) {
	const records = 3000
	late := status.Error(codes.DeadlineExceeded, "too late")
	for _, err := range []error{late, status.Error(codes.InvalidArgument, "etcdserver: too many operations in txn request")} {
		for _, slots := range []store.SlotSet{store.SlotsOf(0, 2), store.AllSlots()} {
			if status.Code(err) != codes.DeadlineExceeded && slots == store.AllSlots() {
				continue // it has no transactions
			}
			r, b := newReads(t, records, 10)
			want := 0
			for i := range records {
				if slots.HasKey(key(fmt.Sprintf("o%05d", i))) {
					want++
				}
			}
			r.mu.Lock()
			r.requests = 0
			r.fail = func(request int) error {
				if request == 2 || request == 3 {
					return err
				}
				return nil
			}
			r.mu.Unlock()
			if got := len(listOf(t, b, slots)); got != want {
				t.Errorf("%d records, want %d", got, want)
			}
			if r.lists != 1 {
				t.Errorf("the list began %d times", r.lists)
			}
		}
	}
}

// Pages hold about 1 MiB. What is beyond is not read, page by page, only to be read again.
//
// Negative control: mutant "what is cut off a page is read each time".
func TestListReadsLittleTwice(t *testing.T) {
	const records = 4000
	r, b := newReads(t, records, 2000)
	r.values = 0
	if all := listOf(t, b, store.AllSlots()); len(all) != records {
		t.Errorf("%d records", len(all))
	}
	if r.values > records+1000 { // the first page is cut
		t.Errorf("%d values were read for %d records", r.values, records)
	}
}
