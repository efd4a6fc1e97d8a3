package queue

import (
	"testing"
	"testing/synctest"
	"time"
)

// A hundred thousand keys fail and then succeed: no entry, no state and no memory is
// left of them.
// case 38
// promise Q7
func TestNothingIsKeptOfAHundredThousandFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 100_000
		q, err := New(&Options[int]{Shards: 8, Policy: func(int, error) time.Duration { return time.Second }}) // each shard keeps some 60 KB
		if err != nil {
			t.Fatal(err)
		}
		round := func(settle func(Item[int])) {
			for range keys {
				it, err := q.Get(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				settle(it)
			}
		}
		before := heapInUse()
		for key := range keys {
			if err := q.Add(key); err != nil {
				t.Fatal(err)
			}
		}
		round(func(it Item[int]) { it.Retry(errTest, 0) })
		round(func(it Item[int]) {
			if it.Attempt != 1 {
				t.Fatalf("attempt %d of %d, want 1", it.Attempt, it.Key)
			}
			it.Done()
		})
		time.Sleep(time.Minute) // memory is given back meanwhile
		for e := range q.Snapshot() {
			t.Fatalf("%d is kept: %v", e.Key, e.State)
		}
		if st := q.Stats(); st.Of(StateReady).Keys+st.Of(StateDelayed).Keys+st.Of(StateBackingOff).Keys+st.Of(StateThrottled).Keys+st.Of(StateHeld).Keys+st.Of(StateRunning).Keys+st.Of(StateParked).Keys != 0 {
			t.Errorf("keys are kept: %v", q)
		}
		if grown := heapInUse() - before; grown > keys*10 {
			t.Errorf("%d bytes more than before, want less than 10 a key", grown)
		}
		if err := q.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
