package depend_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

// listener is a sink that takes note of what its source says.
type listener struct {
	synced func()
	add    func(key reconcile.Request) error
}

func (l *listener) Synced()                                             { l.synced() }
func (l *listener) Add(key reconcile.Request, _ queue.AddOptions) error { return l.add(key) }

// runSource runs the tracker's source, and the cache that it reads, until stop, which gives
// what the source ended with.
func (s *system) runSource(l *listener) (stop func() error) {
	ctx, cancel := context.WithCancel(s.t.Context())
	cached, done := make(chan error, 1), make(chan error, 1)
	go func() { cached <- s.cache.Run(ctx) }()             // ends at cancel
	go func() { done <- s.tracker.Source().Run(ctx, l) }() // ends at cancel, or by itself
	return func() error { cancel(); check(s.t, <-cached); return <-done }
}

// When the source says that it is synced it knows of each object what it needs, and whether that
// is there.
//
// promise R4. Negative control: the mutant "the source is synced before its work is done".
func TestSourceThatIsSyncedKnowsWhatObjectsNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const users = 50
		graph := depend.NewGraph()
		s := newSystem(t, setting{options: &depend.Options{Graph: graph}})
		s.declare("one")
		for n := range users {
			s.declare(fmt.Sprint("user", n), "one")
		}
		synced := 0
		stop := s.runSource(&listener{
			add: func(reconcile.Request) error { return nil },
			synced: func() {
				synced++
				for n := range users {
					edges, _ := graph.View(depend.Ref{Kind: "thing", Key: store.Key{Name: fmt.Sprint("user", n)}})
					if len(edges) != 1 || edges[0].Unmet != depend.ReasonNotReady {
						t.Errorf("user%d needs %+v, want one that is not ready", n, edges)
					}
				}
			},
		})
		settle()
		if err := stop(); !errors.Is(err, context.Canceled) || synced != 1 {
			t.Errorf("the source was synced %d times, and ended with %v", synced, err)
		}
	})
}

// A wake that could not be handed to the queue is handed over in the next life of the source.
//
// promise E2. Negative control: the mutant "a wake that the queue refuses is lost".
func TestWakeThatTheQueueRefusesIsMadeByTheNextSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSystem(t, setting{})
		s.declare("one")
		s.declare("user", "one")
		refused, woken := errors.New("the queue is away"), 0
		stop := s.runSource(&listener{synced: func() {}, add: func(reconcile.Request) error { return refused }})
		settle()
		p := must(s.tracker.Permit(t.Context(), s.get("user"), nil))(t)
		if p.Open() {
			t.Fatal("it may go on: this shows nothing")
		}
		one := s.get("one")
		one.SetReady()
		must(s.store.UpdateStatus(t.Context(), one))(t)
		settle()
		if err := stop(); !errors.Is(err, refused) {
			t.Fatalf("the source ended with %v, want what the queue said", err)
		}
		stop = s.runSource(&listener{synced: func() {}, add: func(key reconcile.Request) error {
			if key.Name == "user" {
				woken++
			}
			return nil
		}})
		settle()
		if woken == 0 {
			t.Error("an object whose wake was refused was not woken by the next source")
		}
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// saysReady goes by the condition of whichever generation.
func saysReady(o *Thing) bool {
	c, _ := o.Condition(store.ConditionReady)
	return c.Status == store.True
}

