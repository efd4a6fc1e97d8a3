package reconcile

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// Owns is the source of the owners of a cache's objects: when an object changes, those of
// its owners that are of the controller's kind are run, those it had before included.
// Other owners are skipped, counted (Skipped of the source in Controller.Snapshot), and mentioned once in the
// log. The controller is one of [For], or watches [From] a cache of its kind; Run refuses
// it otherwise. See [store.Store.OwnerOf].
func Owns[S, T any](children *cache.Cache[S, T], when ...Predicate[S, T]) Source[Request] {
	return Owners(children, "", when...)
}

// Owners is [Owns] with the kind of the owners, for a controller of any kind.
func Owners[S, T any](c *cache.Cache[S, T], kind string, when ...Predicate[S, T]) Source[Request] {
	if slices.ContainsFunc(when, isNilPredicate) {
		return Source[Request]{bad: errors.New("Owners: a nil Predicate")}
	}
	return OwnsWith(c, kind, &MapOptions[S, T]{when: all(when)})
}

// OwnsWith is [Owns] of a controller's own kind, or [Owners] of another one if kind is not empty,
// with options; nil is the defaults. With Urgent an owner that failed because of an object
// does not wait for its backoff when that changes; with KeepAttempts besides, the next
// failure waits as long as it would have anyway.
func OwnsWith[S, T any](c *cache.Cache[S, T], kind string, given *MapOptions[S, T]) Source[Request] {
	if c == nil {
		return Source[Request]{bad: errors.New("Owners: no cache")}
	}
	s := MapWith(c, func(ctx context.Context, old, now *store.Object[S, T]) (keys []Request, _ error) {
		from := ctx.Value(outletKey{}).(outlet[Request])
		_, _, own, _ := from.about()
		for _, o := range [2]*store.Object[S, T]{old, now} {
			if o != nil {
				keys = appendOwners(from, keys, o.Owners, cmp.Or(kind, own))
			}
		}
		return keys, nil
	}, given)
	if s.bad != nil {
		return s
	}
	s.Name, s.owns = c.Name()+" owned by "+kind, kind == ""
	if s.owns {
		s.Name = c.Name() + " owned"
	}
	s.Relations = []introspect.Relation{{Kind: c.Kind(), As: introspect.Owned}}
	return s
}

func appendOwners(from outlet[Request], keys []Request, owners []store.Owner, kind string) []Request {
	for _, o := range owners {
		if o.Kind != kind {
			from.Skip("owner of another kind", "kind", o.Kind, "owner", o.Key)
		} else if !slices.Contains(keys, o.Key) {
			keys = append(keys, o.Key)
		}
	}
	return keys
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
