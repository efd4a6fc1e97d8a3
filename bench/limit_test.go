//go:build peers

package bench

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// limit is no queue. Each loop does the least that any queue of unique keys
// must do for the same work: three uncontended locks and one insertion and
// removal in a map; or a channel, where goroutines hand keys over.
type limit[K comparable] struct {
	mu     sync.Mutex
	keys   map[K]struct{}
	ch     chan K
	order  []K // what Fill put into keys, oldest first
	held   int
	closed sync.Once
}

func newLimit[K comparable](*testing.B, time.Duration) subject[K] {
	return &limit[K]{keys: map[K]struct{}{}, ch: make(chan K, 1024)}
}

func (l *limit[K]) Add(key K) { l.ch <- key }
func (l *limit[K]) Drop()     {}
func (l *limit[K]) Close()    { l.closed.Do(func() { close(l.ch) }) }

func (l *limit[K]) Cycle(keys []K, n int) {
	for i, at := 0, 0; i < n; i++ {
		l.pass(keys[at], keys[at])
		if at++; at == len(keys) {
			at = 0
		}
	}
}

// pass takes the lock three times, adds one key and removes another.
func (l *limit[K]) pass(in, out K) {
	l.mu.Lock()
	l.keys[in] = struct{}{}
	l.mu.Unlock()
	l.mu.Lock()
	l.held++
	l.mu.Unlock()
	l.mu.Lock()
	delete(l.keys, out)
	l.mu.Unlock()
}

func (l *limit[K]) Fill(keys []K) {
	l.order = slices.Clone(keys)
	for _, key := range keys {
		l.keys[key] = struct{}{}
	}
}

func (l *limit[K]) Dup(keys []K, n int) {
	for i, at := 0, 0; i < n; i++ {
		l.mu.Lock()
		if _, there := l.keys[keys[at]]; there {
			l.held++
		}
		l.mu.Unlock()
		if at++; at == len(keys) {
			at = 0
		}
	}
}

func (l *limit[K]) Readd(n int) {
	var key K
	for range n {
		l.pass(key, key)
	}
}

func (l *limit[K]) Turn(ring []K, n int) {
	for i, at, first := 0, 0, 0; i < n; i++ {
		l.pass(ring[at], l.order[first])
		ring[at], l.order[first] = l.order[first], ring[at]
		if at++; at == len(ring) {
			at = 0
		}
		if first++; first == len(l.order) {
			first = 0
		}
	}
}

func (l *limit[K]) Consume(each func(key K)) {
	for key := range l.ch {
		each(key)
	}
}

func (l *limit[K]) AddAfter(K, time.Duration) { panic("the limit has no clock") }
func (l *limit[K]) Take(int)                  { panic("the limit lends nothing") }
func (l *limit[K]) Fail()                     { panic("the limit lends nothing") }
func (l *limit[K]) Succeed()                  { panic("the limit lends nothing") }
