package queue

import (
	"testing"
	"time"
)

// TestRules tests the rows of the table in the package comment: what an add
// does to a key in each state, and how what came during a run meets its result.
// promise Q3
// Weak point 004 (f).
func TestRules(t *testing.T) {
	sec := time.Second
	run := func(q *Queue[string], t *testing.T) Item[string] { add(t, q, "k"); return get(t, q) }
	for _, row := range []struct {
		name string
		do   func(t *testing.T, q *Queue[string])
		runs []time.Duration // when k runs, from the start; -1 ends with k parked
	}{
		{"add twice", func(t *testing.T, q *Queue[string]) { add(t, q, "k", "k") }, []time.Duration{0}},
		{"delayed, later add", func(t *testing.T, q *Queue[string]) { q.AddAfter("k", sec); q.AddAfter("k", 2*sec) }, []time.Duration{sec}},
		{"delayed, earlier add", func(t *testing.T, q *Queue[string]) { q.AddAfter("k", 2*sec); q.AddAfter("k", sec) }, []time.Duration{sec}},
		{"delayed, add now", func(t *testing.T, q *Queue[string]) { q.AddAfter("k", sec); add(t, q, "k") }, []time.Duration{0}},
		{"ready, add after", func(t *testing.T, q *Queue[string]) { add(t, q, "k"); q.AddAfter("k", sec) }, []time.Duration{0}},
		{"ready, replace after", func(t *testing.T, q *Queue[string]) { add(t, q, "k"); replace(q, "k", AddOptions{After: sec}) }, []time.Duration{sec}},
		{"delayed, replace later", func(t *testing.T, q *Queue[string]) {
			q.AddAfter("k", sec)
			replace(q, "k", AddOptions{After: 3 * sec})
		}, []time.Duration{3 * sec}},
		{"delayed, cancel", func(t *testing.T, q *Queue[string]) { q.AddAfter("k", sec); q.Cancel("k") }, nil},
		{"ready, cancel", func(t *testing.T, q *Queue[string]) { add(t, q, "k"); q.Cancel("k") }, []time.Duration{0}},
		{"ready, remove", func(t *testing.T, q *Queue[string]) { add(t, q, "k"); q.Remove("k") }, nil},
		{"backing off, add", func(t *testing.T, q *Queue[string]) { run(q, t).Retry(errTest, 0); add(t, q, "k") }, []time.Duration{sec}},
		{"backing off, urgent", func(t *testing.T, q *Queue[string]) { run(q, t).Retry(errTest, 0); kick(q, "k") }, []time.Duration{0}},
		{"backing off, urgent later", func(t *testing.T, q *Queue[string]) {
			run(q, t).Retry(errTest, 0)
			q.AddWith("k", AddOptions{Urgent: true, After: 2 * sec})
		}, []time.Duration{sec}},
		{"backing off, replace earlier", func(t *testing.T, q *Queue[string]) {
			run(q, t).Retry(errTest, 0)
			replace(q, "k", AddOptions{After: sec / 2})
		}, []time.Duration{sec}},
		{"backing off, replace later", func(t *testing.T, q *Queue[string]) {
			run(q, t).Retry(errTest, 0)
			replace(q, "k", AddOptions{After: 2 * sec})
		}, []time.Duration{2 * sec}},
		{"backing off, remove", func(t *testing.T, q *Queue[string]) { run(q, t).Retry(errTest, 0); q.Remove("k") }, nil},
		{"parked, add", func(t *testing.T, q *Queue[string]) { run(q, t).Park(errTest); add(t, q, "k") }, []time.Duration{-1}},
		{"parked, urgent", func(t *testing.T, q *Queue[string]) { run(q, t).Park(errTest); kick(q, "k") }, []time.Duration{0}},
		{"parked, urgent later", func(t *testing.T, q *Queue[string]) {
			run(q, t).Park(errTest)
			q.AddWith("k", AddOptions{Urgent: true, After: sec})
		}, []time.Duration{sec}},
		{"parked, remove", func(t *testing.T, q *Queue[string]) { run(q, t).Park(errTest); q.Remove("k") }, nil},

		{"run, done", func(t *testing.T, q *Queue[string]) { run(q, t).Done() }, nil},
		{"run, add, done", func(t *testing.T, q *Queue[string]) { it := run(q, t); add(t, q, "k", "k"); it.Done() }, []time.Duration{0}},
		{"run, add after, done", func(t *testing.T, q *Queue[string]) { it := run(q, t); q.AddAfter("k", sec); it.Done() }, []time.Duration{sec}},
		{"run, after", func(t *testing.T, q *Queue[string]) { run(q, t).After(sec) }, []time.Duration{sec}},
		{"run, after nothing", func(t *testing.T, q *Queue[string]) { run(q, t).After(0) }, []time.Duration{0}},
		{"run, add, after", func(t *testing.T, q *Queue[string]) { it := run(q, t); add(t, q, "k"); it.After(sec) }, []time.Duration{0}},
		{"run, add after, after sooner", func(t *testing.T, q *Queue[string]) { it := run(q, t); q.AddAfter("k", 2*sec); it.After(sec) }, []time.Duration{sec}},
		{"run, add after, after later", func(t *testing.T, q *Queue[string]) { it := run(q, t); q.AddAfter("k", sec); it.After(2 * sec) }, []time.Duration{sec}},
		{"run, retry", func(t *testing.T, q *Queue[string]) { run(q, t).Retry(errTest, 0) }, []time.Duration{sec}},
		{"run, retry at least", func(t *testing.T, q *Queue[string]) { run(q, t).Retry(errTest, 3*sec) }, []time.Duration{3 * sec}},
		{"run, add, retry", func(t *testing.T, q *Queue[string]) { it := run(q, t); add(t, q, "k"); it.Retry(errTest, 0) }, []time.Duration{sec}},
		{"run, urgent, retry", func(t *testing.T, q *Queue[string]) { it := run(q, t); kick(q, "k"); it.Retry(errTest, 0) }, []time.Duration{0}},
		{"run, park", func(t *testing.T, q *Queue[string]) { run(q, t).Park(errTest) }, []time.Duration{-1}},
		{"run, add, park", func(t *testing.T, q *Queue[string]) { it := run(q, t); add(t, q, "k"); it.Park(errTest) }, []time.Duration{sec}},
		{"run, urgent, park", func(t *testing.T, q *Queue[string]) { it := run(q, t); kick(q, "k"); it.Park(errTest) }, []time.Duration{0}},
		{"run, remove, retry", func(t *testing.T, q *Queue[string]) { it := run(q, t); q.Remove("k"); it.Retry(errTest, 0) }, nil},
		{"run, add, remove, done", func(t *testing.T, q *Queue[string]) { it := run(q, t); add(t, q, "k"); q.Remove("k"); it.Done() }, nil},
		{"run, remove, add, retry", func(t *testing.T, q *Queue[string]) {
			it := run(q, t)
			q.Remove("k")
			add(t, q, "k")
			it.Retry(errTest, 0)
		}, []time.Duration{0}},
		{"run, add after, cancel, done", func(t *testing.T, q *Queue[string]) { it := run(q, t); q.AddAfter("k", sec); q.Cancel("k"); it.Done() }, nil},
		{"run, hold, add, done", func(t *testing.T, q *Queue[string]) {
			it := run(q, t)
			q.Hold(q.OfKey("k"), Hold{Reason: "test", Max: sec})
			add(t, q, "k")
			it.Done()
		}, []time.Duration{sec}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
				start := time.Now()
				row.do(t, q)
				var got []time.Duration
				runs(t, q, 10*sec, func(it Item[string]) {
					got = append(got, time.Since(start).Truncate(10*time.Millisecond))
					it.Done()
				})
				if st := q.Stats(); st.Of(StateParked).Keys == 1 {
					got = append(got, -1)
				}
				if len(got) != len(row.runs) || len(got) == 1 && got[0] != row.runs[0] {
					t.Errorf("ran at %v, want %v", got, row.runs)
				}
				if keys := keysIn(q); len(keys) > 0 && (len(got) == 0 || got[0] != -1) {
					t.Errorf("%v is kept", keys)
				}
			})
		})
	}
}

