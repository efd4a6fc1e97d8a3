package cache

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tendhq/tend/store"
)

// ErrMutated is reported for an object that was written to although it is
// shared by all readers of the cache.
var ErrMutated = errors.New("cache: a shared object was written to")

// A fingerprint is what an object looked like when the cache got it.
type fingerprint [sha256.Size]byte

func printOf[S, T any](o *store.Object[S, T]) fingerprint {
	b, err := json.Marshal(o)
	if err != nil {
		// What cannot be encoded cannot be compared: the same for all of them.
		return fingerprint{}
	}
	return sha256.Sum256(b)
}

// fingerprint checks the objects that are about to be replaced, and remembers
// what replaces them.
func (c *Cache[S, T]) fingerprint(steps []step[S, T]) {
	for i := range steps {
		s := &steps[i]
		if s.old != nil && !c.intact(s.old) {
			c.report(s.key, fmt.Errorf("%w: %s %s", ErrMutated, c.Kind(), s.key))
		}
		c.mu.Lock()
		if s.new == nil {
			delete(c.prints, s.key)
		} else {
			c.prints[s.key] = printOf(s.new)
		}
		c.mu.Unlock()
	}
}

func (c *Cache[S, T]) intact(o *store.Object[S, T]) bool {
	now := printOf(o)
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.prints[o.Key()] == now
}

// CheckMutations returns an error that wraps ErrMutated and names the keys of
// all objects that were written to since the cache got them. Without
// Options.DetectMutations it returns nil.
func (c *Cache[S, T]) CheckMutations() error {
	if !c.opts.DetectMutations {
		return nil
	}
	var errs []error
	for o := range c.All() {
		if !c.intact(o) {
			errs = append(errs, fmt.Errorf("%w: %s %s", ErrMutated, c.Kind(), o.Key()))
		}
	}
	return errors.Join(errs...)
}
