package queue_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
)

// Negative control: with Resume not waking the queues, the key came out when the
// pause would have ended.
func TestResumedBucketLetsItsKeysGoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := ratelimit.NewBucket("b", 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		q, err := queue.New(&queue.Options[string]{Buckets: func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, b) }})
		if err != nil {
			t.Fatal(err)
		}
		b.Throttle(time.Now().Add(time.Hour))
		if err := q.Add("k"); err != nil {
			t.Fatal(err)
		}
		got := make(chan time.Time)
		go func() { // ends with the item
			item, err := q.Get(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- time.Now()
			item.Done()
		}()
		synctest.Wait()
		time.Sleep(time.Minute)
		resumed := time.Now()
		b.ThrottleUntil(time.Time{})
		if at := <-got; at.Sub(resumed) > time.Second {
			t.Errorf("the key came out %v after the pause was ended", at.Sub(resumed))
		}
		b.ThrottleUntil(time.Time{}) // of what is not paused: nothing
		if s := b.Stats(); !s.Until.IsZero() || s.Throttled != time.Minute {
			t.Errorf("%+v, want a pause of a minute that is over", s)
		}
		if err := q.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A bucket of the largest burst, which stands for no limit, lets its keys go when a pause ends:
// as a float, that burst is more than an int holds.
func TestBucketOfTheLargestBurstGoesOnAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := ratelimit.NewBucket("b", 1, math.MaxInt)
		if err != nil {
			t.Fatal(err)
		}
		q, err := queue.New(&queue.Options[string]{Buckets: func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, b) }})
		if err != nil {
			t.Fatal(err)
		}
		b.Throttle(time.Now().Add(time.Second))
		if err := q.Add("k"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		item, err := q.Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		item.Done()
		if err := q.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Tokens that come back go to the keys that wait, at most the burst is kept, and so no
// window has more runs than the rate and the burst allow.
func TestRefundedTokenGoesToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := ratelimit.NewBucket("b", 0.001, 2)
		if err != nil {
			t.Fatal(err)
		}
		q, err := queue.New(&queue.Options[string]{Buckets: func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, b) }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b.Refund(5) // it is full
		runs := make(chan string, 10)
		for range 2 { // they end at cancel
			go func() {
				for {
					item, err := q.Get(ctx)
					if err != nil {
						return
					}
					runs <- item.Key
					item.Done()
				}
			}()
		}
		for _, key := range []string{"a", "b", "c", "d"} {
			if err := q.Add(key); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if len(runs) != 2 {
			t.Fatalf("%d runs by a burst of 2", len(runs))
		}
		b.Refund(1)
		b.Refund(0)
		b.Refund(-3)
		synctest.Wait()
		if len(runs) != 3 {
			t.Errorf("%d runs when one token came back, want 3", len(runs))
		}
	})
}

// A key that had a token, and finds the bucket paused when a worker takes it, runs when the
// pause ends, and not when the bucket would have had one token more.
//
// Negative control: mutant "a key that was admitted waits for another token".
func TestAdmittedKeyThatMeetsAPauseRunsWhenThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := ratelimit.NewBucket("b", 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		q, err := queue.New(&queue.Options[string]{Buckets: func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, b) }})
		if err != nil {
			t.Fatal(err)
		}
		defer q.Stop(context.WithoutCancel(t.Context()))
		next := func(timeout time.Duration) (string, error) {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			item, err := q.Get(ctx)
			if err == nil {
				item.Done()
			}
			return item.Key, err
		}
		for _, key := range []string{"a", "b", "c"} {
			if err := q.Add(key); err != nil {
				t.Fatal(err)
			}
		}
		if key, err := next(time.Second / 2); key != "a" {
			t.Fatalf("got %q, %v", key, err)
		}
		if key, err := next(time.Second / 2); err == nil {
			t.Fatalf("got %q without a token", key)
		}
		time.Sleep(time.Second) // there is a token for b, and no worker; c waits for the next
		synctest.Wait()
		b.Throttle(time.Now().Add(time.Second / 10))
		began := time.Now()
		key, err := next(time.Minute)
		if took := time.Since(began); key != "b" || took < time.Second/10 || took > time.Second/10+10*time.Microsecond {
			t.Errorf("got %q after %v, %v; want b after %v", key, took, err, time.Second/10)
		}
	})
}

// A bucket that has tokens again lets the keys of every queue that shares it go at once, not
// when the tokens would have come.
//
// Negative control: mutant "a bucket that is changed wakes one of the queues that share it".
func TestChangedBucketWakesEveryQueueThatSharesIt(t *testing.T) {
	pause := func(b *ratelimit.Bucket) { b.Throttle(time.Now().Add(time.Hour)) }
	empty := func(b *ratelimit.Bucket) { b.Charge(3) }
	for name, c := range map[string]struct {
		refuse func(b *ratelimit.Bucket)
		allow  func(b *ratelimit.Bucket) error
	}{
		"Resume":   {pause, func(b *ratelimit.Bucket) error { b.ThrottleUntil(time.Time{}); return nil }},
		"Refund":   {empty, func(b *ratelimit.Bucket) error { b.Refund(3); return nil }},
		"SetLimit": {empty, func(b *ratelimit.Bucket) error { return b.SetLimit(1000, 3) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, err := ratelimit.NewBucket("b", 0.001, 3)
			if err != nil {
				t.Fatal(err)
			}
			c.refuse(b)
			got := make(chan struct{}, 3)
			for range 3 {
				q, err := queue.New(&queue.Options[string]{Buckets: func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, b) }})
				if err != nil {
					t.Fatal(err)
				}
				defer q.Stop(context.WithoutCancel(t.Context()))
				if err := q.Add("k"); err != nil {
					t.Fatal(err)
				}
				go func() { // ends with the item
					item, err := q.Get(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					got <- struct{}{}
					item.Done()
				}()
			}
			synctest.Wait()
			if len(got) > 0 {
				t.Fatalf("%s: %d keys ran before the bucket was changed", name, len(got))
			}
			changed := time.Now()
			if err := c.allow(b); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				<-got
			}
			if d := time.Since(changed); d > time.Second {
				t.Errorf("%s: the last of three queues had its key %v later", name, d)
			}
		})
	}
}
