package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// runner is a Runner of a function.
type runner struct {
	name string
	run  func(ctx context.Context) error
}

func (r *runner) Name() string                  { return r.name }
func (r *runner) Run(ctx context.Context) error { return r.run(ctx) }

func untilDone(ctx context.Context) error { <-ctx.Done(); return nil }

// Seen to fail: Run panicked, for a Manager finds those that share a placement by a map.
func TestRegisterRefusesAPlacementThatCannotBeCompared(t *testing.T) {
	c := newController(t, record[string](nil), &reconcile.Options[string]{Placement: illPlacement{handPlaced: newHandPlaced(1)}})
	var m reconcile.Manager
	if err := m.Register(c); err == nil || !strings.Contains(err.Error(), "cannot be compared") {
		t.Errorf("got %v, want an error that says why", err)
	}
}

// case 66
func TestRegisterAfterRunAndRunTwiceAreErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var m reconcile.Manager
		if err := m.Run(t.Context()); err == nil {
			t.Error("Run of an empty Manager gave no error")
		}
		if err := m.Register(&runner{"a", untilDone}); err != nil {
			t.Fatal(err)
		}
		run := start(t, &m)
		if err := m.Register(&runner{"b", untilDone}); !errors.Is(err, reconcile.ErrRunning) {
			t.Errorf("Register after Run: got %v, want ErrRunning", err)
		}
		if err := m.Run(t.Context()); !errors.Is(err, reconcile.ErrRunning) {
			t.Errorf("second Run: got %v, want ErrRunning", err)
		}
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
		if err := m.Run(t.Context()); !errors.Is(err, reconcile.ErrRunning) {
			t.Errorf("Run after Run: got %v, want ErrRunning", err)
		}
		used := newController(t, record[string](nil), nil)
		if err := start(t, used).end(); err != nil {
			t.Fatal(err)
		}
		if err := new(reconcile.Manager).Register(used); !errors.Is(err, reconcile.ErrRunning) {
			t.Errorf("Register of a controller that has run: got %v, want ErrRunning", err)
		}
	})
}

// case 97
func TestNamesAreUniqueInAManager(t *testing.T) {
	var m reconcile.Manager
	a, b := newController(t, record[string](nil), nil), newController(t, record[string](nil), nil)
	if err := m.Register(a, b); !errors.Is(err, reconcile.ErrNameTaken) || !strings.Contains(err.Error(), `"test"`) {
		t.Errorf("got %v, want ErrNameTaken with the name", err)
	}
	if err := m.Register(a); err != nil {
		t.Errorf("a refused Register left something: %v", err)
	}
	if err := m.Register(a); !errors.Is(err, reconcile.ErrNameTaken) {
		t.Errorf("the same one twice: got %v", err)
	}
	if err := m.Register(nil); err == nil {
		t.Error("Register(nil) gave no error")
	}
}

// case 39, 124
func TestFirstErrorStopsAllAndEverythingThatFailedIsReturned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		errA, errB := errors.New("a failed"), errors.New("b failed too")
		var m reconcile.Manager
		c := newController(t, record[string](nil), nil)
		stopped := false
		if err := m.Register(c,
			&runner{"a", func(context.Context) error { time.Sleep(time.Second); return errA }},
			&runner{"b", func(ctx context.Context) error { <-ctx.Done(); return errB }},
			&runner{"fine", func(ctx context.Context) error { <-ctx.Done(); stopped = true; return ctx.Err() }},
			&runner{"panics", func(ctx context.Context) error { <-ctx.Done(); panic("at the stop") }},
		); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err := m.Run(t.Context())
		expect(t, "ended after", time.Since(began), time.Second)
		if !errors.Is(err, errA) || !errors.Is(err, errB) {
			t.Errorf("got %v, want both errors", err)
		}
		text := err.Error()
		if !strings.HasPrefix(text, "a: a failed") || !strings.Contains(text, "b: b failed too") || !strings.Contains(text, "panics: panic: at the stop") {
			t.Errorf("got %q, want the first error first, and each with its name", text)
		}
		expect(t, "the fine one was stopped", stopped, true)
		if strings.Contains(text, "fine") || strings.Contains(text, "test:") {
			t.Errorf("got %q, want nothing of those that did not fail", text)
		}
	})
}

