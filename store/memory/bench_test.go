package memory_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// The object that all of these benchmarks use: two labels and a finalizer, a
// spec of five strings and a map of two, two conditions.
type benchSpec struct {
	A, B, C, D, E string
	Tags          map[string]string
}

type (
	benchStatus struct{ ARN string }
	benchObject = store.Object[benchSpec, benchStatus]
	benchStore  = store.Store[benchSpec, benchStatus]
)

func benchNew(i int) *benchObject {
	n := strconv.Itoa(i)
	return &benchObject{
		Meta: store.Meta{
			Namespace: "bench", Name: "object-" + n,
			Labels:     map[string]string{"team": "t" + n, "env": "prod"},
			Finalizers: []string{"bench/finalizer"},
		},
		Spec: benchSpec{
			A: "a" + n, B: "b" + n, C: "c" + n, D: "d" + n, E: "e" + n,
			Tags: map[string]string{"one": "1" + n, "two": "2" + n},
		},
		Status:     benchStatus{ARN: "arn:" + n},
		Conditions: []store.Condition{{Type: "Ready", Status: store.True}, {Type: "Synced", Status: store.True}},
	}
}

// limit is the least that can do the work: a map of such objects under a lock,
// copied and compared by hand, with a channel per watcher.
type limit struct {
	mu       sync.RWMutex
	rev      store.Revision
	objects  map[store.Key]*benchObject
	watchers []chan *benchObject
}

func copyByHand(o *benchObject) *benchObject {
	c := *o
	c.Labels = maps.Clone(o.Labels)
	c.Annotations = maps.Clone(o.Annotations)
	c.Finalizers = slices.Clone(o.Finalizers)
	c.Owners = slices.Clone(o.Owners)
	c.Conditions = slices.Clone(o.Conditions)
	c.Spec.Tags = maps.Clone(o.Spec.Tags)
	return &c
}

func sameByHand(a, b *benchSpec) bool {
	return a.A == b.A && a.B == b.B && a.C == b.C && a.D == b.D && a.E == b.E && maps.Equal(a.Tags, b.Tags)
}

func (l *limit) get(k store.Key) *benchObject {
	l.mu.RLock()
	o := l.objects[k]
	l.mu.RUnlock()
	return copyByHand(o)
}

// update stores a copy and returns another, as any store must that lets neither
// reach what it keeps.
func (l *limit) update(o *benchObject) (*benchObject, bool) {
	next := copyByHand(o)
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.objects[o.Key()]
	if old == nil || old.Revision != o.Revision {
		return nil, false
	}
	if !sameByHand(&old.Spec, &next.Spec) {
		next.Generation = old.Generation + 1
	}
	l.rev++
	next.Revision = l.rev
	l.objects[o.Key()] = next
	for _, w := range l.watchers {
		w <- next
	}
	return copyByHand(next), true
}

func (l *limit) add(o *benchObject) {
	l.rev++
	o.Revision = l.rev
	l.objects[o.Key()] = copyByHand(o)
}

func newLimit(n int) *limit {
	l := &limit{objects: make(map[store.Key]*benchObject)}
	for i := range n {
		l.add(benchNew(i))
	}
	return l
}

