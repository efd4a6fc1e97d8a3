package debug_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/web/debug"
)

type reconciler = func(ctx context.Context, key string) (reconcile.Result, error)

// single runs f in fake time with the page of a controller named "volumes" whose
// reconciler is run.
func single(t *testing.T, o reconcile.Options[string], run reconciler, f func(c *reconcile.Controller[string], h http.Handler)) {
	t.Helper()
	with(t, func() (*reconcile.Controller[string], error) {
		o.Logger = slog.New(slog.DiscardHandler)
		return reconcile.New("volumes", reconcile.Func[string](run), &o)
	}, f)
}

// with is single for the controller that build makes.
func with(t *testing.T, build func() (*reconcile.Controller[string], error), f func(c *reconcile.Controller[string], h http.Handler)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := must(build())
		var m reconcile.Manager
		if err := m.Register(c); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }() // ended by cancel, waited for below
		defer func() {
			cancel()
			<-done
		}()
		synctest.Wait()
		f(c, must(debug.New(&m, &debug.Options{Authorise: func(*http.Request, debug.Action) error { return nil }})))
	})
}

func add(t *testing.T, c *reconcile.Controller[string], keys ...string) {
	t.Helper()
	for _, k := range keys {
		if err := c.Add(k); err != nil {
			t.Fatal(err)
		}
	}
}

// ignoresItsContext is looked for by its name in a stack.
func ignoresItsContext(release <-chan struct{}) { <-release }

// Seen to fail: the page of a stuck key said "it is running", and nothing else.
func TestPageOfAStuckKeySaysSoAndWhereItStands(t *testing.T) {
	var release chan struct{}
	reconciler := func(_ context.Context, key string) (reconcile.Result, error) {
		if strings.HasPrefix(key, "stuck") {
			ignoresItsContext(release)
		}
		return reconcile.Result{}, nil
	}
	for _, batch := range []bool{false, true} {
		o := reconcile.Options[string]{Workers: 2, Timeout: 10 * time.Second}
		check := func(c *reconcile.Controller[string], h http.Handler) {
			release = make(chan struct{}) // of this bubble
			add(t, c, "stuck")
			time.Sleep(3 * time.Second)
			wantAll(t, get(t, h, http.StatusOK, "c", "volumes", "key", "stuck", "format", "text"),
				"it is running for 3 s", "ignoresItsContext", "faults_test.go:")
			time.Sleep(time.Minute)
			for _, format := range []string{"text", "html", "json"} {
				text := get(t, h, http.StatusOK, "c", "volumes", "key", "stuck", "format", format)
				wantAll(t, text, "stuck", "past its deadline", "ignoresItsContext")
			}
			close(release)
		}
		if !batch {
			single(t, o, reconciler, check)
			continue
		}
		with(t, func() (*reconcile.Controller[string], error) {
			o.Logger = slog.New(slog.DiscardHandler)
			return reconcile.NewBatch("volumes", batchOf(reconciler), &o)
		}, check)
	}
}

// Seen to fail: a throttled key "failed 0 times in a row", and was under Failing.
func TestThrottledKeyHasNotFailed(t *testing.T) {
	single(t, reconcile.Options[string]{}, func(context.Context, string) (reconcile.Result, error) {
		return reconcile.Result{}, ratelimit.Throttled(nil, time.Now().Add(time.Minute), errors.New("429 Too Many Requests"))
	}, func(c *reconcile.Controller[string], h http.Handler) {
		add(t, c, "k")
		time.Sleep(6 * time.Second)
		page := get(t, h, http.StatusOK, "c", "volumes", "key", "k", "format", "text")
		wantAll(t, page, "asked it to wait", "counts as no failure", "in 54 s", "429")
		if strings.Contains(page, "0 times") {
			t.Errorf("it failed 0 times:\n%s", page)
		}
		overview := get(t, h, http.StatusOK, "format", "text")
		wantAll(t, overview, "All is well: nothing fails", "throttled runs")
	})
}

