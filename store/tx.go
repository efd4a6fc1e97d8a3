package store

import (
	"context"
	"errors"
	"fmt"
)

// Tx gathers writes of several objects, of one kind or more, that [Tx.Commit] makes
// together: all at one revision, or none. The stores must lie on one backend. The zero
// value is ready. It serves one Commit, and one goroutine.
//
//	var tx store.Tx
//	network := networks.CreateIn(&tx, n)
//	subnets.CreateIn(&tx, s)
//	err := tx.Commit(ctx)
//	// network.Object() is what was stored
type Tx struct {
	writes []*txWrite
	over   bool
}

// txWrite is a write of a Tx, whatever the types of its object.
type txWrite struct {
	core *core
	// next returns the condition and the write; a nil condition says that there is
	// nothing to do, a nil write that nothing changes as long as the condition holds.
	next   func(ctx context.Context, w *txWrite) (*Compare, *Op, error)
	v      object // what is to be stored; nil: nothing, or a deletion
	same   object // the stored object, if the write does not change it
	result object
}

// TxWrite is one write of a [Tx].
type TxWrite[S, T any] struct{ write *txWrite }

// Object returns what the write stored, a copy; nil before Commit has succeeded, and for an
// object that was deleted.
func (w *TxWrite[S, T]) Object() *Object[S, T] {
	o, _ := typed[S, T](w.write.result, nil)
	return o
}

func (w *txWrite) prepare(ctx context.Context) (*Compare, *Op, error) {
	if err := w.core.checkGuard(ctx); err != nil {
		return nil, nil, err
	}
	w.v, w.same = nil, nil
	return w.next(ctx, w)
}

// stored is called when the transaction has succeeded.
func (w *txWrite) stored(r Revision) {
	w.result = w.same
	if w.v != nil {
		w.result = w.core.clone(w.v)
		w.result.meta().Revision = r
	}
}

func (s *Store[S, T]) in(tx *Tx, next func(ctx context.Context, w *txWrite) (*Compare, *Op, error)) *TxWrite[S, T] {
	w := &txWrite{core: s.core, next: next}
	tx.writes = append(tx.writes, w)
	return &TxWrite[S, T]{w}
}

// CreateIn adds what [Store.Create] does to tx. o is read by Commit, and must not be modified
// before.
func (s *Store[S, T]) CreateIn(tx *Tx, o *Object[S, T]) *TxWrite[S, T] {
	return s.in(tx, func(_ context.Context, w *txWrite) (*Compare, *Op, error) { return w.create(o) })
}

func (w *txWrite) create(o object) (*Compare, *Op, error) {
	v, err := w.core.fresh(o)
	if err != nil {
		return nil, nil, err
	}
	w.v, _ = v.parts()
	kind, key := w.core.kind, w.v.meta().Key()
	return &Compare{Kind: kind, Key: key}, &Op{Kind: kind, Key: key, Put: v}, nil
}

// UpdateIn adds what [Store.Update] does to tx. See CreateIn.
func (s *Store[S, T]) UpdateIn(tx *Tx, o *Object[S, T]) *TxWrite[S, T] {
	return s.in(tx, func(ctx context.Context, w *txWrite) (*Compare, *Op, error) {
		return w.edit(ctx, o, (*core).takeSpec)
	})
}

// UpdateStatusIn adds what [Store.UpdateStatus] does to tx. See CreateIn.
func (s *Store[S, T]) UpdateStatusIn(tx *Tx, o *Object[S, T]) *TxWrite[S, T] {
	return s.in(tx, func(ctx context.Context, w *txWrite) (*Compare, *Op, error) {
		return w.edit(ctx, o, (*core).takeStatus)
	})
}

// DeleteIn adds what [Store.Delete] does to tx. See CreateIn.
func (s *Store[S, T]) DeleteIn(tx *Tx, o *Object[S, T]) *TxWrite[S, T] {
	return s.in(tx, func(ctx context.Context, w *txWrite) (*Compare, *Op, error) { return w.delete(ctx, o) })
}

func (w *txWrite) delete(ctx context.Context, o object) (*Compare, *Op, error) {
	f, err := w.core.findMarked(ctx, o)
	if err != nil || f.Deleting() {
		return nil, nil, err
	}
	marked, op, err := w.core.deletion(f)
	w.v = marked
	at := w.core.at(f.Key(), f.record.Revision)
	return &at, &op, err
}

func (w *txWrite) edit(ctx context.Context, o object, take change) (*Compare, *Op, error) {
	f, err := w.core.findAt(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	at := w.core.at(f.Key(), f.record.Revision)
	next, op, err := w.core.next(f, o, take)
	switch {
	case err != nil:
		return nil, nil, err
	case next == nil:
		w.same, err = w.core.own(f)
		return &at, nil, err
	case op.Put != nil:
		w.v = next
	}
	return &at, &op, nil
}

// Commit makes all writes, or none. Each object is at the revision that its write was given,
// also one that the write does not change. Guards, noted writes and limits are those of
// a single write; at most [MaxTxn] objects and guards, and [MaxTxnBytes], fit in one Tx, and
// one object may be written once. A Tx without writes does nothing.
//
// The errors are those of the single writes, of the first that fails; stores on different
// backends are [ErrInvalid]. After an error nothing was written, and Commit may be called
// again: with another guard, or when what was in the way has gone. Only after
// [ErrUnknownOutcome] either all writes were made or none; a Commit after that, or after one
// that succeeded, is [ErrInvalid].
func (tx *Tx) Commit(ctx context.Context) error {
	if tx.over {
		return fmt.Errorf("%w: a Tx was committed twice", ErrInvalid)
	}
	if len(tx.writes) == 0 {
		return nil
	}
	first := tx.writes[0].core
	var t Txn
	for _, w := range tx.writes {
		if w.core.backend != first.backend {
			return fmt.Errorf("%w: a Tx over two backends, of %s and of %s", ErrInvalid, first.kind, w.core.kind)
		}
		cond, op, err := w.prepare(ctx)
		if err != nil {
			return err
		}
		if cond != nil {
			t.If = append(t.If, *cond)
		}
		if op != nil {
			t.Ops = append(t.Ops, *op)
		}
	}
	noting := beginWrite(ctx)
	r, err := first.backend.Commit(ctx, t)
	if err != nil {
		endWrite(noting, first.backend, noted(err, t.Ops), 0)
		tx.over = errors.Is(err, ErrUnknownOutcome)
		if tx.over {
			return err
		}
		return txError(err)
	}
	endWrite(noting, first.backend, t.Ops, r)
	tx.over = true
	for _, w := range tx.writes {
		w.stored(r)
	}
	return nil
}

// txError gives a conflict the name that it has for a single write.
func txError(err error) error {
	var c *ConflictError
	switch {
	case !errors.As(err, &c):
		return err
	case c.Want.Revision == 0 && c.Want.Created == 0:
		return fmt.Errorf("%w: %s %s", ErrExists, c.Want.Kind, c.Want.Key)
	}
	return gone(err, c.Want)
}
