package debug_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

// shop is a store of buckets with a controller, whose runs a test decides about.
type shop struct {
	manager    *reconcile.Manager
	store      *store.Store[spec, status]
	h          http.Handler
	controller *reconcile.Controller[reconcile.Request]
	quota      *ratelimit.Bucket
}

func withShop(t *testing.T, run func(s *shop, o *bucket) (reconcile.Result, error), f func(t *testing.T, s *shop)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		silent := slog.New(slog.DiscardHandler)
		s := &shop{manager: &reconcile.Manager{Logger: silent}, quota: must(ratelimit.NewBucket("cloud", 100, 100))}
		s.store = must(store.New[spec, status](must(memory.New(nil)), "bucket", nil))
		c := must(reconcile.For(s.store, func(ctx context.Context, o *bucket) (reconcile.Result, error) {
			return run(s, o)
		}, &reconcile.ForOptions[spec, status]{Options: reconcile.Options[reconcile.Request]{
			Logger: silent, Backoff: queue.Backoff{Base: time.Minute, Max: time.Minute, NoJitter: true},
			Queue: queue.Options[reconcile.Request]{Buckets: func(_ reconcile.Request, to []*ratelimit.Bucket) []*ratelimit.Bucket { return append(to, s.quota) }},
		}}))
		s.controller = c.Controller
		if err := s.manager.Register(c); err != nil {
			t.Fatal(err)
		}
		s.h = must(debug.New(s.manager, &debug.Options{Objects: []objects.Kind{objects.Of(s.store)}, Buckets: func() []*ratelimit.Bucket { return []*ratelimit.Bucket{s.quota} }, Logger: silent}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.manager.Run(ctx) }() // ended by cancel, waited for below
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		f(t, s)
	})
}

// makeReady is a run that brings about what is declared, or fails as the name says.
func makeReady(s *shop, o *bucket) (reconcile.Result, error) {
	if strings.HasPrefix(o.Name, "failing") {
		o.SetCondition(store.Condition{Type: store.ConditionSynced, Status: store.False, Reason: "Refused"})
		if _, err := s.store.UpdateStatus(context.Background(), o); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{}, errors.New("the name is taken")
	}
	o.SetReady()
	_, err := s.store.UpdateStatus(context.Background(), o)
	return reconcile.Result{}, err
}

func (s *shop) declare(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		_ = must(s.store.Create(t.Context(), &bucket{Meta: store.Meta{Name: n}}))
	}
	time.Sleep(time.Second)
	synctest.Wait()
}

