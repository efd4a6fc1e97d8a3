package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

// faulty is a memory backend that can be told to fail.
type faulty struct {
	store.FullBackend
	get    atomic.Pointer[func(kind string) error]
	commit atomic.Pointer[func(t store.Txn) error]

	mu     sync.Mutex // guards what follows
	broken error
	cuts   []context.CancelCauseFunc // end the watches
}

func (f *faulty) Get(ctx context.Context, kind string, k store.Key) (store.Record, error) {
	if fail := f.get.Load(); fail != nil {
		if err := (*fail)(kind); err != nil {
			return store.Record{}, err
		}
	}
	return f.FullBackend.Get(ctx, kind, k)
}

func (f *faulty) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	if fail := f.commit.Load(); fail != nil {
		if err := (*fail)(t); err != nil {
			return 0, err
		}
	}
	return f.FullBackend.Commit(ctx, t)
}

// fall makes reads and watches fail with err, those that are open included, until it is
// called with nil.
func (f *faulty) fall(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = err
	if err == nil {
		f.get.Store(nil)
		return
	}
	f.get.Store(new(func(string) error { return err }))
	for _, cut := range f.cuts {
		cut(err)
	}
	f.cuts = nil
}

func (f *faulty) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		open, cut := context.WithCancelCause(ctx)
		defer cut(nil)
		f.mu.Lock()
		if f.broken != nil {
			cut(f.broken)
		}
		f.cuts = append(f.cuts, cut)
		f.mu.Unlock()
		for b, err := range f.FullBackend.Watch(open, kind, after) {
			if open.Err() == nil && !yield(b, err) {
				return
			}
		}
		if ctx.Err() == nil {
			yield(store.Batch{}, context.Cause(open))
		}
	}
}

func newFaulty(t *testing.T) *faulty {
	t.Helper()
	b, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return &faulty{FullBackend: b}
}

func on[S, T any](t *testing.T, b store.Backend, kind string) *store.Store[S, T] {
	t.Helper()
	s, err := store.New[S, T](b, kind, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type configs = store.Store[settings, struct{}]

type config = store.Object[settings, struct{}]

func watchConfig(t *testing.T, s *configs, initial *settings) Config[settings] {
	t.Helper()
	c, err := WatchedConfig(s, key("main"), initial)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func putConfig(t *testing.T, s *configs, name string, c settings) {
	t.Helper()
	_, err := s.Create(t.Context(), &config{Meta: store.Meta{Name: name}, Spec: c})
	if errors.Is(err, store.ErrExists) {
		_, err = s.Mutate(t.Context(), key(name), func(o *config) error { o.Spec = c; return nil })
	}
	if err != nil {
		t.Fatal(err)
	}
}

// hosts is a provider that notes the object and the first host of its config.
func hosts() *fakeProvider {
	p := &fakeProvider{}
	p.create = func(_ context.Context, o *widget, c settings, _ client) (reconcile.Result, error) {
		o.Status.Note = strings.Join(c.Hosts, ",")
		return reconcile.Result{}, nil
	}
	return p
}

// case 44, 135, 137, 138
func TestConfigIsFollowedAcrossBackends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cs := newWidgets(t), newKind[settings, struct{}](t, "config")
		p := hosts()
		ctrl := start(t, mustProvide(t, s, p, watchConfig(t, cs, nil), fakeAccess{diary: &p.diary}), nil, nil)
		create(t, s, "a")
		restFor(time.Second)
		expectReady(t, get(t, s, "a"), store.False, store.PhaseProgressing, reasonConfigMissing)

		putConfig(t, cs, "main", settings{Hosts: []string{"one"}})
		restFor(time.Second)
		o := get(t, s, "a")
		expectReady(t, o, store.True, store.PhaseReady, "Ready")
		if o.Status.Note != "one" {
			t.Errorf("ran with %q, want the config that appeared", o.Status.Note)
		}
		putConfig(t, cs, "main", settings{Hosts: []string{"two"}})
		restFor(time.Second)
		if got := get(t, s, "a").Status.Note; got != "two" {
			t.Errorf("ran with %q, want the edited config", got)
		}

		p.take()
		c, err := cs.Get(t.Context(), key("main"))
		if err == nil {
			err = cs.Delete(t.Context(), c)
		}
		if err != nil {
			t.Fatal(err)
		}
		restFor(time.Second)
		o = get(t, s, "a")
		expectReady(t, o, store.False, store.PhaseProgressing, reasonConfigMissing)
		if o.Status.Note != "two" || len(o.Finalizers) != 1 {
			t.Errorf("%+v, want nothing torn down", o)
		}
		p.expect(t) // neither CreateOrUpdate nor Delete nor Release
		if n := ctrl.Snapshot().Runs; n.Error+n.Terminal+n.Timeout+n.Panic != 0 {
			t.Errorf("%+v, want no error for want of a config", n)
		}
	})
}

