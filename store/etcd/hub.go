package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/tendhq/tend/store"
)

// hub turns one etcd watch of a kind into as many local ones as are asked for.
//
// It keeps the latest batches in a ring that its watchers read at their own
// pace. One that falls out of the ring gets store.ErrCompacted; the others do
// not notice, and nothing is buffered for a single watcher.
//
//	start=5   ring [r7] [r9] [r12]   head=14 (nothing of the kind in 13 and 14)
//	                ▲          ▲
//	          watcher A    watcher B  each knows the revision it has got to
type hub struct {
	b      *backend
	kind   string
	answer chan struct{} // capacity 1: the stream's server has answered

	filter atomic.Pointer[store.SlotSet] // slots, for slotCodec; nil: all

	mu     sync.Mutex     // guards the rest
	ring   []store.Batch  // one batch a revision, rising; of the slots that are asked for
	start  store.Revision // changes after this revision are in the ring, or newer
	head   store.Revision // everything up to here has been seen
	top    store.Revision // the highest that head has been since the history broke; see rewindLocked
	epoch  int            // grows when the history broke: watchers resync
	wake   chan struct{}  // closed and replaced whenever something above changed
	opened bool           // the stream has been established once

	cluster uint64       // id of the cluster last seen, 0 before that
	last    store.Change // the newest change taken from the stream; the zero Change before that

	watchers map[*watcher]struct{}
	slots    store.SlotSet      // that the stream delivers: those of all watchers together
	whole    store.Revision     // of these slots all changes after this revision are delivered; never above head
	asked    int                // counts the streams that were given up because they lack slots
	cut      context.CancelFunc // ends the stream under way; nil: there is none
	skipped  int                // changes of other slots

	ordered bool // the server's answers to progress requests come in their order among the changes

	heard time.Time   // when the server last gave a sign of life; before that, when the hub began
	alarm *time.Timer // fires when that is too long ago
	down  bool        // it did, and nothing was heard since
	err   error       // why the last attempt failed; nil while it has not
}

// newHub makes a hub that is not open yet. run is its life.
func newHub(b *backend, kind string) *hub {
	return &hub{
		b: b, kind: kind, wake: make(chan struct{}), answer: make(chan struct{}, 1),
		watchers: make(map[*watcher]struct{}), slots: store.AllSlots(),
	}
}

// followLocked has the hub deliver the slots of a watcher, from where that is; a watcher that
// begins with a snapshot is at the head. It must be called with a position that the ring has.
func (h *hub) followLocked(w *watcher, at store.Revision) {
	h.watchers[w] = struct{}{}
	slots := h.askedLocked()
	lacks := !h.slots.Contains(slots) || at < h.whole
	h.readLocked(slots)
	if lacks {
		h.rewindLocked(at)
	}
	w.skipped = h.skipped
}

// leave ends what is delivered for this watcher alone. The stream of a kind that no watcher is
// left of goes on with the slots it has.
func (h *hub) leave(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers, w)
	if len(h.watchers) > 0 {
		h.readLocked(h.askedLocked())
	}
}

// askedLocked returns the slots of all watchers.
func (h *hub) askedLocked() (slots store.SlotSet) {
	for w := range h.watchers {
		slots = slots.Union(w.slots)
	}
	return slots
}

func (h *hub) readLocked(slots store.SlotSet) {
	if h.slots = slots; slots == store.AllSlots() {
		h.filter.Store(nil)
		return
	}
	h.filter.Store(&slots)
}

// rewindLocked has the changes after a revision delivered again, because those that were
// delivered lack slots. Watchers that are further wait until the stream is there again; what
// watchers that are not as far have not read yet stays in the ring.
func (h *hub) rewindLocked(at store.Revision) {
	if at < h.head {
		h.head = at
		n := sort.Search(len(h.ring), func(i int) bool { return h.ring[i].Revision > at })
		h.ring = h.ring[:n:n] // watchers may read what is behind: it is not overwritten
	}
	h.whole = h.head
	h.asked++
	if h.cut != nil {
		h.cut()
		h.cut = nil
	}
}

