package etcd

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tendhq/tend/store"
)

// brokenStream is a stream whose connection was lost.
type brokenStream struct {
	grpc.ClientStream
	code codes.Code
}

func (s brokenStream) RecvMsg(any) error { return status.Error(s.code, "connection reset by peer") }

// etcd's client opens a stream again that ended as unavailable, and goes on after the
// revision that it had reached, on whatever store there is by then. See openWatch.
//
// promise S2.
func TestStreamThatBreaksEnds(t *testing.T) {
	h := newHub(&backend{}, "thing")
	ctx := context.WithValue(t.Context(), hubKey{}, h)
	for _, code := range []codes.Code{codes.Unavailable, codes.Internal} {
		open := func(fails bool) (grpc.ClientStream, error) {
			return openWatch(ctx, nil, nil, "", func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
				if fails {
					return nil, status.Error(code, "refused")
				}
				return brokenStream{code: code}, nil
			})
		}
		_, refused := open(true)
		s, err := open(false)
		if err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{"opened": refused, "read": s.RecvMsg(nil)} {
			if got := status.Code(err); err == nil || got == codes.Unavailable || got == codes.Internal {
				t.Errorf("%s: %v, want an error after which etcd's client does not go on", what, err)
			}
		}
	}
}

// promise S2.
func TestHistoryWithoutTheLastChangeIsAnother(t *testing.T) {
	seen := store.Record{Created: 5, Revision: 9, Bytes: []byte("v")}
	with := func(change func(*store.Record)) store.Record {
		r := seen
		change(&r)
		return r
	}
	put, deleted := store.Change{Record: seen}, store.Change{Record: seen, Deleted: true}
	for _, c := range []struct {
		name  string
		last  store.Change
		found store.Record
		want  bool
	}{
		{"the record", put, seen, true},
		{"no record", put, store.Record{}, false},
		{"an older version", put, with(func(r *store.Record) { r.Revision = 7 }), false},
		{"one made at another revision", put, with(func(r *store.Record) { r.Created = 6 }), false},
		{"other content", put, with(func(r *store.Record) { r.Bytes = []byte("w") }), false},
		{"the deletion", deleted, store.Record{}, true},
		{"not the deletion", deleted, with(func(r *store.Record) { r.Revision = 7 }), false},
	} {
		if got := sameHistory(c.last, c.found); got != c.want {
			t.Errorf("%s: the same history %v, want %v", c.name, got, c.want)
		}
	}
}

func TestSilenceIsNoticedAndItsEndToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{
			opts:   Options{silence: 10 * time.Second},
			health: &health{place: "10.0.0.1:2379", log: slog.New(slog.DiscardHandler), ill: make(map[*hub]*store.UnavailableError)},
		}
		b.writes = store.NewWriteHealth(b, "10.0.0.1:2379", nil)
		h := newHub(b, "thing")
		h.opened = true
		h.heard = time.Now()
		h.alarm = time.AfterFunc(h.limit(), h.silent)
		defer h.end()
		time.Sleep(14 * time.Second)
		h.lives()
		h.silent() // an alarm that was under way
		heard := time.Now()
		if err := b.Health(); err != nil {
			t.Errorf("at a sign of life: %v", err)
		}
		time.Sleep(14 * time.Second)
		if err := b.Health(); err != nil {
			t.Errorf("after 14 s of silence: %v", err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		u, ok := errors.AsType[*store.UnavailableError](b.Health())
		if !ok || !u.Since.Equal(heard) || !errors.Is(u, errSilent) {
			t.Errorf("after 16 s of silence: %v, want that it is silent since %v", b.Health(), heard)
		}
		h.lives()
		if err := b.Health(); err != nil {
			t.Errorf("after a sign of life: %v", err)
		}
	})
}

// While the stream is away a server hears of no lease that is free: pauses stay short however
// often a stream could not be opened. Those of several servers differ.
//
// Negative control: mutant "a stream is opened again ever later".
func TestStreamIsOpenedAgainSoon(t *testing.T) {
	different := map[time.Duration]bool{}
	for failures := range 1000 {
		d := beforeReopening(failures)
		if d < 25*time.Millisecond || d > 1500*time.Millisecond || failures == 0 && d > 75*time.Millisecond {
			t.Fatalf("after %d failures the pause is %v", failures, d)
		}
		different[d] = true
	}
	if len(different) < 500 {
		t.Errorf("1,000 pauses are %d different ones", len(different))
	}
}

