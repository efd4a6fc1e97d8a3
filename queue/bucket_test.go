package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
)

// Negative control: with Resume not waking the queues, the key came out when the
// pause would have ended.
func TestResumedBucketLetsItsKeysGoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := queue.NewBucket("b", 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		q, err := queue.New(&queue.Options[string]{Buckets: func(_ string, dst []*queue.Bucket) []*queue.Bucket { return append(dst, b) }})
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
		b.Resume()
		if at := <-got; at.Sub(resumed) > time.Second {
			t.Errorf("the key came out %v after the pause was ended", at.Sub(resumed))
		}
		b.Resume() // of what is not paused: nothing
		if s := b.Stats(); !s.Until.IsZero() || s.Throttled != time.Minute {
			t.Errorf("%+v, want a pause of a minute that is over", s)
		}
		if err := q.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Tokens that come back go to the keys that wait, at most the burst is kept, and so no
// window has more runs than the rate and the burst allow.
func TestRefundedTokenGoesToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := queue.NewBucket("b", 0.001, 2)
		if err != nil {
			t.Fatal(err)
		}
		q, err := queue.New(&queue.Options[string]{Buckets: func(_ string, dst []*queue.Bucket) []*queue.Bucket { return append(dst, b) }})
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
