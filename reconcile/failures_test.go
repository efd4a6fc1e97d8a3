package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
)

// outage is a cloud that every key needs. Its errors name the key and a request.
type outage struct {
	mu       sync.Mutex
	err      error
	requests int
}

func (o *outage) says(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
}

func (o *outage) run(_ context.Context, key string) (result, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests++
	if o.err == nil {
		return result{}, nil
	}
	return result{}, fmt.Errorf("PUT %s: %w (request %d)", key, o.err, o.requests)
}

func manyKeys(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("db-%05d", i))
	}
	return keys
}

// messages are the lines from a level up, without their times, each with how many there are.
func messages(lines *lockedBuffer) map[string]int {
	all := map[string]int{}
	for line := range strings.Lines(lines.String()) {
		_, text, _ := strings.Cut(line, "msg=")
		text, _, _ = strings.Cut(strings.TrimPrefix(text, `"`), `"`)
		all[text]++
	}
	return all
}

// A fault of what 700 keys need is a handful of lines: three keys by name at once, then how many
// there are and ever more seldom, another cause when it changes, and one line when it ends.
//
// Seen to fail: with a line for each key there are 4,867.
func TestFaultOfManyKeysIsAHandfulOfLines(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		cloud := &outage{}
		c := newController(t, reconcile.Func[string](cloud.run), &reconcile.Options[string]{
			Logger: logger, Workers: 1, Backoff: queue.Backoff{Base: time.Second, Max: 10 * time.Second}, Resync: time.Minute,
		})
		add(t, c, manyKeys(700)...)
		start(t, c)
		pass(time.Minute)
		expect(t, "lines of a healthy minute", len(messages(lines)), 1) // it synced
		cloud.says(errors.New("500 Internal Server Error"))
		add(t, c, manyKeys(700)...)
		pass(5 * time.Second)
		got := messages(lines)
		expect(t, "keys that are named at once", got["reconcile: run failed"], 3)
		pass(10 * time.Minute)
		got = messages(lines)
		expect(t, "keys that are named", got["reconcile: run failed"], 3)
		if n := got["reconcile: runs fail for one cause"]; n < 2 || n > 6 {
			t.Errorf("%d lines about all keys in ten minutes, want a few", n)
		}
		last := logged(lines, "runs fail for one cause")
		if n := len(last); n == 0 || !strings.Contains(last[n-1], "keys=700 first=db-") || !strings.Contains(last[n-1], "500 Internal Server Error") {
			t.Errorf("the lines are %q, want them to say how many keys fail, a key and the error", last)
		}
		cloud.says(errors.New("403 ExpiredToken"))
		pass(5 * time.Minute)
		got = messages(lines)
		expect(t, "keys that are named, of two causes", got["reconcile: run failed"], 6)
		expect(t, "ends while the keys fail for another cause", got["reconcile: works again"], 0)
		cloud.says(nil)
		pass(5 * time.Minute)
		ends := logged(lines, "works again")
		if len(ends) != 1 || !strings.Contains(ends[0], "keys=700") || !strings.Contains(ends[0], "403 ExpiredToken") {
			t.Errorf("the end is %q, want one line with the number of keys and the error", ends)
		}
		if n := strings.Count(lines.String(), "\n"); n > 25 {
			t.Errorf("%d lines in all, want a handful for each of two causes:\n%s", n, lines)
		}
		expect(t, "keys taken for failing at the end", reconcile.Ill(c), 0)
	})
}

// A key that fails for a cause of its own is named at once, also while 700 others fail.
func TestKeyWithACauseOfItsOwnIsNamedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		cloud := &outage{err: errors.New("503 Slow Down")}
		c := newController(t, reconcile.Func[string](func(ctx context.Context, key string) (result, error) {
			if key == "odd" {
				return result{}, errBoom
			}
			return cloud.run(ctx, key)
		}), &reconcile.Options[string]{Logger: logger, Backoff: exactly(time.Hour)})
		add(t, c, manyKeys(700)...)
		start(t, c)
		pass(time.Second)
		add(t, c, "odd")
		pass(time.Second)
		if found := logged(lines, "err=boom"); len(found) != 1 || !strings.Contains(found[0], "key=odd") {
			t.Errorf("the lines about the odd key are %q, want one", found)
		}
	})
}

