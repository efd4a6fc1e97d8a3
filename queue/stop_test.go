package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
)

// drains says when a Drain, and when a Stop, of q is over; both must be before the
// test ends.
func drains(t *testing.T, q *Queue[string]) (over *atomic.Int32) {
	over = new(atomic.Int32)
	for _, wait := range []func() error{
		func() error { return q.Drain(t.Context()) },
		func() error { return q.Drain(t.Context()) },
	} {
		go func() {
			if err := wait(); err != nil {
				t.Error(err)
			}
			over.Add(1)
		}()
	}
	synctest.Wait()
	return over
}

func wantOver(t *testing.T, over *atomic.Int32, what string) {
	t.Helper()
	if synctest.Wait(); over.Load() != 2 {
		t.Errorf("%d of 2 drains have ended after %s", over.Load(), what)
	}
}

// The last ready key may go in another way than by a run: Drain hears of each.
//
// Negative control: without fxLeft in leave each Drain waited for
// ever, which the bubble reports as a deadlock.
func TestDrainHearsOfKeysThatGoWithoutARun(t *testing.T) {
	for what, take := range map[string]func(q *Queue[string]){
		"Remove":   func(q *Queue[string]) { q.Remove("k") },
		"Hold":     func(q *Queue[string]) { q.Hold(q.OfKey("k"), Hold{Reason: "test", Max: 0}) },
		"PauseKey": func(q *Queue[string]) { q.Hold(q.OfKey("k"), Hold{Name: "operator", Reason: "test", Max: 0}) },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, q *Queue[string]) {
				add(t, q, "k")
				over := drains(t, q)
				if over.Load() != 0 {
					t.Error("a drain has ended while a key is ready")
				}
				take(q)
				wantOver(t, over, what)
			})
		})
	}
}

// A key that a hold of its own keeps back is no work that a drain waits for. It is none
// either when the hold ends meanwhile: the getters were told that nothing comes any more.
//
// promise Q8. Negative control: mutant "a hold that ends while the queue drains makes its key ready".
func TestKeyWhoseHoldEndsAfterCloseIsLeft(t *testing.T) {
	for what, end := range map[string]func(q *Queue[string]){
		"Release": func(q *Queue[string]) { q.Release(q.OfKey("k"), "operator") },
		"its Max": func(*Queue[string]) { time.Sleep(time.Minute) },
	} {
		bubble(t, nil, func(t *testing.T, q *Queue[string]) {
			add(t, q, "k")
			q.Hold(q.OfKey("k"), Hold{Name: "operator", Reason: "test", Max: time.Minute})
			q.Close()
			if _, err := q.Get(t.Context()); !errors.Is(err, ErrStopped) {
				t.Errorf("Get = %v, want ErrStopped", err)
			}
			end(q)
			synctest.Wait()
			if n := q.Len(); n != 0 {
				t.Errorf("%s: %d keys are ready in a queue that has no getters any more", what, n)
			}
			wantOver(t, drains(t, q), what)
		})
	}
}

// A key that its bucket refuses waits for a token, which no longer comes due once
// the queue is closed; Stop and Drain must not wait for it.
//
// Negative control: without fxLeft in leave all of them waited for ever.
func TestStopHearsOfAKeyThatItsBucketRefuses(t *testing.T) {
	for _, removed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			empty := bucketOf(t, "empty", 0.001, 1)
			empty.Charge(1)
			asked, answer := make(chan struct{}), make(chan struct{})
			o := oneOrder()
			o.Buckets = func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
				asked <- struct{}{}
				<-answer
				return append(dst, empty)
			}
			q := newQueue(t, o)
			add(t, q, "k")
			got := make(chan error)
			go func() {
				_, err := q.Get(t.Context())
				got <- err
			}()
			<-asked
			over := drains(t, q)
			stopped := make(chan error)
			go func() { stopped <- q.Stop(t.Context()) }()
			synctest.Wait()
			if removed {
				q.Remove("k")
			}
			close(answer)
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			if err := <-got; !errors.Is(err, ErrStopped) {
				t.Errorf("Get: %v, want ErrStopped", err)
			}
			wantOver(t, over, "the bucket refused the key")
			checkInvariants(t, q)
		})
	}
}

