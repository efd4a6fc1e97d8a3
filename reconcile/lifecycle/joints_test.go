package lifecycle

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/internal/object"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// patient are options under which nothing runs again by itself for a day.
func patient() *reconcile.Options[reconcile.Request] {
	return &reconcile.Options[reconcile.Request]{
		Backoff: queue.Backoff{Base: 24 * time.Hour, Max: 24 * time.Hour},
	}
}

// promise Q4. A provider has no retries of its own, so an edit has to end the backoff
// and the park of the queue.
//
// Negative control: mutant "a spec edit of a provider's object ends no backoff".
func TestEditOfAFailingProviderObjectRunsAtOnce(t *testing.T) {
	for name, err := range map[string]error{"backing off": errBoom, "parked": reconcile.Terminal(errBoom)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, p := newWidgets(t), &fakeProvider{}
				p.create = func(_ context.Context, o *widget, _ settings, _ client) (reconcile.Result, error) {
					if o.Spec.Size == 1 {
						return reconcile.Result{}, err
					}
					return reconcile.Result{}, nil
				}
				start(t, mustProvide(t, s, p, nil, nil), nil, patient())
				create(t, s, "a")
				restFor(time.Minute)
				expectReady(t, get(t, s, "a"), store.False, store.PhaseProgressing, reasonFailed)
				edit(t, s, "a", resize(2))
				restFor(time.Second)
				expectReady(t, get(t, s, "a"), store.True, store.PhaseReady, "Ready")
			})
		})
	}
}

// case 4, for handlers. Negative control: mutant "lifting a pause wakes no handler".
func TestLiftingThePauseCallsTheHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		s := newWidgets(t)
		start(t, mustNew(t, s, d.handler("h", nil)), nil, patient())
		create(t, s, "a")
		restFor(time.Second)
		edit(t, s, "a", func(o *widget) { o.Paused = true })
		restFor(time.Second)
		edit(t, s, "a", resize(2))
		restFor(time.Second)
		d.expect(t, "h Added 1")
		edit(t, s, "a", func(o *widget) { o.Paused = false })
		restFor(time.Second)
		d.expect(t, "h Updated 1->2")
		if c, _ := get(t, s, "a").Condition(store.ConditionSynced); c.Status != store.True {
			t.Errorf("Synced = %+v, want it to say that the pause is over", c)
		}
	})
}

// case 4, for a provider whose key backs off. Negative control: mutant "lifting a pause
// of a provider's object ends no backoff".
func TestLiftingThePauseEndsTheBackoffOfAProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newWidgets(t), &fakeProvider{}
		healed := false
		p.create = func(context.Context, *widget, settings, client) (reconcile.Result, error) {
			if !healed {
				return reconcile.Result{}, errBoom
			}
			return reconcile.Result{}, nil
		}
		start(t, mustProvide(t, s, p, nil, nil), nil, patient())
		create(t, s, "a")
		restFor(time.Second)
		edit(t, s, "a", func(o *widget) { o.Paused = true })
		restFor(time.Second)
		healed = true
		edit(t, s, "a", func(o *widget) { o.Paused = false })
		restFor(time.Second)
		expectReady(t, get(t, s, "a"), store.True, store.PhaseReady, "Ready")
	})
}

// Negative control: mutant "taking off the ignore annotation wakes no worker".
func TestTakingOffTheIgnoreAnnotationCallsTheHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		s := newWidgets(t)
		start(t, mustNew(t, s, d.handler("h", nil)), nil, patient())
		create(t, s, "a")
		restFor(time.Second)
		edit(t, s, "a", func(o *widget) { o.Annotations = map[string]string{object.AnnotationIgnore: ""} })
		edit(t, s, "a", resize(2))
		restFor(time.Second)
		d.expect(t, "h Added 1")
		edit(t, s, "a", func(o *widget) { o.Annotations = nil })
		restFor(time.Second)
		d.expect(t, "h Updated 1->2")
	})
}

