package program_test

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
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

type (
	spec   struct{ Size int }
	status struct{ Size int }
	site   = store.Object[spec, status]
	sites  = store.Store[spec, status]
	run    = func(ctx context.Context, o *site) (reconcile.Result, error)
)

// service is one server of a program over a backend.
type service struct {
	sites   *sites
	cache   *cache.Cache[spec, status]
	part    *program.Kind[spec, status]
	manager reconcile.Manager

	controller *reconcile.Controller[reconcile.Request]
}

// quiet is the logger of what is not looked at.
var quiet = slog.New(slog.DiscardHandler)

// newService makes a server that reconciles with f, tracked or not, and at most one kind's
// options.
func newService(t *testing.T, b store.Backend, track bool, placement lease.Placement, f run, kind ...*program.KindOptions[spec, status]) *service {
	t.Helper()
	s := &service{manager: reconcile.Manager{Logger: quiet}}
	s.sites = must(store.New[spec, status](b, "site", nil))
	s.cache = must(cache.New(s.sites, nil))
	s.part = must(program.Of(s.cache, append(kind, nil)[0]))
	o := &reconcile.Options[reconcile.Request]{Placement: placement}
	if track {
		o = must(s.part.Track(o))
	}
	c := must(reconcile.New("sites", reconcile.AsReconciler(s.cache, f), o))
	check(t, c.Watch(reconcile.From(s.cache)))
	check(t, s.manager.Register(c))
	s.controller = c
	return s
}

func (s *service) create(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		must(s.sites.Create(t.Context(), &site{Meta: store.Meta{Name: name}, Spec: spec{Size: 1}}))
	}
}

// resize makes an object as declared and says so.
func (s *service) resize(ctx context.Context, o *site) (reconcile.Result, error) {
	o.Status.Size = o.Spec.Size
	o.SetReady()
	_, err := s.sites.UpdateStatus(ctx, o)
	return reconcile.Result{}, err
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// once are the options of a program that ends.
func (s *service) once() *program.Options {
	return &program.Options{Parts: []program.Part{s.part}, Once: true, Timeout: time.Minute, Logger: quiet}
}

func TestOnceEndsWhenEverythingIsAsDeclared(t *testing.T) {
	for _, track := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var s *service
			s = newService(t, must(memory.New(nil)), track, nil, func(ctx context.Context, o *site) (reconcile.Result, error) {
				if o.Name == "slow" && o.Status.Size == 0 { // ready a minute less a second after the others
					o.Status.Size = 1
					_, err := s.sites.UpdateStatus(ctx, o)
					return reconcile.Result{RequeueAfter: 59 * time.Second}, err
				}
				return s.resize(ctx, o)
			})
			s.create(t, "a", "b", "slow")
			// An object that has no Ready condition is done after a run where runs count.
			check(t, mutateReady(t, s, "slow"))
			began := time.Now()
			complete := 0
			o := s.once()
			o.Complete = func(context.Context) error {
				complete++
				if p := s.part.Progress(); !p.Complete() || p.Declared != 3 || p.Done != 3 {
					t.Errorf("complete with %+v", p)
				}
				return nil
			}
			if err := program.Run(t.Context(), &s.manager, o); err != nil || complete != 1 {
				t.Errorf("Run = %v, complete %d times; want nil, once", err, complete)
			}
			if took := time.Since(began); took < 59*time.Second {
				t.Errorf("track %v: ended after %v, before slow was ready", track, took)
			}
		})
	}
}

// mutateReady gives an object a Ready condition that is False.
func mutateReady(t *testing.T, s *service, name string) error {
	o := must(s.sites.Get(t.Context(), store.Key{Name: name}))
	o.SetProgressing("Waiting", "for a minute")
	_, err := s.sites.UpdateStatus(t.Context(), o)
	return err
}

func TestNothingDeclaredIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, must(memory.New(nil)), true, nil, func(context.Context, *site) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		})
		if s.part.Progress().Complete() {
			t.Error("complete before the cache has synced")
		}
		check(t, program.Run(t.Context(), &s.manager, s.once()))
	})
}

// A stored "ready" says nothing about the world after a restart: with Track a run has to
// confirm it.
//
// Negative control: with a done that does not look at the runs, this fails.
func TestAStoredReadyIsNotEnoughWhereRunsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(memory.New(nil))
		first := &service{sites: must(store.New[spec, status](b, "site", nil))}
		first.create(t, "a")
		o := must(first.sites.Get(t.Context(), store.Key{Name: "a"}))
		_, err := first.resize(t.Context(), o)
		check(t, err)
		broken := errors.New("the world is gone")
		for _, track := range []bool{true, false} {
			s := newService(t, b, track, nil, func(context.Context, *site) (reconcile.Result, error) {
				return reconcile.Result{}, broken
			})
			err := program.Run(t.Context(), &s.manager, s.once())
			var left *program.LeftError
			if !track {
				if err != nil {
					t.Errorf("untracked: %v, want what is stored to count", err)
				}
				continue
			}
			if !errors.As(err, &left) || !errors.Is(err, program.ErrTimeout) || len(left.Left) != 1 ||
				left.Left[0].Why != broken.Error() || !left.Left[0].Failing || left.Left[0].Stuck {
				t.Errorf("tracked: %v, want a timeout and the run's error", err)
			}
		}
	})
}

