// Package dependtest tests that dependencies hold for every kind of reconciler, over any
// two backends. It is for tests.
package dependtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/lifecycle"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/storetest/campaign"
)

type (
	spec   struct{ Needs string }
	none   struct{}
	thing  = store.Object[spec, none]
	things = store.Store[spec, none]
	cached = cache.Cache[spec, none]
	keeper = reconcile.Controller[reconcile.Request]
)

// Run declares, for each kind of reconciler, an object in the store users that needs one
// in the store needed, and wants that the needed one is created first and deleted last, and not
// used before it is ready nor in its deletion; that the conditions say what is waited for; and that another value of
// the needed object ends the backoff and the park of its user. Run takes as long as the backends do, and
// fails when one kind of reconciler has taken longer than two minutes: all calls of a store
// end then.
func Run(t *testing.T, needed, users store.Backend) {
	for name, build := range map[string]builder{
		"plain": plain, "provider": provider, "external": resources,
	} {
		t.Run(name+" backs off", func(t *testing.T) {
			run(t, name, needed, users, build, reconcile.RetryAfter(errBusy, time.Hour)) // so long that a test would see it
		})
		t.Run(name+" is parked", func(t *testing.T) {
			run(t, name+"-parked", needed, users, build, reconcile.Terminal(errBusy))
		})
	}
}

// builder makes the controller of a kind, whose objects need something by the tracker or,
// with none, nothing.
type builder func(w *world, s *things, c *cached, d *depend.Tracker[spec, none]) (*keeper, error)

// world is what the reconcilers create.
type world struct {
	failed chan struct{} // closed when a create has failed
	gate   chan struct{} // closed when what is needed may be created

	mu    sync.Mutex // guards what follows
	there map[string]bool
	calls []string
	fail  error // of the first create of the user
}

// bound is how long the test of one kind of reconciler may take, and its controllers' stop.
const bound = 2 * time.Minute

var errSlow = fmt.Errorf("the test has taken %v", bound)

var errBusy = errors.New("the cloud is busy")

