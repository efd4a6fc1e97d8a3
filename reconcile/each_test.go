package reconcile_test

import (
	"context"
	"errors"
	"fmt"
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
)

// rest lets time pass until everything that follows from it has happened.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// listed is a list that a test changes, and the runs that Each makes of it.
type listed struct {
	mu   sync.Mutex       // guards what follows
	want map[string][]int // not comparable: Each needs no such values
	err  error
	runs []string
	fail map[string]bool
}

func (l *listed) list(context.Context) (map[string][]int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := make(map[string][]int)
	for k, v := range l.want {
		now[k] = slices.Clone(v)
	}
	return now, l.err
}

func (l *listed) run(_ context.Context, key string, want *[]int) (reconcile.Result, error) {
	text := key + " gone"
	if want != nil {
		text = fmt.Sprint(key, *want)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = append(l.runs, text)
	if l.fail[key] {
		return reconcile.Result{}, errBoom
	}
	return reconcile.Result{}, nil
}

// ran gives the runs since the last call, in alphabetical order.
func (l *listed) ran() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	runs := slices.Sorted(slices.Values(l.runs))
	l.runs = nil
	return runs
}

// edit changes the list.
func (l *listed) edit(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func each(t *testing.T, l *listed, o *reconcile.Options[string]) *reconcile.Controller[string] {
	t.Helper()
	if o == nil {
		o = &reconcile.Options[string]{}
	}
	o.Workers = 1
	return must[*reconcile.Controller[string]](t)(reconcile.Each("records", time.Minute, l.list, l.run, o))
}

func expectRuns(t *testing.T, l *listed, want ...string) {
	t.Helper()
	if got := l.ran(); !slices.Equal(got, want) {
		t.Errorf("ran %q, want %q", got, want)
	}
}

func TestEachRunsEveryKeyOfTheListWithItsValueAtEachInterval(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &listed{want: map[string][]int{"a": {1}, "b": {2}}}
		start(t, each(t, l, nil))
		expectRuns(t, l, "a[1]", "b[2]")
		rest(time.Minute)
		expectRuns(t, l, "a[1]", "b[2]")
		l.edit(func() { l.want["a"] = []int{3}; delete(l.want, "b") })
		rest(time.Minute)
		expectRuns(t, l, "a[3]", "b gone")
		rest(time.Minute)
		expectRuns(t, l, "a[3]")
	})
}

func TestEachTakesNoKeyForGoneWhenItsListFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &listed{want: map[string][]int{"a": {1}}}
		c := each(t, l, nil)
		start(t, c)
		l.ran()
		l.edit(func() { l.want, l.err = nil, errors.New("no answer") })
		rest(3 * time.Minute)
		expectRuns(t, l)
		if err := c.Health(); err == nil || !strings.Contains(err.Error(), "no answer") {
			t.Errorf("health: got %v, want the list's error", err)
		}
		l.edit(func() { l.want, l.err = map[string][]int{"a": {2}}, nil })
		rest(2 * time.Minute)
		if got := l.ran(); len(got) == 0 || slices.Contains(got, "a gone") {
			t.Errorf("ran %q after the list worked again", got)
		}
	})
}

// A key that fails backs off whatever the list says again and again; what is wanted
// of it now ends that (promise Q4).
func TestEachEndsABackoffOnlyForAKeyThatChanged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &listed{want: map[string][]int{"a": {1}, "b": {1}}, fail: map[string]bool{"a": true}}
		o := &reconcile.Options[string]{}
		o.Queue.Policy = func(int, error) time.Duration { return time.Hour }
		o.Hooks.OnError = func(reconcile.Failure[string]) {}
		start(t, each(t, l, o))
		l.ran()
		rest(2 * time.Minute)
		expectRuns(t, l, "b[1]", "b[1]")
		l.edit(func() { l.want["a"] = []int{2} })
		rest(time.Minute)
		if got := l.ran(); !slices.Contains(got, "a[2]") {
			t.Errorf("ran %q, want a with its new value at once", got)
		}
		l.edit(func() { delete(l.want, "a") })
		rest(time.Minute)
		if got := l.ran(); !slices.Contains(got, "a gone") {
			t.Errorf("ran %q, want a as gone at once", got)
		}
	})
}