// Everything that is left is named with its reason, and when none of it gets better by
// waiting the program does not wait.
func TestWhatIsLeftIsNamedWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *service
		s = newService(t, must(memory.New(nil)), true, nil, func(ctx context.Context, o *site) (reconcile.Result, error) {
			switch o.Name {
			case "bad":
				return reconcile.Result{}, reconcile.Terminal(errors.New("it is declared for the moon"))
			case "paused":
				return reconcile.Result{}, nil
			}
			return s.resize(ctx, o)
		})
		s.create(t, "good", "bad", "paused")
		_, err := s.sites.Mutate(t.Context(), store.Key{Name: "paused"}, func(o *site) error { o.Paused = true; return nil })
		check(t, err)
		check(t, mutateReady(t, s, "paused"))
		var out bytes.Buffer
		o := s.once()
		o.Out = program.NewPrinter(&out)
		began := time.Now()
		err = program.Run(t.Context(), &s.manager, o)
		if !errors.Is(err, program.ErrStuck) || time.Since(began) > time.Second {
			t.Fatalf("Run = %v after %v, want ErrStuck at once", err, time.Since(began))
		}
		want := "  site bad: it is declared for the moon\n  site paused: paused"
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error is\n%v\nwant\n%s", err, want)
		}
		if got := out.String(); strings.Count(got, "x site bad: it is declared for the moon") != 1 {
			t.Errorf("printed\n%s\nwant the failure once", got)
		}
	})
}

func TestReasonsComeFromConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, must(memory.New(nil)), false, nil, func(context.Context, *site) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		})
		s.create(t, "bare", "conditions", "ready")
		o := must(s.sites.Get(t.Context(), store.Key{Name: "conditions"}))
		o.SetProgressing("Creating", "")
		o.SetCondition(store.Condition{Type: store.ConditionSynced, Status: store.False, Reason: "CreateFailed", Message: "no quota"})
		must(s.sites.UpdateStatus(t.Context(), o))
		check(t, mutateReady(t, s, "ready"))
		o = must(s.sites.Create(t.Context(), &site{Meta: store.Meta{Name: "going", Finalizers: []string{"ours"}}}))
		check(t, s.sites.Delete(t.Context(), o))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var manager sync.WaitGroup
		manager.Go(func() { check(t, s.manager.Run(ctx)) })
		synctest.Wait()
		want := []program.Left{
			{Kind: "site", Key: store.Key{Name: "bare"}, Why: "not ready"},
			{Kind: "site", Key: store.Key{Name: "conditions"}, Why: "CreateFailed: no quota", Failing: true},
			{Kind: "site", Key: store.Key{Name: "going"}, Why: "it has the finalizers ours", Deleting: true},
			{Kind: "site", Key: store.Key{Name: "ready"}, Why: "Waiting: for a minute"},
		}
		if got := s.part.Left(); !slices.Equal(got, want) {
			t.Errorf("left\n%s\nwant\n%s", program.ListLeft(got), program.ListLeft(want))
		}
		if got, want := s.part.Progress().String(), "0 of 3 as declared, 1 failing, 1 being deleted"; got != want {
			t.Errorf("progress %q, want %q", got, want)
		}
		cancel()
		manager.Wait()
	})
}

// What a person has to look at counts when a run of this process, of the object's present
// spec, has found it: -once does not end for what an earlier process or an earlier spec left.
//
// Seen to fail in each of the three forms: Run ended with ErrStuck before the run that mends
// the object.
//
// Negative controls: mutants "what an earlier process stored is stuck", "a terminal error of
// an earlier spec is stuck" and "conditions of an earlier spec are stuck".
func TestOnceDoesNotEndForWhatWasStuckBefore(t *testing.T) {
	taken := func(o *site) (string, bool) {
		c, _ := o.Condition(store.ConditionSynced)
		return c.Message, c.Status == store.False && c.Reason == "Taken"
	}
	key := store.Key{Name: "a"}
	// refused stores that the object is stuck.
	refused := func(ctx context.Context, s *service, o *site) error {
		o.SetCondition(store.Condition{Type: store.ConditionSynced, Status: store.False, Reason: "Taken", Message: "by another"})
		_, err := s.sites.UpdateStatus(ctx, o)
		return err
	}
	grow := func(t *testing.T, s *service) {
		_, err := s.sites.Mutate(t.Context(), key, func(o *site) error { o.Spec.Size = 2; return nil })
		check(t, err)
	}
	for name, c := range map[string]struct {
		track  bool
		before func(t *testing.T, s *service) // another process, before the program begins
		size1  run                            // a run of the first spec; nil: it is slow, as those of the second are
	}{
		"by what an earlier process stored": {true, func(t *testing.T, s *service) {
			check(t, refused(t.Context(), s, must(s.sites.Get(t.Context(), key))))
		}, nil},
		"by conditions of an earlier spec": {false, func(t *testing.T, s *service) {
			check(t, refused(t.Context(), s, must(s.sites.Get(t.Context(), key))))
			grow(t, s)
		}, nil},
		"by a terminal error of an earlier spec": {true, func(*testing.T, *service) {}, func(context.Context, *site) (reconcile.Result, error) {
			return reconcile.Result{}, reconcile.Terminal(errors.New("too small"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s *service
				s = newService(t, must(memory.New(nil)), c.track, nil, func(ctx context.Context, o *site) (reconcile.Result, error) {
					if o.Spec.Size == 1 && c.size1 != nil {
						grow(t, s)
						return c.size1(ctx, o)
					}
					select { // longer than a program that ends waits for
					case <-time.After(5 * time.Minute):
					case <-ctx.Done():
						return reconcile.Result{}, ctx.Err()
					}
					o.SetCondition(store.Condition{Type: store.ConditionSynced, Status: store.True})
					return s.resize(ctx, o)
				}, &program.KindOptions[spec, status]{Stuck: taken})
				s.create(t, key.Name)
				c.before(t, s)
				o := s.once()
				o.Timeout = time.Hour
				if err := program.Run(t.Context(), &s.manager, o); err != nil {
					t.Errorf("Run = %v, want nil after the run that mends it", err)
				}
			})
		})
	}
}

