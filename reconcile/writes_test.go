package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/storetest"
)

// promise S4: after a run that wrote, the key is kept back until the caches that
// the controller uses have seen the write; no worker waits meanwhile.
//
// Negative control: without the call of pendingWrites.wrote in settle.go the second run
// begins at once and sees revision 0, and the test fails.
func TestKeyIsKeptBackUntilTheCachesHaveSeenItsWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(t)
		s := newStore(t, b, "thing")
		other := newStore(t, b, "other")
		stopped := &stoppable{Cached: newCache(t, s)}
		var seen []store.Revision
		var wrote store.Revision
		r := record(func(ctx context.Context, k store.Key) (result, error) {
			if k.Name != "a" {
				return result{}, nil
			}
			seen = append(seen, stopped.Revision())
			if len(seen) > 1 {
				return result{}, nil
			}
			stopped.stop() // from now on the cache is behind
			// The other kind's revision is higher, and no cache of ours ever
			// sees it: it must not count.
			o, err := s.Create(ctx, &thing{Meta: store.Meta{Name: "a"}})
			if err != nil {
				return result{}, err
			}
			wrote = o.Revision
			_, err = other.Create(ctx, &thing{Meta: store.Meta{Name: "a"}})
			return result{RequeueAfter: time.Second}, err
		})
		c := newController(t, r, &reconcile.Options[store.Key]{Workers: 1, Reads: []reconcile.Cached{stopped}, CacheWait: time.Hour})
		stopped.start(t)
		start(t, c)
		add(t, c, key("a"))
		pass(10 * time.Second)
		expect(t, "runs while the cache is behind", len(seen), 1)
		e, _ := entry(c, key("a"))
		expect(t, "why", e.Why, "held: waiting for cache thing to see its write")
		add(t, c, key("a"), key("b"))
		synctest.Wait()
		expectList(t, "another key meanwhile", r.keys(), key("a"), key("b"))

		stopped.start(t)
		synctest.Wait()
		expect(t, "runs when the cache has caught up", len(seen), 2)
		if seen[1] < wrote {
			t.Errorf("the second run saw revision %d, the first wrote %d", seen[1], wrote)
		}
		stopped.stop()
	})
}

// promise S4: a key that succeeded, and asked for nothing, is kept back all the same
// when it is added before the caches have seen what it wrote: by a source or by
// hand, past the controller, or during the run that wrote.
//
// Negative control: without mayRun in a worker's run the last two run at once; without
// the hold in admit the first is ready, not held.
func TestKeyThatIsAddedAgainIsKeptBackToo(t *testing.T) {
	for name, again := range map[string]func(c *reconcile.Controller[store.Key], k store.Key) error{
		"by hand": func(c *reconcile.Controller[store.Key], k store.Key) error {
			_ = c.SetWorkers(0) // it is held before a worker has it: none of a bucket's tokens is used up
			err := c.Add(k)
			if e, _ := entry(c, k); e.State != queue.StateHeld {
				return fmt.Errorf("the key is %v, want held", e.State)
			}
			_ = c.SetWorkers(1)
			return err
		},
		"past the controller": func(c *reconcile.Controller[store.Key], k store.Key) error { return c.Queue().Add(k) },
		"during the run":      nil,
	} {
		for _, batch := range []bool{false, true} {
			if batch {
				name += ", in a batch"
			}
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T) { keptBackWhenAdded(t, again, batch) })
			})
		}
	}
}

func keptBackWhenAdded(t *testing.T, again func(*reconcile.Controller[store.Key], store.Key) error, batch bool) {
	s := newStore(t, newBackend(t), "thing")
	stopped := &stoppable{Cached: newCache(t, s)}
	var c *reconcile.Controller[store.Key]
	var seen, wrote store.Revision
	var at []time.Duration
	began := time.Now()
	run := func(ctx context.Context, k store.Key) error {
		at = append(at, time.Since(began))
		seen = stopped.Revision()
		if len(at) > 1 {
			return nil
		}
		o, err := s.Create(ctx, &thing{Meta: store.Meta{Name: k.Name}})
		wrote = o.Revision
		if again == nil {
			add(t, c, k)
		}
		return err
	}
	o := &reconcile.Options[store.Key]{Workers: 1, Reads: []reconcile.Cached{stopped}, CacheWait: time.Hour}
	if batch {
		c = must[*reconcile.Controller[store.Key]](t)(reconcile.NewBatch("test", batchOf(func(ctx context.Context, keys []store.Key) []reconcile.Outcome {
			return []reconcile.Outcome{{Err: run(ctx, keys[0])}}
		}), o))
	} else {
		c = newController(t, record(func(ctx context.Context, k store.Key) (result, error) { return result{}, run(ctx, k) }), o)
	}
	stopped.start(t)
	stopped.stop()
	start(t, c)
	add(t, c, key("a"))
	pass(time.Minute)
	if again != nil {
		if _, ok := entry(c, key("a")); ok {
			t.Error("a key that was not added is in the queue")
		}
		if err := again(c, key("a")); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
	}
	expectList(t, "runs while the cache is behind, at", at, 0)
	e, _ := entry(c, key("a"))
	expect(t, "why", e.Why, "held: waiting for cache thing to see its write")

	stopped.start(t)
	synctest.Wait()
	expect(t, "runs when the cache has caught up", len(at), 2)
	if seen < wrote {
		t.Errorf("the second run saw revision %d, the first wrote %d", seen, wrote)
	}
	stopped.stop()
	expect(t, "runs counted", c.Counts().Runs(), 2)
}

// promise S4: a key that is added again is kept back for the rest of the time that
// began with its write, no longer, and then reads the store.
//
// Negative control: with the whole CacheWait for a hold that begins later, the
// second run comes at 80 s.
func TestKeyThatIsAddedAgainIsKeptBackForTheRestOfTheTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		stopped := &stoppable{Cached: newCache(t, s)}
		var stale []bool
		r := record(func(ctx context.Context, k store.Key) (result, error) {
			info, _ := reconcile.RunInfo(ctx)
			if stale = append(stale, info.Stale); len(stale) > 1 {
				return result{}, nil
			}
			_, err := s.Create(ctx, &thing{Meta: store.Meta{Name: "a"}})
			return result{}, err
		})
		c := newController(t, r, &reconcile.Options[store.Key]{Reads: []reconcile.Cached{stopped}, CacheWait: time.Minute})
		stopped.start(t)
		add(t, c, key("a"))
		stopped.stop()
		start(t, c)
		pass(20 * time.Second)
		add(t, c, key("a"))
		pass(time.Hour)
		add(t, c, key("a"))
		pass(time.Hour)
		expectList(t, "runs at", r.times(), 0, time.Minute, time.Hour+20*time.Second)
		expectList(t, "stale", stale, false, true, true) // the cache has not seen it yet
	})
}

// promise S4: a key whose writes went to two kinds waits for both caches, and what
// was remembered of it is forgotten.
//
// Negative control: with the record dropped when the first cache has caught up, the
// second run comes before the other cache has seen the write.
func TestKeyWaitsForAllCaches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(t)
		one, two := newStore(t, b, "one"), newStore(t, b, "two")
		first, second := &stoppable{Cached: newCache(t, one)}, &stoppable{Cached: newCache(t, two)}
		runs := 0
		r := record(func(ctx context.Context, k store.Key) (result, error) {
			if runs++; runs > 1 {
				return result{}, nil
			}
			_, err1 := one.Create(ctx, &thing{Meta: store.Meta{Name: "a"}})
			_, err2 := two.Create(ctx, &thing{Meta: store.Meta{Name: "a"}})
			return result{Requeue: true}, errors.Join(err1, err2)
		})
		c := newController(t, r, &reconcile.Options[store.Key]{Reads: []reconcile.Cached{first, second}, CacheWait: time.Hour})
		for _, s := range []*stoppable{first, second} {
			s.start(t)
			s.stop()
		}
		add(t, c, key("a"))
		start(t, c)
		pass(time.Minute)
		e, _ := entry(c, key("a"))
		expect(t, "why", e.Why, "held: waiting for cache one, two to see its write")
		first.start(t)
		pass(time.Minute)
		expect(t, "runs with one cache behind", r.count(), 1)
		second.start(t)
		synctest.Wait()
		expect(t, "runs", r.count(), 2)
		pass(time.Hour)
		expect(t, "keys remembered", reconcile.Remembered(c), 0)
		first.stop()
		second.stop()
	})
}

