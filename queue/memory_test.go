package queue

import (
	"runtime"
	"strconv"
	"testing"
	"time"
)

// The way of a key costs no allocation, also of the only key of a tenant: cycle,
// duplicate add, retry, and a requeue without a hold.
func TestNothingIsAllocated(t *testing.T) {
	for _, o := range []Options[string]{{Shards: 1}, {Shards: 4}, {Tenant: func(key string) string { return key }}} {
		o.Policy = func(int, error) time.Duration { return 0 }
		q := newQueue(t, &o)
		ctx := t.Context()
		take := func() Item[string] {
			it, err := q.Get(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return it
		}
		for name, f := range map[string]func(){
			"cycle":         func() { q.Add("a"); take().Done() },
			"duplicate add": func() { q.Add("a"); q.Add("a"); take().Done() },
			"re-add":        func() { q.Add("a"); it := take(); q.Add("a"); it.Done(); take().Done() },
			"requeue":       func() { q.Add("a"); take().After(0); take().Done() },
			"delay":         func() { q.AddAfter("a", time.Hour); q.Add("a"); take().Done() },
			"retry": func() {
				q.Add("a")
				take().Retry(errTest, time.Hour)
				q.AddWith("a", AddOptions{Urgent: true})
				take().Done()
			},
		} {
			f()
			if n := testing.AllocsPerRun(200, f); n != 0 {
				t.Errorf("%d shards, tenants %v: %s: %v allocations, want 0", o.Shards, o.Tenant != nil, name, n)
			}
		}
		q.Close()
	}
}

// Nor does a number of keys that goes up and down.
//
// Negative control: with a table that shrinks while it is small there were 52 allocations each
// time that 500 keys came and went.
func TestNothingIsAllocatedWhileTheDepthSwings(t *testing.T) {
	q := newQueue(t, oneOrder())
	var its [500]Item[string]
	keys := make([]string, len(its))
	for k := range keys {
		keys[k] = strconv.Itoa(k)
	}
	swing := func() {
		add(t, q, keys...)
		for k := range its {
			its[k], _ = q.Get(t.Context())
		}
		for k := range its {
			its[k].Done()
		}
	}
	swing()
	if n := testing.AllocsPerRun(10, swing); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func heapOf(f func()) (before, after uint64) {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	before = m.HeapAlloc
	f()
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return before, m.HeapAlloc
}