// TestPrioritiesCombine: the higher of two counts, Replace may lower, a run's result
// may change it, and it survives a requeue.
// case 74
func TestPrioritiesCombine(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		q.AddWith("k", AddOptions{Priority: At(10)})
		q.AddWith("k", AddOptions{Priority: At(5)})
		want := func(it Item[string], n int) Item[string] {
			t.Helper()
			if it.Priority.Int() != n {
				t.Errorf("priority %v, want %d", it.Priority, n)
			}
			return it
		}
		want(get(t, q), 10).After(time.Second)
		want(get(t, q), 10).Retry(errTest, 0)
		want(get(t, q), 10).WithPriority(At(-3)).After(0)
		it := want(get(t, q), -3)
		q.AddWith("k", AddOptions{Priority: At(7)})
		it.WithPriority(At(2)).Done()
		want(get(t, q), 7).After(time.Second)
		replace(q, "k", AddOptions{Priority: At(-7)})
		want(get(t, q), -7).Done()
		add(t, q, "k")
		want(get(t, q), 0).Done()
	})
}

func TestUrgentStartsAttemptsAgain(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		add(t, q, "k")
		for n := range 3 {
			it := get(t, q)
			if it.Attempt != n {
				t.Errorf("attempt %d, want %d", it.Attempt, n)
			}
			it.Retry(errTest, 0)
		}
		kick(q, "k")
		it := get(t, q)
		if it.Attempt != 0 {
			t.Errorf("attempt %d after an urgent add, want 0", it.Attempt)
		}
		it.Done()
	})
}

