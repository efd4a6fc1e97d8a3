package depend_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

// Things of one kind need things of the same kind or of others.
type (
	Spec struct {
		Needs  []string
		Secret string
		Size   int
	}
	Status struct{ ID string }
	Thing  = store.Object[Spec, Status]
)

const finalizer = "test.thing"

// cloud refuses what comes in the wrong order, and counts.
type cloud struct {
	mu      sync.Mutex
	there   map[string][]string // needs, by name
	refused []string
	calls   int
}

func newCloud() *cloud { return &cloud{there: make(map[string][]string)} }

func (c *cloud) put(name string, needs []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	for _, n := range needs {
		if _, ok := c.there[n]; !ok {
			c.refused = append(c.refused, name+" before "+n)
			return fmt.Errorf("%s needs %s, which does not exist", name, n)
		}
	}
	c.there[name] = slices.Clone(needs)
	return nil
}

func (c *cloud) drop(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	for user, needs := range c.there {
		if slices.Contains(needs, name) {
			c.refused = append(c.refused, name+" under "+user)
			return fmt.Errorf("%s is used by %s", name, user)
		}
	}
	delete(c.there, name)
	return nil
}

func (c *cloud) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.there)
}

// system is one kind with its controller, for the length of a bubble.
type system struct {
	t       testing.TB
	cloud   *cloud
	store   *store.Store[Spec, Status]
	cache   *cache.Cache[Spec, Status]
	tracker *depend.Tracker[Spec, Status]
	ctrl    *reconcile.Controller[reconcile.Request]
	fail    func(o *Thing) error // instead of the cloud, where it returns one
	broken  func(o *Thing) bool  // what is there does not work; nil: it always does

	mu    sync.Mutex
	runs  map[string]int // of the ordinary reconciler
	begun map[string]int // also those that end because the object has to wait
}

type setting struct {
	backend store.Backend
	options *depend.Options
	watched *cache.Cache[Spec, Status] // of secrets
	need    *depend.NeedOptions[Spec, Status]
	keys    func(o *Thing) []store.Key // of what is needed; nil: needed
	also    func(o *Thing) []store.Key // of further needed objects; nil: there are none
	fail    func(o *Thing) error
	broken  func(o *Thing) bool
	first   func(key store.Key) error // before the run; an error ends it. Nil: none
	cloud   *cloud

	placement lease.Placement
	shards    int           // of the users' cache; zero: it holds the whole kind
	backoff   time.Duration // the longest; zero: an hour
}

// newSystem makes a system that is not running.
func newSystem(t testing.TB, o setting) *system {
	t.Helper()
	s := &system{t: t, cloud: o.cloud, fail: o.fail, broken: o.broken, runs: make(map[string]int), begun: make(map[string]int)}
	if s.cloud == nil {
		s.cloud = newCloud()
	}
	if o.backend == nil {
		o.backend = must(memory.New(nil))(t)
	}
	s.store = must(store.New[Spec, Status](o.backend, "thing", nil))(t)
	s.cache = must(cache.New(s.store, &cache.Options[Spec, Status]{Shards: o.shards}))(t)
	all := s.cache // what is needed may be in any shard
	if o.shards > 0 {
		all = must(cache.New(s.store, &cache.Options[Spec, Status]{Name: "all things"}))(t)
	}
	if o.keys == nil {
		o.keys = needed
	}
	needs := []depend.Needs[Spec, Status]{depend.On(all, o.keys, o.need)}
	if o.also != nil {
		needs = append(needs, depend.On(all, o.also, o.need))
	}
	if o.watched != nil {
		needs = append(needs, depend.Watching(o.watched, secretOf, nil))
	}
	s.tracker = must(depend.New(s.cache, depend.All(needs...), o.options))(t)
	r := reconcile.AsReconciler(s.cache, s.tracker.Wrap(s.reconcile))
	counted := reconcile.Func[reconcile.Request](func(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
		s.mu.Lock()
		s.begun[key.Name]++
		s.mu.Unlock()
		if o.first != nil {
			if err := o.first(key); err != nil {
				return reconcile.Result{}, err
			}
		}
		return r.Reconcile(ctx, key)
	})
	s.ctrl = must(reconcile.New("thing", counted, &reconcile.Options[reconcile.Request]{
		Reads: s.tracker.Caches(), Logger: slog.New(slog.DiscardHandler),
		Backoff:   queue.Backoff{Base: time.Second, Max: cmp.Or(o.backoff, time.Hour), NoJitter: true},
		Placement: o.placement,
	}))(t)
	check(t, s.ctrl.Watch(reconcile.From(s.cache), s.tracker.Source()))
	return s
}

