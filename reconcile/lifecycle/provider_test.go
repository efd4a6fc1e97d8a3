package lifecycle

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/internal/object"
	"github.com/tendhq/tend/store"
)

type settings struct {
	Poll  time.Duration
	Hosts []string
}

func (s settings) PollInterval() time.Duration { return s.Poll }

type client struct{ For string }

// fakeProvider notes its calls and does as its funcs say; nil is success.
type fakeProvider struct {
	diary
	create, delete func(ctx context.Context, o *widget, c settings, a client) (reconcile.Result, error)
}

func (p *fakeProvider) CreateOrUpdate(ctx context.Context, o *widget, c settings, a client) (reconcile.Result, error) {
	p.note("CreateOrUpdate %s", a.For)
	if p.create == nil {
		return reconcile.Result{}, nil
	}
	return p.create(ctx, o, c, a)
}

func (p *fakeProvider) Delete(ctx context.Context, o *widget, c settings, a client) (reconcile.Result, error) {
	p.note("Delete %s", a.For)
	if p.delete == nil {
		return reconcile.Result{}, nil
	}
	return p.delete(ctx, o, c, a)
}

// fakeAccess notes its calls in the provider's diary.
type fakeAccess struct {
	*diary
	name            string
	ensure, release func(o *widget) (reconcile.Result, error)
}

func (a fakeAccess) Ensure(_ context.Context, o *widget, _ settings) (client, reconcile.Result, error) {
	a.note("Ensure%s", a.name)
	if a.ensure == nil {
		return client{o.Name + a.name}, reconcile.Result{}, nil
	}
	res, err := a.ensure(o)
	return client{o.Name + a.name}, res, err
}

func (a fakeAccess) Release(_ context.Context, o *widget, _ settings) (reconcile.Result, error) {
	a.note("Release%s", a.name)
	if a.release == nil {
		return reconcile.Result{}, nil
	}
	return a.release(o)
}

func mustProvide(t *testing.T, s *store.Store[widgetSpec, widgetStatus], p *fakeProvider, c Config[settings], a Access[widgetSpec, widgetStatus, settings, client]) *Lifecycle[widgetSpec, widgetStatus] {
	t.Helper()
	if c == nil {
		c = StaticConfig(settings{})
	}
	l, err := NewProvider(s, p, c, a, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func expectReady(t *testing.T, o *widget, status store.ConditionStatus, phase store.Phase, reason string) {
	t.Helper()
	c, ok := o.Condition(store.ConditionReady)
	if !ok || c.Status != status || o.Phase != phase || c.Reason != reason {
		t.Errorf("Ready = %q %q (%q), phase %q; want %q %q, phase %q", c.Status, c.Reason, c.Message, o.Phase, status, reason, phase)
	}
}

// case 40
func TestSuccessIsLookedAtAgainAfterThePollInterval(t *testing.T) {
	for _, c := range []struct {
		name string
		poll time.Duration
		asks reconcile.Result
		min  time.Duration
		max  time.Duration
	}{
		{"the config's interval", time.Minute, reconcile.Result{}, time.Minute, 66 * time.Second},
		{"no interval", 0, reconcile.Result{}, 0, 0},
		{"the provider's own wins", time.Minute, reconcile.Result{RequeueAfter: time.Hour}, time.Hour, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newWidgets(t)
			create(t, s, "a")
			p := &fakeProvider{create: func(context.Context, *widget, settings, client) (reconcile.Result, error) { return c.asks, nil }}
			l := mustProvide(t, s, p, StaticConfig(settings{Poll: c.poll}), nil)
			if got := run(t, l, "a"); got.RequeueAfter < c.min || got.RequeueAfter > c.max || got.Requeue {
				t.Errorf("Result = %+v, want a delay from %v to %v", got, c.min, c.max)
			}
			expectReady(t, get(t, s, "a"), store.True, store.PhaseReady, "Ready")
		})
	}
}

// case 41
func TestFailureIsReturnedAndTheStatusWrittenAllTheSame(t *testing.T) {
	s := newWidgets(t)
	create(t, s, "a")
	p := &fakeProvider{create: func(_ context.Context, o *widget, _ settings, _ client) (reconcile.Result, error) {
		o.Status.Note = "half way"
		return reconcile.Result{RequeueAfter: time.Hour}, errBoom
	}}
	l := mustProvide(t, s, p, nil, nil)
	runFails(t, l, "a", errBoom)
	o := get(t, s, "a")
	expectReady(t, o, store.False, store.PhaseProgressing, reasonFailed)
	if o.Status.Note != "half way" {
		t.Errorf("Note = %q, want what the provider wrote before it failed", o.Status.Note)
	}
}

// case 42, 127
func TestSameStatusIsNotWrittenAgainAndItsTimeStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWidgets(t)
		create(t, s, "a")
		reason := "Waiting"
		p := &fakeProvider{create: func(_ context.Context, o *widget, _ settings, _ client) (reconcile.Result, error) {
			o.SetProgressing(reason, "for the moon")
			return reconcile.Result{}, nil
		}}
		l := mustProvide(t, s, p, nil, nil)
		run(t, l, "a")
		first := get(t, s, "a")
		expectReady(t, first, store.False, store.PhaseProgressing, "Waiting")
		if c, _ := first.Condition(store.ConditionReady); c.Message != "for the moon" {
			t.Errorf("message = %q", c.Message)
		}
		time.Sleep(time.Hour)
		run(t, l, "a")
		if again := get(t, s, "a"); again.Revision != first.Revision {
			t.Errorf("revision %d, want %d: nothing changed", again.Revision, first.Revision)
		}
		reason = "StillWaiting"
		run(t, l, "a")
		was, _ := first.Condition(store.ConditionReady)
		is, _ := get(t, s, "a").Condition(store.ConditionReady)
		if is.Reason != "StillWaiting" || !is.Since.Equal(was.Since) {
			t.Errorf("%q since %v, want StillWaiting since %v: the status is what it was", is.Reason, is.Since, was.Since)
		}
	})
}