// case 135
func TestConfigGivenAtConstructionServesUntilTheWatchedOneAppears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cs := newWidgets(t), newKind[settings, struct{}](t, "config")
		start(t, mustProvide(t, s, hosts(), watchConfig(t, cs, &settings{Hosts: []string{"given"}}), nil), nil, nil)
		create(t, s, "a")
		restFor(time.Second)
		if got := get(t, s, "a").Status.Note; got != "given" {
			t.Errorf("ran with %q, want the one given", got)
		}
		putConfig(t, cs, "main", settings{Hosts: []string{"watched"}})
		restFor(time.Second)
		if got := get(t, s, "a").Status.Note; got != "watched" {
			t.Errorf("ran with %q, want the watched one", got)
		}
	})
}

// case 45, 138; weak point 002 (a): any failure to read the config, even a
// passing one, took it away.
func TestConfigThatCannotBeReadStaysInForceAndDeletionsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFaulty(t)
		s, cs := newWidgets(t), on[settings, struct{}](t, b, "config")
		putConfig(t, cs, "main", settings{Hosts: []string{"one"}})
		p := hosts()
		start(t, mustProvide(t, s, p, watchConfig(t, cs, nil), nil), nil, nil)
		create(t, s, "a")
		restFor(time.Second)

		b.get.Store(new(func(string) error { return errBoom }))
		rev, err := b.FullBackend.Get(t.Context(), "config", key("main"))
		if err != nil {
			t.Fatal(err)
		}
		other := on[settings, struct{}](t, b.FullBackend, "config") // a client whose connection works
		if _, err := other.Mutate(t.Context(), key("main"), func(o *config) error { o.Spec.Hosts = []string{"two"}; return nil }); err != nil {
			t.Fatal(err, rev)
		}
		restFor(time.Second)
		edit(t, s, "a", resize(2))
		create(t, s, "b")
		restFor(time.Second)
		for _, name := range []string{"a", "b"} {
			if got := get(t, s, name).Status.Note; got != "one" {
				t.Errorf("%s ran with %q, want the last good config", name, got)
			}
		}
		remove(t, s, "b")
		restFor(time.Second)
		expectGone(t, s, "b")

		b.get.Store(nil)
		restFor(5 * time.Minute)
		if got := get(t, s, "a").Status.Note; got != "two" {
			t.Errorf("ran with %q, want the config read at last", got)
		}
	})
}

// A config that a newer version of the program stored is read in part: the one before stays in force.
//
// promise S5
func TestConfigOfANewerVersionIsNotInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFaulty(t)
		s, cs := newWidgets(t), on[settings, struct{}](t, b, "config")
		putConfig(t, cs, "main", settings{Hosts: []string{"one"}})
		start(t, mustProvide(t, s, hosts(), watchConfig(t, cs, nil), nil), nil, nil)
		create(t, s, "a")
		restFor(time.Second)
		newer, err := store.New[settings, struct{}](b, "config", &store.Options[settings, struct{}]{Version: 2})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newer.Mutate(t.Context(), key("main"), func(o *config) error { o.Spec.Hosts = []string{"two"}; return nil }); err != nil {
			t.Fatal(err)
		}
		restFor(time.Second)
		edit(t, s, "a", resize(2))
		restFor(5 * time.Minute)
		if got := get(t, s, "a"); got.Status.Note != "one" || got.Spec.Size != 2 {
			t.Errorf("a is %+v, want that it ran with the config of before", got)
		}
	})
}

