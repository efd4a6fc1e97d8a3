package file

import (
	"context"
	"fmt"
	"iter"

	"github.com/tendhq/tend/store"
)

// Watch yields a snapshot if after is zero, and then every change of the kind.
// See store.Backend for the contract. It is fed from the history in memory and
// costs nothing while nothing happens; one that falls behind the history, or
// asks for more than there is, gets store.ErrCompacted, alone.
func (b *backend) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return b.watch(ctx, kind, store.AllSlots(), after)
}

// WatchSlots implements store.SlotReader.
func (b *backend) WatchSlots(ctx context.Context, kind string, slots store.SlotSet, after store.Revision) iter.Seq2[store.Batch, error] {
	return store.FilterSlots(b.watch(ctx, kind, slots, after), slots)
}

// watch takes a snapshot of some slots; its changes are those of all.
func (b *backend) watch(ctx context.Context, kind string, slots store.SlotSet, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		if err := store.CheckKind(kind); err != nil {
			yield(store.Batch{}, err)
			return
		}
		if after == 0 {
			var ok bool
			if after, ok = b.yieldSnapshot(ctx, kind, slots, yield); !ok {
				return
			}
		}
		for ctx.Err() == nil {
			batch, changed, err := b.next(kind, after)
			if err != nil {
				yield(store.Batch{}, err)
				return
			}
			if batch.Revision > after {
				after = batch.Revision
				if !yield(batch, nil) {
					return
				}
				continue
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
		yield(store.Batch{}, context.Cause(ctx))
	}
}

// next returns what happened after a revision, at most maxBatch revisions of
// it, or else the channel that is closed when something does.
func (b *backend) next(kind string, after store.Revision) (store.Batch, <-chan struct{}, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if err := b.usableLocked(); err != nil {
		return store.Batch{}, nil, err
	}
	tail, ok := b.history.after(kind, after)
	if !ok {
		return store.Batch{}, nil, compacted(kind, after)
	}
	return batchOf(kind, tail), b.changed, nil
}

// maxBatch bounds the records of one batch (a revision is never split).
const maxBatch = 1000

func batchOf(kind string, tail []entry) store.Batch {
	var b store.Batch
	for _, e := range tail {
		if len(b.Changes) >= maxBatch {
			return b
		}
		for i := range e.events {
			ev := &e.events[i]
			if k, key, _ := ev.addr.split(); k == kind {
				b.Changes = append(b.Changes, store.Change{Record: ev.row.record(kind, key), Deleted: ev.deleted})
				b.Kind, b.Revision = store.BatchChanges, e.revision
			}
		}
	}
	if len(b.Changes) == 0 && len(tail) > 0 {
		b.Kind, b.Revision = store.BatchProgress, tail[len(tail)-1].revision
	}
	return b
}

func compacted(kind string, after store.Revision) error {
	return fmt.Errorf("file: watch %s after revision %d: %w", kind, after, store.ErrCompacted)
}

// keptPages bounds how many bytes a snapshot reads before it drops the file's pages: a process
// that lists a large file need not hold it beside the objects.
const keptPages = 32 << 20

// yieldSnapshot yields the records of some slots of a kind as of one revision, and that
// revision. A consumer so slow that the history moved on gets ErrCompacted.
func (b *backend) yieldSnapshot(ctx context.Context, kind string, slots store.SlotSet, yield func(store.Batch, error) bool) (store.Revision, bool) {
	var o store.ListOptions
	read := 0 // bytes of values, since the file's pages were dropped
	defer dropPages(b.db)
	for {
		p, err := b.ListSlots(ctx, kind, slots, o)
		if err != nil {
			yield(store.Batch{}, err)
			return 0, false
		}
		o.At, o.Cursor = p.Revision, p.Cursor
		batch := store.Batch{Kind: store.BatchSnapshot, Revision: p.Revision, Changes: make([]store.Change, len(p.Records))}
		for i, r := range p.Records {
			batch.Changes[i].Record = r
			read += len(r.Bytes)
		}
		if read > keptPages {
			dropPages(b.db)
			read = 0
		}
		if len(p.Records) > 0 && !yield(batch, nil) {
			return 0, false
		}
		if p.Cursor == "" {
			return p.Revision, yield(store.Batch{Kind: store.BatchSnapshotEnd, Revision: p.Revision}, nil)
		}
	}
}
