package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// A keeper is tend, put together for one kind: a store of what is declared, a
// cache of it, and a controller that runs the external reconciler for what
// changes or is due.
type keeper[S comparable] struct {
	thing      thing[S]
	declared   map[string]S
	store      *store.Store[S, Seen[S]]
	cache      *cache.Cache[S, Seen[S]]
	controller *reconcile.Controller[reconcile.Request]

	mu     sync.Mutex
	agreed map[string]int64 // the generation in which this process saw it as declared
}

// newKeeper makes a keeper of objects with these needs, often none.
func newKeeper[S comparable](a *app, backend store.Backend, t thing[S], declared map[string]S, needs ...depend.Needs[S, Seen[S]]) (*keeper[S], error) {
	k := &keeper[S]{thing: t, declared: declared, agreed: map[string]int64{}}
	var err error
	if k.store, err = store.New[S, Seen[S]](backend, t.kind, nil); err != nil {
		return nil, err
	}
	if k.cache, err = cache.New(k.store, nil); err != nil {
		return nil, err
	}
	var depends *depend.Tracker[S, Seen[S]]
	if len(needs) > 0 {
		if depends, err = depend.New(k.cache, depend.All(needs...), &depend.Options{Logger: a.log}); err != nil {
			return nil, err
		}
	}
	connect := external.ConnectorFunc[S, Seen[S]](func(_ context.Context, o *store.Object[S, Seen[S]]) (external.Client[S, Seen[S]], error) {
		h := &hand[S]{thing: t, session: a.session, mark: mark{external.NewMark(a.installation, t.kind, o)}}
		if a.o.State == "" {
			h.mark.UID, h.mark.Declared = "", 0 // a uid of a store in memory says nothing to the next process
		}
		h.agree = func(generation int64) { k.agree(o.Name, generation) }
		return h, nil
	})
	reconciler, err := external.New(k.store, connect, &external.Options[S, Seen[S]]{
		Naming:        external.ByUs, // a name is an identity, and the server refuses a second one
		CreationGrace: time.Millisecond,
		Poll:          a.o.Poll,
		MinPoll:       min(a.o.Poll, time.Second),
		Changes:       a.changed,
		Depends:       depends,
	})
	if err != nil {
		return nil, err
	}
	k.controller, err = reconciler.Controller("", k.cache, &reconcile.Options[reconcile.Request]{
		Workers: 4, // they take turns at the one connection
		Backoff: queue.Backoff{Base: 50 * time.Millisecond, Max: a.o.Poll},
		Hooks: reconcile.Hooks[reconcile.Request]{
			OnDone: func(reconcile.Request, reconcile.Outcome, time.Duration) { a.wake() },
		},
		Logger: a.log,
	})
	return k, err
}

func (k *keeper[S]) agree(name string, generation int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.agreed[name] = generation
}

// load makes the store hold what is declared. What was declared before and is not
// now is deleted, which the reconciler then does on the server before the object
// goes. Some may have to wait for the end of a deletion under way.
func (k *keeper[S]) load(ctx context.Context) error {
	set := make([]*store.Object[S, Seen[S]], 0, len(k.declared))
	for name, spec := range k.declared {
		set = append(set, &store.Object[S, Seen[S]]{Meta: store.Meta{Name: name}, Spec: spec})
	}
	_, err := k.store.Apply(ctx, set, "declared.yaml", maxRemovals)
	return err
}

// maxRemovals is how many of one kind an edit may take away: a file that is half
// written, or another file by mistake, does not empty a server.
const maxRemovals = 10

// left lists what is not known to be as declared, with the reason where there is
// one. It reads the cache, which may be behind: then something is left.
func (k *keeper[S]) left() (left []string) {
	select {
	case <-k.cache.Synced():
	default:
		return []string{"the state has not been read yet"}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(k.declared)) {
		o, ok := k.cache.Get(store.Key{Name: name})
		if !ok || o.Deleting() || o.Spec != k.declared[name] || !o.Ready() || k.agreed[name] != o.Generation {
			left = append(left, describe(k.thing.kind, name, o))
		}
	}
	for o := range k.cache.All() {
		if _, ok := k.declared[o.Name]; !ok {
			left = append(left, describe(k.thing.kind, o.Name, o))
		}
	}
	return left
}

func describe[S comparable](kind, name string, o *store.Object[S, Seen[S]]) string {
	text := kind + " " + name
	if o != nil && o.Deleting() {
		text += ", to be dropped"
	}
	if why := obstacle(o); why != "" {
		text += ": " + why
	} else if why := waitsFor(o); why != "" {
		text += ": " + why
	}
	return text
}

// waitsFor is what the object waits for, by its conditions: the role that it needs, or
// the databases that still need it; empty: nothing.
func waitsFor[S comparable](o *store.Object[S, Seen[S]]) string {
	if o == nil {
		return ""
	}
	if c, _ := o.Condition(depend.ConditionDependencies); c.Status == store.False {
		return c.Message
	}
	if c, _ := o.Condition(store.ConditionReady); c.Reason == depend.ReasonInUse {
		return c.Message
	}
	return ""
}

// obstacle is what the object's condition says stands in its way; empty: nothing.
func obstacle[S comparable](o *store.Object[S, Seen[S]]) string {
	if o == nil {
		return ""
	}
	if c, ok := o.Condition(store.ConditionSynced); ok && c.Status == store.False {
		return c.Reason + ": " + c.Message
	}
	return ""
}

// owners says which role a database needs: its owner, if it is one of those that are
// declared here or were.
func owners(roles *keeper[RoleSpec], stored []*store.Object[RoleSpec, Seen[RoleSpec]]) depend.Needs[DatabaseSpec, Seen[DatabaseSpec]] {
	ours := make(map[string]struct{})
	for name := range roles.declared {
		ours[name] = struct{}{}
	}
	for _, o := range stored {
		ours[o.Name] = struct{}{}
	}
	return depend.On(roles.cache, func(o *store.Object[DatabaseSpec, Seen[DatabaseSpec]]) []store.Key {
		if _, ok := ours[o.Spec.Owner]; !ok {
			return nil
		}
		return []store.Key{{Name: o.Spec.Owner}}
	}, nil)
}

// freed is the source that runs the roles that are waiting to be dropped when a
// database that was altered by hand to be theirs changes hands or goes: the server would
// refuse them until then, and they would find out only after their backoff.
func freed(d *keeper[DatabaseSpec], r *keeper[RoleSpec]) reconcile.Source[reconcile.Request] {
	mapper := func(_ context.Context, old, now *store.Object[DatabaseSpec, Seen[DatabaseSpec]]) (keys []reconcile.Request, _ error) {
		for _, o := range [2]*store.Object[DatabaseSpec, Seen[DatabaseSpec]]{old, now} {
			if o == nil {
				continue
			}
			for _, owner := range [2]string{o.Spec.Owner, o.Status.Found.Owner} {
				if role, ok := r.cache.Get(store.Key{Name: owner}); ok && role.Deleting() {
					keys = append(keys, role.Key())
				}
			}
		}
		return keys, nil
	}
	return reconcile.MapWith(d.cache, mapper, &reconcile.MapOptions[DatabaseSpec, Seen[DatabaseSpec]]{Urgent: true})
}
