package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/tendhq/tend/store"
)

// slotHub is a hub that is open at a revision, without a server, and a watcher of some slots.
func slotHub(t testing.TB, slots store.SlotSet, at store.Revision) (*hub, *watcher) {
	t.Helper()
	b := &backend{opts: Options{Prefix: "/tend", History: 100, silence: time.Hour}, health: &health{ill: make(map[*hub]*store.UnavailableError)}}
	h := newHub(b, "thing")
	h.opened, h.start, h.head, h.top = true, at, at, at
	h.alarm = time.AfterFunc(time.Hour, func() {})
	t.Cleanup(func() { h.alarm.Stop() })
	w := &watcher{h: h, slots: slots, at: at}
	h.mu.Lock()
	h.followLocked(w, at)
	h.mu.Unlock()
	return h, w
}

func event(key store.Key, revision int64, value string, deleted bool) *mvccpb.Event {
	path := []byte("/tend/thing/" + key.Namespace + "/" + key.Name)
	if deleted {
		return &mvccpb.Event{
			Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: path, ModRevision: revision},
			PrevKv: &mvccpb.KeyValue{Key: path, CreateRevision: 1, ModRevision: 1, Version: 1, Value: []byte(value)},
		}
	}
	return &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: path, CreateRevision: 1, ModRevision: revision, Version: 3, Value: []byte(value)}}
}

// What the codec of a watch of some slots decodes is what decoding all and dropping the other
// slots gives, and it decodes nothing else.
//
// promise S2. Negative control: the mutant "a watch of some slots decodes all".
func TestCodecLeavesOutOtherSlots(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 0))
		slots := store.SlotsOf(r.IntN(4), 4)
		h, _ := slotHub(t, slots, 1)
		sent := &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: 99, ClusterId: 7}, WatchId: 5}
		revision := int64(10)
		kept, gone := []string{}, 0
		for range r.IntN(20) {
			revision += r.Int64N(2)
			key := store.Key{Namespace: "ns", Name: fmt.Sprint(r.IntN(100))}
			e := event(key, revision, "123456789"[:r.IntN(10)], r.IntN(2) == 0)
			sent.Events = append(sent.Events, e)
			if slots.HasKey(key) {
				kept = append(kept, e.String())
				continue
			}
			gone++
		}
		raw, err := proto.Marshal(sent)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got := new(pb.WatchResponse)
		codec := slotCodec{CodecV2: encoding.GetCodecV2("proto"), hub: h}
		if err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, got); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got.Header.Revision != 99 || got.Header.ClusterId != 7 || got.WatchId != 5 {
			t.Fatalf("seed %d: decoded %v, want the rest as it was", seed, got)
		}
		var decoded []string
		last := int64(0)
		for _, e := range got.Events {
			if e.Kv.ModRevision < last {
				t.Fatalf("seed %d: revision %d after %d", seed, e.Kv.ModRevision, last)
			}
			if last = e.Kv.ModRevision; len(e.Kv.Key) > 0 {
				decoded = append(decoded, e.String())
				continue
			}
			gone -= int(e.Kv.Version)
			if e.Kv.Value != nil || e.PrevKv != nil {
				t.Fatalf("seed %d: a value of another slot was decoded: %v", seed, e)
			}
		}
		if !slices.Equal(decoded, kept) {
			t.Fatalf("seed %d: decoded %v, want %v", seed, decoded, kept)
		}
		if gone != 0 || len(sent.Events) > 0 && last != revision {
			t.Fatalf("seed %d: up to %d of %d; %d events that were left out are not counted", seed, last, revision, gone)
		}
		batches := h.batches(clientv3.WatchResponse{Events: got.Events})
		for i, b := range batches {
			if i > 0 && b.Revision <= batches[i-1].Revision {
				t.Fatalf("seed %d: batches of %d and then of %d", seed, batches[i-1].Revision, b.Revision)
			}
		}
	}
}