// An object in deletion is not used, also where it goes on to say that it is ready: its user waits,
// until another one has its name.
//
// promise E2. Negative control: the mutant "an object in deletion that says it is ready is used".
func TestObjectInDeletionIsNotUsedThoughItSaysItIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSystem(t, setting{need: &depend.NeedOptions[Spec, Status]{Ready: saysReady}})
		defer s.start()()
		s.declare("vpc")
		settle()
		s.edit("vpc", func(o *Thing) { o.AddFinalizer("others.example/keep") })
		s.remove("vpc")
		settle()
		if o := s.get("vpc"); o == nil || !o.Deleting() || !saysReady(o) {
			t.Fatalf("it is %+v, want that it is ready and in deletion", o)
		}
		s.declare("user", "vpc")
		settle()
		s.wantWaiting("user", depend.ReasonDeleting, "thing vpc is being deleted")
		s.edit("vpc", func(o *Thing) { o.RemoveFinalizer("others.example/keep") })
		settle()
		s.declare("vpc")
		settle()
		s.wantReady("vpc", "user")
		s.wantNothingRefused()
	})
}

// What a newer version of the program stored is read in part: whether it may be used cannot be told, and
// its user waits.
//
// promise S5
func TestObjectOfANewerVersionIsNotUsedThoughItSaysItIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSystem(t, setting{need: &depend.NeedOptions[Spec, Status]{Ready: saysReady}})
		defer s.start()()
		s.declare("vpc")
		settle()
		newer, err := store.New[Spec, Status](s.store.Backend(), s.store.Kind(), &store.Options[Spec, Status]{Version: 2})
		check(t, err)
		_, err = newer.Mutate(t.Context(), store.Key{Name: "vpc"}, func(o *Thing) error { o.Labels = map[string]string{"of": "two"}; return nil })
		check(t, err)
		if o := s.get("vpc"); !o.Newer || !saysReady(o) {
			t.Fatalf("it is %+v, want that it is ready and newer", o)
		}
		s.declare("user", "vpc")
		settle()
		s.wantWaiting("user", "Newer", "thing vpc is of a newer version of the program")
		s.wantNothingRefused()
	})
}

// partial is a store whose lists have pages of one record, and whose watches do not show what is
// named ghost: as those of a cache of some objects only.
type partial struct{ store.FullBackend }

func (p *partial) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	o.Limit = 1
	return p.FullBackend.List(ctx, kind, o)
}

func (p *partial) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		for b, err := range p.FullBackend.Watch(ctx, kind, after) {
			b.Changes = slices.DeleteFunc(slices.Clone(b.Changes), func(c store.Change) bool { return c.Key.Name == "ghost" })
			if !yield(b, err) {
				return
			}
		}
	}
}

// What an object holds that the users' cache does not have is held, on whichever page of the list
// it is, and let go of when the object has gone.
//
// promise E2. Negative controls: the mutants "holds are read from the first page" and "what is
// held is not asked about again".
func TestHoldThatNoCacheShowsKeepsWhatItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(memory.New(nil))(t)
		other, s := newSystem(t, setting{backend: b}), newSystem(t, setting{backend: &partial{b}})
		_, err := other.store.Create(t.Context(), &Thing{
			Meta: store.Meta{Name: "ghost", Annotations: map[string]string{depend.HoldsAnnotation: `["=thing/vpc"]`}}, Spec: Spec{Needs: []string{"vpc"}},
		})
		check(t, err)
		defer s.start()()
		s.declare("another")
		s.declare("first", "another") // which has a hold too, on the first page
		s.declare("vpc")
		s.edit("vpc", func(o *Thing) { o.AddFinalizer(depend.Finalizer("thing")) })
		settle()
		s.remove("vpc")
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.get("vpc") == nil {
			t.Fatal("it was released although an object holds it")
		}
		other.remove("ghost")
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.get("vpc") != nil {
			t.Error("it is kept although the object that held it has gone")
		}
	})
}

// stubborn is a store that does not take some writes.
type stubborn struct {
	store.FullBackend
	refuses func(store.Txn) bool
}

func (b *stubborn) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	if b.refuses(t) {
		return 0, errors.New("the store is away")
	}
	return b.FullBackend.Commit(ctx, t)
}