// A key that the list has no more is known to be gone: no resync runs it again, or the
// queue would keep every key that there ever was.
func TestNoResyncRunsAKeyThatAListHasNoMore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &listed{want: map[string][]int{"a": {1}, "b": {2}}}
		o := &reconcile.Options[string]{Resync: 10 * time.Second}
		every := newController(t, record[string](nil), o)
		if err := every.Watch(reconcile.Every("list", time.Minute, func(context.Context) (map[string]int, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			now := make(map[string]int)
			for k := range l.want {
				now[k] = 1
			}
			return now, nil
		})); err != nil {
			t.Fatal(err)
		}
		for _, c := range []*reconcile.Controller[string]{each(t, l, o), every} {
			l.edit(func() { l.want["b"] = []int{2} })
			start(t, c)
			queued := func() (keys []string) {
				for e := range c.Queue().Snapshot() {
					keys = append(keys, e.Key)
				}
				return slices.Sorted(slices.Values(keys))
			}
			expectList(t, "keys in the queue", queued(), "a", "b")
			l.edit(func() { delete(l.want, "b") })
			rest(2 * time.Minute)
			expectList(t, "keys in the queue after b is gone", queued(), "a")
		}
	})
}

// A key comes back at the resync for as long as one of several lists has it, whichever.
//
// Negative control: mutant "of two sources the last one says whether a key is declared".
func TestResyncRunsAKeyThatOneOfTwoListsHas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record[string](nil)
		c := newController(t, r, &reconcile.Options[string]{Resync: time.Minute})
		for _, k := range []string{"a", "b"} {
			if err := c.Watch(reconcile.Every("list of "+k, time.Hour, func(context.Context) (map[string]int, error) {
				return map[string]int{k: 1}, nil
			})); err != nil {
				t.Fatal(err)
			}
		}
		start(t, c)
		add(t, c, "c")
		rest(10 * time.Minute)
		ran := map[string]int{}
		for _, k := range r.keys() {
			ran[k]++
		}
		if ran["a"] < 3 || ran["b"] < 3 || ran["c"] != 1 {
			t.Errorf("runs: %v, want several of a and b, and one of c, which no list has", ran)
		}
	})
}

// A list may give the same map each time: what it writes into that changes no run.
func TestEachReadsNoMapThatItsListWrites(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &listed{}
		mine := map[string][]int{"a": {1}}
		list := func(context.Context) (map[string][]int, error) { return mine, nil }
		c := must[*reconcile.Controller[string]](t)(reconcile.Each("records", time.Hour, list, l.run, nil))
		start(t, c)
		expectRuns(t, l, "a[1]")
		delete(mine, "a") // as list would, on its way
		add(t, c, "a")
		synctest.Wait()
		expectRuns(t, l, "a[1]")
	})
}

func TestEachRefusesWhatIsMissing(t *testing.T) {
	l := &listed{}
	for what, build := range map[string]func() (*reconcile.Controller[string], error){
		"interval": func() (*reconcile.Controller[string], error) { return reconcile.Each("r", 0, l.list, l.run, nil) },
		"list": func() (*reconcile.Controller[string], error) {
			return reconcile.Each[string, []int]("r", time.Minute, nil, l.run, nil)
		},
		"function": func() (*reconcile.Controller[string], error) {
			return reconcile.Each("r", time.Minute, l.list, nil, nil)
		},
		"name": func() (*reconcile.Controller[string], error) {
			return reconcile.Each("", time.Minute, l.list, l.run, nil)
		},
	} {
		if _, err := build(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("without %s: got %v", what, err)
		}
	}
}

// A loop over a list, without a store: what people write a ticker for.
func ExampleEach() {
	ctx, stop := context.WithCancel(context.Background())
	records := func(context.Context) (map[string]string, error) {
		return map[string]string{"www": "192.0.2.1"}, nil // from a file, a database, an API
	}
	c, err := reconcile.Each("dns", time.Minute, records,
		func(_ context.Context, name string, address *string) (reconcile.Result, error) {
			if address == nil {
				fmt.Println("remove", name)
				return reconcile.Result{}, nil
			}
			fmt.Println("point", name, "to", *address)
			stop() // a service would go on
			return reconcile.Result{}, nil
		}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = c.Run(ctx)
	// Output: point www to 192.0.2.1
}

// A list that comes back empty once, as that of a cloud in trouble, removes nothing.
//
// Negative control: with keep always returning nil at its beginning this test and
// TestMaxGoneKeepsKeysUntilItAllowsMore fail.
func TestEachTakesManyKeysForGoneOnlyWhenTwoListsLackThem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		all := map[string][]int{}
		var gone []string
		for i := range 30 {
			all[fmt.Sprintf("k%02d", i)] = []int{1}
			gone = append(gone, fmt.Sprintf("k%02d gone", i))
		}
		logger, log := quiet()
		l := &listed{want: all}
		c := each(t, l, &reconcile.Options[string]{Logger: logger})
		start(t, c)
		expect(t, "first runs", len(l.ran()), 30)
		for _, left := range []int{0, 14} {
			part := map[string][]int{}
			for i := range left {
				part[fmt.Sprintf("k%02d", i)] = []int{1}
			}
			l.edit(func() { l.want = part })
			rest(time.Minute)
			if ran := l.ran(); len(ran) != 30 || slices.ContainsFunc(ran, func(r string) bool { return strings.HasSuffix(r, "gone") }) {
				t.Errorf("after one list of %d keys: %d runs, %q", left, len(ran), ran)
			}
			l.edit(func() { l.want = all })
			rest(time.Minute)
			expect(t, "runs when they were back", len(l.ran()), 30)
		}
		l.edit(func() { l.want = nil })
		rest(time.Minute)
		l.edit(func() { l.err = errors.New("no answer") })
		rest(time.Minute)
		l.edit(func() { l.err = nil })
		l.ran()
		rest(2 * time.Minute)
		expectRuns(t, l, gone...)
		for _, want := range []string{"a second one has to agree", "they are taken for gone", "gone=30 of=30"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, log)
			}
		}
	})
}

