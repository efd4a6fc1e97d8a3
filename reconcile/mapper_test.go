package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// mapped is a controller whose keys come from the objects of another kind.
type mapped struct {
	s     *things
	cache *cache.Cache[spec, status]
	c     *reconcile.Controller[store.Key]
	r     *recorder[store.Key]
	told  failures[store.Key]
	lines *lockedBuffer
}

func newMapped(t *testing.T, source func(c *cache.Cache[spec, status]) reconcile.Source[store.Key]) *mapped {
	t.Helper()
	g := &mapped{s: newStore(t, newBackend(t), "thing"), r: record[store.Key](nil)}
	g.cache = newCache(t, g.s)
	logger, lines := quiet()
	g.lines = lines
	g.c = newController(t, g.r, &reconcile.Options[store.Key]{
		Logger: logger, Hooks: reconcile.Hooks[store.Key]{OnError: g.told.hear},
	})
	if err := g.c.Watch(source(g.cache)); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *mapped) start(t *testing.T) *running {
	t.Helper()
	var m reconcile.Manager
	if err := m.Register(g.c); err != nil {
		t.Fatal(err)
	}
	return start(t, &m)
}

// ran gives the names run since the last call, sorted.
func (g *mapped) ran() []string {
	pass(time.Minute)
	var names []string
	for _, k := range g.r.keys() {
		names = append(names, k.String())
	}
	g.r.mu.Lock()
	g.r.runs = nil
	g.r.mu.Unlock()
	slices.Sort(names)
	return names
}

// ref is the label that a thing names its target by.
func ref(name string) func(*thing) {
	return func(o *thing) { o.Labels = map[string]string{"ref": name} }
}

func byRef(_ context.Context, old, now *thing) (keys []store.Key, _ error) {
	for _, o := range []*thing{old, now} {
		if o != nil && o.Labels["ref"] != "" {
			keys = append(keys, key(o.Labels["ref"]))
		}
	}
	return keys, nil
}

// Weak point 003 (c).
func TestEditedReferenceWakesBothSides(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newMapped(t, func(c *cache.Cache[spec, status]) reconcile.Source[store.Key] { return reconcile.Map(c, byRef) })
		create(t, g.s, "a", ref("x"))
		g.start(t)
		expectList(t, "at the start", g.ran(), "x")
		mutate(t, g.s, "a", ref("y"))
		expectList(t, "after the edit", g.ran(), "x", "y")
		if err := g.s.Delete(t.Context(), must[*thing](t)(g.s.Get(t.Context(), key("a")))); err != nil {
			t.Fatal(err)
		}
		expectList(t, "after the deletion", g.ran(), "y")
	})
}

// A source is behind its cache when a shard is gained: an object refers to a key of that
// shard in the cache, and does not any more before the source hears of it, which it then
// does of both changes as one. If the key was run while it was referred to, it runs again.
//
// promise R1. Negative control: when the list for a shard was what the cache held, and not
// what the source had heard of, the last run of the key saw the reference.
func TestReferenceThatComesAndGoesWhileAShardIsGainedIsSeenToGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		names := make([]string, 2) // of what is mapped, by shard
		for i := range 100 {
			name := fmt.Sprint("mapped-", i)
			names[lease.Shard(lease.HashKey(key(name)), 2)] = name
		}
		create(t, s, "a", ref(names[0]))
		create(t, s, "gate")
		ca := must[*cache.Cache[spec, status]](t)(cache.New(s, &cache.Options[spec, status]{Backlog: 1})) // what waits is folded
		var saw list[string]
		r := record(func(_ context.Context, k store.Key) (reconcile.Result, error) {
			if k == key(names[1]) {
				saw.add(must[*thing](t)(s.Get(t.Context(), key("a"))).Labels["ref"])
			}
			return reconcile.Result{}, nil
		})
		p := newHandPlaced(2)
		c := newController(t, r, &reconcile.Options[store.Key]{Placement: p})
		gate := make(chan struct{})
		if err := c.Watch(reconcile.Map(ca, byRef, func(ch cache.Change[spec, status]) bool {
			if ch.Key.Name == "gate" {
				<-gate
			}
			return true
		})); err != nil {
			t.Fatal(err)
		}
		startManaged(t, c)
		p.give(0)
		mutate(t, s, "gate", func(o *thing) { o.Spec.Size++ }) // the source hears of this, and of nothing more
		synctest.Wait()
		mutate(t, s, "a", ref(names[1]))
		synctest.Wait()
		p.give(1)
		mutate(t, s, "a", ref(names[0]))
		synctest.Wait()
		close(gate)
		pass(time.Minute)
		if all := saw.get(); len(all) > 0 && all[len(all)-1] == names[1] {
			t.Errorf("the key saw %v, and did not run when the reference had gone", all)
		}
	})
}

