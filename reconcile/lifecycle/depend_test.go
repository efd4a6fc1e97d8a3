package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

type (
	partSpec   struct{ Needs string }
	partStatus struct{}
	part       = store.Object[partSpec, partStatus]
)

// parts is a provider of parts, some of which need another one.
type parts struct {
	fail func(name string) error

	mu    sync.Mutex
	calls []string // guarded by mu
}

func (p *parts) note(call string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, call)
}

func (p *parts) called() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

func (p *parts) CreateOrUpdate(_ context.Context, o *part, _, _ struct{}) (reconcile.Result, error) {
	p.note("+" + o.Name)
	if p.fail != nil {
		return reconcile.Result{}, p.fail(o.Name)
	}
	return reconcile.Result{}, nil
}

func (p *parts) Delete(_ context.Context, o *part, _, _ struct{}) (reconcile.Result, error) {
	p.note("-" + o.Name)
	return reconcile.Result{}, nil
}

// workshop runs a lifecycle of parts with their dependencies.
func workshop(t *testing.T, build func(s *store.Store[partSpec, partStatus]) (*Lifecycle[partSpec, partStatus], error)) *store.Store[partSpec, partStatus] {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := memory.New(nil)
	ok(err)
	s, err := store.New[partSpec, partStatus](b, "part", nil)
	ok(err)
	c, err := cache.New(s, nil)
	ok(err)
	tracker, err := depend.New(c, depend.On(c, func(o *part) []store.Key {
		if o.Spec.Needs == "" {
			return nil
		}
		return []store.Key{{Name: o.Spec.Needs}}
	}, nil), nil)
	ok(err)
	l, err := build(s)
	ok(err)
	ok(l.DependOn(tracker))
	if l.DependOn(tracker) == nil || l.DependOn(nil) == nil {
		t.Error("a second tracker is taken")
	}
	ctrl, err := l.Controller("", c, nil, &reconcile.Options[reconcile.Request]{
		Workers: 1, Backoff: queue.Backoff{Base: time.Hour, Max: time.Hour, NoJitter: true},
	})
	ok(err)
	ctx, stop := context.WithCancel(t.Context())
	m := &reconcile.Manager{}
	ok(m.Register(ctrl))
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() { stop(); ok(<-done) })
	return s
}

func declarePart(t *testing.T, s *store.Store[partSpec, partStatus], name, needs string) {
	t.Helper()
	if _, err := s.Create(t.Context(), &part{Meta: store.Meta{Name: name}, Spec: partSpec{needs}}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	synctest.Wait()
}

func removePart(t *testing.T, s *store.Store[partSpec, partStatus], name string) {
	t.Helper()
	o, err := s.Get(t.Context(), store.Key{Name: name})
	if err == nil {
		err = s.Delete(t.Context(), o)
	}
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	synctest.Wait()
}

// A provider's objects are created in the order of their needs and deleted in reverse,
// whatever the order in which they are declared and removed, and say what they wait for.
func TestProviderKeepsTheOrderOfItsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &parts{}
		s := workshop(t, func(s *store.Store[partSpec, partStatus]) (*Lifecycle[partSpec, partStatus], error) {
			return NewProvider(s, p, StaticConfig(struct{}{}), nil, nil)
		})
		declarePart(t, s, "roof", "wall")
		o, err := s.Get(t.Context(), store.Key{Name: "roof"})
		if err != nil {
			t.Fatal(err)
		}
		if c, _ := o.Condition(store.ConditionReady); c.Reason != "WaitingForDependencies" || c.Message != "part wall does not exist" || len(o.Finalizers) > 0 {
			t.Errorf("it says %s %q, finalizers %v", c.Reason, c.Message, o.Finalizers)
		}
		declarePart(t, s, "wall", "floor")
		declarePart(t, s, "floor", "")
		removePart(t, s, "floor")
		o, err = s.Get(t.Context(), store.Key{Name: "floor"})
		if err != nil {
			t.Fatal(err)
		}
		if c, _ := o.Condition(store.ConditionReady); c.Reason != depend.ReasonInUse || o.Phase != store.PhaseTerminating {
			t.Errorf("it says %s %s %q", o.Phase, c.Reason, c.Message)
		}
		removePart(t, s, "wall")
		removePart(t, s, "roof")
		if want := []string{"+floor", "+wall", "+roof", "-roof", "-wall", "-floor"}; !slices.Equal(p.called(), want) {
			t.Errorf("called %v, want %v", p.called(), want)
		}
		if left, err := s.List(t.Context(), store.Selector{}); err != nil || len(left) > 0 {
			t.Errorf("%d are left, %v", len(left), err)
		}
	})
}

