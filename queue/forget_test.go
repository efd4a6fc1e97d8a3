package queue

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
)

// A bucket's line rings no timer for keys that may not run whatever tokens there are.
//
// seen to fail: with ten tokens a second the timer rang 36,001 times in an hour.
func TestLineOfABlockedTenantSetsNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := oneOrder()
		o.Tenant = func(string) string { return "acme" }
		cloud := bucketOf(t, "cloud", 10, 1)
		o.Buckets = func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, cloud) }
		q := newQueue(t, o)
		var rings atomic.Int64
		ring := q.timer.tick
		q.timer.tick = func() { rings.Add(1); ring() }
		add(t, q, "a", "b", "c")
		wantNext(t, q, "a")
		wantNone(t, q)
		release := q.Hold(q.OfTenant("acme"), Hold{Reason: "test"})
		time.Sleep(time.Hour)
		if rings := rings.Load(); rings > 10 {
			t.Errorf("the timer rang %d times in an hour in which no key may run", rings)
		}
		checkInvariants(t, q)
		release()
		time.Sleep(time.Second)
		wantNext(t, q, "b")
		time.Sleep(time.Second)
		wantNext(t, q, "c")
		if err := q.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The share of a batch is one of what may run.
//
// seen to fail: a getter took all eight keys that may run, because of ninety-two of a
// tenant that is held.
func TestShareOfABatchCountsWhatMayRun(t *testing.T) {
	o := oneOrder()
	o.Tenant = func(key string) string { return key[:1] }
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		q.Hold(q.OfTenant("h"), Hold{Reason: "test"})
		for n := range 100 {
			add(t, q, string("mh"[min(n/8, 1)])+string(rune('0'+n)))
		}
		items := make([]Item[string], 50)
		n, err := q.GetBatch(t.Context(), items)
		if err != nil || n != 4 {
			t.Errorf("a batch of %d, %v; want half of the 8 keys that may run", n, err)
		}
		for _, it := range items[:n] {
			it.Done()
		}
		checkInvariants(t, q)
	})
}

// A tenant that has gone is kept by none that stays.
// promise Q7
//
// Seen to fail: those that stayed and had nothing ready kept the one that had been beside
// them by age, that one the next, and so on.
func TestTenantsThatAreGoneAreNotKept(t *testing.T) {
	o := oneOrder()
	o.Tenant = func(key string) string { return key[:8] }
	q := newQueue(t, o)
	n := 0
	come := func() {
		for k := range 6 {
			add(t, q, fmt.Sprintf("%08d-%d", n, k))
		}
		n++
	}
	var one [1]Item[string]
	for range 40 {
		come()
	}
	turn := func(times int) {
		for range times {
			come()
			for range 6 {
				for _, it := range takeNow(q, one[:]) {
					if it.Key == "00000000-0" {
						it.Park(errTest)
					} else {
						it.Done()
					}
				}
			}
		}
	}
	turn(1000)
	before := heapInUse()
	turn(sized(8000, 4000))
	if grown := heapInUse() - before; grown > 1<<19 {
		t.Errorf("%d bytes more after %d tenants came and went", grown, sized(8000, 4000))
	}
	if q.Stats().Of(StateParked).Keys != 1 {
		t.Error("no tenant stays: this shows nothing")
	}
	q.Close()
}
