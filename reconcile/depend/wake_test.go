package depend_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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

// A hundred levels, declared from the top down: each waits for the one below it, and the
// last one that is declared brings them all about, in order.
func TestAHundredLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSystem(t, setting{})
		defer s.start()()
		for n := 99; n > 0; n-- {
			s.declare(fmt.Sprint("level", n), fmt.Sprint("level", n-1))
		}
		settle()
		s.declare("level0")
		settle()
		s.wantReady("level99")
		for n := range 100 {
			s.remove(fmt.Sprint("level", n))
		}
		settle()
		if left := s.cloud.len(); left > 0 {
			t.Errorf("%d are left", left)
		}
		s.wantNothingRefused()
	})
}

// An object that waits for one, and is edited to need another one too, is woken when both are
// there.
//
// promise E2. Negative control: the mutant "what an object goes on waiting for is forgotten".
func TestObjectThatComesToNeedMoreGoesOnWaiting(t *testing.T) {
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		synctest.Test(t, func(t *testing.T) {
			s := newSystem(t, setting{})
			defer s.start()()
			s.declare("m", "a")
			settle()
			s.edit("m", func(o *Thing) { o.Spec.Needs = []string{"a", "b"} })
			settle()
			for _, name := range order {
				if s.get("m").Ready() {
					t.Errorf("it is ready before %s is there", name)
				}
				s.declare(name)
				settle()
			}
			s.wantReady("m", "a", "b")
		})
	}
}

// Ten thousand wait for one: they are handed to the queue at the pace that is stated, in
// the low band, and each runs once. One that ten thousand are needed by runs once too.
func TestTenThousandThatWaitForOneAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		users := campaign.Sized(10_000, 3000)
		s := newSystem(t, setting{})
		var all []string
		for n := range users {
			all = append(all, fmt.Sprint("user", n))
			s.declare(all[n], "one")
		}
		s.declare("every", all...)
		defer s.start()()
		settle()
		began := time.Now()
		s.declare("one")
		const pauses = 50 * time.Millisecond // a write that met a conflict is tried again after a pause
		time.Sleep(pauses)
		synctest.Wait()
		if n := s.cloud.len(); n < 1+1000 || n > 1+1000+int(pauses/time.Millisecond) {
			t.Errorf("%d were there at once, want the one and a thousand, and one more each millisecond", n)
		}
		time.Sleep(4*time.Second - pauses)
		synctest.Wait()
		if n := s.cloud.len(); n < min(users, 4000) || n > 1+1000+4000+100 {
			t.Errorf("%d were there after %v", n, time.Since(began))
		}
		e, _ := s.ctrl.Queue().Lookup(store.Key{Name: all[users-1]})
		if e.State == queue.StateDelayed && e.Priority.Int() >= 0 {
			t.Errorf("one that is spread has the priority %d, want the low band", e.Priority.Int())
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		s.wantReady("every")
		for _, name := range all[:100] {
			if n := s.ran(name); n > 3 { // it, and the echoes of its finalizer and of that of what it is needed by
				t.Errorf("%s ran %d times", name, n)
			}
		}
		if n := s.ran("every"); n > 2 {
			t.Errorf("what needs them all ran %d times", n)
		}
		s.wantNothingRefused()
	})
}

// A reference that flips between ready and not, once a second: what uses it and is well
// does not run for it; what waits for something else as well is not woken; what fails is
// woken once for each time that it becomes ready, and its attempts go on.
func TestFlappingReferenceWakesNoMoreThanItMust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		var s *system
		s = newSystem(t, setting{fail: func(o *Thing) error {
			if o.Name == "failing" {
				e, _ := s.ctrl.Queue().Lookup(o.Key())
				attempts = e.Attempts
				return errors.New("it fails")
			}
			return nil
		}})
		defer s.start()()
		s.declare("flips")
		s.declare("well", "flips")
		s.declare("failing", "flips")
		s.declare("waits", "flips", "missing")
		settle()
		time.Sleep(2 * time.Hour) // the backoff has come to its end, an hour
		synctest.Wait()
		well, failing, waits := s.ran("well"), s.began("failing"), s.began("waits")
		for n := range 120 {
			o := s.get("flips")
			if n%2 == 0 {
				o.SetProgressing("Flips", "")
			} else {
				o.SetReady()
			}
			_, err := s.store.UpdateStatus(t.Context(), o)
			check(t, err)
			settle()
		}
		if n := s.ran("well") - well; n != 0 {
			t.Errorf("what is well ran %d times", n)
		}
		if n := s.began("waits") - waits; n != 0 {
			t.Errorf("what waits was asked %d times", n)
		}
		if n := s.began("failing") - failing; n < 59 || n > 61 {
			t.Errorf("what fails ran %d times for 60 times of becoming ready", n)
		}
		if attempts < 60 {
			t.Errorf("after that it has %d attempts: they started from 0", attempts)
		}
	})
}

