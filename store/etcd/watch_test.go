//go:build unix

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/storetest/campaign"
)

// reader pulls batches one at a time.
type reader struct {
	t    testing.TB
	next func() (store.Batch, error, bool)
}

func watch(t testing.TB, b *etcd.Backend, after store.Revision) *reader {
	t.Helper()
	return watchKind(t, b, "thing", after)
}

func watchKind(t testing.TB, b *etcd.Backend, kind string, after store.Revision) *reader {
	t.Helper()
	next, stop := iter.Pull2(b.Watch(t.Context(), kind, after))
	t.Cleanup(stop)
	return &reader{t, next}
}

// upTo reads until the key's change was seen, and gives everything on the way.
func (r *reader) upTo(name string) (seen []store.Change) {
	r.t.Helper()
	for {
		batch, err, ok := r.next()
		if !ok || err != nil {
			r.t.Fatalf("watch ended while waiting for %s: %v", name, err)
		}
		for _, c := range batch.Changes {
			if seen = append(seen, c); c.Key.Name == name {
				return seen
			}
		}
	}
}

func write(t testing.TB, b *etcd.Backend, name string) store.Revision {
	t.Helper()
	rev, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key(name), name)}})
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func TestWatchGoesOnAfterConnectionsWereCut(t *testing.T) {
	p := campaign.NewProxy(t, server)
	prefix := newPrefix()
	writer := openAt(t, server, etcd.Options{Prefix: prefix})
	b := openAt(t, p.Addr(), *(&etcd.Options{Prefix: prefix}).SetSilence(time.Second))
	r := watch(t, b, 0)
	write(t, writer, "before")
	r.upTo("before")
	p.Set(campaign.Reset)
	for i := range 5 {
		write(t, writer, fmt.Sprint("during", i))
	}
	p.Set(campaign.Pass)
	write(t, writer, "after")
	seen := r.upTo("after")
	if len(seen) != 6 {
		t.Fatalf("saw %d changes across the cut, want 6 each once: %v", len(seen), seen)
	}
}

// A watch over a connection that died silently stays silent for ever, unless it is
// asked for a sign of life.
//
// Negative control: with streams.drop made a no-op the test does not end: new
// streams on the old connection are as silent.
func TestSilentStreamIsOpenedAnew(t *testing.T) {
	p := campaign.NewProxy(t, server)
	prefix := newPrefix()
	writer := openAt(t, server, etcd.Options{Prefix: prefix})
	b, err := etcd.New(clientv3.Config{
		Endpoints: []string{p.Addr()}, DialKeepAliveTime: time.Hour, // gRPC will not notice
	}, (&etcd.Options{Prefix: prefix, Timeout: patience}).SetSilence(500*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	r := watch(t, b.(*etcd.Backend), 0)
	write(t, writer, "before")
	r.upTo("before")
	p.Freeze() // what is open now stays open and dead; new connections work
	write(t, writer, "after")
	r.upTo("after")
}

func TestCompactedHistoryRestartsWatchersWithASnapshot(t *testing.T) {
	p := campaign.NewProxy(t, server)
	prefix := newPrefix()
	writer := openAt(t, server, etcd.Options{Prefix: prefix})
	b := openAt(t, p.Addr(), *(&etcd.Options{Prefix: prefix}).SetSilence(time.Second))
	write(t, writer, "gone")
	r := watch(t, b, 0)
	r.upTo("gone")
	p.Set(campaign.Reset)
	if _, err := writer.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "thing", Key: key("gone")}}}); err != nil {
		t.Fatal(err)
	}
	compact(t, server, write(t, writer, "new"))
	p.Set(campaign.Pass)
	for {
		batch, err, ok := r.next()
		if !ok {
			t.Fatal("watch ended without an error")
		}
		if err != nil {
			if !errors.Is(err, store.ErrCompacted) {
				t.Fatalf("watch ended with %v, want ErrCompacted", err)
			}
			break
		}
		for _, c := range batch.Changes {
			t.Fatalf("a change was delivered across the gap: %v", c)
		}
	}
	r = watch(t, b, 0)
	if seen := r.upTo("new"); len(seen) != 1 {
		t.Errorf("the new snapshot holds %v, want only what is there", seen)
	}
}

