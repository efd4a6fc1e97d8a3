package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// From is the source of a controller of the cache's own kind: every object's key,
// at the start in the lowest bands, first what is not Ready or is being deleted, and
// then whenever a change passes all of when. Without any, Changed decides; given ones take
// its place, so give Or(Changed[S, T], LabelsChanged) where labels matter besides. It is
// synced when the cache is.
//
// A change is urgent (it ends a backoff or a park) if the generation rose, deletion
// was asked for, the object is gone or was unpaused, and the key's own run did
// not write it. FromWith has another rule. An object that another writer made unready
// runs too, see FromOptions.ByOthers.
//
// A key that changes of the spec make run more than ten times in ten seconds is slowed: to
// one run in a growing time of 10 ms to a minute, or to Options.Resync if that is shorter. Ten
// seconds without a change end that; a kick, a deletion and what else makes a key run do not
// wait (promise R5). Until then no such change ends a run (Options.EndSuperseded).
func From[S, T any](c *cache.Cache[S, T], when ...Predicate[S, T]) Source[Request] {
	if slices.ContainsFunc(when, isNilPredicate) {
		return Source[Request]{bad: errors.New("From: a nil Predicate")}
	}
	return FromWith(c, &FromOptions[S, T]{When: all(when)})
}

// FromOptions is what else From can do.
type FromOptions[S, T any] struct {
	// When says which changes matter. It takes the place of the default, Changed. It is not
	// asked about what is there at the start and in shards that are gained, nor before a
	// resync: see Only.
	When Predicate[S, T]
	// only says which objects the controller is about, as those of a class: the source adds
	// the keys of others never, and they are not run again by Options.Resync. An object that
	// becomes one of them is run whatever When says. It must not write to the object, and must
	// not block. Default: all.
	only func(o *store.Object[S, T]) bool
	// ByOthers says which further changes matter if the key's own run did not make them.
	// They are not urgent, and the key runs a second later. Default: BecameUnready if When
	// is the default too, else none: what waits for the object would wait until the next
	// resync. A source's Run that is called with a Sink of the program's own adds none of them.
	ByOthers Predicate[S, T]
	// Urgent says what ends a backoff and a park. It is asked once for each
	// change that passed When, with what the change was; what the key's own run
	// wrote is never urgent, whatever it says. Default: the predicate Urgent, which
	// Or extends.
	Urgent func(c cache.Change[S, T]) bool
}

// FromWith is From with options; nil is the defaults.
func FromWith[S, T any](c *cache.Cache[S, T], given *FromOptions[S, T]) Source[Request] {
	if c == nil {
		return Source[Request]{bad: errors.New("From: no cache")}
	}
	asked := orZero(given)
	return Source[Request]{
		Name: c.Name(), kind: c.Kind(), cache: c,
		exists: func(k Request) (is bool) {
			obj, _ := c.Get(k)
			if is = obj != nil; is && asked.only != nil { // one that panics fails the run, and has told of it there
				is = contain.Apart(func() error { is = asked.only(obj); return nil }) != nil || is
			}
			return is
		},
		Run: func(ctx context.Context, to Sink[Request]) error {
			out := outletOf(to)
			o := asked.guarded(out)
			return follow(ctx, c, out, func(ch cache.Change[S, T], gained []int) error {
				is, was := o.isFor(out, ch.New), o.isFor(out, ch.Old)
				initial := queue.AddOptions{Priority: bandInitial}
				if ch.New != nil && (!ch.New.Ready() || ch.New.Deleting()) {
					initial.Priority = bandUnready
				}
				if gained != nil {
					if !is || !out.inShards(ch.Key, gained) {
						return nil
					}
					return AddWaiting(ctx, to, ch.Key, initial)
				}
				at := seen[Request]{key: ch.Key, cache: c, rev: revisionOf(ch)}
				defer out.show(at) // after the question whose write it was has been answered
				switch {
				case !is && (ch.New != nil || !was):
					return nil
				case ch.Initial:
					return AddWaiting(ctx, to, ch.Key, initial)
				case ch.Old != nil && !was:
					at.urgent = true
				case o.When(ch):
					at.after = slowDown(c.Store(), out, ch)
					at.urgent, at.supersedes = o.Urgent(ch), at.after == 0 && supersedes(ch)
				case o.ByOthers != nil && o.ByOthers(ch):
					at.byOthers, at.after = true, othersPause
				default:
					return nil
				}
				return out.addChange(ctx, at)
			})
		},
	}
}

// onlySpec reports whether a change of an object is one of the spec, and nothing that has to be served at once.
func onlySpec[S, T any](c cache.Change[S, T]) bool {
	return c.Old.Generation != c.New.Generation &&
		c.Old.Deleting() == c.New.Deleting() && c.Old.Paused == c.New.Paused &&
		c.Old.Annotations[store.AnnotationReconcileNow] == c.New.Annotations[store.AnnotationReconcileNow]
}