// A user is woken, and its run fails before it asks for what it needs: a middleware refuses it,
// say. The next change of what it needs ends its park as any other does.
//
// Seen to fail: the user counted as woken until a run of it had asked, so that it stayed parked.
//
// promise Q4
func TestChangeAfterARunThatAskedForNothingEndsThePark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuses := false
		s := newSystem(t, setting{need: bySize, first: func(key store.Key) error {
			if refuses && key.Name == "user" {
				return reconcile.Terminal(errors.New("refused"))
			}
			return nil
		}})
		defer s.start()()
		s.declare("vpc")
		s.declare("user", "vpc")
		settle()
		s.wantReady("vpc", "user")
		refuses = true
		s.edit("vpc", func(o *Thing) { o.Spec.Size = 1 })
		settle()
		if e, _ := s.ctrl.Queue().Lookup(store.Key{Name: "user"}); e.State != queue.StateParked {
			t.Fatalf("the user is %v, want it parked", e.State)
		}
		refuses = false
		ran := s.ran("user")
		s.edit("vpc", func(o *Thing) { o.Spec.Size = 2 })
		settle()
		if s.ran("user") == ran {
			t.Error("the user is still parked after another value")
		}
	})
}

// Runs that fail before they ask say nothing about the needed objects. An object that has seen
// them as they are stays parked, or in its backoff, when one becomes unready and ready again.
// Another value ends both, each time that there is one, and its attempts start from 0 at most
// once in the time of [depend.Options.Fresh].
//
// promise Q4
func TestReadinessAloneEndsNothingForARunThatFailedBeforeItAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuses := false
		s := newSystem(t, setting{need: bySize, first: func(key store.Key) error {
			switch {
			case refuses && key.Name == "parks":
				return reconcile.Terminal(errors.New("refused"))
			case refuses && key.Name == "backs off":
				return errors.New("refused")
			}
			return nil
		}, fail: func(o *Thing) error {
			if refuses && o.Name == "asks" {
				return errors.New("refused")
			}
			return nil
		}})
		defer s.start()()
		s.declare("vpc")
		s.declare("asks", "vpc") // its runs fail after they have asked
		users := []string{"parks", "backs off"}
		for _, name := range users {
			s.declare(name, "vpc")
		}
		settle()
		s.wantReady("vpc", "parks", "backs off")
		began := func(f func()) (n [2]int) {
			t.Helper()
			for i, name := range users {
				n[i] = -s.began(name)
			}
			f()
			settle()
			for i, name := range users {
				n[i] += s.began(name)
			}
			return n
		}
		attempts := func() int {
			e, _ := s.ctrl.Queue().Lookup(store.Key{Name: "backs off"})
			return e.Attempts
		}
		refuses = true
		for _, name := range append(users, "asks") {
			check(t, s.ctrl.Add(store.Key{Name: name}))
		}
		time.Sleep(5000 * time.Second) // runs after 1, 3, 7, ... 4095 s, and then after an hour more
		synctest.Wait()
		if e, _ := s.ctrl.Queue().Lookup(store.Key{Name: "parks"}); e.State != queue.StateParked {
			t.Fatalf("it is %v, want it parked", e.State)
		}
		if n := attempts(); n < 10 {
			t.Fatalf("it has %d attempts", n)
		}
		for range 3 {
			asked := s.began("asks")
			if n := began(func() {
				s.edit("vpc", func(o *Thing) { o.SetProgressing("Flips", "") })
				settle()
				s.edit("vpc", (*Thing).SetReady)
			}); n != [2]int{} {
				t.Errorf("%v ran %v times because the needed object is ready again", users, n)
			}
			if s.began("asks") == asked {
				t.Error("the readiness did not come back for an object that asks and fails")
			}
		}
		edit := func() { s.edit("vpc", func(o *Thing) { o.Spec.Size++ }) }
		if n := began(edit); n[0] != 1 || n[1] < 1 {
			t.Errorf("%v ran %v times for another value", users, n)
		}
		if n := attempts(); n < 1 || n > 2 { // the next run comes after a second
			t.Errorf("it has %d attempts after another value, want them to start from 0", n)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		before := attempts()
		if n := began(edit); n != [2]int{1, 1} {
			t.Errorf("%v ran %v times for a value that follows soon, want 1 each", users, n)
		}
		if n := attempts(); n != before+1 {
			t.Errorf("it has %d attempts after a value that follows soon, and had %d before: want one more", n, before)
		}
		time.Sleep(time.Minute)
		if n := began(edit); n[0] != 1 || n[1] < 1 {
			t.Errorf("%v ran %v times for a third value", users, n)
		}
		if n := attempts(); n < 1 || n > 2 {
			t.Errorf("it has %d attempts a minute later, want them to start from 0", n)
		}
	})
}