// began notes the stream that is about to be opened: what ends it, from where on it is, and
// which it is.
func (h *hub) began(cut context.CancelFunc) (from store.Revision, asked int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut = cut
	return h.head, h.asked
}

// lacked reports whether the stream ended because it lacked slots.
func (h *hub) lacked(asked int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked != asked
}

// hubOf gives the shared hub of a kind, started if need be: it lives as long as
// the backend.
func (b *backend) hubOf(kind string) (*hub, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, store.ErrClosed
	}
	h, ok := b.hubs[kind]
	if !ok {
		h = newHub(b, kind)
		b.hubs[kind] = h
		b.live.Go(func() { h.run(b.ctx) }) // ended and waited for by Close
	}
	return h, nil
}

// open starts a hub of a watcher's own, until stop, which waits for its end.
func (h *hub) open() (stop func(), err error) {
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	if h.b.closed {
		return nil, store.ErrClosed
	}
	ctx, cancel := context.WithCancel(h.b.ctx)
	done := make(chan struct{})
	h.b.live.Go(func() { // ended by stop, or by Close; both wait for it
		defer close(done)
		h.run(ctx)
	})
	return func() { cancel(); <-done }, nil
}

// run keeps the stream open until ctx ends.
func (h *hub) run(ctx context.Context) {
	h.mu.Lock()
	h.heard = time.Now()
	h.alarm = time.AfterFunc(h.limit(), h.silent)
	h.mu.Unlock()
	defer h.end()
	for failures := 0; ctx.Err() == nil; failures++ {
		began := time.Now()
		h.mu.Lock()
		asked := h.asked
		h.mu.Unlock()
		err := h.stream(ctx)
		if h.lacked(asked) {
			failures = -1
			continue // at once
		}
		if err != nil && ctx.Err() == nil {
			h.failed(err)
		}
		if time.Since(began) > h.b.opts.silence {
			failures = 0
		}
		pause(ctx, beforeReopening(failures))
	}
}

// beforeReopening is the pause after so many failures in a row, with a half more or less, by chance.
// It is never long: while the stream is away, a server hears of no lease that is free.
func beforeReopening(failures int) time.Duration {
	d := min(50*time.Millisecond<<min(failures, 10), time.Second)
	return d/2 + rand.N(d)
}

// pause waits for d, or until ctx ends. It is not the root module's internal/sleep,
// because the two modules have versions of their own.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// limit is how long the server may be silent before it counts as not answering: the
// time after which it is asked, and half as long for the answer.
func (h *hub) limit() time.Duration { return h.b.opts.silence + h.b.opts.silence/2 }

// heardLocked notes a sign of life. The result is to be called without the lock.
func (h *hub) heardLocked() (report func()) {
	h.heard, h.err = time.Now(), nil
	h.alarm.Reset(h.limit())
	if !h.down {
		return func() {}
	}
	h.down = false
	return h.b.health.answers(h)
}

// silent notes that no sign of life came within the limit.
func (h *hub) silent() {
	h.mu.Lock()
	report := func() {}
	if !h.down && time.Since(h.heard) >= h.limit() {
		report = h.goDownLocked()
	}
	h.mu.Unlock()
	report()
}

// failed notes why an attempt to watch failed. A server that never answered is not
// waited for: its address, a certificate or a password is wrong, or it is not there.
func (h *hub) failed(err error) {
	h.mu.Lock()
	h.err = err
	report := func() {}
	if h.down || !h.opened {
		report = h.goDownLocked()
	}
	h.wakeLocked()
	h.mu.Unlock()
	report()
}

func (h *hub) goDownLocked() (report func()) {
	h.down = true
	err := h.err
	if err == nil {
		err = errSilent
	}
	if !unsent(err) { // that names them itself
		err = fmt.Errorf("etcd at %s: %w", h.b.health.place, err)
	}
	return h.b.health.fails(h, h.heard, err)
}

// end forgets what the hub knew of the server.
func (h *hub) end() {
	h.mu.Lock()
	h.alarm.Stop()
	h.down = true // for an alarm that is under way
	h.mu.Unlock()
	h.b.health.answers(h)
}