// A run that cannot keep what it needs from being deleted does not use it.
//
// promise E2. Negative control: the mutant "a run goes on although it could not take its hold".
func TestRunThatCannotTakeItsHoldUsesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		s := newSystem(t, setting{backend: &stubborn{must(memory.New(nil))(t), func(tx store.Txn) bool { return down.Load() && tx.Ops[0].Key.Name == "vpc" }}})
		defer s.start()()
		s.declare("vpc")
		settle()
		down.Store(true)
		s.declare("user", "vpc")
		settle()
		if n := s.ran("user"); n != 0 {
			t.Errorf("it ran %d times on what may be deleted under it", n)
		}
		down.Store(false)
		time.Sleep(time.Hour)
		synctest.Wait()
		s.wantReady("vpc", "user")
	})
}

// A panic while a run takes its hold ends the run: another value of what it needs ends its backoff.
//
// promise Q4. Negative control: mutant "a panic while a hold is taken is a run without an end".
func TestPanicWhileAHoldIsTakenEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		s := newSystem(t, setting{need: bySize, backend: &stubborn{must(memory.New(nil))(t), func(tx store.Txn) bool {
			if broken.Load() && tx.Ops[0].Key.Name == "vpc" {
				panic("the store is broken")
			}
			return false
		}}})
		defer s.start()()
		s.declare("vpc")
		settle()
		broken.Store(true)
		s.declare("user", "vpc")
		time.Sleep(3 * time.Hour / 4)
		synctest.Wait()
		if n := s.ran("user"); n != 0 {
			t.Errorf("it ran %d times without a hold", n)
		}
		broken.Store(false)
		s.edit("vpc", func(o *Thing) { o.Spec.Size = 2 })
		settle()
		s.wantReady("user")
	})
}

// A run that succeeded and has not brought about what the object says now lets go of nothing: the
// object uses what it used before.
//
// promise E2. Negative control: the mutant "a run that changed nothing lets go of what it used".
func TestRunThatKeepsItsHoldsLetsGoOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSystem(t, setting{})
		stop := s.start()
		s.declare("old")
		s.declare("new")
		s.declare("user", "old")
		settle()
		s.wantReady("old", "new", "user")
		stop()
		s.edit("user", func(o *Thing) { o.Spec.Needs = []string{"new"} })
		for _, keeps := range []bool{true, false} {
			o := s.get("user")
			p := must(s.tracker.Permit(t.Context(), o, func(ctx context.Context, edit func(*Thing) error) error {
				c := s.store.Clone(o)
				check(t, edit(c))
				got, err := s.store.Update(ctx, c)
				if err == nil {
					*o = *got
				}
				return err
			}))(t)
			if !p.Open() {
				t.Fatal("it may not go on")
			}
			if keeps {
				p.Keep()
			}
			o.SetReady()
			lets := false
			check(t, p.End(t.Context(), o, reconcile.Result{}, nil, func(context.Context, func(*Thing) error) error {
				lets = true
				return nil
			}))
			if lets == keeps {
				t.Errorf("a run that keeps its holds: %v; it has let go: %v", keeps, lets)
			}
		}
	})
}

// An object that fails, and then has to wait, goes on with its attempts when what it needs is back:
// to wait is no success.
//
// promise Q4. Negative control: the mutant "an object that waits has succeeded".
func TestObjectThatFailedAndWaitedKeepsItsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		s := newSystem(t, setting{
			fail: func(o *Thing) error {
				if o.Name == "user" {
					return errors.New("no")
				}
				return nil
			},
			broken: func(o *Thing) bool { return o.Name == "dep" && away.Load() },
		})
		defer s.start()()
		change := func(is bool) {
			away.Store(is)
			s.edit("dep", func(o *Thing) { o.Spec.Size++ })
		}
		s.declare("dep")
		settle()
		s.declare("user", "dep")
		time.Sleep(5 * time.Second) // it fails at once, after a second, and after two more
		synctest.Wait()
		if n := s.ran("user"); n != 3 {
			t.Fatalf("it ran %d times, want 3", n)
		}
		change(true)
		time.Sleep(5 * time.Second) // at its next attempt it has to wait
		synctest.Wait()
		s.wantWaiting("user", depend.ReasonNotReady, "thing dep is not ready")
		change(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := s.ran("user"); n != 4 {
			t.Errorf("it ran %d times within 5 s of what it needs being back, want once: its fourth failure is followed by 8 s", n-3)
		}
	})
}