// overview is the page as JSON.
func (s *shop) overview(t *testing.T) (v struct {
	Verdict  inspect.Verdict
	Overview struct {
		History struct {
			Controllers []struct{ Runs, Failures, Ready, OldestReadySeconds []float64 }
			Buckets     []struct{ Calls, Limit []float64 }
		}
	}
},
) {
	t.Helper()
	if err := json.Unmarshal([]byte(get(t, s.h, http.StatusOK, "format", "json")), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestOverviewSaysWhetherAllIsAsDeclared(t *testing.T) {
	withShop(t, makeReady, func(t *testing.T, s *shop) {
		s.declare(t, "a", "b")
		if v := s.overview(t).Verdict; v.Says != "All is well: all 2 objects are as declared." || v.Level != inspect.Well {
			t.Errorf("it says %q, it is %s", v.Says, v.Level)
		}
		s.declare(t, "failing-c")
		v := s.overview(t).Verdict
		if v.Says != "Not well. 1 of 3 objects is not as declared, for 1 s. 1 cause." || v.Level != inspect.NotWell || v.Causes[0].Why != "the name is taken" || v.Causes[0].Example != "failing-c" {
			t.Errorf("it says %q, it is %s", v.Says, v.Level)
		}
		wantAll(t, get(t, s.h, http.StatusOK), `<title>not well · `, `<p class="says says-bad" role="status">Not well. 1 of 3 objects is not as declared`, `<b>fails</b>: the name is taken`)
		wantAll(t, get(t, s.h, http.StatusOK, "format", "text"), "Not well. 1 of 3 objects is not as declared")
		wantAll(t, get(t, s.h, http.StatusOK, "view", "status", "format", "json"), `"says": "Not well. 1 of 3`, `"level": "not well"`)
		wantAll(t, get(t, s.h, http.StatusOK, "view", "status", "format", "text"), "Not well. 1 of 3", "fails: the name is taken")
		s.quota.Throttle(time.Now().Add(time.Minute))
		_ = must(s.store.Create(t.Context(), &bucket{Meta: store.Meta{Name: "waits"}}))
		synctest.Wait()
		v = s.overview(t).Verdict
		if !strings.HasPrefix(v.Says, "Not well. 2 of 4") || v.States["throttled"] != 1 || v.States["failing"] != 1 {
			t.Errorf("it says %q of %v", v.Says, v.States)
		}
		wantAll(t, get(t, s.h, http.StatusOK, "format", "text"), "cloud is paused for 1 min, 1 key wait")
	})
}

func TestFieldHasACellForEachObject(t *testing.T) {
	withShop(t, makeReady, func(t *testing.T, s *shop) {
		s.declare(t, "a", "b", "failing-c")
		page := get(t, s.h, http.StatusOK)
		wantAll(t, page, `<a href="?key=failing-c&amp;kind=bucket&amp;view=object" title="failing-c: failing" class="s-failing" tabindex="-1">`, `title="a: ready" class="s-ready"`)
		if n := strings.Count(page, `tabindex="-1"`); n != 3 {
			t.Errorf("%d cells for 3 objects", n)
		}
		// The cells are not reached by keyboard or screen reader: the table says the same.
		wantAll(t, page, `<div class="field" aria-hidden="true">`, `<a href="?kind=bucket&amp;state=failing&amp;view=objects">1</a>`)
		wantAll(t, get(t, s.h, http.StatusOK, "view", "objects", "kind", "bucket", "state", "failing", "format", "text"), "failing-c")
	})
}

// Many objects are a bar for each kind, which says how many are in which state; the fewest are seen
// too. A picture of 1,677 links that lead to one list told no more.
func TestManyObjectsAreABar(t *testing.T) {
	withShop(t, func(*shop, *bucket) (reconcile.Result, error) { return reconcile.Result{}, nil }, func(t *testing.T, s *shop) {
		for i := range 2001 {
			o := must(s.store.Create(t.Context(), &bucket{Meta: store.Meta{Name: fmt.Sprint("o-", i)}}))
			if i > 0 {
				o.SetReady()
				_ = must(s.store.UpdateStatus(t.Context(), o))
			}
		}
		time.Sleep(time.Minute) // the quota lets all run
		synctest.Wait()
		if states := s.overview(t).Verdict.States; states["ready"] != 2000 || states["waiting"] != 1 {
			t.Errorf("states %v", states)
		}
		page := get(t, s.h, http.StatusOK)
		wantAll(t, page, `<svg class="bar" role="img" aria-label="1 waiting, 2,000 as declared"`, `width="4" height="16" class="s-waiting"`, `class="s-ready"/>`, `href="?kind=bucket&amp;state=waiting&amp;view=objects">1</a>`)
		if strings.Contains(page, `tabindex="-1"`) {
			t.Error("there are cells of 2,001 objects")
		}
	})
}

func TestHistoryHasTheLastHour(t *testing.T) {
	withShop(t, func(s *shop, o *bucket) (reconcile.Result, error) {
		if o.Name == "failing" {
			return reconcile.Result{}, errors.New("no")
		}
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}, func(t *testing.T, s *shop) {
		s.declare(t, "a", "failing")
		time.Sleep(3 * time.Hour)
		if err := s.controller.SetWorkers(0); err != nil { // what is ready waits
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		h := s.overview(t).Overview.History
		c, b := h.Controllers[0], h.Buckets[0]
		if len(c.Runs) != 360 || len(b.Calls) != 360 {
			t.Fatalf("%d and %d samples of 10 s, want 360", len(c.Runs), len(b.Calls))
		}
		sum := func(values []float64) (n float64) {
			for _, v := range values {
				n += v
			}
			return n
		}
		before := 300 - 1 // samples before that, of the hour
		// A sample at the moment of a run may count its call and not yet the run itself: each
		// of the two objects makes one more or less, at the first sample and at the last.
		runs, calls := sum(c.Runs[:before]), sum(b.Calls[:before])
		if runs < 2900 || runs > 3100 || math.Abs(calls-runs) > 2 || b.Limit[0] != 1000 {
			t.Errorf("%v runs and %v calls in 50 minutes, limit %v", runs, calls, b.Limit[0])
		}
		if failures := sum(c.Failures); failures < 45 || failures > 55 {
			t.Errorf("%v failures in 50 minutes, want one a minute", failures)
		}
		if last := len(c.Ready) - 1; sum(c.Runs[302:]) != 0 || c.Ready[last] < 1 || c.OldestReadySeconds[last] < 500 {
			t.Errorf("without workers: %v runs, %v ready for %v s", sum(c.Runs[302:]), c.Ready[last], c.OldestReadySeconds[last])
		}
		wantAll(t, get(t, s.h, http.StatusOK), "<h2>The last hour</h2>", "oldest ready: <span>now ", `<polyline points="`, `class="limit"`)
		wantAll(t, get(t, s.h, http.StatusOK, "format", "text"), "== The last hour", "bucket cloud: calls in 10 s: now 0")
		wantAll(t, get(t, s.h, http.StatusOK, "c", "bucket"), "<h2>The last hour</h2>")
	})
}

// Seen to fail: the page of an object had no runs.
func TestPagesOfAKeyAndOfItsObjectShowItsLastRuns(t *testing.T) {
	withShop(t, func(_ *shop, o *bucket) (reconcile.Result, error) {
		time.Sleep(150 * time.Millisecond)
		if o.Name == "bad" {
			return reconcile.Result{}, errors.New("no")
		}
		return reconcile.Result{RequeueAfter: time.Minute}, nil
	}, func(t *testing.T, s *shop) {
		s.declare(t, "good", "bad")
		time.Sleep(time.Hour)
		page := get(t, s.h, http.StatusOK, "c", "bucket", "key", "good")
		if n := strings.Count(page, `class="s-ready"><title>`); n != 20 {
			t.Errorf("%d bars, want 20", n)
		}
		wantAll(t, page, "<h2>Last runs</h2>", "0 of the last 20 did not succeed", "succeeded, took 150ms")
		wantAll(t, get(t, s.h, http.StatusOK, "c", "bucket", "key", "bad"), "20 of the last 20 did not succeed", `class="s-failing"><title>`)
		wantAll(t, get(t, s.h, http.StatusOK, "c", "bucket", "key", "bad", "format", "text"), "== Last runs", "failed")
		wantAll(t, get(t, s.h, http.StatusOK, "c", "bucket", "key", "bad", "format", "json"), `"result": "failed"`)
		// An object's own page has the runs of each of its controllers.
		wantAll(t, get(t, s.h, http.StatusOK, "view", "object", "kind", "bucket", "key", "bad"), "<h2>Last runs</h2>", "20 of the last 20 did not succeed")
		wantAll(t, get(t, s.h, http.StatusOK, "view", "object", "kind", "bucket", "key", "bad", "format", "json"), `"recent": [`)
	})
}

// To pause 200 objects for maintenance turned the field red: "200 failing". Packages external and
// lifecycle say Synced=False of a paused object.
//
// Negative control: mutant "a paused object fails".
func TestPausedObjectIsNotFailing(t *testing.T) {
	withShop(t, func(s *shop, o *bucket) (reconcile.Result, error) {
		if !o.Paused {
			return makeReady(s, o)
		}
		o.SetCondition(store.Condition{Type: store.ConditionSynced, Status: store.False, Reason: "ReconcilePaused"})
		_, err := s.store.UpdateStatus(context.Background(), o)
		return reconcile.Result{}, err
	}, func(t *testing.T, s *shop) {
		s.declare(t, "a", "b", "failing-c")
		for _, name := range []string{"a", "b"} {
			_ = must(s.store.Mutate(t.Context(), store.Key{Name: name}, func(o *bucket) error { o.Paused = true; return nil }))
		}
		synctest.Wait()
		v := s.overview(t).Verdict
		if v.States["failing"] != 1 || v.States["paused"] != 2 || len(v.Causes) != 1 {
			t.Errorf("states %v; it says %q", v.States, v.Says)
		}
		wantAll(t, get(t, s.h, http.StatusOK, "format", "text"), "1 failing · 2 paused\n")
		if page := get(t, s.h, http.StatusOK, "view", "objects", "kind", "bucket", "state", "failing", "format", "text"); strings.Contains(page, "paused for") {
			t.Errorf("paused objects are listed as failing:\n%s", page)
		}
	})
}

// "Nothing fails, and nothing is stuck", said the page of a process whose list hung, and which ran
// nothing at all.
//
// Negative control: mutant "a controller that waits for a source is well".
func TestVerdictNamesASourceThatHasNotListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, lists := slog.New(slog.DiscardHandler), make(chan struct{})
		c := must(reconcile.Each("disks", time.Hour, func(ctx context.Context) (map[string]int, error) {
			select {
			case <-lists:
			case <-ctx.Done():
			}
			return map[string]int{"a": 1}, ctx.Err()
		}, func(context.Context, string, *int) (reconcile.Result, error) { return reconcile.Result{}, nil }, &reconcile.Options[string]{Logger: silent}))
		m := &reconcile.Manager{Logger: silent}
		if err := m.Register(c); err != nil {
			t.Fatal(err)
		}
		h := must(debug.New(m, &debug.Options{Logger: silent}))
		defer running(t, m)()
		time.Sleep(time.Minute)
		wantAll(t, get(t, h, http.StatusOK, "format", "json"), `"says": "Under way. 1 cause."`, `"level": "under way"`)
		time.Sleep(time.Hour)
		wantAll(t, get(t, h, http.StatusOK, "format", "text"), "Not well. 1 cause.", "runs nothing: source ", "has not listed everything yet", "controller disks", "(1 h 1 min)")
		close(lists)
		synctest.Wait()
		wantAll(t, get(t, h, http.StatusOK, "format", "json"), `"level": "well"`, "All is well: nothing fails, and nothing is stuck.")
	})
}