// case 137: a config that is being deleted is none, also while a finalizer of another
// program keeps it. Nothing is torn down for want of it.
//
// Negative control: mutant "a config in deletion stays in force".
func TestConfigInDeletionIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cs := newWidgets(t), newKind[settings, struct{}](t, "config")
		c, err := cs.Create(t.Context(), &config{Meta: store.Meta{Name: "main", Finalizers: []string{"another.controller"}}, Spec: settings{Hosts: []string{"one"}}})
		if err != nil {
			t.Fatal(err)
		}
		p := hosts()
		ctrl := start(t, mustProvide(t, s, p, watchConfig(t, cs, nil), fakeAccess{diary: &p.diary}), nil, nil)
		create(t, s, "a")
		restFor(time.Second)
		expectReady(t, get(t, s, "a"), store.True, store.PhaseReady, "Ready")
		p.take()
		if err := cs.Delete(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		restFor(time.Minute)
		o := get(t, s, "a")
		expectReady(t, o, store.False, store.PhaseProgressing, reasonConfigMissing)
		p.expect(t)
		if n := ctrl.Snapshot().Runs; n.Error+n.Terminal+n.Timeout+n.Panic != 0 {
			t.Errorf("%+v, want no error for want of a config", n)
		}
		if len(o.Finalizers) != 1 || o.Status.Note != "one" {
			t.Errorf("%+v, want it left as it is", o)
		}
	})
}

// case 131, over a controller: the key backs off, and the provider is not called.
func TestFailingEnsureIsTriedAtGrowingIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newWidgets(t), &fakeProvider{}
		var at []time.Duration
		begun := time.Now()
		a := fakeAccess{diary: &p.diary, ensure: func(*widget) (reconcile.Result, error) {
			at = append(at, time.Since(begun))
			return reconcile.Result{}, errBoom
		}}
		o := &reconcile.Options[reconcile.Request]{Backoff: queue.Backoff{Base: time.Second, Max: time.Hour, NoJitter: true}}
		start(t, mustProvide(t, s, p, nil, a), nil, o)
		create(t, s, "a")
		restFor(40 * time.Second)
		p.expect(t, "Ensure", "Ensure", "Ensure", "Ensure", "Ensure", "Ensure")
		var gaps []time.Duration
		for i := range at[1:] {
			gaps = append(gaps, (at[i+1] - at[i]).Round(time.Second))
		}
		if want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}; !slices.Equal(gaps, want) {
			t.Errorf("Ensure was tried after %v, want %v", gaps, want)
		}
		failed := get(t, s, "a")
		expectReady(t, failed, store.False, store.PhaseProgressing, reasonAccessFailed)
		if c, _ := failed.Condition(store.ConditionReady); !strings.Contains(c.Message, errBoom.Error()) {
			t.Errorf("Ready says %q, want why Ensure failed", c.Message)
		}
	})
}

// case 138: the config's and the secrets' backend is down altogether. Its watch is
// broken and nothing can be read.
func TestBackendOfTheConfigThatIsDownStopsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFaulty(t)
		s, cs := newWidgets(t), on[settings, struct{}](t, b, "config")
		secrets := on[map[string]string, struct{}](t, b, "secret")
		putConfig(t, cs, "main", settings{Hosts: []string{"one"}})
		cfg := watchConfig(t, cs, nil)
		p := hosts()
		l := mustProvide(t, s, p, cfg, nil)
		ours, err := cache.New(secrets, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctrl, err := l.Controller("", nil, []reconcile.Source[reconcile.Request]{WatchRef(ours, cfg, func(context.Context, *secret, settings, bool) ([]reconcile.Request, error) {
			return []reconcile.Request{key("a")}, nil
		})}, patient())
		if err != nil {
			t.Fatal(err)
		}
		manage(t, ctrl)
		create(t, s, "a")
		restFor(time.Second)
		p.expect(t, "CreateOrUpdate ")
		putSecret(t, secrets, "one")
		restFor(time.Minute)
		p.expect(t, "CreateOrUpdate ")

		b.fall(errBoom)
		restFor(time.Minute)
		edit(t, s, "a", resize(2))
		create(t, s, "b")
		restFor(time.Second)
		for _, name := range []string{"a", "b"} {
			o := get(t, s, name)
			expectReady(t, o, store.True, store.PhaseReady, "Ready")
			if o.ObservedGeneration != o.Generation || o.Status.Note != "one" {
				t.Errorf("%s: %+v, want it run with the last good config", name, o)
			}
		}
		p.take()
		remove(t, s, "b")
		restFor(time.Second)
		expectGone(t, s, "b")
		p.expect(t, "Delete ")

		b.fall(nil)
		restFor(5 * time.Minute)
		putConfig(t, cs, "main", settings{Hosts: []string{"two"}})
		restFor(time.Second)
		if got := get(t, s, "a").Status.Note; got != "two" {
			t.Errorf("ran with %q, want the config that came when the backend was back", got)
		}
		p.take()
		putSecret(t, secrets, "two")
		restFor(time.Minute)
		p.expect(t, "CreateOrUpdate ")
	})
}