// Drain is not over because it found no key running in any shard, and then none
// ready, while one went from the one to the other in between: it looks at both at
// once, in each shard.
//
// Negative control: counting what runs in all shards before what is ready, ended
// needs the lock that is held here, and what happens meanwhile in the shard that it
// has looked at escapes it: the test does not end.
func TestDrainLooksAtReadyAndRunningTogether(t *testing.T) {
	q := newQueue(t, &Options[string]{Shards: 2})
	for n := 0; q.shards.all[0].count[StateReady] == 0; n++ {
		add(t, q, fmt.Sprint(n))
	}
	q.shards.all[1].mu.Lock()
	if q.ended() {
		t.Error("drained while a key is ready")
	}
	q.shards.all[1].mu.Unlock()
	q.Close()
}

// A getter may have found the gate open just before Stop shut it. Once Stop has
// returned it must find nothing all the same, or a key would run beside whatever is
// torn down next.
// promise Q8
//
// Negative control: without the look at the word in take it got k.
func TestGetterThatFindsTheQueueStoppedGetsNothing(t *testing.T) {
	for _, shards := range []int{1, 4} {
		q := newQueue(t, &Options[string]{Shards: shards})
		add(t, q, "k")
		if err := q.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		for k := range q.shards.all { // what such a getter does next
			s := &q.shards.all[k]
			s.mu.Lock()
			if _, e := s.take(); e != nil {
				t.Errorf("%d shards: Get gives %q after Stop has returned", shards, withKey[string](e).key)
			}
			s.mu.Unlock()
		}
		if n := q.Len(); n != 1 {
			t.Errorf("%d keys are ready, want the one that waits for ever", n)
		}
		if _, err := q.Get(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("Get: %v, want ErrStopped", err)
		}
	}
}

// Stop keeps its deadline whatever a hook does.
// promise Q8
//
// Negative control: waiting for the timer without looking at ctx, Stop did not
// return until the hook did.
func TestStopDoesNotWaitForAHookBeyondItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		o := oneOrder()
		o.Hooks = &Hooks[string]{HoldExpired: func(Scope[string], string) { <-release }}
		q := newQueue(t, o)
		q.Hold(q.OfKey("k"), Hold{Reason: "test", Max: time.Second})
		time.Sleep(2 * time.Second)
		ctx, cancel := contextFor(t, time.Minute)
		defer cancel()
		start := time.Now()
		var stop *StopError
		if err := q.Stop(ctx); !errors.As(err, &stop) || !errors.Is(err, errTest) {
			t.Errorf("Stop: %v, want a StopError because of %v", err, errTest)
		}
		if d := time.Since(start); d != time.Minute {
			t.Errorf("Stop took %v, want 1m", d)
		}
		close(release)
		if err := q.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// While a hook is being called, timers go on.
// promise Q1
//
// Negative control: with the timer set only after the hooks, "due" did not run until
// the hook had returned.
func TestSlowHookHoldsUpNoTimer(t *testing.T) {
	for _, shards := range []int{1, 8} {
		o := &Options[string]{Shards: shards}
		release := make(chan struct{})
		o.Hooks = &Hooks[string]{HoldExpired: func(Scope[string], string) { <-release }}
		bubble(t, o, func(t *testing.T, q *Queue[string]) {
			release = make(chan struct{}) // of this bubble
			q.Hold(q.OfKey("k"), Hold{Reason: "test", Max: time.Second})
			q.AddAfter("due", 2*time.Second)
			start := time.Now()
			it, err := q.Get(t.Context())
			if err != nil || it.Key != "due" || time.Since(start) != 2*time.Second {
				t.Errorf("got %q after %v, %v, want due after 2s", it.Key, time.Since(start), err)
			}
			it.Done()
			close(release)
		})
	}
}

