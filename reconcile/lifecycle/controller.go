package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/internal/match"
	"github.com/tendhq/tend/reconcile/internal/object"
	"github.com/tendhq/tend/reconcile/internal/ofobjects"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// Controller makes a controller that runs the lifecycle for every object of c:
// when it appears, when its spec, its deletion, its pause or a label that a
// handler minds changes, when a run is asked for by annotation, and for all of
// them, spread out, when the config changes or a handler is added.
//
// Dependencies are sources of things that the objects depend on. A run that one
// of them asked for is a Resync of every handler, also of those that were fine
// while another one was being retried; that is why they are given here and not
// to the controller's Watch. Further caches of the kind are for Watch, with
// [Lifecycle.from].
//
// Name is the kind if it is empty. A nil cache is one of its own, of the whole
// kind; a Manager runs it. A cache of another kind or backend is an error. A cache with a selector must be told of
// [Lifecycle.Finalizers], or the deletion of an object that has left the
// selector hangs.
//
// Options are those of the controller. Handlers have retry policies of their
// own; the controller's backoff is for what fails around them, and for a
// provider.
func (l *Lifecycle[S, T]) Controller(name string, c *cache.Cache[S, T], dependencies []reconcile.Source[reconcile.Request], o *reconcile.Options[reconcile.Request]) (*reconcile.Controller[reconcile.Request], error) {
	if name == "" {
		name = l.store.Kind()
	}
	if c == nil {
		var err error
		if c, err = cache.New(l.store, nil); err != nil {
			return nil, fmt.Errorf("lifecycle: controller %q: %w", name, err)
		}
	}
	if err := match.Check(l.store, c); err != nil {
		return nil, fmt.Errorf("lifecycle: controller %q: %w", name, err)
	}
	var options reconcile.Options[reconcile.Request]
	if o != nil {
		options = *o
	}
	if l.depends != nil {
		options.Reads = slices.Concat(options.Reads, l.depends.Caches())
		dependencies = append(slices.Clip(dependencies), l.depends.Source())
	}
	if err := ownDelays(&options); err != nil {
		return nil, fmt.Errorf("lifecycle: controller %q: %w", name, err)
	}
	ctrl, err := ofobjects.Controller(name, l, &options)
	if err != nil {
		return nil, err
	}
	sources := append([]reconcile.Source[reconcile.Request]{l.from(c)}, l.work.sources(c.Name())...)
	for _, d := range dependencies {
		sources = append(sources, l.noting(d))
	}
	return ctrl, ctrl.Watch(sources...)
}

// noting tells the handlers of every key that a source adds. Where such an add
// is absorbed into the retry of one handler, the others would not hear of it.
func (l *Lifecycle[S, T]) noting(s reconcile.Source[reconcile.Request]) reconcile.Source[reconcile.Request] {
	if run := s.Run; run != nil {
		s.Run = func(ctx context.Context, to reconcile.Sink[reconcile.Request]) error {
			return run(ctx, notingSink{to, l.work})
		}
	}
	return s
}

type notingSink struct {
	reconcile.Sink[reconcile.Request]
	work interface {
		note(key store.Key)
		cured(key store.Key, fromZero bool)
	}
}

func (n notingSink) Add(key reconcile.Request, o queue.AddOptions) error {
	if n.work.note(key); o.Urgent {
		n.work.cured(key, !o.KeepAttempts)
	}
	return n.Sink.Add(key, o)
}

// Unwrap lets the source ask the controller: see reconcile.Sink.
func (n notingSink) Unwrap() reconcile.Sink[reconcile.Request] { return n.Sink }

// Failed implements reconcile.Reporter.
func (n notingSink) Failed(err error) {
	if r, ok := n.Sink.(reconcile.Reporter); ok {
		r.Failed(err)
	}
}

// ownDelays lets a handler's own policy decide how long a failed call waits:
// the delay is in the error, and the queue would wait for the longer of the
// two. Every other failure waits as the options say.
func ownDelays(o *reconcile.Options[reconcile.Request]) error {
	if o.Queue.Policy != nil && o.Backoff != (queue.Backoff{}) {
		return errors.New("set Backoff or Queue.Policy, not both")
	}
	other := o.Queue.Policy
	if other == nil {
		other = o.Backoff.Policy()
	}
	o.Backoff = queue.Backoff{}
	o.Queue.Policy = func(attempt int, err error) time.Duration {
		if d := (*delayed)(nil); errors.As(err, &d) {
			return 0
		}
		return other(attempt, err)
	}
	return nil
}

