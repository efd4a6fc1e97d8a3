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

// Key is the key of a scope that is one.
func (s Scope[K]) Key() (key K, ok bool) { return s.key, s.kind == oneKey }

// Tenant is the name of the tenant of a scope that is one.
func (s Scope[K]) Tenant() (name string, ok bool) { return s.tenant, s.kind == oneTenant }

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
	name, reason string
	until        int64 // never: until it is released
	at           int   // in the heap of those with a maximum
	element      *list.Element
}

func (h *heldBack) rank() uint64 { return uint64(h.until) }
func (h *heldBack) placed() *int { return &h.at }

// holdSet is the holds over one scope, in the order in which they were made.
type holdSet struct {
	kind   scopeKind
	i      uint32  // of the key's entry
	tenant *tenant // of the tenant
	holds  list.List
	named  map[string]*heldBack
}

func (s *holdSet) lasts() bool { return s.holds.Len() > 0 }

// reason is that of the first hold; there must be one.
func (s *holdSet) reason() *string { return &s.holds.Front().Value.(*heldBack).reason }

// expired is a hold that reached its maximum.
type expired[K comparable] struct {
	over   Scope[K]
	reason string
}

// roster numbers the tenants that have keys or holds.
type roster struct {
	numbers map[string]uint32 // number+1
	of      []*tenant
	unused  []uint32
	cap     int // of keys that run at once, 0: none
}

type tenant struct {
	name    string
	number  uint32 // +1
	weight  int    // keys it runs in a turn
	keys    int    // entries; without any and without a hold the tenant is forgotten
	running int
	holds   holdSet
	blocked bool // its keys may not run: it is held, or runs as many as it may

	// Of the lines of buckets, by number: how many of its keys each let go that have not
	// been taken, and those that passed over its keys because it was blocked.
	admitted map[int64]int
	passed   []int64
}

// get is the tenant of a name, a new one if it is not known.
func (r *roster) get(name string) *tenant {
	if n, ok := r.numbers[name]; ok {
		return r.of[n-1]
	}
	if len(r.unused) == 0 {
		r.of = append(r.of, nil)
		r.unused = append(r.unused, uint32(len(r.of)))
	}
	last := len(r.unused) - 1
	t := &tenant{name: name, weight: 1, number: r.unused[last]}
	t.holds = holdSet{kind: oneTenant, tenant: t}
	r.unused, r.of[t.number-1], r.numbers[name] = r.unused[:last], t, t.number
	return t
}

// trim forgets a tenant for which there is no reason any more.
func (r *roster) trim(t *tenant) {
	if t.keys == 0 && !t.holds.lasts() {
		delete(r.numbers, t.name)
		r.of[t.number-1] = nil
		r.unused = append(r.unused, t.number)
	}
}