// The run that is under way when a spec changes was of the spec before.
//
// Negative control: with a note that keeps the generation at the run's end, this fails.
func TestARunOfAnOlderGenerationDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, goOn := make(chan struct{}, 10), make(chan struct{})
		s := newService(t, must(memory.New(nil)), true, nil, func(context.Context, *site) (reconcile.Result, error) {
			began <- struct{}{}
			<-goOn
			return reconcile.Result{}, nil // without a condition: the runs alone count
		})
		s.create(t, "a")
		ended := make(chan error, 1)
		go func() { ended <- program.Run(t.Context(), &s.manager, s.once()) }()
		<-began
		_, err := s.sites.Mutate(t.Context(), store.Key{Name: "a"}, func(o *site) error { o.Spec.Size = 2; return nil })
		check(t, err)
		synctest.Wait()
		goOn <- struct{}{} // the run of generation 1 ends
		<-began            // the run of generation 2
		if p := s.part.Progress(); p.Complete() {
			t.Errorf("%+v while generation 2 is being run", p)
		}
		close(goOn)
		check(t, <-ended)
	})
}

// Three servers share the keys, by shards; each knows when all of them are done, from
// what is stored. One that counts its own runs knows of its own only.
func TestSeveralServersKnowWhenAllIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(memory.New(nil))
		var by [3]atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var servers [3]*service
		var running sync.WaitGroup
		for i := range servers {
			p := must(lease.NewSharded(b, "sites", 16, &lease.Options{TTL: 2 * time.Second, Server: string(rune('a' + i)), Logger: quiet}))
			servers[i] = newService(t, b, false, p, func(ctx context.Context, o *site) (reconcile.Result, error) {
				by[i].Add(1)
				return servers[i].resize(ctx, o)
			})
			running.Go(func() {
				check(t, program.Run(ctx, &servers[i].manager, &program.Options{Parts: []program.Part{servers[i].part}, Logger: quiet}))
			})
		}
		time.Sleep(time.Minute) // of the bubble: by then each has its share of the shards
		for i := range 50 {
			servers[0].create(t, fmt.Sprintf("site-%02d", i))
		}
		for i, s := range servers {
			check(t, program.WaitFor(t.Context(), func(p program.Progress) bool { return p.Done == 50 }, s.part))
			if p := s.part.Progress(); p.Done != 50 || by[i].Load() == 50 {
				t.Errorf("server %d: %v after %d runs of its own, want all 50 by all servers", i, p, by[i].Load())
			}
		}
		stop()
		running.Wait()
	})
}

// Deletion: what is being deleted is left until it is gone.
func TestADeletionIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *service
		s = newService(t, must(memory.New(nil)), true, nil, func(ctx context.Context, o *site) (reconcile.Result, error) {
			if !o.Deleting() {
				return s.resize(ctx, o)
			}
			if time.Since(o.Deleted) < 10*time.Second {
				return reconcile.Result{RequeueAfter: 10 * time.Second}, nil
			}
			_, err := s.sites.Mutate(ctx, o.Key(), func(o *site) error { o.RemoveFinalizer("ours"); return nil })
			return reconcile.Result{}, err
		})
		o := must(s.sites.Create(t.Context(), &site{Meta: store.Meta{Name: "going", Finalizers: []string{"ours"}}}))
		s.create(t, "stays")
		check(t, s.sites.Delete(t.Context(), o))
		began := time.Now()
		check(t, program.Run(t.Context(), &s.manager, s.once()))
		if took := time.Since(began); took < 10*time.Second {
			t.Errorf("ended after %v, before the object was gone", took)
		}
		if p := s.part.Progress(); p.Declared != 1 || p.Deleting != 0 {
			t.Errorf("in the end %+v", p)
		}
	})
}

// Without Once the end of the context is no error, and what is left is said.
func TestAServiceEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, must(memory.New(nil)), true, nil, func(context.Context, *site) (reconcile.Result, error) {
			return reconcile.Result{}, errors.New("no route to host")
		})
		s.create(t, "a")
		ctx, cancel := context.WithCancel(t.Context())
		var out, log bytes.Buffer
		ended := make(chan error, 1)
		go func() {
			ended <- program.Run(ctx, &s.manager, &program.Options{
				Parts: []program.Part{s.part}, Out: program.NewPrinter(&out), Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		if want := "0 of 1 as declared, 1 failing; left:\n  site a: no route to host\n"; !strings.HasSuffix(out.String(), want) {
			t.Errorf("printed\n%s\nwant at the end\n%s", out.String(), want)
		}
		if !strings.Contains(log.String(), "ended, and not everything is as declared") || !strings.Contains(log.String(), "no route to host") {
			t.Errorf("logged\n%s\nwant what is left", log.String())
		}
		// The same with Once is an error that says why it ended.
		s = newService(t, s.sites.Backend(), true, nil, func(context.Context, *site) (reconcile.Result, error) {
			return reconcile.Result{}, errors.New("no route to host")
		})
		told := errors.New("told to stop")
		ctx, end := context.WithCancelCause(t.Context())
		go func() { ended <- program.Run(ctx, &s.manager, s.once()) }()
		synctest.Wait()
		end(told)
		var left *program.LeftError
		if err := <-ended; !errors.Is(err, told) || !errors.As(err, &left) || len(left.Left) != 1 {
			t.Errorf("Run = %v, want why it ended and what is left", err)
		}
	})
}