// case 43
func TestIgnoredObjectsAreLeftAloneAndAReconcileRequestIsTakenOff(t *testing.T) {
	s := newWidgets(t)
	p := &fakeProvider{}
	l := mustProvide(t, s, p, StaticConfig(settings{Poll: time.Minute}), nil)
	create(t, s, "a")
	before := edit(t, s, "a", func(o *widget) { o.Annotations = map[string]string{object.AnnotationIgnore: ""} })
	if res := run(t, l, "a"); res != (reconcile.Result{}) {
		t.Errorf("Result = %+v, want zero", res)
	}
	if got := get(t, s, "a").Revision; got != before.Revision {
		t.Errorf("an ignored object was written: revision %d, want %d", got, before.Revision)
	}
	p.expect(t)
	edit(t, s, "a", func(o *widget) { o.Annotations = map[string]string{store.AnnotationReconcileNow: "1", "mine": "x"} })
	run(t, l, "a")
	p.expect(t, "CreateOrUpdate ")
	if got := get(t, s, "a").Annotations; len(got) != 1 || got["mine"] != "x" {
		t.Errorf("annotations = %v, want the request gone and the rest kept", got)
	}
}

// case 47
func TestProviderIsNotCalledBeforeTheAccessIsThere(t *testing.T) {
	s := newWidgets(t)
	create(t, s, "a")
	p := &fakeProvider{}
	a := fakeAccess{diary: &p.diary, ensure: func(*widget) (reconcile.Result, error) { return reconcile.Result{RequeueAfter: time.Second}, nil }}
	if got := run(t, mustProvide(t, s, p, nil, a), "a").RequeueAfter; got != time.Second {
		t.Errorf("RequeueAfter = %v, want what the access asked for", got)
	}
	p.expect(t, "Ensure")
	expectReady(t, get(t, s, "a"), store.False, store.PhaseProgressing, reasonAccessPending)
}

// case 131; weak point 002 (j)
func TestFailingEnsureBacksOffAndSaysSo(t *testing.T) {
	s := newWidgets(t)
	create(t, s, "a")
	p := &fakeProvider{}
	a := fakeAccess{diary: &p.diary, ensure: func(*widget) (reconcile.Result, error) { return reconcile.Result{}, errBoom }}
	runFails(t, mustProvide(t, s, p, nil, a), "a", errBoom)
	p.expect(t, "Ensure")
	expectReady(t, get(t, s, "a"), store.False, store.PhaseProgressing, reasonAccessFailed)
	if c, _ := get(t, s, "a").Condition(store.ConditionReady); !strings.Contains(c.Message, errBoom.Error()) {
		t.Errorf("Ready says %q, want why Ensure failed", c.Message)
	}
}

