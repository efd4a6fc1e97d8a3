package queue

import (
	"container/list"
	"fmt"
	"time"
)

// Scope is what a hold holds: a key, a tenant, or the whole queue, which is the
// zero Scope. Queue.OfKey, OfTenant and Whole make scopes.
type Scope[K comparable] struct {
	kind   scopeKind
	tenant string
	key    K
}

type scopeKind uint8

const (
	wholeQueue scopeKind = iota
	oneTenant
	oneKey
)

// String names the scope.
func (s Scope[K]) String() string {
	switch s.kind {
	case oneKey:
		return fmt.Sprintf("key %v", s.key)
	case oneTenant:
		return "tenant " + s.tenant
	}
	return "queue"
}

// Hold says how something is held.
type Hold struct {
	// Name is what Queue.Release ends it by. A hold replaces the one of its name
	// and scope. One without a name stands beside all others, and only the function
	// that Queue.Hold returned, or its maximum, ends it.
	Name string
	// Reason is shown by Snapshot and Stats.
	Reason string
	// Max is how long the hold lasts at most. Zero or less: until it is released.
	Max time.Duration
}

// heldBack is a hold that lasts.
type heldBack struct {
	set          *holdSet // nil: it has ended
	over         any      // its Scope
	name, reason string
	until        int64 // never: until it is released
	at           int   // in the heap of those with a maximum
	element      *list.Element
}

func (h *heldBack) rank() uint64 { return uint64(h.until) }
func (h *heldBack) placed() *int { return &h.at }

// holdSet is the holds over one scope, in the order in which they were made.
type holdSet struct {
	kind  scopeKind
	of    uint32 // the key's entry, or the tenant's number+1
	holds list.List
	named map[string]*heldBack
}

// lasts tells whether the set, which may be nil, has a hold.
func (s *holdSet) lasts() bool { return s != nil && s.holds.Len() > 0 }

// reason is that of the first hold; there must be one.
func (s *holdSet) reason() *string { return &s.holds.Front().Value.(*heldBack).reason }
