package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/internal/inrun"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// A row of failures is one line when it begins and one when it is over, however
// many retries there are between. Each retry is there at debug level.
//
// Negative control: with the level left at warning for retries there are five.
func TestRowOfFailuresIsLoggedOnceAndItsEndToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := new(lockedBuffer)
		c := newController(t, script[string](fails(errBoom), fails(errBoom), fails(errBoom), fails(errBoom), fails(errBoom)), &reconcile.Options[string]{
			Logger: slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug})), Backoff: exactly(time.Second),
		})
		add(t, c, "k")
		start(t, c)
		pass(time.Minute)
		expect(t, "warnings", strings.Count(b.String(), "level=WARN"), 1)
		expect(t, "retries", strings.Count(b.String(), "level=DEBUG msg=\"reconcile: run failed\""), 4)
		expect(t, "recoveries", strings.Count(b.String(), "level=INFO msg=\"reconcile: works again\" controller=test key=k"), 1)
		add(t, c, "k")
		pass(time.Minute)
		expect(t, "lines after another success", strings.Count(b.String(), "\n"), 7) // one: it synced
	})
}

// A run that asks for another time has succeeded too.
func TestRowOfFailuresEndsWithARunThatAsksForATime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, b := quiet()
		c := newController(t, script[string](fails(errBoom), reconcile.Outcome{Result: result{RequeueAfter: time.Hour}}), &reconcile.Options[string]{
			Logger: logger, Backoff: exactly(time.Second),
		})
		add(t, c, "k")
		start(t, c)
		pass(time.Minute)
		expect(t, "recoveries", strings.Count(b.String(), "level=INFO msg=\"reconcile: works again\" controller=test key=k"), 1)
	})
}

// Within a row of failures another error is logged, and the row again at 16, 32, 64 … attempts. Times, counts
// and ids in the text make no other error.
//
// Before: one line in all, of the first error.
func TestAnotherErrorWithinARowIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, n := new(lockedBuffer), 0
		c := newController(t, reconcile.Func[string](func(context.Context, string) (result, error) {
			switch n++; {
			case n <= 3:
				return result{}, fmt.Errorf("ExpiredToken: request 8f%d3-ae%d, after %dms", n, n*n, n)
			case n == 4: // asked to wait: that is no failure, and ends no row
				return result{}, ratelimit.Throttled(nil, time.Now().Add(time.Second), errors.New("429 Too Many Requests"))
			case n <= 70:
				return result{}, fmt.Errorf("InvalidName: request %d", n)
			}
			return result{}, nil
		}), &reconcile.Options[string]{
			Logger: slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelInfo})), Backoff: queue.Backoff{Base: time.Second, Max: time.Second, NoJitter: true},
		})
		add(t, c, "k")
		start(t, c)
		pass(5 * time.Minute)
		expect(t, "runs", n, 71)
		var got []string
		for line := range strings.Lines(b.String()) {
			if strings.Contains(line, "run failed") {
				got = append(got, line[strings.Index(line, "err="):strings.Index(line, ": request")]+line[strings.Index(line, " attempt="):])
			}
		}
		expectList(t, "failures in the log", got,
			"err=\"ExpiredToken attempt=0\n", "err=\"InvalidName attempt=3\n",
			"err=\"InvalidName attempt=16\n", "err=\"InvalidName attempt=32\n", "err=\"InvalidName attempt=64\n")
		expect(t, "recoveries", strings.Count(b.String(), "works again"), 1)
	})
}

// A key that cannot run because Options.Hash fails is one row of failures too.
func TestFailuresOfHashAreOneRow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		var bad atomic.Bool
		p := newHandPlaced(2)
		r := record[string](nil)
		c := newController(t, r, &reconcile.Options[string]{
			Placement: p, Logger: logger, Backoff: exactly(time.Second),
			Hash: func(string) uint64 {
				if bad.Load() {
					panic(errBoom)
				}
				return 0
			},
		})
		start(t, c)
		p.give(0, 1)
		bad.Store(true)
		add(t, c, "k")
		pass(10 * time.Second)
		bad.Store(false)
		pass(10 * time.Second)
		expectList(t, "keys", r.keys(), "k")
		expect(t, "failures", strings.Count(lines.String(), "run failed"), 1)
		expect(t, "recoveries", strings.Count(lines.String(), "works again"), 1)
	})
}

