// Package backend is a small store.Backend: records in a map, and a log of the
// last changes, from which watches and old lists are answered. It keeps encoded bytes,
// as a backend over a database does, and has no leases.
package backend

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/tendhq/tend/store"
)

// history is how many changes the log keeps at least.
const history = 1000

// Backend keeps records in memory. Make one with New.
type Backend struct {
	mu      sync.Mutex // guards what follows
	closed  bool
	rev     store.Revision // of the last commit
	records map[address]store.Record
	log     []change       // in the order of revisions
	trimmed store.Revision // the log holds all changes after it
	changed chan struct{}  // closed, and replaced, by each commit
}

type address struct {
	kind string
	key  store.Key
}

// change is an entry of the log, with the record as it was before.
type change struct {
	store.Change
	before store.Record // of revision 0: there was none
}

// New returns an empty backend.
func New() *Backend {
	return &Backend{records: map[address]store.Record{}, changed: make(chan struct{})}
}

// Get implements [store.Backend].
func (b *Backend) Get(ctx context.Context, kind string, key store.Key) (store.Record, error) {
	if err := cmp.Or(store.CheckAddress(kind, key), context.Cause(ctx)); err != nil {
		return store.Record{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return store.Record{}, store.ErrClosed
	}
	r, ok := b.records[address{kind, key}]
	if !ok {
		return store.Record{}, fmt.Errorf("backend: %s %s: %w", kind, key, store.ErrNotFound)
	}
	return r, nil
}

// guide: commit

// Commit implements [store.Backend].
func (b *Backend) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	t, err := t.Prepare(ctx) // adds the guards that travel in ctx, and checks the rest
	if err := cmp.Or(err, context.Cause(ctx)); err != nil {
		return 0, err
	}
	data, err := t.Encode() // calls code of the user: without the lock
	if err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, store.ErrClosed
	}
	if err := b.checkLocked(t); err != nil {
		return 0, err
	}
	before := len(b.log)
	for i, op := range t.Ops {
		at := address{op.Kind, op.Key}
		old, exists := b.records[at]
		if op.Put == nil && !exists {
			continue // deleting what does not exist changes nothing
		}
		if len(b.log) == before {
			b.rev++ // one revision for all writes of the commit
		}
		if op.Put == nil {
			delete(b.records, at)
			gone := old
			gone.Revision = b.rev
			b.log = append(b.log, change{store.Change{Record: gone, Deleted: true}, old})
			continue
		}
		r := store.Record{Kind: op.Kind, Key: op.Key, Created: old.Created, Revision: b.rev, Bytes: data[i]}
		if !exists {
			r.Created = b.rev
		}
		b.records[at] = r
		b.log = append(b.log, change{store.Change{Record: r}, old})
	}
	if len(b.log) > before {
		b.trimLocked()
		close(b.changed)
		b.changed = make(chan struct{})
	}
	return b.rev, nil
}

// checkLocked judges the conditions by the state before the commit, guards first.
func (b *Backend) checkLocked(t store.Txn) error {
	for _, op := range t.Ops {
		if op.Lease != 0 {
			return fmt.Errorf("%w: this backend has no leases", store.ErrInvalid)
		}
	}
	for _, c := range t.Guards {
		if r, ok := b.records[address{c.Kind, c.Key}]; !c.Holds(r, ok) {
			return fmt.Errorf("backend: %v: %w", c, store.ErrFenced)
		}
	}
	for _, c := range t.If {
		if r, ok := b.records[address{c.Kind, c.Key}]; !c.Holds(r, ok) {
			return &store.ConflictError{Want: c, Current: r}
		}
	}
	return nil
}

// trimLocked drops the oldest changes, whole commits at a time.
func (b *Backend) trimLocked() {
	if len(b.log) < 2*history {
		return
	}
	n := len(b.log) - history
	for n < len(b.log) && b.log[n].Revision == b.log[n-1].Revision {
		n++
	}
	b.trimmed = b.log[n-1].Revision
	b.log = slices.Clone(b.log[n:])
}

// guide: end

// guide: list