// An idle watcher must not be overtaken by the compaction of other kinds'
// changes: progress moves its position along.
func TestIdleWatchSurvivesUnrelatedChurnAndCompaction(t *testing.T) {
	p := campaign.NewProxy(t, server)
	prefix := newPrefix()
	writer := openAt(t, server, etcd.Options{Prefix: prefix})
	b := openAt(t, p.Addr(), *(&etcd.Options{Prefix: prefix}).SetSilence(200 * time.Millisecond))
	next, stop := iter.Pull2(b.Watch(t.Context(), "idle", 0))
	defer stop()
	if batch, err, _ := next(); err != nil || batch.Kind != store.BatchSnapshotEnd {
		t.Fatalf("got %v, %v; want the end of an empty snapshot", batch, err)
	}
	var head store.Revision
	for i := range 20 {
		head = write(t, writer, fmt.Sprint("churn", i))
	}
	for at := store.Revision(0); at < head; {
		batch, err, ok := next()
		if err != nil || !ok {
			t.Fatalf("idle watch ended: %v", err)
		}
		at = batch.Revision
	}
	compact(t, server, head)
	p.Set(campaign.Reset)
	p.Set(campaign.Pass)
	op := store.Op{Kind: "idle", Key: key("a"), Put: store.Bytes("v")}
	if _, err := writer.Commit(t.Context(), store.Txn{Ops: []store.Op{op}}); err != nil {
		t.Fatal(err)
	}
	for {
		batch, err, ok := next()
		if err != nil || !ok {
			t.Fatalf("idle watch did not survive the compaction: %v", err)
		}
		if batch.Kind == store.BatchChanges {
			return
		}
	}
}

func TestSlowWatcherIsCompactedAlone(t *testing.T) {
	b := open(t, etcd.Options{History: 4})
	slow, quick := watch(t, b, 0), watch(t, b, 0)
	for _, r := range []*reader{slow, quick} {
		if batch, err, _ := r.next(); err != nil || batch.Kind != store.BatchSnapshotEnd {
			t.Fatalf("got %v, %v; want the end of an empty snapshot", batch, err)
		}
	}
	for i := range 40 {
		name := fmt.Sprint("k", i)
		write(t, b, name)
		quick.upTo(name)
	}
	for {
		_, err, ok := slow.next()
		if errors.Is(err, store.ErrCompacted) {
			break
		}
		if err != nil || !ok {
			t.Fatalf("slow watcher ended with %v, want ErrCompacted", err)
		}
	}
	write(t, b, "last")
	quick.upTo("last")
}

// A store restored from a backup is behind what its watchers have seen. A watch
// from a revision beyond its head would wait in silence.
func TestRevisionBeyondTheHeadIsCompacted(t *testing.T) {
	b := open(t, etcd.Options{})
	head := write(t, b, "a")
	r := watch(t, b, head+1000)
	if _, err, _ := r.next(); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("watch after a revision the store has not reached: %v, want ErrCompacted", err)
	}
}

