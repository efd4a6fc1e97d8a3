package reconcile

import (
	"reflect"
	"sync"

	"github.com/tendhq/tend/store"
)

// claims has what at most one Manager of this process may run at a time: a cache, by itself, and
// a controller without a placement, by an unplaced. The lock is below all others.
var claims struct {
	mu sync.Mutex // guards of
	of map[any]bool
}

// unplaced is a controller that runs without asking for a lease. Where the backend is shared, a
// lease of the controller's name keeps two from running at once; this does within the process.
type unplaced struct {
	backend store.Backend
	name    string
}

// claim claims all of the keys, or none: then it gives the index of one that is taken.
func claim(keys []any) (taken int, ok bool) {
	claims.mu.Lock()
	defer claims.mu.Unlock()
	for i, key := range keys {
		if claims.of[key] {
			return i, false
		}
	}
	if claims.of == nil {
		claims.of = make(map[any]bool)
	}
	for _, key := range keys {
		claims.of[key] = true
	}
	return 0, true
}

// unclaim gives a key back; nil: nothing.
func unclaim(key any) {
	claims.mu.Lock()
	defer claims.mu.Unlock()
	delete(claims.of, key)
}

// keyable is v, or nil if it cannot be the key of a map.
func keyable(v any) any {
	if !reflect.ValueOf(v).Comparable() {
		return nil
	}
	return v
}
