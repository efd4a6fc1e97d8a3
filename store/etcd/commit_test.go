//go:build unix

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/storetest/campaign"
)

func key(name string) store.Key { return store.Key{Namespace: "ns", Name: name} }

func put(k store.Key, value string) store.Op {
	return store.Op{Kind: "thing", Key: k, Put: store.Bytes(value)}
}

func absent(k store.Key) []store.Compare { return []store.Compare{{Kind: "thing", Key: k}} }

func TestConflictCarriesWhatIsThereWithoutAnotherRead(t *testing.T) {
	b := open(t, etcd.Options{})
	ctx := t.Context()
	rev, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put(key("a"), "one")}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Commit(ctx, store.Txn{If: absent(key("a")), Ops: []store.Op{put(key("a"), "two")}})
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) {
		t.Fatalf("Commit over an existing record: %v, want a ConflictError", err)
	}
	if got := conflict.Current; got.Revision != rev || string(got.Bytes) != "one" {
		t.Errorf("ConflictError has %q at %d, want %q at %d", got.Bytes, got.Revision, "one", rev)
	}
}

// Members of one request must not be judged by the state before it where one of
// them writes what another compares: both would succeed.
//
// Negative control: with fits always true, both Commits of a pair succeed in
// the first round.
func TestCommitsThatInvalidateEachOtherNeverBothSucceed(t *testing.T) {
	b := open(t, *(&etcd.Options{}).SetInFlight(1))
	ctx := t.Context()
	for round := range 50 {
		x, y := key(fmt.Sprint("x", round)), key(fmt.Sprint("y", round))
		var wg sync.WaitGroup
		errs := make([]error, 2)
		gate := make(chan struct{})
		for i, txn := range []store.Txn{
			{If: absent(y), Ops: []store.Op{put(x, "1")}},
			{If: absent(x), Ops: []store.Op{put(y, "1")}},
		} {
			wg.Go(func() {
				<-gate
				_, errs[i] = b.Commit(ctx, txn)
			})
		}
		// Traffic that keeps the one request slot busy, so that the two above
		// meet in the queue and are offered to the same batch.
		for i := range 8 {
			wg.Go(func() {
				<-gate
				if _, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put(key(fmt.Sprint("t", i)), "1")}}); err != nil {
					t.Error(err)
				}
			})
		}
		close(gate)
		wg.Wait()
		if errs[0] == nil && errs[1] == nil {
			t.Fatalf("round %d: both Commits succeeded although each invalidates the other", round)
		}
		for _, err := range errs {
			if err != nil && !errors.Is(err, store.ErrConflict) {
				t.Fatal(err)
			}
		}
	}
}

// What arrives while the requests that may be under way are under way goes out together: 2 requests are under way
// and 32 Commits in one, unless the options say otherwise.
func TestCommitsThatWaitShareRequests(t *testing.T) {
	const waiting = 40
	for name, c := range map[string]struct {
		o        *etcd.Options
		inFlight int
		requests int64 // all of them
	}{
		"by default":     {&etcd.Options{}, 2, 2 + 2},
		"none":           {(&etcd.Options{}).SetBatch(1), 2, 2 + waiting},
		"ten":            {(&etcd.Options{}).SetBatch(10).SetInFlight(1), 1, 1 + 4},
		"more in flight": {(&etcd.Options{}).SetInFlight(3), 3, 3 + 2},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			answered := make(chan struct{})
			hold := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
				if strings.HasSuffix(method, "/Txn") {
					requests.Add(1)
					<-answered
				}
				return invoke(ctx, method, req, reply, cc, o...)
			}
			c.o.Prefix, c.o.Timeout = newPrefix(), patience
			opened, err := etcd.New(clientv3.Config{Endpoints: []string{server}, DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(hold)}}, c.o)
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			b := opened.(*etcd.Backend)
			var all sync.WaitGroup
			for i := range c.inFlight + waiting {
				all.Go(func() {
					if err := putBytes(t, b, fmt.Sprint(i), nil); err != nil {
						t.Error(err)
					}
				})
			}
			waitFor(t, func() bool { return b.Queued() == waiting })
			if n := b.InFlight(); n != c.inFlight {
				t.Errorf("%d requests are under way, want %d", n, c.inFlight)
			}
			close(answered)
			all.Wait()
			if n := requests.Load(); n != c.requests {
				t.Errorf("%d Commits are made with %d requests, want %d", c.inFlight+waiting, n, c.requests)
			}
		})
	}
}