// promise S4: keys are let go one by one as the cache catches up, whatever the order
// in which their runs ended, and all at once when it was restored from a backup:
// then the revisions they wait for mean nothing any more.
//
// Negative control: in the order of the runs' ends, a does not run again at its
// revision; without asking the cache again after it called, or without the question
// whether it was restored, c and d do not.
func TestKeysAreLetGoAsTheCacheCatchesUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		synced := &stoppable{Cached: newCache(t, s)}
		synced.start(t)
		synced.stop()
		ca := &scripted{Cached: synced}
		wrote := make(map[string]store.Revision)
		end := make(chan struct{})
		r := record(func(ctx context.Context, k store.Key) (result, error) {
			if _, again := wrote[k.Name]; again {
				return result{}, nil
			}
			o, err := s.Create(ctx, &thing{Meta: store.Meta{Name: k.Name}})
			wrote[k.Name] = o.Revision
			if k.Name == "a" { // it wrote first and ends last
				<-end
			}
			return result{Requeue: true}, err
		})
		c := newController(t, r, &reconcile.Options[store.Key]{Workers: 2, Reads: []reconcile.Cached{ca}, CacheWait: time.Hour})
		start(t, c)
		for _, k := range []string{"a", "b", "c", "d"} {
			add(t, c, key(k))
			synctest.Wait()
		}
		close(end)
		pass(time.Minute)
		expect(t, "runs", r.count(), 4)
		for _, k := range []string{"a", "b"} {
			ca.reach(wrote[k])
			synctest.Wait()
			if got := r.keys(); got[len(got)-1] != key(k) {
				t.Errorf("at revision %d runs of %v, want %s last", wrote[k], got, k)
			}
		}
		expect(t, "runs", r.count(), 6)
		ca.restore(1)
		synctest.Wait()
		expect(t, "runs after the restore", r.count(), 8)
		expect(t, "keys remembered", reconcile.Remembered(c), 0)
	})
}

// scripted is a cache that says of itself what the test wants.
type scripted struct {
	reconcile.Cached
	mu    sync.Mutex
	rev   store.Revision
	waits []struct {
		rev store.Revision
		f   func()
	}
}

func (s *scripted) Revision() store.Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rev
}

func (s *scripted) OnRevision(r store.Revision, f func()) (stop func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = append(s.waits, struct {
		rev store.Revision
		f   func()
	}{r, f})
	return func() bool { return false }
}

func (s *scripted) reach(r store.Revision)   { s.call(r, r) }
func (s *scripted) restore(r store.Revision) { s.call(r, math.MaxUint64) }

// call says r, and calls the waiters for what is at most upTo.
func (s *scripted) call(r, upTo store.Revision) {
	s.mu.Lock()
	s.rev = r
	waits := s.waits
	s.waits = nil
	s.mu.Unlock()
	for _, w := range waits {
		if w.rev <= upTo {
			w.f()
		} else {
			s.OnRevision(w.rev, w.f)
		}
	}
}

// promise S4: a key that has waited for as long as it has to writes again. It is not let go
// when the cache has reached what it wrote first, but when it has reached the last of it, or
// was restored from a backup before that.
//
// Negative control: mutant "a key that wrote again waits for what it wrote first alone".
func TestKeyThatWroteAgainWaitsForTheLastOfIt(t *testing.T) {
	for _, restored := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			s := newStore(t, newBackend(t), "thing")
			synced := &stoppable{Cached: newCache(t, s)}
			synced.start(t)
			synced.stop()
			ca := &scripted{Cached: synced}
			create(t, s, "a")
			var wrote list[store.Revision]
			r := record(func(ctx context.Context, k store.Key) (result, error) {
				if len(wrote.get()) == 2 {
					return result{}, nil
				}
				o, err := s.Mutate(ctx, k, func(o *thing) error { o.Status.Size++; return nil })
				wrote.add(o.Revision)
				return result{Requeue: true}, err
			})
			c := newController(t, r, &reconcile.Options[store.Key]{Reads: []reconcile.Cached{ca}, CacheWait: time.Minute})
			start(t, c)
			add(t, c, key("a"))
			pass(time.Minute)
			expect(t, "runs when it has waited", r.count(), 2)
			ca.reach(wrote.get()[0])
			pass(time.Second)
			expect(t, "runs when the cache has what it wrote first", r.count(), 2)
			if restored {
				ca.restore(1)
			} else {
				ca.reach(wrote.get()[1])
			}
			synctest.Wait()
			expect(t, "runs when the cache has all of it", r.count(), 3)
			expect(t, "keys remembered", reconcile.Remembered(c), 0)
		})
	}
}

// A burst of writes, more than are let go at once, is forgotten when the cache has
// caught up, and every key that was to run again has done so.
//
// Negative control: without the record dropped in saw, or in putLocked, most keys
// are remembered.
func TestBurstOfWritesIsForgottenWhenTheCacheHasCaughtUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const keys = 1000
		g := newRig(t, &reconcile.Options[store.Key]{}, func(ctx context.Context, g *rig, k store.Key) (result, error) {
			o, err := g.Mutate(ctx, k, func(o *thing) error { o.Status.Size++; return nil })
			return result{Requeue: o.Status.Size == 1}, err
		})
		for i := range keys {
			create(t, g.things, strconv.Itoa(i))
		}
		g.start(t)
		pass(10 * time.Second) // what is not forgotten is dropped after minutes
		expect(t, "runs", g.r.count(), 2*keys)
		for i := range keys {
			if _, ok := entry(g.c, key(strconv.Itoa(i))); ok {
				t.Fatalf("key %d is still in the queue", i)
			}
		}
		expect(t, "keys remembered", reconcile.Remembered(g.c), 0)
	})
}

// stoppable is a cache whose feed can be cut.
type stoppable struct {
	reconcile.Cached
	cancel context.CancelFunc
	done   chan struct{}
}

func (s *stoppable) start(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.done = cancel, make(chan struct{})
	go func() { // ended by stop
		defer close(s.done)
		if err := s.Run(ctx); err != nil {
			t.Errorf("cache: %v", err)
		}
	}()
	synctest.Wait()
}

func (s *stoppable) stop() { s.cancel(); <-s.done }

// promise S4: a cache that never catches up does not hold the key for ever, and
// the run that follows knows that it must read the store, also when it begins
// before everybody has heard that the wait is over.
//
// Negative control: with the key marked as stale by the queue's hook, the second
// run began before the mark and trusted the cache.
func TestKeyIsKeptBackOnlyForAWhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(t)
		s := newStore(t, b, "thing")
		stopped := &stoppable{Cached: newCache(t, s)}
		var stale []bool
		var expired []string
		r := record(func(ctx context.Context, k store.Key) (result, error) {
			info, _ := reconcile.RunInfo(ctx)
			stale = append(stale, info.Stale)
			if len(stale) > 1 {
				return result{}, nil
			}
			_, err := s.Create(ctx, &thing{Meta: store.Meta{Name: "a"}})
			return result{RequeueAfter: time.Second}, err
		})
		c := newController(t, r, &reconcile.Options[store.Key]{
			Reads: []reconcile.Cached{stopped}, CacheWait: time.Minute,
			Queue: queue.Options[store.Key]{Hooks: &queue.Hooks[store.Key]{
				HoldExpired: func(_ queue.Scope[store.Key], why string) {
					expired = append(expired, why)
					time.Sleep(time.Second) // the run does not wait for hooks
				},
			}},
		})
		stopped.start(t)
		add(t, c, key("a"))
		stopped.stop()
		start(t, c)
		pass(time.Hour)
		expectList(t, "runs at", r.times(), 0, time.Minute)
		expectList(t, "stale", stale, false, true)
		expectList(t, "the user's own hook heard", expired, "waiting for cache thing to see its write")
		add(t, c, key("a"))
		synctest.Wait()
		expectList(t, "stale", stale, false, true, true)
		expect(t, "keys remembered", reconcile.Remembered(c), 1)
		stopped.start(t) // it catches up
		defer stopped.stop()
		synctest.Wait()
		expectList(t, "stale", stale, false, true, true, false) // by itself: what it read may be gone
		add(t, c, key("a"))
		synctest.Wait()
		expectList(t, "stale", stale, false, true, true, false, false)
		expect(t, "keys remembered", reconcile.Remembered(c), 0)
	})
}

