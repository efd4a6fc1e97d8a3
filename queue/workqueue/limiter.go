package workqueue

import (
	"sync"
	"time"

	"github.com/tendhq/tend/queue"
)

// NewLimiter makes a Limiter that gives each key the delays of b. It keeps a few
// bytes for each key that was not forgotten.
func NewLimiter[K comparable](b queue.Backoff) Limiter[K] {
	return &backoff[K]{policy: b.Policy(), failures: map[K]int{}}
}

type backoff[K comparable] struct {
	policy queue.Policy

	mu       sync.Mutex // guards failures
	failures map[K]int
}

func (b *backoff[K]) When(key K) time.Duration {
	b.mu.Lock()
	n := b.failures[key]
	b.failures[key] = n + 1
	b.mu.Unlock()
	return b.policy(n, nil)
}

func (b *backoff[K]) Forget(key K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.failures, key)
}

func (b *backoff[K]) NumRequeues(key K) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures[key]
}
