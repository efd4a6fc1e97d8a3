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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// failures collects what OnError hears.
type failures[K comparable] struct {
	mu  sync.Mutex
	all []reconcile.Failure[K]
}

func (f *failures[K]) hear(x reconcile.Failure[K]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, x)
}

func (f *failures[K]) list() []reconcile.Failure[K] {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all)
}

// case 63; promise R4
//
// Negative control: with "" for what unsynced says in supervisor.step, the run
// begins at once and the test fails.
// Weak point 004 (g).
func TestNoKeyIsRunBeforeAllSourcesAreSynced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record[string](nil)
		c := newController(t, r, nil)
		late := func(name string, d time.Duration) reconcile.Source[string] {
			return reconcile.Source[string]{Name: name, Run: func(ctx context.Context, to reconcile.Sink[string]) error {
				_ = to.Add(name, queue.AddOptions{})
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
				to.Synced()
				<-ctx.Done()
				return nil
			}}
		}
		if err := c.Watch(late("one", time.Second), late("two", time.Minute)); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		pass(59 * time.Second)
		expect(t, "runs before the second has synced", r.count(), 0)
		if err := c.Ready(); err == nil || !strings.Contains(err.Error(), "source two") {
			t.Errorf("Ready says %v, want it to wait for source two", err)
		}
		pass(2 * time.Second)
		expect(t, "runs afterwards", r.count(), 2)
		if err := c.Ready(); err != nil {
			t.Errorf("Ready says %v, want nil", err)
		}

		// A source that comes later does not hold the runs up.
		if err := c.Watch(late("three", time.Hour)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		expect(t, "runs with a late source", r.count(), 3)
	})
}

// A server that comes back to its shard waits for its sources as long as the first time.
//
// promise R4
func TestSourceThatDoesNotSyncTheSecondTimeEndsTheController(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, lives := newHandPlaced(1), 0
		c := newController(t, record[string](nil), &reconcile.Options[string]{SyncTimeout: time.Minute, Placement: p})
		if err := c.Watch(reconcile.Source[string]{Name: "once", Run: func(ctx context.Context, to reconcile.Sink[string]) error {
			if lives++; lives == 1 {
				to.Synced()
			}
			<-ctx.Done()
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		run := start(t, c)
		p.give(0)
		pass(time.Hour)
		p.take(0)
		pass(time.Hour)
		p.give(0)
		pass(time.Minute + time.Second)
		select {
		case <-run.done:
		default:
			t.Error("it goes on without its source")
		}
		if err := run.end(); !errors.Is(err, reconcile.ErrNotSynced) {
			t.Errorf("Run = %v, want ErrNotSynced", err)
		}
	})
}

// Negative control: without the timer, Run went on until it was stopped.
//
// promise R4
func TestSourceThatDoesNotSyncInTimeEndsTheController(t *testing.T) {
	for name, syncs := range map[string]time.Duration{"never": time.Hour, "just in time": time.Minute - time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := record[string](nil)
				c := newController(t, r, &reconcile.Options[string]{SyncTimeout: time.Minute})
				err := c.Watch(reconcile.Source[string]{Name: "slow", Run: func(ctx context.Context, to reconcile.Sink[string]) error {
					_ = to.Add("a", queue.AddOptions{})
					select {
					case <-time.After(syncs):
						to.Synced()
						<-ctx.Done()
					case <-ctx.Done():
					}
					return nil
				}})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
				defer stop()
				began := time.Now()
				err = c.Run(ctx)
				if syncs < time.Minute {
					if err != nil || r.count() != 1 {
						t.Errorf("Run = %v after %d runs, want nil and 1", err, r.count())
					}
					return
				}
				if !errors.Is(err, reconcile.ErrNotSynced) || !strings.Contains(err.Error(), "source slow") {
					t.Errorf("Run = %v, want ErrNotSynced of source slow", err)
				}
				expect(t, "time until it gave up", time.Since(began), time.Minute)
				expect(t, "runs", r.count(), 0)
			})
		})
	}
}

