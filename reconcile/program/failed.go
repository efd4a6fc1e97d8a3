package program

import (
	"context"
	"iter"

	"github.com/tendhq/tend/store"
)

// failed is a backend that could not be opened: each call fails with the reason, so that a
// program has the error once, where it runs.
type failed struct{ err error }

func (f failed) Get(context.Context, string, store.Key) (store.Record, error) {
	return store.Record{}, f.err
}

func (f failed) List(context.Context, string, store.ListOptions) (store.Page, error) {
	return store.Page{}, f.err
}

func (f failed) Commit(context.Context, store.Txn) (store.Revision, error) { return 0, f.err }

func (f failed) Watch(context.Context, string, store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) { yield(store.Batch{}, f.err) }
}

func (f failed) Close() error { return nil }
