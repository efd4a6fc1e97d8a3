package queue

// keeper is the admission of a shard: what may not run, and until when. Holds,
// debouncing, the caps of tenants and the lines of buckets each have a file of their
// own; this one has what they share, the record of a key.
type keeper[K comparable] struct {
	s        *shard[K]
	debounce Debounce
	holds    holds
	roster   roster
	tenants  *tenants[K] // the order of the shard, if it has tenants
	lines    lines[K]
	// locked calls f with the lock held and carries out what has to happen then.
	locked func(f func())
}

// join notes the reason and the tenant that come with an add.
func (k *keeper[K]) join(i uint32, e *entry[K], reason, tenant string, weight int) {
	r := k.s.recorded(i, e)
	if reason != "" {
		r.reasons |= k.s.reasons.bit(reason)
	}
	if weight == 0 {
		return
	}
	if r.tenant == 0 {
		t := k.roster.get(tenant)
		t.keys++
		r.tenant = t.number
	}
	k.roster.of[r.tenant-1].weight = weight
}

// tenantOf is the tenant of an entry with a record, nil if it has none.
func (k *keeper[K]) tenantOf(i uint32) *tenant {
	if n := k.s.record(i).tenant; n != 0 {
		return k.roster.of[n-1]
	}
	return nil
}

// isHeld tells whether a hold keeps the key from running.
func (k *keeper[K]) isHeld(i uint32, e *entry[K]) bool {
	if !e.is(recorded) {
		return false
	}
	x := k.s.record(i).extra
	return x != nil && x.holds != nil && x.holds.first != nil
}

func (k *keeper[K]) review(i uint32, e *entry[K], to status) status {
	held := k.isHeld(i, e)
	if to.state == StateReady {
		if held {
			to.state, to.due = StateHeld, 0
			to.flags &^= admitted
		}
		return to
	}
	to.state = absent
	x := k.s.record(i).extra
	if x == nil {
		return to
	}
	x.first = 0 // the debounced adds came to nothing
	to.due = k.floor(i, e)
	x.cool = to.due
	if held || to.due != 0 {
		to.state = StateIdle
	}
	return to
}

// taken counts the running keys of the key's tenant; ended uncounts them.
func (k *keeper[K]) taken(i uint32, _ *entry[K]) { k.ran(i, 1) }
func (k *keeper[K]) ended(i uint32, _ *entry[K]) { k.ran(i, -1) }

func (k *keeper[K]) ran(i uint32, by int) {
	if t := k.tenantOf(i); t != nil {
		t.running += by
		k.admit(t)
	}
}

// admit lets the keys of a tenant run, or not, after a change.
func (k *keeper[K]) admit(t *tenant) {
	blocked := t.holds.first != nil || k.roster.cap > 0 && t.running >= k.roster.cap
	if blocked == t.blocked {
		return
	}
	t.blocked = blocked
	if k.tenants.block(t, blocked) {
		k.s.fx.mask |= fxWake
	}
	k.s.fx.mask |= k.s.topMayChange
}

func (k *keeper[K]) forget(i uint32, e *entry[K]) {
	r := k.s.record(i)
	r.err, r.reasons = nil, 0
	if r.extra != nil {
		r.first, r.cool = 0, 0
	}
	k.s.trim(i, e)
}

func (k *keeper[K]) discard(i uint32, e *entry[K]) {
	if t := k.tenantOf(i); t != nil {
		t.keys--
		k.roster.trim(t)
	}
	k.s.dropRecord(i, e)
}

func (k *keeper[K]) tick(now int64) (more bool) {
	more = k.expire(now)
	if k.s.env.may().phase() == open {
		more = k.pump(now) || more
	}
	return more
}

func (k *keeper[K]) wake() int64 {
	at := int64(never)
	if len(k.holds.expiry) > 0 {
		at = k.holds.expiry[0].until
	}
	if len(k.lines.byWake) > 0 && k.s.env.may().phase() == open {
		at = min(at, k.lines.byWake[0].wakes)
	}
	return at
}