// case 98
func TestSameSourceTwiceIsRefused(t *testing.T) {
	c := newController(t, record[string](nil), nil)
	one := reconcile.Chan("one", make(chan string))
	if err := c.Watch(one); err != nil {
		t.Fatal(err)
	}
	for _, sources := range [][]reconcile.Source[string]{
		{one},
		{reconcile.Chan("two", make(chan string)), reconcile.Chan("two", make(chan string))},
	} {
		if err := c.Watch(sources...); !errors.Is(err, reconcile.ErrSourceExists) {
			t.Errorf("got %v, want ErrSourceExists", err)
		}
	}
	expect(t, "sources after refusals", len(c.Snapshot().Sources), 1)
	for _, bad := range []reconcile.Source[string]{{}, {Name: "no run"}, {Run: one.Run}} {
		if err := c.Watch(bad); err == nil {
			t.Errorf("Watch(%+v) gave no error", bad)
		}
	}
}

// case 98
func TestChangeReachesTheReconcilerThroughEitherOfTwoSources(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record[string](nil)
		c := newController(t, r, nil)
		one, two := make(chan string), make(chan string)
		if err := c.Watch(reconcile.Chan("one", one), reconcile.Chan("two", two)); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		one <- "a"
		two <- "b"
		synctest.Wait()
		expectList(t, "keys", slices.Sorted(slices.Values(r.keys())), "a", "b")
	})
}

// case 57, 103: a life that ends early is started again with a growing backoff,
// one that had started well at once.
func TestFailedSourceIsStartedAgain(t *testing.T) {
	for _, test := range []struct {
		name string
		life time.Duration
		gaps [][2]time.Duration // least and most from the end of a life to the next
	}{
		{"early failures back off", time.Second, [][2]time.Duration{
			{375 * time.Millisecond, 625 * time.Millisecond},
			{750 * time.Millisecond, 1250 * time.Millisecond},
			{1500 * time.Millisecond, 2500 * time.Millisecond},
			{3 * time.Second, 5 * time.Second},
		}},
		{"a late failure restarts at once", 3 * time.Second, [][2]time.Duration{{0, 0}, {0, 0}, {0, 0}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var told failures[string]
				r := record[string](nil)
				c := newController(t, r, &reconcile.Options[string]{Hooks: reconcile.Hooks[string]{OnError: told.hear}})
				var mu sync.Mutex
				var lives []time.Time
				bad := reconcile.Source[string]{Name: "bad", Run: func(_ context.Context, to reconcile.Sink[string]) error {
					to.Synced()
					mu.Lock()
					lives = append(lives, time.Now())
					n := len(lives)
					mu.Unlock()
					time.Sleep(test.life)
					if n%2 == 0 {
						panic(errBoom)
					}
					return errBoom
				}}
				good := make(chan string)
				if err := c.Watch(bad, reconcile.Chan("good", good)); err != nil {
					t.Fatal(err)
				}
				start(t, c)
				pass(30 * time.Second)
				mu.Lock()
				began := slices.Clone(lives)
				mu.Unlock()
				for i, gap := range test.gaps {
					d := began[i+1].Sub(began[i]) - test.life
					if d < gap[0] || d > gap[1] {
						t.Errorf("pause %d is %v, want %v to %v", i, d, gap[0], gap[1])
					}
				}
				fs := told.list()
				if n := len(fs); n < len(began)-1 || n > len(began) {
					t.Errorf("OnError heard %d failures of %d lives", n, len(began))
				}
				if f := fs[0]; f.Source != "bad" || f.Controller != "test" || !errors.Is(f.Err, errBoom) {
					t.Errorf("OnError heard %+v", f)
				}
				if test.life < 2*time.Second {
					if err := c.Health(); err == nil || !strings.Contains(err.Error(), `"bad"`) {
						t.Errorf("Health says %v, want it to name the source", err)
					}
				}
				good <- "k"
				synctest.Wait()
				expect(t, "runs through the good source", r.count(), 1)
				expect(t, "restarts", c.Snapshot().Sources[0].Restarts, len(began)-1)
				time.Sleep(test.life) // it ignores its context
			})
		})
	}
}