// The run of an object says nothing about another object of its name, which nothing has
// run yet.
//
// Negative control: mutant "the run of an earlier object of the name counts".
func TestAnotherObjectOfTheNameIsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, goOn := make(chan struct{}, 10), make(chan struct{}, 10)
		s := newService(t, must(memory.New(nil)), true, nil, func(ctx context.Context, _ *site) (reconcile.Result, error) {
			began <- struct{}{}
			select {
			case <-goOn:
			case <-ctx.Done():
			}
			return reconcile.Result{}, ctx.Err() // without a condition: the runs alone count
		})
		ctx, cancel := context.WithCancel(t.Context())
		var manager sync.WaitGroup
		manager.Go(func() { check(t, s.manager.Run(ctx)) })
		s.create(t, "a")
		<-began
		goOn <- struct{}{}
		synctest.Wait()
		if p := s.part.Progress(); p.Done != 1 {
			t.Fatalf("%+v after a run, want it done", p)
		}
		check(t, s.sites.Delete(t.Context(), must(s.sites.Get(t.Context(), store.Key{Name: "a"}))))
		s.create(t, "a")
		synctest.Wait()
		<-began
		if p := s.part.Progress(); p.Done != 0 || p.Declared != 1 {
			t.Errorf("%+v while the first run of the second object goes on", p)
		}
		cancel()
		manager.Wait()
	})
}

// A run that a cloud turned away says nothing new: what was done stays done, and what
// failed keeps its reason.
//
// Negative control: mutant "a throttled run is a failure".
func TestThrottledRunSaysNothingOfTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := must(ratelimit.NewBucket("cloud", 10, 10))
		var throttled atomic.Bool
		s := newService(t, must(memory.New(nil)), true, nil, func(_ context.Context, o *site) (reconcile.Result, error) {
			switch {
			case throttled.Load():
				return reconcile.Result{}, ratelimit.Throttled(calls, time.Now().Add(time.Hour), errors.New("slow down"))
			case o.Name == "bad":
				return reconcile.Result{}, errors.New("no route to host")
			}
			return reconcile.Result{}, nil
		})
		s.create(t, "bad", "good")
		ctx, cancel := context.WithCancel(t.Context())
		var manager sync.WaitGroup
		manager.Go(func() { check(t, s.manager.Run(ctx)) })
		look := func(when string) {
			t.Helper()
			synctest.Wait()
			p, left := s.part.Progress(), s.part.Left()
			if p.Done != 1 || p.Failing != 1 || len(left) != 1 || left[0].Why != "no route to host" {
				t.Errorf("%s: %+v, left %v; want good done and bad failing as before", when, p, left)
			}
		}
		look("after the first runs")
		throttled.Store(true)
		began := s.controller.Snapshot().Runs.Runs()
		for _, name := range []string{"bad", "good"} {
			check(t, s.controller.Queue().AddWith(store.Key{Name: name}, queue.AddOptions{Urgent: true}))
		}
		look("after throttled runs")
		if n := s.controller.Snapshot().Runs.Runs() - began; n < 2 {
			t.Errorf("%d throttled runs, want two", n)
		}
		cancel()
		manager.Wait()
	})
}

// What the manager ends with is Run's error, and Complete's ends the program.
func TestErrorsOfTheManagerAndOfCompleteEndTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, must(memory.New(nil)), true, nil, func(context.Context, *site) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		})
		boom := errors.New("boom")
		check(t, s.manager.Register(failing{boom}))
		if err := program.Run(t.Context(), &s.manager, &program.Options{Parts: []program.Part{s.part}, Logger: quiet}); !errors.Is(err, boom) {
			t.Errorf("Run = %v, want the runner's error", err)
		}
		s = newService(t, must(memory.New(nil)), true, nil, func(context.Context, *site) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		})
		if err := program.Run(t.Context(), &s.manager, &program.Options{
			Parts: []program.Part{s.part}, Logger: quiet, Complete: func(context.Context) error { return boom },
		}); !errors.Is(err, boom) {
			t.Errorf("Run = %v, want Complete's error", err)
		}
	})
}

// The time of a program with Once is that of Complete too.
//
// Negative control: mutant "the time of a program does not bound Complete".
func TestTimeoutEndsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, must(memory.New(nil)), true, nil, func(context.Context, *site) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begun := time.Now()
		o := s.once()
		o.Timeout = time.Minute
		o.Complete = func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		if err := program.Run(ctx, &s.manager, o); !errors.Is(err, program.ErrTimeout) {
			t.Errorf("Run = %v, want that the time is over", err)
		}
		if d := time.Since(begun); d != time.Minute {
			t.Errorf("the program ended after %v, want its Timeout", d)
		}
	})
}

type failing struct{ err error }

func (f failing) Run(context.Context) error { return f.err }