// An urgent add starts the attempts from 0; that is neither a new row nor does it
// hide the end of the old one.
func TestUrgentAddIsNoNewRowOfFailures(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		c := newController(t, script[string](fails(errBoom), fails(errBoom)), &reconcile.Options[string]{Logger: logger, Backoff: exactly(time.Hour)})
		add(t, c, "k")
		start(t, c)
		pass(time.Second)
		for range 2 {
			if err := c.Kick("k"); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
		}
		expect(t, "successes", c.Counts().Success, 1)
		expect(t, "warnings", strings.Count(lines.String(), "run failed"), 1)
		expect(t, "recoveries", strings.Count(lines.String(), "works again"), 1)
	})
}

// Runs that try nothing of what failed are part of the row, however many there are: its end
// is logged once, and the failure stays the one that it was.
//
// Negative control: mutant "untried failures nest".
func TestRunsThatTryNothingDoNotEndARowOfFailures(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		var runs atomic.Int32
		c := newController(t, record(func(context.Context, string) (result, error) {
			switch n := runs.Add(1); {
			case n == 1:
				return result{}, errBoom
			case n < 5:
				return result{StillFailing: true, RequeueAfter: time.Minute}, nil
			}
			return result{}, nil
		}), &reconcile.Options[string]{Logger: logger, Backoff: exactly(time.Second)})
		add(t, c, "k")
		start(t, c)
		pass(150 * time.Second)
		e, _ := entry(c, "k")
		if runs.Load() != 4 || e.LastError == nil || e.LastError.Error() != errBoom.Error() {
			t.Fatalf("after %d runs the failure is %v, want that of the first of four", runs.Load(), e.LastError)
		}
		pass(10 * time.Minute)
		expect(t, "runs", runs.Load(), 5)
		expect(t, "warnings", strings.Count(lines.String(), "run failed"), 1)
		expect(t, "recoveries", strings.Count(lines.String(), "works again"), 1)
	})
}

// Runs that are throttled in the middle of a row of failures are no end of it: with a quota that
// is used up each retry waits for its turn first, and was a warning of its own. Nor do they hide
// the end of the row.
//
// Negative control: mutant "a throttled run begins a new row of failures".
func TestThrottledRunsAreNoEndOfARowOfFailures(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		busy := fails(ratelimit.Throttled(nil, time.Now().Add(time.Second), errors.New("busy")))
		failed := fails(errBoom)
		c := newController(t, script[string](failed, busy, failed, busy, busy, failed, busy, reconcile.Outcome{}),
			&reconcile.Options[string]{Logger: logger, Backoff: exactly(time.Second)})
		add(t, c, "k")
		start(t, c)
		pass(time.Minute)
		expect(t, "successes", c.Counts().Success, 1)
		expect(t, "warnings", strings.Count(lines.String(), "run failed"), 1)
		expect(t, "recoveries", strings.Count(lines.String(), "works again"), 1)
	})
}

// What is wrong with a key is not hidden by a run that was throttled since.
//
// Seen to fail: on a full disk each failing key said that its quota was used up.
//
// Negative control: mutant "a throttled run hides the failure before it".
func TestThrottledRunDoesNotHideTheFailureBeforeIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, _ := quiet()
		busy := fails(ratelimit.Throttled(nil, time.Now().Add(time.Hour), errors.New("busy")))
		c := newController(t, script[string](fails(errBoom), busy), &reconcile.Options[string]{Logger: logger, Backoff: exactly(time.Second)})
		add(t, c, "k")
		start(t, c)
		pass(time.Minute)
		if e, _ := entry(c, "k"); e.LastError == nil || !strings.HasPrefix(e.LastError.Error(), errBoom.Error()+"; since then throttled until ") {
			t.Errorf("the last error is %v, want the failure and the throttled run since", e.LastError)
		}
	})
}

