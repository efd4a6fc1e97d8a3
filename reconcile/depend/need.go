package depend

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// Needs is one kind of which objects need some, made by [On] or [Watching], or several
// kinds, made by [All].
type Needs[S, T any] struct {
	several []Needs[S, T] // in place of the fields that follow

	kind  string
	waits bool // the object waits for it and keeps it; else it is only watched
	cache reconcile.Cached
	keys  func(o *store.Object[S, T]) []store.Key
	err   error // why it cannot be used

	family family // the needed objects, for a Graph

	// look is the needed object as the cache has it.
	look func(finalizer string, key store.Key) state
	// take reads the object from its store and, if it is usable, makes sure that it
	// carries the finalizer.
	take func(ctx context.Context, finalizer string, key store.Key) (state, error)
	// leaving is the uid of an object that is in deletion and carries the finalizer, as far
	// as the cache knows; empty: it is not, or does not.
	leaving func(finalizer string, key store.Key) (uid string)
	// release removes the finalizer from the object of the uid, if it is in deletion.
	release func(ctx context.Context, finalizer string, key store.Key, uid string) error
	// changes calls each for the key of every needed object and of every change, and
	// synced after the first whole list, until ctx ends.
	changes func(ctx context.Context, each func(store.Key), synced func()) error
}

// role is what an object of the kind is to those that refer to it.
func (n Needs[S, T]) role() introspect.Role {
	if n.waits {
		return introspect.Needed
	}
	return introspect.Watched
}

// NeedOptions say what of a needed object is asked for. Nil and zero fields mean the
// stated default. The functions must depend on nothing but the object, and be quick.
type NeedOptions[NS, NT any] struct {
	// Ready says whether the object may be used. Default: its method Ready, that is, the
	// condition Ready for the present generation; with a Value: that the value is not
	// empty. Objects in deletion are never used. It means nothing to [Watching].
	Ready func(n *store.Object[NS, NT]) bool
	// Value is the part of the object that is an input of its users, as a text: an id in
	// its status, say. When it changes, the users run again. Default: nothing; of what is
	// only watched the generation, that is, the spec.
	Value func(n *store.Object[NS, NT]) string
}

// On declares that objects need others, of the cache's kind: keys gives those of an
// object. The object waits until they exist, are ready, and are not in deletion; it runs
// again when another one takes the name of one of them, or its value changes; and they
// are not deleted before the object has gone or needs them no more. keys must depend on
// nothing but the object, and not write to it; keys that cannot be are left out.
//
// A cache with a selector must be told of [Finalizer], as one of its Finalizers.
func On[S, T, NS, NT any](needed *cache.Cache[NS, NT], keys func(o *store.Object[S, T]) []store.Key, o *NeedOptions[NS, NT]) Needs[S, T] {
	return newNeeds(needed, keys, o, true)
}

// Watching declares that objects refer to others that they do not wait for and do not
// keep, such as secrets: a change ends the backoff and the park of the objects, and runs
// them again.
func Watching[S, T, NS, NT any](watched *cache.Cache[NS, NT], keys func(o *store.Object[S, T]) []store.Key, o *NeedOptions[NS, NT]) Needs[S, T] {
	return newNeeds(watched, keys, o, false)
}

func newNeeds[S, T, NS, NT any](c *cache.Cache[NS, NT], keys func(o *store.Object[S, T]) []store.Key, given *NeedOptions[NS, NT], waits bool) Needs[S, T] {
	switch {
	case c == nil:
		return Needs[S, T]{err: errors.New("depend: needs without a cache")}
	case keys == nil:
		return Needs[S, T]{err: fmt.Errorf("depend: needs of kind %q without keys", c.Kind())}
	case waits && c.Store().RequiresGuard():
		// The finalizer of a needed object is removed by whichever server sees that
		// nothing uses it, and not by the holder of a lease.
		return Needs[S, T]{err: fmt.Errorf("depend: the store of the needed kind %q has RequireGuard, and the finalizer of a needed object is written without a guard: give the need a cache of store.Unguarded()", c.Kind())}
	case c.Shards() > 0:
		return Needs[S, T]{err: fmt.Errorf("depend: cache %q holds shards, and what is needed may be in any", c.Name())}
	}
	var o NeedOptions[NS, NT]
	if given != nil {
		o = *given
	}
	k := needed[NS, NT]{cache: c, options: o, waits: waits}
	return Needs[S, T]{
		kind: c.Kind(), waits: waits, cache: c, keys: keys, family: familyOf(c),
		look: k.look, take: k.take, leaving: k.leaving, release: k.release, changes: k.changes,
	}
}

