package file

import (
	"context"
	"fmt"

	"github.com/tendhq/tend/store"
)

// Commit checks the transaction's guards and conditions against the newest
// state and writes its operations under one new revision, on disk when it
// returns. Concurrent Commits share a disk write; each is decided on its own.
// See store.Backend for the contract. A ctx that ends before the write began
// means that nothing was written; later, the outcome is store.ErrUnknownOutcome.
func (b *backend) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	t, err := t.Prepare(ctx)
	if err != nil {
		return 0, err
	}
	data, err := t.Encode()
	if err != nil {
		return 0, err
	}
	rev, err := b.submit(ctx, &pending{work: func(g *group) (store.Revision, error) { return g.commit(t, data) }})
	b.writes.Committed(ctx, t, err)
	return rev, err
}

// commit decides one transaction.
func (g *group) commit(t store.Txn, data [][]byte) (store.Revision, error) {
	for _, c := range t.Guards {
		if _, holds, err := g.holds(c); err != nil || !holds {
			return 0, orError(err, fmt.Errorf("%w: %v", store.ErrFenced, c))
		}
	}
	for _, c := range t.If {
		if rec, holds, err := g.holds(c); err != nil || !holds {
			return 0, orError(err, &store.ConflictError{Want: c, Current: rec})
		}
	}
	events, err := g.events(t.Ops, data)
	if err != nil || len(events) == 0 {
		return g.head, err
	}
	return g.stage(events), nil
}

func orError(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// holds compares a record's newest version, which it also returns.
func (g *group) holds(c store.Compare) (rec store.Record, ok bool, err error) {
	r, err := g.current(addressOf(c.Kind, c.Key))
	if r != nil {
		rec = r.record(c.Kind, c.Key)
	}
	return rec, c.Holds(rec, r != nil), err
}

// events turns operations into what they do. Deleting what is not there does
// nothing.
func (g *group) events(ops []store.Op, data [][]byte) ([]event, error) {
	events := make([]event, 0, len(ops))
	for i, op := range ops {
		a := addressOf(op.Kind, op.Key)
		was, err := g.current(a)
		if err != nil {
			return nil, err
		}
		if op.Lease != 0 {
			if l := g.b.leases.byID[op.Lease]; l == nil || l.over.Load() {
				return nil, leaseGone(op.Lease)
			}
		}
		if op.Put == nil {
			if was != nil {
				events = append(events, deletion(a, was))
			}
			continue
		}
		ev := event{addr: a, was: was, row: row{lease: op.Lease, data: data[i]}}
		if was != nil {
			ev.row.created = was.created
		}
		events = append(events, ev)
	}
	return events, nil
}

// deletion carries the last version, so that a watcher learns what went.
func deletion(a address, was *row) event {
	return event{addr: a, deleted: true, was: was, row: row{created: was.created, data: was.data}}
}

func found(kind string, key store.Key, r *row) (store.Record, error) {
	if r == nil {
		return store.Record{}, fmt.Errorf("file: %s %s: %w", kind, key, store.ErrNotFound)
	}
	return r.record(kind, key), nil
}