// case 160
func TestChanNeverWaitsForAReconcile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record(func(ctx context.Context, _ int) (result, error) {
			time.Sleep(time.Minute)
			return result{}, nil
		})
		c := newController(t, r, &reconcile.Options[int]{Workers: 1})
		ch := make(chan int)
		if err := c.Watch(reconcile.Chan("ch", ch)); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		began := time.Now()
		for i := range 10_000 {
			ch <- i % 10
		}
		expect(t, "time to send", time.Since(began), 0)
		pass(time.Hour)
		// The first key may have been running already when it was sent again.
		if n := r.count(); n < 10 || n > 11 {
			t.Errorf("got %d runs of 10 keys, want 10 or 11", n)
		}
	})
}

// case 160; weak point 003 (k)
func TestClosedChannelIsSaid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told failures[string]
		c := newController(t, record[string](nil), &reconcile.Options[string]{Hooks: reconcile.Hooks[string]{OnError: told.hear}})
		ch := make(chan string)
		if err := c.Watch(reconcile.Chan("ch", ch)); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		close(ch)
		pass(time.Hour)
		if fs := told.list(); len(fs) != 1 || !errors.Is(fs[0].Err, reconcile.ErrSourceEnded) || fs[0].Source != "ch" {
			t.Errorf("OnError heard %+v, want ErrSourceEnded of ch, once", fs)
		}
		if err := c.Health(); !errors.Is(err, reconcile.ErrSourceEnded) {
			t.Errorf("Health says %v, want ErrSourceEnded", err)
		}
	})
}

// case 159
func TestEveryRunsWhatIsNewChangedOrGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told failures[string]
		r := record[string](nil)
		c := newController(t, r, &reconcile.Options[string]{Hooks: reconcile.Hooks[string]{OnError: told.hear}})
		var mu sync.Mutex
		items, down := map[string]int{"a": 1, "b": 1}, false
		var lists atomic.Int32
		set := func(m map[string]int, fail bool) {
			mu.Lock()
			defer mu.Unlock()
			items, down = m, fail
		}
		list := func(context.Context) (map[string]int, error) {
			mu.Lock()
			defer mu.Unlock()
			lists.Add(1)
			if down {
				return map[string]int{"a": 1}, errBoom // half a list
			}
			return maps.Clone(items), nil
		}
		if err := c.Watch(reconcile.Every("list", time.Minute, list)); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		step := func(what string, want ...string) {
			t.Helper()
			before := r.count()
			pass(2 * time.Minute)
			got := r.keys()[before:]
			expectList(t, what, slices.Compact(slices.Sorted(slices.Values(got))), want...)
		}
		synctest.Wait()
		expectList(t, "at the start", slices.Sorted(slices.Values(r.keys())), "a", "b")
		step("nothing changed")
		set(map[string]int{"a": 2, "b": 1}, false)
		step("a changed", "a")
		set(map[string]int{"a": 2, "b": 1, "c": 1}, false)
		step("c is new", "c")
		set(map[string]int{"a": 2, "b": 1, "c": 1}, true)
		before := lists.Load()
		step("the list fails: no key is taken for gone")
		if got := lists.Load() - before; got < 4 || got > 12 {
			t.Errorf("got %d lists in two minutes of failures, want a backoff below the interval", got)
		}
		if err := c.Health(); !errors.Is(err, errBoom) {
			t.Errorf("Health says %v, want boom", err)
		}
		for _, f := range told.list() {
			if f.Source != "list" || !errors.Is(f.Err, errBoom) {
				t.Errorf("OnError heard %+v", f)
			}
		}
		set(map[string]int{"a": 2, "c": 1}, false)
		step("b is gone", "b")
		if err := c.Health(); err != nil {
			t.Errorf("Health says %v, want nil", err)
		}
	})
}

// What cannot work is refused by Watch, which says why.
func TestSourcesThatCannotWorkAreRefused(t *testing.T) {
	things := newCache(t, newStore(t, newBackend(t), "thing"))
	list := func(context.Context) (map[store.Key]int, error) { return nil, nil }
	mapper := func(context.Context, *thing, *thing) ([]store.Key, error) { return nil, nil }
	for want, s := range map[string]reconcile.Source[store.Key]{
		`Every("no list")`:     reconcile.Every[store.Key, int]("no list", time.Minute, nil),
		`Every("no interval")`: reconcile.Every("no interval", 0, list),
		`Chan("no channel")`:   reconcile.Chan[store.Key]("no channel", nil),
		"From: no cache":       reconcile.From[spec, status](nil),
		"From: a nil Pred":     reconcile.From(things, nil),
		"Map: needs a cache":   reconcile.Map[store.Key, spec, status](nil, mapper),
		"Map: needs":           reconcile.Map[store.Key](things, nil),
		"Map: a nil Pred":      reconcile.Map(things, mapper, nil),
		"Owners: no cache":     reconcile.Owners[spec, status](nil, "thing"),
		"Same: no cache":       reconcile.Same[spec, status](nil),
	} {
		c := newController(t, record[store.Key](nil), nil)
		if err := c.Watch(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Watch = %v, want %q", err, want)
		}
	}
}