func TestRunEndsWhenAllRunnersHave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var m reconcile.Manager
		nap := func(context.Context) error { time.Sleep(time.Second); return nil }
		served := newCache(t, newStore(t, newBackend(t), "thing"))
		if err := m.Register(&runner{"a", nap}, &runner{"b", nap}, served); err != nil { // a cache serves the others
			t.Fatal(err)
		}
		began := time.Now()
		if err := m.Run(t.Context()); err != nil {
			t.Errorf("got %v, want nil", err)
		}
		expect(t, "Run returned after", time.Since(began), time.Second)
	})
}

// endsLast is a runner that is ended when all others have.
type endsLast struct{ runner }

func (*endsLast) EndsLast() {}

func TestRunnerThatEndsLastSeesTheOthersEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var m reconcile.Manager
		var order list[string]
		drains := func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(5 * time.Second)
			order.add("another")
			return nil
		}
		last := &endsLast{runner{"page", func(ctx context.Context) error { <-ctx.Done(); order.add("page"); return nil }}}
		if err := m.Register(last, &runner{"another", drains}); err != nil {
			t.Fatal(err)
		}
		run := start(t, &m)
		if err := run.end(); err != nil {
			t.Error(err)
		}
		expectList(t, "the order in which they ended", order.get(), "another", "page")
	})
}

// What the last runs wrote is in the caches when Run returns, for what asks them then
// whether all is as declared; but not for ever, where the store does not show it.
func TestCachesShowTheLastWritesWhenRunReturns(t *testing.T) {
	for name, late := range map[string]time.Duration{"shown late": 300 * time.Millisecond, "never shown": time.Hour} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := &lateWatch{Backend: newBackend(t)}
				s := newStore(t, b, "thing")
				create(t, s, "a")
				gate := make(chan struct{})
				shown := newCache(t, s)
				c := newController(t, record(func(ctx context.Context, k store.Key) (result, error) {
					b.gate.Store(&gate)
					_, err := s.Mutate(ctx, k, func(o *thing) error { o.Labels = map[string]string{"seen": "yes"}; return nil })
					return result{}, err
				}), nil)
				if err := c.Watch(reconcile.From(shown)); err != nil {
					t.Fatal(err)
				}
				run := startManaged(t, c)
				synctest.Wait()
				opened := time.AfterFunc(late, func() { close(gate) })
				defer opened.Stop()
				began := time.Now()
				if err := run.end(); err != nil {
					t.Fatal(err)
				}
				expect(t, "Run returned after", time.Since(began), min(late, time.Second))
				if o, _ := shown.Get(key("a")); late < time.Second && o.Labels["seen"] != "yes" {
					t.Errorf("the cache shows %+v, without the last write", o)
				}
			})
		})
	}
}

// case 151; weak point 003 (m)
func TestRunReturnsAfterTheLastOrAtTheDeadlineWithItsName(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		m := reconcile.Manager{StopTimeout: 20 * time.Second}
		deaf := must[*reconcile.Controller[string]](t)(reconcile.New("deaf", record(func(context.Context, string) (result, error) {
			<-release
			return result{}, nil
		}), &reconcile.Options[string]{StopTimeout: 2 * time.Minute}))
		slow := must[*reconcile.Controller[string]](t)(reconcile.New("slow", record(func(context.Context, string) (result, error) {
			time.Sleep(8 * time.Second)
			return result{}, nil
		}), nil))
		if err := m.Register(deaf, slow, &runner{"worse", func(context.Context) error { <-release; return nil }}); err != nil {
			t.Fatal(err)
		}
		add(t, deaf, "k")
		add(t, slow, "k")
		run := start(t, &m)
		began := time.Now()
		err := run.end()
		expect(t, "returned after", time.Since(began), 20*time.Second)
		var left *reconcile.LeftoverError
		if !errors.As(err, &left) || !slices.Equal(left.Names, []string{"worse"}) {
			t.Errorf("got %v, want worse named as left over", err)
		}
		if !strings.Contains(err.Error(), `1 running (k)`) {
			t.Errorf("got %v, want the key of the deaf controller", err)
		}
		expect(t, "slow was drained", slow.Counts().Success, 1)
		close(release)
		synctest.Wait()
	})
}