// case 58
//
// Negative control: settling a failed mapping with Done instead of Retry loses
// the event, and the test fails.
func TestFailedMappingIsRetriedAndLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		calls := 0
		g := newMapped(t, func(c *cache.Cache[spec, status]) reconcile.Source[store.Key] {
			return reconcile.MapWith(c, func(ctx context.Context, old, now *thing) ([]store.Key, error) {
				mu.Lock()
				defer mu.Unlock()
				switch calls++; calls {
				case 1:
					return nil, errBoom
				case 2:
					panic("mapper")
				}
				return byRef(ctx, old, now)
			}, new(reconcile.MapOptions[spec, status]).SetBackoff(exactly(time.Second)))
		})
		create(t, g.s, "a", ref("x"))
		g.start(t)
		pass(2 * time.Second) // failed at 0 s and 1 s, due at 3 s
		expect(t, "runs before the mapping succeeded", g.r.count(), 0)
		mutate(t, g.s, "a", ref("y"))
		expectList(t, "in the end", g.ran(), "y")
		fs := g.told.list()
		if len(fs) != 2 || fs[0].Source != "thing mapped" || fs[1].Attempt != 1 {
			t.Fatalf("OnError heard %+v, want two failures of the mapper", fs)
		}
		if want := "mapping thing a: boom"; fs[0].Err.Error() != want {
			t.Errorf("got %q, want %q", fs[0].Err, want)
		}
		if !strings.Contains(fs[1].Err.Error(), "panic: mapper") {
			t.Errorf("got %q, want the panic", fs[1].Err)
		}
		if err := g.c.Health(); err != nil {
			t.Errorf("Health says %v", err)
		}
	})
}

// reporting is a sink of another package: no more than what is exported.
type reporting struct {
	reconcile.Sink[store.Key]
	reconcile.Reporter
}

// A mapper that fails behind the sink of another package is a failure of its source, until
// the last object is mapped. (lifecycle gives such sinks to its dependencies.)
//
// promise R3
func TestFailedMappingBehindAWrappedSinkIsReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fails := 2
		g := newMapped(t, func(c *cache.Cache[spec, status]) reconcile.Source[store.Key] {
			src := reconcile.MapWith(c, func(ctx context.Context, old, now *thing) ([]store.Key, error) {
				if fails--; fails >= 0 {
					return nil, errBoom
				}
				return byRef(ctx, old, now)
			}, new(reconcile.MapOptions[spec, status]).SetBackoff(exactly(time.Minute)))
			inner := src.Run
			src.Run = func(ctx context.Context, to reconcile.Sink[store.Key]) error {
				return inner(ctx, reporting{to, to.(reconcile.Reporter)})
			}
			return src
		})
		create(t, g.s, "a", ref("x"))
		create(t, g.s, "b", ref("y"))
		g.start(t)
		pass(time.Second)
		if err := g.c.Health(); err == nil || !strings.Contains(err.Error(), "boom") {
			t.Errorf("Health says %v while mappings fail", err)
		}
		if fs := g.told.list(); len(fs) != 2 || !errors.Is(fs[0].Err, errBoom) || !strings.Contains(fs[0].Err.Error(), "mapping a: ") && !strings.Contains(fs[0].Err.Error(), "mapping b: ") {
			t.Errorf("OnError heard %+v, want both failures of the mapper", fs)
		}
		pass(2 * time.Minute)
		if err := g.c.Health(); err != nil {
			t.Errorf("Health says %v after all was mapped", err)
		}
		ran := g.ran()
		slices.Sort(ran)
		expectList(t, "in the end", ran, "x", "y")
	})
}