// The error of a source that has not synced says why.
func TestNotSyncedSaysWhyTheSourceFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		c := newController(t, record[string](nil), &reconcile.Options[string]{SyncTimeout: 2 * time.Minute, Logger: logger})
		if err := c.Watch(reconcile.Every("list", time.Second, func(context.Context) (map[string]int, error) { return nil, errBoom })); err != nil {
			t.Fatal(err)
		}
		run := start(t, c)
		pass(90 * time.Second)
		if err := c.Ready(); !errors.Is(err, errBoom) || !strings.Contains(err.Error(), "source list") {
			t.Errorf("Ready says %v, want the source and why it fails", err)
		}
		if !strings.Contains(lines.String(), `waitingFor="source list" err=boom`) {
			t.Errorf("the log does not say why the source has not synced:\n%s", lines)
		}
		<-run.done
		if !errors.Is(run.err, reconcile.ErrNotSynced) || !errors.Is(run.err, errBoom) {
			t.Errorf("Run = %v, want ErrNotSynced and why", run.err)
		}
	})
	bubble(t, func(t *testing.T) { // and of a cache that is only read
		read := newCache(t, newStore(t, &failing{newBackend(t), errBoom}, "read"))
		c := newController(t, record[string](nil), &reconcile.Options[string]{SyncTimeout: time.Minute, Reads: []reconcile.Cached{read}})
		run := startManaged(t, c)
		<-run.done
		if !errors.Is(run.err, reconcile.ErrNotSynced) || !strings.Contains(run.err.Error(), "cache read") || !errors.Is(run.err, errBoom) {
			t.Errorf("Run = %v, want ErrNotSynced of the cache and why", run.err)
		}
	})
}

// failing is a backend whose watches fail.
type failing struct {
	store.Backend
	err error
}

func (b *failing) Watch(context.Context, string, store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) { yield(store.Batch{}, b.err) }
}

// A cache that the reconciler only reads is waited for like a source.
//
// promise R4
func TestNoKeyIsRunBeforeTheCachesThatAreReadAreSynced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record[string](nil)
		read := newCache(t, newStore(t, newBackend(t), "read"))
		c := newController(t, r, &reconcile.Options[string]{Reads: []reconcile.Cached{read}})
		add(t, c, "k")
		start(t, c) // without a Manager: the test runs the cache
		pass(time.Hour)
		expect(t, "runs before the cache has synced", r.count(), 0)
		if err := c.Ready(); err == nil || !strings.Contains(err.Error(), "cache read") {
			t.Errorf("Ready says %v, want it to wait for the cache", err)
		}
		start(t, read)
		expect(t, "runs afterwards", r.count(), 1)
		if err := c.Ready(); err != nil {
			t.Errorf("Ready says %v", err)
		}
	})
}

// A key that is full waits in its source; nothing is lost.
func TestSourceWaitsWhileTheQueueIsFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record(func(context.Context, int) (result, error) {
			time.Sleep(time.Second)
			return result{}, nil
		})
		c := newController(t, r, &reconcile.Options[int]{Workers: 2, Queue: queue.Options[int]{MaxKeys: 5}})
		list := func(context.Context) (map[int]int, error) {
			m := make(map[int]int)
			for i := range 50 {
				m[i] = i
			}
			return m, nil
		}
		// Synced only once all are in: a poll of more than fits must not wait
		// for workers that wait for it.
		if err := c.Watch(reconcile.Source[int]{Name: "list", Run: func(ctx context.Context, to reconcile.Sink[int]) error {
			to.Synced()
			return reconcile.Every("list", time.Hour, list).Run(ctx, to)
		}}); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		pass(10 * time.Minute)
		keys := slices.Sorted(slices.Values(r.keys()))
		expect(t, "keys run", len(slices.Compact(keys)), 50)
	})
}

