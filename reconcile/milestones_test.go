package reconcile_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// logged are the lines of a log without time and level, those with this text.
func logged(lines *lockedBuffer, text string) (found []string) {
	for line := range strings.Lines(lines.String()) {
		if _, msg, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "msg="); strings.Contains(msg, text) {
			found = append(found, msg)
		}
	}
	return found
}

// loggingServer is a server with a log and a manager of its own.
type loggingServer struct {
	lines *lockedBuffer
	run   *running
}

func startLogging(t *testing.T, s *things, p func(logger *slog.Logger) lease.Placement) *loggingServer {
	t.Helper()
	logger, lines := quiet()
	c := newController(t, record[store.Key](nil), &reconcile.Options[store.Key]{Placement: p(logger), Logger: logger})
	noError(t, c.Watch(reconcile.From(newCache(t, s))))
	m := &reconcile.Manager{Logger: logger}
	noError(t, m.Register(c))
	return &loggingServer{lines, start(t, m)}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A healthy life is a handful of lines, each once: started, won, synced, drains, ended. The
// server that takes over says from which.
func TestAHealthyLifeIsLoggedOnceEach(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(t)
		s := newStore(t, b, "thing")
		for i := range 3 {
			create(t, s, fmt.Sprint("thing-", i))
		}
		singleton := func(name string) func(*slog.Logger) lease.Placement {
			return func(logger *slog.Logger) lease.Placement {
				return must[lease.Placement](t)(lease.NewSingleton(b, "things", &lease.Options{Server: name, Logger: logger}))
			}
		}
		one := startLogging(t, s, singleton("one"))
		pass(time.Minute)
		two := startLogging(t, s, singleton("two"))
		pass(time.Minute)
		for text, want := range map[string]int{
			"manager started": 1, "controllers=[test]": 1, "lease won": 1, "controller synced": 1, "objects=3 keys=": 1,
			"drains": 0, "ended": 0, "from=": 0, "level=WARN": 0,
		} {
			expect(t, "the first says "+text, strings.Count(one.lines.String(), text), want)
		}
		expect(t, "the second says that it won", len(logged(two.lines, "lease won")), 0)
		noError(t, one.run.end())
		pass(time.Minute)
		for text, want := range map[string]int{"controller drains": 1, "controller ended": 1, "manager ended": 1, "level=WARN": 0} {
			expect(t, "the first, stopped, says "+text, strings.Count(one.lines.String(), text), want)
		}
		expect(t, "the second says from which it took over", strings.Count(two.lines.String(), "from=[one]"), 1)
		expect(t, "the second says that it synced", strings.Count(two.lines.String(), "objects=3"), 1)
		noError(t, two.run.end())
	})
}

// A lease that is lost is a warning, with the reason.
func TestALostLeaseIsAWarning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := manual(t, nil)
		server := startLogging(t, newStore(t, newBackend(t), "thing"), func(*slog.Logger) lease.Placement { return p })
		p.Set(true, 1)
		synctest.Wait()
		p.Set(false, 2)
		synctest.Wait()
		expect(t, "lines", len(logged(server.lines, "lease won")), 1)
		if lost := logged(server.lines, "lease lost"); len(lost) != 1 || !strings.Contains(lost[0], "err=") {
			t.Errorf("logged %q, want one line with the reason", lost)
		}
		noError(t, server.run.end())
	})
}

// Shards that come and go together are one line, with the servers that had them.
//
// Negative control: without the timer there are up to 32 lines.
func TestManyShardsAreOneLine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(t)
		s := newStore(t, b, "thing")
		sharded := func(name string) func(*slog.Logger) lease.Placement {
			return func(logger *slog.Logger) lease.Placement {
				return must[lease.Placement](t)(lease.NewSharded(b, "things", 32, &lease.Options{Server: name, Logger: logger}))
			}
		}
		one := startLogging(t, s, sharded("one"))
		pass(time.Minute)
		expect(t, "lines of the first", logged(one.lines, "shards gained")[0],
			`"reconcile: shards gained" controller=test lease="sharded \"things\" over 32" held=32 of=32 gained=32`)
		two := startLogging(t, s, sharded("two"))
		pass(time.Minute)
		gave, won := logged(one.lines, "shards handed over"), logged(two.lines, "shards gained")
		// The first may have handed them over before the second looked: then it has not
		// heard from which.
		if len(gave) != 1 || len(won) != 1 || !strings.Contains(won[0], "gained=16") {
			t.Errorf("logged %q and %q, want one line each", gave, won)
		}
		noError(t, one.run.end())
		pass(time.Minute)
		if won = logged(two.lines, "shards gained"); len(won) != 2 || !strings.Contains(won[1], "held=32 of=32") || !strings.HasSuffix(won[1], "from=[one]") {
			t.Errorf("logged %q, want what the second has in the end, and from which", won)
		}
		noError(t, two.run.end())
		if slices.ContainsFunc(logged(two.lines, ""), func(line string) bool { return strings.Contains(line, "lost") }) {
			t.Errorf("an orderly stop is logged as a loss:\n%s", two.lines)
		}
	})
}
