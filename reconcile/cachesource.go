package reconcile

import (
	"context"
	"errors"
	"slices"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// From is the source of a controller of the cache's own kind: every object's key,
// at the start in the lowest band, and then whenever a change passes all of
// when. Without any, Changed decides. It is synced when the cache is.
//
// A change is urgent (it ends a backoff or a park) if the generation rose, deletion
// was asked for, the object is gone or was unpaused, and the key's own run did
// not write it. FromWith has another rule.
func From[S, T any](c *cache.Cache[S, T], when ...Predicate[S, T]) Source[Request] {
	if slices.ContainsFunc(when, isNilPredicate) {
		return Source[Request]{bad: errors.New("From: a nil Predicate")}
	}
	return FromWith(c, FromOptions[S, T]{When: all(when)})
}

// FromOptions is what else From can do.
type FromOptions[S, T any] struct {
	// When says which changes matter. Default: Changed.
	When Predicate[S, T]
	// Urgent replaces the rule of what ends a backoff. It is asked once for each
	// change that passed When, with what the change was; what the key's own run
	// wrote is never urgent, whatever it says. Default: the rule of From.
	Urgent func(c cache.Change[S, T]) bool
}

// FromWith is From with options.
func FromWith[S, T any](c *cache.Cache[S, T], o FromOptions[S, T]) Source[Request] {
	if c == nil {
		return Source[Request]{bad: errors.New("From: no cache")}
	}
	setDefaultFunc(&o.When, Changed)
	if o.Urgent == nil {
		o.Urgent = urgent
	}
	return Source[Request]{
		Name: c.Name(), kind: c.Kind(), cache: c,
		exists: func(k Request) bool { _, ok := c.Get(k); return ok },
		relist: func(to Sink[Request]) error {
			for obj := range c.All() {
				if err := to.Add(obj.Key(), queue.AddOptions{Priority: bandInitial}); err != nil {
					return err
				}
			}
			return nil
		},
		Run: func(ctx context.Context, to Sink[Request]) error {
			saw, _ := to.(interface {
				saw(Request, Cached, store.Revision)
			})
			own, tell := unlessOwn(to, c), telling(to)
			return follow(ctx, c, to, func(ch cache.Change[S, T]) error {
				if saw != nil { // after the question whose write it was has been answered
					defer saw.saw(ch.Key, c, revisionOf(ch))
				}
				switch {
				case ch.Initial:
					return addWaiting(ctx, to, ch.Key, queue.AddOptions{Priority: bandInitial})
				case !o.When(ch):
					return nil
				}
				tell(ch.Key, ch.Key, revisionOf(ch))
				if !o.Urgent(ch) {
					return addWaiting(ctx, to, ch.Key, queue.AddOptions{Priority: bandLive})
				}
				return addWaiting(ctx, own(revisionOf(ch)), ch.Key, queue.AddOptions{Priority: bandLive, Urgent: true})
			})
		},
	}
}

// telling gives what tells the controller which change is about to add a key.
func telling[K comparable](to Sink[K]) func(key K, object store.Key, rev store.Revision) {
	if s, ok := to.(interface {
		caused(K, store.Key, store.Revision)
	}); ok {
		return s.caused
	}
	return func(K, store.Key, store.Revision) {}
}

// caused tells the controller which change is about to add key.
func caused[K comparable](to Sink[K], key K, object store.Key, rev store.Revision) {
	if s, ok := to.(interface {
		caused(K, store.Key, store.Revision)
	}); ok {
		s.caused(key, object, rev)
	}
}

func (s *sink[K]) caused(key K, object store.Key, rev store.Revision) {
	if hook := s.c.o.Hooks.OnAdd; hook != nil && !s.c.elsewhere(key) {
		s.c.containHere("OnAdd", func() {
			hook(key, Origin{Controller: s.c.name, Source: s.Name, Kind: s.kind, Key: object, Revision: rev})
		})
	}
}

// follow calls each for every change of a cache, and Synced where it belongs.
func follow[K comparable, S, T any](ctx context.Context, c *cache.Cache[S, T], to Sink[K], each func(cache.Change[S, T]) error) error {
	for ch, err := range c.Changes(ctx) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case ch.Synced:
			to.Synced()
			continue
		}
		if err := each(ch); err != nil {
			return err
		}
	}
	return nil
}

// urgent is the rule of From: somebody wants this object to be looked at now. A
// change that came with an own write folded over it needs no urgency: the
// write compared revisions, so the run that made it had read the change.
func urgent[S, T any](c cache.Change[S, T]) bool {
	switch {
	case c.New == nil:
		return true
	case c.Old == nil || c.Old.UID != c.New.UID:
		return true // made after the start
	}
	return c.New.Generation > c.Old.Generation ||
		c.New.Deleting() && !c.Old.Deleting() ||
		c.Old.Paused && !c.New.Paused ||
		c.Old.Annotations[store.AnnotationReconcileNow] != c.New.Annotations[store.AnnotationReconcileNow]
}

func revisionOf[S, T any](c cache.Change[S, T]) store.Revision {
	if c.New != nil {
		return c.New.Revision
	}
	return c.Revision
}

// ownSink asks the controller whether the key's own run made the change.
type ownSink[K comparable] struct {
	Sink[K]
	live func(K, Cached, store.Revision, queue.AddOptions) error
	from Cached
	rev  store.Revision
}

func (s *ownSink[K]) Add(key K, o queue.AddOptions) error { return s.live(key, s.from, s.rev, o) }

// unlessOwn gives what makes a sink for each revision: one that asks whether the
// key's own run made it. It is one sink for all, used one revision after the other.
func unlessOwn[K comparable](to Sink[K], from Cached) func(store.Revision) Sink[K] {
	l, ok := to.(interface {
		live(K, Cached, store.Revision, queue.AddOptions) error
	})
	if !ok {
		return func(store.Revision) Sink[K] { return to } // somebody else's sink: nothing is known of its runs
	}
	own := &ownSink[K]{Sink: to, live: l.live, from: from}
	return func(r store.Revision) Sink[K] {
		own.rev = r
		return own
	}
}

// live admits a change that is urgent unless the key's own run made it.
func (s *sink[K]) live(key K, from Cached, rev store.Revision, o queue.AddOptions) error {
	return s.c.live(seen[K]{key, from, rev}, o)
}

// saw notes that the source has taken a change.
func (s *sink[K]) saw(key K, from Cached, rev store.Revision) { s.c.show(seen[K]{key, from, rev}) }

func isNilPredicate[S, T any](p Predicate[S, T]) bool { return p == nil }

// all passes what every predicate passes; nil if there is none.
func all[S, T any](when []Predicate[S, T]) Predicate[S, T] {
	if len(when) == 0 {
		return nil
	}
	return And(when...)
}

func setDefaultFunc[S, T any](p *Predicate[S, T], def Predicate[S, T]) {
	if *p == nil {
		*p = def
	}
}