// A run that lost a race is made again, and is no failure.
//
// Negative control: the mutant "a run that lost a race has failed".
func TestRunThatLostARaceIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSystem(t, setting{})
		f := s.tracker.Wrap(func(context.Context, *Thing) (reconcile.Result, error) {
			return reconcile.Result{}, fmt.Errorf("write: %w", store.ErrConflict)
		})
		if res, err := f(t.Context(), &Thing{Meta: store.Meta{Name: "x"}}); err != nil || !res.Requeue {
			t.Errorf("%+v, %v; want that it is made again", res, err)
		}
		f = depend.WaitForUsers(s.store, func(context.Context, *Thing) (reconcile.Result, error) {
			return reconcile.Result{}, fmt.Errorf("write: %w", store.ErrConflict)
		})
		if res, err := f(t.Context(), &Thing{Meta: store.Meta{Name: "x", Deleted: time.Now()}}); err != nil || !res.Requeue {
			t.Errorf("a deletion: %+v, %v; want that it is made again", res, err)
		}
	})
}

// Admit returns the error of its own writes apart, and does not call what may go on.
func TestAdmitReturnsTheErrorOfItsWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSystem(t, setting{})
		defer s.start()()
		s.declare("vpc")
		settle()
		boom := errors.New("the store is away")
		write := func(context.Context, func(*Thing) error) error { return boom }
		_, err, own := s.tracker.Admit(t.Context(), &Thing{Meta: store.Meta{Name: "user"}, Spec: Spec{Needs: []string{"vpc"}}}, write, write, func() (reconcile.Result, bool, error) {
			t.Error("it goes on without its hold")
			return reconcile.Result{}, false, nil
		})
		if err != nil || !errors.Is(own, boom) {
			t.Errorf("the errors are %v and %v, want none of the use, and that of the write", err, own)
		}
	})
}

// What went while the source did not run is not shown as a user any more.
//
// Negative control: mutant "what went while the source did not run uses things for ever".
func TestUserThatWentWhileTheSourceDidNotRunUsesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		graph := depend.NewGraph()
		s := newSystem(t, setting{options: &depend.Options{Graph: graph}})
		s.declare("one")
		s.declare("stays", "one")
		s.declare("goes", "one")
		cacheCtx, stopCache := context.WithCancel(t.Context())
		cached := make(chan error, 1)
		go func() { cached <- s.cache.Run(cacheCtx) }() // ends at stopCache
		users := func() (names []string) {
			edges, _ := graph.View(depend.Ref{Kind: "thing", Key: store.Key{Name: "one"}})
			for _, e := range edges {
				names = append(names, e.From.Key.Name)
			}
			return names
		}
		for _, want := range [][]string{{"goes", "stays"}, {"stays"}} {
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { // ends at stop
				done <- s.tracker.Source().Run(ctx, &listener{synced: func() {}, add: func(reconcile.Request) error { return nil }})
			}()
			settle()
			if got := users(); !slices.Equal(got, want) {
				t.Errorf("its users are %v, want %v", got, want)
			}
			stop()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			s.remove("goes")
			settle()
		}
		stopCache()
		check(t, <-cached)
	})
}

