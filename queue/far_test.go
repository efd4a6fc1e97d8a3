package queue

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
)

func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(t.Context(), d, errTest)
}

// endOfTime is further away than a Duration can say, as "Retry-After: Fri, 31 Dec
// 9999 23:59:59 GMT" is.
var endOfTime = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// A cloud that never wants to be called again is not called all the time.
//
// Negative control: with int64(t.Sub(q.start))+1, which overflows, the key ran at
// once, and the timer rang without a pause.
func TestThrottleUntilTheEndOfTimeLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := bucketOf(t, "cloud", 10, 10)
		o := oneOrder()
		o.Buckets = func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, cloud) }
		q := newQueue(t, o)
		rings := 0
		ring := q.timer.tick
		q.timer.tick = func() {
			if rings++; rings > 10_000 {
				panic("the timer rings without a pause")
			}
			ring()
		}
		add(t, q, "one", "two")
		get(t, q).Retry(ratelimit.Throttled(cloud, endOfTime, errTest), 0)
		wantNone(t, q)
		wantState(t, q, "one", StateBackingOff)
		wantState(t, q, "two", StateThrottled)
		time.Sleep(time.Hour)
		wantNone(t, q)
		if rings > 100 {
			t.Errorf("the timer rang %d times in an hour in which nothing is due", rings)
		}
		cloud.ThrottleUntil(time.Time{})
		wantNext(t, q, "two")
		checkInvariants(t, q)
		if err := q.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A key that has just come in is not shown as waiting since the start, however long ago that
// was: an alert looks at that.
//
// Negative control: mutant "the upper bits of a time are forgotten".
func TestTimesAreRightInAProcessThatRunsForYears(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		for range 5 {
			time.Sleep(209 * 24 * time.Hour)
			near := func(what string, at time.Time, ago time.Duration) {
				t.Helper()
				if d := time.Since(at) - ago; d.Abs() > 2*time.Microsecond {
					t.Errorf("%s: %v ago, want %v", what, time.Since(at), ago)
				}
			}
			add(t, q, "old")
			time.Sleep(time.Minute)
			add(t, q, "new")
			near("Snapshot", entryOf(t, q, "old").Since, time.Minute)
			near("OldestReady", q.Stats().Of(StateReady).Oldest, time.Minute)
			rows := q.Stats().States
			if len(rows) != 1 || rows[0].Keys != 2 {
				t.Errorf("states %+v", rows)
			} else {
				near("States", rows[0].Oldest, time.Minute)
			}
			old := get(t, q)
			time.Sleep(time.Minute)
			last := get(t, q)
			rows = q.Stats().States
			if len(rows) != 1 || rows[0].Keys != 2 || (rows[0].Total-time.Minute).Abs() > 2*time.Microsecond {
				t.Errorf("states %+v", rows)
			} else {
				near("States of running keys", rows[0].Oldest, time.Minute)
			}
			old.Done()
			last.Done()
		}
	})
}

// The same of keys that run while the lower half of the times wraps.
func TestAgesOfRunsAreRightWhenTimesWrap(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		time.Sleep(1<<(32+sinceUnit) - 2*time.Minute)
		var its []Item[string]
		for n := range 4 {
			add(t, q, fmt.Sprint(n))
			its = append(its, get(t, q))
			time.Sleep(time.Minute)
		}
		want := func(total, oldest time.Duration) {
			t.Helper()
			rows := q.Stats().States
			if len(rows) != 1 || (time.Since(rows[0].Oldest)-oldest).Abs() > 2*time.Microsecond || (rows[0].Total-total).Abs() > 5*time.Microsecond {
				t.Errorf("states %+v, want the oldest since %v and %v in all", rows, oldest, total)
			}
		}
		want(10*time.Minute, 4*time.Minute)
		its[2].Done()
		want(8*time.Minute, 4*time.Minute)
		its[0].Done()
		want(4*time.Minute, 3*time.Minute)
		its[3].Done()
		its[1].Done()
		checkInvariants(t, q)
	})
}

// The same where it wraps between the two keys.
func TestPagesByAgeAreInOrderWhenTimesWrap(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		time.Sleep(1<<(32+sinceUnit) - time.Minute)
		for n := range 4 {
			add(t, q, fmt.Sprint(n))
			time.Sleep(time.Minute)
		}
		var got []string
		o := PageOptions{Order: ByAge, Limit: 1}
		for more := true; more; {
			p, err := q.Page(t.Context(), nil, &o)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range p.Entries {
				got = append(got, e.Key)
			}
			o.From, more = p.Next, p.More
		}
		if fmt.Sprint(got) != "[0 1 2 3]" {
			t.Errorf("oldest first: %v, want [0 1 2 3]", got)
		}
		rows := q.Stats().States
		if len(rows) != 1 || (time.Since(rows[0].Oldest)-4*time.Minute).Abs() > 2*time.Microsecond {
			t.Errorf("states %+v", rows)
		}
		wantNext(t, q, "0", "1", "2", "3")
	})
}

// Delays of any length are kept, in the order of their times.
func TestDelaysOfAnyLengthAreTaken(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		q.AddAfter("never", math.MaxInt64)
		q.AddAfter("year", 365*24*time.Hour)
		q.AddAfter("now", math.MinInt64)
		q.Hold(q.OfKey("held"), Hold{Reason: "test", Max: math.MaxInt64})
		wantNext(t, q, "now")
		time.Sleep(365*24*time.Hour - 1)
		wantNone(t, q)
		time.Sleep(time.Nanosecond)
		wantNext(t, q, "year")
		wantState(t, q, "never", StateDelayed)
		wantState(t, q, "held", StateIdle)
	})
}

// More buckets may have keys waiting at once than a signed 16-bit number has, and
// what refusing them and letting them go costs does not grow with their number.
//
// Negative control: with the number of a line in 16 bits the 32,768th panicked under
// the shard's lock; with a search for a free number it took seconds.
func TestManyBucketsRefuseAtOnce(t *testing.T) {
	const n = 40_000
	buckets := map[string]*ratelimit.Bucket{}
	o := oneOrder()
	o.Buckets = func(key string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, buckets[key]) }
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		for k := range n { // made inside the bubble, where time goes otherwise
			b := bucketOf(t, fmt.Sprint(k), 1, 1)
			b.Charge(1)
			b.Throttle(time.Now().Add(time.Second))
			buckets[b.Name()] = b
		}
		for key := range buckets {
			add(t, q, key)
		}
		wantNone(t, q)
		if s := q.Stats(); s.Of(StateThrottled).Keys != n {
			t.Errorf("%d keys are throttled, want %d", s.Of(StateThrottled).Keys, n)
		}
		checkInvariants(t, q)
		time.Sleep(time.Minute)
		for range n {
			get(t, q).Done()
		}
	})
}