// case 136; weak point 002 (f): all objects were enqueued at once.
func TestConfigEditRunsEveryObjectOnceSpreadOutBehindLiveEdits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		s, cs := newWidgets(t), newKind[settings, struct{}](t, "config")
		putConfig(t, cs, "main", settings{Hosts: []string{"one"}})
		runs := map[string]int{}
		var at int
		var edited time.Duration
		var began time.Time
		p := &fakeProvider{}
		l := mustProvide(t, s, p, watchConfig(t, cs, nil), nil)
		for i := range n {
			create(t, s, fmt.Sprint(i))
		}
		start(t, l, nil, &reconcile.Options[reconcile.Request]{Workers: 1})
		restFor(time.Hour)
		p.create = func(_ context.Context, o *widget, _ settings, _ client) (reconcile.Result, error) {
			if o.Spec.Size == 2 && edited == 0 {
				edited = time.Since(began)
			}
			runs[o.Name]++
			at++
			time.Sleep(6 * time.Millisecond) // slower than the pace: the queue fills up
			return reconcile.Result{}, nil
		}
		putConfig(t, cs, "another", settings{Hosts: []string{"x"}})
		restFor(time.Hour)
		if at != 0 {
			t.Errorf("%d runs for a config of another name, want none", at)
		}

		began = time.Now()
		putConfig(t, cs, "main", settings{Hosts: []string{"two"}})
		restFor(10 * time.Second)
		edit(t, s, "9999", resize(2)) // last in line
		restFor(time.Hour)
		for name, got := range runs {
			if want := 1; got != want && name != "9999" {
				t.Fatalf("%s ran %d times, want once", name, got)
			}
		}
		if len(runs) != n {
			t.Errorf("%d objects ran, want all %d", len(runs), n)
		}
		if edited -= 10 * time.Second; edited > time.Second {
			t.Errorf("the live edit was served after %v, want it ahead of the round", edited)
		}
	})
}

// case 136. Negative control: with a pace of 0 all ran at once.
func TestRoundKeepsItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cs := newWidgets(t), newKind[settings, struct{}](t, "config")
		putConfig(t, cs, "main", settings{})
		for i := range 100 {
			create(t, s, fmt.Sprint(i))
		}
		p := &fakeProvider{}
		l, err := NewProvider(s, p, watchConfig(t, cs, nil), nil, &Options{pace: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		start(t, l, nil, nil)
		restFor(time.Hour)
		p.take()
		putConfig(t, cs, "main", settings{Hosts: []string{"new"}})
		restFor(50*time.Second + 500*time.Millisecond)
		if got := len(p.take()); got != 51 {
			t.Errorf("%d of 100 objects ran in 50.5 s, want 51: one a second", got)
		}
		restFor(time.Hour)
		if got := len(p.take()); got != 49 {
			t.Errorf("%d objects ran afterwards, want the other 49", got)
		}
	})
}

// A config edit is the cure for many a failure: it does not wait for a backoff,
// nor for a park to end.
func TestConfigEditRevivesWhatHasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cs := newWidgets(t), newKind[settings, struct{}](t, "config")
		putConfig(t, cs, "main", settings{Hosts: []string{"bad"}})
		p := &fakeProvider{create: func(_ context.Context, o *widget, c settings, _ client) (reconcile.Result, error) {
			switch {
			case c.Hosts[0] == "good":
				return reconcile.Result{}, nil
			case o.Name == "parked":
				return reconcile.Result{}, reconcile.Terminal(errBoom)
			}
			return reconcile.Result{}, reconcile.RetryAfter(errBoom, time.Hour)
		}}
		start(t, mustProvide(t, s, p, watchConfig(t, cs, nil), nil), nil, nil)
		create(t, s, "parked")
		create(t, s, "waiting")
		restFor(time.Minute)
		putConfig(t, cs, "main", settings{Hosts: []string{"good"}})
		restFor(time.Second)
		for _, name := range []string{"parked", "waiting"} {
			expectReady(t, get(t, s, name), store.True, store.PhaseReady, "Ready")
		}
	})
}

