package program_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

// begin runs the service's manager until the test calls end.
func (s *service) begin(t *testing.T) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.manager.Run(ctx) }() // ends at cancel
	synctest.Wait()
	return func() {
		t.Helper()
		cancel()
		check(t, <-ended)
	}
}

func (s *service) wantDone(t *testing.T, when string, done int) {
	t.Helper()
	synctest.Wait()
	if p := s.part.Progress(); !p.Synced || p.Done != done {
		t.Errorf("%s: %+v, want %d done", when, p, done)
	}
}

var siteA = store.Key{Name: "a"}

// Where no run is tracked, a Ready of an earlier generation does not count.
//
// Negative control: mutant "a Ready of an earlier spec counts".
func TestReadyCountsForItsGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		paused := false
		var s *service
		s = newService(t, must(memory.New(nil)), false, nil, func(ctx context.Context, o *site) (reconcile.Result, error) {
			if paused {
				return reconcile.Result{}, nil
			}
			return s.resize(ctx, o)
		})
		s.create(t, "a")
		end := s.begin(t)
		s.wantDone(t, "ready", 1)
		paused = true
		must(s.sites.Mutate(t.Context(), siteA, func(o *site) error { o.Spec.Size = 2; return nil }))
		s.wantDone(t, "ready for the generation before", 0)
		paused = false
		check(t, s.controller.Add(siteA))
		s.wantDone(t, "ready again", 1)
		end()
	})
}

// Done is about the last run: one that says that it is not done, without a failure, takes
// back what the one before said, and so does one that ran into its deadline, which failed.
//
// Negative controls: mutants "a run that asks to be made again leaves the object done" and "a
// run that ran into its deadline says nothing".
func TestLastRunCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		what := ""
		s := newService(t, must(memory.New(nil)), true, nil, func(ctx context.Context, _ *site) (reconcile.Result, error) {
			switch what {
			case "again":
				return reconcile.Result{Requeue: true}, nil
			case "late":
				<-ctx.Done()
				return reconcile.Result{}, context.Cause(ctx)
			}
			return reconcile.Result{}, nil
		})
		s.create(t, "a")
		end := s.begin(t)
		s.wantDone(t, "after a run without an error", 1)
		for _, then := range []string{"again", "", "late"} {
			what = then
			check(t, s.controller.Queue().Add(siteA))
			time.Sleep(time.Hour) // beyond the deadline of a run, and each pause
			want := 0
			if then == "" {
				want = 1
			}
			s.wantDone(t, "after a run that says "+then, want)
			if p := s.part.Progress(); (p.Failing == 1) != (then == "late") {
				t.Errorf("after a run that says %q: %+v", then, p)
			}
		}
		end()
	})
}

// What KindOptions.Done says of what is stored is not enough where runs count.
//
// Negative control: mutant "Done counts without a run".
func TestDoneNeedsARunWhereRunsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := make(chan struct{})
		s := newService(t, must(memory.New(nil)), true, nil, func(context.Context, *site) (reconcile.Result, error) {
			<-run
			return reconcile.Result{}, nil
		}, &program.KindOptions[spec, status]{Done: func(*site) bool { return true }})
		s.create(t, "a")
		end := s.begin(t)
		s.wantDone(t, "while the first run is under way", 0)
		close(run)
		s.wantDone(t, "after it", 1)
		end()
	})
}

// Several that wait for one kind hear of a run that wrote nothing, each of them.
//
// Negative control: mutant "of several that follow a kind one hears of runs".
func TestEachThatWaitsHearsOfRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := make(chan struct{})
		s := newService(t, must(memory.New(nil)), true, nil, func(context.Context, *site) (reconcile.Result, error) {
			<-run
			return reconcile.Result{}, nil
		})
		s.create(t, "a")
		end := s.begin(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() {
				if err := program.Wait(ctx, s.part); err != nil {
					t.Errorf("Wait = %v", err)
				}
			})
		}
		synctest.Wait()
		time.Sleep(time.Second)
		close(run)
		waiting.Wait()
		end()
	})
}

// late is a backend whose watches show each change some time after it.
type late struct {
	store.Backend
	by atomic.Int64 // a time.Duration
}

