package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/queue/ratelimit"
)

// The traps into which queues of this kind have fallen, one test each.

// Trap 1: a failing key that adds itself during its run must not run hot. Peers
// run it some 1,770 times in these two seconds.
// promise Q4; control: with settle treating every add as urgent it ran without end
// at one instant (before runs had its limit).
func TestFailingKeyThatAddsItselfBacksOff(t *testing.T) {
	o := &Options[string]{Shards: 1, Policy: Backoff{Base: 5 * time.Millisecond, NoJitter: true}.Policy()}
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		add(t, q, "k")
		n := runs(t, q, 2*time.Second, func(it Item[string]) {
			add(t, q, "k")
			it.Retry(errTest, 0)
			add(t, q, "k")
		})
		if n["k"] != 9 {
			t.Errorf("ran %d times in 2s, want 9", n["k"])
		}
	})
}

// Trap 2: an add and a timer of one key make one run, an add during a run exactly
// one more, however many.
// promise Q2, Q3; case 72, 73, 75
// Control: with Done ignoring what was added, the second run was missing.
func TestAddsMakeExactlyTheRunsTheyShould(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		q.AddAfter("k", time.Hour)
		for range 1000 {
			add(t, q, "k")
		}
		wantNext(t, q, "k")
		time.Sleep(2 * time.Hour)
		wantNone(t, q)

		add(t, q, "k")
		it := get(t, q)
		for range 1000 {
			add(t, q, "k")
		}
		wantNone(t, q) // never twice at once
		it.Done()
		wantNext(t, q, "k")
		wantNone(t, q)
	})
}

// Trap 3: low keys under saturating high load. A peer served 0 of 10 in 3 s.
// promise Q5; control: with aging off none of the ten ran.
func TestLowKeysRunUnderHighLoad(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		for n := range 10 {
			q.AddWith(fmt.Sprint("low", n), AddOptions{Priority: At(-100)})
		}
		low := 0
		for n := range agingEvery * 10 {
			for range 2 {
				q.AddWith(fmt.Sprint("high", n), AddOptions{Priority: At(100)})
			}
			it := get(t, q)
			if it.Priority == At(-100) {
				low++
				if want := agingEvery * low; n+1 > want {
					t.Errorf("low key %d ran as the %d-th, want within %d", low, n+1, want)
				}
			}
			it.Done()
		}
		if low != 10 {
			t.Errorf("%d of 10 low keys ran within %d dispatches", low, agingEvery*10)
		}
	})
}

// Trap 4: 100,000 keys that fail once must all be retried within the backoff, and
// leave no token debt: an unrelated key of the same bucket runs at once when they
// are gone, and duplicate adds cost no token.
// promise Q6; control: with a token taken by each add, TestThrottledBucketHoldsItsOwnKeysOnly
// found its first key waiting.
// Weak point 004 (f).
func TestFailuresQueueUpNoDebt(t *testing.T) {
	bucket, err := ratelimit.NewBucket("cloud", 1e6, 1000)
	if err != nil {
		t.Fatal(err)
	}
	keys := campaign.Sized(100_000, 10_000)
	o := &Options[string]{
		Policy:  Backoff{Base: time.Second, Max: time.Second}.Policy(),
		Buckets: func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, bucket) },
	}
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		for n := range keys {
			add(t, q, fmt.Sprint(n))
		}
		failed := 0
		start := time.Now()
		for done := 0; done < keys; {
			it := get(t, q)
			if it.Attempt == 0 {
				it.Retry(errTest, 0)
				failed++
				continue
			}
			it.Done()
			done++
		}
		if took := time.Since(start); took > 1500*time.Millisecond {
			t.Errorf("the last retry was after %v, want within 1.5s", took)
		}
		for range 5000 {
			add(t, q, "unrelated")
		}
		start = time.Now()
		get(t, q).Done()
		if wait := time.Since(start); wait > time.Millisecond {
			t.Errorf("an unrelated key waited %v", wait)
		}
		if got, want := bucket.Stats().Taken, uint64(2*keys+1); got != want || failed != keys {
			t.Errorf("%d tokens were taken for %d runs, %d of which failed", got, want, failed)
		}
	})
}

// Trap 6: nothing is kept for keys that succeeded, were removed, or were parked
// and removed; and idling does not make a later failure retry at once.
// promise Q7; case 80
// Control: with review keeping entries that have a record, 2,010 records were left;
// with discard not dropping the record, 1,000.
func TestNothingIsKept(t *testing.T) {
	o := &Options[string]{
		Policy: Backoff{Base: time.Second, Max: 10 * time.Second, NoJitter: true}.Policy(),
		Tenant: func(key string) string { return key[:1] },
	}
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		for n := range 1000 {
			q.AddWith(fmt.Sprint(n), AddOptions{Reason: "test"})
		}
		runs(t, q, 20*time.Second, func(it Item[string]) {
			switch {
			case it.Attempt < 2:
				it.Retry(errTest, 0)
			case it.Key < "5":
				it.Park(errTest)
				q.Remove(it.Key)
			default:
				it.Done()
			}
		})
		s := &q.shards.all[0]
		if n := len(keysIn(q)) + s.recordsInUse() + len(q.keepers[0].roster.named); n != 0 {
			t.Errorf("%d records are kept: %v", n, keysIn(q))
		}
	})
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		add(t, q, "k")
		var last time.Duration
		for n := range 6 {
			time.Sleep(time.Hour) // idle for much longer than Max
			it := get(t, q)
			start := time.Now()
			it.Retry(errTest, 0)
			next := entryOf(t, q, "k").Next.Sub(start)
			if next <= last && next != 10*time.Second {
				t.Errorf("delay %d is %v, want more than %v", n, next, last)
			}
			last = next
		}
	})
}

