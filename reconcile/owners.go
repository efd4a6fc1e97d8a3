package reconcile

import (
	"context"
	"errors"
	"slices"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// Owners is the source of the owners, of one kind, of a cache's objects: when an
// object changes, its owners are run, those it had before included. Owners of
// other kinds are skipped, counted (SourceSnapshot.Skipped), and mentioned once in
// the log.
func Owners[S, T any](c *cache.Cache[S, T], kind string, when ...Predicate[S, T]) Source[Request] {
	if c == nil {
		return Source[Request]{bad: errors.New("Owners: no cache")}
	}
	s := Map(c, func(ctx context.Context, old, now *store.Object[S, T]) (keys []Request, _ error) {
		for _, o := range [2]*store.Object[S, T]{old, now} {
			if o != nil {
				keys = appendOwners(ctx, keys, o.Owners, kind)
			}
		}
		return keys, nil
	}, when...)
	s.Name = c.Name() + " owned by " + kind
	s.Relations = []Relation{{c.Kind(), Owned}}
	return s
}

func appendOwners(ctx context.Context, keys []Request, owners []store.Owner, kind string) []Request {
	for _, o := range owners {
		if o.Kind != kind {
			skipOwner(ctx, o)
		} else if !slices.Contains(keys, o.Key) {
			keys = append(keys, o.Key)
		}
	}
	return keys
}

// skipOwner tells the source whose mapper is running that an owner was no use.
func skipOwner(ctx context.Context, o store.Owner) {
	if f, ok := ctx.Value(skipKey{}).(func(string, ...any)); ok {
		f("owner of another kind", "kind", o.Kind, "owner", o.Key)
	}
}

// Same is the source of keys that are named like a cache's objects: when a/x of
// the cache's kind changes, a/x of the controller's kind is run.
func Same[S, T any](c *cache.Cache[S, T], when ...Predicate[S, T]) Source[Request] {
	if c == nil {
		return Source[Request]{bad: errors.New("Same: no cache")}
	}
	s := Map(c, func(_ context.Context, old, now *store.Object[S, T]) ([]Request, error) {
		if now == nil {
			now = old
		}
		return []Request{now.Key()}, nil
	}, when...)
	s.Name = c.Name() + " of the same name"
	return s
}