// A run that panics is left with that reason, and one whose calls are throttled or that
// ends with the server says nothing about its object.
func TestPanicsAndEndsOfRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, must(memory.New(nil)), true, nil, func(ctx context.Context, o *site) (reconcile.Result, error) {
			switch o.Name {
			case "panics":
				panic("a bug")
			case "asks":
				return reconcile.Result{}, reconcile.RetryAfter(nil, time.Hour)
			case "requeues":
				return reconcile.Result{Requeue: true}, nil
			}
			<-ctx.Done()
			return reconcile.Result{}, ctx.Err()
		})
		s.create(t, "panics", "asks", "requeues", "waits")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- program.Run(ctx, &s.manager, s.once()) }()
		synctest.Wait()
		cancel()
		var left *program.LeftError
		if err := <-ended; !errors.As(err, &left) {
			t.Fatalf("Run = %v", err)
		}
		want := "  site asks: no run has confirmed it yet\n  site panics: the run did not return; the log has the stack\n" +
			"  site requeues: no run has confirmed it yet\n  site waits: no run has confirmed it yet"
		if got := program.ListLeft(left.Left); got != want {
			t.Errorf("left\n%s\nwant\n%s", got, want)
		}
	})
}

// A function of KindOptions that panics at one object leaves that object, and ends nothing else.
//
// promise R3. Negative control: mutant "a panic in KindOptions ends the process".
func TestPanicInKindOptionsLeavesItsObject(t *testing.T) {
	panics := func(o *site) bool {
		if o.Name == "a" {
			panic("a bug")
		}
		return true
	}
	for name, o := range map[string]*program.KindOptions[spec, status]{
		"Done": {Done: panics},
		"Stuck": {
			Done:  func(o *site) bool { return o.Name != "a" },
			Stuck: func(o *site) (string, bool) { return "it is stuck", panics(o) },
		},
	} {
		for _, track := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				var s *service
				s = newService(t, must(memory.New(nil)), track, nil, func(ctx context.Context, o *site) (reconcile.Result, error) {
					return s.resize(ctx, o)
				}, o)
				s.create(t, "a", "b")
				err := program.Run(t.Context(), &s.manager, s.once())
				var left *program.LeftError
				var panicked *reconcile.PanicError
				if !errors.As(err, &left) || !errors.Is(left.Cause, program.ErrTimeout) || !errors.As(err, &panicked) || len(panicked.Stack) == 0 {
					t.Fatalf("%s, tracked %v: Run = %v, want ErrTimeout with a panic and its stack", name, track, err)
				}
				if got, want := program.ListLeft(left.Left), "  site a: KindOptions."+name+": panic: a bug"; got != want {
					t.Errorf("%s, tracked %v: left\n%s\nwant\n%s", name, track, got, want)
				}
				want := program.Progress{Synced: true, Declared: 2, Done: 1, Failing: 1}
				if p := s.part.Progress(); p != want {
					t.Errorf("%s, tracked %v: progress %+v, want %+v", name, track, p, want)
				}
			})
		}
	}
}

func TestBadOptionsAreErrors(t *testing.T) {
	s := newService(t, must(memory.New(nil)), true, nil, func(context.Context, *site) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	})
	if _, err := s.part.Track(nil); err == nil {
		t.Error("a second Track is accepted")
	}
	if _, err := program.Of[spec, status](nil, nil); err == nil {
		t.Error("Of(nil) is accepted")
	}
	for _, o := range []*program.Options{
		{Once: true},
		{Parts: []program.Part{nil}},
		{Parts: []program.Part{s.part}, Timeout: time.Second},
		{Parts: []program.Part{s.part}, Once: true, Timeout: -1},
	} {
		if err := program.Run(t.Context(), &s.manager, o); err == nil || !strings.HasPrefix(err.Error(), "program: ") {
			t.Errorf("Run with %+v: %v", o, err)
		}
	}
	if err := program.Run(t.Context(), nil, nil); err == nil {
		t.Error("a nil manager is accepted")
	}
}

// A printer that is no terminal prints the progress at most once a second.
func TestPrinterWithoutATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := program.NewPrinter(&out)
		for i := range 30 {
			p.Progress(fmt.Sprintf("%d of 30", i))
			time.Sleep(time.Second / 10)
		}
		p.Line("%d of %d", 30, 30)
		p.Progress("")
		p.Text("the end")
		want := "   0.0s  0 of 30\n   1.0s  10 of 30\n   2.0s  20 of 30\n   3.0s  30 of 30\nthe end\n"
		if got := out.String(); got != want {
			t.Errorf("printed\n%s\nwant\n%s", got, want)
		}
	})
}

// What is left is listed up to a bound.
func TestAListOfWhatIsLeftIsBounded(t *testing.T) {
	var left []program.Left
	for i := range 100 {
		left = append(left, program.Left{Kind: "site", Key: store.Key{Name: fmt.Sprint(i)}, Why: "not ready"})
	}
	text := (&program.LeftError{Cause: program.ErrTimeout, Left: left}).Error()
	if n := strings.Count(text, "site "); n != 20 || !strings.HasSuffix(text, "and 80 more") {
		t.Errorf("%d listed:\n%s", n, text)
	}
}

