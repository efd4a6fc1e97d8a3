//go:build peers

package bench

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"

	clientcache "k8s.io/client-go/tools/cache"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	inmemory "github.com/tendhq/tend/store/memory"
)

// BenchmarkStore: memory against the limit and go-memdb, file against bbolt, etcd against its
// raw client, PostgreSQL against pgx. Sub-benchmarks are backend=…/op=…; the others are in
// storefile_test.go, storeetcd_test.go and storepostgres_test.go.
func BenchmarkStore(b *testing.B) {
	b.Run("backend=memory", benchmarkMemoryStore)
	b.Run("backend=file", benchmarkFileStore)
	b.Run("backend=etcd", benchmarkEtcdStore)
	b.Run("backend=postgres", benchmarkPostgresStore)
}

const things = 10_000

// benchmarkMemoryStore: impl=limit is plainStore, impl=client-go the indexer that
// its informers keep, which holds what it is given and hands out the same, and
// impl=go-memdb a database that does so too (memdb_test.go).
func benchmarkMemoryStore(b *testing.B) {
	keys := thingKeys(things)
	run := func(op string, impls ...memoryImpl) {
		b.Run("op="+op, func(b *testing.B) {
			for _, impl := range impls {
				b.Run("impl="+impl.name, func(b *testing.B) {
					do := impl.make(b, keys)
					measure(b, func() {
						for i := range b.N {
							do(i)
						}
					})
				})
			}
		})
	}
	run("create", memoryImpl{"tend", createTend}, memoryImpl{"limit", createLimit}, memoryImpl{"go-memdb", createMemdb})
	run("get", memoryImpl{"tend", getTend}, memoryImpl{"limit", getLimit}, memoryImpl{"go-memdb", getMemdb})
	run("update", memoryImpl{"tend", updateTend}, memoryImpl{"limit", updateLimit}, memoryImpl{"go-memdb", updateMemdb})
	run("cached-get", memoryImpl{"tend", cachedGetTend}, memoryImpl{"limit", cachedGetLimit}, memoryImpl{"client-go", cachedGetIndexer}, memoryImpl{"go-memdb", cachedGetMemdb})
	run("cached-list-10k", memoryImpl{"tend", cachedListTend}, memoryImpl{"limit", cachedListLimit}, memoryImpl{"client-go", cachedListIndexer}, memoryImpl{"go-memdb", cachedListMemdb})
	run("list-10k", memoryImpl{"tend", listTend}, memoryImpl{"limit", listLimit}, memoryImpl{"go-memdb", listMemdb})
	b.Run("op=get-parallel", func(b *testing.B) {
		for _, impl := range []memoryImpl{{"tend", getTend}, {"limit", getLimit}, {"go-memdb", getMemdb}} {
			b.Run("impl="+impl.name, func(b *testing.B) {
				do := impl.make(b, keys)
				measure(b, func() {
					b.RunParallel(func(pb *testing.PB) {
						for i := 0; pb.Next(); i++ {
							do(i)
						}
					})
				})
			})
		}
	})
	for _, watchers := range *watchersFlag {
		b.Run("op=watch/watchers="+short(watchers), func(b *testing.B) {
			b.Run("impl=tend", func(b *testing.B) { watchTendStore(b, watchers) })
			b.Run("impl=limit", func(b *testing.B) { watchLimit(b, watchers) })
			b.Run("impl=go-memdb-latest", func(b *testing.B) { watchMemdb(b, watchers) })
		})
	}
}

// memoryImpl makes what does the i-th operation.
type memoryImpl struct {
	name string
	make func(b *testing.B, keys []store.Key) func(i int)
}