// promise R1: a run that reads the store because a cache is behind may see an object that is
// deleted before the cache has caught up, and of which no source ever hears. The key runs
// once more when the caches have caught up, also where the queue has no room at that moment,
// and where the run wrote something more.
func TestLastRunSeesWhatThereIsThoughACacheWasBehind(t *testing.T) {
	for _, test := range []struct {
		name         string
		full, writes bool
	}{{name: "plain"}, {name: "full", full: true}, {name: "writes", writes: true}} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStore(t, newBackend(t), "thing")
				stopped := &stoppable{Cached: newCache(t, s)}
				var seen list[bool] // that the other object is there, as each run found it
				r := record(func(ctx context.Context, k store.Key) (result, error) {
					if k != key("a") {
						return result{}, nil
					}
					_, err := s.Get(ctx, key("other"))
					seen.add(err == nil)
					switch {
					case len(seen.get()) == 1:
						_, err = s.Create(ctx, &thing{Meta: store.Meta{Name: "a"}})
						return result{RequeueAfter: time.Second}, err
					case len(seen.get()) == 2 && test.writes:
						_, err = s.Create(ctx, &thing{Meta: store.Meta{Name: "a2"}})
						return result{}, err
					}
					return result{}, nil
				})
				c := newController(t, r, &reconcile.Options[store.Key]{
					Reads: []reconcile.Cached{stopped}, CacheWait: time.Minute,
					Queue: queue.Options[store.Key]{MaxKeys: 1},
				})
				stopped.start(t)
				add(t, c, key("a"))
				stopped.stop()
				start(t, c)
				synctest.Wait()
				other, err := s.Create(t.Context(), &thing{Meta: store.Meta{Name: "other"}})
				check(err)
				pass(2 * time.Minute)
				expectList(t, "there", seen.get(), false, true)
				check(s.Delete(t.Context(), other))
				if test.full {
					check(c.Queue().AddWith(key("b"), queue.AddOptions{After: time.Minute}))
				}
				stopped.start(t)
				defer stopped.stop()
				synctest.Wait()
				if test.full {
					expectList(t, "there", seen.get(), false, true)
					pass(time.Hour)
				}
				expectList(t, "there", seen.get(), false, true, false)
				pass(time.Hour)
				expect(t, "keys remembered", reconcile.Remembered(c), 0)
			})
		})
	}
}

// promise S4: as long as a cache lacks what a key wrote, its runs read the store: also
// after one that failed to read it, and after one that wrote something else.
//
// Negative control: with stale forgetting what it was asked about once, the third run
// trusted the cache; with note forgetting what was not reached, the fourth.
func TestRunsReadTheStoreForAsLongAsTheCacheIsBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(t)
		s, others := newStore(t, b, "thing"), newStore(t, b, "other")
		stopped, fed := &stoppable{Cached: newCache(t, s)}, &stoppable{Cached: newCache(t, others)}
		var stale []bool
		r := record(func(ctx context.Context, k store.Key) (result, error) {
			info, _ := reconcile.RunInfo(ctx)
			stale = append(stale, info.Stale)
			switch len(stale) {
			case 1:
				_, err := s.Create(ctx, &thing{Meta: store.Meta{Name: "a"}})
				return result{RequeueAfter: time.Second}, err
			case 2:
				return result{}, errBoom
			case 3:
				_, err := others.Create(ctx, &thing{Meta: store.Meta{Name: "a"}})
				return result{RequeueAfter: time.Second}, err
			}
			return result{}, nil
		})
		c := newController(t, r, &reconcile.Options[store.Key]{
			Reads: []reconcile.Cached{stopped, fed}, CacheWait: time.Minute, Backoff: exactly(time.Second),
		})
		stopped.start(t)
		fed.start(t)
		defer fed.stop()
		add(t, c, key("a"))
		stopped.stop()
		start(t, c)
		pass(time.Hour)
		expectList(t, "stale", stale, false, true, true, true)
	})
}

// unsureRig is a backend that lets commits happen and says that it does not know, while
// lost is set, with a cache of it.
type unsureRig struct {
	*things
	cache *stoppable
	own   *cache.Cache[spec, status]
	lost  atomic.Bool
}

func newUnsureRig(t *testing.T) *unsureRig {
	t.Helper()
	g := new(unsureRig)
	b := storetest.Faulty(newBackend(t), func(c storetest.Call) storetest.Fault {
		if c.Method == "Commit" && g.lost.Load() {
			return storetest.Fault{Break: storetest.ReplyLost}
		}
		return storetest.Fault{}
	})
	g.things = newStore(t, b, "thing")
	g.own = newCache(t, g.things)
	g.cache = &stoppable{Cached: g.own}
	create(t, g.things, "a")
	g.cache.start(t)
	return g
}

// promise S4: a write whose outcome is not known may have landed. The runs after it do
// not go by a cache that lacks it, until one has read the store and succeeded.
//
// Negative control: with no note made of a write of unknown outcome, the second run saw
// size 0 and would have done it all once more; with the key taken for sure at the begin
// of the run, the third, after one that failed.
//
// Nor does it help that a run in between wrote something else: mutant "a run that writes
// forgets a write of unknown outcome".
func TestWriteOfUnknownOutcomeIsLookedForInTheStore(t *testing.T) {
	for _, writes := range []bool{false, true} {
		bubble(t, func(t *testing.T) { unknownOutcomeIsLookedFor(t, writes) })
	}
}

// unknownOutcomeIsLookedFor has a second run that fails, and that may write to another kind
// before.
func unknownOutcomeIsLookedFor(t *testing.T, writes bool) {
	g := newUnsureRig(t)
	others := newStore(t, g.Backend(), "other")
	var sizes []int
	f := func(ctx context.Context, o *thing) (result, error) {
		sizes = append(sizes, o.Spec.Size)
		switch len(sizes) {
		case 1:
			o.Spec.Size = 7
			g.lost.Store(true)
			defer g.lost.Store(false)
			_, err := g.Update(ctx, o)
			return result{}, err
		case 2:
			if writes {
				if _, err := others.Create(ctx, &thing{Meta: store.Meta{Name: "a"}}); err != nil {
					return result{}, err
				}
			}
			return result{}, errBoom
		}
		return result{}, nil
	}
	c := newController(t, reconcile.AsReconciler(g.own, f), &reconcile.Options[store.Key]{
		Reads: []reconcile.Cached{g.own}, Backoff: exactly(time.Minute),
	})
	g.cache.stop()
	add(t, c, key("a"))
	start(t, c)
	synctest.Wait()
	expect(t, "keys remembered", reconcile.Remembered(c), 1)
	pass(time.Hour)
	expectList(t, "sizes seen", sizes, 0, 7, 7)
	expect(t, "keys remembered in the end", reconcile.Remembered(c), 0)
}

// A change by another writer during a run that wrote waits, like an add, for the caches to
// see the write before a worker has the key: none of a bucket's tokens is used up by that. Nor is
// one if the run itself asked for another.
//
// promise S4. Negative controls: mutants "a change during a run does not wait for its writes" and
// "a key that is to run again is held when a worker has it".
func TestChangeDuringARunThatWroteCostsNoTokenWhileTheCachesLag(t *testing.T) {
	t.Run("changed", func(t *testing.T) { anotherRunCostsNoToken(t, false) })
	t.Run("asked for", func(t *testing.T) { anotherRunCostsNoToken(t, true) })
}

func anotherRunCostsNoToken(t *testing.T, asks bool) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		ca := newCache(t, s)
		shows, lags := &stoppable{Cached: ca}, &stoppable{Cached: newCache(t, s)}
		b := must[*ratelimit.Bucket](t)(ratelimit.NewBucket("cloud", 0.001, 10))
		runs := 0
		c := newController(t, record(func(ctx context.Context, k store.Key) (result, error) {
			if runs++; runs > 1 {
				return result{}, nil
			}
			lags.stop()
			o, err := s.Get(ctx, k)
			if err == nil {
				o.Status.Size++
				_, err = s.UpdateStatus(ctx, o)
			}
			time.Sleep(time.Second)
			return result{Requeue: asks}, err
		}), &reconcile.Options[store.Key]{
			Reads: []reconcile.Cached{lags}, CacheWait: time.Hour,
			Queue: queue.Options[store.Key]{Buckets: func(_ store.Key, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, b) }},
		})
		if err := c.Watch(reconcile.From(ca)); err != nil {
			t.Fatal(err)
		}
		create(t, s, "a")
		lags.start(t)
		shows.start(t)
		defer shows.stop()
		start(t, c)
		time.Sleep(500 * time.Millisecond)
		if !asks {
			mutate(t, s, "a", func(o *thing) { o.Spec.Size++ })
		}
		pass(time.Minute)
		e, _ := entry(c, key("a"))
		expect(t, "state", e.State, queue.StateHeld)
		expect(t, "tokens that were used up", math.Round(10-b.Stats().Tokens), 1)
		lags.start(t)
		pass(time.Minute)
		lags.stop()
		expect(t, "runs when the cache has caught up", runs, 2)
	})
}