// Negative control: mutant "a config shares its caller's memory".
func TestStaticConfigIsCopiedAtOnce(t *testing.T) {
	type config struct{ Tags map[string]string }
	tags := map[string]string{"region": "eu"}
	c := StaticConfig(config{tags})
	tags["region"] = "us"
	if got, _, err := c.current(t.Context()); err != nil || got.Tags["region"] != "eu" {
		t.Errorf("the config is %v, %v; want what was given", got, err)
	}
	initial := settings{Hosts: []string{"one"}}
	w := watchConfig(t, newKind[settings, struct{}](t, "config"), &initial)
	initial.Hosts[0] = "two"
	if got, _, err := w.current(t.Context()); err != nil || got.Hosts[0] != "one" {
		t.Errorf("the config until one is stored is %v, %v; want what was given", got, err)
	}
}

// case 53: the watched config is copied for each run, too.
func TestWatchedConfigIsCopiedForEachRun(t *testing.T) {
	s, cs := newWidgets(t), newKind[settings, struct{}](t, "config")
	putConfig(t, cs, "main", settings{Hosts: []string{"h"}})
	create(t, s, "a")
	var saw []string
	p := &fakeProvider{create: func(_ context.Context, _ *widget, c settings, _ client) (reconcile.Result, error) {
		saw = append(saw, c.Hosts[0])
		c.Hosts[0] = "mine"
		return reconcile.Result{}, nil
	}}
	c := watchConfig(t, cs, nil)
	w := c.(*watched[settings, struct{}])
	l := mustProvide(t, s, p, c, nil)
	run(t, l, "a")
	w.followers = 1 // from here on the watch alone would tell
	run(t, l, "a")
	run(t, l, "a")
	if want := []string{"h", "h", "h"}; !slices.Equal(saw, want) {
		t.Errorf("runs saw %q, want %q", saw, want)
	}
}

// case 126
func TestSpecEditedDuringTheRunRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWidgets(t)
		var sizes []int
		p := &fakeProvider{create: func(_ context.Context, o *widget, _ settings, _ client) (reconcile.Result, error) {
			if sizes = append(sizes, o.Spec.Size); len(sizes) == 1 {
				edit(t, s, "a", resize(2))
				synctest.Wait() // the cache has told of it before the run is over
			}
			return reconcile.Result{}, nil
		}}
		start(t, mustProvide(t, s, p, nil, nil), nil, nil)
		create(t, s, "a")
		restFor(time.Second)
		if len(sizes) != 2 || sizes[1] != 2 {
			t.Errorf("ran with sizes %v, want 1 and then 2", sizes)
		}
		if o := get(t, s, "a"); !o.Ready() || o.ObservedGeneration != 2 {
			t.Errorf("ready %v, observed %d, want ready in generation 2", o.Ready(), o.ObservedGeneration)
		}
	})
}

// case 128
func TestProviderThatWritesItsStatusDoesNotWakeItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWidgets(t)
		runs := 0
		p := &fakeProvider{create: func(_ context.Context, o *widget, _ settings, _ client) (reconcile.Result, error) {
			runs++
			o.Status.Note = fmt.Sprint(runs)
			return reconcile.Result{}, nil
		}}
		start(t, mustProvide(t, s, p, nil, nil), nil, nil)
		create(t, s, "a")
		restFor(time.Hour)
		if runs != 1 {
			t.Errorf("%d runs, want one", runs)
		}
	})
}

type secret = store.Object[map[string]string, struct{}]

