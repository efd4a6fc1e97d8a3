package cache

import (
	"iter"
	"slices"

	"github.com/tendhq/tend/store"
)

// An IndexFunc names the values under which an object is found by By. It must
// depend on nothing but the object: the cache asks again for the old object to
// know where it stood. It runs on the goroutine of Run, without a lock.
type IndexFunc[S, T any] func(o *store.Object[S, T]) []string

// index maps a value to the set of objects that carry it. The sets hold the
// objects' addresses, not their keys: swapping an old object for a new one
// then hashes eight bytes instead of two strings.
type index[S, T any] struct {
	name   string
	fn     IndexFunc[S, T]
	values map[string]map[*store.Object[S, T]]struct{}
}

func (x *index[S, T]) add(o *store.Object[S, T], values []string) {
	for _, v := range values {
		set := x.values[v]
		if set == nil {
			set = make(map[*store.Object[S, T]]struct{})
			x.values[v] = set
		}
		set[o] = struct{}{}
	}
}

func (x *index[S, T]) remove(o *store.Object[S, T], values []string) {
	for _, v := range values {
		set := x.values[v]
		delete(set, o)
		if len(set) == 0 {
			delete(x.values, v) // a value that no object has any more costs nothing
		}
	}
}

// By yields the objects that the named index files under value, as of one
// moment, in no particular order. The objects are shared and read-only. No lock
// is held while the loop body runs. An index that Options.Indexes does not name
// panics: that is a misspelt name, and an empty answer would hide it.
func (c *Cache[S, T]) By(name, value string) iter.Seq[*store.Object[S, T]] {
	i := slices.IndexFunc(c.indexes, func(x *index[S, T]) bool { return x.name == name })
	if i < 0 {
		panic("cache: " + c.name + " has no index " + name)
	}
	return func(yield func(*store.Object[S, T]) bool) {
		for _, o := range c.filed(c.indexes[i], value) {
			if !yield(o) {
				return
			}
		}
	}
}

func (c *Cache[S, T]) filed(x *index[S, T], value string) []*store.Object[S, T] {
	c.mu.RLock()
	defer c.mu.RUnlock()
	set := x.values[value]
	objs := make([]*store.Object[S, T], 0, len(set))
	for o := range set {
		objs = append(objs, o)
	}
	return objs
}
