package queue

import (
	"hash/maphash"
	"time"
)

// Queue is a work queue of keys. Make one with New. All methods are safe for
// concurrent use, and none but Get, GetBatch, Drain and Stop blocks.
//
//	Queue ── shards    by hash of the key; each is a queue of its own
//	      ── keepers   the admission of each shard
//	      ── waiters   getters that sleep
//	      ── timer     one runtime timer for all shards
type Queue[K comparable] struct {
	opts    Options[K]
	seed    maphash.Seed
	env     env
	shards  shards
	keepers []*keeper
	timer   timer
	news    chan struct{} // a token for Drain and Stop: look again
	_       [64]byte
	waiters waiters // written often, and what is above read by all
	_       [64]byte
}

// New makes a queue. It starts nothing. It fails on options that make no sense
// and on a key type that holds a pointer, an interface or a float.
func New[K comparable](o *Options[K]) (*Queue[K], error) {
	q := &Queue[K]{seed: maphash.MakeSeed(), news: make(chan struct{}, 1), waiters: waiters{token: make(chan struct{}, 1)}}
	if o != nil {
		q.opts = *o
	}
	if err := q.opts.complete(); err != nil {
		return nil, err
	}
	q.env.watch.init()
	q.env.sleeping = &q.waiters.sleeping
	q.env.maxKeys = int64(q.opts.MaxKeys)
	q.env.asks = q.opts.Buckets != nil
	q.env.more = q.opts.Tenant != nil
	q.shards.init(q.opts.Shards, &q.env, layoutOf[K]{})
	for k := range q.shards.all {
		q.keepers = append(q.keepers, q.admit(&q.shards.all[k]))
	}
	q.timer.init(&q.env, q.tick, q.news)
	return q, nil
}

// admit gives a shard its order and its admission.
func (q *Queue[K]) admit(s *shard) *keeper {
	k := &keeper{s: s, lines: make(map[int64]*line), tenants: q.opts.Tenant != nil}
	k.expiry.by, k.byWake.by = byRank[*heldBack]{}, byRank[*line]{}
	k.roster = roster{named: make(map[string]*tenant), cap: q.opts.TenantRunning}
	s.admission, s.carryOut = k, q.carryOut
	s.ready = k.order(nil, nil)
	return k
}

// Name is the queue's name.
func (q *Queue[K]) Name() string { return q.opts.Name }

func (q *Queue[K]) hash(key K) uint64 { return maphash.Comparable(q.seed, key) }

// Add makes key run as soon as it can. It fails with ErrStopped and ErrFull.
// Adding a key that is in the queue changes when it runs as the table in the
// package comment says, and never makes it run twice at once.
func (q *Queue[K]) Add(key K) error { return q.add(key, request{band: -1}, "") }

// AddAfter makes key run after d. If it is added again before, the earlier time
// counts; AddOptions.Replace puts it off. A run for another reason uses the timer
// up, so that what has to happen again at a certain time is best said at the end of
// each run, by Item.After.
func (q *Queue[K]) AddAfter(key K, d time.Duration) error {
	return q.AddWith(key, AddOptions{After: d})
}

// AddWith is Add with options.
func (q *Queue[K]) AddWith(key K, o AddOptions) error {
	r := request{band: o.Priority.n - 1}
	if o.Replace {
		r.flags |= replaces
	}
	if o.Urgent {
		r.flags |= urgent
		if !o.KeepAttempts {
			r.flags |= restart
		}
	}
	if o.After > 0 {
		r.due = plus(q.env.now(), o.After)
	}
	return q.add(key, r, o.Reason)
}

func (q *Queue[K]) add(key K, r request, reason string) error {
	var a ask
	var more *ask
	if q.env.more || reason != "" {
		a.reason, more = reason, &a
		q.ask(key, more)
	}
	hash := maphash.Comparable(q.seed, key)
	s := q.shards.of(hash)
	if !s.mu.TryLock() {
		s.mu.Wait()
	}
	i, e, at := find(s, uint32(hash), &key)
	var err error
	switch {
	case !q.env.may().takesAdds():
		err = ErrStopped
	case e != nil:
		s.add(i, e, r, more)
	case !q.env.room():
		err = ErrFull
	default:
		i, e = create(s, uint32(hash), &key, at)
		s.add(i, e, r, more)
	}
	s.unlock()
	return err
}

// ask looks up what an add has besides its request.
func (q *Queue[K]) ask(key K, a *ask) {
	if q.opts.Tenant != nil {
		a.tenant, a.weight = q.opts.Tenant(key), 1
		if q.opts.TenantWeight != nil {
			a.weight = max(1, q.opts.TenantWeight(a.tenant))
		}
	}
}

// Cancel takes back what was to run later, and tells whether there was such a
// thing: a key that is delayed is forgotten, an add with a delay that came while
// the key was running is dropped. It leaves alone what is due, and a key that has
// failed attempts, also one that an add with a delay put off: [Queue.Remove] forgets
// those.
func (q *Queue[K]) Cancel(key K) bool {
	return q.with(key, func(s *shard, i uint32, e *entry) bool { return s.cancel(i, e) })
}

// Remove forgets key, its attempts and what it waits for, and tells whether it
// was there. If it is running it is forgotten when the run ends, whatever the run
// returns; an add that comes after Remove makes it run again. Holds stay.
func (q *Queue[K]) Remove(key K) bool {
	return q.with(key, func(s *shard, i uint32, e *entry) bool { return s.remove(i, e) })
}