// Promise Q7. Negative control: with age minding only what waits for a source, all
// stayed.
func TestNothingIsKeptOfWritesOfUnknownOutcomeThatNobodyLooksFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newUnsureRig(t)
		r := record(func(ctx context.Context, k store.Key) (result, error) {
			_, _ = g.Create(ctx, &thing{Meta: store.Meta{Name: "by-" + k.Name}})
			return result{}, nil // whatever came of it
		})
		c := newController(t, r, &reconcile.Options[store.Key]{Reads: []reconcile.Cached{g.own}})
		g.lost.Store(true)
		for i := range 100 {
			add(t, c, key(strconv.Itoa(i)))
		}
		start(t, c)
		synctest.Wait()
		expect(t, "keys remembered", reconcile.Remembered(c), 100)
		pass(5 * time.Minute)
		g.cache.stop()
		expect(t, "keys remembered after a while", reconcile.Remembered(c), 0)
	})
}

// promise S4: a batch is told as a single run is, if it is so for one of its keys.
func TestBatchIsToldThatTheCachesAreBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(t)
		s := newStore(t, b, "thing")
		stopped := &stoppable{Cached: newCache(t, s)}
		var stale []bool
		c := must[*reconcile.Controller[store.Key]](t)(reconcile.NewBatch("test",
			batchOf(func(ctx context.Context, keys []store.Key) []reconcile.Outcome {
				info, _ := reconcile.RunInfo(ctx)
				stale = append(stale, info.Stale)
				out := make([]reconcile.Outcome, len(keys))
				if len(stale) == 1 {
					_, out[0].Err = s.Create(ctx, &thing{Meta: store.Meta{Name: "a"}})
					out[0].Result.Requeue = true
				}
				return out
			}), &reconcile.Options[store.Key]{Reads: []reconcile.Cached{stopped}, CacheWait: time.Minute}))
		stopped.start(t)
		add(t, c, key("a"))
		stopped.stop()
		start(t, c)
		pass(time.Hour)
		expectList(t, "stale", stale, false, true)
	})
}

// A batch is to read the store if a write of any of its keys has an unknown outcome,
// wherever in the batch that key is; when it has succeeded, none of them is left to look for.
//
// promise S4. Negative controls: mutants "the last key of a batch says whether it is stale",
// "one key of a batch has looked for its write of unknown outcome".
func TestBatchLooksForTheWritesOfAllItsKeys(t *testing.T) {
	both := []store.Key{key("a"), key("b")}
	for _, unsure := range [][]store.Key{both[:1], both[1:], both} {
		bubble(t, func(t *testing.T) {
			g := newUnsureRig(t)
			defer g.cache.stop()
			first, last := true, map[store.Key]string{}
			c := must[*reconcile.Controller[store.Key]](t)(reconcile.NewBatch("test",
				batchOf(func(ctx context.Context, keys []store.Key) []reconcile.Outcome {
					info, _ := reconcile.RunInfo(ctx)
					for _, k := range keys {
						last[k] = fmt.Sprintf("in %v, stale %v", keys, info.Stale)
					}
					if first {
						first = false
						g.lost.Store(true)
						_, _ = g.Create(ctx, &thing{Meta: store.Meta{Name: "new"}})
						g.lost.Store(false)
					}
					return make([]reconcile.Outcome, len(keys))
				}), &reconcile.Options[store.Key]{
					Workers: 1, Batch: 2, Reads: []reconcile.Cached{g.own}, Queue: queue.Options[store.Key]{Shards: 1},
				}))
			start(t, c)
			for _, keys := range [][]store.Key{unsure, both} {
				release := c.Queue().Hold(c.Queue().Whole(), queue.Hold{Reason: "until all are there"})
				add(t, c, keys...)
				for i := range 8 { // a batch is a share of what is ready
					add(t, c, key(strconv.Itoa(i)))
				}
				release()
				synctest.Wait()
			}
			want := fmt.Sprintf("in %v, stale true", both)
			expect(t, "last run of a", last[both[0]], want)
			expect(t, "last run of b", last[both[1]], want)
			expect(t, "keys remembered", reconcile.Remembered(c), 0)
		})
	}
}

// Whichever keys of a batch wait for a cache, a run has the others alone, and those that wait
// have theirs when the cache has seen what they wrote. They are added past the controller, as
// if they had been in the queue before their writes were noted, so that a worker gets them.
//
// promise S4. Negative control: mutant "a run of a batch looks at the caches only for its
// first key".
func TestBatchRunsOnlyItsKeysThatNeedNotWaitForACache(t *testing.T) {
	all := []store.Key{key("a"), key("b"), key("c")}
	for subset := range 1 << len(all) {
		bubble(t, func(t *testing.T) {
			s := newStore(t, newBackend(t), "thing")
			stopped := &stoppable{Cached: newCache(t, s)}
			stopped.start(t)
			stopped.stop() // from now on it is behind
			writes, batches := true, 0
			var runs []store.Key
			c := must[*reconcile.Controller[store.Key]](t)(reconcile.NewBatch("test",
				batchOf(func(ctx context.Context, keys []store.Key) []reconcile.Outcome {
					info, _ := reconcile.RunInfo(ctx)
					expect(t, "stale", info.Stale, false)
					out := make([]reconcile.Outcome, len(keys))
					for i, k := range keys {
						if slices.Contains(all, k) {
							runs = append(runs, k)
							if writes {
								_, out[i].Err = s.Create(ctx, &thing{Meta: store.Meta{Name: k.Name}})
							}
						}
					}
					batches++
					return out
				}), &reconcile.Options[store.Key]{
					Workers: 1, Batch: len(all), Reads: []reconcile.Cached{stopped}, CacheWait: time.Hour, Queue: queue.Options[store.Key]{Shards: 1},
				}))
			start(t, c)
			var waiting, others []store.Key
			for i, k := range all {
				if subset&(1<<i) == 0 {
					others = append(others, k)
					continue
				}
				waiting = append(waiting, k)
				add(t, c, k)
				synctest.Wait()
			}
			expectList(t, "runs that write", runs, waiting...)

			writes, batches, runs = false, 0, nil
			release := c.Queue().Hold(c.Queue().Whole(), queue.Hold{Reason: "until all are there"})
			more := make([]store.Key, 20) // a batch is a share of what is ready
			for i := range more {
				more[i] = key(strconv.Itoa(i))
			}
			for _, k := range slices.Concat(all, more) {
				if err := c.Queue().AddWith(k, queue.AddOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			release()
			pass(time.Minute)
			expectList(t, "runs while the cache is behind", runs, others...)
			if batches >= len(more) {
				t.Errorf("%d runs for %d keys: no batches", batches, len(more))
			}
			runs = nil
			stopped.start(t)
			defer stopped.stop()
			slices.SortFunc(runs, func(a, b store.Key) int { return strings.Compare(a.Name, b.Name) })
			expectList(t, "runs when it has caught up", runs, waiting...)
		})
	}
}

type batchOf func(ctx context.Context, keys []store.Key) []reconcile.Outcome

func (b batchOf) ReconcileBatch(ctx context.Context, keys []store.Key) []reconcile.Outcome {
	return b(ctx, keys)
}

// The reads of For come from the store when the cache could not keep up.
func TestObjectComesFromTheStoreWhenTheCacheIsBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(t)
		s := newStore(t, b, "thing")
		ca := newCache(t, s)
		stopped := &stoppable{Cached: ca}
		var sizes []int
		f := func(ctx context.Context, o *thing) (result, error) {
			sizes = append(sizes, o.Spec.Size)
			if len(sizes) > 1 {
				return result{}, nil
			}
			stopped.stop()
			o.Spec.Size = 7
			_, err := s.Update(ctx, o)
			return result{RequeueAfter: time.Second}, err
		}
		c := newController(t, reconcile.AsReconciler(ca, f), &reconcile.Options[store.Key]{
			Reads: []reconcile.Cached{ca}, CacheWait: time.Minute,
		})
		create(t, s, "a")
		stopped.start(t)
		add(t, c, key("a"))
		start(t, c)
		pass(time.Hour)
		expectList(t, "sizes seen", sizes, 0, 7)
	})
}

// makeUnready writes that an object is not ready, as another writer or a run does.
func makeUnready(ctx context.Context, s *things, k store.Key) error {
	o, err := s.Get(ctx, k)
	if err != nil {
		return err
	}
	o.SetProgressing("Repair", "")
	_, err = s.UpdateStatus(ctx, o)
	return err
}