// A key that went while the queue is full runs though its source is ended meanwhile, here
// to list the keys of a shard that was gained.
//
// Negative control: mutant "a key that went is forgotten before the queue has taken it".
func TestKeyThatWentIsAddedThoughItsSourceIsStartedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var empty atomic.Bool
		var lists atomic.Int32
		p := newHandPlaced(2)
		r := record[string](nil)
		c := newController(t, r, &reconcile.Options[string]{
			Placement: p, Hash: func(string) uint64 { return 0 }, Queue: queue.Options[string]{MaxKeys: 1},
		})
		if err := c.Watch(reconcile.Every("list", time.Minute, func(context.Context) (map[string]int, error) {
			lists.Add(1)
			if empty.Load() {
				return nil, nil
			}
			return map[string]int{"a": 1}, nil
		})); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		first := lease.Shard(0, 2)
		p.give(first)
		synctest.Wait()
		expectList(t, "runs at the start", r.keys(), "a")
		if err := c.Queue().AddAfter("filler", time.Hour); err != nil {
			t.Fatal(err)
		}
		empty.Store(true)
		pass(2 * time.Minute)
		before := lists.Load()
		p.give(1 - first)
		pass(10 * time.Second)
		expect(t, "lists of the source that was started again", lists.Load()-before, 1)
		expectList(t, "runs while the queue is full", r.keys(), "a")
		c.Queue().Remove("filler")
		pass(10 * time.Second)
		expectList(t, "runs when there is room", r.keys(), "a", "a")
	})
}

func TestSourcesComeAndGoWhileRunning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record[string](nil)
		c := newController(t, r, nil)
		run := start(t, c)
		ch := make(chan string, 1)
		for range 3 {
			if err := c.Watch(reconcile.Chan("ch", ch)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			ch <- "k"
			synctest.Wait()
			if err := c.Unwatch("ch"); err != nil {
				t.Fatal(err)
			}
			ch <- "this is not read"
			synctest.Wait()
			<-ch
		}
		expectList(t, "keys", r.keys(), "k", "k", "k")
		if err := c.Unwatch("ch"); !errors.Is(err, reconcile.ErrNoSource) {
			t.Errorf("got %v, want ErrNoSource", err)
		}
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
	})
}

// case 59
func TestInvalidKeyIsSkippedCountedAndLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		r := record[store.Key](nil)
		c := newController(t, r, &reconcile.Options[store.Key]{Logger: logger})
		ch := make(chan store.Key)
		if err := c.Watch(reconcile.Chan("ch", ch)); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		for range 3 {
			ch <- store.Key{}
		}
		ch <- key("good")
		synctest.Wait()
		expectList(t, "keys", r.keys(), key("good"))
		expect(t, "skipped", c.Snapshot().Sources[0].Skipped, 3)
		expect(t, "log lines", strings.Count(lines.String(), "invalid key"), 1)
		if err := c.Add(store.Key{}); err == nil {
			t.Error("Add of an invalid key gave no error")
		}
	})
}

// case 105
func TestOnErrorHearsEachFailureOnceAndItsPanicIsContained(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		var told failures[string]
		c := newController(t, script[string](fails(errBoom), fails(errBoom)), &reconcile.Options[string]{
			Logger: logger, Backoff: exactly(time.Second),
			Hooks: reconcile.Hooks[string]{OnError: func(f reconcile.Failure[string]) {
				told.hear(f)
				panic("hook")
			}},
		})
		add(t, c, "k")
		start(t, c)
		pass(time.Minute)
		fs := told.list()
		if len(fs) != 2 {
			t.Fatalf("OnError heard %d failures, want 2", len(fs))
		}
		for i, f := range fs {
			expect(t, "failure", fmt.Sprint(f.Controller, f.Source, f.Key, f.Attempt, f.Err), fmt.Sprint("test", "", "k", i, errBoom))
		}
		expect(t, "lines about the hook", strings.Count(lines.String(), "hook failed"), 2)
		if strings.Contains(lines.String(), "run failed") {
			t.Errorf("a failure was told and logged:\n%s", lines)
		}
		expect(t, "successes in the end", c.Counts().Success, 1)
	})
}

