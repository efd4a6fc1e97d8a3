package reconcile

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/tendhq/tend/store"
)

// claims has what at most one Manager of this process may run at a time: a cache, by itself, and
// a controller without a placement, by an unplaced. The lock is below all others.
var claims struct {
	mu sync.Mutex
	of map[any]bool
}

// unplaced is a controller that runs without asking for a lease. Where the backend is shared, a
// lease of the controller's name keeps two from running at once; this does within the process.
type unplaced struct {
	backend store.Backend
	name    string
}

// claimLocked claims what the members that were not started must have for themselves. Its
// caller holds Manager.mu.
func claimLocked(members []*member) (err error) {
	claims.mu.Lock()
	defer claims.mu.Unlock()
	var taken []*member
	for _, mb := range members {
		key := mb.claimable()
		if mb.done != nil || key == nil {
			continue
		}
		if claims.of[key] {
			err = mb.claimed()
			break
		}
		if claims.of == nil {
			claims.of = make(map[any]bool)
		}
		claims.of[key], mb.claim = true, key
		taken = append(taken, mb)
	}
	if err != nil {
		for _, mb := range taken {
			delete(claims.of, mb.claim)
		}
	}
	return err
}

// claimed is why a member must not run.
func (mb *member) claimed() error {
	if mb.cache {
		return fmt.Errorf("%s: another Manager runs it: make a cache for each Manager, or register the controllers that read it with one", mb.name)
	}
	return fmt.Errorf("controller %q: one of this name runs already over the same store in this process, and each key would be run by both: use one Manager, or give both the placement that is meant, as lease.EveryServer()", mb.name)
}

// claimable is what the member must have for itself; nil: nothing.
func (mb *member) claimable() any {
	if mb.cache {
		return keyable(mb.Runner)
	}
	if mb.controller == nil || mb.controller.placementOf() != nil {
		return nil
	}
	caches := mb.controller.shown()
	if len(caches) == 0 {
		caches = mb.controller.caches()
	}
	if len(caches) == 0 || keyable(caches[0].Backend()) == nil {
		return nil
	}
	return unplaced{caches[0].Backend(), mb.name}
}

// keyable is v, or nil if it cannot be the key of a map.
func keyable(v any) any {
	if !reflect.ValueOf(v).Comparable() {
		return nil
	}
	return v
}

// unclaim gives back what the member had for itself.
func (mb *member) unclaim() {
	claims.mu.Lock()
	defer claims.mu.Unlock()
	if mb.claim != nil {
		delete(claims.of, mb.claim)
	}
}
