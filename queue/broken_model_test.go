//go:build !race

package queue

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
)

// The comparison with the model is worth what it catches: a queue that breaks a
// promise, in one respect at a time.
//
// It is the negative control of promises Q1 to Q6 in TestModelRandomly and
// FuzzModel.
func TestModelCatchesBrokenQueues(t *testing.T) {
	for _, c := range []struct {
		promise, what string
		defect        func() defect
	}{
		{"Q1", "an add during a run is lost", func() defect {
			return defect{add: func(q *Queue[string], key string, o AddOptions) error {
				if isRunning(q, key) {
					return nil
				}
				return q.AddWith(key, o)
			}}
		}},
		{"Q1", "every twentieth add is lost", func() defect {
			n := 0
			return defect{add: func(q *Queue[string], key string, o AddOptions) error {
				if n++; n%20 == 0 {
					return nil
				}
				return q.AddWith(key, o)
			}}
		}},
		{"Q1", "a failed key is forgotten", func() defect {
			return defect{retry: func(it Item[string], _ error, _ time.Duration) { it.Done() }}
		}},
		{"Q2", "a key that was run runs once more for nothing", func() defect {
			return defect{done: func(it Item[string]) { it.After(0) }}
		}},
		{"Q3", "of two times the later counts", func() defect {
			return defect{add: func(q *Queue[string], key string, o AddOptions) error {
				if o.After > 0 && !isRunning(q, key) {
					return addReplacing(q, key, o)
				}
				return q.AddWith(key, o)
			}}
		}},
		{"Q3", "priorities are kept from the first add", func() defect {
			seen := map[string]bool{}
			return defect{add: func(q *Queue[string], key string, o AddOptions) error {
				if seen[key] {
					o.Priority = Priority{}
				}
				seen[key] = true
				return q.AddWith(key, o)
			}}
		}},
		{"Q4", "every add ends a backoff", func() defect {
			return defect{add: func(q *Queue[string], key string, o AddOptions) error {
				o.Urgent = true
				return q.AddWith(key, o)
			}}
		}},
		{"Q4", "a failure counts for nothing", func() defect {
			return defect{retry: func(it Item[string], _ error, atLeast time.Duration) { it.After(atLeast) }}
		}},
		{"Q5", "the second in the line comes first", func() defect {
			return defect{get: func(ctx context.Context, q *Queue[string]) (Item[string], error) {
				it, err := q.Get(ctx)
				if err != nil || q.Len() == 0 {
					return it, err
				}
				second, err := q.Get(ctx)
				it.After(0)
				return second, err
			}}
		}},
		{"Q1", "a getter that sleeps stays asleep", func() defect {
			return defect{get: func(ctx context.Context, q *Queue[string]) (Item[string], error) {
				if q.Len() == 0 {
					<-ctx.Done()
				}
				return q.Get(ctx)
			}}
		}},
		{"Q6", "tokens that come back are lost", func() defect {
			return defect{refund: func(*ratelimit.Bucket, int) {}}
		}},
		{"Q6", "tokens come back twice", func() defect {
			return defect{refund: func(b *ratelimit.Bucket, n int) { b.Refund(n); b.Refund(n) }}
		}},
		{"Q1", "a held key runs", func() defect {
			return defect{hold: func(*Queue[string], string, time.Duration) func() { return func() {} }}
		}},
	} {
		t.Run(c.promise+" "+c.what, func(t *testing.T) {
			all := kinds()
			const most = 50
			for seed := range uint64(most) {
				k := all[seed%uint64(len(all))]
				if caught(t, k, operations(seed), c.defect()) {
					t.Logf("caught by seed %d, %v", seed, k)
					return
				}
			}
			t.Errorf("%d trials found nothing wrong with a queue in which %s", most, c.what)
		})
	}
}

// caught reports whether a trial of a queue with a defect fails.
func caught(t *testing.T, k kind, data []byte, bad defect) (failed bool) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{TB: t}
		ended := make(chan struct{})
		go func() { // a trial that fails ends by Goexit
			defer close(ended)
			try(w, k, bad, data)
		}()
		<-ended
		failed = w.failed.Load()
	})
	return failed
}

// isRunning asks without a search through what is running.
func isRunning(q *Queue[string], key string) bool {
	_, running := q.Running(key)
	return running
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
