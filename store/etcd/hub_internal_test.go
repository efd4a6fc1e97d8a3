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

	"go.etcd.io/etcd/api/v3/mvccpb"
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
		heard := time.Now()
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
	if err := b.Health(); err != nil || strings.Count(said.String(), "does not answer") != 1 || strings.Count(said.String(), "answers again") != 1 {
		t.Errorf("health is %v, the log has %s, want one line for the beginning and one for the end", err, said.String())
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
	push(9)
	push(10)
	for i, batch := range has {
		if want := store.Revision(i + 2); batch.Revision != want {
			t.Errorf("a batch became one of revision %d, it was of %d", batch.Revision, want)
		}
	}
}