// case 52, 138, 139; weak point 002 (b), (f), (i): mappers could not fail, every
// object ran, and a config that was not loaded was a nil to trip over.
func TestReferencedSecretWakesTheObjectsThatReferToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cs := newWidgets(t), newKind[settings, struct{}](t, "config")
		secrets := newKind[map[string]string, struct{}](t, "secret")
		cfg := watchConfig(t, cs, nil)
		p := &fakeProvider{}
		l := mustProvide(t, s, p, cfg, nil)
		ours, err := cache.New(secrets, &cache.Options[map[string]string, struct{}]{Selector: store.Selector{Namespace: "ours"}})
		if err != nil {
			t.Fatal(err)
		}
		var told []bool
		fails := 0
		ctrl, err := l.Controller("", nil, []reconcile.Source[reconcile.Request]{WatchRef(ours, cfg, func(ctx context.Context, ref *secret, c settings, loaded bool) ([]reconcile.Request, error) {
			told = append(told, loaded)
			if fails > 0 {
				fails--
				return nil, errBoom
			}
			var keys []reconcile.Request
			for o, err := range s.All(ctx, store.Selector{}) {
				if err != nil {
					return nil, err
				}
				if o.Labels["secret"] == ref.Name {
					keys = append(keys, o.Key())
				}
			}
			return keys, nil
		})}, nil)
		if err != nil {
			t.Fatal(err)
		}
		manage(t, ctrl)
		for _, name := range []string{"a", "b"} {
			if _, err := s.Create(t.Context(), &widget{Meta: store.Meta{Name: name, Labels: map[string]string{"secret": name}}}); err != nil {
				t.Fatal(err)
			}
		}
		put := func(ns, name string) {
			if _, err := secrets.Create(t.Context(), &secret{Meta: store.Meta{Namespace: ns, Name: name}}); err != nil {
				t.Fatal(err)
			}
			restFor(time.Minute)
		}
		put("ours", "c")
		if len(told) != 1 || told[0] {
			t.Errorf("match was told %v, want once, that no config is loaded", told)
		}
		putConfig(t, cs, "main", settings{})
		restFor(time.Minute)
		told, p.lines = nil, nil
		put("theirs", "a")
		if p.expect(t); len(told) != 0 {
			t.Errorf("match was called for a secret of another namespace")
		}
		fails = 2
		put("ours", "b")
		if got := p.take(); len(got) != 1 || len(told) != 3 || !told[2] {
			t.Errorf("runs %q, match called %v, want one run after the third call, with a config loaded", got, told)
		}
	})
}

// case 41
func TestStatusThatCannotBeWrittenIsJoinedToTheError(t *testing.T) {
	b := newFaulty(t)
	s := on[widgetSpec, widgetStatus](t, b, "widget")
	create(t, s, "a")
	refused := errors.New("refused")
	p := &fakeProvider{create: func(context.Context, *widget, settings, client) (reconcile.Result, error) {
		b.commit.Store(new(func(store.Txn) error { return refused }))
		return reconcile.Result{}, errBoom
	}}
	l := mustProvide(t, s, p, nil, nil)
	_, err := l.Reconcile(t.Context(), key("a"))
	if !errors.Is(err, errBoom) || !errors.Is(err, refused) {
		t.Errorf("Reconcile = %v, want both what failed and that it could not be said", err)
	}
	p.create = nil
	res, err := l.Reconcile(t.Context(), key("a"))
	if !errors.Is(err, refused) || res != (reconcile.Result{}) {
		t.Errorf("Reconcile = %+v, %v, want the status failure alone", res, err)
	}
	b.commit.Store(nil)
	edit(t, s, "a", func(o *widget) { o.Paused = true })
	b.commit.Store(new(func(store.Txn) error { return refused }))
	if _, err := l.Reconcile(t.Context(), key("a")); !errors.Is(err, refused) {
		t.Errorf("paused: Reconcile = %v, want the status failure", err)
	}
}

