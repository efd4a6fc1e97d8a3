package cache

import (
	"context"

	"github.com/tendhq/tend/store"
)

type IndexFunc[S any, T any] = indexFunc[S, T]

func (r *Cache[S, T]) CheckMutations() error { return r.core.checkMutations() }

func (r *Cache[S, T]) Read(a0 context.Context, a1 store.Key) (*store.Object[S, T], error) {
	return r.readShard(a0, a1)
}