// A response that is not whole is an error, and no panic.
func TestCodecRefusesWhatIsCutOff(t *testing.T) {
	h, _ := slotHub(t, store.SlotSet{}, 1)
	raw, err := proto.Marshal(&pb.WatchResponse{Events: []*mvccpb.Event{event(store.Key{Name: "a"}, 3, "value", false)}})
	if err != nil {
		t.Fatal(err)
	}
	codec := slotCodec{CodecV2: encoding.GetCodecV2("proto"), hub: h}
	for n := 1; n < len(raw); n++ {
		if err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw[:n])}, new(pb.WatchResponse)); err == nil {
			t.Errorf("the first %d of %d bytes are accepted", n, len(raw))
		}
	}
}

// A watch that asks for more slots than the stream delivers has it opened again from where the
// watch is. What the stream of before still sends lacks slots, and is not taken.
//
// promise S2. Negative controls: the mutants "a stream that lacks slots goes on" and "what a
// stream that lacks slots has sent is taken".
func TestStreamThatLacksSlotsIsOpenedAgain(t *testing.T) {
	first, second := keyOfQuarter(0), keyOfQuarter(1)
	h, w := slotHub(t, store.SlotsOf(0, 4), 10)
	ctx, cut := context.WithCancel(t.Context())
	from, asked := h.began(cut)
	if from != 10 {
		t.Fatalf("the stream begins after %d, want 10", from)
	}
	take := func(asked int, all ...*mvccpb.Event) bool {
		goesOn, err := h.take(clientv3.WatchResponse{Header: &pb.ResponseHeader{}, Events: all}, asked)
		if err != nil {
			t.Fatal(err)
		}
		return goesOn
	}
	take(asked, event(first, 11, "a", false))
	take(asked, event(first, 13, "b", false))
	other := &watcher{h: h, slots: store.SlotsOf(1, 4), at: 11}
	if private, err := other.resume(t.Context()); err != nil || private != nil {
		t.Fatalf("resume = %v, %v; want the shared stream", private != nil, err)
	}
	if ctx.Err() == nil {
		t.Error("the stream that lacks slots goes on")
	}
	if take(asked, event(first, 14, "c", false)) {
		t.Error("what it still sends is taken")
	}
	from, asked = h.began(func() {})
	if from != 11 {
		t.Errorf("the next stream begins after %d, want 11, where the second watcher is", from)
	}
	take(asked, event(second, 12, "x", false), event(first, 13, "b", false), event(first, 14, "c", false))
	for name, c := range map[string]struct {
		*watcher
		want string
	}{"first": {w, "11 12 13 14"}, "second": {other, "12 13 14"}} {
		batches, _, err := c.next()
		got := ""
		for _, b := range batches {
			got += fmt.Sprint(" ", b.Revision)
		}
		if err != nil || got != " "+c.want {
			t.Errorf("the %s watcher is given the revisions%s, error %v; want %s", name, got, err, c.want)
		}
	}
}

// A watch of slots that the stream delivers now, but did not yet at the watch's revision, has it
// opened again from there too.
//
// promise S2. Negative control: the mutant "a watch is served from where its slots were left out".
func TestWatchFromBeforeItsSlotsWereDeliveredMissesNothing(t *testing.T) {
	first, second := keyOfQuarter(0), keyOfQuarter(1)
	h, _ := slotHub(t, store.SlotsOf(0, 4), 10)
	_, asked := h.began(func() {})
	if goesOn, err := h.take(clientv3.WatchResponse{Header: &pb.ResponseHeader{}, Events: []*mvccpb.Event{event(first, 12, "a", false)}}, asked); !goesOn || err != nil {
		t.Fatal(goesOn, err)
	}
	for _, at := range []store.Revision{12, 10} {
		w := &watcher{h: h, slots: store.SlotsOf(1, 4), at: at}
		if private, err := w.resume(t.Context()); err != nil || private != nil {
			t.Fatalf("resume = %v, %v; want the shared stream", private != nil, err)
		}
		if from, _ := h.began(func() {}); from != at {
			t.Errorf("after a watch from %d the stream begins after %d", at, from)
		}
	}
	_, asked = h.began(func() {})
	if goesOn, err := h.take(clientv3.WatchResponse{Header: &pb.ResponseHeader{}, Events: []*mvccpb.Event{
		event(second, 11, "x", false), event(first, 12, "a", false),
	}}, asked); !goesOn || err != nil {
		t.Fatal(goesOn, err)
	}
	// The stream has all from 10 on: no watch has to wait for it again.
	if w := (&watcher{h: h, slots: store.SlotsOf(1, 4), at: 10}); true {
		if _, err := w.resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		if from, now := h.began(func() {}); from != 12 || now != asked {
			t.Errorf("a stream that lacks nothing is opened again, after %d", from)
		}
		if batches, _, err := w.next(); err != nil || len(batches) != 2 || batches[0].Changes[0].Key != second {
			t.Errorf("the watch is given %v, error %v; want revisions 11 and 12", batches, err)
		}
	}
}