// Seen to fail: "0 succeeded, 3 again by themselves".
func TestHealthyPollerSucceeds(t *testing.T) {
	single(t, reconcile.Options[string]{}, func(context.Context, string) (reconcile.Result, error) {
		return reconcile.Result{RequeueAfter: time.Minute}, nil
	}, func(c *reconcile.Controller[string], h http.Handler) {
		add(t, c, "k")
		time.Sleep(2*time.Minute + time.Second)
		page := get(t, h, http.StatusOK, "c", "volumes", "format", "text")
		wantAll(t, page, "3 succeeded, 3 of them to run again at a time of their own")
		if strings.Contains(page, "last error") {
			t.Errorf("a column without any value is shown:\n%s", page)
		}
	})
}

// Seen to fail: the overview had no search.
func TestOverviewSearchesTheKeysOfAllControllers(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, h http.Handler) {
		add(t, w.Audit, "data-audit")
		synctest.Wait()
		wantAll(t, get(t, h, http.StatusOK), `type="search"`)
		text := get(t, h, http.StatusOK, "view", "search", "q", "data", "format", "text")
		wantAll(t, text, "data-audit", "audit", "data", "bucket")
		if strings.Contains(text, "parked-b") {
			t.Errorf("it found what does not contain the text:\n%s", text)
		}
		wantAll(t, get(t, h, http.StatusOK, "view", "search", "q", "no such key", "format", "text"), "no key that a queue knows contains this text")
		wantAll(t, get(t, h, http.StatusOK, "view", "search", "q", "parked-b"), `<a href="?c=bucket&amp;key=parked-b">parked-b</a>`)
		for _, format := range []string{"html", "json", "text"} {
			wantAll(t, get(t, h, http.StatusOK, "view", "search", "q", "script", "format", format), "script")
		}
	})
}

// Seen to fail: the graph was Mermaid's source text.
func TestGraphIsDrawn(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, h http.Handler) {
		html := get(t, h, http.StatusOK)
		wantAll(t, html, "<svg", `role="img"`, "</svg>")
		if strings.Contains(html, "flowchart") {
			t.Error("the page shows Mermaid's text")
		}
		wantAll(t, get(t, h, http.StatusOK, "format", "text"), "== What wakes what", "bucket")
		wantAll(t, get(t, h, http.StatusOK, "format", "json"), "flowchart LR")
	})
}

// Seen to fail: a click on "forget" forgot.
func TestActionIsAskedAboutBefore(t *testing.T) {
	var asked []debug.Action
	bubble(t, allow(&asked), func(t *testing.T, w *world, h http.Handler) {
		for _, at := range [][]string{{"c", "bucket", "key", "parked-b"}, {"c", "bucket"}} {
			if html := get(t, h, http.StatusOK, at...); strings.Contains(html, `method="post"`) {
				t.Errorf("%v: a button acts at once:\n%s", at, html)
			}
		}
		html := get(t, h, http.StatusOK, "c", "bucket", "key", "parked-b")
		wantAll(t, html, `href="?ask=forget&amp;c=bucket&amp;key=parked-b"`, `href="?ask=kick&amp;c=bucket&amp;key=parked-b"`)
		if strings.Contains(html, "ask=resume") {
			t.Error("a key that is not paused can be resumed")
		}
		html = get(t, h, http.StatusOK, "c", "bucket", "key", "parked-b", "ask", "forget")
		wantAll(t, html, `method="post"`, `name="do" value="forget"`, "parked-b", "takes the key out of the queue")
		html = get(t, h, http.StatusOK, "c", "bucket", "ask", "workers")
		wantAll(t, html, `type="number"`, `value="4"`)
		get(t, h, http.StatusBadRequest, "c", "bucket", "ask", "explode")
		get(t, h, http.StatusNotFound, "c", "none", "ask", "pause")
	})
	if len(asked) != 0 {
		t.Errorf("questions acted: %+v", asked)
	}
	bubble(t, nil, func(t *testing.T, w *world, h http.Handler) {
		get(t, h, http.StatusNotFound, "c", "bucket", "ask", "pause") // nothing is allowed, so nothing is asked
	})
}

