package queue

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
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

// The time for which a bucket was paused does not overflow.
func TestTimeThrottledDoesNotOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := NewBucket("b", 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, year := range []int{9999, 14999, 18999} {
			b.Throttle(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC))
			if got := b.Stats().Throttled; got != 0 {
				t.Errorf("paused until %d: paused for %v so far, want 0", year, got)
			}
		}
		time.Sleep(time.Hour)
		if got := b.Stats().Throttled; got != time.Hour {
			t.Errorf("paused for %v, want 1h", got)
		}
		b.Throttle(time.Now().Add(time.Minute)) // shorter: changes nothing
		if until := b.Stats().Until; until.Year() != 18999 {
			t.Errorf("paused until %v, want the year 18999", until)
		}
		b.Resume()
		time.Sleep(time.Hour)
		if st := b.Stats(); st.Throttled != time.Hour || !st.Until.IsZero() {
			t.Errorf("paused for %v until %v, want 1h and not any more", st.Throttled, st.Until)
		}
	})
}