// Two kinds go by one config, as the providers of one service do.
//
// Negative control: with the news kept by the config, the follower that asked first
// took it, and the objects of the other stayed as they were.
func TestProvidersThatShareAConfigAreBothTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := newKind[settings, struct{}](t, "config")
		putConfig(t, cs, "main", settings{Hosts: []string{"one"}})
		shared := watchConfig(t, cs, nil)
		var kinds []*store.Store[widgetSpec, widgetStatus]
		for range 2 {
			s := newWidgets(t)
			kinds = append(kinds, s)
			start(t, mustProvide(t, s, hosts(), shared, nil), nil, nil)
			create(t, s, "a")
		}
		restFor(time.Second)
		putConfig(t, cs, "main", settings{Hosts: []string{"two"}})
		restFor(time.Minute)
		for i, s := range kinds {
			if got := get(t, s, "a").Status.Note; got != "two" {
				t.Errorf("kind %d ran with %q, want the edited config", i, got)
			}
		}
	})
}

// lateAnswer is a backend whose first reading of a config answers late.
type lateAnswer struct {
	store.Backend
	reads         atomic.Int32
	read, release chan struct{}
}

func (b *lateAnswer) Get(ctx context.Context, kind string, k store.Key) (store.Record, error) {
	r, err := b.Backend.Get(ctx, kind, k)
	if kind == "config" && b.reads.Add(1) == 1 {
		close(b.read)
		<-b.release
	}
	return r, err
}

// A run reads the config for itself while it has no follower yet. Its answer comes
// when a newer one has been read.
//
// Negative control: with the reading that ends last in force, the old config stayed
// until the next edit.
func TestOldReadingOfTheConfigDoesNotReplaceANewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &lateAnswer{Backend: newFaulty(t), read: make(chan struct{}), release: make(chan struct{})}
		s, cs := newWidgets(t), on[settings, struct{}](t, b, "config")
		direct := on[settings, struct{}](t, b.Backend, "config")
		putConfig(t, direct, "main", settings{Hosts: []string{"old"}})
		l := mustProvide(t, s, hosts(), watchConfig(t, cs, nil), nil)
		create(t, s, "early")
		done := make(chan error, 1)
		go func() { // ends with the late answer
			_, err := l.Reconcile(t.Context(), key("early"))
			done <- err
		}()
		<-b.read
		putConfig(t, direct, "main", settings{Hosts: []string{"new"}})
		start(t, l, nil, nil)
		restFor(time.Second)
		close(b.release)
		if err := <-done; err != nil && !errors.Is(err, store.ErrConflict) {
			t.Fatal(err)
		}
		create(t, s, "late")
		restFor(time.Second)
		if got := get(t, s, "late").Status.Note; got != "new" {
			t.Errorf("ran with %q, want the newest config", got)
		}
	})
}

// quietWatch is a backend whose watches may be made to say nothing.
type quietWatch struct {
	store.Backend
	quiet atomic.Bool
}

func (b *quietWatch) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	if !b.quiet.Load() {
		return b.Backend.Watch(ctx, kind, after)
	}
	return func(yield func(store.Batch, error) bool) {
		<-ctx.Done()
		yield(store.Batch{}, context.Cause(ctx))
	}
}

// A server that gets its lease back does not go by the config of the time before,
// even if the watch is slow to begin.
//
// Negative control: with the config taken for followed from the first time on, the
// object ran with the config of before.
func TestConfigIsReadAnewAfterALeaseCameBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &quietWatch{Backend: newFaulty(t)}
		s, cs := newWidgets(t), on[settings, struct{}](t, b, "config")
		putConfig(t, cs, "main", settings{Hosts: []string{"before"}})
		p, err := lease.NewManual(nil, "test")
		if err != nil {
			t.Fatal(err)
		}
		p.Set(true, 0)
		start(t, mustProvide(t, s, hosts(), watchConfig(t, cs, nil), nil), nil, &reconcile.Options[reconcile.Request]{Placement: p})
		create(t, s, "a")
		restFor(time.Second)
		p.Set(false, 0)
		restFor(time.Second)
		b.quiet.Store(true)
		putConfig(t, cs, "main", settings{Hosts: []string{"meanwhile"}})
		p.Set(true, 0)
		restFor(time.Second)
		if got := get(t, s, "a").Status.Note; got != "meanwhile" {
			t.Errorf("ran with %q, want the config of now", got)
		}
	})
}
