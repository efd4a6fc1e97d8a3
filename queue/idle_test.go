package queue

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
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
		q.timer.tick = func() {
			if rings++; rings < 1000 { // a timer that spins lets no time pass
				ring()
			}
		}
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

// While one getter is on its way, adds wake no other; once it says that it looks, the
// next is woken.
//
// Negative controls: mutants "each add wakes a getter" and "a getter that was woken is on
// its way for ever".
func TestGettersAreWokenOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waiters{token: make(chan struct{}, 1)}
		woken := make(chan struct{}, 3)
		for range cap(woken) {
			w.sleeping.Add(1)
			go func() {
				<-w.token
				woken <- struct{}{}
			}()
		}
		for want := 1; want <= cap(woken); want++ {
			synctest.Wait()
			w.wake()
			synctest.Wait()
			w.wake() // that one has not said yet that it looks
			synctest.Wait()
			if len(woken) != want {
				t.Fatalf("%d getters were woken, want %d", len(woken), want)
			}
			w.woken()
		}
	})
}

// Of times that are set at once the earliest counts, in whatever order they arrive.
//
// promise Q1. Negative control: mutant "of two times that are set at once the later counts".
func TestTimerKeepsTheEarliestOfManyTimes(t *testing.T) {
	for range 50 {
		var v env
		v.start = time.Now()
		var tm timer
		tm.init(&v, func() {}, make(chan struct{}, 1))
		var all sync.WaitGroup
		var begun atomic.Int32
		const times = 32
		tm.mu.Lock() // so that all of them have looked before the first one sets
		for k := range times {
			all.Go(func() {
				begun.Add(1)
				tm.set(v.now() + int64(time.Hour) + int64(k)*int64(time.Minute))
			})
		}
		for begun.Load() < times {
			runtime.Gosched()
		}
		tm.mu.Unlock()
		all.Wait()
		if d := time.Duration(tm.at.Load() - v.now()); d > time.Hour {
			t.Fatalf("it fires in %v, want within an hour", d)
		}
		tm.stop()
	}
}
