package objects

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// A Kind is the objects of one kind, without their Go types. [Of] and [OfCache] make
// one of a store, [Bare] of a backend alone. All methods may be called from any
// goroutine.
type Kind interface {
	// Kind is the kind's name.
	Kind() string
	// Get returns the object as of now, or [store.ErrNotFound].
	Get(ctx context.Context, k store.Key) (Object, error)
	// All yields every object that the selector picks, in no order. One that cannot
	// be decoded has Err set.
	All(ctx context.Context, sel store.Selector) iter.Seq2[Object, error]
	// Watch yields what [store.Store.Watch] does.
	Watch(ctx context.Context, after store.Revision) iter.Seq2[Event, error]
	// Put creates the object of key k (at zero), or replaces its spec, labels,
	// annotations, finalizers, owners and pause if it is at revision at. A uid, generation, intent
	// or time of creation or deletion that is not the stored one is [store.ErrInvalid]; the rest of
	// the JSON is ignored. It is an edit by a person ([store.Store.UpdateByHand]). See [store.Store.Parse] for secrets and errors, and
	// [store.Store.Create] and [store.Store.Update] for the other errors.
	Put(ctx context.Context, k store.Key, at store.Revision, data []byte) (Object, error)
	// Apply declares the fields that data has, with labels and annotations, under a name, see
	// [store.Store.ApplyFields]: it creates the object or merges them into what is stored. With a uid in data
	// the object of that uid is meant, and no other.
	Apply(ctx context.Context, k store.Key, owner string, force bool, data []byte) (Object, error)
	// Edit lets change edit the metadata of the object, again after a conflict, and
	// stores what [store.Store.Update] would. A nonzero at is the revision that the
	// object must have.
	Edit(ctx context.Context, k store.Key, at store.Revision, change func(*store.Meta) error) (Object, error)
	// Delete asks for the deletion of the object if it is at the revision; zero
	// means whatever it is at.
	Delete(ctx context.Context, k store.Key, at store.Revision) error
	// RemoveFinalizer takes a finalizer away by force, and logs it. One that the object
	// does not have is [store.ErrNotFound]: the name may be misspelt.
	RemoveFinalizer(ctx context.Context, k store.Key, name string) (Object, error)
	// Answer records what an operator found out about the object's external resource, and
	// asks for a run. An external name is for Created, and for no other. It compares the
	// revision, and begins again after a conflict. An object that does not ask for the
	// answer is [ErrNotPending], and is not written.
	Answer(ctx context.Context, k store.Key, a Answer, externalName string) (Object, error)
}

// Object is one object of any kind. It is read-only.
type Object struct {
	Kind string
	store.Meta
	Conditions         []store.Condition // without secrets; of [States] some have no texts
	Phase              store.Phase
	ObservedGeneration int64
	// Err says that the object cannot be decoded; nothing but its key is known.
	Err error

	show  func() ([]byte, error)
	texts func() []store.Condition // the conditions with their texts; nil: Conditions has them
}

// Event is a change of one object, see [store.Event].
type Event struct {
	Kind     store.BatchKind
	Revision store.Revision
	Key      store.Key
	Object   Object // zero unless HasObject
	// HasObject is false for the ends of snapshots, for progress, and for deletions
	// whose object is no longer known.
	HasObject bool
	Deleted   bool
	Err       error // the object cannot be decoded
}

// JSON returns the whole object as [store.Store.Show] does: without its secrets.
func (o Object) JSON() ([]byte, error) {
	if o.show == nil {
		return nil, o.Err
	}
	return o.show()
}

// WithTexts returns an object of [States] with the reasons and messages of its conditions.
func (o Object) WithTexts() Object {
	if o.texts != nil {
		o.Conditions, o.texts = o.texts(), nil
	}
	return o
}

// Of returns the objects of a store.
func Of[S, T any](s *store.Store[S, T]) Kind { return &kind[S, T]{s, nil} }

// OfCache returns the objects of a cache's store. All reads the cache, and so costs the
// backend nothing; before the cache has synced it is an error. Of a cache of shards it yields the
// objects of the shards that this process holds, and no others: see [Partial]. Get and Watch read
// the store.
func OfCache[S, T any](c *cache.Cache[S, T]) Kind { return &kind[S, T]{c.Store(), c} }