// One member of a shared request that the server refuses (its lease is gone)
// must not take the others with it.
func TestOneRefusedCommitDoesNotFailItsNeighbours(t *testing.T) {
	b := open(t, *(&etcd.Options{}).SetInFlight(1))
	ctx := t.Context()
	var wg sync.WaitGroup
	for i := range 40 {
		op := put(key(fmt.Sprint("k", i)), "v")
		if i%10 == 3 {
			op.Lease = 12345
		}
		wg.Go(func() {
			_, err := b.Commit(ctx, store.Txn{Ops: []store.Op{op}})
			if wantGone := op.Lease != 0; errors.Is(err, store.ErrLeaseGone) != wantGone || (err != nil) != wantGone {
				t.Errorf("Commit of %v under lease %d: %v", op.Key, op.Lease, err)
			}
		})
	}
	wg.Wait()
}

// A caller that gives up must not take back what others sent along with it, and
// must be told that its own outcome is open.
func TestCancelledCommitIsUnknownOnceSentAndUndoneBefore(t *testing.T) {
	p := campaign.NewProxy(t, server)
	b := openAt(t, p.Addr(), *(&etcd.Options{Prefix: newPrefix()}).SetInFlight(1))
	ctx := t.Context()
	if _, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put(key("warm"), "v")}}); err != nil {
		t.Fatal(err)
	}
	p.Set(campaign.Blackhole)
	first, cancelFirst := context.WithCancel(ctx)
	sent := make(chan error, 1)
	go func() {
		_, err := b.Commit(first, store.Txn{Ops: []store.Op{put(key("sent"), "v")}})
		sent <- err
	}()
	waitFor(t, func() bool { return b.InFlight() == 1 })
	second, cancelSecond := context.WithCancel(ctx)
	queued := make(chan error, 1)
	go func() {
		_, err := b.Commit(second, store.Txn{Ops: []store.Op{put(key("queued"), "v")}})
		queued <- err
	}()
	waitFor(t, func() bool { return b.Queued() == 1 })
	cancelSecond()
	if err := <-queued; errors.Is(err, store.ErrUnknownOutcome) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before it was sent: %v, want context.Canceled and a known outcome", err)
	}
	cancelFirst()
	if err := <-sent; !errors.Is(err, store.ErrUnknownOutcome) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled after it was sent: %v, want ErrUnknownOutcome and context.Canceled", err)
	}
	p.Set(campaign.Pass)
	waitFor(t, func() bool { return b.InFlight() == 0 })
	if _, err := b.Get(ctx, "thing", key("queued")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the withdrawn Commit was applied: %v", err)
	}
}

// A partition must not block for ever: etcd's client has no timeout of its own.
func TestWriteIntoAPartitionEndsWithAnUnknownOutcome(t *testing.T) {
	p := campaign.NewProxy(t, server)
	b := openAt(t, p.Addr(), etcd.Options{Prefix: newPrefix(), Timeout: time.Second})
	waitFor(t, func() bool {
		_, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("warm"), "v")}})
		return err == nil
	})
	p.Set(campaign.Blackhole)
	if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("a"), "v")}}); !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("Commit into a blackhole: %v, want ErrUnknownOutcome", err)
	}
	if _, err := b.Get(t.Context(), "thing", key("a")); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get from a blackhole: %v, want an error that claims nothing", err)
	}
	p.Set(campaign.Pass)
}

// waitFor waits for something that other goroutines bring about and that gives
// no signal of its own.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
			if t.Failed() { // such as by the end of a server
				t.FailNow()
			}
		case <-limit:
			t.Fatalf("did not happen in %v", patience)
		}
	}
}