// Controllers stop before the caches that they read.
func TestCachesOutliveTheControllers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil, func(ctx context.Context, g *rig, k store.Key) (result, error) {
			time.Sleep(5 * time.Second) // the stop comes now
			o, err := g.Mutate(ctx, k, func(o *thing) error { o.Labels = map[string]string{"done": "yes"}; return nil })
			if err != nil {
				return result{}, err
			}
			time.Sleep(time.Second)
			if got, ok := g.cache.Get(k); !ok || got.Revision != o.Revision {
				t.Error("the cache did not show a write of the drained run")
			}
			return result{}, nil
		})
		create(t, g.things, "a")
		run := g.start(t)
		time.Sleep(time.Second)
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
		expect(t, "successes", g.c.Counts().Success, 1)
	})
}

// A cache is run once, however many controllers name it, and one that several watch
// feeds all of them.
//
// case 101
func TestSharedCacheIsRunOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		ca := newCache(t, s)
		var m reconcile.Manager
		var rs []*recorder[store.Key]
		for _, name := range []string{"one", "two"} {
			r := record(func(context.Context, store.Key) (result, error) {
				if name == "one" {
					return result{}, errBoom // one fails all the time, the other is on time
				}
				return result{}, nil
			})
			c := must[*reconcile.Controller[store.Key]](t)(reconcile.New(name, r, &reconcile.Options[store.Key]{
				Backoff: exactly(time.Hour), Hooks: reconcile.Hooks[store.Key]{OnError: func(reconcile.Failure[store.Key]) {}},
			}))
			if err := c.Watch(reconcile.From(ca)); err != nil {
				t.Fatal(err)
			}
			rs = append(rs, r)
			if err := m.Register(c); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Register(ca); err != nil {
			t.Fatal(err)
		}
		run := start(t, &m)
		create(t, s, "a")
		synctest.Wait()
		for _, r := range rs {
			expectList(t, "keys", r.keys(), key("a"))
		}
		expect(t, "checks", len(m.Health()), 3)
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
	})
}

// read gives checks by name, and whether all are well.
func read(all []reconcile.Check) (well bool, checks map[string]string) {
	checks = make(map[string]string)
	for _, c := range all {
		checks[c.Name] = c.Reason
		if c.OK != (c.Reason == "") {
			panic(fmt.Sprint("check says both: ", c))
		}
	}
	return len(notOK(all)) == 0, checks
}

// Health is asked all the time, also while the Manager stops and afterwards.
//
// Negative control: with Run taking those that have ended out of the list that
// Checks reads, it met a nil runner here and panicked.
func TestHealthIsAnsweredWhileRunnersEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var m reconcile.Manager
		for k := range 3 {
			if err := m.Register(&runner{name: fmt.Sprint("r", k), run: func(ctx context.Context) error {
				select {
				case <-after(time.Duration(k) * time.Second):
				case <-ctx.Done():
				}
				return nil
			}}); err != nil {
				t.Fatal(err)
			}
		}
		run := start(t, &m)
		for range 4 {
			expect(t, "checks", len(m.Health()), 3)
			pass(time.Second)
		}
		if err := run.end(); err != nil {
			t.Error(err)
		}
		expect(t, "checks after the end", len(m.Health()), 3)
	})
}

func TestHealthAndReadySayWhy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil, func(context.Context, *rig, store.Key) (result, error) { return result{}, nil })
		var mu sync.Mutex
		broken := true
		bad := reconcile.Source[store.Key]{Name: "bad", Run: func(ctx context.Context, to reconcile.Sink[store.Key]) error {
			mu.Lock()
			defer mu.Unlock()
			if broken {
				return errBoom
			}
			to.Synced()
			mu.Unlock()
			<-ctx.Done()
			mu.Lock()
			return nil
		}}
		if err := g.c.Watch(bad); err != nil {
			t.Fatal(err)
		}
		var m reconcile.Manager
		if err := m.Register(g.c); err != nil {
			t.Fatal(err)
		}
		if well, checks := read(m.Ready()); well || checks["test"] != "not running yet" {
			t.Errorf("before Run: %v %v", well, checks)
		}
		start(t, &m)
		well, checks := read(m.Health())
		if well || checks["test"] != `source "bad": boom` {
			t.Errorf("Health with a bad source: %v %v", well, checks)
		}
		if reason, ok := checks["cache thing"]; !ok || reason != "" {
			t.Errorf("the cache is not among the healthy: %v", checks)
		}
		if well, checks := read(m.Ready()); well || checks["test"] != "waiting for source bad to sync: boom" {
			t.Errorf("Ready with a bad source: %v %v", well, checks)
		}
		mu.Lock()
		broken = false
		mu.Unlock()
		pass(time.Minute)
		if well, checks := read(m.Health()); !well {
			t.Errorf("Health in the end: %v %v", well, checks)
		}
		if well, checks := read(m.Ready()); !well {
			t.Errorf("Ready in the end: %v %v", well, checks)
		}
	})
}