// What comes from elsewhere cannot write to the terminal, or begin a line of its own.
func TestControlCharactersOfWhatIsLeftAreNotPrinted(t *testing.T) {
	l := program.Left{Kind: "site", Key: store.Key{Name: "a"}, Why: "no\x1b[2Jroute\nsite b: well \u009b\n"}
	if got, want := l.String(), "site a: no\uFFFD[2Jroute; site b: well \uFFFD"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// lagging is a backend whose first watch can be held back.
type lagging struct {
	store.Backend
	watches atomic.Int32
	gate    atomic.Pointer[chan struct{}] // holds the first watch back until it is closed; nil: it goes on
}

func (b *lagging) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	first := b.watches.Add(1) == 1
	return func(yield func(store.Batch, error) bool) {
		for batch, err := range b.Backend.Watch(ctx, kind, after) {
			if gate := b.gate.Load(); first && gate != nil {
				<-*gate
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

// A run counts for what its controller's own cache showed, which may be behind the Kind's
// cache, or ahead of it.
func TestRunCountsForWhatItsOwnCacheShowed(t *testing.T) {
	for _, behind := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := &lagging{Backend: must(memory.New(nil))}
			things := must(store.New[spec, status](b, "site", nil))
			shown := must(cache.New(things, nil)) // the Kind's
			part := must(program.Of(shown, nil))
			o := must(part.Track(nil))
			c := must(reconcile.For(things, func(context.Context, *site) (reconcile.Result, error) {
				return reconcile.Result{}, nil
			}, &reconcile.ForOptions[spec, status]{Options: *o}))
			m := &reconcile.Manager{Logger: quiet}
			runners := []reconcile.Runner{c, shown} // the first has the watch that is held back
			if !behind {
				runners = []reconcile.Runner{shown, c}
			}
			idle := runnerFunc(func(ctx context.Context) error { <-ctx.Done(); return nil })
			check(t, m.Register(idle))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- m.Run(ctx) }() // ends at cancel
			synctest.Wait()
			for _, r := range runners {
				must(m.Start(r))
				synctest.Wait()
			}
			o1 := must(things.Create(t.Context(), &site{Meta: store.Meta{Name: "a"}, Spec: spec{Size: 1}}))
			synctest.Wait()
			if p := part.Progress(); p.Done != 1 {
				t.Errorf("behind %v: %+v, want it done", behind, p)
			}
			gate := make(chan struct{})
			b.gate.Store(&gate)
			o1.Spec.Size = 2
			must(things.Update(t.Context(), o1))
			check(t, c.Add(o1.Key()))
			time.Sleep(time.Second)
			if p := part.Progress(); behind && p.Done != 0 {
				t.Errorf("%+v, although the run read what was declared before", p)
			}
			close(gate)
			synctest.Wait()
			if p := part.Progress(); p.Done != 1 {
				t.Errorf("behind %v: %+v in the end, want it done", behind, p)
			}
			cancel()
			check(t, <-ended)
		})
	}
}

type runnerFunc func(ctx context.Context) error

func (r runnerFunc) Run(ctx context.Context) error { return r(ctx) }

// A run that ended without an error and wrote that its object is not as declared does not
// make it done while the cache has not shown that yet.
//
// Seen to fail: a program with Once ended without an error, and its last line said
// "0 of 1 as declared, 1 failing".
//
// Negative control: mutant "a run counts before the cache shows what it wrote".
func TestRunCountsWhenTheCacheShowsWhatItWrote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &lagging{Backend: must(memory.New(nil))}
		gate := make(chan struct{})
		var s *service
		foreign := true
		s = newService(t, b, true, nil, func(ctx context.Context, o *site) (reconcile.Result, error) {
			status := store.True
			if foreign {
				status = store.False
				b.gate.Store(&gate) // the watch holds back what the run writes
			}
			o.SetCondition(store.Condition{Type: store.ConditionReady, Status: status, Reason: "Checked"})
			_, err := s.sites.UpdateStatus(ctx, o)
			return reconcile.Result{}, err
		})
		s.create(t, "a")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.manager.Run(ctx) }() // ends at cancel
		time.Sleep(time.Second)
		if p := s.part.Progress(); !p.Synced || p.Declared != 1 || p.Done != 0 {
			t.Errorf("%+v, and the run has written that it is not done", p)
		}
		close(gate)
		synctest.Wait()
		if p := s.part.Progress(); p.Declared != 1 || p.Done != 0 || p.Complete() {
			t.Errorf("%+v when the cache shows what the run wrote, want it left", p)
		}
		foreign = false
		check(t, s.controller.Add(store.Key{Name: "a"}))
		synctest.Wait()
		if p := s.part.Progress(); !p.Complete() {
			t.Errorf("%+v in the end, want it done", p)
		}
		cancel()
		check(t, <-ended)
	})
}

// A run that wrote nothing says nothing of what the run before it wrote: the object is not
// done before the cache shows that.
//
// Seen to fail: while the cache was more than Options.CacheWait behind, an object that had
// just become not ready was done.
func TestRunThatWritesNothingDoesNotShowWhatTheOneBeforeWrote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &lagging{Backend: must(memory.New(nil))}
		gate := make(chan struct{})
		runs := 0
		var s *service
		s = newService(t, b, true, nil, func(ctx context.Context, o *site) (reconcile.Result, error) {
			if runs++; runs > 1 {
				return reconcile.Result{}, nil
			}
			b.gate.Store(&gate) // the watch holds back what the run writes
			o.SetCondition(store.Condition{Type: store.ConditionReady, Status: store.False, Reason: "Checked"})
			_, err := s.sites.UpdateStatus(ctx, o)
			return reconcile.Result{}, err
		})
		s.create(t, "a")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.manager.Run(ctx) }() // ends at cancel
		synctest.Wait()
		check(t, s.controller.Add(store.Key{Name: "a"}))
		time.Sleep(time.Minute) // the key is held for 30 s
		synctest.Wait()
		if p := s.part.Progress(); runs != 2 || p.Complete() {
			t.Errorf("%+v after %d runs, and the first has written that it is not done", p, runs)
		}
		close(gate)
		synctest.Wait()
		if p := s.part.Progress(); p.Declared != 1 || p.Complete() {
			t.Errorf("%+v when the cache shows what the run wrote, want it left", p)
		}
		cancel()
		check(t, <-ended)
	})
}