// A needed object and a secret that went while the source did not run are missed when it runs
// again: a source is ended and started when its server gains shards.
//
// promise Q4. Negative control: mutant "what was needed and went while the source did not run is there for ever".
func TestNeededObjectThatWentWhileTheSourceDidNotRunIsMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vault, watched := secrets(t)
		graph := depend.NewGraph()
		s := newSystem(t, setting{watched: watched, options: &depend.Options{Graph: graph}})
		var all sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for _, c := range []reconcile.Cached{s.cache, watched} {
			all.Go(func() { check(t, c.Run(ctx)) }) // ends at stop
		}
		secret := must(vault.Create(t.Context(), &Thing{Meta: store.Meta{Name: "password"}}))(t)
		s.declare("one")
		s.edit("one", func(o *Thing) { o.SetReady() })
		user := must(s.store.Create(t.Context(), &Thing{Meta: store.Meta{Name: "user"}, Spec: Spec{Needs: []string{"one"}, Secret: "password"}}))(t)
		var woken []string
		live := func() (end func()) {
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { // ends at stop
				done <- s.tracker.Source().Run(ctx, &listener{synced: func() {}, add: func(key reconcile.Request) error {
					woken = append(woken, key.Name)
					return nil
				}})
			}()
			settle()
			return func() {
				stop()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		}
		end := live()
		failing := s.tracker.Wrap(func(context.Context, *Thing) (reconcile.Result, error) {
			return reconcile.Result{}, errors.New("the password is wrong")
		})
		if _, err := failing(t.Context(), user); err == nil {
			t.Fatal("the run did not fail")
		}
		settle()
		end()
		check(t, vault.Delete(t.Context(), secret))
		settle()
		woken = nil
		live()()
		if !slices.Equal(woken, []string{"user"}) {
			t.Errorf("%v are woken, want the object whose secret went", woken)
		}
		must(s.store.Mutate(t.Context(), store.Key{Name: "one"}, func(o *Thing) error {
			o.RemoveFinalizer(depend.Finalizer("thing")) // by hand
			return nil
		}))(t)
		s.remove("one")
		settle()
		live()()
		if needs, _ := graph.View(depend.Ref{Kind: "thing", Key: user.Key()}); len(needs) != 2 || needs[0].Unmet != depend.ReasonNotFound {
			t.Errorf("it needs %+v, want the first not found", needs)
		}
		stop()
		all.Wait()
	})
}

// What a run has read is newer than what a late cache shows: the object is woken when what the
// run found missing is there, and not only when the cache has caught up.
//
// promise Q1. Negative control: mutant "a late cache decides what an object waits for".
func TestObjectIsWokenForWhatItsRunReadThoughItsCacheIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		things := must(store.New[Spec, Status](must(memory.New(nil))(t), "thing", nil))(t)
		users := must(cache.New(things, nil))(t)
		all := must(cache.New(things, &cache.Options[Spec, Status]{Name: "all"}))(t)
		tracker := must(depend.New(users, depend.On(all, needed, nil), nil))(t)
		declare := func(name string, needs ...string) *Thing {
			return must(things.Create(t.Context(), &Thing{Meta: store.Meta{Name: name}, Spec: Spec{Needs: needs}}))(t)
		}
		user := declare("user", "before")
		usersCtx, stopUsers := context.WithCancel(t.Context())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 3)
		go func() { ended <- users.Run(usersCtx) }() // ends at stopUsers
		synctest.Wait()
		stopUsers() // it is late from now on
		check(t, <-ended)
		woken := 0
		go func() { ended <- all.Run(ctx) }() // ends at stop
		go func() {                           // ends at stop
			err := tracker.Source().Run(ctx, &listener{synced: func() {}, add: func(key reconcile.Request) error {
				if key.Name == "user" {
					woken++
				}
				return nil
			}})
			if errors.Is(err, context.Canceled) {
				err = nil
			}
			ended <- err
		}()
		settle()
		user.Spec.Needs = []string{"after"}
		user = must(things.Update(t.Context(), user))(t)
		if p := must(tracker.Permit(t.Context(), user, nil))(t); p.Open() {
			t.Fatal("it may go on: this shows nothing")
		}
		settle()
		woken = 0
		after := declare("after")
		after.SetReady()
		must(things.UpdateStatus(t.Context(), after))(t)
		settle()
		if woken != 1 {
			t.Errorf("it was woken %d times when what its run found missing was ready, want once", woken)
		}
		stop()
		check(t, <-ended)
		check(t, <-ended)
	})
}