// circle makes a controller of kind `of` that is woken by changes of each of `by`.
func circle(t *testing.T, of string, by ...string) *reconcile.Controller[store.Key] {
	t.Helper()
	b := newBackend(t)
	c := must[*reconcile.Controller[store.Key]](t)(reconcile.New(of+"s", record[store.Key](nil), nil))
	if err := c.Watch(reconcile.From(newCache(t, newStore(t, b, of)))); err != nil {
		t.Fatal(err)
	}
	for _, kind := range by {
		if err := c.Watch(reconcile.Same(newCache(t, newStore(t, b, kind)))); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// A circle is found wherever it lies in the graph: b wakes d as well as c, and c is woken by x as
// well as by b.
//
// case 65; weak point 003 (i). Negative controls: the mutants "a circle is sought along the first
// controller that a kind wakes" and "of the kinds that wake a controller the first one counts".
func TestCycleOfAnyLengthIsFoundAtRegistration(t *testing.T) {
	var m reconcile.Manager
	if err := m.Register(circle(t, "b", "a"), circle(t, "d", "b"), circle(t, "c", "x", "b")); err != nil {
		t.Fatal(err)
	}
	err := m.Register(circle(t, "a", "c"))
	if !errors.Is(err, reconcile.ErrCycle) {
		t.Fatalf("got %v, want ErrCycle", err)
	}
	for _, want := range []string{`controller "bs"`, `controller "cs"`, `controller "as"`, `source "c of the same name"`, "AllowCycles", "OnlyDeletes"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s", err, want)
		}
	}
	for _, way := range []string{"a → b → c → a", "b → c → a → b", "c → a → b → c"} {
		if strings.Contains(err.Error(), way) {
			err = nil
			break
		}
	}
	if err != nil {
		t.Errorf("got %v, want it to say a → b → c → a", err)
	}
	if err := m.Register(circle(t, "e", "d")); err != nil {
		t.Errorf("the refused controller was kept: %v", err)
	}

	allowed := reconcile.Manager{AllowCycles: true}
	logger, lines := quiet()
	allowed.Logger = logger
	if err := allowed.Register(circle(t, "b", "a"), circle(t, "a", "b")); err != nil {
		t.Errorf("AllowCycles: got %v", err)
	}
	if !strings.Contains(lines.String(), "circle") {
		t.Errorf("an allowed cycle is not mentioned: %s", lines)
	}
}

func TestMermaidDrawsWhatWakesWhat(t *testing.T) {
	b := newBackend(t)
	parents := must[*reconcile.Controller[store.Key]](t)(reconcile.New("parents", record[store.Key](nil), &reconcile.Options[store.Key]{
		Writes: []string{"child"},
	}))
	if err := parents.Watch(
		reconcile.From(newCache(t, newStore(t, b, "parent"))),
		reconcile.Owners(newCache(t, newStore(t, b, "child")), "parent"),
	); err != nil {
		t.Fatal(err)
	}
	children := must[*reconcile.Controller[store.Key]](t)(reconcile.New("children", record[store.Key](nil), nil))
	if err := children.Watch(reconcile.From(newCache(t, newStore(t, b, "child")))); err != nil {
		t.Fatal(err)
	}
	var m reconcile.Manager
	if err := m.Register(parents, children); err != nil {
		t.Fatal(err)
	}
	want := `flowchart LR
  n0["children"]
  n1(["child"])
  n2["parents"]
  n3(["parent"])
  n1 --> n0
  n3 --> n2
  n1 -->|owned| n2
  n2 -.-> n1
`
	for range 3 {
		expect(t, "Mermaid", m.Mermaid(), want)
	}
}

// A Manager's caches are found through the mapped sources and Options.Reads too.
func TestManagerRunsEveryCacheThatIsUsed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(t)
		var caches []*cache.Cache[spec, status]
		for _, kind := range []string{"own", "mapped", "read"} {
			caches = append(caches, newCache(t, newStore(t, b, kind)))
		}
		c := newController(t, record[store.Key](nil), &reconcile.Options[store.Key]{Reads: []reconcile.Cached{caches[2]}})
		if err := c.Watch(reconcile.From(caches[0]), reconcile.Same(caches[1])); err != nil {
			t.Fatal(err)
		}
		startManaged(t, c)
		for _, ca := range caches {
			select {
			case <-ca.Synced():
			default:
				t.Errorf("cache %s is not running", ca.Name())
			}
		}
	})
}

