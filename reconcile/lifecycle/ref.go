package lifecycle

import (
	"context"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// WatchRef is the source of the objects that refer to those of a cache, for the
// Watch of a provider's controller. After a change it asks match about the
// object as it was and as it is, so an edited reference wakes both sides; only
// what match names is run. To watch one namespace give it a cache of one.
//
// What match names after the start ends its backoff and its park, keeps the attempts, and
// is spread if it is much, see [depend.Watched]. A [depend.Tracker] with depend.Watching
// does more with less code, where the object itself says what it refers to.
//
// Match names the objects that have to run because an object they refer to (a secret, say)
// came, changed or went. Config is the provider's, and the zero C if loaded is false. It may
// fail, to list objects for instance, and is then called again with the newest object. It must
// not write to ref.
//
// Only changes that pass all of when count; without any, every change does. A
// nil part is refused by Watch.
func WatchRef[C, S, T any](c *cache.Cache[S, T], config Config[C], match func(ctx context.Context, ref *store.Object[S, T], config C, loaded bool) ([]reconcile.Request, error), when ...reconcile.Predicate[S, T]) reconcile.Source[reconcile.Request] {
	if config == nil || match == nil {
		return reconcile.Source[reconcile.Request]{}
	}
	s := depend.Watched(reconcile.Map(c, func(ctx context.Context, old, now *store.Object[S, T]) ([]reconcile.Request, error) {
		cfg, loaded, _ := config.current(ctx) // one that cannot be read is one that is not loaded
		var keys []reconcile.Request
		for _, ref := range []*store.Object[S, T]{old, now} {
			if ref == nil {
				continue
			}
			more, err := match(ctx, ref, cfg, loaded)
			if err != nil {
				return nil, err
			}
			keys = append(keys, more...)
		}
		return keys, nil
	}, when...))
	if c != nil {
		s.Relations = []introspect.Relation{{Kind: c.Kind(), As: introspect.Watched}}
	}
	return s
}