func (b *late) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		for batch, err := range b.Backend.Watch(ctx, kind, after) {
			if !sleep.For(ctx, time.Duration(b.by.Load())) {
				yield(store.Batch{}, context.Cause(ctx))
				return
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

// What the last runs come to, after the stop, counts: nothing is left then, or less than
// when the time was over. So it is where a watch shows their writes late. If it shows them
// more than a second late, Run does not wait longer.
//
// Negative controls: mutants "what the last runs finished is left", "a program fails
// although the last runs finished all" and "caches end with the last run".
func TestLastRunsOfAProgramCount(t *testing.T) {
	for _, c := range []struct {
		names []string
		late  time.Duration
		left  []string
		takes time.Duration // until the time is over, and two thirds of StopTimeout
	}{
		{[]string{"slow"}, 0, nil, 40 * time.Second},
		{[]string{"slow", "never"}, 0, []string{"never"}, 40 * time.Second},
		{[]string{"slow"}, 400 * time.Millisecond, nil, 40*time.Second + 400*time.Millisecond},
		{[]string{"slow"}, time.Hour, []string{"slow"}, 41 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &late{Backend: must(memory.New(nil))}
			var s *service
			s = newService(t, b, true, nil, func(ctx context.Context, o *site) (reconcile.Result, error) {
				if o.Name == "never" {
					return reconcile.Result{}, errors.New("no route")
				}
				<-ctx.Done()
				b.by.Store(int64(c.late))
				return s.resize(context.WithoutCancel(ctx), o)
			})
			s.create(t, c.names...)
			o := s.once()
			o.Timeout = 10 * time.Second
			began := time.Now()
			err := program.Run(t.Context(), &s.manager, o)
			if took := time.Since(began).Round(100 * time.Millisecond); took != c.takes {
				t.Errorf("%v, %v late: Run took %v, want %v", c.names, c.late, took, c.takes)
			}
			if len(c.left) == 0 {
				if err != nil {
					t.Errorf("%v, %v late: Run = %v, and all is as declared", c.names, c.late, err)
				}
				return
			}
			var left *program.LeftError
			if !errors.As(err, &left) || !errors.Is(err, program.ErrTimeout) || len(left.Left) != 1 || left.Left[0].Key.Name != c.left[0] {
				t.Errorf("%v, %v late: Run = %v, want that the time is over and %v left", c.names, c.late, err, c.left)
			}
		})
	}
}

// A run of an object that the Kind's own cache does not have yet is remembered until it has.
//
// Negative control: mutant "runs of objects that the cache is to have are forgotten".
func TestRunOfAnObjectThatTheCacheLacksIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &lagging{Backend: must(memory.New(nil))}
		things := must(store.New[spec, status](b, "site", nil))
		shown := must(cache.New(things, nil)) // the Kind's; it has the watch that is held back
		part := must(program.Of(shown, nil))
		c := must(reconcile.For(things, func(context.Context, *site) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}, &reconcile.ForOptions[spec, status]{Options: *must(part.Track(nil))}))
		s := &service{sites: things, cache: shown, part: part, manager: reconcile.Manager{Logger: quiet}}
		check(t, s.manager.Register(shown))
		end := s.begin(t)
		must(s.manager.Start(c))
		synctest.Wait()
		gate := make(chan struct{})
		b.gate.Store(&gate)
		s.create(t, "a")
		synctest.Wait()
		if p := part.Progress(); p.Declared != 0 {
			t.Errorf("%+v, and the cache was held back", p)
		}
		close(gate)
		s.wantDone(t, "when the cache has the object", 1)
		end()
	})
}

// Negative controls: mutants "one part that was read is enough", "an object that is being
// deleted keeps no program from being stuck" and "LeftError hides the errors of what is left".
func TestProgressAndErrorsOfSeveralParts(t *testing.T) {
	of := func(p program.Progress) program.Part { return fakePart{progress: func() program.Progress { return p }} }
	unread := program.Progress{Declared: 1, Done: 1}
	read := program.Progress{Synced: true, Declared: 1, Done: 1}
	for _, parts := range [][]program.Progress{{unread, read}, {read, unread}, {read, unread, read}} {
		var all []program.Part
		for _, p := range parts {
			all = append(all, of(p))
		}
		if p := program.ProgressOf(all...); p.Synced || p.Complete() || p.Done != len(parts) {
			t.Errorf("%+v of %+v", p, parts)
		}
	}
	for _, c := range []struct {
		p    program.Progress
		want bool
	}{
		{program.Progress{Synced: true, Declared: 2, Done: 1, Stuck: 1}, true},
		{program.Progress{Synced: true, Declared: 2, Done: 1, Stuck: 1, Deleting: 1}, false}, // that may yet go
		{program.Progress{Synced: true, Declared: 2, Done: 1, Stuck: 2, Deleting: 1}, true},
		{program.Progress{Synced: true, Declared: 2, Stuck: 1}, false},
		{program.Progress{Synced: true, Declared: 2, Done: 2}, false}, // nothing is left
		{program.Progress{Declared: 2, Done: 1, Stuck: 1}, false},
	} {
		if got := c.p.AllStuck(); got != c.want {
			t.Errorf("%+v: all stuck is %v, want %v", c.p, got, c.want)
		}
	}
	boom, why := errors.New("boom"), errors.New("why")
	var err error = &program.LeftError{Cause: why, Left: []program.Left{{Kind: "file"}, {Kind: "site", Err: boom}}}
	for _, want := range []error{boom, why} {
		if !errors.Is(err, want) {
			t.Errorf("%v is not %v", err, want)
		}
	}
	if errs := err.(interface{ Unwrap() []error }).Unwrap(); slices.Contains(errs, nil) {
		t.Errorf("%v, want no nil", errs)
	}
}
