package queue

// maxExpired is how many holds end under one hold of the lock.
const maxExpired = 256

// addHold adds a hold to a set, in the place of the one of its name.
func (k *keeper[K]) addHold(set *holdSet, h *heldBack) {
	if was := set.named[h.name]; was != nil {
		k.holds.expiry.remove(was)
		set.remove(was)
	}
	set.add(h)
	if h.until != never {
		k.holds.expiry.add(h)
		k.s.fx.mask |= fxTimer
	}
	k.apply(set)
}

// endHold ends a hold that lasts.
func (k *keeper[K]) endHold(h *heldBack) {
	set := h.set
	k.holds.expiry.remove(h)
	set.remove(h)
	k.apply(set)
}

// apply lets what a set holds run or not, after a change of the set.
func (k *keeper[K]) apply(set *holdSet) {
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
				to.state, to.due = StateHeld, 0
				to.flags &^= admitted
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
		h, ok := k.holds.expiry.first()
		if !ok || h.until > now {
			return false
		}
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
		k.endHold(h)
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
	x.first = 0 // the debounced adds have led to no run
	to.due = k.floor(i, e)
	x.cool = to.due
	if held || to.due != 0 {
		to.state = StateIdle
	}
	return to
}