// Keys that are given up for one cause are a handful of lines too, given up by the reconciler or
// by the queue.
//
// Seen to fail: with a line for each key there are 701.
func TestKeysGivenUpForOneCauseAreAHandfulOfLines(t *testing.T) {
	for what, o := range map[string]*reconcile.Options[string]{
		"by the reconciler": {},
		"by the queue":      {Queue: queue.Options[string]{MaxAttempts: 1}},
	} {
		bubble(t, func(t *testing.T) {
			logger, lines := quiet()
			o.Logger = logger
			c := newController(t, reconcile.Func[string](func(_ context.Context, key string) (result, error) {
				err := fmt.Errorf("create %s: size 0 is not allowed", key)
				if o.Queue.MaxAttempts == 0 {
					err = reconcile.Terminal(err)
				}
				return result{}, err
			}), o)
			add(t, c, manyKeys(700)...)
			start(t, c)
			pass(30 * time.Minute)
			named := strings.Count(lines.String(), "parked\"")
			if all := strings.Count(lines.String(), "\n"); named != 3 || all < 4 || all > 10 {
				t.Errorf("%s: %d keys are named in %d lines, want 3 in a handful:\n%s", what, named, all, lines)
			}
		})
	}
}

// Since when a key fails is known over retries, kicks, other errors and runs that were asked to
// wait; a success ends it, and the next failure begins it again.
//
// Before: the page had the time of the last try.
func TestKeyKnowsSinceWhenItFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, _ := quiet()
		busy := fails(ratelimit.Throttled(nil, time.Now().Add(time.Minute), errors.New("busy")))
		c := newController(t, script[string](fails(errBoom), busy, fails(errors.New("other")), fails(errBoom), reconcile.Outcome{}, fails(errBoom)),
			&reconcile.Options[string]{Logger: logger, Backoff: exactly(time.Minute)})
		since := func() time.Time {
			k, _ := inspected(t, c).Key(t.Context(), "k")
			if k.Failing != !k.FailingSince.IsZero() {
				t.Errorf("it fails: %t, since %v", k.Failing, k.FailingSince)
			}
			return k.FailingSince
		}
		add(t, c, "k")
		start(t, c)
		began := time.Now()
		pass(time.Second)
		for range 3 {
			pass(time.Minute)
			expect(t, "since", since(), began)
		}
		if err := c.Kick("k"); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		expect(t, "after a success, since", since(), time.Time{})
		add(t, c, "k")
		pass(0)
		expect(t, "after another failure, since", since(), time.Now())
	})
}

// What is kept of failing keys is bounded, also where each fails for a cause of its own and leaves
// without a success.
func TestFailuresThatAreRememberedAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		c := newController(t, reconcile.Func[string](func(_ context.Context, key string) (result, error) {
			return result{}, errors.New(strings.Map(func(r rune) rune { return r + 'a' - '0' }, key[3:])) // no digits
		}), &reconcile.Options[string]{Logger: logger, Backoff: exactly(time.Hour)})
		keys := manyKeys(1000)
		add(t, c, keys...)
		start(t, c)
		pass(time.Minute)
		if n := messages(lines)["reconcile: run failed"]; n < 200 || n > 210 {
			t.Errorf("%d causes have a line, want 200 and those of the rest", n)
		}
		expect(t, "failing keys", reconcile.Ill(c), 1000)
		for key := range slices.Values(keys) {
			c.Queue().Remove(key)
		}
		pass(2 * time.Minute)
		expect(t, "failing keys after they were removed", reconcile.Ill(c), 0)
	})
}
