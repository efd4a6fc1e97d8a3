package cache

import (
	"fmt"
	"iter"

	"github.com/tendhq/tend/store"
)

// An indexFunc names the values under which an object is found by [Index.Get]. It must
// depend on nothing but the object: the cache asks again for the old object to
// know where it stood. It runs on a goroutine of Run, one call at a time, and may call the cache.
type indexFunc[S, T any] func(o *store.Object[S, T]) []string

// An Index finds the objects of a cache by values that are computed from them. It is made
// by [Cache.AddIndex]. Its methods are safe for concurrent use.
type Index[S, T any] struct{ *index }

// index is an Index without its types.
type index struct {
	cache *core
	name  string
	fn    func(*store.Meta) []string
	// values maps a value to the set of objects that carry it; guarded by Cache.mu. The
	// sets hold the objects' addresses, not their keys: swapping an old object for a new
	// one then hashes eight bytes instead of two strings.
	values map[string]map[*store.Meta]struct{}
}

// AddIndex adds an index to a cache that has not been run. The name is for errors and
// Snapshot. It fails without fn, and with ErrRunning once Run was called.
func (c *Cache[S, T]) AddIndex(name string, fn indexFunc[S, T]) (*Index[S, T], error) {
	if fn == nil {
		return nil, fmt.Errorf("cache: %s: AddIndex(%q): no function", c.core.name, name)
	}
	x := &index{cache: c.core, name: name, values: make(map[string]map[*store.Meta]struct{})}
	x.fn = func(m *store.Meta) []string { return fn(typed[S, T](m)) }
	if err := c.core.addIndex(x); err != nil {
		return nil, err
	}
	return &Index[S, T]{x}, nil
}

func (c *core) addIndex(x *index) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.began {
		return fmt.Errorf("cache: %s: AddIndex(%q): %w", c.name, x.name, ErrRunning)
	}
	c.indexes = append(c.indexes, x)
	return nil
}

// Get yields the objects that the index files under value, as of one moment, in no
// particular order. The objects are shared and read-only. No lock is held while the loop
// body runs.
func (x *Index[S, T]) Get(value string) iter.Seq[*store.Object[S, T]] {
	return func(yield func(*store.Object[S, T]) bool) {
		for _, o := range x.filed(value) {
			if !yield(typed[S, T](o)) {
				return
			}
		}
	}
}

func (x *index) filed(value string) []*store.Meta {
	x.cache.mu.RLock()
	defer x.cache.mu.RUnlock()
	set := x.values[value]
	objs := make([]*store.Meta, 0, len(set))
	for o := range set {
		objs = append(objs, o)
	}
	return objs
}

func (x *index) add(o *store.Meta, values []string) {
	for _, v := range values {
		set := x.values[v]
		if set == nil {
			set = make(map[*store.Meta]struct{})
			x.values[v] = set
		}
		set[o] = struct{}{}
	}
}

func (x *index) remove(o *store.Meta, values []string) {
	for _, v := range values {
		set := x.values[v]
		delete(set, o)
		if len(set) == 0 {
			delete(x.values, v) // a value that no object has any more costs nothing
		}
	}
}