// An object that another writer makes unready runs: what waits for it would wait until the
// next resync. The key's own run may say so and is not run again; nor does another write of
// a status, of an object that was not ready, or one that is said of with other predicates.
func TestObjectThatAnotherWriterMakesUnreadyRuns(t *testing.T) {
	for _, test := range []struct {
		name   string
		own    bool // the run of the object makes it unready, once
		during bool // it is made unready during a run
		late   bool // the run ends before the cache shows that
		when   reconcile.Predicate[spec, status]
		runs   int
	}{
		{name: "by another", runs: 2},
		{name: "by its run", own: true, runs: 1},
		{name: "by its run at its end", own: true, late: true, runs: 1},
		{name: "by another during its run", during: true, runs: 2},
		{name: "of no concern", when: reconcile.GenerationChanged[spec, status], runs: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStore(t, newBackend(t), "thing")
				ca := newCache(t, s)
				runs := 0
				r := record(func(ctx context.Context, k store.Key) (result, error) {
					if runs++; runs > 1 {
						return result{}, nil
					}
					o := must[*thing](t)(s.Get(ctx, k))
					o.SetReady()
					if _, err := s.UpdateStatus(ctx, o); err != nil {
						return result{}, err
					}
					if test.own || test.during {
						time.Sleep(time.Second) // the cache shows that it is ready
						writer := ctx
						if test.during {
							writer = context.Background()
						}
						if err := makeUnready(writer, s, k); err != nil {
							return result{}, err
						}
						if !test.late {
							time.Sleep(time.Second) // and that it is not
						}
					}
					return result{}, nil
				})
				c := newController(t, r, nil)
				if err := c.Watch(reconcile.FromWith(ca, &reconcile.FromOptions[spec, status]{When: test.when})); err != nil {
					t.Fatal(err)
				}
				create(t, s, "a")
				startManaged(t, c)
				pass(time.Minute)
				if !test.own && !test.during {
					for range 2 { // the second write finds it unready
						if err := makeUnready(t.Context(), s, key("a")); err != nil {
							t.Fatal(err)
						}
						mutate(t, s, "a", func(o *thing) { o.Labels = map[string]string{"x": "y"} })
						pass(time.Minute)
					}
				}
				expect(t, "runs", r.count(), test.runs)
			})
		})
	}
}

// Two writers that disagree about whether an object is ready keep no worker busy.
//
// promise Q4
func TestWritersThatDisagreeAboutReadinessDoNotSpin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		ca := newCache(t, s)
		r := record(func(ctx context.Context, k store.Key) (result, error) {
			o := must[*thing](t)(s.Get(ctx, k))
			o.SetReady()
			if _, err := s.UpdateStatus(ctx, o); err != nil {
				return result{}, err
			}
			time.Sleep(time.Millisecond)
			if err := makeUnready(context.Background(), s, k); err != nil { // what another controller does at once
				return result{}, err
			}
			time.Sleep(time.Millisecond)
			return result{}, nil
		})
		c := newController(t, r, nil)
		if err := c.Watch(reconcile.From(ca)); err != nil {
			t.Fatal(err)
		}
		create(t, s, "a")
		startManaged(t, c)
		pass(time.Minute)
		if n := r.count(); n < 30 || n > 62 {
			t.Errorf("%d runs in a minute, want about one a second", n)
		}
	})
}

// rig is a store, its cache, and a controller that watches it.
type rig struct {
	*things
	cache *cache.Cache[spec, status]
	c     *reconcile.Controller[store.Key]
	r     *recorder[store.Key]
}

func newRig(t *testing.T, o *reconcile.Options[store.Key], do func(ctx context.Context, g *rig, k store.Key) (result, error)) *rig {
	t.Helper()
	g := &rig{things: newStore(t, newBackend(t), "thing")}
	g.cache = newCache(t, g.things)
	g.r = record(func(ctx context.Context, k store.Key) (result, error) { return do(ctx, g, k) })
	g.c = newController(t, g.r, o)
	if err := g.c.Watch(reconcile.From(g.cache)); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *rig) start(t *testing.T) *running {
	t.Helper()
	return startManaged(t, g.c)
}

// promise Q4: a key's own writes are never urgent, whatever they change and
// however fast the watch is; it backs off.
//
// Negative control: without leaving the question with the running slot (askRunning)
// the key runs a thousand times a second, and the test fails.
func TestOwnWritesDoNotJumpTheBackoff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, &reconcile.Options[store.Key]{Backoff: exactly(time.Second)},
			func(ctx context.Context, g *rig, k store.Key) (result, error) {
				for range 2 { // two writes: both revisions are its own
					if _, err := g.Mutate(ctx, k, func(o *thing) error { o.Spec.Size++; return nil }); err != nil {
						return result{}, err
					}
				}
				time.Sleep(time.Millisecond) // the watch is faster than the end of the run
				return result{}, errBoom
			})
		create(t, g.things, "a")
		g.start(t)
		pass(20 * time.Second)
		var want []time.Duration
		at := time.Duration(0)
		for n := range 5 { // at 0, 1, 3, 7 and 15 s, and a millisecond more for each run
			want = append(want, at)
			at += time.Second<<n + time.Millisecond
		}
		expectList(t, "runs at", g.r.times(), want...)
	})
}

// promise Q4: what another writer changed ends a backoff: the spec, deletion,
// unpausing, the annotation; a status or a label does not.
func TestOnlyAForeignChangeOfWhatIsWantedEndsABackoff(t *testing.T) {
	for _, test := range []struct {
		name   string
		edit   func(t *testing.T, s *things)
		urgent bool
	}{
		{"spec", func(t *testing.T, s *things) { mutate(t, s, "a", func(o *thing) { o.Spec.Size = 9 }) }, true},
		{"unpaused", func(t *testing.T, s *things) { mutate(t, s, "a", func(o *thing) { o.Paused = false }) }, true},
		{"annotation", func(t *testing.T, s *things) {
			mutate(t, s, "a", func(o *thing) { o.Annotations = map[string]string{store.AnnotationReconcileNow: "1"} })
		}, true},
		{"deletion asked for", func(t *testing.T, s *things) {
			if err := s.Delete(t.Context(), must[*thing](t)(s.Get(t.Context(), key("a")))); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"finalizer", func(t *testing.T, s *things) { mutate(t, s, "a", func(o *thing) { o.AddFinalizer("x") }) }, false},
		{"label", func(t *testing.T, s *things) {
			mutate(t, s, "a", func(o *thing) { o.Labels = map[string]string{"x": "y"} })
		}, false},
		{"status", func(t *testing.T, s *things) {
			o := must[*thing](t)(s.Get(t.Context(), key("a")))
			o.Status.Size = 5
			if _, err := s.UpdateStatus(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				g := newRig(t, &reconcile.Options[store.Key]{Backoff: exactly(time.Hour)},
					func(context.Context, *rig, store.Key) (result, error) { return result{}, errBoom })
				create(t, g.things, "a", func(o *thing) { o.Finalizers, o.Paused = []string{"keep"}, true })
				g.start(t)
				pass(time.Minute)
				expect(t, "runs before", g.r.count(), 1)
				test.edit(t, g.things)
				pass(time.Minute)
				want := 1
				if test.urgent {
					want = 2
				}
				expect(t, "runs", g.r.count(), want)
				if test.urgent {
					expectList(t, "attempts start from 0", g.r.attempts(), 0, 0)
				}
			})
		})
	}
}

// A foreign change that comes while the key is running is urgent too: the run
// that follows is at once, although the present one fails.
func TestForeignChangeDuringAFailingRunIsRunAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, &reconcile.Options[store.Key]{Backoff: exactly(time.Hour)},
			func(ctx context.Context, g *rig, k store.Key) (result, error) {
				time.Sleep(time.Second)
				return result{}, errBoom
			})
		create(t, g.things, "a")
		g.start(t)
		time.Sleep(500 * time.Millisecond)
		mutate(t, g.things, "a", func(o *thing) { o.Spec.Size++ })
		pass(time.Minute)
		expectList(t, "runs at", g.r.times(), 0, time.Second)
	})
}

