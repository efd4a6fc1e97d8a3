package memory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/tendhq/tend/store"
)

// snapshotPage is how many records a snapshot batch holds.
const snapshotPage = 512

// Watch implements [store.Backend]. It runs on the caller's goroutine.
func (b *backend) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return b.watch(ctx, kind, store.AllSlots(), after)
}

// WatchSlots implements [store.SlotReader].
func (b *backend) WatchSlots(ctx context.Context, kind string, slots store.SlotSet, after store.Revision) iter.Seq2[store.Batch, error] {
	return store.FilterSlots(b.watch(ctx, kind, slots, after), slots)
}

// watch takes a snapshot of some slots; its changes are those of all.
func (b *backend) watch(ctx context.Context, kind string, slots store.SlotSet, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		w := &watcher{b: b, kind: kind, slots: slots, at: after}
		err := store.CheckKind(kind)
		if err == nil && ctx.Err() != nil {
			err = ended(ctx)
		}
		if err == nil {
			err = w.join()
		}
		if err == nil {
			defer w.leave()
		}
		if err == nil && after == 0 {
			err = w.snapshot(yield)
		}
		for err == nil {
			err = w.next(ctx, yield)
		}
		if !errors.Is(err, errStopped) {
			yield(store.Batch{}, err)
		}
	}
}

// errStopped says that the reader left the loop; it is not shown to anybody.
var errStopped = errors.New("stopped")

// watcher reads the history of one kind; everything up to at was delivered.
type watcher struct {
	b       *backend
	kind    string
	slots   store.SlotSet // of the snapshot
	at      store.Revision
	reached atomic.Uint64 // at, for the changelog
}

// join has the history wait for the watcher, within its bound.
func (w *watcher) join() error {
	b := w.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return store.ErrClosed
	}
	at := w.at
	if at == 0 {
		at = b.rev // the snapshot that follows is no older
	}
	b.tableLocked(w.kind).log.join(w, at)
	return nil
}

func (w *watcher) leave() {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	if t := w.b.tables[w.kind]; t != nil { // none once closed
		t.log.leave(w, len(t.entries))
	}
}

func (w *watcher) reach(r store.Revision) {
	w.at = r
	w.reached.Store(uint64(r))
}

type yielder = func(store.Batch, error) bool

func (w *watcher) snapshot(yield yielder) error {
	changes, rev, err := w.b.snapshot(w.kind, w.slots)
	if err != nil {
		return err
	}
	w.reach(rev)
	for len(changes) > 0 {
		n := min(len(changes), snapshotPage)
		if !yield(store.Batch{Kind: store.BatchSnapshot, Revision: rev, Changes: changes[:n:n]}, nil) {
			return errStopped
		}
		changes = changes[n:]
	}
	if !yield(store.Batch{Kind: store.BatchSnapshotEnd, Revision: rev}, nil) {
		return errStopped
	}
	return nil
}

func (b *backend) snapshot(kind string, slots store.SlotSet) ([]store.Change, store.Revision, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return nil, 0, store.ErrClosed
	}
	t := b.tables[kind]
	if t == nil {
		return nil, b.rev, nil
	}
	changes := make([]store.Change, 0, len(t.entries)*slots.Len()/store.Slots)
	for k, e := range entriesOf(t, slots) {
		changes = append(changes, store.Change{Record: e.record(kind, k)})
	}
	return changes, b.rev, nil
}

// next delivers one batch or waits until there is one.
func (w *watcher) next(ctx context.Context, yield yielder) error {
	batch, wake, err := w.b.read(w.kind, w.at)
	if err != nil {
		return err
	}
	if wake != nil {
		return w.wait(ctx, wake)
	}
	if ctx.Err() != nil { // else a watcher that always has work would never end
		return ended(ctx)
	}
	w.reach(batch.Revision)
	if !yield(batch, nil) {
		return errStopped
	}
	return nil
}

func (w *watcher) wait(ctx context.Context, wake <-chan struct{}) error {
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	case <-w.b.done:
		return store.ErrClosed
	}
}

// read returns the next batch after at or, if there is none, a channel that is
// closed when it is worth asking again. Most calls have something to read and
// need only the shared lock.
func (b *backend) read(kind string, at store.Revision) (store.Batch, <-chan struct{}, error) {
	b.mu.RLock()
	batch, err := b.readLocked(kind, at)
	b.mu.RUnlock()
	if err != nil || batch.Kind != 0 {
		return batch, nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if batch, err = b.readLocked(kind, at); err != nil || batch.Kind != 0 {
		return batch, nil, err
	}
	t := b.tableLocked(kind)
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	return store.Batch{}, t.wake, nil
}

func (b *backend) readLocked(kind string, at store.Revision) (store.Batch, error) {
	if b.closed {
		return store.Batch{}, store.ErrClosed
	}
	if at > b.rev {
		return store.Batch{}, fmt.Errorf("%w: watch after %d, but the store is at %d", store.ErrCompacted, at, b.rev)
	}
	var changes []store.Change
	if t := b.tables[kind]; t != nil {
		var ok bool
		if changes, ok = t.log.after(at); !ok {
			return store.Batch{}, fmt.Errorf("%w: watch of %s after %d, but history begins after %d", store.ErrCompacted, kind, at, t.log.floor)
		}
	}
	switch n := len(changes); {
	case n > 0:
		return store.Batch{Kind: store.BatchChanges, Revision: changes[n-1].Revision, Changes: changes}, nil
	case b.rev-at >= progressEvery:
		return store.Batch{Kind: store.BatchProgress, Revision: b.rev}, nil
	}
	return store.Batch{}, nil
}