// A program may run nothing but caches, to show what is in them.
//
// Negative control: with caches not counted as runners, Run returned at once.
func TestManagerOfCachesAloneRunsThem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(t)
		s := newStore(t, b, "thing")
		c := newCache(t, s)
		run := startManaged(t, c)
		pass(time.Hour)
		create(t, s, "a")
		synctest.Wait()
		if _, ok := c.Get(key("a")); !ok {
			t.Error("the cache is not running")
		}
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
	})
}

// nameless is a runner that has no name.
type nameless struct{ runs int }

func (n *nameless) Run(context.Context) error { n.runs++; return nil }

// Negative control: told apart by name only, it was taken twice.
func TestRunnerWithoutANameIsNotTakenTwice(t *testing.T) {
	var m reconcile.Manager
	one, other := new(nameless), new(nameless)
	if err := m.Register(one, one); !errors.Is(err, reconcile.ErrNameTaken) {
		t.Errorf("the same one twice: got %v, want ErrNameTaken", err)
	}
	if err := m.Register(one, other); err != nil {
		t.Errorf("two of one type: %v", err)
	}
}

// titled is a runner that has no name and says what it is.
type titled struct{}

func (*titled) Run(context.Context) error { return errBoom }
func (*titled) String() string            { return "quotas" }

// untitled is one that says nothing.
type untitled struct{ err error }

func (u *untitled) Run(context.Context) error { return u.err }

// A runner that has no name goes by what it says of itself, or by its type, and the second one of those by a number.
func TestRunnerWithoutANameGoesByWhatItIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var m reconcile.Manager
		if err := m.Register(&titled{}, &untitled{errBoom}, &untitled{errBoom}); err != nil {
			t.Fatal(err)
		}
		err := m.Run(t.Context())
		if err == nil {
			t.Fatal("Run returned nil")
		}
		lines := strings.Split(err.Error(), "\n")
		var want []string
		for _, name := range []string{"quotas", "reconcile_test.untitled", "reconcile_test.untitled#2"} {
			want = append(want, name+": "+errBoom.Error())
		}
		slices.Sort(lines) // they end in no order
		slices.Sort(want)
		expectList(t, "what failed", lines, want...)
	})
}

// A runner that has a name may have that which another one goes by for want of one.
//
// Seen to fail: a controller called quotas was refused beside a quota.Set.
func TestNameIsNotTakenByARunnerThatHasNone(t *testing.T) {
	for _, order := range [][]reconcile.Runner{
		{&titled{}, &runner{"quotas", untilDone}},
		{&runner{"quotas", untilDone}, &titled{}},
	} {
		var m reconcile.Manager
		if err := m.Register(order...); err != nil {
			t.Error(err)
		}
		if err := m.Register(&runner{"quotas", untilDone}); !errors.Is(err, reconcile.ErrNameTaken) {
			t.Errorf("two that are called so: got %v, want ErrNameTaken", err)
		}
	}
}

// cutWatch is a backend whose watches can be cut, and kept from coming back.
type cutWatch struct {
	store.Backend
	cut chan struct{}
}

func (b *cutWatch) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		go func() { // ends with the watch
			select {
			case <-b.cut:
				cancel(errBoom)
			case <-ctx.Done():
			}
		}()
		for batch, err := range b.Backend.Watch(ctx, kind, after) {
			if !yield(batch, err) {
				return
			}
		}
	}
}

