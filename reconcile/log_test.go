package reconcile_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
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
		expect(t, "lines after another success", strings.Count(b.String(), "\n"), 6)
	})
}

// An urgent add starts the attempts anew; that is neither a new row nor does it
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

// What counts no failure is no line, and does not hide the failure after it.
func TestThrottledAndRequeuedRunsAreNotLoggedAsFailures(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		again := reconcile.Outcome{Result: result{Requeue: true}}
		busy := fails(queue.Throttled(nil, time.Now().Add(5*time.Second), errors.New("busy")))
		c := newController(t, script[string](again, again, busy, fails(errBoom), again), &reconcile.Options[string]{Logger: logger, Backoff: exactly(time.Second)})
		add(t, c, "k")
		start(t, c)
		pass(time.Minute)
		expect(t, "warnings", strings.Count(lines.String(), "level=WARN"), 1)
		expect(t, "recoveries", strings.Count(lines.String(), "works again"), 1)
		expect(t, "lines", strings.Count(lines.String(), "\n"), 2)
	})
}

func TestParkedKeyIsALineOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		c := newController(t, script[string](fails(errBoom), fails(reconcile.Terminal(errBoom))), &reconcile.Options[string]{Logger: logger, Backoff: exactly(time.Second)})
		add(t, c, "k")
		start(t, c)
		pass(time.Minute)
		expect(t, "lines", strings.Count(lines.String(), "\n"), 2)
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
		expect(t, "lines", strings.Count(lines.String(), "\n"), 2)
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
// them is bounded, and who asks what error it is still finds out.
//
// Negative control: without Brief in failedAgain the line has 3 MiB.
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
			if len(line) > store.MaxMessage+300 || !strings.Contains(line, "…") {
				t.Errorf("a line of %d bytes: %.100s", len(line), line)
			}
		}
		expect(t, "lines", strings.Count(lines.String(), "\n"), 2)
		for e := range c.Queue().Snapshot() {
			if n := len(e.LastError.Error()); n > queue.MaxErrorText || n < queue.MaxErrorText-3 || !errors.Is(e.LastError, errBoom) {
				t.Errorf("the queue shows an error of %d bytes that is boom: %v", n, errors.Is(e.LastError, errBoom))
			}
		}
		if n := len(c.Snapshot().Error); n > store.MaxMessage {
			t.Errorf("the snapshot shows an error of %d bytes", n)
		}
	})
}