// case 48, 50; weak point 002 (c): a finished deletion asked for one more run.
func TestDeletionIsProviderThenReleaseThenFinalizer(t *testing.T) {
	s := newWidgets(t)
	p := &fakeProvider{}
	var during []string
	a := fakeAccess{diary: &p.diary, release: func(*widget) (reconcile.Result, error) {
		during = get(t, s, "a").Finalizers
		return reconcile.Result{}, nil
	}}
	l := mustProvide(t, s, p, StaticConfig(settings{Poll: time.Minute}), a)
	create(t, s, "a")
	run(t, l, "a")
	remove(t, s, "a")
	p.take()
	if res := run(t, l, "a"); res != (reconcile.Result{}) {
		t.Errorf("Result = %+v, want zero: there is nothing to come back for", res)
	}
	p.expect(t, "Ensure", "Delete a", "Release")
	if len(during) != 1 {
		t.Errorf("finalizers during Release = %q, want ours still there", during)
	}
	expectGone(t, s, "a")
	run(t, l, "a")
	p.expect(t)
}

// case 49; weak point 002 (d): without the access, the provider's Delete was
// skipped, and what it would have cleaned up leaked.
func TestDeleteIsCalledEvenIfTheAccessIsGone(t *testing.T) {
	s := newWidgets(t)
	p := &fakeProvider{delete: func(_ context.Context, _ *widget, _ settings, a client) (reconcile.Result, error) {
		if a != (client{}) {
			t.Errorf("access = %+v, want the zero one", a)
		}
		return reconcile.Result{}, nil
	}}
	a := fakeAccess{diary: &p.diary, ensure: func(o *widget) (reconcile.Result, error) {
		if o.Deleting() {
			return reconcile.Result{}, ErrNoAccess
		}
		return reconcile.Result{}, nil
	}}
	l := mustProvide(t, s, p, nil, a)
	create(t, s, "a")
	run(t, l, "a")
	remove(t, s, "a")
	p.take()
	run(t, l, "a")
	p.expect(t, "Ensure", "Delete ", "Release")
	expectGone(t, s, "a")
}

// case 132
func TestReleaseThatWaitsIsTheOnlyOneCalledAgain(t *testing.T) {
	s := newWidgets(t)
	p := &fakeProvider{}
	waits := true
	a := fakeAccess{diary: &p.diary, release: func(*widget) (reconcile.Result, error) {
		if waits {
			return reconcile.Result{RequeueAfter: time.Second}, nil
		}
		return reconcile.Result{}, nil
	}}
	l := mustProvide(t, s, p, nil, a)
	create(t, s, "a")
	run(t, l, "a")
	remove(t, s, "a")
	p.take()
	if got := run(t, l, "a").RequeueAfter; got != time.Second {
		t.Errorf("RequeueAfter = %v, want what Release asked for", got)
	}
	expectReady(t, get(t, s, "a"), store.False, store.PhaseTerminating, reasonReleasePending)
	p.expect(t, "Ensure", "Delete a", "Release")
	run(t, l, "a")
	p.expect(t, "Release")
	waits = false
	run(t, mustProvide(t, s, p, nil, a), "a") // a restart knows it too
	p.expect(t, "Release")
	expectGone(t, s, "a")
}

// case 133
func TestDeleteThatFailsOrWaitsKeepsTheFinalizerAndTheAccess(t *testing.T) {
	for _, c := range []struct {
		name   string
		res    reconcile.Result
		err    error
		reason string
	}{
		{"fails", reconcile.Result{}, errBoom, reasonDeleteFailed},
		{"waits", reconcile.Result{RequeueAfter: time.Second}, nil, reasonDeleting},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newWidgets(t)
			p := &fakeProvider{delete: func(context.Context, *widget, settings, client) (reconcile.Result, error) { return c.res, c.err }}
			a := fakeAccess{diary: &p.diary}
			l := mustProvide(t, s, p, nil, a)
			create(t, s, "a")
			run(t, l, "a")
			remove(t, s, "a")
			p.take()
			res, err := l.Reconcile(t.Context(), key("a"))
			if !errors.Is(err, c.err) || res != c.res {
				t.Errorf("Reconcile = %+v, %v, want %+v, %v", res, err, c.res, c.err)
			}
			p.expect(t, "Ensure", "Delete a")
			expectReady(t, get(t, s, "a"), store.False, store.PhaseTerminating, c.reason)
		})
	}
}

