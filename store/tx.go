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
	writes []txWrite
	over   bool
}

// txWrite is a write of a Tx, whatever the types of its object.
type txWrite interface {
	// prepare returns the condition and the write; a nil condition says that there is
	// nothing to do, a nil write that nothing changes as long as the condition holds.
	prepare(ctx context.Context) (*Compare, *Op, error)
	on() (Backend, string)
	// stored is called when the transaction has succeeded.
	stored(r Revision)
}

// TxWrite is one write of a [Tx].
type TxWrite[S, T any] struct {
	store  *Store[S, T]
	next   func(ctx context.Context, w *TxWrite[S, T]) (*Compare, *Op, error)
	v      *value[S, T]  // what is to be stored; nil: nothing, or a deletion
	same   *Object[S, T] // the stored object, if the write does not change it
	result *Object[S, T]
}

// Object returns what the write stored, a copy; nil before Commit has succeeded, and for an
// object that was deleted.
func (w *TxWrite[S, T]) Object() *Object[S, T] { return w.result }

func (w *TxWrite[S, T]) on() (Backend, string) { return w.store.backend, w.store.kind }

func (w *TxWrite[S, T]) prepare(ctx context.Context) (*Compare, *Op, error) {
	if err := w.store.checkGuard(ctx); err != nil {
		return nil, nil, err
	}
	w.v, w.same = nil, nil
	return w.next(ctx, w)
}

func (w *TxWrite[S, T]) stored(r Revision) {
	w.result = w.same
	if w.v != nil {
		w.result = w.store.Clone(&w.v.Object)
		w.result.Revision = r
	}
}

func (s *Store[S, T]) in(tx *Tx, next func(ctx context.Context, w *TxWrite[S, T]) (*Compare, *Op, error)) *TxWrite[S, T] {
	w := &TxWrite[S, T]{store: s, next: next}
	tx.writes = append(tx.writes, w)
	return w
}

// CreateIn adds what [Store.Create] does to tx. o is read by Commit, and must not be modified
// before.
func (s *Store[S, T]) CreateIn(tx *Tx, o *Object[S, T]) *TxWrite[S, T] {
	return s.in(tx, func(_ context.Context, w *TxWrite[S, T]) (*Compare, *Op, error) {
		v, err := s.fresh(o)
		if err != nil {
			return nil, nil, err
		}
		w.v = v
		return &Compare{Kind: s.kind, Key: v.Key()}, &Op{Kind: s.kind, Key: v.Key(), Put: v}, nil
	})
}

// UpdateIn adds what [Store.Update] does to tx. See CreateIn.
func (s *Store[S, T]) UpdateIn(tx *Tx, o *Object[S, T]) *TxWrite[S, T] {
	return s.in(tx, func(ctx context.Context, w *TxWrite[S, T]) (*Compare, *Op, error) {
		return w.edit(ctx, o, s.specOf(o))
	})
}

// UpdateStatusIn adds what [Store.UpdateStatus] does to tx. See CreateIn.
func (s *Store[S, T]) UpdateStatusIn(tx *Tx, o *Object[S, T]) *TxWrite[S, T] {
	return s.in(tx, func(ctx context.Context, w *TxWrite[S, T]) (*Compare, *Op, error) {
		return w.edit(ctx, o, s.statusOf(o))
	})
}

// DeleteIn adds what [Store.Delete] does to tx. See CreateIn.
func (s *Store[S, T]) DeleteIn(tx *Tx, o *Object[S, T]) *TxWrite[S, T] {
	return s.in(tx, func(ctx context.Context, w *TxWrite[S, T]) (*Compare, *Op, error) {
		if o == nil {
			return nil, nil, s.noObject()
		}
		f, err := s.findMarked(ctx, o)
		if err != nil || f.Deleting() {
			return nil, nil, err
		}
		v, op, err := s.deletion(f)
		if op.Put != nil {
			w.v = v
		}
		at := s.at(f.Key(), f.record.Revision)
		return &at, &op, err
	})
}

func (w *TxWrite[S, T]) edit(ctx context.Context, o *Object[S, T], change func(*Object[S, T]) (changed, error)) (*Compare, *Op, error) {
	f, err := w.store.findAt(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	at := w.store.at(f.Key(), f.record.Revision)
	v, op, err := w.store.next(f, change)
	switch {
	case err != nil:
		return nil, nil, err
	case v == nil:
		w.same, err = w.store.own(f)
		return &at, nil, err
	case op.Put != nil:
		w.v = v
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
	backend, first := tx.writes[0].on()
	var t Txn
	for _, w := range tx.writes {
		if b, kind := w.on(); b != backend {
			return fmt.Errorf("%w: a Tx over two backends, of %s and of %s", ErrInvalid, first, kind)
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
	r, err := backend.Commit(ctx, t)
	if err != nil {
		noting.end(backend, noted(err, t.Ops), 0)
		tx.over = errors.Is(err, ErrUnknownOutcome)
		if tx.over {
			return err
		}
		return txError(err)
	}
	noting.end(backend, t.Ops, r)
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