// A run that wrote something itself does not hide what another writer changed
// meanwhile.
//
// promise Q4
func TestForeignChangeDuringARunThatWroteEndsItsBackoff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, &reconcile.Options[store.Key]{Backoff: exactly(time.Hour)},
			func(ctx context.Context, g *rig, k store.Key) (result, error) {
				o, err := g.things.Get(ctx, k)
				if err != nil {
					return result{}, err
				}
				o.Status.Size++
				if _, err := g.things.UpdateStatus(ctx, o); err != nil {
					return result{}, err
				}
				time.Sleep(time.Second)
				return result{}, errBoom
			})
		create(t, g.things, "a")
		g.start(t)
		time.Sleep(500 * time.Millisecond)
		mutate(t, g.things, "a", func(o *thing) { o.Spec.Size++ })
		pass(time.Minute)
		expectList(t, "runs at", g.r.times(), 0, time.Second)
		pass(90 * time.Minute) // its own writes alone are not urgent
		expect(t, "runs", g.r.count(), 3)
	})
}

// The key's run wrote another object of the kind, at a higher revision than the change
// that the cache shows after the run: the change is not the key's own because of that.
//
// promise Q4. Negative control: mutant "a cached write of another is taken for one's own".
func TestForeignChangeThatTheCacheShowsAfterARunThatWroteEndsItsBackoff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		ca := newCache(t, s)
		cut := &stoppable{Cached: ca}
		begun, release := make(chan struct{}, 9), make(chan struct{})
		var runs []time.Duration
		epoch := time.Now()
		c := newController(t, reconcile.Func[store.Key](func(ctx context.Context, k store.Key) (result, error) {
			if k != key("a") {
				return result{}, nil
			}
			runs = append(runs, time.Since(epoch))
			if len(runs) > 1 {
				return result{}, nil
			}
			begun <- struct{}{}
			<-release
			if _, err := s.Mutate(ctx, key("b"), func(o *thing) error { o.Status.Size++; return nil }); err != nil {
				t.Error(err)
			}
			return result{}, errBoom
		}), &reconcile.Options[store.Key]{Backoff: exactly(time.Hour)})
		if err := c.Watch(reconcile.From(ca)); err != nil {
			t.Fatal(err)
		}
		create(t, s, "a")
		create(t, s, "b")
		cut.start(t)
		start(t, c)
		<-begun
		cut.stop()
		mutate(t, s, "a", func(o *thing) { o.Spec.Size++ })
		close(release)
		pass(time.Minute)
		cut.start(t)
		defer cut.stop()
		pass(time.Minute)
		expectList(t, "runs at", runs, 0, time.Minute)
	})
}

// What a run wrote is noted before its key is settled: between the two another worker
// may get the key, and must find the note.
//
// promise S4
func TestWritesAreNotedBeforeTheKeyIsSettled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		stopped := newCache(t, s) // synced, and then behind for ever
		create(t, s, "a")
		run := start(t, stopped)
		synctest.Wait()
		_ = run.end()
		var c *reconcile.Controller[store.Key]
		noted := -1
		c = newController(t, record(func(ctx context.Context, k store.Key) (result, error) {
			o, err := s.Get(ctx, k)
			if err != nil {
				return result{}, err
			}
			o.Status.Size++
			_, err = s.UpdateStatus(ctx, o)
			return result{}, errors.Join(err, reconcile.Terminal(errBoom))
		}), &reconcile.Options[store.Key]{
			Reads: []reconcile.Cached{stopped},
			Queue: queue.Options[store.Key]{Hooks: &queue.Hooks[store.Key]{
				Parked: func(store.Key, int, error) { noted = reconcile.Remembered(c) }, // called as the key is settled
			}},
		})
		add(t, c, key("a"))
		start(t, c)
		expect(t, "keys whose writes are noted when the key is settled", noted, 1)
	})
}

// case 81
func TestAbsentObjectIsNotReconciled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		called := 0
		c := must[*reconcile.ObjectController[spec, status]](t)(reconcile.For(s, func(context.Context, *thing) (result, error) {
			called++
			return result{}, errBoom
		}, nil))
		expect(t, "name", c.Name(), "thing") // case 97
		start(t, c)
		add(t, c.Controller, key("absent"))
		pass(time.Minute)
		expect(t, "calls", called, 0)
		expect(t, "successes", c.Counts().Success, 1)
	})
}

// For gives each run a copy: edits that are not written are gone.
func TestForGivesACopyAndConverges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		var sizes []int
		c := must[*reconcile.ObjectController[spec, status]](t)(reconcile.For(s, func(ctx context.Context, o *thing) (result, error) {
			sizes = append(sizes, o.Spec.Size)
			o.Spec.Size = 99 // never written: UpdateStatus keeps the stored spec
			o.Status.Size = sizes[len(sizes)-1]
			_, err := s.UpdateStatus(ctx, o)
			return result{}, err
		}, nil))
		start(t, c)
		create(t, s, "a", func(o *thing) { o.Spec.Size = 1 })
		synctest.Wait()
		mutate(t, s, "a", func(o *thing) { o.Spec.Size = 2 })
		pass(time.Hour)
		expectList(t, "sizes", sizes, 1, 2)
		expect(t, "status", must[*thing](t)(s.Get(t.Context(), key("a"))).Status.Size, 2)
	})
}

func TestForNeedsItsParts(t *testing.T) {
	if _, err := reconcile.For[spec, status](nil, nil, nil); err == nil {
		t.Error("For without a store gave no error")
	}
	if _, err := reconcile.For[spec, status](newStore(t, newBackend(t), "thing"), nil, nil); err == nil {
		t.Error("For without a function gave no error")
	}
	c := newController(t, record[store.Key](nil), nil)
	if err := c.Watch(reconcile.From[spec, status](nil)); err == nil {
		t.Error("Watch of no cache gave no error")
	}
}

// What was there at the start comes after what happens.
func TestInitialListRunsBelowLiveChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, &reconcile.Options[store.Key]{Workers: 1, Queue: queue.Options[store.Key]{Shards: 1}},
			func(context.Context, *rig, store.Key) (result, error) {
				time.Sleep(time.Second)
				return result{}, nil
			})
		for _, n := range []string{"a", "b", "c", "d"} {
			create(t, g.things, n)
		}
		g.start(t)
		time.Sleep(500 * time.Millisecond)
		create(t, g.things, "live")
		pass(time.Minute)
		if got := g.r.keys(); got[1] != key("live") || len(got) != 5 {
			t.Errorf("got the order %v, want the live change second", got)
		}
	})
}

// Predicates see the old and the new object, and compose.
func TestPredicatesCompose(t *testing.T) {
	type change = cache.Change[spec, status]
	a := &thing{Meta: store.Meta{UID: "1", Generation: 1, Labels: map[string]string{"x": "1"}}}
	label := &thing{Meta: store.Meta{UID: "1", Generation: 1, Labels: map[string]string{"x": "2"}}}
	note := &thing{Meta: store.Meta{UID: "1", Generation: 1, Labels: a.Labels, Annotations: map[string]string{"n": "1"}}}
	gen := &thing{Meta: store.Meta{UID: "1", Generation: 2, Labels: a.Labels}}
	again := &thing{Meta: store.Meta{UID: "2", Generation: 1, Labels: a.Labels}}
	yes := func(change) bool { return true }
	for _, test := range []struct {
		name string
		p    reconcile.Predicate[spec, status]
		c    change
		want bool
	}{
		{"changed: same", reconcile.Changed[spec, status], change{Old: a, New: a}, false},
		{"changed: label", reconcile.Changed[spec, status], change{Old: a, New: label}, false},
		{"changed: generation", reconcile.Changed[spec, status], change{Old: a, New: gen}, true},
		{"changed: made again", reconcile.Changed[spec, status], change{Old: a, New: again}, true},
		{"changed: new", reconcile.Changed[spec, status], change{New: a}, true},
		{"changed: gone", reconcile.Changed[spec, status], change{Old: a}, true},
		{"labels: label", reconcile.LabelsChanged[spec, status], change{Old: a, New: label}, true},
		{"labels: generation", reconcile.LabelsChanged[spec, status], change{Old: a, New: gen}, false},
		{"annotations: annotation", reconcile.AnnotationsChanged[spec, status], change{Old: a, New: note}, true},
		{"annotations: label", reconcile.AnnotationsChanged[spec, status], change{Old: a, New: label}, false},
		{"generation: label", reconcile.GenerationChanged[spec, status], change{Old: a, New: label}, false},
		{"generation: generation", reconcile.GenerationChanged[spec, status], change{Old: a, New: gen}, true},
		{"or", reconcile.Or(reconcile.LabelsChanged[spec, status], reconcile.GenerationChanged), change{Old: a, New: gen}, true},
		{"any", reconcile.Any[spec, status], change{Old: a, New: a}, true},
		{"empty or", reconcile.Or[spec, status](), change{Old: a, New: a}, false},
		{"own func", reconcile.Or(reconcile.LabelsChanged, yes), change{Old: a, New: gen}, true},
	} {
		expect(t, test.name, test.p(test.c), test.want)
	}
}

