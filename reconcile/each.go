package reconcile

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/queue"
)

// EachFunc makes one key as it is wanted. want is the key's value in the latest list,
// to read and not to change; it is nil when the list does not have the key any more.
type EachFunc[K comparable, V any] func(ctx context.Context, key K, want *V) (Result, error)

// Each returns a controller for a list and no store: it calls list at once and then
// again after each interval, less a random 0 to 10 %, and runs f for every key of it
// each time, so that drift is found; and for each key that the list had before and has
// no more, with nil. It takes the place of a ticker with a loop over everything: keys
// run beside each other, a failing key backs off alone, and one that changed ends its
// backoff (promise Q4).
//
// Keys that are new, changed (by reflect.DeepEqual) or gone run before those that are
// only looked at again. A key's value is read when its run begins: a run never gets an
// older one than another run of the key before it. A list that fails takes no key for
// gone: it is reported (Options.OnError, Health) and tried again with a backoff of
// 500 ms to 1 min, never later than the interval.
//
// What vanished while the process was down is not reported, because nothing remembers
// it. Where that matters, keep what is declared in a store ([For]).
//
// list may be called on any goroutine, but never twice at once.
func Each[K comparable, V any](name string, interval time.Duration, list func(ctx context.Context) (map[K]V, error), f EachFunc[K, V], o *Options[K]) (*Controller[K], error) {
	switch {
	case interval <= 0:
		return nil, fmt.Errorf("reconcile: Each(%q): needs an interval above 0, got %v", name, interval)
	case list == nil:
		return nil, fmt.Errorf("reconcile: Each(%q): no list function", name)
	case f == nil:
		return nil, fmt.Errorf("reconcile: Each(%q): no function", name)
	}
	e := &each[K, V]{list: list, f: f}
	e.want.Store(new(map[K]V))
	c, err := New(name, e, o)
	if err != nil {
		return nil, err
	}
	return c, c.Watch(Source[K]{Name: name, Run: func(ctx context.Context, to Sink[K]) error {
		synced := false
		return pollUntil(ctx, to, interval, func(ctx context.Context) error {
			if err := e.poll(ctx, to); err != nil {
				return err
			}
			if !synced {
				synced = true
				to.Synced()
			}
			return nil
		})
	}})
}

// each is the reconciler of [Each] and the state of its source.
type each[K comparable, V any] struct {
	list func(context.Context) (map[K]V, error)
	f    EachFunc[K, V]

	want atomic.Pointer[map[K]V] // to the latest list, which is not written to

	// added has the values that keys were added with. Only the source's goroutine
	// touches it, and it outlives that: what changes between two runs of the source
	// is found by the second.
	added map[K]V
}

// Reconcile implements Reconciler.
func (e *each[K, V]) Reconcile(ctx context.Context, key K) (Result, error) {
	want, ok := (*e.want.Load())[key]
	if !ok {
		return e.f(ctx, key, nil)
	}
	return e.f(ctx, key, &want)
}

// poll lists, and adds every key of the list and every key that left it.
func (e *each[K, V]) poll(ctx context.Context, to Sink[K]) error {
	var now map[K]V
	err := isolate(func() (err error) {
		now, err = e.list(ctx)
		return err
	})
	if err != nil {
		return err
	}
	e.want.Store(&now)
	if e.added == nil {
		e.added = make(map[K]V, len(now))
	}
	atStart := len(e.added) == 0
	for key, value := range now {
		was, known := e.added[key]
		o := queue.AddOptions{Priority: bandLive, Urgent: true}
		if atStart || known && reflect.DeepEqual(was, value) {
			o = queue.AddOptions{Priority: bandInitial}
		}
		if err := AddWaiting(ctx, to, key, o); err != nil {
			return err
		}
		e.added[key] = value
	}
	for key := range e.added {
		if _, ok := now[key]; ok {
			continue
		}
		if err := AddWaiting(ctx, to, key, queue.AddOptions{Priority: bandLive, Urgent: true}); err != nil {
			return err
		}
		delete(e.added, key)
	}
	return nil
}
