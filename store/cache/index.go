package cache

import (
	"fmt"
	"iter"

	"github.com/tendhq/tend/store"
)

// An indexFunc names the values under which an object is found by [Index.Get]. It must
// depend on nothing but the object: the cache asks again for the old object to
// know where it stood. It runs on the goroutine of Run, without a lock.
type indexFunc[S, T any] func(o *store.Object[S, T]) []string

// An Index finds the objects of a cache by values that are computed from them. It is made
// by [Cache.AddIndex]. Its methods are safe for concurrent use.
type Index[S, T any] struct {
	cache *Cache[S, T]
	name  string
	fn    indexFunc[S, T]
	// values maps a value to the set of objects that carry it; guarded by Cache.mu. The
	// sets hold the objects' addresses, not their keys: swapping an old object for a new
	// one then hashes eight bytes instead of two strings.
	values map[string]map[*store.Object[S, T]]struct{}
}

// AddIndex adds an index to a cache that has not been run. The name is for errors and
// Snapshot. It fails without fn, and with ErrRunning once Run was called.
func (c *Cache[S, T]) AddIndex(name string, fn indexFunc[S, T]) (*Index[S, T], error) {
	if fn == nil {
		return nil, fmt.Errorf("cache: %s: AddIndex(%q): no function", c.name, name)
	}
	x := &Index[S, T]{cache: c, name: name, fn: fn, values: make(map[string]map[*store.Object[S, T]]struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.began {
		return nil, fmt.Errorf("cache: %s: AddIndex(%q): %w", c.name, name, ErrRunning)
	}
	c.indexes = append(c.indexes, x)
	return x, nil
}

// Get yields the objects that the index files under value, as of one moment, in no
// particular order. The objects are shared and read-only. No lock is held while the loop
// body runs.
func (x *Index[S, T]) Get(value string) iter.Seq[*store.Object[S, T]] {
	return func(yield func(*store.Object[S, T]) bool) {
		for _, o := range x.filed(value) {
			if !yield(o) {
				return
			}
		}
	}
}

func (x *Index[S, T]) filed(value string) []*store.Object[S, T] {
	x.cache.mu.RLock()
	defer x.cache.mu.RUnlock()
	set := x.values[value]
	objs := make([]*store.Object[S, T], 0, len(set))
	for o := range set {
		objs = append(objs, o)
	}
	return objs
}

func (x *Index[S, T]) add(o *store.Object[S, T], values []string) {
	for _, v := range values {
		set := x.values[v]
		if set == nil {
			set = make(map[*store.Object[S, T]]struct{})
			x.values[v] = set
		}
		set[o] = struct{}{}
	}
}

func (x *Index[S, T]) remove(o *store.Object[S, T], values []string) {
	for _, v := range values {
		set := x.values[v]
		delete(set, o)
		if len(set) == 0 {
			delete(x.values, v) // a value that no object has any more costs nothing
		}
	}
}