// case 60; weak point 003 (c)
func TestMapperSeesTheNewestAndTheOldestNotMapped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		down := false
		g := newMapped(t, func(c *cache.Cache[spec, status]) reconcile.Source[store.Key] {
			return reconcile.MapWith(c, func(ctx context.Context, old, now *thing) ([]store.Key, error) {
				mu.Lock()
				defer mu.Unlock()
				if down {
					return nil, errBoom
				}
				return byRef(ctx, old, now)
			}, new(reconcile.MapOptions[spec, status]).SetBackoff(exactly(10*time.Second)))
		})
		create(t, g.s, "a", ref("old"))
		g.start(t)
		expectList(t, "at the start", g.ran(), "old")
		mu.Lock()
		down = true
		mu.Unlock()
		mutate(t, g.s, "a", ref("between"))
		mutate(t, g.s, "a", ref("new"))
		time.Sleep(time.Second)
		mu.Lock()
		down = false
		mu.Unlock()
		expectList(t, "after two edits", g.ran(), "new", "old")
	})
}

// case 59, 146
func TestOwnersOfOneKindAreRunOnceAndOthersCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newMapped(t, func(c *cache.Cache[spec, status]) reconcile.Source[store.Key] {
			return reconcile.Owners(c, "parent")
		})
		own := func(kind, name string) store.Owner { return store.Owner{Kind: kind, Key: key(name), UID: "u-" + name} }
		create(t, g.s, "orphan")
		create(t, g.s, "child", func(o *thing) {
			o.Owners = []store.Owner{own("parent", "p"), own("other", "q"), own("parent", "p"), own("other", "r")}
		})
		g.start(t)
		expectList(t, "at the start", g.ran(), "p")
		expect(t, "skipped", g.c.Snapshot().Sources[0].Skipped, 2)
		expect(t, "log lines", strings.Count(g.lines.String(), "owner of another kind"), 1)
		mutate(t, g.s, "child", func(o *thing) { o.Owners = []store.Owner{own("parent", "p2")} })
		expectList(t, "after the owner changed", g.ran(), "p", "p2")
		mutate(t, g.s, "orphan", func(o *thing) { o.Spec.Size++ })
		expectList(t, "an object without owners", g.ran())
		if fs := g.told.list(); len(fs) != 0 {
			t.Errorf("OnError heard %+v", fs)
		}
		g.c.Snapshot()
	})
}

// case 147
func TestSameMapsToTheNameAndNamespace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newMapped(t, func(c *cache.Cache[spec, status]) reconcile.Source[store.Key] { return reconcile.Same(c) })
		create(t, g.s, "x", func(o *thing) { o.Namespace = "a" })
		g.start(t)
		expectList(t, "at the start", g.ran(), "a/x")
	})
}

// case 59; weak point 003 (h)
func TestMapperThatReturnsAnInvalidKeyIsNotRetried(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newMapped(t, func(c *cache.Cache[spec, status]) reconcile.Source[store.Key] {
			return reconcile.Map(c, func(context.Context, *thing, *thing) ([]store.Key, error) {
				return []store.Key{{}, key("good")}, nil
			})
		})
		create(t, g.s, "a")
		g.start(t)
		expectList(t, "keys", g.ran(), "good")
		expect(t, "skipped", g.c.Snapshot().Sources[0].Skipped, 1)
		if fs := g.told.list(); len(fs) != 0 {
			t.Errorf("OnError heard %+v", fs)
		}
	})
}

// A mapper that the end of its source interrupts has not failed: a server that stops reports no errors
// of its own making.
//
// Negative control: the mutant "a mapper that its source's end interrupts has failed".
func TestMapperThatIsInterruptedByTheEndHasNotFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newMapped(t, func(c *cache.Cache[spec, status]) reconcile.Source[store.Key] {
			return reconcile.Map(c, func(ctx context.Context, _, _ *thing) ([]store.Key, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
		})
		create(t, g.s, "a")
		if err := g.start(t).end(); err != nil {
			t.Errorf("Run = %v", err)
		}
		if fs := g.told.list(); len(fs) != 0 {
			t.Errorf("OnError heard %+v", fs)
		}
	})
}

// A mapped change leaves a backoff alone unless the source says otherwise.
func TestMappedChangeIsUrgentOnlyIfTheSourceSaysSo(t *testing.T) {
	for _, urgent := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			g := newMapped(t, func(c *cache.Cache[spec, status]) reconcile.Source[store.Key] {
				return reconcile.MapWith(c, byRef, &reconcile.MapOptions[spec, status]{Urgent: urgent})
			})
			g.r.do = func(context.Context, store.Key) (result, error) { return result{}, reconcile.Terminal(errBoom) }
			create(t, g.s, "a", ref("x"))
			g.start(t)
			expectList(t, "at the start", g.ran(), "x")
			mutate(t, g.s, "a", func(o *thing) { o.Spec.Size++ })
			want := 0
			if urgent {
				want = 1
			}
			expect(t, "runs of the parked key", len(g.ran()), want)
		})
	}
}

