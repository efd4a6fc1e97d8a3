//go:build peers

package bench

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/tendhq/tend/queue"
)

// Times are noisy and not asserted anywhere; allocations and bytes are not.

func TestCycleOfTheNativeQueueAllocatesNothing(t *testing.T) {
	q, err := queue.New[string](nil)
	if err != nil {
		t.Fatal(err)
	}
	keys, at := stringKeys(1000), 0
	ctx := context.Background()
	if got := testing.AllocsPerRun(10_000, func() {
		_ = q.Add(keys[at%len(keys)])
		item, _ := q.Get(ctx)
		item.Done()
		at++
	}); got != 0 {
		t.Errorf("a cycle allocates %v times, want 0", got)
	}
}

// The goal is 62; what is above it are chunks that are not full.
func TestBytesPerKeyInEveryState(t *testing.T) {
	const n, most, mostQueued = 500_000, 66, 75
	keys := stringKeys(n)
	for _, state := range []string{"queued", "delayed", "failed"} {
		q, err := queue.New(&queue.Options[string]{Policy: queue.Backoff{Base: time.Hour, NoJitter: true}.Policy()})
		if err != nil {
			t.Fatal(err)
		}
		before := heap()
		for _, key := range keys {
			d := time.Duration(0)
			if state == "delayed" {
				d = time.Hour
			}
			if err := q.AddAfter(key, d); err != nil {
				t.Fatal(err)
			}
		}
		if state == "failed" {
			for range n {
				item, err := q.Get(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				item.Retry(nil, 0)
			}
		}
		most := most
		if state == "queued" {
			most = mostQueued // with its cell in a ring
		}
		if got := float64(heap()-before) / n; got > float64(most) {
			t.Errorf("%s: %.1f B/key, want at most %d", state, got, most)
		}
		runtime.KeepAlive(q)
		q.Close()
	}
}