// A server that gains a shard lists again at once. That is within the same trouble of the cloud, and no second
// list that agrees.
//
// Before, the keys were taken for gone a second after the first list that lacked them.
func TestListForAGainedShardConfirmsNoLoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		all := map[string][]int{"a": {1}, "b": {1}}
		l, p := &listed{want: all}, newHandPlaced(2)
		start(t, each(t, l, &reconcile.Options[string]{Placement: p, Hash: func(k string) uint64 { return uint64(k[0]) }}))
		p.give(0)
		rest(time.Minute)
		l.edit(func() { l.want = nil })
		rest(time.Minute)
		p.give(1)
		p.take(1)
		p.give(1)
		l.edit(func() { l.want = all })
		rest(time.Minute)
		if ran := l.ran(); slices.ContainsFunc(ran, func(r string) bool { return strings.HasSuffix(r, "gone") }) {
			t.Errorf("ran %q, want no key gone", ran)
		}
		l.edit(func() { l.want = nil })
		l.ran()
		rest(3 * time.Minute)
		if ran := l.ran(); !slices.Contains(ran, "a gone") || !slices.Contains(ran, "b gone") {
			t.Errorf("ran %q, want both keys gone after two lists an interval apart", ran)
		}
	})
}

func TestEachTakesFewKeysForGoneAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &listed{want: map[string][]int{"a": {1}, "b": {1}, "c": {1}}}
		start(t, each(t, l, nil))
		l.ran()
		l.edit(func() { l.want = map[string][]int{"a": {1}} })
		rest(time.Minute)
		expectRuns(t, l, "a[1]", "b gone", "c gone")
	})
}

func TestMaxGoneKeepsKeysUntilItAllowsMore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &listed{want: map[string][]int{"a": {1}, "b": {1}, "c": {1}}}
		var most atomic.Int64
		most.Store(1)
		c := must[*reconcile.Controller[string]](t)(reconcile.EachWith("records", time.Minute, l.list, l.run,
			&reconcile.EachOptions[string, []int]{MaxGone: func(known int) int { expect(t, "known keys", known, 3); return int(most.Load()) }}))
		start(t, c)
		l.ran()
		l.edit(func() { l.want = map[string][]int{"a": {2}} })
		rest(5 * time.Minute)
		if ran := l.ran(); len(ran) != 15 || slices.Contains(ran, "b gone") || !slices.Contains(ran, "a[2]") {
			t.Errorf("ran %q", ran)
		}
		if err := c.Health(); err == nil || !strings.Contains(err.Error(), "lacks 2 of 3 keys") {
			t.Errorf("health: %v", err)
		}
		most.Store(2)
		rest(time.Minute)
		expectRuns(t, l, "a[2]", "b gone", "c gone")
		if err := c.Health(); err != nil {
			t.Errorf("health: %v", err)
		}
	})
}

// A value with a timestamp would end the backoff of its key at each interval.
//
// Negative control: with reflect.DeepEqual in place of Equal the key runs at each interval.
func TestEqualKeepsTheBackoffOfAKeyWhoseValueLooksNew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		type seen struct{ want, at int }
		n, runs := 0, 0
		list := func(context.Context) (map[string]seen, error) {
			n++
			return map[string]seen{"a": {1, n}}, nil
		}
		f := func(context.Context, string, *seen) (result, error) {
			runs++
			return result{}, errBoom
		}
		c := must[*reconcile.Controller[string]](t)(reconcile.EachWith("records", 50*time.Millisecond, list, f, &reconcile.EachOptions[string, seen]{
			Options: reconcile.Options[string]{Queue: queue.Options[string]{Policy: func(int, error) time.Duration { return 10 * time.Second }}},
			Equal:   func(a, b seen) bool { return a.want == b.want },
		}))
		start(t, c)
		rest(3 * time.Second)
		expect(t, "runs within its backoff", runs, 1)
	})
}