var streamIDs atomic.Uint64

// stream watches from where the hub has got to, until the stream breaks, turns
// silent, or cannot be resumed. It returns why, or nil where there is nothing to say.
func (h *hub) stream(ctx context.Context) error {
	client, err := h.b.streams.get()
	if err != nil {
		return err
	}
	if err := h.position(ctx, client); err != nil {
		h.abandon(client)
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, asked := h.began(cancel)
	// Metadata of its own gives the watch a gRPC stream of its own: an answer to
	// a progress request speaks for a whole stream, and is withheld while any
	// watch on it lags. WithRequireLeader ends the stream on a member that has
	// lost its quorum, where it would stay silent.
	ctx = metadata.AppendToOutgoingContext(ctx, "tend-stream", fmt.Sprint(streamIDs.Add(1)))
	ctx = context.WithValue(ctx, hubKey{}, h)
	// Watch blocks until the server has answered, on a dead connection for ever.
	opening := time.AfterFunc(2*h.b.opts.silence, cancel)
	events := client.Watch(clientv3.WithRequireLeader(ctx), h.b.opts.Prefix+"/"+h.kind+"/",
		clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithProgressNotify(),
		clientv3.WithCreatedNotify(), clientv3.WithRev(int64(from)+1))
	if !opening.Stop() {
		h.abandon(client)
		return errSilent
	}
	silent := time.NewTimer(h.b.opts.silence)
	defer silent.Stop()
	for waits := false; ; {
		select {
		case <-h.answer:
			waits = false
		case resp, ok := <-events:
			if !ok {
				return nil // the connection was thrown away, by this hub or by another
			}
			addLastValues(resp.Events, func(key []byte, at int64) *mvccpb.KeyValue { return h.b.valueAt(ctx, client, key, at) })
			if goesOn, err := h.take(resp, asked); !goesOn {
				return err
			}
			waits = false
		case <-silent.C:
			if waits {
				cancel()
				h.abandon(client)
				return errSilent
			}
			waits = true
			h.ask(ctx, cancel, client)
		case <-ctx.Done():
			return nil
		}
		silent.Reset(h.b.opts.silence)
	}
}

// abandon throws the connection away. Closing it waits for its watches, this
// one among them.
func (h *hub) abandon(client *clientv3.Client) {
	h.b.live.Go(func() { h.b.streams.drop(client) })
}

// ask asks for a sign of life: progress, which tells whether the stream lives, and a
// read, which tells whether the server does, and whether it is behind what was seen.
// Then the stream is ended, and position finds out. It must not block the loop that
// reads the answer.
func (h *hub) ask(ctx context.Context, end context.CancelFunc, client *clientv3.Client) {
	h.b.live.Go(func() { // ends with ctx, or by its own timeout
		ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), h.b.opts.silence)
		defer cancel()
		_ = client.RequestProgress(ctx) // no answer shows as silence
		h.mu.Lock()
		head, cluster := h.head, h.cluster
		h.mu.Unlock()
		resp, err := client.Get(ctx, h.b.opts.Prefix+"/", clientv3.WithCountOnly())
		if err != nil {
			return
		}
		if store.Revision(resp.Header.Revision) < head || resp.Header.ClusterId != cluster && cluster != 0 {
			end()
			return
		}
		h.lives()
	})
}

// takesAnswers reports whether answers to progress requests are taken for progress.
func (h *hub) takesAnswers() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ordered
}

// answered notes an answer that is not taken for progress.
func (h *hub) answered() {
	h.lives()
	select {
	case h.answer <- struct{}{}:
	default:
	}
}

// lives notes a sign of life.
func (h *hub) lives() {
	h.mu.Lock()
	report := h.heardLocked()
	h.mu.Unlock()
	report()
}