// case 125, 126
func TestSuccessIsOneStatusWriteForTheGenerationThatWasRun(t *testing.T) {
	s := newWidgets(t)
	create(t, s, "a")
	edits := 0
	p := &fakeProvider{create: func(_ context.Context, o *widget, _ settings, _ client) (reconcile.Result, error) {
		if edits++; edits == 2 {
			edit(t, s, "a", resize(9))
		}
		o.Status.Note = "mine"
		return reconcile.Result{}, nil
	}}
	l := mustProvide(t, s, p, nil, nil)
	before := get(t, s, "a").Revision
	run(t, l, "a")
	o := get(t, s, "a")
	if got := o.Revision - before; got != 2 {
		t.Errorf("%d writes, want the finalizer and one for the status", got)
	}
	if o.ObservedGeneration != 1 || o.Status.Note != "mine" || !o.Ready() {
		t.Errorf("status = %+v, want Ready for generation 1 with the provider's own fields", o)
	}
	edit(t, s, "a", resize(2))
	run(t, l, "a") // edited once more while it runs
	if o := get(t, s, "a"); o.Generation != 3 || o.ObservedGeneration != 2 || o.Ready() {
		t.Errorf("generation %d observed %d, want 3 observed 2, and not ready in it", o.Generation, o.ObservedGeneration)
	}
}

// case 46; weak point 002 (e): a missing config blocked deletion and showed
// Progressing.
func TestMissingConfigDoesNotBlockDeletion(t *testing.T) {
	s := newWidgets(t)
	p := &fakeProvider{}
	create(t, s, "a")
	run(t, mustProvide(t, s, p, nil, nil), "a")
	remove(t, s, "a")
	p.take()
	p.delete = func(ctx context.Context, o *widget, c settings, _ client) (reconcile.Result, error) {
		if ConfigLoaded(ctx) || c.Poll != 0 {
			t.Errorf("config loaded %v: %+v, want the zero one", ConfigLoaded(ctx), c)
		}
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	l := mustProvide(t, s, p, noConfig{}, nil)
	run(t, l, "a")
	expectReady(t, get(t, s, "a"), store.False, store.PhaseTerminating, reasonDeleting)
	p.delete = nil
	run(t, l, "a")
	expectGone(t, s, "a")
}

// noConfig is a config that is not there.
type noConfig struct{ err error }

func (n noConfig) current(context.Context) (settings, bool, error) { return settings{}, false, n.err }
func (n noConfig) check() error                                    { return nil }
func (n noConfig) news() *news                                     { return new(news) }
func (n noConfig) follow(context.Context, *bool) error             { return nil }

// case 44
func TestWithoutAConfigObjectsWaitWithoutAnError(t *testing.T) {
	s := newWidgets(t)
	p := &fakeProvider{}
	create(t, s, "a")
	if res := run(t, mustProvide(t, s, p, noConfig{}, nil), "a"); res != (reconcile.Result{}) {
		t.Errorf("Result = %+v, want zero: the config's appearance wakes the object", res)
	}
	p.expect(t)
	expectReady(t, get(t, s, "a"), store.False, store.PhaseProgressing, reasonConfigMissing)
	runFails(t, mustProvide(t, s, p, noConfig{errBoom}, nil), "a", errBoom)
	expectReady(t, get(t, s, "a"), store.False, store.PhaseProgressing, reasonConfigUnavailable)
}

// case 53, 134
func TestEachRunHasItsOwnConfigAndAccess(t *testing.T) {
	s := newWidgets(t)
	var inside sync.WaitGroup
	inside.Add(2)
	p := &fakeProvider{}
	p.create = func(_ context.Context, o *widget, c settings, a client) (reconcile.Result, error) {
		c.Hosts[0] = o.Name
		inside.Done()
		inside.Wait() // both have written by now
		if c.Hosts[0] != o.Name || a.For != o.Name {
			t.Errorf("%s sees config %v and access %v of another run", o.Name, c.Hosts, a)
		}
		return reconcile.Result{}, nil
	}
	l := mustProvide(t, s, p, StaticConfig(settings{Hosts: []string{"h"}}), fakeAccess{diary: &p.diary})
	var done sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		create(t, s, name)
		done.Go(func() { run(t, l, name) })
	}
	done.Wait()
	p.create = func(_ context.Context, _ *widget, c settings, _ client) (reconcile.Result, error) {
		if c.Hosts[0] != "h" {
			t.Errorf("config = %v, want it as given: an earlier run changed its copy only", c.Hosts)
		}
		return reconcile.Result{}, nil
	}
	run(t, l, "a")
}