// A source's own rule of urgency replaces ours.
func TestSourceHasItsOwnUrgency(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		ca := newCache(t, s)
		r := record(func(context.Context, store.Key) (result, error) { return result{}, errors.New("no") })
		c := newController(t, r, &reconcile.Options[store.Key]{Backoff: exactly(time.Hour)})
		if err := c.Watch(reconcile.FromWith(ca, &reconcile.FromOptions[spec, status]{
			When:   reconcile.LabelsChanged[spec, status],
			Urgent: func(ch cache.Change[spec, status]) bool { return ch.New != nil && ch.New.Labels["x"] == "now" },
		})); err != nil {
			t.Fatal(err)
		}
		create(t, s, "a")
		startManaged(t, c)
		for i, label := range []string{"later", "now"} {
			mutate(t, s, "a", func(o *thing) { o.Labels = map[string]string{"x": label} })
			pass(time.Minute)
			expect(t, "runs after label "+label, r.count(), 1+i)
		}
		mutate(t, s, "a", func(o *thing) { o.Spec.Size++ }) // not asked: When does not pass it
		pass(time.Minute)
		expect(t, "runs after the spec", r.count(), 2)
	})
}

// promise Q4: a key's own write is known for its own also when a cache shows it late,
// however often the controller looks after what is parked.
//
// Negative control: with what was written forgotten after two looks, of one a minute,
// although the cache was still behind, the key ran as soon as it had caught up.
func TestOwnWriteThatIsShownLateDoesNotJumpTheBackoff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		ca := newCache(t, s)
		late := &stoppable{Cached: ca}
		r := record(func(ctx context.Context, k store.Key) (result, error) {
			late.cancel() // the watch breaks off, and the write is not shown
			if _, err := s.Mutate(ctx, k, func(o *thing) error { o.Spec.Size++; return nil }); err != nil {
				return result{}, err
			}
			return result{}, errBoom
		})
		c := newController(t, r, &reconcile.Options[store.Key]{
			CacheWait: time.Minute, Backoff: exactly(time.Hour),
		})
		if err := c.Watch(reconcile.From(ca)); err != nil {
			t.Fatal(err)
		}
		create(t, s, "a")
		late.start(t)
		start(t, c)
		pass(10 * time.Minute)
		late.stop()
		late.start(t)
		defer late.stop()
		pass(30 * time.Minute)
		expect(t, "runs", r.count(), 1)
	})
}

// promise Q4: where two sources show the objects of the controller's own kind, a key's own
// write is known for its own until both have shown it, whichever is late.
//
// Negative control: the mutant "of two sources of its own kind one decides whether a write was
// shown".
func TestOwnWriteThatOneOfTwoSourcesShowsLateDoesNotJumpTheBackoff(t *testing.T) {
	for name, late := range map[string][]int{"the first": {0}, "the second": {1}, "both": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStore(t, newBackend(t), "thing")
				var caches [2]*stoppable
				var sources []reconcile.Source[store.Key]
				for i := range caches {
					ca := must[*cache.Cache[spec, status]](t)(cache.New(s, &cache.Options[spec, status]{Name: strconv.Itoa(i)}))
					caches[i], sources = &stoppable{Cached: ca}, append(sources, reconcile.From(ca))
				}
				r := record(func(ctx context.Context, k store.Key) (result, error) {
					for _, i := range late {
						caches[i].cancel() // its watch breaks off, and the write is not shown
					}
					_, err := s.Mutate(ctx, k, func(o *thing) error { o.Spec.Size++; return nil })
					return result{}, errors.Join(err, errBoom)
				})
				c := newController(t, r, &reconcile.Options[store.Key]{CacheWait: time.Minute, Backoff: exactly(time.Hour)})
				if err := c.Watch(sources...); err != nil {
					t.Fatal(err)
				}
				create(t, s, "a")
				for _, ca := range caches {
					ca.start(t)
					defer ca.stop()
				}
				start(t, c)
				pass(10 * time.Minute)
				for _, i := range late {
					caches[i].stop()
					caches[i].start(t)
					pass(time.Minute)
				}
				pass(30 * time.Minute)
				expect(t, "runs", r.count(), 1)
			})
		})
	}
}

// promise Q4: a source may show what a run wrote only while the key's next run goes on. That
// ends no backoff either.
//
// Negative control: with the question left with the run that goes on, which has not written
// that, a third run followed at once.
func TestOwnWriteThatIsShownDuringTheNextRunDoesNotJumpTheBackoff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		ca := newCache(t, s)
		start(t, ca)
		create(t, s, "a")
		synctest.Wait()
		let := make(chan struct{})
		wrote := false
		r := record(func(ctx context.Context, k store.Key) (result, error) {
			if !wrote {
				wrote = true
				_, err := s.Mutate(ctx, k, func(o *thing) error { o.Spec.Size++; return nil })
				return result{RequeueAfter: time.Second}, err
			}
			close(let)
			time.Sleep(time.Second) // in which the source shows the write
			return result{}, errBoom
		})
		c := newController(t, r, &reconcile.Options[store.Key]{Backoff: exactly(time.Hour)})
		when := func(ch cache.Change[spec, status]) bool {
			<-let // the source is slow, not the cache
			return reconcile.Changed(ch)
		}
		if err := c.Watch(reconcile.FromWith(ca, &reconcile.FromOptions[spec, status]{When: when})); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		pass(10 * time.Minute)
		expect(t, "runs", r.count(), 2)
	})
}

// promise Q4: a run's writes to two kinds are known for its own until both sources
// have shown them, whichever is first.
//
// Negative control: with what was written forgotten when the first source had shown its
// part, the change of the second ended the backoff.
func TestOwnWritesToTwoKindsDoNotJumpTheBackoff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(t)
		r := record[store.Key](nil)
		c := newController(t, r, &reconcile.Options[store.Key]{Backoff: exactly(time.Hour)})
		var kinds []*things
		var show []chan struct{}
		for _, kind := range []string{"one", "two"} {
			s, let := newStore(t, b, kind), make(chan struct{})
			kinds, show = append(kinds, s), append(show, let)
			when := func(ch cache.Change[spec, status]) bool {
				<-let // the source is slow, not the cache
				return reconcile.Changed(ch)
			}
			ca := newCache(t, s)
			start(t, ca)
			create(t, s, "a")
			synctest.Wait()
			if err := c.Watch(reconcile.FromWith(ca, &reconcile.FromOptions[spec, status]{When: when})); err != nil {
				t.Fatal(err)
			}
		}
		r.do = func(ctx context.Context, k store.Key) (result, error) {
			for _, s := range kinds {
				if _, err := s.Mutate(ctx, k, func(o *thing) error { o.Spec.Size++; return nil }); err != nil {
					return result{}, err
				}
			}
			return result{}, errBoom
		}
		start(t, c)
		pass(time.Second)
		for n, let := range show {
			expect(t, "runs", r.count(), 1)
			close(let)
			pass(time.Second)
			expect(t, fmt.Sprintf("runs when source %d has shown the writes", n), r.count(), 1)
		}
		expect(t, "keys remembered", reconcile.Remembered(c), 0)
	})
}

// A cache is cut off for hours, and a key writes all the same, each time it has waited
// for as long as it has to. What is kept of it does not grow with its runs.
//
// Negative control: mutant "a key waits for a cache once for each of its runs".
func TestCutOffCacheDoesNotMakeMemoryGrow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		ca := newCache(t, s)
		cut := &stoppable{Cached: ca}
		r := record(func(ctx context.Context, k store.Key) (result, error) {
			_, err := s.Mutate(ctx, k, func(o *thing) error { o.Status.Size++; return nil })
			return result{RequeueAfter: time.Second}, err
		})
		c := newController(t, r, &reconcile.Options[store.Key]{CacheWait: time.Second})
		if err := c.Watch(reconcile.From(ca)); err != nil {
			t.Fatal(err)
		}
		create(t, s, "a")
		cut.start(t)
		start(t, c)
		cut.stop()
		pass(2 * time.Hour)
		if n := r.count(); n < 1000 {
			t.Fatalf("%d runs, want one a second or so", n)
		}
		if n := ca.Snapshot().Waiters; n > 1 {
			t.Errorf("%d wait for the cache after %d runs of one key, want one", n, r.count())
		}
		cut.start(t)
		defer cut.stop()
		pass(time.Second)
		expect(t, "waiting when the cache is back", ca.Snapshot().Waiters <= 1, true)
	})
}