type kind[S, T any] struct {
	store *store.Store[S, T]
	cache *cache.Cache[S, T]
}

// partial implements [Partial].
func (k *kind[S, T]) partial() bool { return k.cache != nil && k.cache.Shards() > 0 }

func (k *kind[S, T]) Kind() string { return k.store.Kind() }

// Rewrite is [store.Rewrite]. [Bare] kinds, which have no Go type, do not have it.
func (k *kind[S, T]) Rewrite(ctx context.Context) (int, error) { return store.Rewrite(ctx, k.store) }

func (k *kind[S, T]) object(o *store.Object[S, T]) Object { return k.state(o).WithTexts() }

// state is object without the texts of the conditions, if secrets may be in them.
func (k *kind[S, T]) state(o *store.Object[S, T]) Object {
	v := Object{Kind: k.Kind(), Meta: o.Meta, Conditions: o.Conditions, Phase: o.Phase, ObservedGeneration: o.ObservedGeneration}
	v.show = func() ([]byte, error) { return k.store.Show(o) }
	if k.store.HasSecrets() || o.Intent.Outputs != (store.Outputs{}) {
		v.Conditions = slices.Clone(o.Conditions)
		for i := range v.Conditions {
			v.Conditions[i].Reason, v.Conditions[i].Message = "", ""
		}
		v.texts = func() []store.Condition { return k.store.RedactConditions(o) }
	}
	return v
}

// result is what the methods that write return.
func (k *kind[S, T]) result(o *store.Object[S, T], err error) (Object, error) {
	if err != nil {
		return Object{}, err
	}
	return k.object(o), nil
}

func (k *kind[S, T]) Get(ctx context.Context, key store.Key) (Object, error) {
	return k.result(k.store.Get(ctx, key))
}

func (k *kind[S, T]) All(ctx context.Context, sel store.Selector) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for o, err := range k.states(ctx, sel) {
			if !yield(o.WithTexts(), err) {
				return
			}
		}
	}
}

// states implements [States].
func (k *kind[S, T]) states(ctx context.Context, sel store.Selector) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if k.cache != nil {
			k.cached(sel)(yield)
			return
		}
		for o, err := range k.store.All(ctx, sel) {
			var v Object
			if err == nil {
				v = k.state(o)
			} else if broken, ok := errors.AsType[*store.DecodeError](err); ok {
				v = k.undecodable(broken.Key, err)
				v.Revision = broken.Revision
				err = nil
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

func (k *kind[S, T]) undecodable(key store.Key, err error) Object {
	v := Object{Kind: k.Kind(), Err: err}
	v.Namespace, v.Name = key.Namespace, key.Name
	return v
}

// cached is states of a cache. Of an object that cannot be decoded the cache may hold an
// older version, which is left out.
func (k *kind[S, T]) cached(sel store.Selector) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		select {
		case <-k.cache.Synced():
		default:
			yield(Object{}, fmt.Errorf("objects: the cache of %s has not synced yet", k.Kind()))
			return
		}
		broken := k.cache.Snapshot().Undecodable
		for o := range k.cache.All() {
			if _, is := broken[o.Key()]; !is && sel.Matches(&o.Meta) && !yield(k.state(o), nil) {
				return
			}
		}
		for key, err := range broken {
			if (sel.Namespace == "" || sel.Namespace == key.Namespace) && !yield(k.undecodable(key, err), nil) {
				return
			}
		}
	}
}