// A service that asks for no progress any more remembers no run of objects that are gone.
func TestRunsOfObjectsThatAreGoneAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, must(memory.New(nil)), true, nil, func(context.Context, *site) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.manager.Run(ctx) }() // ends at cancel
		const objects, many = 300, 150
		for i := range objects {
			o := must(s.sites.Create(t.Context(), &site{Meta: store.Meta{Name: fmt.Sprint("site-", i)}, Spec: spec{Size: 1}}))
			synctest.Wait()
			check(t, s.sites.Delete(t.Context(), o))
			synctest.Wait()
		}
		if n := s.part.Runs(); n > many {
			t.Errorf("the runs of %d objects are remembered, and none is there any more", n)
		}
		cancel()
		check(t, <-ended)
	})
}

// fakePart is a Part whose Progress is asked of a function.
type fakePart struct {
	program.Part
	progress func() program.Progress
}

func (p fakePart) Progress() program.Progress { return p.progress() }

func (p fakePart) Follow(ctx context.Context, changed func()) {
	for ctx.Err() == nil {
		changed()
		time.Sleep(time.Second)
	}
}

// What a file declares and the cache gets between two questions is counted by neither part
// when the kind is asked before the file, and is left all the same.
//
// Seen to fail: Wait returned at once, with the object declared and no run made.
func TestObjectThatComesBetweenTwoQuestionsIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		declared, began := 0, time.Now()
		kind := fakePart{progress: func() program.Progress {
			done := 0
			if time.Since(began) >= time.Minute {
				done = declared
			}
			return program.Progress{Synced: true, Declared: declared, Done: done}
		}}
		file := fakePart{progress: func() program.Progress {
			declared = 1 // the cache has it now
			return program.Progress{Synced: true}
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		check(t, program.Wait(ctx, kind, file))
		if took := time.Since(began); took < time.Minute {
			t.Errorf("everything is said to be as declared after %v, and the object is done after a minute", took)
		}
	})
}

// Two files of one path are two parts that call what is left by one name, and may give
// different reasons, as while one has read a broken content and the other has not.
//
// Seen to fail: each look said both reasons again.
func TestReasonsOfTwoPartsForOneNameAreSaidOnceEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var m reconcile.Manager
		check(t, m.Register(runnerFunc(func(ctx context.Context) error { <-ctx.Done(); return nil })))
		check(t, program.Run(ctx, &m, &program.Options{
			Parts: []program.Part{leftPart{why: "it is broken"}, leftPart{why: "it is not applied yet"}, leftPart{why: "it is broken"}},
			Left:  func(l program.Left) { said = append(said, l.Why) },
		}))
		if want := []string{"it is broken", "it is not applied yet"}; !slices.Equal(said, want) {
			t.Errorf("said %q, want %q", said, want)
		}
	})
}

// A service whose trouble was printed prints that it is over, whatever the last line of it said.
//
// Negative control: mutant "the end of trouble is not printed".
func TestEndOfTroubleIsPrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		file := mendedPart{func() bool { return time.Since(began) >= 10*time.Second }}
		var m reconcile.Manager
		check(t, m.Register(runnerFunc(func(ctx context.Context) error { <-ctx.Done(); return nil })))
		var out strings.Builder
		check(t, program.Run(ctx, &m, &program.Options{Parts: []program.Part{file}, Out: program.NewPrinter(&out)}))
		said, mended, ok := strings.Cut(out.String(), "x file sites: it is broken\n")
		if !ok || said == "" || strings.Count(mended, "everything is as declared again") != 1 {
			t.Errorf("printed\n%s\nwant the trouble, and once that it is over", &out)
		}
	})
}

// mendedPart is broken until mended says otherwise.
type mendedPart struct{ mended func() bool }

func (p mendedPart) Progress() program.Progress {
	if p.mended() {
		return program.Progress{Synced: true, Declared: 1, Done: 1}
	}
	return program.Progress{Synced: true, Declared: 1}
}

func (p mendedPart) Left() []program.Left {
	if p.mended() {
		return nil
	}
	return []program.Left{{Kind: "file sites", Why: "it is broken", Failing: true}}
}

func (p mendedPart) Follow(ctx context.Context, changed func()) {
	fakePart{}.Follow(ctx, changed)
}