// slowDown returns how long the run waits that a change asks for, and names the change if it is
// the first one that has to wait.
func slowDown[S, T any](s *store.Store[S, T], to outlet[Request], c cache.Change[S, T]) time.Duration {
	came, gone := c.Old == nil, c.New == nil
	if !came && !gone && c.Old.UID == c.New.UID && !onlySpec(c) {
		return 0
	}
	wait, first := to.specChanged(c.Key, came, gone)
	if !first {
		return wait
	}
	now := introspect.SlowedKey{Key: c.Key.String(), Since: time.Now(), New: "created again and again", NewRevision: c.New.Revision}
	if !came {
		now.OldRevision = c.Old.Revision
		_ = protect(func() (err error) { // it is marshalled by the user's code
			now.Field, now.Old, now.New, err = s.SpecChange(c.Old, c.New)
			return err
		})
	}
	to.slowed(c.Key, now)
	return wait
}

// guarded are the options with their defaults, in which what the user's functions do wrong stays
// with the object that they were asked about: it is run.
func (o FromOptions[S, T]) guarded(to outlet[Request]) FromOptions[S, T] {
	if o.When == nil && o.ByOthers == nil {
		o.ByOthers = BecameUnready
	} else {
		o.ByOthers = guarded(to, "ByOthers", o.ByOthers, true)
	}
	if o.When == nil {
		o.When = Changed
	} else {
		o.When = guarded(to, "When", o.When, true)
	}
	if o.Urgent == nil {
		o.Urgent = Urgent
	} else {
		o.Urgent = guarded(to, "Urgent", o.Urgent, false)
	}
	return o
}

// guarded is a predicate of the user's whose answer is otherwise if it panics, or ends its
// goroutine; nil for nil.
func guarded[K comparable, S, T any](to outlet[K], name string, p Predicate[S, T], otherwise bool) Predicate[S, T] {
	if p == nil {
		return nil
	}
	return func(c cache.Change[S, T]) bool {
		return ask(to, name, c.Key, otherwise, func() bool { return p(c) })
	}
}

// ask asks a function of the user's about an object. If it panics, or ends its goroutine, the log
// says so, and the answer is otherwise: its source goes on with the other objects.
func ask[K comparable](to outlet[K], function string, key store.Key, otherwise bool, f func() bool) (answer bool) {
	err := contain.Apart(func() error { answer = f(); return nil })
	if err == nil {
		return answer
	}
	to.unanswered(function, key, err)
	return otherwise
}

// isFor reports whether there is an object, and the controller is about it. One about which only
// panics is: its run fails for that.
func (o *FromOptions[S, T]) isFor(to outlet[Request], obj *store.Object[S, T]) bool {
	if obj == nil || o.only == nil {
		return obj != nil
	}
	return ask(to, "Only", obj.Key(), true, func() bool { return o.only(obj) })
}

// follow calls each for every change of a cache, and Synced where it belongs. gained is not
// nil for an object of a list for shards that were gained.
func follow[K comparable, S, T any](ctx context.Context, c *cache.Cache[S, T], to outlet[K], each func(ch cache.Change[S, T], gained []int) error) error {
	var gained []int
	synced := false
	for ch, err := range c.Changes(ctx, to.Again()) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case ch.Again:
			gained = to.Gained()
			continue
		case ch.Synced:
			synced, gained = true, nil
			to.Synced()
			continue
		case ch.Left:
			continue // its shard is another server's, and it is not gone
		case ch.Initial && synced && gained == nil:
			continue // of a shard that the cache has gained: a list follows when all of it is there
		}
		if err := each(ch, gained); err != nil {
			return err
		}
	}
	return nil
}

// Urgent is the rule of From: the change asks for a run now. It passes one that raised the
// generation, asked for deletion or a run ([store.AnnotationReconcileNow]) or ended a pause,
// and every object that came or went.
func Urgent[S, T any](c cache.Change[S, T]) bool {
	// A change that came with an own write folded over it needs no urgency: the
	// write compared revisions, so the run that made it had read the change.
	return supersedes(c) ||
		c.Old.Paused && !c.New.Paused ||
		c.Old.Annotations[store.AnnotationReconcileNow] != c.New.Annotations[store.AnnotationReconcileNow]
}

// supersedes reports whether what a run of the object is about is not wanted any more. The
// object is gone, or made after the start, or both: the cache tells of two lives one after
// the other; or its spec has changed, or its deletion was asked for.
func supersedes[S, T any](c cache.Change[S, T]) bool {
	return c.New == nil || c.Old == nil || c.New.Generation > c.Old.Generation || c.New.Deleting() && !c.Old.Deleting()
}

func revisionOf[S, T any](c cache.Change[S, T]) store.Revision {
	if c.New != nil {
		return c.New.Revision
	}
	return c.Revision
}

func isNilPredicate[S, T any](p Predicate[S, T]) bool { return p == nil }

// all passes what every predicate passes; nil if there is none.
func all[S, T any](when []Predicate[S, T]) Predicate[S, T] {
	if len(when) == 0 {
		return nil
	}
	return func(c cache.Change[S, T]) bool {
		return !slices.ContainsFunc(when, func(p Predicate[S, T]) bool { return !p(c) })
	}
}