// An urgent add with KeepAttempts ends a backoff and a park, before, during and after
// the run, and the next failure counts on.
func TestKeepAttemptsEndsTheWaitAndCountsOn(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		cure := AddOptions{Urgent: true, KeepAttempts: true}
		add(t, q, "k")
		for n, end := range []func(Item[string]){
			func(it Item[string]) { it.Retry(errTest, time.Hour); q.AddWith("k", cure) },
			func(it Item[string]) { it.Park(errTest); q.AddWith("k", cure) },
			func(it Item[string]) { q.AddWith("k", cure); it.Retry(errTest, time.Hour) },
			func(it Item[string]) { q.AddWith("k", cure); it.Park(errTest) },
			func(it Item[string]) { it.Done() },
		} {
			began := time.Now()
			it := get(t, q)
			if waited := time.Since(began); it.Attempt != n || waited != 0 {
				t.Errorf("attempt %d after %v, want %d at once", it.Attempt, waited, n)
			}
			end(it)
		}
	})
}

// TestSuccessStartsAttemptsAgain: error, error, success.
// case 69, 70
func TestSuccessStartsAttemptsAgain(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		add(t, q, "k")
		get(t, q).Retry(errTest, 0)
		get(t, q).Retry(errTest, 0)
		it := get(t, q)
		if it.Attempt != 2 {
			t.Errorf("attempt %d, want 2", it.Attempt)
		}
		it.After(time.Second) // not rate limited: no policy in it
		start := time.Now()
		it = get(t, q)
		if it.Attempt != 0 || time.Since(start) != time.Second {
			t.Errorf("attempt %d after %v, want 0 after 1s", it.Attempt, time.Since(start))
		}
		it.Done()
		if keys := keysIn(q); keys != nil {
			t.Errorf("%v are kept after success", keys) // case 155
		}
	})
}

func TestSettlingTwicePanics(t *testing.T) {
	q := newQueue(t, oneOrder())
	add(t, q, "k")
	it := get(t, q)
	it.Done()
	settle := map[string]func(){
		"Done": it.Done, "After": func() { it.After(0) }, "Retry": func() { it.Retry(errTest, 0) },
		"Park": func() { it.Park(errTest) },
	}
	add(t, q, "other") // takes the slot that k had
	other := get(t, q)
	for name, f := range settle {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of a settled item did not panic", name)
				}
			}()
			f()
		}()
	}
	other.Done()
	checkInvariants(t, q)
}