// A panic of Options.Left ended the process, and one of Complete the program without its Manager
// having stopped in order.
func TestPanicOfAFunctionOfTheOptionsEndsNothingElse(t *testing.T) {
	for _, printed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var said []string
			var told strings.Builder
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var m reconcile.Manager
			check(t, m.Register(runnerFunc(func(ctx context.Context) error { <-ctx.Done(); return nil })))
			o := &program.Options{
				Parts: []program.Part{leftPart{why: "it is broken"}, leftPart{why: "it is not applied yet"}},
				Left: func(l program.Left) {
					if said = append(said, l.Why); l.Why == "it is broken" {
						panic("a bug")
					}
				},
			}
			if printed {
				o.Out = program.NewPrinter(&told)
			} else {
				o.Logger = slog.New(slog.NewTextHandler(&told, nil))
			}
			check(t, program.Run(ctx, &m, o))
			if want := []string{"it is broken", "it is not applied yet"}; !slices.Equal(said, want) {
				t.Errorf("said %q, want %q", said, want)
			}
			if got := told.String(); !strings.Contains(got, "Options.Left: panic: a bug") || !strings.Contains(got, "program_test.go") {
				t.Errorf("printed %t, the panic is not told with its stack:\n%s", printed, got)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		stopped := false
		var m reconcile.Manager
		check(t, m.Register(runnerFunc(func(ctx context.Context) error {
			<-ctx.Done()
			stopped = true
			return nil
		})))
		err := program.Run(t.Context(), &m, &program.Options{
			Complete: func(context.Context) error { panic("a bug") },
		})
		var panicked *reconcile.PanicError
		if !errors.As(err, &panicked) || len(panicked.Stack) == 0 || !stopped {
			t.Errorf("Run = %v, want a panic with its stack; its runner has stopped: %t", err, stopped)
		}
	})
}

// leftPart is a fakePart with one thing left, for a reason of its own.
type leftPart struct{ why string }

func (p leftPart) Progress() program.Progress { return program.Progress{Synced: true, Declared: 1} }
func (p leftPart) Left() []program.Left       { return []program.Left{{Kind: "file sites", Why: p.why}} }

func (p leftPart) Follow(ctx context.Context, changed func()) {
	fakePart{}.Follow(ctx, changed)
}

// Lines hold what clouds and files say.
func TestPrinterSendsTerminalsNoCommands(t *testing.T) {
	var out strings.Builder
	p := program.NewPrinter(&out)
	p.Line("x %s", "a\x1b[2J\u009b\u202e\rb: no\n\troute")
	p.Progress("1 of 2 \x1b[2J")
	if got := out.String(); strings.ContainsAny(got, "\x1b\u009b\u202e\r") || !strings.Contains(got, "b: no\n\troute\n") {
		t.Errorf("it prints %q", got)
	}
}

// A program whose runs are not tracked ends when all that is left is parked, and names it. An
// edit is waited for: it may be the cure.
//
// Before, it waited until its Timeout, or for ever.
func TestOnceEndsOnATerminalErrorWithoutTrack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *service
		s = newService(t, must(memory.New(nil)), false, nil, func(ctx context.Context, o *site) (reconcile.Result, error) {
			if o.Name == "bad" || o.Name == "mended" && o.Spec.Size == 1 {
				return reconcile.Result{}, reconcile.Terminal(errors.New("it is declared for the moon"))
			}
			return s.resize(ctx, o)
		})
		s.create(t, "good", "bad", "mended")
		o := s.once()
		o.Timeout = 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		mended := time.AfterFunc(parkedOnce, func() {
			_, err := s.sites.Mutate(ctx, store.Key{Name: "mended"}, func(o *site) error { o.Spec.Size = 2; return nil })
			check(t, err)
		})
		defer mended.Stop()
		began := time.Now()
		err := program.Run(ctx, &s.manager, o)
		if !errors.Is(err, program.ErrStuck) || time.Since(began) > time.Minute {
			t.Fatalf("Run = %v after %v, want ErrStuck within a minute", err, time.Since(began))
		}
		if want := "  site bad: it is declared for the moon"; !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "mended") {
			t.Errorf("the error is\n%v\nwant\n%s", err, want)
		}
	})
}

// parkedOnce is after the first look for parked keys and before the second.
const parkedOnce = 1500 * time.Millisecond

// While a Kind is asked how far it is, runs go on and end: it holds no lock while it calls the
// program's function or the backend, and none for as long as there are objects.
//
// Seen to fail with a look under the lock: both waited for ever.
func TestALookHoldsUpNoRun(t *testing.T) {
	for _, in := range []string{"Done", "Health"} {
		t.Run(in, func(t *testing.T) {
			looking, runEnded := make(chan struct{}), make(chan struct{})
			var asked atomic.Bool
			ask := func(where string) { // the first that is asked waits for the end of a run
				if where == in && asked.CompareAndSwap(false, true) {
					close(looking)
					select {
					case <-runEnded:
					case <-time.After(10 * time.Second):
						t.Error("no run ended during a look")
					}
				}
			}
			b := &askedBackend{Backend: must(memory.New(nil)), ask: func() { ask("Health") }}
			s := &service{sites: must(store.New[spec, status](b, "site", nil))}
			s.cache = must(cache.New(s.sites, nil))
			s.part = must(program.Of(s.cache, &program.KindOptions[spec, status]{Done: func(*site) bool { ask("Done"); return true }}))
			o := must(s.part.Track(nil))
			run := o.Middleware[0](reconcile.Func[reconcile.Request](func(context.Context, reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, nil
			}))
			s.create(t, "a")
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { check(t, s.cache.Run(ctx)) })
			<-s.cache.Synced()
			key := store.Key{Name: "a"}
			must(run.Reconcile(ctx, key)) // Done is asked of what a run has confirmed
			running.Go(func() { s.part.Progress() })
			<-looking
			must(run.Reconcile(ctx, key))
			close(runEnded)
			cancel()
			running.Wait()
		})
	}
}

// askedBackend tells when it is asked for its health.
type askedBackend struct {
	store.Backend
	ask func()
}

func (b *askedBackend) Health() error { b.ask(); return nil }