func (k *kind[S, T]) Watch(ctx context.Context, after store.Revision) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for e, err := range k.store.Watch(ctx, after) {
			v := Event{Kind: e.Kind, Revision: e.Revision, Key: e.Key, Deleted: e.Deleted, Err: e.Err}
			if e.Object != nil {
				v.Object, v.HasObject = k.object(e.Object), true
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

func (k *kind[S, T]) Put(ctx context.Context, key store.Key, at store.Revision, data []byte) (Object, error) {
	var stored *store.Object[S, T]
	if at != 0 {
		var err error
		if stored, err = k.store.Get(ctx, key); err == nil && stored.Revision != at {
			err = k.conflict(ctx, key, at)
		}
		if err != nil {
			return Object{}, err
		}
	}
	o, err := k.store.Parse(data, stored)
	if err != nil {
		return Object{}, err
	}
	if err := onlyTheStore(&o.Meta, stored); err != nil {
		return Object{}, fmt.Errorf("%s %s: %w", k.Kind(), key, err)
	}
	o.Namespace, o.Name, o.Revision = key.Namespace, key.Name, at
	if at == 0 {
		var zero T // what was found is not declared
		o.Status, o.Conditions, o.Phase, o.ObservedGeneration = zero, nil, "", 0
		return k.result(k.store.Create(ctx, o))
	}
	return k.result(k.store.UpdateByHand(ctx, o))
}

func (k *kind[S, T]) Apply(ctx context.Context, key store.Key, owner string, force bool, data []byte) (Object, error) {
	stored, err := k.store.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Object{}, err
	}
	o, err := k.store.Parse(data, stored)
	if err != nil {
		return Object{}, err
	}
	o.Meta = store.Meta{Namespace: key.Namespace, Name: key.Name, UID: o.UID, Labels: o.Labels, Annotations: o.Annotations}
	var zero T // what was found is not declared
	o.Status, o.Conditions, o.Phase, o.ObservedGeneration = zero, nil, "", 0
	return k.result(k.store.ApplyFields(ctx, o, owner, force))
}

// onlyTheStore refuses what a caller gives and only the store writes, if it differs from what is
// stored: dropped in silence it would look as if it had been written.
func onlyTheStore[S, T any](given *store.Meta, stored *store.Object[S, T]) error {
	var is store.Meta
	if stored != nil {
		is = stored.Meta
	}
	intent := given.Intent
	intent.Outputs = is.Intent.Outputs // no JSON that is shown has them
	for _, f := range []struct {
		name  string
		wrong bool
	}{
		{"uid", given.UID != "" && given.UID != is.UID},
		{"generation", given.Generation != 0 && given.Generation != is.Generation},
		{"created", !given.Created.IsZero() && !given.Created.Equal(is.Created)},
		{"deleted", !given.Deleted.IsZero() && !given.Deleted.Equal(is.Deleted)},
		{"intent", given.Intent != (store.Intent{}) && intent != is.Intent},
	} {
		if f.wrong {
			return fmt.Errorf("%w: meta.%s is not to be written: leave it out, or as it is", store.ErrInvalid, f.name)
		}
	}
	return nil
}

// conflict is the error of a write at a revision that is not that of the object.
func (k *kind[S, T]) conflict(ctx context.Context, key store.Key, at store.Revision) error {
	r, err := k.store.Backend().Get(ctx, k.Kind(), key)
	if err != nil {
		return err
	}
	return &store.ConflictError{Want: store.Compare{Kind: k.Kind(), Key: key, Revision: at}, Current: r}
}

func (k *kind[S, T]) Edit(ctx context.Context, key store.Key, at store.Revision, change func(*store.Meta) error) (Object, error) {
	return k.result(k.store.Mutate(ctx, key, func(o *store.Object[S, T]) error {
		if at != 0 && o.Revision != at {
			return k.conflict(ctx, key, at)
		}
		return change(&o.Meta)
	}))
}

func (k *kind[S, T]) Delete(ctx context.Context, key store.Key, at store.Revision) error {
	pause := sleep.Backoff{Min: time.Millisecond, Max: time.Second}
	var uid string
	var conflict error // of the last attempt
	for {
		o, err := k.store.Get(ctx, key)
		if err != nil {
			return err
		}
		if conflict != nil && o.UID != uid {
			return conflict // another object of this name is not meant
		}
		uid = o.UID
		if at != 0 {
			o.Revision = at
		}
		if conflict = k.store.Delete(ctx, o); at != 0 || !errors.Is(conflict, store.ErrConflict) {
			return conflict
		}
		pause.Wait(ctx) // a controller may write a status meanwhile; Get fails when ctx ends
	}
}

func (k *kind[S, T]) RemoveFinalizer(ctx context.Context, key store.Key, name string) (Object, error) {
	o, err := k.store.Get(ctx, key)
	switch {
	case err != nil:
		return Object{}, err
	case !o.HasFinalizer(name):
		return Object{}, fmt.Errorf("%w: %s %s has no finalizer %.100q; those that it has: %q", store.ErrNotFound, k.Kind(), key, name, o.Finalizers)
	}
	return k.result(k.store.RemoveFinalizer(ctx, key, name))
}