// case 105
func TestWithoutOnErrorFailuresAreLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		c := newController(t, script[string](fails(errBoom)), &reconcile.Options[string]{Logger: logger, Backoff: exactly(time.Second)})
		add(t, c, "k")
		start(t, c)
		pass(time.Minute)
		expect(t, "lines", strings.Count(lines.String(), "run failed"), 1)
		if !strings.Contains(lines.String(), "controller=test err=boom key=k attempt=0") {
			t.Errorf("the line does not name the controller and the error:\n%s", lines)
		}
	})
}

// Keys do not wait for a source that was removed, also if it ignores its end.
//
// Negative control: without a message from Unwatch they wait for the next housekeeping.
func TestKeysDoNotWaitForASourceThatWasRemoved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		r := record[string](nil)
		c := newController(t, r, nil)
		if err := c.Watch(reconcile.Source[string]{Name: "deaf", Run: func(context.Context, reconcile.Sink[string]) error {
			<-release
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		add(t, c, "k")
		pass(time.Second)
		expect(t, "runs before the source has synced", r.count(), 0)
		removed := make(chan error, 1)
		go func() { removed <- c.Unwatch("deaf") }()
		synctest.Wait()
		expect(t, "runs", r.count(), 1)
		close(release)
		if err := <-removed; err != nil {
			t.Errorf("Unwatch = %v", err)
		}
	})
}

// A list that fails is tried again after a backoff of 500 ms to 1 min, and never later than
// its interval.
//
// Negative control: mutant "a list that fails waits longer than its interval".
func TestListThatFailsIsTriedAgainWithinItsInterval(t *testing.T) {
	for _, interval := range []time.Duration{time.Millisecond, 200 * time.Millisecond, 2 * time.Second, 20 * time.Second, time.Hour} {
		for name, watch := range map[string]func(list func(context.Context) (map[string]int, error)) reconcile.Runner{
			"Every": func(list func(context.Context) (map[string]int, error)) reconcile.Runner {
				c := newController(t, record[string](nil), nil)
				if err := c.Watch(reconcile.Every("list", interval, list)); err != nil {
					t.Fatal(err)
				}
				return c
			},
			"Each": func(list func(context.Context) (map[string]int, error)) reconcile.Runner {
				return must[*reconcile.Controller[string]](t)(reconcile.Each("list", interval, list, func(context.Context, string, *int) (result, error) {
					return result{}, nil
				}, &reconcile.Options[string]{Logger: slog.New(slog.DiscardHandler)}))
			},
		} {
			bubble(t, func(t *testing.T) {
				var at list[time.Time]
				start(t, watch(func(context.Context) (map[string]int, error) {
					at.add(time.Now())
					return nil, errBoom
				}))
				lists := 12
				pass(time.Duration(lists) * min(interval, 75*time.Second))
				if n := len(at.get()); n < lists {
					t.Errorf("%s, interval %v: %d lists that failed, want %d at least", name, interval, n, lists)
				}
				for i, now := range at.get()[1:] {
					wait := now.Sub(at.get()[i])
					if wait > min(interval, 75*time.Second) || wait < min(interval, 375*time.Millisecond) {
						t.Errorf("%s, interval %v: %v to list %d, want at most the interval, and a backoff of 500 ms to 1 min ±25 %%", name, interval, wait, i+1)
					}
				}
			})
		}
	}
}

// A source that fails again and again is not healthy in between, however far each of its runs
// comes; it is well again when one has gone on for more than two seconds.
//
// Negative control: mutant "a source that was started again is healthy at once".
func TestSourceThatKeepsFailingIsNotHealthyInBetween(t *testing.T) {
	for _, life := range []time.Duration{0, 100 * time.Millisecond, time.Second, 1900 * time.Millisecond} {
		bubble(t, func(t *testing.T) {
			c := newController(t, record[string](nil), nil)
			lives := 0
			if err := c.Watch(reconcile.Source[string]{Name: "source", Run: func(ctx context.Context, to reconcile.Sink[string]) error {
				to.Synced()
				if lives++; lives > 4 {
					<-ctx.Done()
					return nil
				}
				time.Sleep(life)
				return errBoom
			}}); err != nil {
				t.Fatal(err)
			}
			start(t, c)
			time.Sleep(life)
			pass(time.Millisecond)
			for lives <= 4 {
				if err := c.Health(); !errors.Is(err, errBoom) {
					t.Fatalf("runs of %v: Health says %v in run %d, want why the one before it failed", life, err, lives)
				}
				pass(50 * time.Millisecond)
			}
			pass(3 * time.Second)
			if err := c.Health(); err != nil {
				t.Errorf("runs of %v: Health says %v of the one that goes on, want nil", life, err)
			}
		})
	}
}

