package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// ObjectFunc reconciles one object. It gets a copy of its own, to read and edit;
// edits count once they are written to the store.
type ObjectFunc[S, T any] func(ctx context.Context, o *store.Object[S, T]) (Result, error)

// ForOptions are the options of For. Nil and zero fields mean the stated default.
type ForOptions[S, T any] struct {
	Options[Request] // of the controller

	// When says which changes run an object. It takes the place of the default, Changed:
	// Or adds to that. It is no filter of objects: what is there at the start and in shards
	// that are gained runs whatever it says, and again at each resync. That is Only.
	When Predicate[S, T]
	// Only says which objects are this controller's, as those of its class. The function of For
	// is never called for others, whatever asks for a run. An object that becomes one of them
	// is run whatever When says; one that is not any more is left as it is. Only must not
	// write to the object, and must not block. Default: all.
	Only func(o *store.Object[S, T]) bool
	// Cache are the options of the controller's own cache. Default: the whole kind.
	Cache *cache.Options[S, T]
}

// An ObjectController is a Controller for the objects of a store, with their cache. It is
// made by For and ForCache.
type ObjectController[S, T any] struct {
	*Controller[Request]
	own *cache.Cache[S, T]
}

// Cache is the controller's cache, its own of For, which runs with it: to read, to add an index
// before Run, and for sources of other controllers.
func (c *ObjectController[S, T]) Cache() *cache.Cache[S, T] { return c.own }

// For returns a controller for the objects of a store, named for their kind: it
// has a cache of its own, which runs with it, watches it, and calls f for each
// object that exists when it is run. An object that is gone is not run: what must
// be cleaned up needs a finalizer (reconcile/lifecycle). A paused object is run: f
// looks at its Paused, which lifecycle and external do by themselves. An object of a newer
// version of the program is not: see [CheckNewer].
func For[S, T any](s *store.Store[S, T], f func(context.Context, *store.Object[S, T]) (Result, error), o *ForOptions[S, T]) (*ObjectController[S, T], error) {
	opts := orZero(o)
	own, err := cache.New(s, opts.Cache)
	if err != nil {
		return nil, fmt.Errorf("reconcile: For: %w", err)
	}
	opts.Cache = nil
	c, err := ForCache(own, f, &opts)
	if err != nil {
		return nil, err
	}
	c.m.own(own)
	return c, nil
}

// ForCache is For with a cache that the program has already, as one that others read too. A
// Manager runs it; ForOptions.Cache must be nil.
func ForCache[S, T any](of *cache.Cache[S, T], f func(context.Context, *store.Object[S, T]) (Result, error), o *ForOptions[S, T]) (*ObjectController[S, T], error) {
	opts := orZero(o)
	switch {
	case of == nil:
		return nil, errors.New("reconcile: ForCache: no cache")
	case opts.Cache != nil:
		return nil, errors.New("reconcile: ForCache: ForOptions.Cache is set beside the cache that is given")
	}
	from := FromOptions[S, T]{When: opts.When, only: opts.Only}
	run := f
	if f != nil && opts.Only != nil {
		run = func(ctx context.Context, o *store.Object[S, T]) (Result, error) {
			if !opts.Only(o) {
				return Result{}, nil
			}
			return f(ctx, o)
		}
	}
	c, err := newOfObjects(of.Kind(), AsReconciler(of, run), &opts.Options)
	if err != nil {
		return nil, err
	}
	return &ObjectController[S, T]{c, of}, c.Watch(FromWith(of, &from))
}

// newOfObjects is New, compiled in this package and not in each that calls For.
//
//go:noinline
func newOfObjects(name string, r Reconciler[Request], o *Options[Request]) (*Controller[Request], error) {
	return New(name, r, o)
}

// AsReconciler makes a Reconciler of a function of an object. The object comes
// from the cache, as a copy; a key the cache has nothing for is done, and f is not
// called. If the cache has not synced, as one that nothing runs, such a run fails: see
// Options.Reads. While the cache cannot keep up with the key's own writes (Info.Stale)
// the store is read instead.
//
// It is nil if c or f is, which New refuses.
func AsReconciler[S, T any](c *cache.Cache[S, T], f ObjectFunc[S, T]) Reconciler[Request] {
	if c == nil || f == nil {
		return nil
	}
	s := c.Store()
	return Func[Request](func(ctx context.Context, key Request) (Result, error) {
		known := c.Holds(key) // asked before Get: the cache may be filled in between
		obj, ok := c.Get(key)
		if runOf(ctx).isStale() {
			var err error
			if obj, err = s.Get(ctx, key); err != nil && !errors.Is(err, store.ErrNotFound) {
				return Result{}, err
			}
			ok, known = err == nil, true
		} else if ok {
			obj = s.Clone(obj)
		}
		if !ok && !known {
			return Result{}, fmt.Errorf("reconcile: cache %q has not been filled for this key: run the cache, or give it to the Manager by Options.Reads", c.Name())
		}
		if !ok {
			return Result{}, nil
		}
		if err := CheckNewer(&obj.Meta); err != nil {
			return Result{}, err
		}
		if err := c.Undecodable(key); err != nil {
			return Result{}, RetryAfter(err, newerPause) // the cache has an earlier version, as before a newer program's write
		}
		if !s.HasSecrets() && obj.Intent.Outputs == (store.Outputs{}) {
			return f(ctx, obj)
		}
		before := s.Clone(obj) // f may edit it
		defer s.RedactPanic(before, obj)
		res, err := f(ctx, obj)
		return res, s.RedactError(err, before, obj)
	})
}
