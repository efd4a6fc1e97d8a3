// Package workqueue lets code that was written for client-go's work queue run on
// a queue.Queue. Queue has the methods of client-go's TypedRateLimitingInterface
// and satisfies it by structure: neither package imports the other. It can be
// the NewQueue of a controller-runtime controller.
//
//	q, err := workqueue.New[reconcile.Request](&workqueue.Options[reconcile.Request]{Name: name, Limiter: limiter})
//
// # What is as in client-go
//
// One key never runs twice at once; added while it runs, it runs once more. An
// Add during a wait, whatever the wait is for, runs the key at once. Done does
// not end the retries: NumRequeues counts until Forget. After ShutDown adds are
// ignored and what waits for a time is dropped; Get hands out what is ready and
// then reports the shutdown. Key types may hold pointers, interfaces and floats, as
// they may there.
//
// # What is not
//
// A key is in the queue once, and its earliest time counts, as of two AddAfter there.
// Of an Add and an AddAfter, in either order, also while the key runs, it runs once,
// at once: client-go runs it again when the timer ends. So what has to happen at a
// time asks for it in the run, before Done; an AddAfter of an event handler beside an
// Add is lost.
//
// ShutDownWithDrain waits until every key that is ready or running is done, or until
// ShutDown is called. That of client-go waits for those that run, and returns at once
// if none does: here, with workers that have ended, it waits for ever.
//
// Done of a key that is not running does nothing. That of client-go hands a key that
// is ready out a second time.
//
// With Options.shards above 1 the order is first in, first out within a shard only.
//
// Stats().Adds counts every Add, also of a key that is there already, and not what
// comes back by itself: AddAfter counts when it is called, not when its time has come.
// A key that was added while it runs counts as ready, in Len and depth, when its run
// has ended.
//
// There is no goroutine and nothing to leak: a queue that is never shut down is
// garbage like any other value. Metrics are read from Queue.Queue by package
// metrics, rather than written by a provider.
//
// # Promises
//
// New code should use queue.Queue, whose items cannot be settled wrongly, which
// keeps a failing key's backoff whatever events arrive, and needs no Forget.
// What the limiter keeps for keys that are never forgotten is not bounded; that
// is the interface's contract and the one leak this package cannot mend.
//
// # Design notes
//
// Done gets a key and not an item, so it costs a second hash and search
// (queue.Queue.DoneKey); a map from running keys to items was tried on paper and
// dropped, because it costs the same search, twice.
//
// AddRateLimited asks the caller's limiter and adds with its delay, rather than
// failing the item: the interface lets every caller call it at any time, also for a
// key that is not running, and an Add must beat the delay.
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
	// shards is how many locks share the keys; each has an order of its own. Default
	// 1: keys come out in the order in which they were added, as in client-go. New fails
	// for a number that a queue.Queue cannot have, such as a negative one.
	shards int
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
	if opts.shards == 0 {
		opts.shards = 1
	}
	if opts.Limiter == nil {
		opts.Limiter = NewLimiter[K](queue.Backoff{Base: 5 * time.Millisecond, Max: 1000 * time.Second})
	}
	q, err := queue.New(&queue.Options[K]{Name: opts.Name, Shards: opts.shards, UncheckedKeys: true})
	if err != nil {
		return nil, err
	}
	return &Queue[K]{q: q, limiter: opts.Limiter}, nil
}

// Queue is the queue underneath: for metrics, Snapshot and Hold.
func (w *Queue[K]) Queue() *queue.Queue[K] { return w.q }

// An add can fail here only because the queue is shut down, and then client-go
// ignores it.

// Add makes key run as soon as it can, also if it waits for a time. After
// ShutDown it does nothing.
func (w *Queue[K]) Add(key K) { _ = w.q.Add(key) }

// AddAfter makes key run after d, unless it is added before or is to run already,
// earlier. Zero or less is Add.
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
// workers must go on calling Get and Done until Get reports the shutdown. ShutDown
// makes it return earlier.
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
