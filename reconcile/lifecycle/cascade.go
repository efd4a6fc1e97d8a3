package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/internal/object"
	"github.com/tendhq/tend/reconcile/internal/ofobjects"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// OwnerUIDs is the function of an index that files objects under the uid of each of their
// owners:
//
//	byOwner, err := podCache.AddIndex("owner", lifecycle.OwnerUIDs)
//	…
//	for pod := range byOwner.Get(set.UID) { … }
func OwnerUIDs[S, T any](o *store.Object[S, T]) []string {
	var uids []string
	for _, owner := range o.Owners {
		uids = append(uids, owner.UID)
	}
	return uids
}

// OwnerKind is a kind whose objects own others, made by [Owning].
type OwnerKind[S, T any] struct {
	kind string
	// gone says for sure that this very owner is no more.
	gone func(ctx context.Context, owner store.Owner) (bool, error)
	// orphans is the source of the children of an owner that went.
	orphans func(children *cache.Index[S, T]) reconcile.Source[reconcile.Request]
}

// Owning makes the objects of a cache owners for [NewCascade]; S and T are
// those of the children.
func Owning[S, T, OS, OT any](owners *cache.Cache[OS, OT]) OwnerKind[S, T] {
	if owners == nil {
		return OwnerKind[S, T]{}
	}
	return OwnerKind[S, T]{
		kind: owners.Kind(),
		gone: func(ctx context.Context, owner store.Owner) (bool, error) {
			if o, ok := owners.Get(owner.Key); ok && o.UID == owner.UID {
				return false, nil // if that is old news, its deletion is still to come
			}
			// A cache may be late, or hold but a part of the kind. The store knows.
			o, err := owners.Store().Get(ctx, owner.Key)
			if errors.Is(err, store.ErrNotFound) {
				return true, nil
			}
			return err == nil && o.UID != owner.UID, err
		},
		orphans: func(children *cache.Index[S, T]) reconcile.Source[reconcile.Request] {
			s := reconcile.Map(owners, func(_ context.Context, was, is *store.Object[OS, OT]) ([]reconcile.Request, error) {
				var keys []reconcile.Request
				if was != nil && (is == nil || is.UID != was.UID) {
					for child := range children.Get(was.UID) {
						keys = append(keys, child.Key())
					}
				}
				return keys, nil
			})
			s.Relations = []introspect.Relation{{Kind: owners.Kind(), As: introspect.Owner}}
			return s
		},
	}
}

// NewCascade makes a controller that deletes objects whose owners have gone:
// in the background, so the owner goes first and its finalizers are served
// while the children still stand. An owner is one object, by uid: another of
// the same name does not take its children over. A child goes when the last of
// its owners has gone; an owner of a kind that is not among those given, or without a uid,
// counts as alive. If a kind is given with several stores, an owner has gone when none of
// them has it. A child with finalizers is marked, as by any other deletion. One that a newer
// version of the program stored is left to that: see [reconcile.CheckNewer].
//
// That an owner has gone is read from its store, never concluded from a cache. It is an
// error if a part is missing, or if the children's cache runs already, to which
// NewCascade adds an index. The controllers of the owners may watch the children
// ([reconcile.Owns]).
func NewCascade[S, T any](name string, children *cache.Cache[S, T], owners []OwnerKind[S, T], o *reconcile.Options[reconcile.Request]) (*reconcile.Controller[reconcile.Request], error) {
	if err := checkCascade(children, owners); err != nil {
		return nil, fmt.Errorf("lifecycle: cascade %q: %w", name, err)
	}
	owners = slices.Clone(owners)
	byOwner, err := children.AddIndex("owner uid", OwnerUIDs)
	if err != nil {
		return nil, fmt.Errorf("lifecycle: cascade %q: %w", name, err)
	}
	c := &cascade[S, T]{children: children, owners: owners}
	var own reconcile.Options[reconcile.Request]
	if o != nil {
		own = *o
	}
	own.OnlyDeletes = true // so that a controller may watch what it owns, too
	ctrl, err := ofobjects.Controller(name, c, &own)
	if err != nil {
		return nil, err
	}
	sources := []reconcile.Source[reconcile.Request]{reconcile.From(children, ownersChanged)}
	for _, kind := range owners {
		sources = append(sources, kind.orphans(byOwner))
	}
	return ctrl, ctrl.Watch(sources...)
}

func checkCascade[S, T any](children *cache.Cache[S, T], owners []OwnerKind[S, T]) error {
	switch {
	case children == nil:
		return errors.New("there is no cache of children")
	case len(owners) == 0:
		return errors.New("there is no kind of owners")
	case slices.ContainsFunc(owners, func(k OwnerKind[S, T]) bool { return k.gone == nil }):
		return errors.New("there is no cache of owners")
	}
	return nil
}

// ownersChanged passes what may have made an object an orphan.
func ownersChanged[S, T any](ch cache.Change[S, T]) bool {
	return ch.New != nil && (ch.Old == nil || ch.Old.UID != ch.New.UID || !slices.Equal(ch.Old.Owners, ch.New.Owners))
}

type cascade[S, T any] struct {
	children *cache.Cache[S, T]
	owners   []OwnerKind[S, T]
}

func (c *cascade[S, T]) Reconcile(ctx context.Context, key store.Key) (reconcile.Result, error) {
	s := c.children.Store()
	o, err := s.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) || err == nil && (o.Deleting() || len(o.Owners) == 0) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	for _, owner := range o.Owners {
		if gone, err := c.gone(ctx, owner); err != nil || !gone {
			return reconcile.Result{}, err
		}
	}
	if err := reconcile.CheckNewer(&o.Meta); err != nil {
		return reconcile.Result{}, err
	}
	reconcile.Logger(ctx).InfoContext(ctx, "deleting an object whose owners have gone", "kind", s.Kind(), "uid", o.UID, "owners", o.Owners)
	return object.Again(s.Delete(ctx, o)) // a conflict may be a new owner
}

func (c *cascade[S, T]) gone(ctx context.Context, owner store.Owner) (bool, error) {
	if owner.UID == "" {
		return false, nil // any object of the key may be meant
	}
	known := false
	for _, k := range c.owners { // owners of one kind may lie in several stores
		if k.kind != owner.Kind {
			continue
		}
		if gone, err := k.gone(ctx, owner); err != nil || !gone {
			return false, err
		}
		known = true
	}
	return known, nil
}