// A cluster restored from a backup: another cluster id, an older head, the same
// addresses. Every watcher begins again, and sees what is there now.
//
// promise S2. Negative control: with position comparing nothing, the watch waits
// in silence for revisions to come round again.
func TestRestoredStoreRestartsWatchersWithASnapshot(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, binary string) {
		old, other := startAlone(t, binary), startAlone(t, binary)
		old.raw()
		other.raw()
		p := campaign.NewProxy(t, old.host())
		before := openAt(t, old.cfg.Client, etcd.Options{})
		after := openAt(t, other.cfg.Client, etcd.Options{})
		for i := range 30 { // so that the backup is behind
			write(t, before, fmt.Sprint("lost", i))
		}
		kept := write(t, after, "kept")
		b := openAt(t, p.Addr(), *(&etcd.Options{}).SetSilence(time.Second))
		r := watch(t, b, 0)
		if head := write(t, before, "seen"); head <= kept {
			t.Fatalf("the old store is at %d, the restored one at %d: nothing is tested", head, kept)
		}
		r.upTo("seen")
		p.Redirect(other.host())
		r.endsCompacted()
		if seen := watch(t, b, 0).upTo("kept"); len(seen) != 1 {
			t.Errorf("the new snapshot holds %v, want only what the restored store has", seen)
		}
	})
}

// A watch waits for a cluster without a leader as long as a request may take, and says what it waited for. What
// fails while its snapshot is read ends it.
func TestWatchThatCannotBeginSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		fails   error
		of      func(n int64, req *pb.RangeRequest) bool
		timeout time.Duration
		want    string // in the error; "": the watch begins
	}{
		"an election": {rpctypes.ErrNoLeader, func(n int64, _ *pb.RangeRequest) bool { return n <= 2 }, patience, ""},
		"no election": {rpctypes.ErrNoLeader, func(int64, *pb.RangeRequest) bool { return true }, 100 * time.Millisecond, "no answer within the request timeout"},
		"no snapshot": {rpctypes.ErrPermissionDenied, func(_ int64, r *pb.RangeRequest) bool { return r.Limit > 0 }, patience, "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			var reads atomic.Int64
			fail := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
				if r, ok := req.(*pb.RangeRequest); ok && c.of(reads.Add(1), r) {
					return c.fails
				}
				return invoke(ctx, method, req, reply, cc, o...)
			}
			b, err := etcd.New(clientv3.Config{
				Endpoints: []string{server}, MaxUnaryRetries: 1, DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(fail)},
			}, &etcd.Options{Prefix: newPrefix(), Timeout: c.timeout})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			ended := errors.New("it ended without an error")
			for batch, err := range b.Watch(ctx, "thing", 0) {
				if ended = err; batch.Kind == store.BatchSnapshotEnd {
					break
				}
			}
			if c.want == "" && ended != nil || c.want != "" && (ended == nil || !strings.Contains(ended.Error(), c.want)) {
				t.Errorf("the watch: %v, want %q", ended, c.want)
			}
		})
	}
}

// What is there is counted by its kind, whatever the names of kinds have in common.
func TestKindsAreCounted(t *testing.T) {
	b := open(t, etcd.Options{})
	for i, kind := range []string{"a", "a", "ab", "a-b", "b", "_lease", "a"} {
		op := put(key(fmt.Sprint(i)), "v")
		op.Kind = kind
		if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{op}}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := b.Kinds(t.Context())
	if want := map[string]int{"a": 3, "ab": 1, "a-b": 1, "b": 1, "_lease": 1}; err != nil || !maps.Equal(got, want) {
		t.Errorf("Kinds = %v, %v; want %v", got, err, want)
	}
}

func TestManyWatchersShareOneStream(t *testing.T) {
	b := open(t, etcd.Options{})
	var wg sync.WaitGroup
	for range 50 {
		r := watch(t, b, 0)
		wg.Go(func() { r.upTo("last") })
	}
	for i := range 20 {
		write(t, b, fmt.Sprint("k", i))
	}
	write(t, b, "last")
	wg.Wait()
	if n := b.Hubs(); n != 1 {
		t.Errorf("%d streams for one kind, want 1", n)
	}
}