// A run that tried nothing waits for as long as it asked for, although the one before it was
// throttled until a time that has passed.
//
// Seen to fail: the key ran without end in one moment.
//
// Negative control: mutant "a run that tried nothing waits as the throttled one before it".
func TestRunThatTriesNothingAfterAThrottledOneWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, _ := quiet()
		var runs atomic.Int32
		c := newController(t, record(func(context.Context, string) (result, error) {
			switch n := runs.Add(1); {
			case n == 1:
				return result{}, ratelimit.Throttled(nil, time.Now().Add(time.Second), nil)
			case n < 100:
				return result{StillFailing: true, RequeueAfter: time.Minute}, nil
			}
			return result{}, nil
		}), &reconcile.Options[string]{Logger: logger, Backoff: exactly(time.Second)})
		add(t, c, "k")
		start(t, c)
		pass(90 * time.Second)
		expect(t, "runs in a minute and a half", runs.Load(), 3)
	})
}

// A failing key that is removed leaves nothing behind: successes are not asked for ever
// after whether they end a row of failures.
func TestRemovedKeyIsNoFailureForEver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		fail := true
		c := newController(t, record(func(_ context.Context, k string) (result, error) {
			if fail {
				return result{}, errBoom
			}
			return result{}, nil
		}), &reconcile.Options[string]{Logger: logger, Backoff: exactly(time.Hour)})
		add(t, c, "removed", "fails")
		start(t, c)
		pass(5 * time.Minute)
		c.Queue().Remove("removed")
		pass(5 * time.Minute)
		if reconcile.Ill(c) == 0 {
			t.Error("no failure is noted while a key fails")
		}
		fail = false
		if err := c.Kick("fails"); err != nil {
			t.Fatal(err)
		}
		pass(5 * time.Minute)
		expect(t, "recoveries", strings.Count(lines.String(), "works again"), 1)
		expect(t, "failures noted after the last key that failed was gone", reconcile.Ill(c), 0)
	})
}

// What counts no failure is no line, and does not hide the failure after it.
func TestThrottledAndRequeuedRunsAreNotLoggedAsFailures(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		again := reconcile.Outcome{Result: result{Requeue: true}}
		busy := fails(ratelimit.Throttled(nil, time.Now().Add(5*time.Second), errors.New("busy")))
		c := newController(t, script[string](again, again, busy, fails(errBoom), again), &reconcile.Options[string]{Logger: logger, Backoff: exactly(time.Second)})
		add(t, c, "k")
		start(t, c)
		pass(time.Minute)
		expect(t, "warnings", strings.Count(lines.String(), "level=WARN"), 1)
		expect(t, "recoveries", strings.Count(lines.String(), "works again"), 1)
		expect(t, "lines", strings.Count(lines.String(), "\n"), 3) // one: it synced
	})
}

func TestParkedKeyIsALineOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		c := newController(t, script[string](fails(errBoom), fails(reconcile.Terminal(errBoom))), &reconcile.Options[string]{Logger: logger, Backoff: exactly(time.Second)})
		add(t, c, "k")
		start(t, c)
		pass(time.Minute)
		expect(t, "lines", strings.Count(lines.String(), "level=WARN"), 2)
		expect(t, "parked", strings.Count(lines.String(), "its key is parked"), 1)

		logger, lines = quiet()
		heard := 0
		d := newController(t, script[string](fails(errBoom), fails(errBoom), fails(errBoom), fails(errBoom)), &reconcile.Options[string]{
			Logger: logger, Backoff: exactly(time.Second),
			Queue: queue.Options[string]{MaxAttempts: 3, Hooks: &queue.Hooks[string]{Exhausted: func(string, int, error) { heard++ }}},
		})
		add(t, d, "k")
		start(t, d)
		pass(time.Minute)
		expect(t, "lines", strings.Count(lines.String(), "level=WARN"), 2)
		expect(t, "given up", strings.Count(lines.String(), "key is given up and parked\" controller=test key=k attempt=2 err=boom"), 1)
		expect(t, "calls of the user's hook", heard, 1)
	})
}

func TestSourceThatKeepsFailingIsLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		c := newController(t, record[string](nil), &reconcile.Options[string]{Logger: logger})
		if err := c.Watch(reconcile.Source[string]{Name: "s", Run: func(ctx context.Context, to reconcile.Sink[string]) error {
			to.Synced()
			return errBoom
		}}, reconcile.Source[string]{Name: "r", Run: func(ctx context.Context, to reconcile.Sink[string]) error {
			to.Synced()
			for range 3 {
				to.(reconcile.Reporter).Failed(errBoom)
			}
			to.(reconcile.Reporter).Failed(nil)
			<-ctx.Done()
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		pass(time.Hour)
		if n := c.Snapshot().Sources[0].Restarts; n < 30 {
			t.Errorf("%d restarts, want many", n)
		}
		expect(t, "lines about s", strings.Count(lines.String(), "source failed\" controller=test err=boom source=s"), 1)
		expect(t, "lines about r", strings.Count(lines.String(), "source failed\" controller=test err=boom source=r"), 1)
		expect(t, "recoveries", strings.Count(lines.String(), "works again\" controller=test source=r failures=3"), 1)
	})
}

// The texts of errors come from clouds and stores too; what is kept and shown of
// them is bounded, and errors.Is and errors.As still find the error.
//
// Negative control: without store.Brief in the log line of a failure (kernel.go) it has 3 MiB.
func TestErrorTextsAreCut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		long := errors.Join(errBoom, errors.New(strings.Repeat("€", 1<<20)))
		c := newController(t, script[string](fails(long)), &reconcile.Options[string]{Logger: logger, Backoff: exactly(time.Hour)})
		if err := c.Watch(reconcile.Source[string]{Name: "s", Run: func(ctx context.Context, to reconcile.Sink[string]) error {
			to.Synced()
			to.(reconcile.Reporter).Failed(long)
			<-ctx.Done()
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		add(t, c, "k")
		start(t, c)
		pass(time.Second)
		for line := range strings.Lines(lines.String()) {
			if strings.Contains(line, "controller synced") {
				continue
			}
			if len(line) > store.MaxMessage+300 || !strings.Contains(line, "…") {
				t.Errorf("a line of %d bytes: %.100s", len(line), line)
			}
		}
		expect(t, "lines", strings.Count(lines.String(), "\n"), 3) // one: it synced
		// The queue shows so much of an error.
		const maxErrorText = 1024
		for e := range c.Queue().Snapshot() {
			if n := len(e.LastError.Error()); n > maxErrorText || n < maxErrorText-3 || !errors.Is(e.LastError, errBoom) {
				t.Errorf("the queue shows an error of %d bytes that is boom: %v", n, errors.Is(e.LastError, errBoom))
			}
		}
		if n := len(c.Snapshot().Error); n > store.MaxMessage {
			t.Errorf("the snapshot shows an error of %d bytes", n)
		}
	})
}

func TestManagerLogsASummaryPerIntervalWhenAsked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		c := newController(t, record(func(_ context.Context, k string) (result, error) {
			switch k {
			case "bad":
				return result{}, reconcile.Terminal(errBoom)
			case "busy":
				return result{}, ratelimit.Throttled(nil, time.Now().Add(25*time.Second), nil)
			}
			return result{RequeueAfter: 7 * time.Second}, nil
		}), &reconcile.Options[string]{Logger: logger, Hooks: reconcile.Hooks[string]{OnError: func(reconcile.Failure[string]) {}}})
		m := &reconcile.Manager{Summary: time.Minute}
		if err := m.Register(c); err != nil {
			t.Fatal(err)
		}
		add(t, c, "good", "bad", "busy")
		run := start(t, m)
		pass(3*time.Minute + time.Second)
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		var got []string
		for line := range strings.Lines(lines.String()) {
			_, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "msg=")
			if strings.Contains(text, "summary") {
				got = append(got, text)
			}
		}
		const rest = " failing=0 givenUp=1 stuck=0 ready=0 oldestReady=0s running=0 delayed=1 backingOff=1 held=0 waitingForQuota=0 in=1m0s"
		expectList(t, "lines", got,
			`"reconcile: summary" controller=test runs=13 failed=1 throttled=3`+rest,
			`"reconcile: summary" controller=test runs=11 failed=0 throttled=2`+rest,
			`"reconcile: summary" controller=test runs=11 failed=0 throttled=3`+rest)
	})
}

// sick is a backend that says that it does not answer.
type sick struct {
	store.FullBackend
	since atomic.Pointer[time.Time]
}

func (s *sick) Health() error {
	if since := s.since.Load(); since != nil {
		return &store.UnavailableError{Since: *since, Err: errors.New("no answer from 10.0.0.7:2379")}
	}
	return nil
}