// case 129
func TestWithoutAccessAllElseIsTheSame(t *testing.T) {
	s := newWidgets(t)
	p := &fakeProvider{}
	l := mustProvide(t, s, p, nil, nil)
	create(t, s, "a")
	run(t, l, "a")
	remove(t, s, "a")
	run(t, l, "a")
	p.expect(t, "CreateOrUpdate ", "Delete ")
	expectGone(t, s, "a")
}

type pairProvider struct{ *diary }

func (p pairProvider) CreateOrUpdate(_ context.Context, _ *widget, _ settings, a Both[client, client]) (reconcile.Result, error) {
	p.note("CreateOrUpdate %s %s", a.First.For, a.Second.For)
	return reconcile.Result{}, nil
}

func (p pairProvider) Delete(_ context.Context, _ *widget, _ settings, a Both[client, client]) (reconcile.Result, error) {
	p.note("Delete %s %s", a.First.For, a.Second.For)
	return reconcile.Result{}, nil
}

// case 130
func TestTwoAccessesAreEnsuredInOrderAndReleasedInReverse(t *testing.T) {
	var d diary
	s := newWidgets(t)
	one, two := fakeAccess{diary: &d, name: "1"}, fakeAccess{diary: &d, name: "2"}
	for _, c := range []struct {
		name string
		a    Access[widgetSpec, widgetStatus, settings, Both[client, client]]
		want []string
	}{
		{
			"both", JoinAccess[widgetSpec, widgetStatus, settings, client, client](one, two),
			[]string{"Ensure1", "Ensure2", "CreateOrUpdate a1 a2", "Ensure1", "Ensure2", "Delete a1 a2", "Release2", "Release1"},
		},
		{
			"the second not wanted", JoinAccess[widgetSpec, widgetStatus, settings, client, client](one, nil),
			[]string{"Ensure1", "CreateOrUpdate a1 ", "Ensure1", "Delete a1 ", "Release1"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := NewProvider(s, pairProvider{&d}, StaticConfig(settings{}), c.a, nil)
			if err != nil {
				t.Fatal(err)
			}
			create(t, s, "a")
			run(t, l, "a")
			remove(t, s, "a")
			run(t, l, "a")
			d.expect(t, c.want...)
			expectGone(t, s, "a")
		})
	}
}

// case 96; weak point 002 (h): the builder panicked, and handed out its own
// struct.
func TestProviderWithAPartMissingIsRefusedByName(t *testing.T) {
	s := newWidgets(t)
	p := &fakeProvider{}
	c := StaticConfig(settings{})
	for want, build := range map[string]func() error{
		"store":     func() error { _, err := NewProvider(nil, p, c, nil, nil); return err },
		"config":    func() error { _, err := NewProvider(s, p, nil, nil, nil); return err },
		"finalizer": func() error { _, err := NewProvider(s, p, c, nil, &Options{Finalizer: "a b"}); return err },
		"Pace":      func() error { _, err := NewProvider(s, p, c, nil, &Options{pace: -1}); return err },
		"provider": func() error {
			_, err := NewProvider[widgetSpec, widgetStatus, settings, client](s, nil, c, nil, nil)
			return err
		},
	} {
		if err := build(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without a good %s: error %v, want it named", want, err)
		}
	}
}

// case 51; weak point 002 (g): the finalizer was written by a call that creates
// what is not there.
func TestObjectDeletedBeforeTheFinalizerWriteStaysDeleted(t *testing.T) {
	s := newWidgets(t)
	create(t, s, "a")
	r, err := object.Begin(t.Context(), s, key("a"))
	if err != nil {
		t.Fatal(err)
	}
	remove(t, s, "a")
	err = r.Ensure(t.Context(), "x")
	if err == nil {
		t.Fatal("Ensure on an object that is gone = nil, want an error: no side effect may follow")
	}
	if res, err := object.Again(err); err != nil {
		t.Errorf("Again = %+v, %v, want no error", res, err)
	}
	if err := r.End(t.Context(), nil); err != nil {
		t.Errorf("End = %v", err)
	}
	expectGone(t, s, "a")
}