// Since when a source fails counts from the first failure in a row, whether its runs end or it
// says so itself, and from a later one after it was well.
//
// Negative control: without the question in failsLocked whether the source was well it is the last failure.
func TestSourceFailsSinceTheFirstFailureInARow(t *testing.T) {
	for what, ends := range map[string]bool{"its runs end": true, "it says so": false} {
		bubble(t, func(t *testing.T) {
			c := newController(t, record[string](nil), nil)
			var fails atomic.Bool
			if err := c.Watch(reconcile.Source[string]{Name: "source", Run: func(ctx context.Context, to reconcile.Sink[string]) error {
				to.Synced()
				for ctx.Err() == nil {
					var err error
					if fails.Load() {
						err = errBoom
					}
					if ends && err != nil {
						return err
					}
					to.(reconcile.Reporter).Failed(err)
					select {
					case <-time.After(10 * time.Minute):
					case <-ctx.Done():
					}
				}
				return nil
			}}); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			fails.Store(true)
			start(t, c)
			failing := func() time.Time { return c.Snapshot().Sources[0].FailingSince }
			pass(95 * time.Minute)
			expect(t, what+": it fails since", failing(), began)
			fails.Store(false)
			pass(30 * time.Minute)
			expect(t, what+": well, it fails since", failing(), time.Time{})
			fails.Store(true)
			again := time.Now()
			pass(25 * time.Minute)
			if at := failing(); at.Before(again) || at.After(again.Add(10*time.Minute)) {
				t.Errorf("%s: it fails again since %v, want the first time after %v", what, at, again)
			}
		})
	}
}

// A source that has nothing to say, not even that it has synced, holds up no key.
//
// promise Q1. Negative control: mutant "a source that ended unsynced is waited for".
func TestSourceThatEndsWithoutAWordHoldsUpNoKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record[string](nil)
		c := newController(t, r, nil)
		if err := c.Watch(reconcile.Source[string]{Name: "silent", Run: func(context.Context, reconcile.Sink[string]) error { return nil }}); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		add(t, c, "a")
		pass(time.Second)
		expectList(t, "keys run", r.keys(), "a")
		if err := c.Ready(); err != nil {
			t.Errorf("Ready says %v", err)
		}
	})
}

// Sources are told to end before the runs that are under way are waited for.
//
// promise Q8. Negative control: mutant "sources go on while runs drain".
func TestSourcesEndBeforeRunsAreDrained(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newController(t, record(func(context.Context, string) (result, error) {
			time.Sleep(20 * time.Second)
			return result{}, nil
		}), nil)
		var cause error
		if err := c.Watch(reconcile.Source[string]{Name: "s", Run: func(ctx context.Context, to reconcile.Sink[string]) error {
			to.Synced()
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		run := start(t, c)
		add(t, c, "slow")
		pass(time.Second)
		run.stop()
		pass(time.Second)
		if !errors.Is(cause, reconcile.ErrShutdown) {
			t.Errorf("a second after the stop the source's context ended with %v, want ErrShutdown", cause)
		}
		expect(t, "active workers", c.Snapshot().Active, 1)
		if err := run.end(); err != nil {
			t.Error(err)
		}
	})
}

// Nothing is started again before it returns, also not by Watch of a source that Unwatch gave up on.
//
// Negative control: the mutant "a source runs beside the one of its name that was removed".
func TestSourceThatIsStillRunningIsNotWatchedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newController(t, record[string](nil), &reconcile.Options[string]{Hooks: reconcile.Hooks[string]{OnError: func(reconcile.Failure[string]) {}}})
		let := make(chan struct{})
		deaf := reconcile.Source[string]{Name: "deaf", Run: func(_ context.Context, to reconcile.Sink[string]) error {
			to.Synced()
			<-let
			return nil
		}}
		if err := c.Watch(deaf); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		synctest.Wait()
		if err := c.Unwatch("deaf"); !errors.Is(err, reconcile.ErrSourceRunning) {
			t.Errorf("Unwatch: %v, want ErrSourceRunning", err)
		}
		if err := c.Watch(deaf); !errors.Is(err, reconcile.ErrSourceRunning) {
			t.Errorf("Watch while it runs: %v, want ErrSourceRunning", err)
		}
		close(let)
		synctest.Wait()
		if err := c.Watch(deaf); err != nil {
			t.Errorf("Watch when it has returned: %v", err)
		}
	})
}