// with calls f under the lock for the entry of key, if there is one.
func (q *Queue[K]) with(key K, f func(s *shard, i uint32, e *entry) bool) bool {
	hash := q.hash(key)
	s := q.shards.of(hash)
	s.mu.Lock()
	i, e, _ := find(s, uint32(hash), &key)
	ok := e != nil && f(s, i, e)
	s.unlock()
	return ok
}

// carryOut does what has to happen after a change of a shard.
func (q *Queue[K]) carryOut(s *shard, fx effects) {
	if fx&(fxWake|fxLeft) != 0 {
		q.waiters.wake()
	}
	if fx&fxTimer != 0 {
		q.timer.set(s.due.Load())
	}
	if fx&fxRefund != 0 {
		k := q.keepers[s.id]
		s.mu.Lock()
		refunds := k.refunds
		k.refunds = nil
		s.mu.Unlock()
		for _, b := range refunds {
			b.Refund(1)
		}
	}
	if fx&fxLeft != 0 {
		signal(q.news)
	}
}

// Len is the number of keys that are ready.
func (q *Queue[K]) Len() (n int) {
	for _, k := range q.keepers {
		k.locked(func() { n += k.s.count[StateReady] })
	}
	return n
}

// tick is called by the timer: all shards do what is due, one step each by turns,
// until nothing is due. The timer is set once for all of them, before hooks are
// called, which may take their time.
func (q *Queue[K]) tick() {
	next := int64(0)
	for now := int64(0); next <= now; {
		next, now = never, q.env.now()
		for _, k := range q.keepers {
			k.locked(func() {
				switch s := k.s; {
				case q.env.may().phase() == stopped:
				case s.wake() <= now && s.tick(now):
					next = 0
				default:
					next = min(next, max(s.wake(), now+1))
				}
			})
		}
	}
	q.timer.set(next)
	for _, k := range q.keepers {
		var expired []*heldBack
		k.locked(func() { expired, k.expired = k.expired, nil })
		for _, h := range expired {
			if hook := q.opts.Hooks.HoldExpired; hook != nil {
				hook(h.over.(Scope[K]), h.reason)
			}
		}
	}
}

// Whole is the scope of the whole queue, the zero Scope.
func (q *Queue[K]) Whole() Scope[K] { return Scope[K]{} }

// OfTenant is the scope of a tenant. In a queue without Options.Tenant a hold over
// it holds nothing.
func (q *Queue[K]) OfTenant(name string) Scope[K] { return Scope[K]{kind: oneTenant, tenant: name} }

// OfKey is the scope of a key.
func (q *Queue[K]) OfKey(key K) Scope[K] { return Scope[K]{kind: oneKey, key: key} }

// Hold keeps what over names from running, until release is called, Release ends
// it, or its maximum has passed. Adds are taken and coalesced meanwhile, runs go on
// to their end, and a Get that is under way may still give a key. A key or tenant
// can be held before it is added. Several holds over one scope last until the last
// of them has ended. Release may be called again, from any goroutine; it does
// nothing when the hold has ended or was replaced.
//
// A hold is one of this process: it is not the lasting pause of an object in a
// store.
func (q *Queue[K]) Hold(over Scope[K], h Hold) (release func()) {
	x := &heldBack{over: over, name: h.Name, reason: h.Reason, until: never}
	if h.Max > 0 {
		x.until = plus(q.env.now(), h.Max)
	}
	k, hash := q.keeperOf(over)
	k.locked(func() {
		if set := q.holds(k, over, hash, true); set != nil {
			k.addHold(set, x)
		}
	})
	return func() {
		k.locked(func() {
			if x.set != nil {
				k.endHold(x)
			}
		})
	}
}

// Release ends the hold of a name over a scope, and tells whether there was one.
// Holds without a name are not found by it.
func (q *Queue[K]) Release(over Scope[K], name string) (ok bool) {
	k, hash := q.keeperOf(over)
	k.locked(func() {
		set := q.holds(k, over, hash, false)
		if ok = set != nil && set.named[name] != nil; ok {
			k.endHold(set.named[name])
		}
	})
	return ok
}

// keeperOf is the keeper of what a scope holds: the first one, unless that is a key.
func (q *Queue[K]) keeperOf(over Scope[K]) (k *keeper, hash uint32) {
	if over.kind != oneKey {
		return q.keepers[0], 0
	}
	h := q.hash(over.key)
	return q.keepers[q.shards.of(h).id], uint32(h)
}

// holds is the set of the holds over a scope, nil if there is none.
func (q *Queue[K]) holds(k *keeper, over Scope[K], hash uint32, orCreate bool) *holdSet {
	s := k.s
	switch over.kind {
	case wholeQueue:
		return &k.whole
	case oneTenant:
		if q.opts.Tenant == nil || !orCreate && k.roster.named[over.tenant] == nil {
			return nil
		}
		t := k.roster.get(over.tenant)
		if t.holds == nil && orCreate {
			t.holds = &holdSet{kind: oneTenant, of: t.number}
		}
		return t.holds
	}
	i, e, at := find(s, hash, &over.key)
	if e == nil && !orCreate {
		return nil
	}
	if e == nil {
		if s.env.maxKeys > 0 {
			s.env.keys.Add(1)
		}
		i, e = create(s, hash, &over.key, at)
	}
	if orCreate && !k.isHeld(i, e) {
		s.extra(i, e).holds = &holdSet{kind: oneKey, of: i}
	}
	if x := k.extraOf(i, e); x != nil {
		return x.holds
	}
	return nil
}