// What is left at a stop is every key that was to run, whatever kept it waiting; a parked key
// was not to run.
//
// promise Q8. Negative control: mutant "what is left at a stop does not count held keys".
func TestStopCountsWhatWasToRunInEveryState(t *testing.T) {
	empty := bucketOf(t, "empty", 0.001, 1)
	empty.Charge(1)
	o := oneOrder()
	o.Buckets = func(key string, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
		if key == "throttled" {
			dst = append(dst, empty)
		}
		return dst
	}
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		add(t, q, "throttled")
		wantNone(t, q)
		add(t, q, "parked")
		get(t, q).Park(errTest)
		add(t, q, "backing off")
		get(t, q).Retry(errTest, 0)
		add(t, q, "held")
		q.Hold(q.OfKey("held"), Hold{Reason: "test"})
		if err := q.AddAfter("delayed", time.Hour); err != nil {
			t.Fatal(err)
		}
		add(t, q, "running")
		running := get(t, q)
		add(t, q, "ready")
		for key, state := range map[string]State{
			"throttled": StateThrottled, "parked": StateParked, "backing off": StateBackingOff, "held": StateHeld,
			"delayed": StateDelayed, "running": StateRunning, "ready": StateReady,
		} {
			wantState(t, q, key, state)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var left *StopError
		if err := q.Stop(ctx); !errors.As(err, &left) || left.Waiting != 5 || !slices.Equal(left.Running, []string{"running"}) {
			t.Errorf("Stop: %v, want one running and five waiting", err)
		}
		running.Done()
	})
}

// Getters that wait while a queue drains, because a hold keeps its last keys back, learn that
// there is nothing more to come, whatever way the last key goes.
//
// promise Q8. Negative control: mutant "getters hear nothing of keys that leave a queue that drains".
func TestGettersHearThatTheLastHeldKeyIsGone(t *testing.T) {
	for _, tenant := range []bool{false, true} {
		for what, take := range map[string]func(q *Queue[string], release func()){
			"Remove":  func(q *Queue[string], _ func()) { q.Remove("a"); q.Remove("b") },
			"Hold":    func(q *Queue[string], _ func()) { q.Hold(q.OfKey("a"), Hold{}); q.Hold(q.OfKey("b"), Hold{}) },
			"both":    func(q *Queue[string], _ func()) { q.Remove("a"); q.Hold(q.OfKey("b"), Hold{}) },
			"release": func(_ *Queue[string], release func()) { release() },
			"Stop":    func(q *Queue[string], _ func()) { q.advance(stopped) },
		} {
			t.Run(fmt.Sprint(what, tenant), func(t *testing.T) {
				o := &Options[string]{}
				if tenant {
					o.Tenant = func(string) string { return "acme" }
				}
				bubble(t, o, func(t *testing.T, q *Queue[string]) {
					over := q.Whole()
					if tenant {
						over = q.OfTenant("acme")
					}
					release := q.Hold(over, Hold{})
					add(t, q, "a", "b")
					q.Close()
					var ended, ran atomic.Int32
					for range 5 {
						go func() {
							for {
								it, err := q.Get(t.Context())
								if errors.Is(err, ErrStopped) {
									ended.Add(1)
								}
								if err != nil {
									return
								}
								ran.Add(1)
								it.Done()
							}
						}()
					}
					if synctest.Wait(); ended.Load() != 0 {
						t.Errorf("%d getters have ended while keys are ready", ended.Load())
					}
					take(q, release)
					want := int32(0)
					if what == "release" {
						want = 2
					}
					if synctest.Wait(); ended.Load() != 5 || ran.Load() != want {
						t.Errorf("%d of 5 getters have ended, and %d keys ran, want %d", ended.Load(), ran.Load(), want)
					}
				})
			})
		}
	}
}

// Drain names what holds it up: keys that run, and a hook only when there are none.
func TestStopErrorDoesNotBlameTheTimerForKeys(t *testing.T) {
	q := newQueue(t, nil)
	add(t, q, "k")
	it := get(t, q)
	q.timer.mu.Lock()
	q.timer.firing.Add(1)
	q.timer.mu.Unlock()
	for _, running := range []bool{true, false} {
		if !running {
			it.Done()
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errTest)
		var left *StopError
		if err := q.Drain(ctx); !errors.As(err, &left) || (left.cause.Error() == errTest.Error()) != running {
			t.Errorf("running %v: %v", running, err)
		}
	}
	q.timer.mu.Lock()
	q.timer.firing.Add(-1)
	q.timer.mu.Unlock()
}
