//go:build peers

package bench

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The first delay after a failure, and the longest, in every implementation.
const (
	backoffBase = 100 * time.Millisecond
	backoffMax  = 1000 * time.Second
)

// shaped drives anything of client-go's shape, through the interface that its
// users hold: client-go, controller-runtime's queue and tend's adapter. Its loops
// settle a key with Done alone, where a worker calls Forget before it, to forget a
// failure that may have been: two locks and a deletion from a map that they are
// spared, and that tend's native Done does. Only Retry, where there was a failure,
// forgets.
type shaped[K comparable] struct {
	q      workqueue.TypedRateLimitingInterface[K]
	held   []K
	closed sync.Once
}

func (s *shaped[K]) Add(key K)                       { s.q.Add(key) }
func (s *shaped[K]) AddAfter(key K, d time.Duration) { s.q.AddAfter(key, d) }

// Close closes once: controller-runtime's queue panics when shut down again.
func (s *shaped[K]) Close() { s.closed.Do(s.q.ShutDown) }

func (s *shaped[K]) Fill(keys []K) {
	for _, key := range keys {
		s.q.Add(key)
	}
}

func (s *shaped[K]) Cycle(keys []K, n int) {
	for i, at := 0, 0; i < n; i++ {
		s.q.Add(keys[at])
		key, _ := s.q.Get()
		s.q.Done(key)
		if at++; at == len(keys) {
			at = 0
		}
	}
}

func (s *shaped[K]) Dup(keys []K, n int) {
	for i, at := 0, 0; i < n; i++ {
		s.q.Add(keys[at])
		if at++; at == len(keys) {
			at = 0
		}
	}
}

func (s *shaped[K]) Readd(n int) {
	for range n {
		key, _ := s.q.Get()
		s.q.Add(key)
		s.q.Done(key)
	}
}

func (s *shaped[K]) Turn(ring []K, n int) {
	for i, at := 0, 0; i < n; i++ {
		key, _ := s.q.Get()
		s.q.Done(key)
		key, ring[at] = ring[at], key
		s.q.Add(key)
		if at++; at == len(ring) {
			at = 0
		}
	}
}

func (s *shaped[K]) Consume(each func(key K)) {
	for {
		key, shutdown := s.q.Get()
		if shutdown {
			return
		}
		each(key)
		s.q.Done(key)
	}
}

func (s *shaped[K]) Take(n int) {
	s.held = s.held[:0]
	for range n {
		key, _ := s.q.Get()
		s.held = append(s.held, key)
	}
}

func (s *shaped[K]) Fail() {
	for _, key := range s.held {
		s.q.AddRateLimited(key)
		s.q.Done(key)
	}
}

func (s *shaped[K]) Drop() { s.held = nil }

func (s *shaped[K]) Succeed() {
	for _, key := range s.held {
		s.q.Forget(key)
		s.q.Done(key)
	}
}

var serial atomic.Int64

// metricsName is a queue name that no other queue of this process has.
func metricsName() string { return fmt.Sprintf("bench-%d", serial.Add(1)) }

// peersName is the name of all queues and controllers in the peers' one registry,
// which forgets none: with a name each, what is scraped would grow from figure to
// figure. Ours get a registry each.
const peersName = "bench"

// perKey is the exponential limiter per key. client-go's default adds a bucket
// of 10 a second for all keys: with it, its figures would be those of the
// bucket.
func perKey[K comparable](backoff time.Duration) workqueue.TypedRateLimiter[K] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[K](backoff, backoffMax)
}

// newClientGo: without a name no metrics are kept, which is its fastest way.
func newClientGo[K comparable](_ *testing.B, backoff time.Duration) subject[K] {
	return &shaped[K]{q: workqueue.NewTypedRateLimitingQueue(perKey[K](backoff))}
}

// newClientGoProm: the name turns metrics on, and controller-runtime's package
// has installed its Prometheus provider. It is the one most services run.
func newClientGoProm[K comparable](b *testing.B, backoff time.Duration) subject[K] {
	scrape(b, metrics.Registry)
	return &shaped[K]{q: workqueue.NewTypedRateLimitingQueueWithConfig(perKey[K](backoff),
		workqueue.TypedRateLimitingQueueConfig[K]{Name: peersName})}
}

// newPriorityQueue: controller-runtime's default queue; no name, no metrics.
func newPriorityQueue[K comparable](_ *testing.B, backoff time.Duration) subject[K] {
	return &shaped[K]{q: priorityqueue.New("", limitedTo[K](backoff))}
}

// newPriorityQueueProm: as its controllers make it.
func newPriorityQueueProm[K comparable](b *testing.B, backoff time.Duration) subject[K] {
	scrape(b, metrics.Registry)
	return &shaped[K]{q: priorityqueue.New(peersName, limitedTo[K](backoff))}
}

func limitedTo[K comparable](backoff time.Duration) priorityqueue.Opt[K] {
	return func(o *priorityqueue.Opts[K]) { o.RateLimiter = perKey[K](backoff) }
}