// A minute's summary in an outage of the store is a warning that says so, and which shards are
// left: no runs, no failures and no keys looked like an idle service.
//
// Before: level=INFO … runs=0 failed=0 throttled=0 ready=0 … in=1m0s.
func TestSummaryInAnOutageDoesNotLookIdle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		b := &sick{FullBackend: newBackend(t)}
		p := newHandPlaced(3)
		c := newController(t, record[store.Key](nil), &reconcile.Options[store.Key]{Logger: logger, Placement: p})
		if err := c.Watch(reconcile.From(newCache(t, newStore(t, b, "thing")))); err != nil {
			t.Fatal(err)
		}
		m := &reconcile.Manager{Summary: time.Minute}
		if err := m.Register(c); err != nil {
			t.Fatal(err)
		}
		start(t, m)
		p.give(0, 1)
		pass(time.Minute + time.Second)
		down := time.Now()
		b.since.Store(&down)
		pass(time.Minute)
		got := logged(lines, "summary")
		if len(got) != 2 || !strings.Contains(got[0], " shards=2/3 in=") {
			t.Fatalf("the summaries are %q, want two, and the shards in the first", got)
		}
		want := ` shards=2/3 store="has not answered since ` + down.Format(time.TimeOnly) + `" err="no answer from 10.0.0.7:2379" in=1m0s`
		if !strings.HasSuffix(strings.TrimSpace(got[1]), want) || strings.Count(lines.String(), "level=WARN msg=\"reconcile: summary\"") != 1 {
			t.Errorf("in the outage it is %q, want a warning that ends in %q", got[1], want)
		}
	})
}

// OnAdd hears of the changes that woke a key, not of what was there at the start.
func TestOnAddHearsWhichChangeAddsAKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		create(t, s, "old", ref("mapped"))
		var heard list[string]
		ca := newCache(t, s)
		c := newController(t, record[store.Key](nil), &reconcile.Options[store.Key]{Hooks: reconcile.Hooks[store.Key]{
			OnAdd: func(k store.Key, by reconcile.Origin) {
				heard.add(fmt.Sprint(by.Controller, " ", k, " by ", by.Source, ": ", by.Kind, " ", by.Key, " ", by.Revision))
			},
		}})
		if err := c.Watch(reconcile.From(ca), reconcile.Map(ca, byRef)); err != nil {
			t.Fatal(err)
		}
		m := new(reconcile.Manager)
		if err := m.Register(c); err != nil {
			t.Fatal(err)
		}
		start(t, m)
		pass(time.Second)
		expectList(t, "at the start", heard.get())
		o := create(t, s, "new", ref("target"))
		pass(time.Second)
		got := heard.get()
		slices.Sort(got)
		expectList(t, "after a change", got,
			fmt.Sprintf("test %v by thing: thing %v %d", key("new"), key("new"), o.Revision),
			fmt.Sprintf("test %v by thing mapped: thing %v %d", key("target"), key("new"), o.Revision))
	})
}

// Of a change that is mapped to keys of several shards, OnAdd hears of the keys that this server runs.
func TestOnAddHearsOfTheKeysOfThisServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		hash := func(k string) uint64 { return uint64(k[0]) }
		var keys []string
		for r := 'a'; r <= 'z'; r++ {
			keys = append(keys, string(r))
		}
		var heard list[string]
		p := newHandPlaced(2)
		c := newController(t, record[string](nil), &reconcile.Options[string]{Placement: p, Hash: hash, Hooks: reconcile.Hooks[string]{
			OnAdd: func(k string, _ reconcile.Origin) { heard.add(k) },
		}})
		if err := c.Watch(reconcile.Map(newCache(t, s), func(context.Context, *thing, *thing) ([]string, error) { return keys, nil })); err != nil {
			t.Fatal(err)
		}
		startManaged(t, c)
		p.give(0)
		create(t, s, "new")
		pass(time.Second)
		mine := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return lease.Shard(hash(k), 2) != 0 })
		if len(mine) == 0 || len(mine) == len(keys) {
			t.Fatalf("of the keys %q are in the shard: this shows nothing", mine)
		}
		expectList(t, "OnAdd heard", heard.get(), mine...)
	})
}

