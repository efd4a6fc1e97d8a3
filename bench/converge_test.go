//go:build peers

package bench

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	inmemory "github.com/tendhq/tend/store/memory"
)

type diskSpec struct {
	Zone string
	Size int
}

type diskStatus struct{ Size int }

type disk = store.Object[diskSpec, diskStatus]

// BenchmarkConverge: objects are created in the memory store; each is seen by a
// watch, reconciled, and its status written. One operation is all of it. The
// implementations use the same store, so what differs is the kernel's share.
// impl=parts is what tend's is made of, one part after the other; impl=least is no
// kernel at all, and what is left to gain.
//
// The loop around client-go's queue does less than a controller: it has no cache, so
// that every read is the store's; a status write wakes its key again; it knows nothing
// of its own writes (promise S4), which it need not as long as it reads the store; it
// has no deadlines, no health, and loses a key whose function panics, with the process.
// In turn it runs every object twice.
func BenchmarkConverge(b *testing.B) {
	for _, n := range *objectsFlag {
		b.Run("objects="+short(n), func(b *testing.B) {
			names := make([]string, n)
			for i := range names {
				names[i] = fmt.Sprintf("disk-%07d", i)
			}
			b.Run("impl=tend", func(b *testing.B) { converge(b, names, convergeTend) })
			b.Run("impl=client-go", func(b *testing.B) { converge(b, names, convergeLoop) })
			b.Run("impl=parts", func(b *testing.B) { convergeParts(b, names) })
			b.Run("impl=least", func(b *testing.B) { converge(b, names, convergeLeast) })
		})
	}
}

type diskStore = store.Store[diskSpec, diskStatus]

func newDisks(b *testing.B, kind string, backend store.Backend) *diskStore {
	s, err := store.New[diskSpec, diskStatus](backend, kind, nil)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func newMemory(b *testing.B, o *inmemory.Options) store.FullBackend {
	backend, err := inmemory.New(o)
	if err != nil {
		b.Fatal(err)
	}
	return backend
}

func create(b *testing.B, s *diskStore, names []string) {
	for i, name := range names {
		o := &disk{Meta: store.Meta{Name: name}, Spec: diskSpec{Zone: "a", Size: i + 1}}
		if _, err := s.Create(context.Background(), o); err != nil {
			b.Error(err)
			return
		}
	}
}

func converge(b *testing.B, names []string, start kernel) {
	convergeOn(b, func() store.Backend { return newMemory(b, nil) }, 1, names, start)
}

// A kernel has the disks of s become as declared, and calls wrote once for each.
type kernel func(b *testing.B, s *diskStore, wrote func()) (stop func())

// convergeOn has so many goroutines create the disks in a new backend.
func convergeOn(b *testing.B, open func() store.Backend, creators int, names []string, start kernel) {
	peak := watchHeap()
	measure(b, func() {
		for range b.N {
			var s *diskStore
			aside(b, func() { s = newDisks(b, "Disk", open()) })
			var left atomic.Int64
			left.Store(int64(len(names)))
			done := make(chan struct{})
			stop := start(b, s, func() {
				if left.Add(-1) == 0 {
					close(done)
				}
			})
			var all sync.WaitGroup
			for part := range slices.Chunk(names, (len(names)+creators-1)/creators) {
				all.Go(func() { create(b, s, part) })
			}
			<-done
			all.Wait()
			aside(b, stop) // or the rounds that follow share the cores with this one's workers
		}
	})
	b.ReportMetric(peak(), "peak-MB")
	perObject(b, len(names))
}

func perObject(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(n), "ns/object")
}

// watchHeap samples the heap until the function it gives is called, which says
// how large it was at most, in MB.
func watchHeap() (peak func() float64) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	stop, most := make(chan struct{}), make(chan uint64)
	go func() { // ended and waited for by peak
		var top uint64
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				metrics.Read(sample)
				top = max(top, sample[0].Value.Uint64())
			case <-stop:
				most <- top
				return
			}
		}
	}()
	return func() float64 { close(stop); return float64(<-most) / 1e6 }
}

