package etcd

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tendhq/tend/store"
)

// heldKV is a server that answers when it is told to.
type heldKV struct {
	pb.KVClient
	requests int
	answer   chan struct{} // one for each request
}

func (k *heldKV) Txn(ctx context.Context, req *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	k.requests++
	select {
	case <-k.answer:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	resp := &pb.TxnResponse{Header: &pb.ResponseHeader{}, Succeeded: true}
	for range req.Success {
		resp.Responses = append(resp.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: &pb.TxnResponse{}}})
	}
	return resp, nil
}

// Whatever a Commit has gone through when its context ends, its error does not say that nothing
// was written if a request with it has left. Seen to fail: without ErrUnknownOutcome in withdraw the
// two that were sent after they waited said that they were not made.
func TestCommitThatIsGivenUpSaysWhetherItWasSent(t *testing.T) {
	var answered error
	unsent, unknown := context.Canceled, store.ErrUnknownOutcome
	for _, c := range []struct {
		name     string
		ahead    int // Commits before it: the first leaves alone, those behind it wait
		together int // Commits that leave with it
		answers  int // requests that the server has answered when the context ends
		want     error
	}{
		{"sent at once", 0, 0, 0, unknown},
		{"waiting", 1, 0, 0, unsent},
		{"waiting behind others", 1, 3, 0, unsent},
		{"sent after it waited", 1, 0, 1, unknown},
		{"sent with others after they waited", 1, 3, 1, unknown},
		{"answered at once", 0, 0, 1, answered},
		{"answered after it waited", 1, 0, 2, answered},
		{"answered with others", 1, 3, 2, answered},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kv := &heldKV{answer: make(chan struct{})}
				b := &batcher{kv: kv, most: 10, bytes: 1 << 20, inflight: 1, timeout: time.Hour, touched: make(map[address]bool)}
				n := 0
				commit := func(ctx context.Context) chan error {
					n++
					m := &member{
						txn: store.Txn{Ops: []store.Op{{Kind: "thing", Key: store.Key{Name: string(rune('a' + n))}}}},
						req: &pb.TxnRequest{}, size: 1, ops: 1,
					}
					done := make(chan error, 1)
					go func() { done <- b.commit(ctx, m) }()
					synctest.Wait()
					return done
				}
				var others []chan error
				for range c.ahead {
					others = append(others, commit(t.Context()))
				}
				ctx, cancel := context.WithCancel(t.Context())
				it := commit(ctx)
				for range c.together {
					others = append(others, commit(t.Context()))
				}
				for range c.answers {
					kv.answer <- struct{}{}
					synctest.Wait()
				}
				cancel()
				synctest.Wait()
				close(kv.answer)
				err := <-it
				if !errors.Is(err, c.want) || c.want != nil && !errors.Is(err, context.Canceled) || errors.Is(c.want, unsent) && errors.Is(err, store.ErrUnknownOutcome) {
					t.Errorf("the error is %v, want %v", err, c.want)
				}
				for _, other := range others {
					if err := <-other; err != nil {
						t.Errorf("another Commit failed: %v", err)
					}
				}
				b.close()
				sent := c.ahead + 1
				if errors.Is(c.want, unsent) && c.together == 0 {
					sent-- // it has left the queue, and nothing went out for it
				}
				if kv.requests != sent {
					t.Errorf("%d requests were sent, want %d", kv.requests, sent)
				}
			})
		})
	}
}

// Close makes no unknown outcomes: what waits was not made, and what was sent is answered.
func TestCommitThatWaitsIsClosedAndOneThatWasSentIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := &heldKV{answer: make(chan struct{})}
		b := &batcher{kv: kv, most: 10, bytes: 1 << 20, inflight: 1, timeout: time.Hour, touched: make(map[address]bool)}
		commit := func(name string) chan error {
			m := &member{txn: store.Txn{Ops: []store.Op{{Kind: "thing", Key: store.Key{Name: name}}}}, req: &pb.TxnRequest{}, size: 1, ops: 1}
			done := make(chan error, 1)
			go func() { done <- b.commit(t.Context(), m) }()
			synctest.Wait()
			return done
		}
		sent, waits := commit("a"), commit("b")
		over := make(chan struct{})
		go func() { b.close(); close(over) }()
		synctest.Wait()
		if err := <-waits; !errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("the one that waited: %v, want ErrClosed", err)
		}
		select {
		case <-over:
			t.Error("close did not wait for the request under way")
		default:
		}
		kv.answer <- struct{}{}
		if err := <-sent; err != nil {
			t.Errorf("the one that was sent: %v, want its answer", err)
		}
		<-over
		if err := <-commit("c"); !errors.Is(err, store.ErrClosed) || kv.requests != 1 {
			t.Errorf("one after the end: %v, and %d requests were sent, want ErrClosed and 1", err, kv.requests)
		}
	})
}