// What middleware adds to a run's log is in the lines of its Logger, also of one that was
// asked for before, in the kernel's line of how the run ended, and in no other run's.
//
// Negative control: where addToLog keeps the lines of before, the line "after" lacks it.
func TestMiddlewareAddsToTheLinesOfItsRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		runs := 0
		c := newController(t, reconcile.Func[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
			log := reconcile.Logger(ctx)
			log.Info("before")
			runs++
			reconcile.AddToLog(ctx, slog.Int("trace", runs))
			reconcile.AddToLog(ctx, slog.String("span", fmt.Sprint("s", runs)))
			log.Info("after")
			if runs == 1 {
				return reconcile.Result{}, errBoom
			}
			return reconcile.Result{}, nil
		}), &reconcile.Options[string]{Logger: logger, Backoff: exactly(time.Second)})
		add(t, c, "k")
		start(t, c)
		pass(time.Minute)
		for text, want := range map[string][]string{
			"before":      {"", ""},
			"after":       {" trace=1 span=s1", " trace=2 span=s2"},
			"run failed":  {" trace=1 span=s1"},
			"works again": {" trace=2 span=s2"},
		} {
			found := logged(lines, text)
			if len(found) != len(want) {
				t.Errorf("%q: %d lines, want %d: %v", text, len(found), len(want), found)
				continue
			}
			for i, line := range found {
				_, added, _ := strings.Cut(line, " trace=")
				if want[i] == "" && added != "" || want[i] != "" && " trace="+added != want[i] {
					t.Errorf("%q, run %d: %s, want it to end with %q", text, i+1, line, want[i])
				}
			}
		}
		reconcile.AddToLog(t.Context(), slog.Int("trace", 0)) // outside of a run: nothing
	})
}

// The line of a stuck run has what was added, too.
func TestStuckRunsLineHasWhatWasAdded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		release := make(chan struct{})
		c := newController(t, reconcile.Func[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
			reconcile.AddToLog(ctx, slog.String("trace", "t1"))
			<-release
			return reconcile.Result{}, nil
		}), &reconcile.Options[string]{Logger: logger, Timeout: time.Second})
		add(t, c, "k")
		start(t, c)
		pass(time.Hour)
		close(release)
		if found := logged(lines, "run is stuck"); len(found) != 1 || !strings.HasSuffix(found[0], " trace=t1") {
			t.Errorf("%q, want one line that ends with trace=t1", found)
		}
	})
}

// The line of a stuck run says what it waits for: the innermost of the notes that are there
// when the run is looked at, whatever others were made and ended before.
//
// Negative control: mutant "a wait that has ended takes the one around it along".
func TestStuckRunsLineSaysWhatItWaitsFor(t *testing.T) {
	inrun.WaitsFor(t.Context(), "nothing")() // outside of a run: nothing
	// Each letter begins a wait, each dot ends the innermost.
	for _, steps := range []string{"", "a", "a.", "ab", "ab.", "ab..", "a.b", "abc.", "abc..", "ab.c", "ab.c.", "ab.c..", "abc.d..", "a.b.c.", "ab.c.."} {
		bubble(t, func(t *testing.T) {
			logger, lines := quiet()
			release := make(chan struct{})
			want := "it goes on although its context ended"
			c := newController(t, reconcile.Func[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
				var open []string
				var ends []func()
				for step := range strings.SplitSeq(steps, "") {
					if step != "." {
						open, ends = append(open, step), append(ends, inrun.WaitsFor(ctx, "wait "+step))
						continue
					}
					last := len(open) - 1
					ends[last]()
					open, ends = open[:last], ends[:last]
				}
				if len(open) > 0 {
					want = "it waits for wait " + open[len(open)-1]
				}
				<-release
				return reconcile.Result{}, nil
			}), &reconcile.Options[string]{Logger: logger, Timeout: time.Second})
			add(t, c, "k")
			start(t, c)
			pass(time.Hour)
			close(release)
			if found := logged(lines, "run is stuck"); len(found) != 1 || !strings.Contains(found[0], want+`"`) {
				t.Errorf("after %q: %q, want one line with %q", steps, found, want)
			}
		})
	}
}
