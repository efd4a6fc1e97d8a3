package cache

import (
	"context"
	"fmt"

	"github.com/tendhq/tend/store"
)

type IndexFunc[S any, T any] = indexFunc[S, T]

func (r *Cache[S, T]) CheckMutations() error { return r.core.checkMutations() }

// Read returns the object as the cache holds it, or from the store if it is not one of those
// that the cache holds (see Holds).
func (c *Cache[S, T]) Read(ctx context.Context, k store.Key) (*store.Object[S, T], error) {
	if c.Holds(k) {
		if o, ok := c.Get(k); ok && c.Holds(k) {
			return o, nil
		} else if c.Holds(k) {
			return nil, fmt.Errorf("cache: %s %s: %w", c.core.kind, k, store.ErrNotFound)
		}
	}
	return c.store.Get(ctx, k)
}