// A read of a revision that the server has not reached is one of a history that is lost, as one of a revision
// that it has no longer: a list begins again.
func TestReadOfARevisionThatIsNotThereIsCompacted(t *testing.T) {
	b := &backend{ctx: t.Context()}
	for _, of := range []error{rpctypes.ErrFutureRev, rpctypes.ErrCompacted} {
		if err := b.readFailed(t.Context(), of); !errors.Is(err, store.ErrCompacted) {
			t.Errorf("%v is %v, want ErrCompacted", of, err)
		}
	}
	if err := b.readFailed(t.Context(), rpctypes.ErrNoLeader); errors.Is(err, store.ErrCompacted) {
		t.Errorf("an election is %v", err)
	}
}

// A Commit whose caller gives up in the moment in which it is answered has its answer: its outcome is known.
func TestCommitThatIsGivenUpAsItIsAnsweredHasItsAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	refused := errors.New("refused")
	for _, want := range []error{nil, refused} {
		m := &member{done: make(chan struct{})}
		m.answer(nil, nil, want)
		if err := new(batcher).withdraw(ctx, m); !errors.Is(err, want) || errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("the answer was %v, and the Commit says %v", want, err)
		}
	}
}

// A transaction without writes reads: any member would answer one that asks for nothing from what it has heard of.
func TestTransactionWithoutWritesAsksTheLeader(t *testing.T) {
	m, err := new(backend).member(store.Txn{If: []store.Compare{{Kind: "thing", Key: store.Key{Name: "a"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.req.Success) != 1 || m.req.Success[0].GetRequestRange() == nil || m.req.Success[0].GetRequestRange().Serializable {
		t.Errorf("the request does %v, want one linearizable read", m.req.Success)
	}
}

// A read that is too large is made again with less until it asks for one record, and one that is late twice, if
// a list would begin again otherwise.
func TestReadThatFailsForItsSizeAsksForLess(t *testing.T) {
	large, late, other := status.Error(codes.ResourceExhausted, ""), context.DeadlineExceeded, errors.New("other")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name  string
		ctx   context.Context
		again bool
		err   error
		want  []int // what the tries after the first ask for
	}{
		{"too large", t.Context(), false, large, []int{25, 6, 1}},
		{"too many operations", t.Context(), false, rpctypes.ErrTooManyOps, []int{25, 6, 1}},
		{"late", t.Context(), true, late, []int{25, 6}},
		{"late, says the server", t.Context(), true, status.Error(codes.DeadlineExceeded, ""), []int{25, 6}},
		{"late at the beginning of a list", t.Context(), false, late, nil},
		{"another error", t.Context(), true, other, nil},
		{"of a caller that is gone", gone, true, large, nil},
	} {
		p := portion{n: 100, again: c.again}
		var got []int
		for p.less(c.ctx, c.err) {
			got = append(got, p.n)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: asked for %v, want %v", c.name, got, c.want)
		}
	}
}

// Members of one request are judged by the state before it: those share one that only read what both of them touch.
// One of which a record is written that it reads, a guard for instance, would go behind the write and count all the same.
func TestCommitsShareARequestThatWriteNothingTheOtherTouches(t *testing.T) {
	at := func(kind, space, name string) store.Compare {
		return store.Compare{Kind: kind, Key: store.Key{Namespace: space, Name: name}}
	}
	a, otherKind, otherSpace := at("thing", "", "a"), at("other", "", "a"), at("thing", "space", "a")
	own := func(name string, t store.Txn) store.Txn {
		t.Ops = append(t.Ops, store.Op{Kind: "thing", Key: store.Key{Name: name}})
		return t
	}
	read, guard := store.Txn{If: []store.Compare{a}}, store.Txn{Guards: []store.Compare{a}}
	write := store.Txn{Ops: []store.Op{{Kind: a.Kind, Key: a.Key}}}
	for _, c := range []struct {
		name          string
		first, second store.Txn
		share         bool
	}{
		{"both read it", own("1", read), own("2", guard), true},
		{"the second reads what the first writes", write, own("2", read), false},
		{"the second is guarded by what the first writes", write, own("2", guard), false},
		{"the first reads what the second writes", own("1", read), write, false},
		{"the first is guarded by what the second writes", own("1", guard), write, false},
		{"both write it", write, write, false},
		{"of another kind", write, own("2", store.Txn{If: []store.Compare{otherKind}}), true},
		{"in another namespace", write, own("2", store.Txn{If: []store.Compare{otherSpace}}), true},
	} {
		b := &batcher{most: 10, bytes: 1000, touched: make(map[address]bool)}
		b.queue = []*member{{txn: c.first}, {txn: c.second}}
		if n := len(b.takeLocked()); (n == 2) != c.share || n+len(b.queue) != 2 {
			t.Errorf("%s: %d leave together and %d wait, want that they share: %v", c.name, n, len(b.queue), c.share)
		}
	}
}

// What waits leaves in its order, and as much of it together as the bounds allow: at least one.
func TestQueueLeavesInItsOrderAndWithinTheBounds(t *testing.T) {
	b := &batcher{most: 3, bytes: 100, touched: make(map[address]bool)}
	for i, size := range []int{10, 10, 10, 10, 90, 1, 500, 60, 40, 1} {
		b.queue = append(b.queue, &member{
			txn: store.Txn{Ops: []store.Op{{Kind: "thing", Key: store.Key{Name: string(rune('a' + i))}}}}, size: size, ops: 1,
		})
	}
	var got []string
	for len(b.queue) > 0 {
		names := ""
		for _, m := range b.takeLocked() {
			names += m.txn.Ops[0].Key.Name
		}
		got = append(got, names)
	}
	if want := []string{"abc", "de", "f", "g", "hi", "j"}; !slices.Equal(got, want) {
		t.Errorf("together leave %q, want %q", got, want)
	}
}

// etcd counts the members of a request and the operations of the largest together.
func TestRequestHasNoMoreOperationsThanEtcdTakes(t *testing.T) {
	b := &batcher{most: 120, bytes: 1000, touched: make(map[address]bool)}
	for i := range 40 {
		b.queue = append(b.queue, &member{txn: store.Txn{Ops: []store.Op{{Kind: "thing", Key: store.Key{Name: string(rune('a' + i))}}}}, ops: 100})
	}
	if n := len(b.takeLocked()); n != maxTxnOps-100 {
		t.Errorf("%d members of 100 operations leave together, want %d", n, maxTxnOps-100)
	}
}

// What the error of a write says of its outcome: nothing was written only where the server, or this client, has said
// so for certain.
//
// promise S1.
func TestErrorsOfWritesSayWhatIsKnownOfTheOutcome(t *testing.T) {
	over, cancel := context.WithTimeoutCause(t.Context(), 0, errTimeout)
	defer cancel()
	refused := status.Error(codes.Unavailable, "refused")
	gone, invalid, unknown := store.ErrLeaseGone, store.ErrInvalid, store.ErrUnknownOutcome
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want []error // of these
	}{
		{t.Context(), rpctypes.ErrLeaseNotFound, []error{gone}},
		{t.Context(), rpctypes.ErrRequestTooLarge, []error{invalid}},
		{t.Context(), status.Error(codes.ResourceExhausted, "trying to send message larger than max"), []error{invalid}},
		{t.Context(), status.Error(codes.ResourceExhausted, "something else"), []error{unknown}},
		{t.Context(), rpctypes.ErrNoSpace, []error{unknown}},
		{t.Context(), rpctypes.ErrTooManyRequests, nil},
		{t.Context(), rpctypes.ErrTooManyOps, nil},
		{t.Context(), rpctypes.ErrPermissionDenied, nil},
		{t.Context(), rpctypes.ErrInvalidAuthToken, nil},
		{t.Context(), rpctypes.ErrAuthOldRevision, nil},
		{over, rpctypes.ErrPermissionDenied, nil},
		{t.Context(), rpctypes.ErrTimeout, []error{unknown}},
		{t.Context(), rpctypes.ErrTimeoutDueToLeaderFail, []error{unknown}},
		{t.Context(), rpctypes.ErrNoLeader, []error{unknown}},
		{t.Context(), refused, []error{unknown}},
		{t.Context(), status.Error(codes.Internal, ""), []error{unknown}},
		{over, context.DeadlineExceeded, []error{unknown, errTimeout}},
		{t.Context(), &unsentError{place: "here", err: refused}, nil},
		{over, &unsentError{place: "here", err: refused}, []error{errTimeout}},
	} {
		err := failed(c.ctx, c.err)
		for _, class := range []error{gone, invalid, unknown, errTimeout} {
			if is := errors.Is(err, class); is != slices.Contains(c.want, class) {
				t.Errorf("%v became %v: it is %q: %v", c.err, err, class, is)
			}
		}
	}
}