// Objects whose runs fail before they ask are woken by each flip of what they need. They take
// places of the pace once, so that another object that may go on does not wait behind them.
func TestRepeatedWakesTakeNoPlaceOfThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const users = 40
		refuses := false
		s := newSystem(t, setting{options: new(depend.Options).SetBurst(users).SetPerSecond(1), first: func(key store.Key) error {
			if refuses && key.Name[0] == 'u' {
				return reconcile.Terminal(errors.New("refused"))
			}
			return nil
		}})
		defer s.start()()
		s.declare("one", "missing")
		for n := range users {
			s.declare(fmt.Sprint("user", n), "one")
		}
		s.declare("late", "other")
		settle()
		refuses = true
		for range 5 {
			s.edit("one", func(o *Thing) { o.Spec.Size++ }) // not ready in this generation
			settle()
			o := s.get("one")
			o.SetReady()
			must(s.store.UpdateStatus(t.Context(), o))(t)
			settle()
		}
		s.declare("other")
		settle()
		s.wantReady("late")
	})
}

// secrets is a kind of its own, in another backend.
func secrets(t testing.TB) (*store.Store[Spec, Status], *cache.Cache[Spec, Status]) {
	s := must(store.New[Spec, Status](must(memory.New(nil))(t), "secret", nil))(t)
	return s, must(cache.New(s, nil))(t)
}

// A mended secret ends the backoff and the park of what refers to it, within a second, and
// the attempts start from 0. Without that it took the rest of the backoff, up to an hour here.
func TestMendedSecretEndsBackoffAndPark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store2, watched := secrets(t)
		var good bool
		s := newSystem(t, setting{watched: watched, fail: func(o *Thing) error {
			switch {
			case good || o.Spec.Secret == "":
				return nil
			case o.Name == "parks":
				return reconcile.Terminal(errors.New("the password is wrong"))
			}
			return errors.New("the password is wrong")
		}})
		defer s.start()()
		secret := must(store2.Create(t.Context(), &Thing{Meta: store.Meta{Name: "password"}}))(t)
		for _, name := range []string{"backs off", "parks"} {
			_, err := s.store.Create(t.Context(), &Thing{Meta: store.Meta{Name: name}, Spec: Spec{Secret: "password"}})
			check(t, err)
		}
		s.declare("stranger")
		settle()
		time.Sleep(3*time.Hour/4 - time.Second)
		synctest.Wait()
		parked, strangers := s.ran("parks"), s.ran("stranger")
		secret.Spec.Size++
		bad := must(store2.Update(t.Context(), secret))(t)
		settle()
		if s.ran("parks") != parked+1 {
			t.Error("an edit of the secret did not end the park")
		}
		if e, _ := s.ctrl.Queue().Lookup(store.Key{Name: "backs off"}); e.Attempts < 1 || e.Attempts > 2 { // the next run comes after a second
			t.Errorf("after the edit of the secret it has %d attempts, want them to start from 0", e.Attempts)
		}
		good = true
		bad.Spec.Size++
		_, err := store2.Update(t.Context(), bad)
		check(t, err)
		settle()
		s.wantReady("backs off", "parks")
		if s.ran("stranger") != strangers {
			t.Error("what does not refer to the secret ran")
		}
	})
}

