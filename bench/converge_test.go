package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/util/workqueue"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	inmemory "github.com/tendhq/tend/store/memory"
)

type diskSpec struct {
	Zone string
	Size int
}

type diskStatus struct{ Size int }

type disk = store.Object[diskSpec, diskStatus]

// BenchmarkConverge: objects are created in the memory store; each is seen by a
// watch, reconciled, and its status written. One operation is all of it. Both
// implementations use the same store, so what differs is the kernel's share.
func BenchmarkConverge(b *testing.B) {
	for _, n := range []int{1e4, 1e5} {
		b.Run("objects="+short(n), func(b *testing.B) {
			b.Run("impl=tend", func(b *testing.B) { converge(b, n, convergeTend) })
			b.Run("impl=client-go", func(b *testing.B) { converge(b, n, convergeLoop) })
		})
	}
}

func converge(b *testing.B, n int, start func(b *testing.B, s *store.Store[diskSpec, diskStatus], wrote func())) {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("disk-%07d", i)
	}
	measure(b, func() {
		for range b.N {
			b.StopTimer()
			back, err := inmemory.New(nil)
			if err != nil {
				b.Fatal(err)
			}
			s, err := store.New[diskSpec, diskStatus](back, "Disk", nil)
			if err != nil {
				b.Fatal(err)
			}
			var left atomic.Int64
			left.Store(int64(n))
			done := make(chan struct{})
			b.StartTimer()
			start(b, s, func() {
				if left.Add(-1) == 0 {
					close(done)
				}
			})
			for i, name := range names {
				o := &disk{Meta: store.Meta{Name: name}, Spec: diskSpec{Zone: "a", Size: i + 1}}
				if _, err := s.Create(context.Background(), o); err != nil {
					b.Fatal(err)
				}
			}
			<-done
		}
	})
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(n), "ns/object")
}

// settleDisk is the work: what the spec says becomes the status.
func settleDisk(ctx context.Context, s *store.Store[diskSpec, diskStatus], o *disk, wrote func()) error {
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

func convergeTend(b *testing.B, s *store.Store[diskSpec, diskStatus], wrote func()) {
	o := options(8)
	c, err := reconcile.For(s, func(ctx context.Context, d *disk) (reconcile.Result, error) {
		return reconcile.Result{}, settleDisk(ctx, s, d, wrote)
	}, &reconcile.Options[reconcile.Request]{Workers: o.Workers, Logger: o.Logger})
	if err != nil {
		b.Fatal(err)
	}
	m := new(reconcile.Manager)
	if err := m.Register(c); err != nil {
		b.Fatal(err)
	}
	background(b, m.Run)
}

// convergeLoop is the loop people write around client-go's queue: a watch that
// adds keys, eight workers that read the store.
func convergeLoop(b *testing.B, s *store.Store[diskSpec, diskStatus], wrote func()) {
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
	b.Cleanup(func() { q.ShutDown(); pool.Wait() })
	background(b, func(ctx context.Context) error {
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
}