func needed(o *Thing) (keys []store.Key) {
	for _, n := range o.Spec.Needs {
		keys = append(keys, store.Key{Name: n})
	}
	return keys
}

func secretOf(o *Thing) []store.Key {
	if o.Spec.Secret == "" {
		return nil
	}
	return []store.Key{{Name: o.Spec.Secret}}
}

// start runs the system until stop, which waits for it.
func (s *system) start() (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	m := &reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
	check(s.t, m.Register(s.ctrl))
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("Run: %v", err)
		}
	})
}

// reconcile is an ordinary reconciler, which knows nothing of dependencies.
func (s *system) reconcile(ctx context.Context, o *Thing) (reconcile.Result, error) {
	s.mu.Lock()
	s.runs[o.Name]++
	s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(o); err != nil {
			return reconcile.Result{}, err
		}
	}
	if o.Deleting() {
		if err := s.cloud.drop(o.Name); err != nil {
			return reconcile.Result{}, err
		}
		o.RemoveFinalizer(finalizer)
		_, err := s.store.Update(ctx, o)
		return reconcile.Result{}, err
	}
	if o.AddFinalizer(finalizer) {
		got, err := s.store.Update(ctx, o)
		if err != nil {
			return reconcile.Result{}, err
		}
		*o = *got
	}
	if err := s.cloud.put(o.Name, o.Spec.Needs); err != nil {
		return reconcile.Result{}, err
	}
	works := s.broken == nil || !s.broken(o)
	if o.Ready() == works {
		return reconcile.Result{}, nil
	}
	if o.SetReady(); !works {
		o.SetProgressing("Broken", "")
	}
	got, err := s.store.UpdateStatus(ctx, o)
	if err == nil {
		*o = *got
	}
	return reconcile.Result{}, err
}

func (s *system) ran(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[name]
}

// began is how many runs of an object there were, also those that ended because it has to wait.
func (s *system) began(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun[name]
}

func (s *system) declare(name string, needs ...string) {
	s.t.Helper()
	_, err := s.store.Create(s.t.Context(), &Thing{Meta: store.Meta{Name: name}, Spec: Spec{Needs: needs}})
	check(s.t, err)
}

func (s *system) edit(name string, f func(o *Thing)) {
	s.t.Helper()
	_, err := s.store.Mutate(s.t.Context(), store.Key{Name: name}, func(o *Thing) error { f(o); return nil })
	check(s.t, err)
}

func (s *system) remove(name string) {
	s.t.Helper()
	for {
		o, err := s.store.Get(s.t.Context(), store.Key{Name: name})
		if err == nil {
			err = s.store.Delete(s.t.Context(), o)
		}
		if errors.Is(err, store.ErrConflict) {
			continue // a run has written it meanwhile
		}
		if !errors.Is(err, store.ErrNotFound) {
			check(s.t, err)
		}
		return
	}
}

// get is the object, nil if there is none.
func (s *system) get(name string) *Thing {
	s.t.Helper()
	o, err := s.store.Get(s.t.Context(), store.Key{Name: name})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	check(s.t, err)
	return o
}

// settle gives the system a second, and waits for what it does in it.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func (s *system) wantReady(names ...string) {
	s.t.Helper()
	for _, n := range names {
		if o := s.get(n); o == nil || !o.Ready() {
			s.t.Errorf("%s is not ready: %+v", n, o)
		}
	}
}

// wantWaiting says that an object waits, and for what.
func (s *system) wantWaiting(name, reason, message string) {
	s.t.Helper()
	c, _ := s.get(name).Condition(depend.ConditionDependencies)
	if c.Status != store.False || c.Reason != reason || c.Message != message {
		s.t.Errorf("%s: %s %s %q, want False %s %q", name, c.Status, c.Reason, c.Message, reason, message)
	}
}

func (s *system) wantNothingRefused() {
	s.t.Helper()
	s.cloud.mu.Lock()
	defer s.cloud.mu.Unlock()
	if len(s.cloud.refused) > 0 {
		s.t.Errorf("the cloud refused: %v", s.cloud.refused)
	}
}

func must[V any](v V, err error) func(testing.TB) V {
	return func(t testing.TB) V {
		t.Helper()
		check(t, err)
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