// A secret that ten thousand objects share: a live edit of one of them does not wait for
// the others.
func TestLiveEditDoesNotWaitForTheUsersOfASecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		users := campaign.Sized(10_000, 3000)
		store2, watched := secrets(t)
		slow := time.Duration(0)
		s := newSystem(t, setting{watched: watched, fail: func(*Thing) error { time.Sleep(slow); return nil }})
		secret := must(store2.Create(t.Context(), &Thing{Meta: store.Meta{Name: "shared"}}))(t)
		for n := range users {
			_, err := s.store.Create(t.Context(), &Thing{Meta: store.Meta{Name: fmt.Sprint("user", n)}, Spec: Spec{Secret: "shared"}})
			check(t, err)
		}
		defer s.start()()
		settle()
		slow = 50 * time.Millisecond // 8 workers: 160 runs a second, 62 s for all
		secret.Spec.Size++
		_, err := store2.Update(t.Context(), secret)
		check(t, err)
		synctest.Wait()
		spread, live := 0, 0
		for n := range users {
			e, _ := s.ctrl.Queue().Lookup(store.Key{Name: fmt.Sprint("user", n)})
			if e.State == queue.StateDelayed {
				spread++
			}
			if e.Priority.Int() >= 0 {
				live++
			}
		}
		if spread != users-1000 || live > 0 {
			t.Errorf("at once %d of the users are spread and %d are in the live band, want %d and none", spread, live, users-1000)
		}
		settle()
		one := fmt.Sprint("user", users/2)
		ran := s.ran(one)
		s.edit(one, func(o *Thing) { o.Spec.Size = 7 })
		settle()
		if s.ran(one) == ran {
			t.Error("a live edit waits for the users of the secret")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for n := range users {
			if s.ran(fmt.Sprint("user", n)) < 2 {
				t.Fatalf("user%d did not run with the new secret", n)
			}
		}
	})
}

// A value of the needed object is an input: the user waits until it is there, runs again
// when it changes, and not when something else does.
func TestValueIsWaitedForAndItsChangeRunsTheUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(memory.New(nil))(t)
		ids := must(store.New[Spec, Status](b, "address", nil))(t)
		addresses := must(cache.New(ids, nil))(t)
		c := newCloud()
		users := newHalf(t, b, "thing", c)
		runs := 0
		tracker := must(depend.New(users.cache, depend.On(addresses, secretOf, &depend.NeedOptions[Spec, Status]{
			Value: func(o *Thing) string { return o.Status.ID },
		}), nil))(t)
		ctrl := must(reconcile.New("thing", reconcile.AsReconciler(users.cache, tracker.Wrap(func(context.Context, *Thing) (reconcile.Result, error) {
			runs++
			return reconcile.Result{}, nil
		})), &reconcile.Options[reconcile.Request]{Reads: tracker.Caches()}))(t)
		check(t, ctrl.Watch(reconcile.From(users.cache), tracker.Source()))
		sys := &system{t: t, ctrl: ctrl}
		defer sys.start()()
		_, err := users.store.Create(t.Context(), &Thing{Meta: store.Meta{Name: "dns"}, Spec: Spec{Secret: "ip"}})
		check(t, err)
		_, err = ids.Create(t.Context(), &Thing{Meta: store.Meta{Name: "ip"}})
		check(t, err)
		settle()
		set := func(id string, ready bool) {
			o := must(ids.Get(t.Context(), store.Key{Name: "ip"}))(t)
			if o.Status.ID = id; ready {
				o.SetReady()
			}
			_, err := ids.UpdateStatus(t.Context(), o)
			check(t, err)
			settle()
		}
		for n, c := range []struct {
			id    string
			ready bool
			runs  int
		}{{"", true, 0}, {"10.0.0.1", true, 1}, {"10.0.0.2", false, 2}, {"10.0.0.2", true, 2}, {"", false, 2}, {"10.0.0.2", true, 2}} {
			if set(c.id, c.ready); runs != c.runs {
				t.Errorf("step %d: %d runs, want %d", n, runs, c.runs)
			}
		}
	})
}

// Whatever ends a run, what the object needs ends its backoff: an error, a panic, a status that
// could not be written.
//
// promise Q4. Negative control: mutants "an object whose status could not be written hears of
// its needs no more", "an object whose run panicked hears of its needs no more".
func TestHoweverARunEndsWhatItNeedsWakesTheObject(t *testing.T) {
	for _, how := range []string{"error", "panic", "status"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var fails, broken atomic.Bool
				s := newSystem(t, setting{
					backend: &refusing{must(memory.New(nil))(t), func(op store.Op) bool {
						return how == "status" && fails.Load() && op.Key.Name == "user"
					}},
					fail: func(o *Thing) error {
						switch {
						case o.Name != "user" || !fails.Load():
							return nil
						case how == "panic":
							panic("boom")
						}
						return errors.New("boom")
					},
					broken: func(o *Thing) bool { return o.Name == "one" && broken.Load() },
				})
				defer s.start()()
				user := store.Key{Name: "user"}
				change := func(isBroken bool) {
					broken.Store(isBroken)
					s.edit("one", func(o *Thing) { o.Spec.Size++ })
					settle()
				}
				s.declare("one")
				s.declare("user", "one")
				settle()
				s.wantReady("one", "user")
				change(true)
				check(t, s.ctrl.Add(user))
				settle()
				if c, _ := s.get("user").Condition(depend.ConditionDependencies); c.Status != store.False {
					t.Fatalf("it does not wait: %+v", c)
				}
				fails.Store(true)
				change(false)
				time.Sleep(40 * time.Second)
				synctest.Wait()
				if e, ok := s.ctrl.Queue().Lookup(user); !ok || e.Attempts < 5 || time.Until(e.Next) < 10*time.Second {
					t.Fatalf("it does not back off for long: %+v", e)
				}
				fails.Store(false)
				change(true)
				change(false)
				if e, ok := s.ctrl.Queue().Lookup(user); ok {
					t.Errorf("it goes on waiting although what it needs is ready again: %+v", e)
				}
				if c, _ := s.get("user").Condition(depend.ConditionDependencies); c.Status != store.True {
					t.Errorf("it did not run: %+v", c)
				}
			})
		})
	}
}