// An owner that failed because of its child does not wait for an hour when the child changes, if
// the source says so.
//
// Negative control: without Urgent in mapping.send the owner stays parked.
func TestOwnerThatFailedRunsAtOnceWhenItsChildChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newMapped(t, func(c *cache.Cache[spec, status]) reconcile.Source[store.Key] {
			return reconcile.OwnsWith(c, "parent", &reconcile.MapOptions[spec, status]{Urgent: true, KeepAttempts: true})
		})
		attempt := -1
		g.r.do = func(ctx context.Context, _ store.Key) (result, error) {
			info, _ := reconcile.RunInfo(ctx)
			attempt = info.Attempt
			return result{}, reconcile.Terminal(errBoom)
		}
		create(t, g.s, "child", func(o *thing) { o.Owners = []store.Owner{{Kind: "parent", Key: key("p"), UID: "u"}} })
		g.start(t)
		expectList(t, "at the start", g.ran(), "p")
		mutate(t, g.s, "child", func(o *thing) { o.Spec.Size++ })
		expectList(t, "after the child changed", g.ran(), "p")
		expect(t, "attempts before the last run", attempt, 1)
	})
}

// A mapper's objects wait in the lowest band at the start, and live changes go
// first.
func TestMappedInitialObjectsAreNotUrgentAndLow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newMapped(t, func(c *cache.Cache[spec, status]) reconcile.Source[store.Key] {
			return reconcile.MapWith(c, byRef, &reconcile.MapOptions[spec, status]{Urgent: true})
		})
		if err := g.c.SetWorkers(0); err != nil {
			t.Fatal(err)
		}
		create(t, g.s, "a", ref("x"))
		g.start(t)
		e, ok := entry(g.c, key("x"))
		if !ok || e.Priority != queue.At(-100) {
			t.Errorf("at the start x is queued: %v with %v, want it in the lowest band", ok, e.Priority)
		}
		mutate(t, g.s, "a", func(o *thing) { o.Spec.Size++ })
		pass(time.Second)
		e, _ = entry(g.c, key("x"))
		expect(t, "after a change", e.Priority, queue.At(0))
	})
}

// Urgent is for changes: a list at the start, as that of a source that is started again, ends
// no park.
//
// promise Q4. Negative control: mutant "a list that is made again ends the park of what it maps to".
func TestListOfAnUrgentMapEndsNoPark(t *testing.T) {
	bubble(t, func(t *testing.T) {
		restart := make(chan struct{})
		s := newStore(t, newBackend(t), "thing")
		create(t, s, "a", ref("x"))
		src := reconcile.MapWith(newCache(t, s), byRef, &reconcile.MapOptions[spec, status]{Urgent: true})
		inner := src.Run
		src.Run = func(ctx context.Context, to reconcile.Sink[store.Key]) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- inner(ctx, to) }() // ends at cancel, waited for below
			select {
			case <-restart:
				cancel()
				<-ended
				return errBoom
			case err := <-ended:
				return err
			}
		}
		r := record(func(context.Context, store.Key) (result, error) { return result{}, reconcile.Terminal(errBoom) })
		c := newController(t, r, nil)
		if err := c.Watch(src); err != nil {
			t.Fatal(err)
		}
		startManaged(t, c)
		pass(time.Minute)
		restart <- struct{}{}
		pass(time.Minute)
		expect(t, "restarts", c.Snapshot().Sources[0].Restarts, 1)
		expect(t, "runs after the list", r.count(), 1)
		mutate(t, s, "a", func(o *thing) { o.Spec.Size++ })
		pass(time.Second)
		expect(t, "runs after a change", r.count(), 2)
	})
}