// A channel is read once: what its source has received and waits to add must not go with it.
//
// promise Q1. Negative control: the mutant "a channel's source is ended for a gained shard".
func TestChanKeepsItsKeyWhenAShardIsGained(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newHandPlaced(2)
		gate := make(chan struct{})
		r := record(func(_ context.Context, k string) (result, error) {
			if k == "a" {
				<-gate
			}
			return result{}, nil
		})
		c := newController(t, r, &reconcile.Options[string]{Placement: p, Queue: queue.Options[string]{MaxKeys: 1}, Hash: func(string) uint64 { return 0 }})
		ch := make(chan string)
		if err := c.Watch(reconcile.Chan("ch", ch)); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		shard := 0
		for i := range 2 {
			p.give(i)
			synctest.Wait()
			if c.Add("probe") == nil {
				shard = i
				break
			}
		}
		pass(time.Second)
		ch <- "a"
		synctest.Wait()
		ch <- "b" // the source waits for room
		synctest.Wait()
		p.give(1 - shard)
		pass(10 * time.Second)
		close(gate)
		pass(10 * time.Minute)
		expectList(t, "runs", r.keys(), "probe", "a", "b")
	})
}

// promise R3: a source that panics when it is told to end is reported. What it returns then says
// mostly that it was told, and is not.
func TestSourceThatPanicsAtItsEndIsReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var heard list[string]
		c := newController(t, record[string](nil), &reconcile.Options[string]{Hooks: reconcile.Hooks[string]{OnError: func(f reconcile.Failure[string]) { heard.add(f.Source) }}})
		for name, end := range map[string]func(error) error{
			"panics": func(error) error { panic(errBoom) }, "says so": func(err error) error { panic(err) }, "fails": func(error) error { return errBoom },
		} {
			if err := c.Watch(reconcile.Source[string]{Name: name, Run: func(ctx context.Context, to reconcile.Sink[string]) error {
				to.Synced()
				<-ctx.Done()
				return end(ctx.Err())
			}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := start(t, c).end(); err != nil {
			t.Fatal(err)
		}
		expectList(t, "sources that were reported", heard.get(), "panics")
	})
}

// What is not in order comes first at the start: a process that lives for a while only, before
// it is started again, would look at all that is in order and do nothing else.
//
// promise Q5. Negative control: mutant "at the start all objects are alike".
func TestAtTheStartWhatIsNotInOrderComesFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		ready := func(o *thing) {
			o.SetReady()
			must[*thing](t)(s.UpdateStatus(t.Context(), o))
		}
		ready(create(t, s, "a"))
		ready(create(t, s, "b", func(o *thing) { o.Finalizers = []string{"keep"} }))
		create(t, s, "c")
		ready(create(t, s, "d"))
		ready(create(t, s, "e"))
		mutate(t, s, "d", func(o *thing) { o.Spec.Size++ })
		if err := s.Delete(t.Context(), must[*thing](t)(s.Get(t.Context(), key("b")))); err != nil {
			t.Fatal(err)
		}
		r := record[store.Key](nil)
		c := newController(t, r, &reconcile.Options[store.Key]{Workers: 1, Queue: queue.Options[store.Key]{Shards: 1}})
		things := newCache(t, s)
		if err := c.Watch(reconcile.From(things)); err != nil {
			t.Fatal(err)
		}
		start(t, things)
		start(t, c)
		pass(time.Second)
		var order []string
		for _, run := range r.all() {
			order = append(order, run.key.Name)
		}
		slices.Sort(order[:3])
		slices.Sort(order[3:])
		expect(t, "runs", strings.Join(order, " "), "b c d a e")
	})
}