// etcd's server notes only after a watch has begun that it wants last values: under load, what the contract
// reads after a revision had a deletion without contents, once in some hundred runs of it.
func TestDeletionWithoutItsLastValueGetsIt(t *testing.T) {
	event := func(kind mvccpb.Event_EventType, key string, revision int64, last *mvccpb.KeyValue) *clientv3.Event {
		return &clientv3.Event{Type: kind, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: revision}, PrevKv: last}
	}
	kept := &mvccpb.KeyValue{Value: []byte("kept")}
	events := []*clientv3.Event{
		event(clientv3.EventTypePut, "put", 5, nil),
		event(clientv3.EventTypeDelete, "has it", 6, kept),
		event(clientv3.EventTypeDelete, "lacks it", 7, nil),
		event(clientv3.EventTypeDelete, "compacted", 8, nil),
		event(clientv3.EventTypeDelete, "after that", 9, nil),
	}
	asked := map[string]int64{}
	addLastValues(events, func(key []byte, at int64) *mvccpb.KeyValue {
		if asked[string(key)] = at; string(key) == "compacted" {
			return nil
		}
		return &mvccpb.KeyValue{Value: []byte("found")}
	})
	if want := map[string]int64{"lacks it": 6, "compacted": 7}; !maps.Equal(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
	if events[0].PrevKv != nil || events[1].PrevKv != kept || string(events[2].PrevKv.GetValue()) != "found" || events[3].PrevKv != nil || events[4].PrevKv != nil {
		t.Errorf("the events have %v", events)
	}
}

// Several streams that fall silent, one after the other, are one outage: it began with the first, and
// ends when the last one hears of the cluster again.
func TestOutageOfSeveralStreamsIsOne(t *testing.T) {
	var said strings.Builder
	b := &backend{health: &health{place: "10.0.0.1:2379", log: slog.New(slog.NewTextHandler(&said, nil)), ill: make(map[*hub]*store.UnavailableError)}}
	b.writes = store.NewWriteHealth(b, "10.0.0.1:2379", nil)
	b.space.warning.Store(&fullError{place: "10.0.0.1:2379"}) // that it has little space left is less than an outage
	noon := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	hubs := []*hub{newHub(b, "a"), newHub(b, "b"), newHub(b, "c")}
	for i, minutes := range []time.Duration{2, 0, 5} {
		b.health.fails(hubs[i], noon.Add(minutes*time.Minute), errSilent)()
	}
	for range 10 { // of a map
		if u, ok := errors.AsType[*store.UnavailableError](b.Health()); !ok || !u.Since.Equal(noon) {
			t.Fatalf("health is %v, want that of the first, at noon", b.Health())
		}
	}
	b.health.answers(hubs[1])()
	b.health.answers(hubs[0])()
	if u, ok := errors.AsType[*store.UnavailableError](b.Health()); !ok || !u.Since.Equal(noon.Add(5*time.Minute)) {
		t.Errorf("health is %v, want that of the last stream", b.Health())
	}
	if strings.Contains(said.String(), "answers again") {
		t.Errorf("the log has the end while a stream is silent: %s", said.String())
	}
	b.health.answers(hubs[2])()
	if err := b.Health(); !errors.As(err, new(*fullError)) || strings.Count(said.String(), "does not answer") != 1 || strings.Count(said.String(), "answers again") != 1 {
		t.Errorf("health is %v, the log has %s, want the warning, and one line for the beginning and one for the end", err, said.String())
	}
	b.space.warning.Store(nil)
	if err := b.Health(); err != nil {
		t.Errorf("health is %v", err)
	}
}