// refusing refuses some writes.
type refusing struct {
	store.Backend
	refuses func(store.Op) bool
}

func (b *refusing) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	if slices.ContainsFunc(t.Ops, b.refuses) {
		return 0, errors.New("refused")
	}
	return b.Backend.Commit(ctx, t)
}

// reconcile.For makes a cache of its own: the Manager has to run that of the tracker too.
//
// Negative control: the mutant "nothing runs the cache of the objects that need others".
func TestReconcilerWithACacheOfItsOwnRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(memory.New(nil))(t)
		needed, users := newHalf(t, b, "secret", newCloud()), newHalf(t, b, "thing", newCloud())
		tracker := must(depend.New(users.cache, depend.On(needed.cache, secretOf, &depend.NeedOptions[Spec, Status]{
			Ready: func(*Thing) bool { return true },
		}), nil))(t)
		runs := 0
		ctrl := must(reconcile.For(users.store, tracker.Wrap(func(context.Context, *Thing) (reconcile.Result, error) {
			runs++
			return reconcile.Result{}, nil
		}), &reconcile.ForOptions[Spec, Status]{Options: reconcile.Options[reconcile.Request]{Reads: tracker.Caches(), Logger: slog.New(slog.DiscardHandler)}}))(t)
		check(t, ctrl.Watch(tracker.Source()))
		must(users.store.Create(t.Context(), &Thing{Meta: store.Meta{Name: "dns"}, Spec: Spec{Secret: "key"}}))(t)

		manager := reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
		check(t, manager.Register(ctrl))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- manager.Run(ctx) }() // received below
		settle()
		if runs != 0 {
			t.Errorf("%d runs before what it needs was there", runs)
		}
		must(needed.store.Create(t.Context(), &Thing{Meta: store.Meta{Name: "key"}}))(t)
		settle()
		if runs == 0 {
			t.Errorf("no run with all that is needed: %v", ctrl.Ready())
		}
		stop()
		check(t, <-ended)
	})
}

// A tracker whose source nothing runs would let objects wait for ever: the runs say so.
//
// Negative control: without the question in Admit the object waits, and nothing is said.
func TestTrackerWithoutItsSourceFailsTheRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(memory.New(nil))(t)
		needed, users := newHalf(t, b, "secret", newCloud()), newHalf(t, b, "thing", newCloud())
		tracker := must(depend.New(users.cache, depend.On(needed.cache, secretOf, &depend.NeedOptions[Spec, Status]{
			Ready: func(*Thing) bool { return true },
		}), nil))(t)
		var said error
		ctrl := must(reconcile.For(users.store, tracker.Wrap(func(context.Context, *Thing) (reconcile.Result, error) {
			t.Error("a run without what it needs")
			return reconcile.Result{}, nil
		}), &reconcile.ForOptions[Spec, Status]{Options: reconcile.Options[reconcile.Request]{
			Reads: tracker.Caches(), Logger: slog.New(slog.DiscardHandler),
			Hooks: reconcile.Hooks[reconcile.Request]{OnError: func(f reconcile.Failure[reconcile.Request]) { said = f.Err }},
		}}))(t)
		must(users.store.Create(t.Context(), &Thing{Meta: store.Meta{Name: "dns"}, Spec: Spec{Secret: "key"}}))(t)
		manager := reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
		check(t, manager.Register(ctrl))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- manager.Run(ctx) }() // received below
		settle()
		if said == nil || !strings.Contains(said.Error(), "give Tracker.Source to controller") {
			t.Errorf("the failure is %v", said)
		}
		stop()
		check(t, <-ended)
	})
}