// A list to which a cloud says when to come again is not asked before, and what shares the bucket waits
// as for a run that was told so.
//
// promise Q6. Seen to fail with the backoff alone: the list was asked 8 times within the hour.
func TestListThatIsThrottledIsAskedWhenTheCloudSaid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bucket := must[*ratelimit.Bucket](t)(ratelimit.NewBucket("cloud", 10, 10))
		var asked atomic.Int64
		c := must[*reconcile.Controller[string]](t)(reconcile.Each("things", 10*time.Minute, func(context.Context) (map[string]int, error) {
			if asked.Add(1) > 1 {
				return map[string]int{"a": 1}, nil
			}
			return nil, fmt.Errorf("list: %w", ratelimit.Throttled(bucket, time.Now().Add(time.Hour), errors.New("429")))
		}, func(context.Context, string, *int) (result, error) { return result{}, nil }, nil))
		start(t, c)
		rest(59 * time.Minute)
		expect(t, "lists within the hour", asked.Load(), 1)
		if bucket.Stats().Until.IsZero() {
			t.Error("the bucket is not paused")
		}
		rest(2 * time.Minute)
		expect(t, "lists after it", asked.Load(), 2)
	})
}

// To be asked for a pause is no failure of a list, as of a run: a list that a cloud throttled made its controller ill, and
// paged after a minute.
func TestListThatIsThrottledIsNoIllness(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		var says atomic.Pointer[error]
		c := must[*reconcile.Controller[string]](t)(reconcile.Each("things", time.Minute, func(context.Context) (map[string]int, error) {
			if err := says.Load(); err != nil {
				return nil, *err
			}
			return map[string]int{"a": 1}, nil
		}, func(context.Context, string, *int) (result, error) { return result{}, nil }, &reconcile.Options[string]{Logger: logger}))
		start(t, c)
		rest(time.Second)
		throttled := ratelimit.Throttled(nil, time.Now().Add(2*time.Minute), errors.New("429"))
		says.Store(&throttled)
		began := time.Now()
		rest(time.Minute)
		if err := c.Health(); err != nil {
			t.Errorf("Health is %v while the list waits as it was asked to", err)
		}
		s := c.Snapshot().Sources[0]
		if !s.Throttled || !strings.Contains(s.Error, "429") || s.FailingSince.Before(began) || s.Failed.Before(s.FailingSince) {
			t.Errorf("the source is %+v, want one that is throttled, and since when", s)
		}
		says.Store(&errBoom)
		rest(2 * time.Minute)
		if err := c.Health(); !errors.Is(err, errBoom) {
			t.Errorf("Health is %v, want the failure", err)
		}
		if s := c.Snapshot().Sources[0]; s.Throttled || !s.Failed.After(s.FailingSince) {
			t.Errorf("the source is %+v, want one that fails", s)
		}
		says.Store(nil)
		rest(time.Minute)
		if err := c.Health(); err != nil {
			t.Errorf("Health is %v after a list that succeeded", err)
		}
		expect(t, "lines about the pause", strings.Count(lines.String(), "429"), 0)
		expect(t, "lines about the failure", strings.Count(lines.String(), "source failed"), 1)
	})
}

// A nil map is an empty list. Where the list before had keys it ended the source with a panic, again and again: no key was taken
// for gone.
func TestNilListIsAnEmptyOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		var empty atomic.Bool
		var gone atomic.Int64
		c := must[*reconcile.Controller[string]](t)(reconcile.Each("things", time.Minute, func(context.Context) (map[string]int, error) {
			if empty.Load() {
				return nil, nil
			}
			return map[string]int{"a": 1, "b": 2}, nil
		}, func(_ context.Context, _ string, want *int) (result, error) {
			if want == nil {
				gone.Add(1)
			}
			return result{}, nil
		}, &reconcile.Options[string]{Logger: logger}))
		start(t, c)
		rest(time.Second)
		empty.Store(true)
		rest(90 * time.Second)
		expect(t, "keys that are gone after one list", gone.Load(), 0)
		rest(time.Minute)
		expect(t, "keys that are gone after a second list", gone.Load(), 2)
		if err := c.Health(); err != nil {
			t.Error(err)
		}
		if strings.Contains(lines.String(), "panic") {
			t.Errorf("the log is\n%s", lines)
		}
	})
}