// All is several needs as one, for [New].
func All[S, T any](needs ...Needs[S, T]) Needs[S, T] { return Needs[S, T]{several: needs} }

// list is each need by itself.
func (n Needs[S, T]) list() (all []Needs[S, T]) {
	if n.several == nil {
		return []Needs[S, T]{n}
	}
	for _, part := range n.several {
		all = append(all, part.list()...)
	}
	return all
}

// needed is what Needs knows of the type of the needed objects.
type needed[NS, NT any] struct {
	cache   *cache.Cache[NS, NT]
	options NeedOptions[NS, NT]
	waits   bool
}

// state is what of a needed object matters to its users. It is comparable.
type state struct {
	asked    asked
	exists   bool
	deleting bool
	newer    bool // this program knows it in part: see reconcile.CheckNewer
	unread   bool // it cannot be decoded: the rest is of an earlier version of it
	kept     bool // it carries the finalizer
	met      bool // it may be used
}

// asked is what a run of a user has seen of a needed object. A run with another one is a
// run of something else.
type asked struct{ uid, value string }

// reason is why the object may not be used.
func (s state) reason() string {
	switch {
	case !s.exists:
		return ReasonNotFound
	case s.deleting:
		return ReasonDeleting
	case s.newer:
		return reasonNewer
	case s.unread:
		return reasonUndecodable
	}
	return ReasonNotReady
}

func (k needed[NS, NT]) look(finalizer string, key store.Key) state {
	n, ok := k.cache.Get(key)
	switch {
	case k.waits && k.cache.Undecodable(key) != nil:
		s := state{exists: true, unread: true}
		if ok {
			s.asked.uid, s.deleting, s.kept = n.UID, n.Deleting(), n.HasFinalizer(finalizer)
		}
		return s
	case !ok:
		return state{met: !k.waits}
	}
	return k.stateOf(n, finalizer)
}

func (k needed[NS, NT]) stateOf(n *store.Object[NS, NT], finalizer string) state {
	s := state{asked: asked{uid: n.UID}, exists: true, deleting: n.Deleting(), newer: n.Newer, kept: n.HasFinalizer(finalizer)}
	if s.newer {
		return s
	}
	switch {
	case k.options.Value != nil:
		s.asked.value = k.options.Value(n)
	case !k.waits:
		s.asked.value = strconv.FormatInt(n.Generation, 10)
	}
	switch {
	case !k.waits:
		s.met = true
	case s.deleting:
	case k.options.Ready != nil:
		s.met = k.options.Ready(n)
	case k.options.Value != nil:
		s.met = s.asked.value != ""
	default:
		s.met = n.Ready()
	}
	return s
}

// errUnusable ends a Mutate that finds the object unusable.
var errUnusable = errors.New("depend: the object may not be used")

func (k needed[NS, NT]) take(ctx context.Context, finalizer string, key store.Key) (s state, err error) {
	_, err = k.cache.Store().Mutate(ctx, key, func(n *store.Object[NS, NT]) error {
		if s = k.stateOf(n, finalizer); !s.met {
			return errUnusable
		}
		n.AddFinalizer(finalizer)
		return nil
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return state{}, nil
	case errors.Is(err, errUnusable):
		return s, nil
	case err != nil:
		return s, fmt.Errorf("depend: keep %s %s: %w", k.cache.Kind(), key, err)
	}
	return s, nil
}

func (k needed[NS, NT]) leaving(finalizer string, key store.Key) (uid string) {
	if n, ok := k.cache.Get(key); ok && n.Deleting() && n.HasFinalizer(finalizer) {
		return n.UID
	}
	return ""
}

func (k needed[NS, NT]) release(ctx context.Context, finalizer string, key store.Key, uid string) error {
	_, err := k.cache.Store().Mutate(ctx, key, func(n *store.Object[NS, NT]) error {
		if n.Deleting() && n.UID == uid { // another of its name may be held since the list
			n.RemoveFinalizer(finalizer)
		}
		return nil
	})
	if err == nil || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return fmt.Errorf("depend: release %s %s: %w", k.cache.Kind(), key, err)
}

func (k needed[NS, NT]) changes(ctx context.Context, each func(store.Key), synced func()) error {
	for ch, err := range k.cache.Changes(ctx, nil) {
		switch {
		case err != nil:
			return err
		case ch.Synced:
			synced()
		default:
			each(ch.Key)
		}
	}
	return nil
}
