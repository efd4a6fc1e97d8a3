package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/tendhq/tend/store"
)

// progressEvery is after how many revisions the watchers of quiet kinds are told
// how far the store has come.
const progressEvery = 1024

// Commit implements [store.Backend]. The outcome is always known.
func (b *backend) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	t, err := t.Prepare(ctx)
	if err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, ended(ctx)
	}
	if b.encode {
		if t.Ops, err = encodeAll(t); err != nil {
			return 0, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.checkLocked(&t); err != nil {
		return 0, err
	}
	return b.applyLocked(t.Ops), nil
}

// encodeAll replaces the values by their bytes. It runs before the lock is
// taken, because encoders are code of the user's.
func encodeAll(t store.Txn) ([]store.Op, error) {
	data, err := t.Encode()
	if err != nil {
		return nil, err
	}
	out := slices.Clone(t.Ops)
	for i := range out {
		if out[i].Put != nil {
			out[i].Put = store.Bytes(data[i])
		}
	}
	return out, nil
}

func (b *backend) checkLocked(t *store.Txn) error {
	if b.closed {
		return store.ErrClosed
	}
	for i := range t.Guards {
		g := &t.Guards[i]
		if e, ok := b.findLocked(g.Kind, g.Key); !g.Holds(e.record(g.Kind, g.Key), ok) {
			return fmt.Errorf("%w: guard %v does not hold", store.ErrFenced, *g)
		}
	}
	for i := range t.If {
		if err := b.compareLocked(&t.If[i]); err != nil {
			return err
		}
	}
	for i := range t.Ops {
		if id := t.Ops[i].Lease; id != 0 && b.leases[id] == nil {
			return fmt.Errorf("%w: %d", store.ErrLeaseGone, id)
		}
	}
	return nil
}

func (b *backend) compareLocked(c *store.Compare) error {
	e, ok := b.findLocked(c.Kind, c.Key)
	r := e.record(c.Kind, c.Key)
	if c.Holds(r, ok) {
		return nil
	}
	if !ok {
		r = store.Record{}
	}
	return &store.ConflictError{Want: *c, Current: r}
}

// applyLocked makes all writes at one new revision and wakes the watchers of
// their kinds.
func (b *backend) applyLocked(ops []store.Op) store.Revision {
	rev := b.rev + 1
	for i := range ops {
		if op := &ops[i]; op.Put != nil {
			b.putLocked(op, rev, len(ops)-i)
		} else {
			b.deleteLocked(op, rev, len(ops)-i)
		}
	}
	if b.rev == rev && rev%progressEvery == 0 {
		b.wakeAllLocked()
	}
	return b.rev
}

// putLocked writes one record; more is how many writes of the same commit may
// follow, itself included, which must stay together in the history.
func (b *backend) putLocked(op *store.Op, rev store.Revision, more int) {
	if s, ok := op.Put.(store.Stamper); ok {
		s.Stamp(rev)
	}
	t := b.tableLocked(op.Kind)
	e, exists := t.entries[op.Key]
	if !exists {
		e.created = rev
	}
	e.revision, e.value = rev, op.Put
	t.entries[op.Key] = e
	b.bindLocked(op)
	b.recordLocked(t, store.Change{Record: e.record(op.Kind, op.Key)}, more)
}

func (b *backend) deleteLocked(op *store.Op, rev store.Revision, more int) {
	e, ok := b.findLocked(op.Kind, op.Key)
	if !ok {
		return
	}
	t := b.tables[op.Kind]
	delete(t.entries, op.Key)
	b.unbindLocked(address{op.Kind, op.Key})
	e.revision = rev
	b.recordLocked(t, store.Change{Record: e.record(op.Kind, op.Key), Deleted: true}, more)
}

func (b *backend) recordLocked(t *table, c store.Change, more int) {
	b.rev = c.Revision
	t.log.append(c, more, len(t.entries))
	t.wakeLocked()
}

func (b *backend) wakeAllLocked() {
	for _, t := range b.tables {
		t.wakeLocked()
	}
}

func (t *table) wakeLocked() {
	if t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}
