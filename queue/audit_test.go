package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
)

// An Item that was settled is noticed however many runs there have been since.
func TestStaleItemIsNoticedAfterMillionsOfRuns(t *testing.T) {
	q := newQueue(t, oneOrder())
	add(t, q, "k")
	stale := get(t, q)
	stale.Done()
	skipRuns(q, 1<<24-1)
	add(t, q, "k") // takes the slot that it had
	it := get(t, q)
	defer func() {
		if recover() == nil {
			t.Error("a stale Item ended another run")
			return
		}
		it.Done()
	}()
	stale.Done()
}

// Settling the zero Item says what is wrong.
func TestZeroItemPanicsWithAMessage(t *testing.T) {
	var zero Item[string]
	for name, settle := range map[string]func(){
		"Done": zero.Done, "After": func() { zero.After(time.Second) }, "Retry": func() { zero.Retry(errTest, 0) },
		"Park": func() { zero.Park(errTest) },
	} {
		func() {
			defer func() {
				if said, ok := recover().(string); !ok || !strings.HasPrefix(said, "queue: ") {
					t.Errorf("%s: %v, want a message of package queue", name, said)
				}
			}()
			settle()
		}()
	}
}

// What is added after Remove during a run is an add like others: its reason is shown,
// and it is due when it says.
// promise Q3; seen to fail when the end of the run forgot it.
func TestAddAfterRemoveDuringARunIsLikeOthers(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		add(t, q, "k")
		it := get(t, q)
		q.Remove("k")
		if err := q.AddWith("k", AddOptions{Reason: "watch", After: time.Second}); err != nil {
			t.Fatal(err)
		}
		it.Retry(errTest, time.Hour) // counts no more
		e := entryOf(t, q, "k")
		if e.State != StateDelayed || time.Until(e.Next) != time.Second || len(e.Reasons) != 1 || e.LastError != nil {
			t.Errorf("k is %+v, want it delayed by a second, with its reason and no error", e)
		}
		time.Sleep(time.Second / 2)
		add(t, q, "k")
		wantNext(t, q, "k")
	})
}

// A key that its bucket refuses does not use up the dispatch that the oldest key has
// in sixteen.
// promise Q5; seen to fail when a refused key counted as a dispatch.
func TestRefusedKeyUsesUpNoTurnOfTheOldest(t *testing.T) {
	b := bucketOf(t, "b", 1e-6, 1)
	o := oneOrder()
	o.Buckets = func(key string, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
		if key[0] == 'x' {
			dst = append(dst, b)
		}
		return dst
	}
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		b.Throttle(time.Now().Add(time.Hour))
		low := AddOptions{Priority: At(-1)}
		for _, key := range []string{"x1", "x2", "low"} {
			if err := q.AddWith(key, low); err != nil {
				t.Fatal(err)
			}
		}
		for n := 1; ; n++ {
			add(t, q, "high")
			it := get(t, q)
			it.Done()
			if it.Key == "low" {
				return
			}
			if n == agingEvery {
				t.Fatalf("the oldest key that may run has not run in %d dispatches", n)
			}
		}
	})
}

// A key that was let go for a token and leaves before it runs, or cannot run because
// its tenant has as many as it may, gives the token to the next.
// promise Q6; seen to fail when only the next token was given to it.
func TestTokenOfAKeyThatLeavesGoesToTheNext(t *testing.T) {
	for name, leave := range map[string]func(q *Queue[string]){
		"Remove":  func(q *Queue[string]) { q.Remove("a1") },
		"put off": func(q *Queue[string]) { _ = replace(q, "a1", AddOptions{After: 24 * time.Hour}) },
		"key":     func(q *Queue[string]) { q.Hold(q.OfKey("a1"), Hold{}) },
		"tenant":  func(q *Queue[string]) { q.Hold(q.OfTenant("a"), Hold{}) },
	} {
		t.Run(name, func(t *testing.T) {
			o := oneOrder()
			o.Tenant = func(key string) string { return key[:1] }
			var b *ratelimit.Bucket
			o.Buckets = func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, b) }
			bubble(t, o, func(t *testing.T, q *Queue[string]) {
				b = bucketOf(t, "b", 1e-3, 1)
				b.Throttle(time.Now().Add(time.Second))
				add(t, q, "a1", "b1")
				wantNone(t, q)
				time.Sleep(2 * time.Second)
				wantState(t, q, "a1", StateReady) // it has the token
				wantState(t, q, "b1", StateThrottled)
				leave(q)
				wantNext(t, q, "b1")
			})
		})
	}
}