// flip makes a part unready and ready again, as its own run would.
func flip(t *testing.T, s *store.Store[partSpec, partStatus], name string) {
	t.Helper()
	for _, ready := range []bool{false, true} {
		o, err := s.Get(t.Context(), store.Key{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if o.SetReady(); !ready {
			o.SetProgressing("Repair", "")
		}
		if _, err = s.UpdateStatus(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
	}
}

// A dependency that becomes ready again ends the backoff of a provider's object, and that
// of a handler, which keeps a time of its own.
func TestDependencyEndsTheBackoffOfProvidersAndHandlers(t *testing.T) {
	errBroken := errors.New("broken")
	for name, build := range map[string]func(s *store.Store[partSpec, partStatus], p *parts) (*Lifecycle[partSpec, partStatus], error){
		"provider": func(s *store.Store[partSpec, partStatus], p *parts) (*Lifecycle[partSpec, partStatus], error) {
			return NewProvider(s, p, StaticConfig(struct{}{}), nil, nil)
		},
		"handler": func(s *store.Store[partSpec, partStatus], p *parts) (*Lifecycle[partSpec, partStatus], error) {
			add := func(ctx context.Context, o *part) (reconcile.Result, error) {
				return p.CreateOrUpdate(ctx, o, struct{}{}, struct{}{})
			}
			return New(s, []Handler[partSpec, partStatus]{{
				Name: "one", Add: add, Update: func(ctx context.Context, _, o *part) (reconcile.Result, error) { return add(ctx, o) }, Resync: add,
				Delete: func(context.Context, *part) (reconcile.Result, error) { return reconcile.Result{}, nil },
				Retry:  queue.Backoff{Base: time.Hour, Max: time.Hour, NoJitter: true}.Policy(),
			}}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broken := true
				p := &parts{fail: func(name string) error {
					if name == "wall" && broken {
						return errBroken
					}
					return nil
				}}
				s := workshop(t, func(s *store.Store[partSpec, partStatus]) (*Lifecycle[partSpec, partStatus], error) {
					return build(s, p)
				})
				declarePart(t, s, "floor", "")
				declarePart(t, s, "wall", "floor")
				calls := len(p.called())
				broken = false
				flip(t, s, "floor")
				o, err := s.Get(t.Context(), store.Key{Name: "wall"})
				if err != nil {
					t.Fatal(err)
				}
				if !o.Ready() || len(p.called()) == calls {
					t.Errorf("it is still backing off: %v %+v", p.called(), o.Conditions)
				}
			})
		})
	}
}

// partsAndSecrets are two kinds in one store, of which the second is cached, and a check of
// errors.
func partsAndSecrets(t *testing.T) (s, secretStore *store.Store[partSpec, partStatus], secrets *cache.Cache[partSpec, partStatus], ok func(error)) {
	ok = func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := memory.New(nil)
	ok(err)
	s, err = store.New[partSpec, partStatus](b, "part", nil)
	ok(err)
	secretStore, err = store.New[partSpec, partStatus](b, "secret", nil)
	ok(err)
	secrets, err = cache.New(secretStore, nil)
	ok(err)
	return s, secretStore, secrets, ok
}

// lateZones is a backend whose watches of zones show nothing while the gate is shut.
type lateZones struct {
	store.Backend
	gate atomic.Pointer[chan struct{}] // nil: open
}

func (b *lateZones) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		for batch, err := range b.Backend.Watch(ctx, kind, after) {
			if gate := b.gate.Load(); gate != nil && kind == "zone" {
				select {
				case <-*gate:
				case <-ctx.Done():
				}
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

// A run that takes a hold writes to what it needs. The key does not run again before the
// cache of what is needed has seen that.
//
// promise S4. Negative control: mutant "the caches of dependencies are not waited for".
func TestKeyWaitsForTheCachesOfWhatItNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		m, err := memory.New(nil)
		ok(err)
		b := &lateZones{Backend: m}
		zones, err := store.New[partSpec, partStatus](b, "zone", nil)
		ok(err)
		s, err := store.New[partSpec, partStatus](b, "part", nil)
		ok(err)
		known, err := cache.New(zones, nil)
		ok(err)
		c, err := cache.New(s, nil)
		ok(err)
		tracker, err := depend.New(c, depend.On(known, func(o *part) []store.Key { return []store.Key{{Name: o.Spec.Needs}} }, nil), nil)
		ok(err)
		p := &parts{}
		l, err := NewProvider(s, p, StaticConfig(struct{}{}), nil, nil)
		ok(err)
		ok(l.DependOn(tracker))
		ctrl, err := l.Controller("", c, nil, &reconcile.Options[reconcile.Request]{CacheWait: time.Hour})
		ok(err)
		zone := &part{Meta: store.Meta{Name: "z"}}
		zone.SetReady()
		zone, err = zones.Create(t.Context(), zone)
		ok(err)
		zone.SetReady()
		_, err = zones.UpdateStatus(t.Context(), zone)
		ok(err)
		manage(t, ctrl)
		gate := make(chan struct{})
		b.gate.Store(&gate)
		declarePart(t, s, "p", "z")
		if got := p.called(); !slices.Equal(got, []string{"+p"}) {
			t.Fatalf("called for %q, want once", got)
		}
		ok(ctrl.Add(reconcile.Request{Name: "p"}))
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := p.called(); len(got) != 1 {
			t.Errorf("called for %q before the cache of zones has seen the hold", got)
		}
		b.gate.Store(nil)
		close(gate)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := p.called(); len(got) != 2 {
			t.Errorf("called for %q in the end, want twice", got)
		}
	})
}