func (w *world) create(name string) error {
	if name == "need" {
		<-w.gate
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if fail := w.fail; fail != nil && name == "user" {
		w.fail = nil
		close(w.failed)
		return fail
	}
	if !w.there[name] {
		w.calls = append(w.calls, "+"+name)
	}
	w.there[name] = true
	return nil
}

func (w *world) delete(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.there[name] {
		w.calls = append(w.calls, "-"+name)
	}
	delete(w.there, name)
	return nil
}

func (w *world) exists(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.there[name]
}

func options() *reconcile.Options[reconcile.Request] {
	return &reconcile.Options[reconcile.Request]{Logger: slog.New(slog.DiscardHandler)}
}

const finalizer = "dependtest.plain"

func plain(w *world, s *things, c *cached, d *depend.Tracker[spec, none]) (*keeper, error) {
	f := func(ctx context.Context, o *thing) (res reconcile.Result, err error) {
		if o.Deleting() {
			o.RemoveFinalizer(finalizer)
			if err = w.delete(o.Name); err == nil {
				_, err = s.Update(ctx, o)
			}
			return res, err
		}
		if o.AddFinalizer(finalizer) {
			got, err := s.Update(ctx, o)
			if err != nil {
				return res, err
			}
			*o = *got
		}
		if err := w.create(o.Name); err != nil || o.Ready() {
			return res, err
		}
		o.SetReady()
		got, err := s.UpdateStatus(ctx, o)
		if err == nil {
			*o = *got
		}
		return res, err
	}
	o, sources := options(), []reconcile.Source[reconcile.Request]{reconcile.From(c)}
	if d == nil {
		f = depend.WaitForUsers(s, f)
	} else {
		f, o.Reads, sources = d.Wrap(f), d.Caches(), append(sources, d.Source())
	}
	ctrl, err := reconcile.New(s.Kind(), reconcile.AsReconciler(c, f), o)
	if err != nil {
		return nil, err
	}
	return ctrl, ctrl.Watch(sources...)
}

type providing struct{ w *world }

func (p providing) CreateOrUpdate(_ context.Context, o *thing, _, _ none) (reconcile.Result, error) {
	return reconcile.Result{}, p.w.create(o.Name)
}

func (p providing) Delete(_ context.Context, o *thing, _, _ none) (reconcile.Result, error) {
	return reconcile.Result{}, p.w.delete(o.Name)
}

func provider(w *world, s *things, c *cached, d *depend.Tracker[spec, none]) (*keeper, error) {
	l, err := lifecycle.NewProvider(s, providing{w}, lifecycle.StaticConfig(none{}), nil, nil)
	if err == nil && d != nil {
		err = l.DependOn(d)
	}
	if err != nil {
		return nil, err
	}
	return l.Controller("", c, nil, options())
}

func resources(w *world, s *things, c *cached, d *depend.Tracker[spec, none]) (*keeper, error) {
	client := external.ClientFuncs[spec, none]{
		ObserveFunc: func(_ context.Context, o *thing) (external.Observation, error) {
			return external.Observation{Exists: w.exists(o.Name), UpToDate: true}, nil
		},
		CreateFunc: func(_ context.Context, o *thing) error {
			o.Intent.ExternalName = o.Name
			return w.create(o.Name)
		},
		UpdateFunc: func(context.Context, *thing) error { return nil },
		DeleteFunc: func(_ context.Context, o *thing) error { return w.delete(o.Name) },
	}
	r, err := external.New(s, external.ConnectorFunc[spec, none](func(context.Context, *thing) (external.Client[spec, none], error) {
		return client, nil
	}), &external.Options[spec, none]{Naming: external.ByUs, CreationGrace: time.Millisecond, Poll: time.Hour, Depends: d})
	if err != nil {
		return nil, err
	}
	return r.Controller("", c, options())
}

// end is one of the two kinds.
type end struct {
	t     *testing.T
	ctx   context.Context // ends at the bound of the test
	store *things
	cache *cached
	name  string // of the object
}

func newEnd(ctx context.Context, t *testing.T, b store.Backend, kind, name string) *end {
	s := must(store.New[spec, none](b, kind, nil))(t)
	return &end{t: t, ctx: ctx, store: s, cache: must(cache.New(s, nil))(t), name: name}
}

// await waits until the object, nil for none, is as is says.
func (e *end) await(what string, is func(o *thing) bool) {
	e.t.Helper()
	ctx, cancel := context.WithTimeoutCause(e.ctx, 20*time.Second, errors.New("20 s have gone by"))
	defer cancel()
	var last *thing
	listed := false
	for ch, err := range e.cache.Changes(ctx, nil) {
		switch {
		case err != nil:
			e.t.Fatalf("%s: %v; the object: %+v", what, err, last)
		case ch.Synced:
			listed = true
		case ch.Key.Name == e.name:
			last = ch.New
		}
		if listed && is(last) {
			return
		}
	}
	e.t.Fatalf("%s: %v; the object: %+v", what, context.Cause(ctx), last)
}

func reason(condition, reason string) func(*thing) bool {
	return func(o *thing) bool {
		if o == nil {
			return false
		}
		c, _ := o.Condition(condition)
		return c.Status == store.False && c.Reason == reason
	}
}

func ready(o *thing) bool { return o != nil && o.Ready() }
func gone(o *thing) bool  { return o == nil }

func (e *end) declare(needs string) {
	must(e.store.Create(e.ctx, &thing{Meta: store.Meta{Name: e.name}, Spec: spec{needs}}))(e.t)
}

// change makes a write of what is stored, again after a conflict.
func (e *end) change(write func(o *thing) error) {
	e.t.Helper()
	for {
		o, err := e.store.Get(e.ctx, store.Key{Name: e.name})
		if err == nil {
			err = write(o)
		}
		if errors.Is(err, store.ErrConflict) && e.ctx.Err() == nil {
			continue
		}
		if err != nil {
			e.t.Fatalf("%v; %v", err, context.Cause(e.ctx))
		}
		return
	}
}

// kick has the object run.
func (e *end) kick(reason string) {
	e.t.Helper()
	e.change(func(o *thing) error {
		if o.Annotations == nil {
			o.Annotations = make(map[string]string, 1)
		}
		o.Annotations[store.AnnotationReconcileNow] = reason
		_, err := e.store.Update(e.ctx, o)
		return err
	})
}

func (e *end) delete() {
	e.t.Helper()
	e.change(func(o *thing) error { return e.store.Delete(e.ctx, o) })
}

func run(t *testing.T, name string, needed, users store.Backend, build builder, fail error) {
	ctx, cancel := context.WithTimeoutCause(campaign.Context(t), bound, errSlow)
	t.Cleanup(cancel)
	w := &world{there: map[string]bool{}, failed: make(chan struct{}), gate: make(chan struct{}), fail: fail}
	need, user := newEnd(ctx, t, needed, "need-"+name, "need"), newEnd(ctx, t, users, "user-"+name, "user")
	theirs := newEnd(ctx, t, needed, "need-"+name, "need") // the needed kind as the users' server reads it
	tracker := must(depend.New(user.cache, depend.On(theirs.cache, func(o *thing) []store.Key {
		return []store.Key{{Name: o.Spec.Needs}}
	}, &depend.NeedOptions[spec, none]{
		Ready: (*thing).Ready,
		Value: func(n *thing) string { return n.Labels["address"] },
	}), &depend.Options{Logger: slog.New(slog.DiscardHandler)}))(t)
	for _, ctrl := range []*keeper{must(build(w, need.store, need.cache, nil))(t), must(build(w, user.store, user.cache, tracker))(t)} {
		m := &reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
		if err := m.Register(ctrl); err != nil {
			t.Fatal(err)
		}
		running, stop := context.WithCancel(context.WithoutCancel(ctx))
		done := make(chan struct{})
		go func() { // ended and awaited by the cleanup
			defer close(done)
			if err := m.Run(running); err != nil || running.Err() == nil {
				t.Errorf("the controllers ended: %v", err)
			}
		}()
		t.Cleanup(func() {
			stop()
			select {
			case <-done:
			case <-time.After(bound):
				t.Errorf("the controllers did not stop in %v", bound)
			}
		})
	}

	open := sync.OnceFunc(func() { close(w.gate) })
	t.Cleanup(open) // before the controllers stop

	user.declare("need")
	user.await("the user waits", reason(depend.ConditionDependencies, depend.ReasonNotFound))
	need.declare("")
	theirs.await("the users' server sees what is needed", func(o *thing) bool { return o != nil })
	user.kick("not ready")
	user.await("the user waits until it is ready", reason(depend.ConditionDependencies, depend.ReasonNotReady))
	open()
	select {
	case <-w.failed:
	case <-ctx.Done():
		t.Fatalf("the user was not tried: %v", context.Cause(ctx))
	}
	need.change(func(o *thing) error {
		o.Labels = map[string]string{"address": "2"}
		_, err := need.store.Update(ctx, o)
		return err
	})
	user.await("another value of what it needs makes the user ready, and not an hour", ready)
	need.delete()
	need.await("what is needed stays", reason(store.ConditionReady, depend.ReasonInUse))
	theirs.await("the users' server sees the deletion", func(o *thing) bool { return o != nil && o.Deleting() })
	user.kick("in deletion")
	user.await("the user does not use what is in deletion", reason(depend.ConditionDependencies, depend.ReasonDeleting))
	user.delete()
	user.await("the user is gone", gone)
	need.await("what was needed is gone", gone)

	w.mu.Lock()
	defer w.mu.Unlock()
	if want := []string{"+need", "+user", "-user", "-need"}; !slices.Equal(w.calls, want) {
		t.Errorf("the calls are %v, want %v", w.calls, want)
	}
}

func must[V any](v V, err error) func(*testing.T) V {
	return func(t *testing.T) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