func newBench(b testing.TB, n int) *benchStore {
	s, err := store.New[benchSpec, benchStatus](open(b, nil), "Bench", nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		if _, err := s.Create(b.Context(), benchNew(i)); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

const benchObjects = 10_000

func benchKeys() []store.Key {
	keys := make([]store.Key, benchObjects)
	for i := range keys {
		keys[i] = benchNew(i * 7919 % benchObjects).Key()
	}
	return keys
}

// BenchmarkStore compares with the limit, side by side.
func BenchmarkStore(b *testing.B) {
	keys := benchKeys()
	b.Run("get/limit", func(b *testing.B) {
		l := newLimit(benchObjects)
		for i := 0; b.Loop(); i++ {
			l.get(keys[i%benchObjects])
		}
	})
	b.Run("get/tend", func(b *testing.B) {
		s := newBench(b, benchObjects)
		ctx := b.Context()
		for i := 0; b.Loop(); i++ {
			if _, err := s.Get(ctx, keys[i%benchObjects]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("update/limit", func(b *testing.B) {
		l := newLimit(benchObjects)
		all := objectsOf(func(k store.Key) *benchObject { return l.get(k) }, keys)
		for i := 0; b.Loop(); i++ {
			o := all[i%benchObjects]
			o.Spec.A = strconv.Itoa(i)
			all[i%benchObjects], _ = l.update(o)
		}
	})
	b.Run("update/tend", func(b *testing.B) {
		s := newBench(b, benchObjects)
		ctx := b.Context()
		all := objectsOf(func(k store.Key) *benchObject { o, _ := s.Get(ctx, k); return o }, keys)
		for i := 0; b.Loop(); i++ {
			o := all[i%benchObjects]
			o.Spec.A = strconv.Itoa(i)
			stored, err := s.Update(ctx, o)
			if err != nil {
				b.Fatal(err)
			}
			all[i%benchObjects] = stored
		}
	})
	b.Run("list/limit", func(b *testing.B) {
		l := newLimit(benchObjects)
		for b.Loop() {
			l.mu.RLock()
			for _, o := range l.objects {
				copyByHand(o)
			}
			l.mu.RUnlock()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*benchObjects), "ns/object")
	})
	b.Run("list/tend", func(b *testing.B) {
		s := newBench(b, benchObjects)
		for b.Loop() {
			for _, err := range s.All(b.Context(), store.Selector{}) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*benchObjects), "ns/object")
	})
}

func objectsOf(get func(store.Key) *benchObject, keys []store.Key) []*benchObject {
	all := make([]*benchObject, len(keys))
	for i, k := range keys {
		all[i] = get(k)
	}
	return all
}

// BenchmarkWatch measures one update until every watcher has seen it, per
// update: with many updates under way, as in a burst.
func BenchmarkWatch(b *testing.B) {
	for _, watchers := range []int{1, 100, 5000} {
		b.Run(fmt.Sprint(watchers, "/limit"), func(b *testing.B) { benchLimitWatch(b, watchers) })
		b.Run(fmt.Sprint(watchers, "/tend"), func(b *testing.B) { benchWatch(b, watchers) })
	}
}

func benchLimitWatch(b *testing.B, watchers int) {
	l := newLimit(1)
	o := l.get(benchNew(0).Key())
	var wg sync.WaitGroup
	for range watchers {
		c := make(chan *benchObject, 1024)
		l.watchers = append(l.watchers, c)
		wg.Go(func() {
			for range c {
			}
		})
	}
	n := 0
	for b.Loop() {
		o.Spec.A = strconv.Itoa(n)
		o, _ = l.update(o)
		n++
	}
	for _, c := range l.watchers {
		close(c)
	}
	wg.Wait()
}

// benchWatch holds the writer back when a watcher is more than half of the
// history behind, so that nobody is cut off and everybody sees every event.
func benchWatch(b *testing.B, watchers int) {
	m := open(b, nil)
	s, err := store.New[benchSpec, benchStatus](m, "Bench", nil)
	if err != nil {
		b.Fatal(err)
	}
	o, err := s.Create(b.Context(), benchNew(0))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	const burst = 1024
	var seen, done sync.WaitGroup
	start := o.Revision
	for range watchers {
		done.Go(func() { follow(ctx, b, m, start, burst, &seen) })
	}
	n := 0
	seen.Add(watchers)
	for b.Loop() {
		o.Spec.A = strconv.Itoa(n)
		if o, err = s.Update(ctx, o); err != nil {
			b.Fatal(err)
		}
		if n++; n%burst == 0 {
			seen.Wait()
			seen.Add(watchers)
		}
	}
	cancel()
	done.Wait()
}

// follow counts changes and reports every burst of them.
func follow(ctx context.Context, b *testing.B, m *memory.Backend, at store.Revision, burst int, seen *sync.WaitGroup) {
	n := 0
	for batch, err := range m.Watch(ctx, "Bench", at) {
		if err != nil {
			if ctx.Err() == nil {
				b.Error(err)
			}
			return
		}
		for range batch.Changes {
			if n++; n%burst == 0 {
				seen.Done()
			}
		}
	}
}

// BenchmarkMemory measures the heap per object.
func BenchmarkMemory(b *testing.B) {
	const n = 100_000
	b.Run("limit", func(b *testing.B) {
		for b.Loop() {
			reportHeap(b, n, func() any { return newLimit(n) })
		}
	})
	b.Run("tend", func(b *testing.B) {
		for b.Loop() {
			reportHeap(b, n, func() any { return newBench(b, n) })
		}
	})
}

func reportHeap(b *testing.B, n int, build func() any) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	built := build()
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "B/object")
	runtime.KeepAlive(built)
}