// A stream that is opened again from where a watch is may find that the server has dropped the
// history there. Watches that have seen what came until then go on.
//
// promise S2. Negative control: the mutant "a watch from before a compaction ends all others".
func TestWatchThatAsksForCompactedHistoryEndsAlone(t *testing.T) {
	first, second := keyOfQuarter(0), keyOfQuarter(1)
	h, w := slotHub(t, store.SlotsOf(0, 4), 10)
	_, asked := h.began(func() {})
	if goesOn, err := h.take(clientv3.WatchResponse{Header: &pb.ResponseHeader{}, Events: []*mvccpb.Event{event(first, 20, "a", false)}}, asked); !goesOn || err != nil {
		t.Fatal(goesOn, err)
	}
	w.at = 20
	late := &watcher{h: h, slots: store.SlotsOf(1, 4), at: 12}
	if private, err := late.resume(t.Context()); err != nil || private != nil {
		t.Fatalf("resume = %v, %v; want the shared stream", private != nil, err)
	}
	_, asked = h.began(func() {})
	if goesOn, err := h.take(clientv3.WatchResponse{Header: &pb.ResponseHeader{}, Canceled: true, CompactRevision: 15}, asked); goesOn || err != nil {
		t.Fatalf("a stream whose history is compacted goes on: %v, %v", goesOn, err)
	}
	if _, _, err := late.next(); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("the watch from before the compaction: %v, want ErrCompacted", err)
	}
	from, asked := h.began(func() {})
	if goesOn, err := h.take(clientv3.WatchResponse{Header: &pb.ResponseHeader{}, Events: []*mvccpb.Event{
		event(first, 20, "a", false), event(second, 21, "x", false), event(first, 22, "b", false),
	}}, asked); !goesOn || err != nil || from != 15 {
		t.Fatalf("the next stream begins after %d: %v, %v; want 15, and that it goes on", from, goesOn, err)
	}
	batches, _, err := w.next()
	if err != nil || len(batches) != 2 || batches[0].Revision != 21 {
		t.Errorf("the watch that was at 20 is given %v, error %v; want revisions 21 and 22", batches, err)
	}
}

// A watch that ends is not decoded for any more, and the slots of the last one stay.
func TestStreamLeavesOutTheSlotsOfAWatchThatHasEnded(t *testing.T) {
	h, w := slotHub(t, store.SlotsOf(0, 4), 10)
	other := &watcher{h: h, slots: store.SlotsOf(1, 4), at: 10}
	if _, err := other.resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := w.slots.Union(other.slots); h.slots != want || *h.filter.Load() != want {
		t.Errorf("the stream delivers %v, want %v", h.slots, want)
	}
	h.leave(w)
	h.leave(other)
	if *h.filter.Load() != other.slots {
		t.Errorf("the stream delivers %v, want those of the last watch", h.filter.Load())
	}
	if all := (&watcher{h: h, slots: store.AllSlots(), at: 10}); true {
		if _, err := all.resume(t.Context()); err != nil || h.filter.Load() != nil {
			t.Errorf("error %v, filter %v; want none for a watch of all slots", err, h.filter.Load())
		}
	}
}

func keyOfQuarter(i int) store.Key {
	slots := store.SlotsOf(i, 4)
	for n := 0; ; n++ {
		if k := (store.Key{Namespace: "ns", Name: fmt.Sprint(n)}); slots.HasKey(k) {
			return k
		}
	}
}