// Finalizers lists the finalizers that the lifecycle may put on objects, for
// cache.Options.Finalizers. Handlers that are added later are not among them.
func (l *Lifecycle[S, T]) Finalizers() []string { return l.work.finalizers() }

// from is the source of the objects of c, for the Watch of a controller that is to
// serve further caches of the kind (Controller has one of its own): of their own
// changes, and of all of them when the config changes or a handler is added.
// Unlike reconcile.From it passes nothing that a run writes itself, finalizers
// included: a run that nothing explains is taken for a Resync that was asked
// for. The handlers' Supersede decides what ends a backoff.
func (l *Lifecycle[S, T]) from(c *cache.Cache[S, T]) reconcile.Source[reconcile.Request] {
	s := reconcile.FromWith(c, &reconcile.FromOptions[S, T]{
		When: l.concerns, ByOthers: reconcile.BecameUnready[S, T],
		Urgent: func(ch cache.Change[S, T]) bool {
			if ch.New != nil {
				if jump, decided := l.work.urgent(ch.New); decided && !asks(ch) {
					return jump
				}
			}
			return urgent(ch)
		},
	})
	if changes := s.Run; changes != nil {
		told, _ := l.work.news().now() // kept from one run of the source to the next
		s.Run = func(ctx context.Context, to reconcile.Sink[reconcile.Request]) (err error) {
			ctx, cancel := context.WithCancel(ctx)
			rounds := make(chan error, 1)
			go func() { // ended by cancel, waited for below
				err := errRoundEnded
				defer func() {
					rounds <- err
					cancel() // where a round was cut off the source is begun again
				}()
				err = contain.Call(func() error { // of a sink that is the program's own
					return l.work.news().follow(ctx, &told, func() error { return l.round(ctx, c, to) })
				})
				if p, ok := errors.AsType[*contain.Panic](err); ok {
					err = (*reconcile.PanicError)(p)
				}
			}()
			defer func() {
				cancel()
				if cut := <-rounds; err == nil {
					err = cut
				}
			}()
			return changes(ctx, to)
		}
	}
	return s
}

// errRoundEnded is the end of a round in which a sink ended its goroutine.
var errRoundEnded = errors.New("lifecycle: a sink ended its goroutine (runtime.Goexit)")

func (l *Lifecycle[S, T]) concerns(ch cache.Change[S, T]) bool {
	was, is := ch.Old, ch.New
	if reconcile.GenerationChanged(ch) || asks(ch) {
		return true
	}
	_, ignored := was.Annotations[object.AnnotationIgnore]
	_, ignores := is.Annotations[object.AnnotationIgnore]
	return was.Paused != is.Paused || ignored && !ignores ||
		is.Deleting() && len(depend.UserKinds(is.Finalizers)) < len(depend.UserKinds(was.Finalizers)) ||
		l.work.mindsLabels() && !maps.Equal(was.Labels, is.Labels)
}

// asks reports whether the change set the reconcile-now annotation.
func asks[S, T any](ch cache.Change[S, T]) bool {
	if ch.New == nil {
		return false
	}
	now, asked := ch.New.Annotations[store.AnnotationReconcileNow]
	if !asked || ch.Old == nil {
		return asked
	}
	before, had := ch.Old.Annotations[store.AnnotationReconcileNow]
	return !had || before != now
}

// urgent is the rule where no retry of a handler has a say: it reports whether
// the change asks for a run of the object now.
func urgent[S, T any](ch cache.Change[S, T]) bool {
	was, is := ch.Old, ch.New
	return was == nil || is == nil || was.UID != is.UID || is.Generation > was.Generation ||
		was.Paused && !is.Paused || asks(ch)
}

// lowBand is where objects wait that run again because of something that
// concerns all of them.
var lowBand = queue.At(-100)

// round adds every object of a cache that is concerned.
func (l *Lifecycle[S, T]) round(ctx context.Context, c *cache.Cache[S, T], to reconcile.Sink[reconcile.Request]) error {
	var after time.Duration
	for o := range c.All() {
		if !l.work.concerned(o) {
			continue
		}
		// Urgent: it may be the cure for what is backing off, or parked.
		if err := reconcile.AddWaiting(ctx, to, o.Key(), queue.AddOptions{After: after, Priority: lowBand, Urgent: true}); err != nil {
			return err
		}
		after += l.options.pace
	}
	return nil
}