// List implements [store.Backend]. A cursor names the revision of its list, and the
// key after which the next page begins: the state of then is the state of now with the
// changes since taken back.
func (b *Backend) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	if err := cmp.Or(store.CheckKind(kind), context.Cause(ctx)); err != nil {
		return store.Page{}, err
	}
	if o.Limit < 0 {
		return store.Page{}, fmt.Errorf("%w: limit of %d", store.ErrInvalid, o.Limit)
	}
	at, after := o.At, store.Key{}
	if o.Cursor != "" {
		_, err := fmt.Sscanf(o.Cursor, "%d %q %q", &at, &after.Namespace, &after.Name)
		if err != nil || o.Cursor != cursor(kind, o, at, after) {
			return store.Page{}, fmt.Errorf("%w: cursor %.64q", store.ErrInvalid, o.Cursor)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return store.Page{}, store.ErrClosed
	}
	switch {
	case at == 0:
		at = b.rev
	case at > b.rev:
		return store.Page{}, fmt.Errorf("%w: list at %d, but the store is at %d", store.ErrInvalid, at, b.rev)
	case at < b.trimmed:
		return store.Page{}, fmt.Errorf("backend: list at %d: %w", at, store.ErrCompacted)
	}
	page := store.Page{Revision: at, Records: b.stateLocked(kind, o.Namespace, at)}
	from, found := slices.BinarySearchFunc(page.Records, after, func(r store.Record, k store.Key) int { return compare(r.Key, k) })
	if found {
		from++
	}
	page.Records = page.Records[from:]
	if o.Limit > 0 && len(page.Records) > o.Limit {
		page.Records = page.Records[:o.Limit]
		page.Cursor = cursor(kind, o, at, page.Records[o.Limit-1].Key)
	}
	return page, nil
}

func cursor(kind string, o store.ListOptions, at store.Revision, after store.Key) string {
	return fmt.Sprintf("%d %q %q of %q %q", uint64(at), after.Namespace, after.Name, kind, o.Namespace)
}

// stateLocked is the records that there were at a revision, in the order of their keys.
func (b *Backend) stateLocked(kind, namespace string, at store.Revision) []store.Record {
	state := maps.Clone(b.records)
	for _, c := range slices.Backward(b.log) {
		switch {
		case c.Revision <= at:
		case c.before.Revision == 0:
			delete(state, address{c.Kind, c.Key})
		default:
			state[address{c.Kind, c.Key}] = c.before
		}
	}
	var records []store.Record
	for a, r := range state {
		if a.kind == kind && (namespace == "" || namespace == a.key.Namespace) {
			records = append(records, r)
		}
	}
	slices.SortFunc(records, func(x, y store.Record) int { return compare(x.Key, y.Key) })
	return records
}

func compare(a, b store.Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// guide: end

// guide: watch

// Watch implements [store.Backend]: a snapshot if after is 0, and then the log from
// there. It has no buffer of its own, so that a slow reader costs no other one anything.
func (b *Backend) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		at := after
		if at == 0 {
			page, err := b.List(ctx, kind, store.ListOptions{})
			if err != nil {
				yield(store.Batch{}, err)
				return
			}
			at = page.Revision
			snapshot := store.Batch{Kind: store.BatchSnapshot, Revision: at}
			for _, r := range page.Records {
				snapshot.Changes = append(snapshot.Changes, store.Change{Record: r})
			}
			if len(snapshot.Changes) > 0 && !yield(snapshot, nil) ||
				!yield(store.Batch{Kind: store.BatchSnapshotEnd, Revision: at}, nil) {
				return
			}
		}
		for {
			batch, changed, err := b.since(ctx, kind, at)
			if err != nil {
				yield(store.Batch{}, err)
				return
			}
			if batch.Revision > at {
				if at = batch.Revision; !yield(batch, nil) {
					return
				}
				continue
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

// since is what changed after a revision, in one batch, and a channel that is closed
// when there is more.
func (b *Backend) since(ctx context.Context, kind string, at store.Revision) (store.Batch, <-chan struct{}, error) {
	if err := cmp.Or(store.CheckKind(kind), context.Cause(ctx)); err != nil {
		return store.Batch{}, nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return store.Batch{}, nil, store.ErrClosed
	case at < b.trimmed || at > b.rev:
		return store.Batch{}, nil, fmt.Errorf("backend: watch after %d: %w", at, store.ErrCompacted)
	}
	batch := store.Batch{Kind: store.BatchProgress, Revision: b.rev}
	for _, c := range b.log {
		if c.Revision > at && c.Kind == kind {
			batch.Kind, batch.Changes = store.BatchChanges, append(batch.Changes, c.Change)
			batch.Revision = c.Revision // the last change carries the revision of the batch
		}
	}
	return batch, b.changed, nil
}

// guide: end

// Close implements [store.Backend].
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		close(b.changed)
	}
	return nil
}