// "All 125,000 objects are as declared", said each of eight servers of its eighth.
//
// Negative control: mutant "the objects of some shards are all".
func TestObjectsOfACacheOfShardsAreNotAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, b := slog.New(slog.DiscardHandler), must(memory.New(nil))
		s := &shop{store: must(store.New[spec, status](b, "bucket", nil))}
		c := must(reconcile.For(s.store, func(_ context.Context, o *bucket) (reconcile.Result, error) { return makeReady(s, o) }, &reconcile.ForOptions[spec, status]{
			Options: reconcile.Options[reconcile.Request]{Logger: silent}, Cache: &cache.Options[spec, status]{Shards: 2},
		}))
		m := &reconcile.Manager{Logger: silent, Placement: must(lease.NewSharded(b, "bucket", 2, &lease.Options{Server: "a"}))}
		if err := m.Register(c); err != nil {
			t.Fatal(err)
		}
		s.h = must(debug.New(m, &debug.Options{Objects: []objects.Kind{objects.OfCache(c.Cache())}, Logger: silent}))
		defer running(t, m)()
		time.Sleep(time.Minute)
		s.declare(t, "a", "b")
		if v := s.overview(t).Verdict; v.Says != "All is well: all 2 objects are as declared (of bucket those of this server's shards are counted)." || v.Level != inspect.Well {
			t.Errorf("it says %q, it is %s", v.Says, v.Level)
		}
		wantAll(t, get(t, s.h, http.StatusOK, "format", "text"), "2 of this server's shards")
		wantAll(t, get(t, s.h, http.StatusOK, "view", "objects", "kind", "bucket", "format", "text"), "2 of this server's shards; others have the rest: 2 as declared")
	})
}