func newThings(b *testing.B, n int) *thingStore {
	backend, err := inmemory.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	s, err := store.New[thingSpec, thingStatus](backend, "Thing", nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		if _, err := s.Create(context.Background(), newThing(i)); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

func newNames(b *testing.B) []string {
	names := make([]string, b.N)
	for i := range names {
		names[i] = "object-" + strconv.Itoa(i)
	}
	return names
}

func createTend(b *testing.B, _ []store.Key) func(int) {
	s, names, o := newThings(b, 0), newNames(b), *newThing(0)
	return func(i int) {
		o.Name = names[i]
		if _, err := s.Create(context.Background(), &o); err != nil {
			b.Fatal(err)
		}
	}
}

func createLimit(b *testing.B, _ []store.Key) func(int) {
	p, names, o := newPlainStore(0), newNames(b), *newThing(0)
	return func(i int) {
		o.Name = names[i]
		p.create(&o)
	}
}

func getTend(b *testing.B, keys []store.Key) func(int) {
	s := newThings(b, len(keys))
	return func(i int) {
		if _, err := s.Get(context.Background(), keys[i%len(keys)]); err != nil {
			b.Fatal(err)
		}
	}
}

func getLimit(_ *testing.B, keys []store.Key) func(int) {
	p := newPlainStore(len(keys))
	return func(i int) { p.get(keys[i%len(keys)]) }
}

func updateTend(b *testing.B, keys []store.Key) func(int) {
	s, held := newThings(b, len(keys)), make([]*thing, len(keys))
	for i, k := range keys {
		held[i], _ = s.Get(context.Background(), k)
	}
	return func(i int) {
		o := held[i%len(held)]
		o.Spec.A = strconv.Itoa(i)
		stored, err := s.Update(context.Background(), o)
		if err != nil {
			b.Fatal(err)
		}
		held[i%len(held)] = stored
	}
}

func updateLimit(_ *testing.B, keys []store.Key) func(int) {
	p, held := newPlainStore(len(keys)), make([]*thing, len(keys))
	for i, k := range keys {
		held[i] = p.get(k)
	}
	return func(i int) {
		o := held[i%len(held)]
		o.Spec.A = strconv.Itoa(i)
		held[i%len(held)] = p.update(o)
	}
}

func listTend(b *testing.B, keys []store.Key) func(int) {
	s := newThings(b, len(keys))
	return func(int) {
		for _, err := range s.All(context.Background(), store.Selector{}) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func listLimit(_ *testing.B, keys []store.Key) func(int) {
	p := newPlainStore(len(keys))
	return func(int) {
		p.mu.RLock()
		defer p.mu.RUnlock()
		for _, o := range p.objects {
			copyByHand(o)
		}
	}
}

func newThingCache(b *testing.B, n int) *cache.Cache[thingSpec, thingStatus] {
	c, err := cache.New(newThings(b, n), nil)
	if err != nil {
		b.Fatal(err)
	}
	background(b, c.Run)
	<-c.Synced()
	return c
}

// generations is what a reader does with what it reads, so that the object and
// not only its address is touched.
var generations int64

func cachedGetTend(b *testing.B, keys []store.Key) func(int) {
	c := newThingCache(b, len(keys))
	return func(i int) {
		o, _ := c.Get(keys[i%len(keys)])
		generations += o.Generation
	}
}

func cachedGetLimit(_ *testing.B, keys []store.Key) func(int) {
	p := newPlainStore(len(keys))
	return func(i int) { generations += p.shared(keys[i%len(keys)]).Generation }
}

func newIndexer(b *testing.B, keys []store.Key) clientcache.Indexer {
	x := clientcache.NewIndexer(func(o any) (string, error) {
		return o.(*thing).Namespace + "/" + o.(*thing).Name, nil
	}, nil)
	p := newPlainStore(len(keys))
	for _, o := range p.objects {
		if err := x.Add(o); err != nil {
			b.Fatal(err)
		}
	}
	return x
}

// cachedGetIndexer has the joined keys at hand, as a worker has that got one from
// its queue.
func cachedGetIndexer(b *testing.B, keys []store.Key) func(int) {
	x, joined := newIndexer(b, keys), make([]string, len(keys))
	for i, k := range keys {
		joined[i] = k.Namespace + "/" + k.Name
	}
	return func(i int) {
		o, _, _ := x.GetByKey(joined[i%len(joined)])
		generations += o.(*thing).Generation
	}
}

func cachedListTend(b *testing.B, keys []store.Key) func(int) {
	c := newThingCache(b, len(keys))
	return func(int) {
		for o := range c.All() {
			generations += o.Generation
		}
	}
}

func cachedListLimit(_ *testing.B, keys []store.Key) func(int) {
	p := newPlainStore(len(keys))
	return func(int) {
		p.mu.RLock()
		defer p.mu.RUnlock()
		for _, o := range p.objects {
			generations += o.Generation
		}
	}
}

func cachedListIndexer(b *testing.B, keys []store.Key) func(int) {
	x := newIndexer(b, keys)
	return func(int) {
		for _, o := range x.List() {
			generations += o.(*thing).Generation
		}
	}
}

// watchLimit: updates of one object until every watcher has seen them.
func watchLimit(b *testing.B, watchers int) {
	p := newPlainStore(1)
	o := p.get(newThing(0).Key())
	var all sync.WaitGroup
	for range watchers {
		ch := make(chan *thing, 1024)
		p.watchers = append(p.watchers, ch)
		all.Go(func() {
			for range ch {
			}
		})
	}
	measure(b, func() {
		for i := range b.N {
			o.Spec.A = strconv.Itoa(i)
			o = p.update(o)
		}
		for _, ch := range p.watchers {
			close(ch)
		}
		all.Wait()
	})
}

// watchTendStore is the same. The writer waits after every 1,024 updates for all
// watchers, as the limit's does when a channel is full: no watcher is cut off,
// and each sees every event. A watcher is handed the backend's records, whose values
// are the objects themselves, shared, as the limit's channels carry them.
func watchTendStore(b *testing.B, watchers int) {
	const burst = 1024
	s := newThings(b, 1)
	o, err := s.Get(context.Background(), newThing(0).Key())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var seen, all sync.WaitGroup
	start := o.Revision
	seen.Add(watchers)
	for range watchers {
		all.Go(func() {
			n := -1 // the first change is not of the measured ones
			for batch, err := range s.Backend().Watch(ctx, s.Kind(), start) {
				if err != nil {
					if ctx.Err() == nil {
						b.Error(err)
					}
					return
				}
				for range batch.Changes {
					if n++; n%burst == 0 || n == b.N {
						seen.Done()
					}
				}
			}
		})
	}
	write := func(a string) {
		o.Spec.A = a
		if o, err = s.Update(ctx, o); err != nil {
			b.Fatal(err)
		}
	}
	write("first") // once all have it, all watch
	seen.Wait()
	seen.Add(watchers)
	measure(b, func() {
		for i := range b.N {
			write(strconv.Itoa(i))
			if (i+1)%burst == 0 || i+1 == b.N {
				seen.Wait()
				seen.Add(watchers)
			}
		}
	})
	cancel()
	all.Wait()
}

// BenchmarkStoreMemory: what an object costs in memory, the object and its text
// included. One operation is the whole of it.
func BenchmarkStoreMemory(b *testing.B) {
	const n = 1e5
	for _, impl := range []struct {
		name string
		make func() any
	}{
		{"tend", func() any { return newThings(b, n) }},
		{"limit", func() any { return newPlainStore(n) }},
		{"go-memdb", func() any { return newMemdb(b, n) }},
	} {
		b.Run(fmt.Sprint("objects=", short(n), "/impl=", impl.name), func(b *testing.B) {
			var perObject float64
			measure(b, func() {
				for range b.N {
					before := heap()
					kept := impl.make()
					perObject = float64(heap()-before) / n
					runtime.KeepAlive(kept)
				}
			})
			b.ReportMetric(perObject, "B/object")
		})
	}
}
