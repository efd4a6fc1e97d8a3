package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sort"
	"time"

	"github.com/tendhq/tend/store"
)

// Watch implements store.Backend. Watches share what is read of the log; one that resumes
// from before what is remembered here, or is too slow, reads the log itself. It gets
// store.ErrCompacted only when the log no longer holds what it has not seen.
func (b *backend) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return b.watch(ctx, kind, store.AllSlots(), after)
}

// WatchSlots implements store.SlotReader. What is read of the log is what any of this
// process's watches of the kind asks for: the server leaves out the other slots.
func (b *backend) WatchSlots(ctx context.Context, kind string, slots store.SlotSet, after store.Revision) iter.Seq2[store.Batch, error] {
	return store.FilterSlots(b.watch(ctx, kind, slots, after), slots)
}

// watch yields the records of these slots, and maybe changes of others.
func (b *backend) watch(ctx context.Context, kind string, slots store.SlotSet, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		w := &watcher{b: b, kind: kind, slots: slots, at: after, yield: yield}
		if err := w.run(ctx); err != nil && !w.stopped {
			yield(store.Batch{}, err)
		}
	}
}

// watcher is one reader of a ring.
type watcher struct {
	b       *backend
	kind    string
	slots   store.SlotSet
	r       *ring
	at      store.Revision // everything up to here has been yielded
	yield   func(store.Batch, error) bool
	stopped bool // yield asked to stop
}

func (w *watcher) run(ctx context.Context) error {
	switch {
	case w.b.ctx.Err() != nil:
		return store.ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if err := store.CheckKind(w.kind); err != nil {
		return err
	}
	w.r = w.b.tail.follow(w)
	defer w.b.tail.leave(w)
	if err := w.attach(ctx); err != nil {
		return err
	}
	if w.at == 0 {
		if err := w.snapshot(ctx); err != nil || w.stopped {
			return err
		}
	} else if err := w.catchUp(ctx); err != nil { // it also finds out whether w.at exists
		return err
	}
	return w.follow(ctx)
}

// attach waits until the ring has a position: what it collects from then on follows
// without a gap on whatever is read afterwards.
func (w *watcher) attach(ctx context.Context) error {
	patience := time.After(w.b.opts.Timeout)
	for {
		w.b.tail.mu.Lock()
		opened, wake := w.r.opened, w.r.wake
		w.b.tail.mu.Unlock()
		if opened {
			return nil
		}
		select {
		case <-wake:
		case <-patience:
			return fmt.Errorf("postgres: watch of %s: %w", w.kind, errTimeout)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.b.ctx.Done():
			return store.ErrClosed
		}
	}
}

// snapshot yields every record of the watcher's slots, from one revision.
func (w *watcher) snapshot(ctx context.Context) error {
	o := store.ListOptions{}
	for {
		page, err := w.b.ListSlots(ctx, w.kind, w.slots, o)
		if err != nil {
			return err
		}
		batch := store.Batch{Kind: store.BatchSnapshot, Revision: page.Revision, Changes: make([]store.Change, len(page.Records))}
		for i, rec := range page.Records {
			batch.Changes[i].Record = rec
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

// catchUp reads the log until its end.
func (w *watcher) catchUp(ctx context.Context) error {
	for told := w.at; !w.stopped; {
		if w.at > math.MaxInt64 {
			return w.compacted()
		}
		got, err := w.readLog(ctx)
		if err != nil {
			return err
		}
		// A revision that the store has not reached is one of a history that was lost.
		if int64(w.at) < got.head.compacted || int64(w.at) > got.head.revision {
			return w.compacted()
		}
		for _, b := range got.batches[w.kind] {
			if told = b.Revision; !w.give(b) {
				return nil
			}
		}
		w.at = max(w.at, store.Revision(got.upTo))
		if !got.more {
			if w.at > told { // the tail may be there already, and has nothing to tell
				w.give(store.Batch{Kind: store.BatchProgress, Revision: w.at})
			}
			return nil
		}
	}
	return nil
}

func (w *watcher) readLog(ctx context.Context) (excerpt, error) {
	ctx, done, err := w.b.request(ctx)
	if err != nil {
		return excerpt{}, err
	}
	defer done()
	for {
		got, err := w.b.changes(ctx, wanted{[]string{w.kind}, [][]byte{bitmap(w.slots)}}, int64(w.at))
		if errors.Is(err, errEra) {
			if err = w.b.newEra(ctx); err == nil {
				continue
			}
		}
		if err != nil {
			return got, w.b.gave(ctx, "watch", err)
		}
		return got, nil
	}
}

func (w *watcher) compacted() error {
	return fmt.Errorf("postgres: watch of %s after %d: %w", w.kind, w.at, store.ErrCompacted)
}

// follow yields what the ring collects.
func (w *watcher) follow(ctx context.Context) error {
	for !w.stopped {
		switch {
		case w.b.ctx.Err() != nil:
			return store.ErrClosed
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		batches, wake := w.next()
		if batches == nil && wake == nil { // fallen out of the ring
			if err := w.catchUp(ctx); err != nil {
				return err
			}
			continue
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
		case <-w.b.ctx.Done():
			return store.ErrClosed
		}
	}
	return nil
}

// next returns what the ring has beyond w.at: some batches, or a progress mark, or a
// channel to wait on. Nothing at all means that the ring no longer has it.
func (w *watcher) next() ([]store.Batch, <-chan struct{}) {
	const atATime = 64 // bounds what a slow watcher keeps alive
	t, r := w.b.tail, w.r
	t.mu.Lock()
	defer t.mu.Unlock()
	if int64(w.at) < r.start {
		return nil, nil
	}
	i := sort.Search(len(r.batches), func(i int) bool { return r.batches[i].Revision > w.at })
	if i < len(r.batches) {
		return r.batches[i:min(i+atATime, len(r.batches)):len(r.batches)], nil
	}
	if r.mark > int64(w.at) {
		return []store.Batch{{Kind: store.BatchProgress, Revision: store.Revision(r.mark)}}, nil
	}
	return nil, r.wake
}

func (w *watcher) give(b store.Batch) bool {
	w.at = b.Revision
	if !w.yield(b, nil) {
		w.stopped = true
	}
	return !w.stopped
}