// An object that is Ready by an earlier run, and whose every run panics since, fails: the run wrote
// nothing that says so.
// Seen to fail: "All 1 object are as declared" stood beside its failing key.
func TestObjectWhoseRunsPanicIsNotAsDeclared(t *testing.T) {
	var panics atomic.Bool
	run := func(s *shop, o *bucket) (reconcile.Result, error) {
		if panics.Load() {
			panic("nil map")
		}
		return makeReady(s, o)
	}
	withShop(t, run, func(t *testing.T, s *shop) {
		s.declare(t, "a", "b")
		panics.Store(true)
		o := must(s.store.Get(t.Context(), store.Key{Name: "a"}))
		o.Annotations = map[string]string{store.AnnotationReconcileNow: "1"}
		_ = must(s.store.Update(t.Context(), o))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if v := s.overview(t).Verdict; !strings.HasPrefix(v.Says, "Not well. 1 of 2 objects is not as declared, for 3 s.") || v.States["failing"] != 1 || v.Causes[0].What != "panics" {
			t.Errorf("it says %q of %v", v.Says, v.States)
		}
		wantAll(t, get(t, s.h, http.StatusOK, "view", "objects", "kind", "bucket", "state", "failing", "format", "text"), "a ")
	})
}

// An object that runs leave alone, as a resource that is another's, is shown with the reason: no key fails
// that would say it.
// Before: "of the objects 2 failing." and no reason anywhere.
func TestObjectsThatAreLeftAloneShowTheirReason(t *testing.T) {
	run := func(s *shop, o *bucket) (reconcile.Result, error) {
		if !strings.HasPrefix(o.Name, "foreign") {
			return makeReady(s, o)
		}
		o.SetCondition(store.Condition{Type: store.ConditionSynced, Status: store.False, Reason: "NotOurs", Message: "the resource is there, and another's"})
		_, err := s.store.UpdateStatus(context.Background(), o)
		return reconcile.Result{}, err
	}
	withShop(t, run, func(t *testing.T, s *shop) {
		s.declare(t, "a", "foreign-b", "failing-c")
		v := s.overview(t).Verdict
		if v.States["failing"] != 1 || v.States["standing off"] != 1 || v.Person != 1 || v.Causes[0].Why != "NotOurs: the resource is there, and another's" || v.Causes[0].Example != "foreign-b" {
			t.Errorf("states %v, causes %+v", v.States, v.Causes)
		}
	})
}