// The cache of a controller made by For is the controller's own, and no runner of
// the Manager; that it hears nothing any more is said all the same.
//
// Negative control: without its line all was well.
func TestHealthTellsOfAControllersOwnCache(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &cutWatch{Backend: newBackend(t), cut: make(chan struct{})}
		s := newStore(t, b, "thing")
		c := must[*reconcile.ObjectController[spec, status]](t)(reconcile.For(s, func(context.Context, *thing) (result, error) { return result{}, nil }, &reconcile.ForOptions[spec, status]{Options: reconcile.Options[store.Key]{Logger: slog.New(slog.DiscardHandler)}}))
		var m reconcile.Manager
		if err := m.Register(c); err != nil {
			t.Fatal(err)
		}
		if well, checks := read(m.Ready()); well || checks["cache thing"] == "" {
			t.Errorf("Ready before Run: %v %v", well, checks)
		}
		start(t, &m)
		if well, checks := read(m.Health()); !well || len(checks) != 2 {
			t.Errorf("Health: %v %v", well, checks)
		}
		close(b.cut)
		pass(time.Second)
		if well, checks := read(m.Health()); well || !strings.Contains(checks["cache thing"], "boom") {
			t.Errorf("Health without a watch: %v %v", well, checks)
		}
	})
}

// The cache of a controller made by For may be registered too, and is run once.
//
// Negative control: mutant "a controller in a Manager runs its own cache too".
func TestCacheOfAControllerMayBeRegistered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ran list[string]
		s := newStore(t, newBackend(t), "thing")
		c := must[*reconcile.ObjectController[spec, status]](t)(reconcile.For(s, func(_ context.Context, o *thing) (result, error) {
			ran.add(o.Name)
			return result{}, nil
		}, nil))
		run := startManaged(t, c, c.Cache())
		create(t, s, "a")
		synctest.Wait()
		expectList(t, "runs", ran.get(), "a")
		if err := run.end(); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

// Negative control: with the end of its cache logged and no more, the controller ran
// on and heard of nothing.
func TestControllerEndsWithItsOwnCache(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(t)
		c := must[*reconcile.ObjectController[spec, status]](t)(reconcile.For(newStore(t, b, "thing"), func(context.Context, *thing) (result, error) { return result{}, nil }, nil))
		run := start(t, c)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		select {
		case <-run.done:
		default:
			t.Fatal("the controller runs on")
		}
		if !errors.Is(run.err, store.ErrClosed) || !strings.Contains(run.err.Error(), `"thing"`) {
			t.Errorf("Run: %v, want ErrClosed and the controller's name", run.err)
		}
	})
}

// A controller whose sources tell relations to some kinds is drawn with the other kinds that
// it is woken by, too.
//
// Negative control: mutant "a kind without a relation is not drawn beside one that has one".
func TestGraphHasTheKindsWithAndWithoutARelation(t *testing.T) {
	b := newBackend(t)
	c := must[*reconcile.Controller[store.Key]](t)(reconcile.New("sets", record[store.Key](nil), nil))
	if err := c.Watch(
		reconcile.Map(newCache(t, newStore(t, b, "node")), byRef),
		reconcile.Owners(newCache(t, newStore(t, b, "pod")), "set"),
	); err != nil {
		t.Fatal(err)
	}
	var m reconcile.Manager
	if err := m.Register(c); err != nil {
		t.Fatal(err)
	}
	woken := make(map[string]introspect.Role)
	g := m.Graph()
	for _, e := range g.Edges {
		if e.Mapped {
			woken[g.Nodes[e.From].Name] = e.As
		}
	}
	if want := map[string]introspect.Role{"node": "", "pod": introspect.Owned}; !maps.Equal(woken, want) {
		t.Errorf("it is woken by %v, want %v", woken, want)
	}
}

// mute is a backend whose watches say nothing.
type mute struct{ store.FullBackend }

func (mute) Watch(ctx context.Context, _ string, _ store.Revision) iter.Seq2[store.Batch, error] {
	return func(func(store.Batch, error) bool) { <-ctx.Done() }
}

// A cache that the program registers is ready when it has its list.
func TestCacheIsReadyWhenItHasSynced(t *testing.T) {
	for _, silent := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			var m reconcile.Manager
			b := newBackend(t)
			if silent {
				b = mute{b}
			}
			if err := m.Register(must[*cache.Cache[spec, status]](t)(cache.New(newStore(t, b, "thing"), nil))); err != nil {
				t.Fatal(err)
			}
			start(t, &m)
			if got := m.Ready(); len(got) != 1 || got[0].OK == silent || silent && got[0].Reason != "not synced yet" {
				t.Errorf("Ready says %+v, want that it waits: %v", got, silent)
			}
		})
	}
}
