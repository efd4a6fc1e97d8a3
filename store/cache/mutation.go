package cache

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/store"
)

// ErrMutated is reported for an object that was written to although it is
// shared by all readers of the cache.
var ErrMutated = errors.New("cache: a shared object was written to")

// A fingerprint is what an object looked like when the cache got it.
type fingerprint [sha256.Size]byte

func printOf(o any) fingerprint {
	var b []byte
	err := contain.Apart(func() (err error) { b, err = json.Marshal(o); return err })
	if err != nil {
		// What cannot be encoded cannot be compared: the same for all of them.
		return fingerprint{}
	}
	return sha256.Sum256(b)
}

// fingerprint checks the objects that are about to be replaced, and notes what those that
// replace them look like. It calls the user's code, and so holds no lock that a method takes.
func (c *core) fingerprint(steps []step) {
	for i := range steps {
		s := &steps[i]
		if was, ok := c.prints[s.old]; ok && was != c.look(s.old) { // the feed alone writes them
			c.report(s.key, c.mutated(s.key))
		}
		var look fingerprint
		if s.new != nil {
			look = c.look(s.new)
		}
		c.mu.Lock()
		if delete(c.prints, s.old); s.new != nil {
			c.prints[s.new] = look
		}
		c.mu.Unlock()
	}
}

func (c *core) mutated(key store.Key) error {
	return fmt.Errorf("%w: %s %s", ErrMutated, c.kind, key)
}

// checkMutations returns an error that wraps ErrMutated and names the keys of
// all objects that were written to since the cache got them. Without
// Options.DetectMutations it returns nil.
func (c *core) checkMutations() error {
	c.mu.RLock()
	prints := maps.Clone(c.prints)
	c.mu.RUnlock()
	var errs []error
	for o, was := range prints {
		if was != c.look(o) {
			errs = append(errs, c.mutated(o.Key()))
		}
	}
	return errors.Join(errs...)
}
