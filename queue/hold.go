package queue

import (
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
	set          *holdSet
	name, reason string
	until        int64 // never: until it is released
	at           int   // in the heap of those with a maximum
	next, prev   *heldBack
}

func (h *heldBack) rank() uint64 { return uint64(h.until) }
func (h *heldBack) place() *int  { return &h.at }

// holdSet is the holds over one scope, in the order in which they were made.
type holdSet struct {
	first, last *heldBack
	named       map[string]*heldBack
	over        holdScope
}

// holdScope is the scope of a set without the type of the keys.
type holdScope struct {
	kind   scopeKind
	i      uint32  // of the key's entry
	tenant *tenant // of the tenant
}

func (s *holdSet) add(h *heldBack) {
	h.set, h.prev = s, s.last
	if s.last == nil {
		s.first = h
	} else {
		s.last.next = h
	}
	s.last = h
	if h.name != "" {
		if s.named == nil {
			s.named = make(map[string]*heldBack)
		}
		s.named[h.name] = h
	}
}

func (s *holdSet) remove(h *heldBack) {
	if h.prev == nil {
		s.first = h.next
	} else {
		h.prev.next = h.next
	}
	if h.next == nil {
		s.last = h.prev
	} else {
		h.next.prev = h.prev
	}
	if h.name != "" {
		delete(s.named, h.name)
	}
	h.set, h.next, h.prev = nil, nil, nil
}

// holds is what a shard holds, and the whole queue in the first shard.
type holds struct {
	whole  holdSet
	expiry heap[*heldBack]
}

// expired is a hold that reached its maximum.
type expired[K comparable] struct {
	over   Scope[K]
	reason string
}

// maxExpired is how many holds end under one hold of the lock.
const maxExpired = 256

// hold adds a hold to a set, in the place of the one of its name.
func (k *keeper[K]) hold(set *holdSet, h *heldBack) {
	if was := set.named[h.name]; was != nil {
		k.holds.expiry.remove(was)
		set.remove(was)
	}
	set.add(h)
	if h.until != never {
		k.holds.expiry.add(h)
		k.s.fx.mask |= fxTimer
	}
	k.held(set)
}

// release ends a hold that lasts.
func (k *keeper[K]) release(h *heldBack) {
	set := h.set
	k.holds.expiry.remove(h)
	set.remove(h)
	k.held(set)
}

// held lets what a set holds run or not, after a change of the set.
func (k *keeper[K]) held(set *holdSet) {
	s := k.s
	switch over := set.over; over.kind {
	case wholeQueue:
		if set.first != nil {
			s.env.heldBy.Store(&set.first.reason)
			s.env.word.Or(uint32(paused))
		} else {
			s.env.word.And(^uint32(paused))
			s.env.heldBy.Store(nil)
			s.fx.mask |= fxWake
		}
	case oneTenant:
		k.admit(over.tenant)
		k.roster.trim(over.tenant)
	case oneKey:
		e := s.at(over.i)
		to := e.status()
		switch e.state {
		case StateReady, StateThrottled:
			if set.first != nil {
				to = to.start(0)
				s.move(over.i, e, to, e.band)
			}
		case StateHeld:
			// While the queue drains nothing becomes ready that a getter may not
			// wait for any more.
			if set.first == nil && s.env.may().phase() == open {
				s.move(over.i, e, to.start(0), e.band)
			}
		case absent, StateIdle:
			to.state, to.due = StateIdle, 0
			s.move(over.i, e, to, e.band)
		default:
			s.trim(over.i, e)
		}
	}
}

// expire ends the holds that have reached their maximum.
func (k *keeper[K]) expire(now int64) (more bool) {
	s := k.s
	for range maxExpired {
		if len(k.holds.expiry) == 0 || k.holds.expiry[0].until > now {
			return false
		}
		h := k.holds.expiry[0]
		x := expired[K]{reason: h.reason}
		switch over := h.set.over; over.kind {
		case oneKey:
			x.over = Scope[K]{kind: oneKey, key: s.at(over.i).key}
		case oneTenant:
			x.over = Scope[K]{kind: oneTenant, tenant: over.tenant.name}
		}
		if s.fx.expired == nil {
			s.fx.expired = new([]expired[K])
		}
		*s.fx.expired = append(*s.fx.expired, x)
		s.fx.mask |= fxHooks
		s.touched++
		k.release(h)
	}
	return true
}

// holdsOf is the set of a key, made if there is none.
func (k *keeper[K]) holdsOf(i uint32, e *entry[K]) *holdSet {
	x := k.s.extra(i, e)
	if x.holds == nil {
		x.holds = &holdSet{over: holdScope{kind: oneKey, i: i}}
	}
	return x.holds
}