// All objects there are at the start are mapped, whatever changes matter later.
//
// promise R4. Negative control: mutant "the first list of a Map is filtered".
func TestMapMapsAllThatIsThereAtTheStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		create(t, s, "a", ref("x"))
		r := record[store.Key](nil)
		c := newController(t, r, nil)
		if err := c.Watch(reconcile.Map(newCache(t, s), byRef, func(ch cache.Change[spec, status]) bool { return ch.Old != nil })); err != nil {
			t.Fatal(err)
		}
		startManaged(t, c)
		pass(time.Second)
		expectList(t, "at the start", r.keys(), key("x"))
		create(t, s, "b", ref("y"))
		pass(time.Second)
		expectList(t, "after a change that does not matter", r.keys(), key("x"))
		mutate(t, s, "b", func(o *thing) { o.Spec.Size++ })
		pass(time.Second)
		expectList(t, "after one that does", r.keys(), key("x"), key("y"))
	})
}

// promise R1. Negative control: the mutant "what came and went is mapped as nothing".
func TestObjectThatCameAndWentBeforeItWasMappedIsMapped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		ca := newCache(t, s)
		var told failures[store.Key]
		block := make(chan struct{})
		r := record(func(context.Context, store.Key) (reconcile.Result, error) { <-block; return reconcile.Result{}, nil })
		c := newController(t, r, &reconcile.Options[store.Key]{
			Workers: 1, Hooks: reconcile.Hooks[store.Key]{OnError: told.hear},
			Queue: queue.Options[store.Key]{MaxKeys: 2},
		})
		if err := c.Watch(reconcile.Same(ca)); err != nil {
			t.Fatal(err)
		}
		startManaged(t, c)
		for i := range 5 { // the queue is full, so the mapper waits
			create(t, s, fmt.Sprint("t", i))
			pass(time.Second)
		}
		o := create(t, s, "short")
		synctest.Wait()
		if err := s.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		close(block)
		pass(time.Hour)
		for _, f := range told.list() {
			t.Errorf("%v", f.Err)
		}
		if !slices.Contains(r.keys(), key("short")) {
			t.Errorf("short did not run: %v", r.keys())
		}
	})
}

// The owner ran while the child was there, which the source had not mapped yet.
//
// promise R1. Negative control: the mutant "what came and went is mapped as nothing".
func TestOwnerIsToldOfAChildThatWentBeforeItWasMapped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(t)
		parents, children := newStore(t, b, "parent"), newStore(t, b, "child")
		cc := newCache(t, children)
		p := create(t, parents, "p")
		own := func(o *thing) { o.Owners = []store.Owner{{Kind: "parent", Key: p.Key(), UID: p.UID}} }
		// Many children of other owners may keep the mapper busy at the start; here it is one.
		create(t, children, "c", own)
		gate := make(chan struct{})
		create(t, children, "a-first", func(o *thing) { o.Owners = []store.Owner{{Kind: "parent", Key: key("p2"), UID: "x"}} })
		var mu sync.Mutex
		saw := -1
		c := must[*reconcile.ObjectController[spec, status]](t)(reconcile.For(parents, func(_ context.Context, o *thing) (result, error) {
			n := 0
			for ch := range cc.All() {
				if len(ch.Owners) > 0 && ch.Owners[0].UID == o.UID {
					n++
				}
			}
			mu.Lock()
			saw = n
			mu.Unlock()
			return result{}, nil
		}, nil))
		src := reconcile.Owns(cc)
		run := src.Run
		src.Run = func(ctx context.Context, to reconcile.Sink[store.Key]) error {
			return run(ctx, slowSink{to, gate})
		}
		if err := c.Watch(src); err != nil {
			t.Fatal(err)
		}
		startManaged(t, c)
		pass(time.Second)
		mu.Lock()
		expect(t, "children seen at first", saw, 1)
		mu.Unlock()
		o := must[*thing](t)(children.Get(t.Context(), key("c")))
		if err := children.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		close(gate)
		pass(time.Minute)
		mu.Lock()
		expect(t, "children seen in the end", saw, 0)
		mu.Unlock()
	})
}

// slowSink is a queue that has no room for p2 until its gate is open.
type slowSink struct {
	reconcile.Sink[store.Key]
	gate chan struct{}
}

func (s slowSink) Unwrap() reconcile.Sink[store.Key] { return s.Sink }

func (s slowSink) Add(k store.Key, o queue.AddOptions) error {
	select {
	case <-s.gate:
	default:
		if k.Name == "p2" {
			return queue.ErrFull
		}
	}
	return s.Sink.Add(k, o)
}
