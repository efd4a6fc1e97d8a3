package queue

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A queue in which nothing is due does nothing: over a day, with 10,000 keys that
// are due after it and workers that wait, its timer does not go off, and
// no worker wakes up.
//
// Negative control: the mutant "the timer rings every second".
func TestIdleQueueSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, &Options[string]{Shards: 1})
		rings := 0
		ring := q.timer.tick
		q.timer.tick = func() { rings++; ring() }
		for n := range 10_000 {
			if err := q.AddAfter(fmt.Sprint(n), 25*time.Hour+time.Duration(n)*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				if it, err := q.Get(ctx); err == nil {
					t.Errorf("%s ran", it.Key)
					it.Done()
				}
			})
		}
		time.Sleep(24 * time.Hour)
		t.Logf("%d wake-ups in a day", rings)
		if rings > 100 {
			t.Errorf("the timer went off %d times in a day in which nothing is due, want at most 100", rings)
		}
		cancel()
		workers.Wait()
		if err := q.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