// Of two accesses one is gone and the other is not there yet: the deletion waits for
// it. The provider may need it to clean up.
//
// Negative control: with ErrNoAccess going before the wait, Delete was called without
// any access, and the object was let go.
func TestDeletionWaitsForTheOtherAccessThoughOneIsGone(t *testing.T) {
	for _, c := range []struct {
		gone string
		want string
	}{{"1", "2"}, {"2", "1"}} {
		var d diary
		s := newWidgets(t)
		there := false
		access := func(name string) fakeAccess {
			return fakeAccess{diary: &d, name: name, ensure: func(o *widget) (reconcile.Result, error) {
				switch {
				case !o.Deleting():
				case name == c.gone:
					return reconcile.Result{}, ErrNoAccess
				case !there:
					return reconcile.Result{RequeueAfter: time.Minute}, nil
				}
				return reconcile.Result{}, nil
			}}
		}
		both := JoinAccess[widgetSpec, widgetStatus, settings, client, client](access("1"), access("2"))
		l, err := NewProvider(s, pairProvider{&d}, StaticConfig(settings{}), both, nil)
		if err != nil {
			t.Fatal(err)
		}
		create(t, s, "a")
		run(t, l, "a")
		remove(t, s, "a")
		d.take()
		if res := run(t, l, "a"); res.RequeueAfter != time.Minute {
			t.Errorf("%s is gone, %s not there yet: %+v, want to be asked again in a minute", c.gone, c.want, res)
		}
		d.expect(t, "Ensure1", "Ensure2")
		there = true
		if _, err := l.Reconcile(t.Context(), key("a")); err != nil {
			t.Fatal(err)
		}
		expectGone(t, s, "a")
	}
}

// failingAccess fails to be ensured.
type failingAccess struct {
	fakeAccess
	err error
}

func (a failingAccess) Ensure(context.Context, *widget, settings) (client, reconcile.Result, error) {
	return client{}, reconcile.Result{}, a.err
}

// Of two accesses one is gone for good and the other fails: the failure counts, because
// what it hides may be there to be cleaned up.
func TestErrorOfOneAccessBeatsTheLackOfTheOther(t *testing.T) {
	var d diary
	none, broken := failingAccess{fakeAccess{diary: &d, name: "1"}, ErrNoAccess}, failingAccess{fakeAccess{diary: &d, name: "2"}, errBoom}
	for name, a := range map[string]Access[widgetSpec, widgetStatus, settings, Both[client, client]]{
		"first lacks":  JoinAccess[widgetSpec, widgetStatus, settings](none, broken),
		"second lacks": JoinAccess[widgetSpec, widgetStatus, settings](broken, none),
	} {
		if _, _, err := a.Ensure(t.Context(), new(widget), settings{}); !errors.Is(err, errBoom) || errors.Is(err, ErrNoAccess) {
			t.Errorf("%s: Ensure = %v, want the failure alone", name, err)
		}
	}
}

// An object that is declared again from the text of one in deletion carries the mark that
// the provider's Delete has succeeded. It is about the object of before: Delete is called
// for this one all the same.
//
// promise E2. Negative control: mutant "a mark of another object's clean-up spares the clean-up".
func TestMarkOfAnotherObjectsCleanUpSparesNone(t *testing.T) {
	s := newWidgets(t)
	p := &fakeProvider{}
	waits := true
	a := fakeAccess{diary: &p.diary, release: func(*widget) (reconcile.Result, error) {
		if waits {
			return reconcile.Result{RequeueAfter: time.Second}, nil
		}
		return reconcile.Result{}, nil
	}}
	l := mustProvide(t, s, p, nil, a)
	create(t, s, "a")
	run(t, l, "a")
	remove(t, s, "a")
	run(t, l, "a")
	saved := get(t, s, "a") // as its operator sees it
	waits = false
	run(t, l, "a")
	expectGone(t, s, "a")
	if _, err := s.Create(t.Context(), &widget{Meta: store.Meta{Name: "a", Annotations: saved.Annotations}}); err != nil {
		t.Fatal(err)
	}
	run(t, l, "a")
	remove(t, s, "a")
	p.take()
	run(t, l, "a")
	p.expect(t, "Ensure", "Delete a", "Release")
	expectGone(t, s, "a")
}