// convergeParts does, one after the other and on one goroutine, what converging
// cannot do without: creates, watch events (two an object, one for its status),
// cycles of the queue, reads of the cache with the copy that a reconciler gets,
// and status writes.
func convergeParts(b *testing.B, names []string) {
	n := len(names)
	measure(b, func() {
		for range b.N {
			var p parts
			aside(b, func() { p = newParts(b, n) })
			s, c, q := p.s, p.c, p.q
			create(b, s, names)
			aside(b, p.fill) // it is not what is measured: reading the cache is

			for _, name := range names {
				_ = q.Add(store.Key{Name: name})
			}
			for range names {
				item, err := q.Get(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				o, _ := c.Get(item.Key)
				o = s.Clone(o)
				if err := settleDisk(context.Background(), s, o, func() {}); err != nil {
					b.Fatal(err)
				}
				item.Done()
			}
			seen := 0
			for batch, err := range s.Backend().Watch(context.Background(), "Disk", p.start) {
				if err != nil {
					b.Fatal(err)
				}
				for _, ch := range batch.Changes {
					if _, err := s.Decode(ch.Record); err != nil {
						b.Fatal(err)
					}
					seen++
				}
				if seen == 2*n {
					break
				}
			}
		}
	})
	perObject(b, n)
}

type parts struct {
	s     *diskStore
	c     *cache.Cache[diskSpec, diskStatus]
	q     *queue.Queue[store.Key]
	start store.Revision // before the first disk
}

func newParts(b *testing.B, disks int) (p parts) {
	backend := newMemory(b, &inmemory.Options{History: 3 * disks})
	p.s = newDisks(b, "Disk", backend)
	var err error
	if p.c, err = cache.New(p.s, nil); err != nil {
		b.Fatal(err)
	}
	if p.q, err = queue.New(&queue.Options[store.Key]{Shards: shards()}); err != nil {
		b.Fatal(err)
	}
	if p.start, err = backend.Commit(context.Background(), store.Txn{Ops: []store.Op{
		{Kind: "Other", Key: store.Key{Name: "first"}, Put: store.Bytes("{}")},
	}}); err != nil {
		b.Fatal(err)
	}
	return p
}

// fill fills the cache with what the store holds.
func (p parts) fill() {
	ctx, cancel := context.WithCancel(context.Background())
	filled := make(chan error)
	go func() { filled <- p.c.Run(ctx) }() // received below
	<-p.c.Synced()
	cancel()
	<-filled
}

// settleDisk is the work: what the spec says becomes the status.
func settleDisk(ctx context.Context, s *diskStore, o *disk, wrote func()) error {
	if o.Status.Size == o.Spec.Size {
		return nil
	}
	o.Status.Size = o.Spec.Size
	if _, err := s.UpdateStatus(ctx, o); err != nil {
		return err
	}
	wrote()
	return nil
}

func convergeTend(b *testing.B, s *diskStore, wrote func()) (stop func()) {
	m := new(reconcile.Manager)
	register(b, m, s, 8, wrote)
	return running(b, m.Run)
}

func register(b *testing.B, m *reconcile.Manager, s *diskStore, workers int, wrote func()) {
	o := &reconcile.ForOptions[diskSpec, diskStatus]{Options: reconcile.Options[reconcile.Request]{Workers: workers, Logger: slog.New(slog.DiscardHandler)}}
	c, err := reconcile.For(s, func(ctx context.Context, d *disk) (reconcile.Result, error) {
		return reconcile.Result{}, settleDisk(ctx, s, d, wrote)
	}, o)
	if err != nil {
		b.Fatal(err)
	}
	if err := m.Register(c); err != nil {
		b.Fatal(err)
	}
}

// running runs f until stop is called, which waits for its end.
func running(b *testing.B, f func(ctx context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			b.Errorf("run: %v", err)
		}
	}
}

// convergeLoop is the loop people write around client-go's queue: a watch that
// adds keys, eight workers that read the store. What it need not do, and tend does
// within its figure: keep a cache and hold a key that wrote back until the cache
// has seen the write (S4), ask of each change whose write it was, and give each run
// a deadline, a logger, a recover and a place among the running. It spares itself
// metrics too (tend keeps its counters), and gives up at an error of the watch. What
// it does and tend does not: run each key once more for its own status write.
func convergeLoop(b *testing.B, s *diskStore, wrote func()) (stop func()) {
	q := workqueue.NewTypedRateLimitingQueue(perKey[store.Key](backoffBase))
	var pool sync.WaitGroup
	for range 8 {
		pool.Go(func() {
			for {
				key, shutdown := q.Get()
				if shutdown {
					return
				}
				o, err := s.Get(context.Background(), key)
				if err == nil {
					err = settleDisk(context.Background(), s, o, wrote)
				}
				if err != nil {
					q.AddRateLimited(key)
				} else {
					q.Forget(key)
				}
				q.Done(key)
			}
		})
	}
	unwatch := running(b, func(ctx context.Context) error {
		for e, err := range s.Watch(ctx, 0) {
			if err != nil {
				return nil // the end of ctx
			}
			if o := e.Object; o != nil {
				q.Add(o.Key())
			}
		}
		return nil
	})
	return func() { unwatch(); q.ShutDown(); pool.Wait() }
}

// convergeLeast does at once, on the goroutine that watches, what an event asks for:
// no queue, no cache, no workers, and whatever fails is lost. Handing the events to two
// or eight goroutines makes it slower, because all of them write to one store.
func convergeLeast(b *testing.B, s *diskStore, wrote func()) (stop func()) {
	return running(b, func(ctx context.Context) error {
		for e, err := range s.Watch(ctx, 0) {
			if err != nil {
				return nil // the end of ctx
			}
			if o := e.Object; o != nil && o.Status.Size != o.Spec.Size {
				if err := settleDisk(ctx, s, s.Clone(o), wrote); err != nil {
					b.Error(err)
				}
			}
		}
		return nil
	})
}