// What a watcher has taken from the ring stays as it is when changes are delivered again.
func TestBatchesThatAWatcherHasStayWhenTheHubRewinds(t *testing.T) {
	h := newHub(&backend{opts: Options{History: 10}}, "thing")
	push := func(at store.Revision) {
		h.pushLocked(store.Batch{Revision: at, Changes: []store.Change{{Record: store.Record{Revision: at}}}})
	}
	for at := range store.Revision(4) {
		push(at + 1)
	}
	has, _, err := (&watcher{h: h, at: 1}).next()
	if err != nil || len(has) != 3 {
		t.Fatalf("the watcher has %v, error %v", has, err)
	}
	h.rewindLocked(2)
	if left, _, err := (&watcher{h: h, at: 0}).next(); err != nil || len(left) != 2 || left[1].Revision != 2 {
		t.Errorf("of what is not delivered again a watcher that is behind has %v, error %v; want revisions 1 and 2", left, err)
	}
	push(9)
	push(10)
	for i, batch := range has {
		if want := store.Revision(i + 2); batch.Revision != want {
			t.Errorf("a batch became one of revision %d, it was of %d", batch.Revision, want)
		}
	}
}

// answering is a client of a cluster that gives each read these answers, without a connection.
func answering(t *testing.T, header *pb.ResponseHeader, records ...*mvccpb.KeyValue) *clientv3.Client {
	t.Helper()
	answer := func(_ context.Context, _ string, req, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
		switch reply := reply.(type) {
		case *pb.RangeResponse:
			reply.Header = header
			for _, kv := range records {
				if string(kv.Key) == string(req.(*pb.RangeRequest).Key) {
					reply.Kvs = append(reply.Kvs, kv)
				}
			}
		case *pb.StatusResponse:
			reply.Version = "3.6.0"
		}
		return nil
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}, DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(answer)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A store that does not continue what a hub has seen is another: it is at an earlier revision, also if the hub
// reads again from before that, or it is of another cluster, or has another record where the last change was.
//
// promise S2.
func TestStoreThatDoesNotContinueWhatWasSeenIsAnother(t *testing.T) {
	const path = "/tend/thing//a"
	last := store.Record{Kind: "thing", Key: store.Key{Name: "a"}, Created: 5, Revision: 9, Bytes: []byte("v")}
	same := &mvccpb.KeyValue{Key: []byte(path), CreateRevision: 5, ModRevision: 9, Value: []byte("v")}
	for _, c := range []struct {
		name     string
		revision int64
		cluster  uint64
		there    *mvccpb.KeyValue
		another  bool
	}{
		{"as it was", 10, 7, same, false},
		{"it went on", 20, 7, same, false},
		{"it is behind what was seen", 9, 7, same, true},
		{"it is behind where the hub reads on", 5, 7, same, true},
		{"another cluster", 20, 8, same, true},
		{"without the last change", 20, 7, nil, true},
		{"with another value", 20, 7, &mvccpb.KeyValue{Key: []byte(path), CreateRevision: 5, ModRevision: 9, Value: []byte("w")}, true},
	} {
		b := &backend{ctx: t.Context(), opts: Options{Prefix: "/tend", Timeout: time.Minute}, health: &health{ill: make(map[*hub]*store.UnavailableError)}}
		h := newHub(b, "thing")
		h.opened, h.cluster, h.head, h.top, h.last = true, 7, 6, 10, store.Change{Record: last}
		h.alarm = time.NewTimer(time.Hour)
		records := []*mvccpb.KeyValue{c.there}
		if c.there == nil {
			records = nil
		}
		b.client = answering(t, &pb.ResponseHeader{Revision: c.revision, ClusterId: c.cluster}, records...)
		if err := h.position(t.Context(), b.client); err != nil {
			t.Fatal(err)
		}
		if another := h.epoch == 1; another != c.another || another && h.head != store.Revision(c.revision) || !another && h.head != 6 {
			t.Errorf("%s: another store %v, want %v; the hub reads on after %d", c.name, another, c.another, h.head)
		}
		h.alarm.Stop()
	}
}

// A hub has got to a revision only in the cluster that it watches: another one may be further.
func TestRevisionOfAnotherClusterIsNotReached(t *testing.T) {
	b := &backend{ctx: t.Context(), opts: Options{Prefix: "/tend", Timeout: time.Minute}}
	h := newHub(b, "thing")
	h.cluster = 7
	for _, c := range []struct {
		revision int64
		cluster  uint64
		want     bool
	}{{9, 7, false}, {10, 7, true}, {11, 7, true}, {11, 8, false}} {
		b.client = answering(t, &pb.ResponseHeader{Revision: c.revision, ClusterId: c.cluster})
		if got, err := h.reached(t.Context(), 10); err != nil || got != c.want {
			t.Errorf("revision 10 is reached by cluster %d at %d: %v, %v; want %v", c.cluster, c.revision, got, err, c.want)
		}
	}
}

// What a snapshot showed is of the history in which it began: one of before a restart says nothing of the new one.
func TestSnapshotOfALostHistoryIsNotWhatWasSeenLast(t *testing.T) {
	h := newHub(&backend{}, "thing")
	records := []store.Record{{Revision: 4}, {Revision: 9}, {Revision: 7}}
	h.restartLocked(3)
	h.saw(0, records)
	if h.last.Revision != 0 {
		t.Errorf("a snapshot of the history before left revision %d", h.last.Revision)
	}
	h.saw(1, records)
	if h.last.Revision != 9 {
		t.Errorf("a snapshot left revision %d, want that of its newest record, 9", h.last.Revision)
	}
	h.saw(1, []store.Record{{Revision: 8}})
	if h.last.Revision != 9 {
		t.Errorf("an older one left revision %d, want 9", h.last.Revision)
	}
}

// What a stream says moves the hub on, and what it cannot have said after what was seen ends it.
func TestStreamThatGoesBackEnds(t *testing.T) {
	header := func(revision int64, cluster uint64) *pb.ResponseHeader {
		return &pb.ResponseHeader{Revision: revision, ClusterId: cluster}
	}
	put := func(at int64) []*clientv3.Event {
		return []*clientv3.Event{{Kv: &mvccpb.KeyValue{Key: []byte("/tend/thing//a"), ModRevision: at}}}
	}
	for _, c := range []struct {
		name   string
		resp   clientv3.WatchResponse
		goesOn bool
		why    error
		head   store.Revision
	}{
		{"created", clientv3.WatchResponse{Header: header(20, 7), Created: true}, true, nil, 10},
		{"progress", clientv3.WatchResponse{Header: header(12, 7)}, true, nil, 12},
		{"progress to where it is", clientv3.WatchResponse{Header: header(10, 7)}, true, nil, 10},
		{"progress to before that", clientv3.WatchResponse{Header: header(9, 7)}, false, errBack, 10},
		{"a change", clientv3.WatchResponse{Header: header(12, 7), Events: put(11)}, true, nil, 11},
		{"a change that was seen", clientv3.WatchResponse{Header: header(12, 7), Events: put(10)}, false, errBack, 10},
		{"another cluster", clientv3.WatchResponse{Header: header(12, 8), Events: put(11)}, false, errBack, 10},
		{"compacted", clientv3.WatchResponse{Header: header(20, 7), CompactRevision: 15, Canceled: true}, false, nil, 15},
		{"compacted before", clientv3.WatchResponse{Header: header(20, 7), CompactRevision: 5, Canceled: true}, false, nil, 10},
		{"ended", clientv3.WatchResponse{Header: header(20, 7), Canceled: true}, false, rpctypes.ErrFutureRev, 10},
	} {
		h := newHub(&backend{opts: Options{Prefix: "/tend", History: 10}}, "thing")
		h.cluster, h.head, h.start = 7, 10, 8
		wake := h.wake
		if goesOn, why := h.takeLocked(c.resp); goesOn != c.goesOn || !errors.Is(why, c.why) || h.head != c.head {
			t.Errorf("%s: the stream goes on %v, because of %v, and the hub is at %d; want %v, %v and %d", c.name, goesOn, why, h.head, c.goesOn, c.why, c.head)
		}
		if h.head != 10 && h.wake == wake {
			t.Errorf("%s: watches are not told", c.name)
		}
	}
}

// What was stored under a key is its last value, and nothing where etcd has none.
func TestLastValueIsWhatIsStored(t *testing.T) {
	b := &backend{ctx: t.Context(), opts: Options{Timeout: time.Minute}}
	kv := &mvccpb.KeyValue{Key: []byte("a"), Value: []byte("v")}
	for key, want := range map[string]string{"a": "v", "b": ""} {
		if got := b.valueAt(t.Context(), answering(t, &pb.ResponseHeader{}, kv), []byte(key), 5); string(got.GetValue()) != want {
			t.Errorf("under %s is %q, want %q", key, got.GetValue(), want)
		}
	}
}

// A hub keeps the latest batches, History of them at least and fewer than twice as many. A watch that is within them
// gets what follows, each once; of one that is not the history is gone.
func TestHubKeepsTheLatestBatches(t *testing.T) {
	const history = 10
	h := newHub(&backend{opts: Options{History: history}}, "thing")
	for at := range store.Revision(100) {
		h.pushLocked(store.Batch{Revision: at + 1, Changes: []store.Change{{Record: store.Record{Revision: at + 1}}}})
		if n := len(h.ring); n >= 2*history || n < min(history, int(at)+1) || h.head != at+1 || h.start != at+1-store.Revision(n) || h.last.Revision != at+1 {
			t.Fatalf("after %d batches there are %d, after revision %d, and the last is %d", at+1, n, h.start, h.last.Revision)
		}
		for from := range at + 1 {
			batches, _, err := (&watcher{h: h, at: from}).next()
			if from < h.start {
				if !errors.Is(err, store.ErrCompacted) {
					t.Fatalf("a watch after %d, where the ring begins after %d: %v", from, h.start, err)
				}
			} else if err != nil || len(batches) != int(at+1-from) || batches[0].Revision != from+1 {
				t.Fatalf("a watch after %d has %d batches, error %v", from, len(batches), err)
			}
		}
	}
}

// Of changes in other slots a watch is told how many there were since it began, each once.
func TestWatchIsToldOfEachSkippedChangeOnce(t *testing.T) {
	h := newHub(&backend{opts: Options{Prefix: "/tend", History: 10}}, "thing")
	h.opened = true
	skip := func(at int64, events int64) {
		resp := clientv3.WatchResponse{Header: &pb.ResponseHeader{Revision: at}, Events: []*clientv3.Event{{Kv: &mvccpb.KeyValue{ModRevision: at, Version: events}}}}
		if goesOn, err := h.takeLocked(resp); !goesOn || err != nil {
			t.Fatal(goesOn, err)
		}
	}
	told := func(w *watcher) (n int) {
		t.Helper()
		for {
			batches, wake, err := w.next()
			if err != nil {
				t.Fatal(err)
			}
			if wake != nil {
				return n
			}
			for _, b := range batches {
				n, w.at = n+b.Skipped, b.Revision
			}
		}
	}
	skip(3, 4)
	w := &watcher{h: h, at: 3, slots: store.SlotsOf(0, 8)}
	h.followLocked(w, 3)
	for _, n := range []int64{1, 5, 2} {
		skip(int64(w.at)+1, n)
		if got := told(w); got != int(n) {
			t.Errorf("%d changes were skipped, and the watch is told of %d", n, got)
		}
	}
}

// Streams that meet the same dead connection throw it away once: the one that is made in its place stays.
func TestDeadConnectionIsThrownAwayOnce(t *testing.T) {
	s := &streams{cfg: clientv3.Config{Endpoints: []string{"127.0.0.1:1"}}}
	get := func() *clientv3.Client {
		t.Helper()
		c, err := s.get()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := get()
	if get() != first {
		t.Error("there are two connections")
	}
	s.drop(first)
	second := get()
	s.drop(first)
	if second == first || get() != second || second.Ctx().Err() != nil || first.Ctx().Err() == nil {
		t.Errorf("of two connections the dead one is closed: %v, and the other: %v", first.Ctx().Err(), second.Ctx().Err())
	}
	s.close()
	if _, err := s.get(); err == nil || second.Ctx().Err() == nil {
		t.Errorf("after the end there is a connection: %v", err)
	}
}

// Only an answer to a progress request is left out where answers may overtake changes: what ends a watch, begins it
// or tells of it alone is not one.
func TestOnlyAnswersToProgressRequestsAreLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		resp *pb.WatchResponse
		want bool
	}{
		"the answer":             {&pb.WatchResponse{WatchId: clientv3.InvalidWatchID}, true},
		"of one watch":           {&pb.WatchResponse{WatchId: 0}, false},
		"changes":                {&pb.WatchResponse{WatchId: clientv3.InvalidWatchID, Events: []*mvccpb.Event{{}}}, false},
		"a watch that is made":   {&pb.WatchResponse{WatchId: clientv3.InvalidWatchID, Created: true}, false},
		"one that is not let in": {&pb.WatchResponse{WatchId: clientv3.InvalidWatchID, Canceled: true}, false},
	} {
		if got := isAnswer(c.resp); got != c.want {
			t.Errorf("%s: it is an answer: %v, want %v", name, got, c.want)
		}
	}
}
