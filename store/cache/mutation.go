package cache

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tendhq/tend/internal/contain"
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
// replace them look like. It calls the user's code, and so holds no lock.
func (c *core) fingerprint(steps []step) {
	for i := range steps {
		s := &steps[i]
		if s.old != nil && c.prints[s.key] != c.look(s.old) { // the feed alone writes them
			c.report(s.key, fmt.Errorf("%w: %s %s", ErrMutated, c.kind, s.key))
		}
		if s.new != nil {
			s.look = c.look(s.new)
		}
	}
}

// lookLocked remembers what fingerprint noted, at the moment at which the table changes:
// CheckMutations compares the one with the other.
func (c *core) lookLocked(s *step) {
	if s.new == nil {
		delete(c.prints, s.key)
	} else {
		c.prints[s.key] = s.look
	}
}

// checkMutations returns an error that wraps ErrMutated and names the keys of
// all objects that were written to since the cache got them. Without
// Options.DetectMutations it returns nil.
func (c *core) checkMutations() error {
	if !c.opts.DetectMutations {
		return nil
	}
	c.mu.RLock()
	objs, prints := slices.Clone(c.list), maps.Clone(c.prints)
	c.mu.RUnlock()
	var errs []error
	for _, o := range objs {
		if prints[o.Key()] != c.look(o) {
			errs = append(errs, fmt.Errorf("%w: %s %s", ErrMutated, c.kind, o.Key()))
		}
	}
	return errors.Join(errs...)
}