// position makes sure that the hub has a revision to watch from, its head. It notices a store that has gone back
// in time: restored from a backup, or begun from nothing, it is at a revision, or
// belongs to a cluster, or has a record at the revision of the last change, that does
// not continue what was seen. A watch on it would look healthy and wait for the lost
// revisions to come round again.
func (h *hub) position(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel, err := h.b.request(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	resp, err := client.Get(ctx, h.b.opts.Prefix+"/", clientv3.WithCountOnly())
	if err != nil {
		return h.b.readFailed(ctx, err)
	}
	head := store.Revision(resp.Header.Revision)
	h.mu.Lock()
	restored := h.opened && (head < h.top || h.cluster != 0 && h.cluster != resp.Header.ClusterId)
	last := h.last
	h.mu.Unlock()
	if !restored && last.Revision != 0 {
		if restored, err = h.rewritten(ctx, client, last); err != nil {
			return err
		}
	}
	ordered := progressIsOrdered(ctx, client)
	h.mu.Lock()
	h.cluster, h.ordered = resp.Header.ClusterId, ordered
	switch {
	case restored:
		h.restartLocked(head)
	case !h.opened:
		h.start, h.head, h.top, h.opened = head, head, head, true
		h.wakeLocked()
	}
	report := h.heardLocked()
	h.mu.Unlock()
	report()
	return nil
}

// reached reports whether the server has got to a revision in the history that the hub sees.
func (h *hub) reached(ctx context.Context, at store.Revision) (bool, error) {
	ctx, cancel, err := h.b.request(ctx)
	if err != nil {
		return false, err
	}
	defer cancel()
	resp, err := h.b.client.Get(ctx, h.b.opts.Prefix+"/", clientv3.WithCountOnly())
	if err != nil {
		return false, h.b.readFailed(ctx, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return store.Revision(resp.Header.Revision) >= at && h.cluster == resp.Header.ClusterId, nil
}

// rewritten reports whether the history that the server has is not the one in which
// last was seen: another record, or none, is at its revision.
func (h *hub) rewritten(ctx context.Context, client *clientv3.Client, last store.Change) (bool, error) {
	resp, err := client.Get(ctx, string(h.b.path(h.kind, last.Key)), clientv3.WithRev(int64(last.Revision)))
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return false, nil // what came after it can be there all the same: the watch will tell
	case err != nil:
		return false, h.b.readFailed(ctx, err)
	case len(resp.Kvs) == 0:
		return !sameHistory(last, store.Record{}), nil
	}
	return !sameHistory(last, h.b.record(h.kind, resp.Kvs[0])), nil
}

// sameHistory reports whether a history in which found is what there is at the revision
// of last, the zero Record if there is none, can be the one in which last was seen.
func sameHistory(last store.Change, found store.Record) bool {
	if last.Deleted {
		return found.Revision == 0
	}
	return found.Revision == last.Revision && found.Created == last.Created && bytes.Equal(found.Bytes, last.Bytes)
}

// errBack is why a stream is opened again whose store seems to have gone back in
// time. position finds out: a member that lags looks the same.
var errBack = errors.New("the server is behind what the watch has seen, or is of another cluster")

// take adds a response of a stream to the ring. It says whether the stream goes on, and why
// it does not.
func (h *hub) take(resp clientv3.WatchResponse, asked int) (goesOn bool, why error) {
	h.mu.Lock()
	if asked != h.asked { // it lacks slots
		h.mu.Unlock()
		return false, nil
	}
	goesOn, why = h.takeLocked(resp)
	h.top = max(h.top, h.head)
	report := func() {}
	if goesOn {
		report = h.heardLocked()
	}
	h.mu.Unlock()
	report()
	return goesOn, why
}

func (h *hub) takeLocked(resp clientv3.WatchResponse) (goesOn bool, why error) {
	if err := resp.Err(); err != nil {
		if errors.Is(err, rpctypes.ErrCompacted) {
			// What happened between is gone from the server. Begin again at the compacted
			// revision; every watcher that has not got so far takes a new snapshot.
			h.ring, h.head = nil, max(h.head, store.Revision(resp.CompactRevision))
			h.start, h.whole = h.head, h.head
			h.wakeLocked()
			return false, nil
		}
		return false, err
	}
	if id := resp.Header.ClusterId; id != 0 && h.cluster != 0 && id != h.cluster {
		return false, errBack
	}
	if resp.Created {
		return true, nil
	}
	if resp.IsProgressNotify() { // of a server whose answers are not ordered: see orderedStream
		at := store.Revision(resp.Header.Revision)
		if at < h.head {
			return false, errBack
		}
		h.head = at
		h.wakeLocked()
		return true, nil
	}
	for _, batch := range h.batches(resp) {
		if batch.Revision <= h.head {
			return false, errBack
		}
		h.skipped += batch.Skipped
		if batch.Skipped = 0; len(batch.Changes) == 0 {
			h.head = batch.Revision
			continue
		}
		h.pushLocked(batch)
	}
	h.wakeLocked()
	return true, nil
}

// batches cuts a response into one batch a revision.
func (h *hub) batches(resp clientv3.WatchResponse) []store.Batch {
	var out []store.Batch
	for _, ev := range resp.Events {
		at := store.Revision(ev.Kv.ModRevision)
		if n := len(out); n == 0 || out[n-1].Revision != at {
			out = append(out, store.Batch{Kind: store.BatchChanges, Revision: at})
		}
		last := &out[len(out)-1]
		if len(ev.Kv.Key) == 0 { // see skipped
			last.Skipped += int(ev.Kv.Version)
			continue
		}
		last.Changes = append(last.Changes, h.change(ev))
	}
	return out
}

// addLastValues gives deletions the last value that they lack: etcd sends none with what it finds between the
// beginning of a watch and the moment at which its server notes that they are wanted, and none of before a
// compaction. The first value that etcd does not know ends the search.
func addLastValues(events []*clientv3.Event, valueAt func(key []byte, at int64) *mvccpb.KeyValue) {
	for _, ev := range events {
		if ev.Type != clientv3.EventTypeDelete || ev.PrevKv != nil || len(ev.Kv.Key) == 0 {
			continue
		}
		if ev.PrevKv = valueAt(ev.Kv.Key, ev.Kv.ModRevision-1); ev.PrevKv == nil {
			return
		}
	}
}

// valueAt is what is stored under a key at a revision; nil if that is not known.
func (b *backend) valueAt(ctx context.Context, client *clientv3.Client, key []byte, at int64) *mvccpb.KeyValue {
	ctx, cancel, err := b.request(ctx)
	if err != nil {
		return nil
	}
	defer cancel()
	resp, err := client.Get(ctx, string(key), clientv3.WithRev(at))
	if err != nil || len(resp.Kvs) == 0 {
		return nil
	}
	return resp.Kvs[0]
}

func (h *hub) change(ev *clientv3.Event) store.Change {
	if ev.Type != clientv3.EventTypeDelete {
		return store.Change{Record: h.b.record(h.kind, ev.Kv)}
	}
	last := ev.Kv
	if ev.PrevKv != nil {
		last = ev.PrevKv
	}
	rec := h.b.record(h.kind, last)
	rec.Revision = store.Revision(ev.Kv.ModRevision) // the last object, at the revision of its deletion
	return store.Change{Record: rec, Deleted: true}
}

// pushLocked adds a batch. The ring is cut when it is twice as long as it has
// to be, so that the copying is paid once for each batch and not each time.
func (h *hub) pushLocked(batch store.Batch) {
	h.ring = append(h.ring, batch)
	h.head = batch.Revision
	h.last = batch.Changes[len(batch.Changes)-1]
	if drop := len(h.ring) - h.b.opts.History; drop >= h.b.opts.History {
		h.start = h.ring[drop-1].Revision
		h.ring = slices.Clone(h.ring[drop:])
	}
}

// saw notes what a snapshot showed: see position.
func (h *hub) saw(epoch int, records []store.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, rec := range records {
		if epoch == h.epoch && rec.Revision > h.last.Revision {
			h.last = store.Change{Record: rec}
		}
	}
}

// restartLocked drops the history, and tells every watcher to resync.
func (h *hub) restartLocked(at store.Revision) {
	h.ring, h.start, h.head, h.top, h.whole, h.last = nil, at, at, at, at, store.Change{}
	h.epoch++
	h.wakeLocked()
}

func (h *hub) wakeLocked() {
	close(h.wake)
	h.wake = make(chan struct{})
}
