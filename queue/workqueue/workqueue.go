package workqueue

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/queue"
)

// Limiter says how long a key waits before its next try. The limiters of
// client-go are Limiters. It must be safe for concurrent use.
type Limiter[K comparable] interface {
	// When counts a failure of key and returns the delay before its next try.
	When(key K) time.Duration
	// Forget says that key succeeded, or is given up.
	Forget(key K)
	// NumRequeues is the number of failures since Forget.
	NumRequeues(key K) int
}

// Options configures New. A nil *Options and zero fields mean the defaults.
type Options[K comparable] struct {
	// Name is shown in metrics. Default "queue".
	Name string
	// Limiter is asked by AddRateLimited. Default NewLimiter with 5 ms and
	// 1000 s: what client-go uses per key, with jitter, without its bucket for
	// all keys.
	Limiter Limiter[K]
}

// Queue is a queue.Queue with the methods of client-go's work queue. All are
// safe for concurrent use.
type Queue[K comparable] struct {
	q       *queue.Queue[K]
	limiter Limiter[K]
	closing atomic.Bool

	mu     sync.Mutex // guards drains
	drains []context.CancelFunc
}

// New makes a queue. It starts nothing.
func New[K comparable](o *Options[K]) (*Queue[K], error) {
	var opts Options[K]
	if o != nil {
		opts = *o
	}
	if opts.Limiter == nil {
		opts.Limiter = NewLimiter[K](queue.Backoff{Base: 5 * time.Millisecond, Max: 1000 * time.Second})
	}
	q, err := queue.New(&queue.Options[K]{Name: opts.Name, UncheckedKeys: true})
	if err != nil {
		return nil, err
	}
	return &Queue[K]{q: q, limiter: opts.Limiter}, nil
}

// Queue is the queue underneath: for metrics, for Snapshot and Pause.
func (w *Queue[K]) Queue() *queue.Queue[K] { return w.q }

// An add can fail here only because the queue is shut down, and then client-go
// ignores it.

// Add makes key run as soon as it can, also if it waits for a time. After
// ShutDown it does nothing.
func (w *Queue[K]) Add(key K) { _ = w.q.Add(key) }

// AddAfter makes key run after d, unless it is added before. Zero or less is Add.
func (w *Queue[K]) AddAfter(key K, d time.Duration) { _ = w.q.AddAfter(key, d) }

// AddRateLimited makes key run after the delay that the limiter gives.
func (w *Queue[K]) AddRateLimited(key K) {
	if !w.ShuttingDown() {
		w.AddAfter(key, w.limiter.When(key))
	}
}

// Forget ends the limiter's count of key's failures. Done must be called all
// the same.
func (w *Queue[K]) Forget(key K) { w.limiter.Forget(key) }

// NumRequeues is how often key was given to AddRateLimited since Forget.
func (w *Queue[K]) NumRequeues(key K) int { return w.limiter.NumRequeues(key) }

// Len is the number of keys that are ready, without those that run or wait.
func (w *Queue[K]) Len() int { return w.q.Len() }

// Get waits for a key, which is then running until Done. When the queue is shut
// down and nothing is ready it returns the zero key and true.
func (w *Queue[K]) Get() (key K, shutdown bool) {
	it, err := w.q.Get(context.Background())
	return it.Key, err != nil
}

// Done ends the run of key. If it was added meanwhile it is ready again.
func (w *Queue[K]) Done(key K) { w.q.DoneKey(key) }

// ShutDown ends the intake and does not wait: Get hands out what is ready. A
// ShutDownWithDrain that waits returns.
func (w *Queue[K]) ShutDown() {
	w.closing.Store(true)
	w.q.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, cancel := range w.drains {
		cancel()
	}
	w.drains = nil
}

// ShutDownWithDrain ends the intake and waits until nothing is ready or running:
// workers must go on calling Get and Done. ShutDown makes it return earlier.
func (w *Queue[K]) ShutDownWithDrain() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.mu.Lock()
	w.drains = append(w.drains, cancel)
	w.mu.Unlock()
	w.closing.Store(true)
	_ = w.q.Drain(ctx) // the error says that ShutDown ended the wait
}

// ShuttingDown tells whether ShutDown or ShutDownWithDrain was called.
func (w *Queue[K]) ShuttingDown() bool { return w.closing.Load() }