// A source of dependencies that reports a failure is shown with it, as any source is.
//
// Negative control: mutant "the failure of a dependency source is not told".
func TestFailureOfADependencySourceIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		l := mustNew(t, newWidgets(t), d.handler("one", nil))
		ctrl, err := l.Controller("", nil, []reconcile.Source[reconcile.Request]{{
			Name: "prices",
			Run: func(ctx context.Context, to reconcile.Sink[reconcile.Request]) error {
				to.Synced()
				to.(reconcile.Reporter).Failed(errBoom)
				<-ctx.Done()
				return nil
			},
		}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		manage(t, ctrl)
		for _, source := range ctrl.Snapshot().Sources {
			if source.Name == "prices" && source.Error != errBoom.Error() {
				t.Errorf("%+v, want the failure", source)
			}
		}
	})
}

// A secret that WatchRef watches is mended: what backs off or is parked because of it runs
// within a second, and its attempts go on. Before, one was well after minutes of backoff
// and the other after the hour of the parked resync.
func TestWatchRefEndsBackoffAndPark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, secretStore, secrets, ok := partsAndSecrets(t)
		good := false
		p := &parts{fail: func(name string) error {
			switch {
			case good:
				return nil
			case name == "parks":
				return reconcile.Terminal(errors.New("the password is wrong"))
			}
			return errors.New("the password is wrong")
		}}
		config := StaticConfig(struct{}{})
		l, err := NewProvider(s, p, config, nil, nil)
		ok(err)
		ctrl, err := l.Controller("", nil, nil, &reconcile.Options[reconcile.Request]{
			Backoff: queue.Backoff{Base: time.Hour, Max: time.Hour, NoJitter: true},
		})
		ok(err)
		ok(ctrl.Watch(WatchRef(secrets, config, func(context.Context, *store.Object[partSpec, partStatus], struct{}, bool) ([]reconcile.Request, error) {
			return []reconcile.Request{{Name: "backs off"}, {Name: "parks"}}, nil
		})))
		ctx, stop := context.WithCancel(t.Context())
		m := &reconcile.Manager{}
		ok(m.Register(ctrl))
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		defer func() { stop(); ok(<-done) }()
		secret, err := secretStore.Create(t.Context(), &part{Meta: store.Meta{Name: "password"}})
		ok(err)
		synctest.Wait() // the secret is known before its users run, and each has run before the edit
		declarePart(t, s, "backs off", "")
		declarePart(t, s, "parks", "")
		synctest.Wait()
		secret.Spec.Needs = "another wrong one"
		secret, err = secretStore.Update(t.Context(), secret)
		ok(err)
		time.Sleep(time.Second)
		synctest.Wait()
		if e, _ := ctrl.Queue().Lookup(store.Key{Name: "backs off"}); e.Attempts != 2 {
			t.Errorf("%d attempts after an edit that mended nothing, want 2", e.Attempts)
		}
		good = true
		secret.Spec.Needs = "the right one"
		_, err = secretStore.Update(t.Context(), secret)
		ok(err)
		time.Sleep(time.Second)
		synctest.Wait()
		for _, name := range []string{"backs off", "parks"} {
			if o, err := s.Get(t.Context(), store.Key{Name: name}); err != nil || !o.Ready() {
				t.Errorf("%s is not ready: %+v, %v", name, o.Conditions, err)
			}
		}
	})
}