// A watch that resumes from a revision at which nothing of its kind changed, as a cache does that
// has listed its kind, is ahead of the stream. A stream of its own would have the server send each
// change of the kind twice for as long as the watch goes on.
//
// Negative control: the mutant "a watch that is ahead of the stream opens another".
func TestWatchThatIsAheadOfTheStreamSharesIt(t *testing.T) {
	b := open(t, etcd.Options{})
	r := watch(t, b, 0)
	write(t, b, "a")
	r.upTo("a")
	other := put(key("x"), "x")
	other.Kind = "other"
	ahead, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{other}})
	if err != nil {
		t.Fatal(err)
	}
	if shares, err := b.Resume(t.Context(), "thing", ahead); err != nil || !shares {
		t.Errorf("it shares the stream: %v, error %v; want yes", shares, err)
	}
	start := write(t, b, "b")
	watchKind(t, b, "third", 0).next() // a stream that begins here
	if shares, err := b.Resume(t.Context(), "third", start); err != nil || !shares {
		t.Errorf("from where the stream begins it shares it: %v, error %v; want yes", shares, err)
	}
	if shares, err := b.Resume(t.Context(), "third", start-1); err != nil || shares {
		t.Errorf("from before the stream begins it shares it: %v, error %v; want no", shares, err)
	}
	if shares, err := b.Resume(t.Context(), "thing", ahead+1000); err != nil || shares {
		t.Errorf("from a revision that the store does not have it shares the stream: %v, error %v; want no", shares, err)
	}
}

func TestCloseEndsWatches(t *testing.T) {
	b, err := etcd.New(clientv3.Config{Endpoints: []string{server}}, &etcd.Options{Prefix: newPrefix(), Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		for batch, err := range b.Watch(context.Background(), "thing", 0) {
			if err != nil {
				ended <- err
			} else if batch.Kind == store.BatchSnapshotEnd {
				close(begun)
			}
		}
	}()
	<-begun
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, store.ErrClosed) {
		t.Errorf("watch ended with %v, want ErrClosed", err)
	}
	if _, err := b.Get(t.Context(), "thing", key("a")); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Get after Close: %v, want ErrClosed", err)
	}
	if _, err := b.Commit(t.Context(), store.Txn{}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Commit after Close: %v, want ErrClosed", err)
	}
}

// A watch whose caller is gone already leaves nothing running, also where it would
// have needed a stream of its own.
//
// Negative control: with the end of ctx noticed between the start of that stream and
// the code that stops it, the stream ran on until the backend was closed.
func TestWatchOfACallerThatIsGoneLeavesNoStream(t *testing.T) {
	b := open(t, etcd.Options{})
	before := write(t, b, "before")
	write(t, b, "a")
	r := watch(t, b, 0) // opens the stream that watches share, after the writes
	r.upTo("a")
	why := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	for batch, err := range b.Watch(ctx, "thing", before) {
		if !errors.Is(err, why) {
			t.Errorf("got %v, %v, want the cause of the context", batch, err)
		}
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if strings.Contains(string(stacks), "(*hub).open") {
		t.Error("a stream of its own is left")
	}
}

// What stands between here and the server may cut a call off, which reads like a call
// that we cancelled ourselves. That is neither the end of the backend, at which
// everything that watches it would end, nor a promise that a write was not made.
//
// Negative control: with every cancelled call taken for the end of the backend, both
// were ErrClosed.
func TestCallThatWasCutOffIsNotTheEndOfTheBackend(t *testing.T) {
	cut := func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
		return status.Error(codes.Canceled, "stream reset by peer")
	}
	b, err := etcd.New(clientv3.Config{
		Endpoints: []string{"127.0.0.1:1"}, MaxUnaryRetries: 1, DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(cut)},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Get(t.Context(), "thing", key("a"))
	if err == nil || errors.Is(err, store.ErrClosed) {
		t.Errorf("Get: %v, want an error that is not ErrClosed", err)
	}
	_, err = b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("a"), "a")}})
	if !errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrClosed) {
		t.Errorf("Commit: %v, want ErrUnknownOutcome", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), "thing", key("a")); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Get after Close: %v, want ErrClosed", err)
	}
}
