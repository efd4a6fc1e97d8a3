package reconcile

import (
	"context"
	"fmt"
	"reflect"
	"time"
)

// Each returns a controller for a list and no store. f makes one key as it is wanted: want is
// the key's value in the latest list, to read and not to change, and nil when the list does
// not have the key any more. The controller calls list at once and then again after each interval, less a random 0 to 10 %, and runs f for every key of it
// each time, so that drift is found; and for each key that the list had before and has
// no more, with nil. It takes the place of a ticker with a loop over everything: keys
// run beside each other, a failing key backs off alone, and one that changed ends its
// backoff (promise Q4).
//
// Keys that are new, changed (by reflect.DeepEqual) or gone run before those that are
// only looked at again. A key's value is read when its run begins: a run never gets an
// older one than another run of the key before it. A list that fails takes no key for
// gone: it is reported (Options.OnError, Health) and tried again with a backoff of
// 500 ms to 1 min, never later than the interval, and not before the time of a ratelimit.Throttled.
//
// A list that is empty where the one before was not, or that lacks more than half of the
// keys and more than ten, takes none for gone either, until another list that does not fail
// lacks them too, half an interval later at least: a server that gains a shard lists at once. Both are logged. [EachOptions].MaxGone refuses more.
//
// What vanished while the process was down, or while the key's shard was on its way from
// one server to another, is not reported, because nothing remembers it. Where that matters,
// keep what is declared in a store ([For]).
//
// list may be called on any goroutine, but never twice at once. Its map is copied, its
// values are not: a run may read them while list runs again.
func Each[K comparable, V any](name string, interval time.Duration, list func(ctx context.Context) (map[K]V, error), f func(ctx context.Context, key K, want *V) (Result, error), o *Options[K]) (*Controller[K], error) {
	return EachWith(name, interval, list, f, &EachOptions[K, V]{Options: orZero(o)})
}

// EachOptions are the options of EachWith. Nil and zero fields mean the stated default.
type EachOptions[K comparable, V any] struct {
	Options[K] // of the controller

	// Equal reports whether two values of a key ask for the same. A value that differs in each
	// list, as one with the time at which it was seen, would end the key's backoff each time.
	// It is called on the goroutine that lists. Default: reflect.DeepEqual.
	Equal func(a, b V) bool
	// MaxGone returns how many keys a list may lack of the known ones; 0 or less: none. A list
	// that lacks more takes none for gone: it counts as one that failed, and is asked again
	// after the interval, until it lacks fewer or MaxGone allows more. It is called on the
	// goroutine that lists. Default: all.
	MaxGone func(known int) int
}

// EachWith is Each with options of its own; nil is the defaults.
func EachWith[K comparable, V any](name string, interval time.Duration, list func(ctx context.Context) (map[K]V, error), f func(ctx context.Context, key K, want *V) (Result, error), given *EachOptions[K, V]) (*Controller[K], error) {
	switch {
	case interval <= 0:
		return nil, fmt.Errorf("reconcile: Each(%q): needs an interval above 0, got %v", name, interval)
	case list == nil:
		return nil, fmt.Errorf("reconcile: Each(%q): no list function", name)
	case f == nil:
		return nil, fmt.Errorf("reconcile: Each(%q): no function", name)
	}
	o := orZero(given)
	p := &polled[K, V]{list: list, all: true, same: o.Equal, maxGone: o.MaxGone}
	if p.same == nil {
		p.same = func(a, b V) bool { return reflect.DeepEqual(a, b) }
	}
	c, err := New(name, Func[K](func(ctx context.Context, key K) (Result, error) {
		return f(ctx, key, p.value(key))
	}), &o.Options)
	if err != nil {
		return nil, err
	}
	return c, c.Watch(p.source(name, interval))
}
