package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/tendhq/tend/store"
)

// hub turns one etcd watch of a kind into as many local ones as are asked for.
//
// It keeps the latest batches in a ring that its watchers read at their own
// pace. One that falls out of the ring gets store.ErrCompacted; nobody else
// notices, and nothing is buffered for anybody in particular.
//
//	start=5   ring [r7] [r9] [r12]   head=14 (nothing of the kind in 13 and 14)
//	                ▲          ▲
//	          watcher A    watcher B  each knows the revision it has got to
type hub struct {
	b    *Backend
	kind string

	mu     sync.Mutex     // guards the rest
	ring   []store.Batch  // one batch a revision, rising
	start  store.Revision // changes after this revision are in the ring, or newer
	head   store.Revision // everything up to here has been seen
	epoch  int            // grows when the stream had to begin anew: watchers resync
	wake   chan struct{}  // closed and replaced whenever something above changed
	opened bool           // the stream has been established once

	cluster uint64 // id of the cluster last seen, 0 before that
}

// hubOf gives the shared hub of a kind, started if need be: it lives as long as
// the backend.
func (b *Backend) hubOf(kind string) (*hub, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, store.ErrClosed
	}
	h, ok := b.hubs[kind]
	if !ok {
		h = &hub{b: b, kind: kind, wake: make(chan struct{})}
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
	for failures := 0; ctx.Err() == nil; failures++ {
		began := time.Now()
		h.stream(ctx)
		if time.Since(began) > h.b.opts.Silence {
			failures = 0
		}
		pause(ctx, min(50*time.Millisecond<<min(failures, 10), 5*time.Second))
	}
}

// pause waits for d, or until ctx ends. It is not the root module's internal/sleep,
// because the two modules have versions of their own.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

var streamIDs atomic.Uint64

// stream watches from where the hub has got to, until the stream breaks, turns
// silent, or cannot be resumed.
func (h *hub) stream(ctx context.Context) {
	client, err := h.b.streams.get()
	if err != nil {
		return
	}
	from, err := h.position(ctx, client)
	if err != nil {
		h.abandon(client)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Metadata of its own gives the watch a gRPC stream of its own: an answer to
	// a progress request speaks for a whole stream, and is withheld while any
	// watch on it lags. WithRequireLeader ends the stream on a member that has
	// lost its quorum, where it would stay silent.
	ctx = metadata.AppendToOutgoingContext(ctx, "tend-stream", fmt.Sprint(streamIDs.Add(1)))
	// Watch blocks until the server has answered, on a dead connection for ever.
	opening := time.AfterFunc(2*h.b.opts.Silence, cancel)
	events := client.Watch(clientv3.WithRequireLeader(ctx), h.b.opts.Prefix+"/"+h.kind+"/",
		clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithProgressNotify(),
		clientv3.WithCreatedNotify(), clientv3.WithRev(int64(from)+1))
	if !opening.Stop() {
		h.abandon(client)
		return
	}
	silent := time.NewTimer(h.b.opts.Silence)
	defer silent.Stop()
	for asked := false; ; {
		select {
		case resp, ok := <-events:
			if !ok || !h.take(resp) {
				return
			}
			asked = false
		case <-silent.C:
			if asked {
				cancel()
				h.abandon(client) // no sign of life
				return
			}
			asked = true
			h.askForProgress(ctx, client)
		case <-ctx.Done():
			return
		}
		silent.Reset(h.b.opts.Silence)
	}
}

// abandon throws the connection away. Closing it waits for its watches, this
// one among them.
func (h *hub) abandon(client *clientv3.Client) {
	h.b.live.Go(func() { h.b.streams.drop(client) })
}

// askForProgress must not block the loop that reads the answer.
func (h *hub) askForProgress(ctx context.Context, client *clientv3.Client) {
	h.b.live.Go(func() { // ends with ctx, or by its own timeout
		ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), h.b.opts.Silence)
		defer cancel()
		_ = client.RequestProgress(ctx) // no answer shows as silence
	})
}

// position is the revision to watch from. It notices a store that has gone back
// in time: restored from a backup, it is at a revision, or belongs to a cluster,
// that does not continue what was seen. A watch on it would look healthy and
// wait for the lost revisions to come round again.
func (h *hub) position(ctx context.Context, client *clientv3.Client) (store.Revision, error) {
	ctx, cancel, err := h.b.request(ctx)
	if err != nil {
		return 0, err
	}
	defer cancel()
	resp, err := client.Get(ctx, h.b.opts.Prefix+"/", clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	head := store.Revision(resp.Header.Revision)
	h.mu.Lock()
	defer h.mu.Unlock()
	other := h.cluster != 0 && h.cluster != resp.Header.ClusterId
	h.cluster = resp.Header.ClusterId
	switch {
	case !h.opened:
		h.start, h.head, h.opened = head, head, true
		h.wakeLocked()
	case head < h.head || other:
		h.restartLocked(head)
	}
	return h.head, nil
}

// take adds a response to the ring. It says whether the stream goes on.
func (h *hub) take(resp clientv3.WatchResponse) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := resp.Err(); err != nil {
		if errors.Is(err, rpctypes.ErrCompacted) {
			// What happened between is gone from the server. Begin anew at the
			// compacted revision; every watcher takes a new snapshot.
			h.restartLocked(store.Revision(resp.CompactRevision))
		}
		return false
	}
	if resp.Created {
		return true
	}
	if resp.IsProgressNotify() {
		h.head = max(h.head, store.Revision(resp.Header.Revision))
		h.wakeLocked()
		return true
	}
	for _, batch := range h.batches(resp) {
		h.pushLocked(batch)
	}
	h.wakeLocked()
	return true
}

// batches cuts a response into one batch a revision.
func (h *hub) batches(resp clientv3.WatchResponse) []store.Batch {
	var out []store.Batch
	for _, ev := range resp.Events {
		c := h.change(ev)
		if n := len(out); n == 0 || out[n-1].Revision != c.Revision {
			out = append(out, store.Batch{Kind: store.BatchChanges, Revision: c.Revision})
		}
		last := &out[len(out)-1]
		last.Changes = append(last.Changes, c)
	}
	return out
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
	h.head = max(h.head, batch.Revision)
	if drop := len(h.ring) - h.b.opts.History; drop >= h.b.opts.History {
		h.start = h.ring[drop-1].Revision
		h.ring = slices.Clone(h.ring[drop:])
	}
}

// restartLocked drops the history, and tells every watcher to resync.
func (h *hub) restartLocked(at store.Revision) {
	h.ring, h.start, h.head = nil, at, at
	h.epoch++
	h.wakeLocked()
}

func (h *hub) wakeLocked() {
	close(h.wake)
	h.wake = make(chan struct{})
}