// What an object needs becomes ready between the look of its run and the moment at which the run
// is told to wait: the source knew before there was an object to wake.
//
// promise Q1. Negative control: mutant "what became ready before a run was told to wait wakes no object".
func TestReadyBeforeTheRunIsToldToWaitWakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var between func()
		s := newSystem(t, setting{need: &depend.NeedOptions[Spec, Status]{Ready: func(n *Thing) bool {
			ready := n.Ready()
			if f := between; f != nil {
				between = nil
				f()
			}
			return ready
		}}})
		s.declare("one")
		s.declare("user", "one")
		woken := 0
		stop := s.runSource(&listener{synced: func() {}, add: func(key reconcile.Request) error {
			if key.Name == "user" {
				woken++
			}
			return nil
		}})
		settle()
		between = func() {
			one := s.get("one")
			one.SetReady()
			must(s.store.UpdateStatus(t.Context(), one))(t)
			synctest.Wait() // the source has looked
			woken = 0
		}
		if p := must(s.tracker.Permit(t.Context(), s.get("user"), nil))(t); p.Open() {
			t.Fatal("it may go on: this shows nothing")
		}
		settle()
		if woken == 0 {
			t.Error("it waits for what is ready")
		}
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A run has read its object before an edit, or before it went, of which the source has heard
// when the run asks: what the object needs now is what wakes it, and one that has gone uses
// nothing.
//
// promise Q1. Negative control: the mutant "what an older object needs replaces what it needs now".
func TestRunWithAnOlderObjectLeavesWhatItNeedsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		graph := depend.NewGraph()
		s := newSystem(t, setting{options: &depend.Options{Graph: graph}})
		s.declare("old")
		s.edit("old", func(o *Thing) { o.SetReady() })
		s.declare("new")
		s.declare("edited", "old")
		s.declare("gone", "old")
		woken := 0
		stop := s.runSource(&listener{synced: func() {}, add: func(key reconcile.Request) error {
			if key.Name == "edited" {
				woken++
			}
			return nil
		}})
		settle()
		edited, gone := s.get("edited"), s.get("gone")
		s.edit("edited", func(o *Thing) { o.Spec.Needs = []string{"new"} })
		s.remove("gone")
		settle()
		for _, o := range []*Thing{edited, gone} {
			p := must(s.tracker.Permit(t.Context(), o, func(context.Context, func(*Thing) error) error { return nil }))(t)
			if !p.Open() {
				t.Fatal("it may not go on: this shows nothing")
			}
			check(t, p.End(t.Context(), o, reconcile.Result{}, nil, nil))
		}
		settle()
		if users, _ := graph.View(depend.Ref{Kind: "thing", Key: store.Key{Name: "old"}}); len(users) > 0 {
			t.Errorf("nothing needs it, and %v use it", users)
		}
		woken = 0
		s.edit("new", func(o *Thing) { o.SetReady() })
		settle()
		if woken != 1 {
			t.Errorf("woken %d times when what it needs now is ready, want once", woken)
		}
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// The failure of a source is told through Watched.
//
// Negative control: mutant "the failure of a watched source is not told".
func TestFailureOfAWatchedSourceIsTold(t *testing.T) {
	boom, told := errors.New("boom"), error(nil)
	source := depend.Watched(reconcile.Source[reconcile.Request]{Name: "watched", Run: func(_ context.Context, to reconcile.Sink[reconcile.Request]) error {
		to.(reconcile.Reporter).Failed(boom)
		return nil
	}})
	l := &listener{synced: func() {}, add: func(reconcile.Request) error { return nil }}
	check(t, source.Run(t.Context(), &reporter{l, &told}))
	if !errors.Is(told, boom) {
		t.Errorf("it was told %v, want what the source said", told)
	}
	check(t, source.Run(t.Context(), l)) // which hears of no failures
}

