//go:build !race

package queue

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// A key costs at most 74 bytes while it is queued and 66 in every other state (the header of its string
// included), 40 more with an error (a record and a pointer to it), and nothing a while after it is gone.
// promise Q7
func TestKeysCostLittleMemory(t *testing.T) { synctest.Test(t, keysCostLittleMemory) }

func keysCostLittleMemory(t *testing.T) {
	const n = 250_000
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint("some-resource-", i)
	}
	per := func(before, after uint64) float64 { return float64(int64(after)-int64(before)) / n }
	q := newQueue(t, &Options[string]{Shards: 1, Policy: func(int, error) time.Duration { return time.Hour }})
	each := func(f func(it Item[string])) {
		for range n {
			it, err := q.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			f(it)
		}
	}
	start, queued := heapOf(func() {
		for _, key := range keys {
			if err := q.Add(key); err != nil {
				t.Fatal(err)
			}
		}
	})
	_, delayed := heapOf(func() { each(func(it Item[string]) { it.After(time.Hour) }) })
	_, failed := heapOf(func() {
		for _, key := range keys {
			q.Add(key)
		}
		each(func(it Item[string]) { it.Retry(nil, 0) })
	})
	_, withError := heapOf(func() {
		for _, key := range keys {
			kick(q, key)
		}
		each(func(it Item[string]) { it.Retry(errTest, 0) })
	})
	_, gone := heapOf(func() {
		for _, key := range keys {
			kick(q, key)
		}
		each(func(it Item[string]) { it.Done() })
	})
	for _, c := range []struct {
		what string
		heap uint64
		most float64
	}{{"queued", queued, 74}, {"delayed", delayed, 66}, {"failed", failed, 66}, {"failed with an error", withError, 106}, {"after success", gone, 2}} {
		if got := per(start, c.heap); got > c.most {
			t.Errorf("%s: %.1f bytes a key, want at most %v", c.what, got, c.most)
		} else {
			t.Logf("%s: %.1f bytes a key", c.what, got)
		}
	}
	runtime.KeepAlive(keys)
	q.Close()
}