// A secret that ten thousand objects refer to by WatchRef is mended: a thousand of them are
// added at once and the others at a thousand a second, all but a hundred in the low band; a
// live edit of one of them beside that is served within a second; and each runs with the
// secret in the end.
//
// promise Q4
func TestLiveEditDoesNotWaitForTheUsersOfAWatchedRef(t *testing.T) {
	users := campaign.Sized(10_000, 3000)
	synctest.Test(t, func(t *testing.T) {
		s, secretStore, secrets, ok := partsAndSecrets(t)
		secret, err := secretStore.Create(t.Context(), &part{Meta: store.Meta{Name: "shared"}})
		ok(err)
		var all []reconcile.Request
		for n := range users {
			all = append(all, reconcile.Request{Name: fmt.Sprint("user", n)})
			_, err := s.Create(t.Context(), &part{Meta: store.Meta{Name: all[n].Name}})
			ok(err)
		}
		var mu sync.Mutex
		slow, runs := time.Duration(0), make(map[string]int) // guarded by mu
		p := &parts{fail: func(name string) error {
			mu.Lock()
			runs[name]++
			pause := slow
			mu.Unlock()
			time.Sleep(pause)
			return nil
		}}
		ran := func(name string) int {
			mu.Lock()
			defer mu.Unlock()
			return runs[name]
		}
		config := StaticConfig(struct{}{})
		l, err := NewProvider(s, p, config, nil, nil)
		ok(err)
		ctrl, err := l.Controller("", nil, nil, &reconcile.Options[reconcile.Request]{Workers: 8})
		ok(err)
		ok(ctrl.Watch(WatchRef(secrets, config, func(context.Context, *store.Object[partSpec, partStatus], struct{}, bool) ([]reconcile.Request, error) {
			return all, nil
		})))
		ctx, stop := context.WithCancel(t.Context())
		m := &reconcile.Manager{}
		ok(m.Register(ctrl))
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		defer func() { stop(); ok(<-done) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		slow = 50 * time.Millisecond // 8 workers: 160 runs a second, a minute for all
		clear(runs)
		mu.Unlock()
		secret.Spec.Needs = "mended"
		_, err = secretStore.Update(t.Context(), secret)
		ok(err)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		live, waiting := 0, 0 // a thousand are there at once, but for those that run
		for _, key := range all {
			e, there := ctrl.Queue().Lookup(key)
			switch {
			case there && e.State == queue.StateDelayed:
				waiting++
			case there && e.Priority.Int() >= 0:
				live++
			}
		}
		if live > 110 || waiting < users-1100 {
			t.Errorf("%d of %d are live and %d wait for their time, want about 100 and %d", live, users, waiting, users-1000)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		one := all[users/2]
		before := ran(one.Name)
		_, err = s.Mutate(t.Context(), one, func(o *part) error { o.Spec.Needs = "edited"; return nil })
		ok(err)
		time.Sleep(time.Second)
		synctest.Wait()
		if ran(one.Name) == before {
			t.Error("a live edit waits for the users of the secret")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for _, key := range all {
			if ran(key.Name) == 0 {
				t.Fatalf("%s did not run with the mended secret", key)
			}
		}
	})
}

// A secret that turned from one user to another wakes both.
//
// Negative control: mutant "an edited reference wakes one side".
func TestWatchRefWakesBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, secretStore, secrets, ok := partsAndSecrets(t)
		source := WatchRef(secrets, StaticConfig(struct{}{}), func(_ context.Context, ref *part, _ struct{}, _ bool) ([]reconcile.Request, error) {
			return []reconcile.Request{key(ref.Spec.Needs)}, nil
		})
		o, err := secretStore.Create(t.Context(), &part{Meta: store.Meta{Name: "password"}, Spec: partSpec{"before"}})
		ok(err)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer stop()
		to := &slowSink{mayGo: make(chan struct{})}
		close(to.mayGo)
		all.Go(func() { _ = secrets.Run(ctx) })
		all.Go(func() { _ = source.Run(ctx, to) })
		synctest.Wait()
		to.keys = nil
		o.Spec.Needs = "after"
		_, err = secretStore.Update(ctx, o)
		ok(err)
		synctest.Wait()
		if want := []store.Key{key("before"), key("after")}; !slices.Equal(to.keys, want) {
			t.Errorf("woken: %v, want %v", to.keys, want)
		}
	})
}

// An object whose run panicked is woken by what it needs, as one whose run failed.
//
// Negative control: mutant "a provider that panicked hears of its needs no more".
func TestObjectThatPanickedIsWokenByWhatItNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := true
		p := &parts{fail: func(name string) error {
			if name == "user" && bad {
				panic("boom")
			}
			return nil
		}}
		s := workshop(t, func(s *store.Store[partSpec, partStatus]) (*Lifecycle[partSpec, partStatus], error) {
			return NewProvider(s, p, StaticConfig(struct{}{}), nil, nil)
		})
		declarePart(t, s, "base", "")
		declarePart(t, s, "user", "base")
		bad = false
		base, err := s.Get(t.Context(), key("base"))
		if err == nil {
			base.Spec.Needs = "more"
			_, err = s.Update(t.Context(), base)
		}
		if err != nil {
			t.Fatal(err)
		}
		declarePart(t, s, "more", "") // until it is there the base is not ready
		if o, err := s.Get(t.Context(), key("user")); err != nil || !o.Ready() {
			t.Errorf("it backs off although what it needs is ready again: %+v, %v; calls %v", o.Conditions, err, p.called())
		}
	})
}
