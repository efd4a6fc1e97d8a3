//go:build peers

package bench

import (
	"context"
	"testing"
	"time"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/workqueue"
)

// native drives queue.Queue as a worker of its own does: it settles the Item it
// was lent.
type native[K comparable] struct {
	q    *queue.Queue[K]
	held []queue.Item[K]
}

func newQueue[K comparable](b *testing.B, backoff time.Duration) *queue.Queue[K] {
	q, err := queue.New(&queue.Options[K]{
		Name:   metricsName(),
		Policy: queue.Backoff{Base: backoff, Max: backoffMax}.Policy(), // with the jitter it has by default
		Shards: shards(),
	})
	if err != nil {
		b.Fatal(err)
	}
	return q
}

func newTend[K comparable](b *testing.B, backoff time.Duration) subject[K] {
	return &native[K]{q: newQueue[K](b, backoff)}
}

// newTendProm: what a queue counts anyway is read at each scrape.
func newTendProm[K comparable](b *testing.B, backoff time.Duration) subject[K] {
	q := newQueue[K](b, backoff)
	scrapeQueue(b, q)
	return &native[K]{q: q}
}

func scrapeQueue(b *testing.B, q interface {
	Name() string
	Stats() queue.Stats
},
) {
	c := metrics.New(nil)
	if err := c.AddQueue(q); err != nil {
		b.Fatal(err)
	}
	scrape(b, registry(c))
}

func (s *native[K]) Add(key K)                       { _ = s.q.Add(key) }
func (s *native[K]) AddAfter(key K, d time.Duration) { _ = s.q.AddAfter(key, d) }
func (s *native[K]) Close()                          { s.q.Close() }
func (s *native[K]) Drop()                           { s.held = nil }

func (s *native[K]) Fill(keys []K) {
	for _, key := range keys {
		_ = s.q.Add(key)
	}
}

func (s *native[K]) Cycle(keys []K, n int) {
	ctx := context.Background()
	for i, at := 0, 0; i < n; i++ {
		_ = s.q.Add(keys[at])
		item, _ := s.q.Get(ctx)
		item.Done()
		if at++; at == len(keys) {
			at = 0
		}
	}
}

func (s *native[K]) Dup(keys []K, n int) {
	for i, at := 0, 0; i < n; i++ {
		_ = s.q.Add(keys[at])
		if at++; at == len(keys) {
			at = 0
		}
	}
}

func (s *native[K]) Readd(n int) {
	ctx := context.Background()
	for range n {
		item, _ := s.q.Get(ctx)
		_ = s.q.Add(item.Key)
		item.Done()
	}
}

func (s *native[K]) Turn(ring []K, n int) {
	ctx := context.Background()
	for i, at := 0, 0; i < n; i++ {
		item, _ := s.q.Get(ctx)
		item.Done()
		key := ring[at]
		ring[at] = item.Key
		_ = s.q.Add(key)
		if at++; at == len(ring) {
			at = 0
		}
	}
}

// Consume is the loop of reconcile's own workers.
func (s *native[K]) Consume(each func(key K)) {
	ctx := context.Background()
	item, err := s.q.Get(ctx)
	for err == nil {
		each(item.Key)
		item.Done()
		item, err = s.q.Get(ctx)
	}
}

func (s *native[K]) Take(n int) {
	ctx := context.Background()
	s.held = s.held[:0]
	for range n {
		item, _ := s.q.Get(ctx)
		s.held = append(s.held, item)
	}
}

func (s *native[K]) Fail() {
	for _, item := range s.held {
		item.Retry(nil, 0)
	}
}

func (s *native[K]) Succeed() {
	for _, item := range s.held {
		item.Done()
	}
}

// batched is native with GetBatch. The cycle adds a batch, gets it and settles
// it.
type batched[K comparable] struct {
	native[K]
	size int
}

func newTendBatch[K comparable](size int) func(*testing.B, time.Duration) subject[K] {
	return func(b *testing.B, backoff time.Duration) subject[K] {
		return &batched[K]{native[K]{q: newQueue[K](b, backoff)}, size}
	}
}

func (s *batched[K]) Cycle(keys []K, n int) {
	ctx := context.Background()
	items := make([]queue.Item[K], s.size)
	for done, at := 0, 0; done < n; {
		for range min(s.size, len(keys)) {
			_ = s.q.Add(keys[at])
			if at++; at == len(keys) {
				at = 0
			}
		}
		for left := min(s.size, len(keys)); left > 0; {
			got, _ := s.q.GetBatch(ctx, items)
			for _, item := range items[:got] {
				item.Done()
			}
			left -= got
			done += got
		}
	}
}

func (s *batched[K]) Consume(each func(key K)) {
	ctx := context.Background()
	items := make([]queue.Item[K], s.size)
	for {
		n, err := s.q.GetBatch(ctx, items)
		if err != nil {
			return
		}
		for _, item := range items[:n] {
			each(item.Key)
			item.Done()
		}
	}
}

// newTendWorkqueue is the adapter, held through client-go's interface and with
// client-go's limiter, as in code that was not written for tend.
func newTendWorkqueue[K comparable](b *testing.B, backoff time.Duration) subject[K] {
	q, err := workqueue.New(&workqueue.Options[K]{Name: metricsName(), Limiter: perKey[K](backoff)})
	if err != nil {
		b.Fatal(err)
	}
	return &shaped[K]{q: q}
}

func newTendWorkqueueProm[K comparable](b *testing.B, backoff time.Duration) subject[K] {
	s := newTendWorkqueue[K](b, backoff).(*shaped[K])
	scrapeQueue(b, s.q.(*workqueue.Queue[K]).Queue())
	return s
}
