package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// defect is what is wrong with a queue. Its nil functions are those of the queue
// itself.
type defect struct {
	add   func(q *Queue[string], key string, o AddOptions)
	hold  func(q *Queue[string], key string, most time.Duration) (release func())
	take  func(q *Queue[string], dst []Item[string]) int
	done  func(it Item[string])
	retry func(it Item[string], err error, atLeast time.Duration)
}

func (d *defect) orAdd(q *Queue[string], key string, o AddOptions) {
	if d.add == nil {
		q.AddWith(key, o)
		return
	}
	d.add(q, key, o)
}

func (d *defect) orHold(q *Queue[string], key string, most time.Duration) (release func()) {
	if d.hold == nil {
		return q.Hold(q.OfKey(key), Hold{Reason: "test", Max: most})
	}
	return d.hold(q, key, most)
}

func (d *defect) orTake(q *Queue[string], dst []Item[string]) int {
	if d.take == nil {
		return q.take(context.Background(), dst)
	}
	return d.take(q, dst)
}

func (d *defect) orDone(it Item[string]) {
	if d.done == nil {
		it.Done()
		return
	}
	d.done(it)
}

func (d *defect) orRetry(it Item[string], err error, atLeast time.Duration) {
	if d.retry == nil {
		it.Retry(err, atLeast)
		return
	}
	d.retry(it, err, atLeast)
}

// isRunning asks without a search through what is running.
func isRunning(q *Queue[string], key string) bool {
	_, running := q.Running(key)
	return running
}

// The comparison with the model is worth what it catches: a queue that breaks a
// promise, in one respect at a time.
//
// It is the negative control of promises Q1 to Q5 in TestModelRandomly and
// FuzzModel.
func TestModelCatchesBrokenQueues(t *testing.T) {
	for _, c := range []struct {
		promise, what string
		defect        func() defect
	}{
		{"Q1", "an add during a run is lost", func() defect {
			return defect{add: func(q *Queue[string], key string, o AddOptions) {
				if !isRunning(q, key) {
					q.AddWith(key, o)
				}
			}}
		}},
		{"Q1", "every twentieth add is lost", func() defect {
			n := 0
			return defect{add: func(q *Queue[string], key string, o AddOptions) {
				if n++; n%20 != 0 {
					q.AddWith(key, o)
				}
			}}
		}},
		{"Q1", "a failed key is forgotten", func() defect {
			return defect{retry: func(it Item[string], _ error, _ time.Duration) { it.Done() }}
		}},
		{"Q2", "a key that was run runs once more for nothing", func() defect {
			return defect{done: func(it Item[string]) { it.After(0) }}
		}},
		{"Q3", "of two times the later counts", func() defect {
			return defect{add: func(q *Queue[string], key string, o AddOptions) {
				if o.After > 0 && !isRunning(q, key) {
					replace(q, key, o)
					return
				}
				q.AddWith(key, o)
			}}
		}},
		{"Q3", "priorities are kept from the first add", func() defect {
			seen := map[string]bool{}
			return defect{add: func(q *Queue[string], key string, o AddOptions) {
				if seen[key] {
					o.Priority = Priority{}
				}
				seen[key] = true
				q.AddWith(key, o)
			}}
		}},
		{"Q4", "every add ends a backoff", func() defect {
			return defect{add: func(q *Queue[string], key string, o AddOptions) {
				o.Urgent = true
				q.AddWith(key, o)
			}}
		}},
		{"Q4", "a failure counts for nothing", func() defect {
			return defect{retry: func(it Item[string], _ error, atLeast time.Duration) { it.After(atLeast) }}
		}},
		{"Q5", "the second in the line comes first", func() defect {
			return defect{take: func(q *Queue[string], dst []Item[string]) int {
				var two [2]Item[string]
				if q.take(context.Background(), two[:1]) == 0 {
					return 0
				}
				if q.take(context.Background(), two[1:]) == 0 {
					dst[0] = two[0]
					return 1
				}
				two[0].After(0)
				dst[0] = two[1]
				return 1
			}}
		}},
		{"Q1", "a held key runs", func() defect {
			return defect{hold: func(*Queue[string], string, time.Duration) func() { return func() {} }}
		}},
	} {
		t.Run(c.promise+" "+c.what, func(t *testing.T) {
			const most = 50
			for seed := range uint64(most) {
				if caught(t, operations(seed), c.defect()) {
					t.Logf("caught by seed %d", seed)
					return
				}
			}
			t.Errorf("%d trials found nothing wrong with a queue in which %s", most, c.what)
		})
	}
}

// caught reports whether a trial of a queue with a defect fails.
func caught(t *testing.T, data []byte, bad defect) (failed bool) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{TB: t}
		ended := make(chan struct{})
		go func() { // a trial that fails leaves by Goexit
			defer close(ended)
			r := newTrial(w)
			r.bad = bad
			defer r.finish()
			for ; len(data) >= 3; data = data[3:] {
				r.do(data[0], data[1], data[2])
				r.compare()
			}
		}()
		<-ended
		failed = w.failed.Load()
	})
	return failed
}

// witness is a test that may fail.
type witness struct {
	testing.TB
	failed atomic.Bool
}

func (w *witness) Error(...any)          { w.failed.Store(true) }
func (w *witness) Errorf(string, ...any) { w.failed.Store(true) }
func (w *witness) Log(...any)            {}
func (w *witness) Failed() bool          { return w.failed.Load() }

func (w *witness) Fatal(...any) {
	w.failed.Store(true)
	runtime.Goexit()
}

func (w *witness) Fatalf(string, ...any) { w.Fatal() }

// The test of stamps is worth what it catches too: here its workers get a queue
// that hands keys out twice, and one that loses what is added during a run.
//
// It is the negative control of promises Q1 and Q2 in
// TestEveryAddIsSeenAndNoKeyRunsTwiceAtOnce.
func TestStampsCatchALostAddAndASecondRun(t *testing.T) {
	s := &stamps{ran: make(chan struct{}, 1)}
	s.added.Add(1)
	end, err := s.begin()
	if err != nil {
		t.Fatalf("the only run: %v", err)
	}
	if _, err := s.begin(); err == nil {
		t.Error("a second run at once was accepted")
	}
	s.running.Add(-1) // of the refused one
	s.added.Add(1)    // during the run: nobody will see it
	end()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("waited long enough"))
	if err := settle(ctx, map[string]*stamps{"a": s}); err == nil {
		t.Error("an add that no run has seen was accepted")
	}
	if end, err := s.begin(); err != nil {
		t.Error(err)
	} else {
		end()
	}
	if err := settle(ctx, map[string]*stamps{"a": s}); err != nil {
		t.Error(fmt.Errorf("all was seen: %w", err))
	}
}
