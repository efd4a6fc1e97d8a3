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
)

// keep adds a kind with these needs, often none: the external reconciler that runs for what
// changes or is due, and the file that declares the objects.
func keep[S comparable](a *app, t thing[S], specs func(declared) map[string]S, needs ...depend.Needs[S, Seen[S]]) *program.Objects[S, Seen[S]] {
	p := a.program
	k := program.AddKind(p, t.kind, &program.ObjectsOptions[S, Seen[S]]{Progress: &program.KindOptions[S, Seen[S]]{Stuck: external.NotOurs[S, Seen[S]]}})
	var depends *depend.Tracker[S, Seen[S]]
	var err error
	if len(needs) > 0 {
		graph := depend.NewGraph()
		p.Use(graph, nil) // the page counts what waits for an object at why that fails
		depends, err = depend.New(k.Cache(), depend.All(needs...), &depend.Options{Graph: graph, Logger: p.Manager.Logger})
		p.Check(err)
	}
	connect := external.ConnectorFunc[S, Seen[S]](func(_ context.Context, o *store.Object[S, Seen[S]]) (external.Client[S, Seen[S]], error) {
		h := &hand[S]{thing: t, session: a.session, mark: mark{external.NewMark(a.installation, t.kind, o)}}
		if !a.o.durable() {
			h.mark.UID, h.mark.Declared = "", 0 // a uid of a store in memory says nothing to the next process
		}
		return h, nil
	})
	reconciler, err := external.New(k.Store, connect, &external.Options[S, Seen[S]]{
		Naming:        external.ByUs, // a name is an identity, and the server refuses a second one
		CreationGrace: time.Millisecond,
		Poll:          a.o.Poll,
		MinPoll:       min(a.o.Poll, time.Second),
		Changes:       a.changed,
		Depends:       depends,
	})
	p.Check(err)
	k.ReconcileBy(reconciler, &reconcile.Options[reconcile.Request]{
		Workers: 4, // they take turns at the one connection
		Backoff: queue.Backoff{Base: 50 * time.Millisecond, Max: a.o.Poll},
	})
	p.Use(declare.New(k.Store, k.Cache(), a.o.File, &declare.Options[S, Seen[S]]{
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
	}))
	return k
}

// owners says which role a database needs: its owner, if it is one of those that are
// declared here or were.
func (a *app) owners() depend.Needs[DatabaseSpec, Seen[DatabaseSpec]] {
	return depend.On(a.roles.Cache(), func(o *store.Object[DatabaseSpec, Seen[DatabaseSpec]]) []store.Key {
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
func (a *app) freed() reconcile.Source[reconcile.Request] {
	mapper := func(_ context.Context, old, now *store.Object[DatabaseSpec, Seen[DatabaseSpec]]) (keys []reconcile.Request, _ error) {
		for _, o := range [2]*store.Object[DatabaseSpec, Seen[DatabaseSpec]]{old, now} {
			if o == nil {
				continue
			}
			for _, owner := range [2]string{o.Spec.Owner, o.Status.Found.Owner} {
				if role, ok := a.roles.Cache().Get(store.Key{Name: owner}); ok && role.Deleting() {
					keys = append(keys, role.Key())
				}
			}
		}
		return keys, nil
	}
	return reconcile.MapWith(a.databases.Cache(), mapper, &reconcile.MapOptions[DatabaseSpec, Seen[DatabaseSpec]]{Urgent: true})
}
