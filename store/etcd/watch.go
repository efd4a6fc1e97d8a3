package etcd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sort"
	"time"

	"github.com/tendhq/tend/store"
)

// Watch implements store.Backend. Watches of one kind share one stream from the
// server; one that resumes from before what is remembered here has a stream of
// its own.
func (b *backend) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return b.watch(ctx, kind, store.AllSlots(), after)
}

// watch yields the records of these slots, and maybe changes of others.
func (b *backend) watch(ctx context.Context, kind string, slots store.SlotSet, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		if err := store.CheckKind(kind); err != nil {
			yield(store.Batch{}, err)
			return
		}
		h, err := b.hubOf(kind)
		if err != nil {
			yield(store.Batch{}, err)
			return
		}
		w := &watcher{h: h, slots: slots, at: after, yield: yield}
		if err := w.run(ctx); err != nil && !w.stopped {
			yield(store.Batch{}, err)
		}
	}
}

// watcher is one reader of a hub.
type watcher struct {
	h       *hub
	slots   store.SlotSet
	epoch   int            // of the hub, when this watcher began
	at      store.Revision // everything up to here has been yielded
	yield   func(store.Batch, error) bool
	stopped bool // yield asked to stop

	skipped int // of the hub, as far as they were yielded
}

func (w *watcher) run(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := w.attach(ctx); err != nil {
		return err
	}
	defer func() { w.h.leave(w) }()
	if w.at == 0 {
		w.h.mu.Lock()
		w.h.followLocked(w, w.h.head)
		w.h.mu.Unlock()
		if err := w.snapshot(ctx); err != nil || w.stopped {
			return err
		}
	} else if private, err := w.resume(ctx); err != nil {
		return err
	} else if private != nil {
		defer private()
	}
	return w.follow(ctx)
}

// attach waits until the hub has a position: what it collects from then on
// follows without a gap on whatever is read afterwards. It does not wait for a server
// that refuses this client or cannot be reached: what is wrong is said at once.
func (w *watcher) attach(ctx context.Context) error {
	patience := time.After(w.h.b.opts.Timeout)
	for {
		w.h.mu.Lock()
		opened, wake, err := w.h.opened, w.h.wake, w.h.err
		w.epoch = w.h.epoch
		w.h.mu.Unlock()
		if opened {
			return nil
		}
		if err != nil && (refused(err) || unsent(err)) {
			return fmt.Errorf("etcd: watch of %s: %w", w.h.kind, err)
		}
		select {
		case <-wake:
		case <-patience:
			return fmt.Errorf("etcd: watch of %s: %w", w.h.kind, errors.Join(errTimeout, err))
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.h.b.ctx.Done():
			return store.ErrClosed
		}
	}
}

// snapshot yields every record of the watcher's slots, from one revision.
func (w *watcher) snapshot(ctx context.Context) error {
	o := store.ListOptions{}
	for {
		page, err := store.ListSlots(ctx, w.h.b, w.h.kind, w.slots, o)
		if err != nil {
			return err
		}
		w.h.saw(w.epoch, page.Records)
		batch := store.Batch{Kind: store.BatchSnapshot, Revision: page.Revision}
		for _, rec := range page.Records {
			batch.Changes = append(batch.Changes, store.Change{Record: rec})
		}
		if len(batch.Changes) > 0 && !w.give(batch) {
			return nil
		}
		o.At, o.Cursor = page.Revision, page.Cursor
		if page.Cursor == "" {
			w.give(store.Batch{Kind: store.BatchSnapshotEnd, Revision: page.Revision})
			return nil
		}
	}
}

// resume makes sure that a hub remembers what came after w.at. A revision that the hub has not
// reached may be of a list, or of another kind's watch; or of a history that was lost, which a
// hub of the watcher's own finds out.
func (w *watcher) resume(ctx context.Context) (stop func(), err error) {
	w.h.mu.Lock()
	ahead := w.at > w.h.top
	w.h.mu.Unlock()
	reached := !ahead
	if ahead {
		if reached, err = w.h.reached(ctx, w.at); err != nil {
			return nil, err
		}
	}
	w.h.mu.Lock()
	shared := reached && w.at >= w.h.start
	if shared {
		w.h.followLocked(w, w.at)
	}
	w.h.mu.Unlock()
	if shared {
		return nil, nil
	}
	private := newHub(w.h.b, w.h.kind)
	private.opened, private.start, private.head, private.top = true, w.at, w.at, w.at
	private.readLocked(w.slots) // it has no goroutine yet
	private.watchers[w] = struct{}{}
	stop, err = private.open()
	w.h, w.epoch = private, 0
	return stop, err
}

// follow yields what the hub collects.
func (w *watcher) follow(ctx context.Context) error {
	for !w.stopped {
		batches, wake, err := w.next()
		if err != nil {
			return err
		}
		for _, b := range batches {
			if !w.give(b) {
				return nil
			}
		}
		if len(batches) > 0 {
			continue
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.h.b.ctx.Done():
			return store.ErrClosed
		}
	}
	return nil
}

// next is what the hub has beyond w.at: some batches, or a progress mark, or
// nothing yet.
func (w *watcher) next() ([]store.Batch, <-chan struct{}, error) {
	const atATime = 64 // bounds what a slow watcher keeps alive
	h := w.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.epoch != w.epoch || w.at < h.start {
		return nil, nil, fmt.Errorf("etcd: watch of %s after %d: %w", h.kind, w.at, store.ErrCompacted)
	}
	i := sort.Search(len(h.ring), func(i int) bool { return h.ring[i].Revision > w.at })
	if i == len(h.ring) {
		if h.head > w.at {
			b := store.Batch{Kind: store.BatchProgress, Revision: h.head, Skipped: h.skipped - w.skipped}
			w.skipped = h.skipped
			return []store.Batch{b}, nil, nil
		}
		return nil, h.wake, nil
	}
	return h.ring[i:min(i+atATime, len(h.ring)):len(h.ring)], nil, nil
}

func (w *watcher) give(b store.Batch) bool {
	w.at = b.Revision
	if !w.yield(b, nil) {
		w.stopped = true
	}
	return !w.stopped
}