// An object that was deleted and created again while its cache was cut off is another one,
// also where its generation is the same: it does not wait for the backoff of the first.
//
// promise Q4. Negative control: where neither an end nor a beginning is urgent, the key
// waits for its backoff.
func TestObjectThatWasMadeAgainEndsTheBackoffOfTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		ca := newCache(t, s)
		cut := &stoppable{Cached: ca}
		r := script[store.Key](reconcile.Outcome{Err: errors.New("broken")})
		c := newController(t, r, &reconcile.Options[store.Key]{Backoff: exactly(time.Hour)})
		if err := c.Watch(reconcile.From(ca)); err != nil {
			t.Fatal(err)
		}
		first := create(t, s, "a")
		cut.start(t)
		start(t, c)
		synctest.Wait()
		cut.stop()
		if err := s.Delete(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		create(t, s, "a")
		cut.start(t)
		defer cut.stop()
		pass(time.Minute)
		// The deletion and the creation are one run, or two if a worker is quick.
		if n := r.count(); n != 2 && n != 3 {
			t.Errorf("runs: got %d, want 2 or 3", n)
		}
	})
}

// foreign is a sink of a test's own, as a source that filters the keys of another has it.
type foreign struct{ reconcile.Sink[store.Key] }

// A sink that no controller made does not tell which run wrote a status: a reconciler
// that says on its way that its object is not ready does not wake itself.
//
// promise Q4
func TestOwnStatusDoesNotWakeThroughAnotherSink(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		ca := newCache(t, s)
		r := record(func(ctx context.Context, k store.Key) (result, error) {
			if err := makeUnready(ctx, s, k); err != nil {
				return result{}, err
			}
			time.Sleep(time.Millisecond)
			o := must[*thing](t)(s.Get(ctx, k))
			o.SetReady()
			_, err := s.UpdateStatus(ctx, o)
			return result{}, err
		})
		c := newController(t, r, nil)
		src := reconcile.From(ca)
		inner := src.Run
		src.Run = func(ctx context.Context, to reconcile.Sink[store.Key]) error { return inner(ctx, foreign{to}) }
		if err := c.Watch(src); err != nil {
			t.Fatal(err)
		}
		create(t, s, "a")
		startManaged(t, c)
		pass(time.Minute)
		mutate(t, s, "a", func(o *thing) { o.Spec.Size = 7 }) // which wakes it, and it was ready before
		pass(time.Minute)
		expect(t, "runs", r.count(), 2)
	})
}

// A run that is to read the store, because an earlier write may have landed, and finds no
// object, is done.
//
// promise S4. Negative control: mutant "a run that finds no object in the store fails".
func TestRunThatReadsTheStoreAndFindsNothingIsDone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newUnsureRig(t)
		runs := 0
		var told failures[store.Key]
		c := newController(t, reconcile.AsReconciler(g.own, func(ctx context.Context, o *thing) (result, error) {
			runs++
			o.Spec.Size = 7
			g.lost.Store(true)
			defer g.lost.Store(false)
			_, err := g.Update(ctx, o)
			return result{}, err
		}), &reconcile.Options[store.Key]{
			Reads: []reconcile.Cached{g.own}, Backoff: exactly(time.Minute), Hooks: reconcile.Hooks[store.Key]{OnError: told.hear},
		})
		g.cache.stop()
		add(t, c, key("a"))
		start(t, c)
		synctest.Wait()
		if err := g.Delete(t.Context(), must[*thing](t)(g.Get(t.Context(), key("a")))); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		expect(t, "runs", runs, 1)
		if fs := told.list(); len(fs) != 1 || !errors.Is(fs[0].Err, store.ErrUnknownOutcome) {
			t.Errorf("OnError heard %+v, want the write of unknown outcome alone", fs)
		}
	})
}

// A cache whose source was removed is still read: a key that wrote waits for it.
//
// promise S4. Negative control: mutant "a cache whose source was removed is not waited for".
func TestCacheOfARemovedSourceIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		create(t, s, "a")
		ca := newCache(t, s)
		running := &stoppable{Cached: ca}
		var mu sync.Mutex
		var stale []bool
		runs := func() []bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(stale)
		}
		c := newController(t, record(func(ctx context.Context, k store.Key) (result, error) {
			info, _ := reconcile.RunInfo(ctx)
			mu.Lock()
			stale = append(stale, info.Stale)
			again := len(stale) > 1
			mu.Unlock()
			if again {
				return result{}, nil
			}
			_, err := s.Mutate(ctx, k, func(o *thing) error { o.Spec.Size++; return nil })
			return result{RequeueAfter: time.Second}, err
		}), nil)
		if err := c.Watch(reconcile.From(ca), reconcile.Chan("other", make(chan store.Key))); err != nil {
			t.Fatal(err)
		}
		add(t, c, key("a")) // it runs when the sources have synced
		if err := c.Unwatch(ca.Name()); err != nil {
			t.Fatal(err)
		}
		running.start(t)
		running.stop() // it shows no write from now on
		start(t, c)
		pass(20 * time.Second)
		expectList(t, "runs in 20 seconds, and whether each was stale", runs(), false)
		pass(time.Minute)
		expectList(t, "runs in the end", runs(), false, true)
	})
}

// promise Q4. Negative control: the mutant "only the last run's writes are a key's own".
func TestOwnWritesOfSeveralRunsEndNoBackoff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		ca := newCache(t, s)
		start(t, ca)
		create(t, s, "a")
		synctest.Wait()
		let := make(chan struct{})
		r := record(func(ctx context.Context, k store.Key) (result, error) {
			_, err := s.Mutate(ctx, k, func(o *thing) error { o.Spec.Size++; return nil })
			return result{}, errors.Join(err, errBoom)
		})
		startBehindSlowSource(t, ca, r, time.Second, let)
		pass(10 * time.Second)
		expect(t, "runs before the source shows what they wrote", r.count(), 2)
		close(let)
		pass(10 * time.Minute)
		expect(t, "runs", r.count(), 2)
	})
}

// promise Q4. Negative control: the mutant "a folded backlog is out of order".
func TestOwnWriteInAFoldedBacklogEndsNoBackoff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		ca := must[*cache.Cache[spec, status]](t)(cache.New(s, &cache.Options[spec, status]{Backlog: 2}))
		start(t, ca)
		for _, name := range []string{"a", "b", "z"} {
			create(t, s, name)
		}
		synctest.Wait()
		gate, goOn := make(chan struct{}), make(chan struct{})
		runs := 0
		r := record(func(ctx context.Context, k store.Key) (result, error) {
			if k.Name != "a" {
				return result{}, nil
			}
			if runs++; runs > 1 {
				return result{}, errBoom
			}
			<-goOn
			_, err := s.Mutate(ctx, k, func(o *thing) error { o.Spec.Size++; return nil })
			return result{}, errors.Join(err, errBoom)
		})
		startBehindSlowSource(t, ca, r, 10*time.Second, gate)
		pass(time.Second)
		mutate(t, s, "z", func(o *thing) { o.Spec.Size++ })
		synctest.Wait() // the source is busy with it
		mutate(t, s, "b", func(o *thing) { o.Spec.Size++ })
		close(goOn)
		synctest.Wait()
		mutate(t, s, "b", func(o *thing) { o.Spec.Size++ })
		mutate(t, s, "b", func(o *thing) { o.Spec.Size++ })
		synctest.Wait()
		gate <- struct{}{} // z
		synctest.Wait()
		gate <- struct{}{} // b
		pass(20 * time.Second)
		expect(t, "runs of a by its backoff", runs, 2)
		close(gate)
		pass(10 * time.Minute)
		expect(t, "runs of a", runs, 2)
	})
}

// startBehindSlowSource runs r for the objects of a cache, whose source shows a change for each
// value of let. A key that has failed once waits for the time given, then for an hour.
func startBehindSlowSource(t *testing.T, ca *cache.Cache[spec, status], r reconcile.Reconciler[store.Key], first time.Duration, let <-chan struct{}) {
	t.Helper()
	c := newController(t, r, &reconcile.Options[store.Key]{Queue: queue.Options[store.Key]{Policy: func(attempt int, _ error) time.Duration {
		if attempt == 0 {
			return first
		}
		return time.Hour
	}}})
	when := func(ch cache.Change[spec, status]) bool {
		<-let
		return reconcile.Changed(ch)
	}
	if err := c.Watch(reconcile.FromWith(ca, &reconcile.FromOptions[spec, status]{When: when})); err != nil {
		t.Fatal(err)
	}
	start(t, c)
}
