package main

import (
	"context"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/declare"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// A keeper is tend, put together for one kind: a store of what is declared, a
// cache of it, and a controller that runs the external reconciler for what
// changes or is due.
type keeper[S comparable] struct {
	store      *store.Store[S, Seen[S]]
	cache      *cache.Cache[S, Seen[S]]
	controller *reconcile.Controller[reconcile.Request]
	file       *declare.File[S, Seen[S]]
	objects    *program.Kind[S, Seen[S]]
}

// newKeeper makes a keeper of objects with these needs, often none.
func newKeeper[S comparable](a *app, backend store.Backend, t thing[S], specs func(declared) map[string]S, needs ...depend.Needs[S, Seen[S]]) (*keeper[S], error) {
	k := &keeper[S]{}
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
	if k.objects, err = program.Of(k.cache, &program.KindOptions[S, Seen[S]]{Stuck: external.NotOurs[S, Seen[S]]}); err != nil {
		return nil, err
	}
	o, err := k.objects.Track(&reconcile.Options[reconcile.Request]{
		Workers: 4, // they take turns at the one connection
		Backoff: queue.Backoff{Base: 50 * time.Millisecond, Max: a.o.Poll},
	})
	if err != nil {
		return nil, err
	}
	if k.controller, err = reconciler.Controller("", k.cache, o); err != nil {
		return nil, err
	}
	k.file, err = declare.New(k.store, k.cache, a.o.File, &declare.Options[S, Seen[S]]{
		Every: min(a.o.Poll, time.Second),
		Decode: func(data []byte) (set []*store.Object[S, Seen[S]], err error) {
			d, err := parseDeclared(data)
			if err != nil {
				return nil, err
			}
			a.known(d)
			for name, spec := range specs(d) {
				set = append(set, &store.Object[S, Seen[S]]{Meta: store.Meta{Name: name}, Spec: spec})
			}
			return set, nil
		},
	})
	return k, err
}

// owners says which role a database needs: its owner, if it is one of those that are
// declared here or were.
func (a *app) owners() depend.Needs[DatabaseSpec, Seen[DatabaseSpec]] {
	return depend.On(a.roles.cache, func(o *store.Object[DatabaseSpec, Seen[DatabaseSpec]]) []store.Key {
		a.mu.Lock()
		defer a.mu.Unlock()
		if !a.ours[o.Spec.Owner] {
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