type reporter struct {
	*listener
	told *error
}

func (r *reporter) Failed(err error) { *r.told = err }

// optionsOf is a sink that takes note of how keys are added.
type optionsOf struct {
	listener
	added []queue.AddOptions
}

func (o *optionsOf) Add(_ reconcile.Request, how queue.AddOptions) error {
	o.added = append(o.added, how)
	return nil
}

// What a watched source adds ends backoffs: a thousand keys at once, further ones a millisecond apart, all but a
// hundred of a second in the low band. What it lists at its start does not.
func TestWatchedKeysAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &optionsOf{listener: listener{synced: func() {}}}
		source := depend.Watched(reconcile.Source[reconcile.Request]{Name: "watched", Run: func(_ context.Context, to reconcile.Sink[reconcile.Request]) error {
			check(t, to.Add(reconcile.Request{Name: "old"}, queue.AddOptions{Priority: queue.At(-100)}))
			for range 2 {
				for range 1010 {
					check(t, to.Add(reconcile.Request{Name: "new"}, queue.AddOptions{Priority: queue.At(0)}))
				}
				time.Sleep(time.Hour)
			}
			return to.Add(reconcile.Request{Name: "urgent"}, queue.AddOptions{Priority: queue.At(0), Urgent: true, After: time.Second})
		}})
		check(t, source.Run(t.Context(), o))
		if got, want := o.added[0], (queue.AddOptions{Priority: queue.At(-100)}); got != want {
			t.Errorf("of its list: %+v, want %+v", got, want)
		}
		for i, got := range o.added[1 : len(o.added)-1] {
			i %= 1010
			want := queue.AddOptions{Priority: queue.At(0), Urgent: true, KeepAttempts: true, After: time.Duration(max(0, i-999)) * time.Millisecond}
			if i >= 100 {
				want.Priority = queue.At(-100)
			}
			if got != want {
				t.Fatalf("key %d: %+v, want %+v", i, got, want)
			}
		}
		if got, want := o.added[len(o.added)-1], (queue.AddOptions{Priority: queue.At(0), Urgent: true, After: time.Second}); got != want {
			t.Errorf("one that is urgent: %+v, want %+v", got, want)
		}
	})
}

// A function of the user that panics at one object is that object's failure: the others start,
// and are woken.
//
// promise R3. Negative control: mutant "a panic at one object ends the source of all".
func TestPanicAtOneObjectKeepsNoOtherFromRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newSystem(t, setting{
			options: &depend.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))},
			keys: func(o *Thing) []store.Key {
				if o.Name == "bad" {
					panic("no reference")
				}
				return needed(o)
			},
			need: &depend.NeedOptions[Spec, Status]{Ready: func(o *Thing) bool {
				if o.Name == "worse" {
					panic("no status")
				}
				return o.Ready()
			}},
		})
		s.declare("bad")
		s.declare("worse")
		s.declare("waits for worse", "worse")
		s.declare("user", "one")
		defer s.start()()
		time.Sleep(time.Minute)
		synctest.Wait()
		s.wantReady("worse")
		s.wantWaiting("user", depend.ReasonNotFound, "thing one does not exist")
		s.declare("one")
		settle()
		s.wantReady("one", "user")
		for _, name := range []string{"bad", "waits for worse"} {
			if e, _ := s.ctrl.Queue().Lookup(store.Key{Name: name}); e.Attempts == 0 || s.ran(name) > 0 {
				t.Errorf("%s has %d attempts and ran %d times, want failures without a run", name, e.Attempts, s.ran(name))
			}
		}
		for _, want := range []string{`object="thing bad"`, "no reference", `object="thing worse"`, "no status"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log has no %s:\n%s", want, &log)
			}
		}
	})
}
