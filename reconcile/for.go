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

	// When says which changes run an object. Default: Changed.
	When Predicate[S, T]
	// Cache are the options of the controller's own cache. Default: the whole kind.
	Cache *cache.Options[S, T]
}

// An ObjectController is a Controller for the objects of a store, with their cache. It is
// made by For.
type ObjectController[S, T any] struct {
	*Controller[Request]
	own *cache.Cache[S, T]
}

// Cache is the controller's own cache, which it runs itself: to read, to add an index
// before Run, and for sources of other controllers.
func (c *ObjectController[S, T]) Cache() *cache.Cache[S, T] { return c.own }

// For returns a controller for the objects of a store, named for their kind: it
// has a cache of its own, which it runs itself, watches it, and calls f for each
// object that exists when it is run. An object that is gone is not run: what must
// be cleaned up needs a finalizer (reconcile/lifecycle). A paused object is run: f
// looks at its Paused, which lifecycle and external do by themselves.
func For[S, T any](s *store.Store[S, T], f func(context.Context, *store.Object[S, T]) (Result, error), o *ForOptions[S, T]) (*ObjectController[S, T], error) {
	if s == nil {
		return nil, errors.New("reconcile: For: no store")
	}
	if f == nil {
		return nil, fmt.Errorf("reconcile: For(%s): no function", s.Kind())
	}
	if o == nil {
		o = &ForOptions[S, T]{}
	}
	own, err := cache.New(s, o.Cache)
	if err != nil {
		return nil, fmt.Errorf("reconcile: For(%s): %w", s.Kind(), err)
	}
	c, err := New(s.Kind(), AsReconciler(own, f), &o.Options)
	if err != nil {
		return nil, err
	}
	c.owned = []Cached{own}
	return &ObjectController[S, T]{c, own}, c.Watch(FromWith(own, &FromOptions[S, T]{When: o.When}))
}

// AsReconciler makes a Reconciler of a function of an object. The object comes
// from the cache, as a copy; a key the cache has nothing for is done, and f is not
// called. While the cache cannot keep up with the key's own writes (Info.Stale) the
// store is read instead.
//
// It is nil if c or f is, which New refuses.
func AsReconciler[S, T any](c *cache.Cache[S, T], f ObjectFunc[S, T]) Reconciler[Request] {
	if c == nil || f == nil {
		return nil
	}
	return &objects[S, T]{c, f}
}

type objects[S, T any] struct {
	cache *cache.Cache[S, T]
	f     ObjectFunc[S, T]
}

// Reconcile implements Reconciler.
func (r *objects[S, T]) Reconcile(ctx context.Context, key Request) (Result, error) {
	if x := runOf(ctx); x != nil && x.isStale() {
		obj, err := r.cache.Store().Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return Result{}, nil
		}
		if err != nil {
			return Result{}, err
		}
		return r.run(ctx, obj)
	}
	obj, ok := r.cache.Get(key)
	if !ok {
		return Result{}, nil
	}
	return r.run(ctx, r.cache.Store().Clone(obj))
}

// run calls f and keeps secrets out of what it says.
func (r *objects[S, T]) run(ctx context.Context, obj *store.Object[S, T]) (Result, error) {
	s := r.cache.Store()
	if !s.HasSecrets() {
		return r.f(ctx, obj)
	}
	before := s.Clone(obj) // f may edit it
	defer s.RedactPanic(before, obj)
	res, err := r.f(ctx, obj)
	return res, s.RedactError(err, before, obj)
}
