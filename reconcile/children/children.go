package children

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lifecycle"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// Options of New. Nil and zero fields mean the stated default.
type Options struct {
	// MaxDelete is how many children of one owner an Apply may find that are no longer wanted. Default: 10;
	// negative: any number. See [AnnotationMayDelete].
	MaxDelete int
}

const defaultMaxDelete = 10

// AnnotationMayDelete on an owner is an operator's word for deletions that were refused: how many children may go at
// once, at which generation of the owner, and a hash of the names of the children that stay, as in "40@7#ab12cd34". If
// other children are wanted it allows nothing. The error has the words.
const AnnotationMayDelete = "tend.may-delete"

// ErrRefused says that children were not deleted, because there are too many of them or all of them.
var ErrRefused = errors.New("children: deletions are refused")

// Kinds are the kinds of the children of owners of one kind.
type Kinds[S, T any] struct {
	owners *store.Store[S, T]
	family
}

// family is a Kinds without its types.
type family struct {
	maxDelete int
	kinds     []kind
	sources   []reconcile.Source[reconcile.Request]
}

// New makes a Kinds for the owners in a store. Nil is an error.
func New[S, T any](owners *store.Store[S, T], o *Options) (*Kinds[S, T], error) {
	if owners == nil {
		return nil, errors.New("children: New needs the store of the owners")
	}
	k := &Kinds[S, T]{owners: owners, family: family{maxDelete: defaultMaxDelete}}
	if o != nil && o.MaxDelete != 0 {
		k.maxDelete = o.MaxDelete
	}
	return k, nil
}

// Sources run the owner when a child of it changes, even if it is backing off. They are of the kinds that were added
// until now.
func (k *Kinds[S, T]) Sources() []reconcile.Source[reconcile.Request] { return slices.Clone(k.sources) }

// Of begins the set of the children of one owner, as it was read for this run. A Set is for one goroutine.
func (k *Kinds[S, T]) Of(owner *store.Object[S, T]) *Set {
	of := k.owners.OwnerOf(owner)
	return &Set{of: &k.family, owner: of, meta: &owner.Meta, by: nameOf(of), refs: make(map[string]bool), same: func(ctx context.Context) (bool, error) {
		now, err := k.owners.Get(ctx, owner.Key())
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		return err == nil && now.UID == owner.UID && now.Generation == owner.Generation, err
	}}
}

// nameOf is the declarer of the fields of children.
func nameOf(o store.Owner) string {
	if name := o.Kind + " " + o.Key.String(); len(name) <= store.MaxLabel {
		return name
	}
	return o.UID
}

// Set is what one owner wants.
type Set struct {
	of         *family
	owner      store.Owner
	meta       *store.Meta // of the owner
	by         string      // the declarer of the children's fields
	same       func(ctx context.Context) (bool, error)
	wanted     []*Child
	refs       map[string]bool // of wanted
	mayBeEmpty bool
	bad        error // why the set cannot be applied
}

// MayBeEmpty says that an empty set is no mistake although there are children.
func (s *Set) MayBeEmpty() { s.mayBeEmpty = true }

// Child is a child that is wanted.
type Child struct {
	set    *Set
	kind   kind
	ref    string // see refOf
	object any    // of the kind's type, as it is declared
	after  []*Child
}

// refOf names a child among all of its owner, as in "pod prod/a".
func refOf(k kind, key store.Key) string { return k.name() + " " + key.String() }

// Kind is a kind of children. It is safe for concurrent use.
type Kind[S, T any] struct {
	of      *family
	store   *store.Store[S, T]
	byOwner *cache.Index[S, T]
}

// Add adds the kind of a cache to those of the children: of this kind Apply deletes what is not wanted. It adds
// an index to the cache, which must not have been run. A kind that was added already is an error, and so is a cache of
// shards, where children of an owner are missing.
func Add[S, T, OS, OT any](to *Kinds[OS, OT], c *cache.Cache[S, T]) (*Kind[S, T], error) {
	switch {
	case to == nil || c == nil:
		return nil, errors.New("children: Add needs a Kinds and a cache")
	case c.Shards() > 0:
		return nil, fmt.Errorf("children: Add: cache %q holds shards: children of an owner may lie in another server's", c.Name())
	case slices.ContainsFunc(to.kinds, func(k kind) bool { return k.name() == c.Kind() }):
		return nil, fmt.Errorf("children: Add: the kind %q was added already", c.Kind())
	}
	byOwner, err := c.AddIndex("owner of children", lifecycle.OwnerUIDs)
	if err != nil {
		return nil, err
	}
	k := &Kind[S, T]{&to.family, c.Store(), byOwner}
	to.kinds = append(to.kinds, k)
	to.sources = append(to.sources, reconcile.OwnsWith(c, "", &reconcile.MapOptions[S, T]{Urgent: true, KeepAttempts: true}))
	return k, nil
}

// Want puts an object into the set: what it declares of the spec, labels and annotations is kept so, see
// [store.Store.ApplyFields]. It becomes a child by Apply. It is created when those of after are Ready, and they are
// deleted after it.
func (k *Kind[S, T]) Want(s *Set, o *store.Object[S, T], after ...*Child) *Child {
	c := &Child{set: s, kind: k}
	switch {
	case s.of != k.of:
		s.bad = fmt.Errorf("%w: %s is no kind of the children of %s", store.ErrInvalid, k.name(), s.by)
	case o == nil:
		s.bad = fmt.Errorf("%w: nil wanted as a %s of %s", store.ErrInvalid, k.name(), s.by)
	case slices.ContainsFunc(after, func(a *Child) bool { return a == nil || a.set != s }):
		s.bad = fmt.Errorf("%w: %s %s is after a child of another set", store.ErrInvalid, k.name(), o.Key())
	default:
		c.ref, c.object, c.after = refOf(k, o.Key()), k.declared(s, o), after
		if s.refs[c.ref] {
			s.bad = fmt.Errorf("%w: %s is wanted twice", store.ErrInvalid, c.ref)
		}
		s.refs[c.ref] = true
	}
	s.wanted = append(s.wanted, c)
	return c
}