func putSecret(t *testing.T, s *store.Store[map[string]string, struct{}], name string) {
	t.Helper()
	if _, err := s.Create(t.Context(), &secret{Meta: store.Meta{Name: name}}); err != nil {
		t.Fatal(err)
	}
}

// case 139: a provider without a matcher runs nothing for a secret, and one whose
// matcher names nothing neither.
func TestSecretsRunNothingWithoutAMatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newWidgets(t), &fakeProvider{}
		secrets := newKind[map[string]string, struct{}](t, "secret")
		cfg := StaticConfig(settings{})
		all, err := cache.New(secrets, nil)
		if err != nil {
			t.Fatal(err)
		}
		l := mustProvide(t, s, p, cfg, nil)
		if _, err := l.Controller("", nil, []reconcile.Source[reconcile.Request]{WatchRef[settings, map[string]string, struct{}](all, cfg, nil)}, nil); err == nil {
			t.Error("a reference without a matcher was taken")
		}
		asked := 0
		none := func(context.Context, *secret, settings, bool) ([]reconcile.Request, error) {
			asked++
			return nil, nil
		}
		ctrl, err := l.Controller("", nil, []reconcile.Source[reconcile.Request]{WatchRef(all, cfg, none)}, patient())
		if err != nil {
			t.Fatal(err)
		}
		manage(t, ctrl)
		// Of a store of its own: two controllers of one object get conflicts, and run it again.
		others, q := newWidgets(t), &fakeProvider{}
		without, err := mustProvide(t, others, q, cfg, nil).Controller("without", nil, nil, patient())
		if err != nil {
			t.Fatal(err)
		}
		manage(t, without)
		create(t, s, "a")
		create(t, others, "a")
		restFor(time.Second)
		p.expect(t, "CreateOrUpdate ")
		q.expect(t, "CreateOrUpdate ")
		putSecret(t, secrets, "a")
		restFor(time.Minute) // after an hour the rounds may have run "a"
		p.expect(t)
		q.expect(t)
		if asked != 1 {
			t.Errorf("the matcher was asked %d times, want once", asked)
		}
	})
}

// Owns knows the kind of the owners also as a dependency of a lifecycle, and behind a sink of
// package depend: a child that changes runs its owner. Before, each owner was skipped as one of
// another kind.
//
// promise Q1. Negative control: mutants "a dependency of a lifecycle does not know the
// controller", "a watched source does not know the controller".
func TestOwnsAsADependencyRunsTheOwner(t *testing.T) {
	for name, wrap := range map[string]func(reconcile.Source[reconcile.Request]) reconcile.Source[reconcile.Request]{
		"as it is": func(s reconcile.Source[reconcile.Request]) reconcile.Source[reconcile.Request] { return s },
		"watched":  depend.Watched,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				s, children := newWidgets(t), newKind[struct{}, struct{}](t, "child")
				shown, err := cache.New(children, nil)
				if err != nil {
					t.Fatal(err)
				}
				ctrl, err := mustNew(t, s, d.handler("h", nil)).Controller("", nil, []reconcile.Source[reconcile.Request]{wrap(reconcile.Owns(shown))}, nil)
				if err != nil {
					t.Fatal(err)
				}
				manage(t, ctrl)
				owner := create(t, s, "a")
				restFor(time.Second)
				d.expect(t, "h Added 1")
				if _, err := children.Create(t.Context(), &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: "c", Owners: []store.Owner{s.OwnerOf(owner)}}}); err != nil {
					t.Fatal(err)
				}
				restFor(time.Second)
				d.expect(t, "h Resynced 1")
			})
		})
	}
}