// Seen to fail: a page could only be reloaded by hand.
func TestPageRefreshesIfAskedTo(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, h http.Handler) {
		if html := get(t, h, http.StatusOK, "c", "bucket"); strings.Contains(html, "http-equiv") {
			t.Error("it refreshes without being asked to")
		} else {
			wantAll(t, html, `href="?c=bucket&amp;refresh=5"`)
		}
		wantAll(t, get(t, h, http.StatusOK, "c", "bucket", "refresh", "5"), `<meta http-equiv="refresh" content="5">`, `<a href="?c=bucket">stop`)
		get(t, h, http.StatusBadRequest, "refresh", "0")
		get(t, h, http.StatusBadRequest, "refresh", "5;url=http://evil.example")
	})
}

// batchOf runs the keys of a batch one after the other.
type batchOf reconciler

func (b batchOf) ReconcileBatch(ctx context.Context, keys []string) []reconcile.Outcome {
	out := make([]reconcile.Outcome, len(keys))
	for i, k := range keys {
		out[i].Result, out[i].Err = b(ctx, k)
	}
	return out
}

// "What it calls asked it to wait, which counts as no failure", said the page of a key that had
// failed, and whose runs since then waited for another object.
//
// Negative control: mutant "a key that still fails was throttled".
func TestKeyThatStillFailsIsNotShownAsThrottled(t *testing.T) {
	runs := 0
	single(t, reconcile.Options[string]{}, func(context.Context, string) (reconcile.Result, error) {
		if runs++; runs == 1 {
			return reconcile.Result{}, errors.New("409 the name is taken")
		}
		return reconcile.Result{StillFailing: true, RequeueAfter: time.Minute}, nil
	}, func(c *reconcile.Controller[string], h http.Handler) {
		add(t, c, "k")
		time.Sleep(10 * time.Second)
		for _, format := range []string{"text", "html"} {
			page := get(t, h, http.StatusOK, "c", "volumes", "key", "k", "format", format)
			wantAll(t, page, "it failed once, and is tried again in ", "409 the name is taken")
			if strings.Contains(page, "asked it to wait") {
				t.Errorf("nothing asked it to wait:\n%s", page)
			}
		}
		if k, _ := inspected(c).Key(t.Context(), "k"); k.Throttled || k.Attempts != 1 || runs < 2 {
			t.Errorf("after %d runs it is %+v", runs, k)
		}
	})
}

// Result.Requeue raises the attempts, for its backoff, and is no failure: a key that asked to run again
// and was asked to wait since then does not fail, and is not retried as one that does.
// Seen to fail: "volumes: k fails (429 Too Many Requests)", in red.
func TestKeyThatAskedToRunAgainDoesNotFail(t *testing.T) {
	runs := 0
	single(t, reconcile.Options[string]{}, func(context.Context, string) (reconcile.Result, error) {
		if runs++; runs < 3 {
			return reconcile.Result{Requeue: true}, nil
		}
		return reconcile.Result{}, ratelimit.Throttled(nil, time.Now().Add(time.Minute), errors.New("429 Too Many Requests"))
	}, func(c *reconcile.Controller[string], h http.Handler) {
		add(t, c, "k")
		time.Sleep(10 * time.Second)
		k, _ := inspected(c).Key(t.Context(), "k")
		if k.Failing || !k.Throttled || k.Attempts == 0 {
			t.Fatalf("after %d runs it is %+v", runs, k)
		}
		overview := get(t, h, http.StatusOK, "format", "text")
		wantAll(t, overview, "All is well: nothing fails, and nothing is stuck.")
		page, err := inspected(c).Keys(t.Context(), "", &queue.PageOptions{Failed: true})
		if err != nil || len(page.Entries) != 0 {
			t.Errorf("keys that failed: %+v, %v; want none", page.Entries, err)
		}
		if one := get(t, h, http.StatusOK, "c", "volumes", "key", "k", "format", "text"); strings.Contains(one, "failures in a row") {
			t.Errorf("failures are shown where none was:\n%s", one)
		}
	})
}
