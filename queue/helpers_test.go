package queue

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var errTest = errors.New("test")

// bubble runs f in a synctest bubble with a queue, stops the queue afterwards
// and looks whether everything is still in order. The bubble itself fails if a
// goroutine outlives it.
func bubble(t *testing.T, o *Options[string], f func(t *testing.T, q *Queue[string])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, o)
		f(t, q)
		checkInvariants(t, q)
		if err := q.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func newQueue(t testing.TB, o *Options[string]) *Queue[string] {
	t.Helper()
	q, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// oneOrder is a queue with one order and exact backoff of a second.
func oneOrder() *Options[string] {
	return &Options[string]{Shards: 1, Policy: func(int, error) time.Duration { return time.Second }}
}

func get(t testing.TB, q *Queue[string]) Item[string] {
	t.Helper()
	it, err := q.Get(t.Context())
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	return it
}

// wantNone fails if a key may run now.
func wantNone(t testing.TB, q *Queue[string]) {
	t.Helper()
	synctest.Wait()
	var one [1]Item[string]
	if q.take(context.Background(), one[:]) != 0 {
		t.Errorf("%s may run, want none", one[0].Key)
		one[0].Done()
	}
}

// wantNext gets the next key, which must be there now, and is done with it.
func wantNext(t testing.TB, q *Queue[string], keys ...string) {
	t.Helper()
	for _, key := range keys {
		synctest.Wait()
		var one [1]Item[string]
		if q.take(context.Background(), one[:]); one[0].Key != key {
			t.Fatalf("next is %q, want %q", one[0].Key, key)
		}
		one[0].Done()
	}
}

// entryOf is what Snapshot says of key.
func entryOf(t testing.TB, q *Queue[string], key string) Entry[string] {
	t.Helper()
	for e := range q.Snapshot() {
		if e.Key == key {
			return e
		}
	}
	return Entry[string]{}
}

func wantState(t testing.TB, q *Queue[string], key string, want State) {
	t.Helper()
	if got := entryOf(t, q, key).State; got != want {
		t.Errorf("%s is %v, want %v", key, got, want)
	}
}

func add(t testing.TB, q *Queue[string], keys ...string) {
	t.Helper()
	for _, key := range keys {
		if err := q.Add(key); err != nil {
			t.Fatal(err)
		}
	}
}

// runs takes keys for a while and settles each as f says; it returns how often
// each ran.
func runs(t testing.TB, q *Queue[string], d time.Duration, f func(Item[string])) map[string]int {
	t.Helper()
	n := map[string]int{}
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for {
			var one [1]Item[string]
			if synctest.Wait(); q.take(context.Background(), one[:]) == 0 {
				break
			}
			if n[one[0].Key]++; n[one[0].Key] > 100_000 {
				t.Fatalf("%s runs hot", one[0].Key)
			}
			f(one[0])
		}
	}
	return n
}

func keysIn(q *Queue[string]) []string {
	var keys []string
	for e := range q.Snapshot() {
		keys = append(keys, e.Key)
	}
	slices.Sort(keys)
	return keys
}

// heapInUse is how many bytes are reachable.
func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// kick adds key urgently.
func kick(q *Queue[string], key string) error {
	return q.AddWith(key, AddOptions{Urgent: true, Reason: "kick"})
}

// replace adds key so that its time and priority win.
func replace(q *Queue[string], key string, o AddOptions) error {
	o.Replace = true
	return q.AddWith(key, o)
}