// Trap 7: Stop twice, before anything, during adds, gets and settles.
// promise Q8; case 78
func TestStopFromAnyState(t *testing.T) {
	q := newQueue(t, nil)
	for range 3 {
		if err := q.Stop(t.Context()); err != nil {
			t.Errorf("Stop: %v", err)
		}
	}
	if err := q.Add("k"); !errors.Is(err, ErrStopped) {
		t.Fatalf("Add after Stop: %v, want ErrStopped", err)
	}
	if err := q.AddAfter("k", time.Millisecond); !errors.Is(err, ErrStopped) {
		t.Fatalf("AddAfter after Stop: %v, want ErrStopped", err)
	}
	if _, err := q.Get(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("Get after Stop: %v, want ErrStopped", err)
	}
	for range 50 {
		stopUnderLoad(t)
	}
}

func stopUnderLoad(t *testing.T) {
	q := newQueue(t, nil)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for n := 0; q.AddAfter(fmt.Sprint(w, n%100), time.Duration(n%3)*time.Millisecond) == nil; n++ {
			}
		})
		all.Go(func() {
			for {
				it, err := q.Get(t.Context())
				if err != nil {
					return
				}
				it.Retry(errTest, 0)
			}
		})
	}
	for range 2 {
		all.Go(func() {
			runtime.Gosched()
			if err := q.Stop(t.Context()); err != nil {
				t.Errorf("Stop: %v", err)
			}
		})
	}
	all.Wait()
	checkInvariants(t, q)
}

// A delayed key does not hold Stop, and no timer of ours outlives it.
func TestStopDoesNotWaitForDelays(t *testing.T) {
	bubble(t, nil, func(t *testing.T, q *Queue[string]) {
		q.AddAfter("k", 10*time.Second)
		start := time.Now()
		if err := q.Stop(t.Context()); err != nil || time.Since(start) != 0 {
			t.Errorf("Stop took %v: %v", time.Since(start), err)
		}
	})
}

// Trap 8: a run that ignores the end of its time. Stop returns on time, names the
// key, and no second run of it starts.
// promise Q8; control: with Stop not looking at running keys it returned nil.
func TestStopNamesWhatIsLeft(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		add(t, q, "stuck", "waits")
		it := get(t, q)
		add(t, q, "stuck")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("test is over"))
		defer cancel()
		start := time.Now()
		err := q.Stop(ctx)
		var stop *StopError
		if !errors.As(err, &stop) || len(stop.Running) != 1 || stop.Running[0] != "stuck" || stop.Waiting != 1 {
			t.Errorf("Stop: %v, want stuck running and one waiting", err)
		}
		if time.Since(start) != time.Second {
			t.Errorf("Stop took %v, want 1s", time.Since(start))
		}
		it.Retry(errTest, 0)
		if _, err := q.Get(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("Get after Stop: %v", err)
		}
	})
}

// Trap 10: of two delays the later wins where both must be kept, and an error
// with a delay keeps both meanings.
func TestErrorAndDelayKeepBothMeanings(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		for _, atLeast := range []time.Duration{0, time.Millisecond, time.Hour} {
			add(t, q, "k")
			get(t, q).Retry(errTest, atLeast)
			start := time.Now()
			it := get(t, q)
			if want := max(atLeast, time.Second); time.Since(start) != want || it.Attempt != 1 {
				t.Errorf("retry at least %v: attempt %d after %v, want 1 after %v", atLeast, it.Attempt, time.Since(start), want)
			}
			it.Done()
		}
	})
}

// Get blocked at shutdown returns, every time.
// case 78
// Weak point 003 (d).
func TestBlockedGetReturnsAtShutdown(t *testing.T) {
	for n := range 200 {
		q := newQueue(t, nil)
		got := make(chan error)
		for range 4 {
			go func() {
				_, err := q.Get(t.Context())
				got <- err
			}()
		}
		if n%2 == 0 {
			runtime.Gosched()
		}
		go q.Close()
		for range 4 {
			if err := <-got; !errors.Is(err, ErrStopped) {
				t.Fatalf("Get: %v, want ErrStopped", err)
			}
		}
	}
}

func TestGetEndsWithItsContext(t *testing.T) {
	bubble(t, nil, func(t *testing.T, q *Queue[string]) {
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		if _, err := q.Get(ctx); !errors.Is(err, cause) {
			t.Errorf("Get: %v, want the cause of its context", err)
		}
		add(t, q, "k")
		if _, err := q.Get(ctx); !errors.Is(err, cause) {
			t.Errorf("Get with an ended context: %v", err)
		}
		wantNext(t, q, "k")
	})
}

// Close hands out what is ready, Drain waits for it and for what runs.
func TestDrainWaitsForReadyAndRunning(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		add(t, q, "a", "b")
		q.AddAfter("late", time.Hour)
		it := get(t, q)
		add(t, q, "a")
		drained := make(chan error, 1)
		go func() { drained <- q.Drain(t.Context()) }()
		synctest.Wait()
		if err := q.Add("c"); !errors.Is(err, ErrStopped) {
			t.Errorf("Add while draining: %v", err)
		}
		get(t, q).Done()
		it.Done()
		synctest.Wait()
		select {
		case err := <-drained:
			t.Fatalf("Drain returned before a ran again: %v", err)
		default:
		}
		get(t, q).Done()
		if err := <-drained; err != nil {
			t.Error(err)
		}
		if _, err := q.Get(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("Get after Drain: %v", err)
		}
	})
}
