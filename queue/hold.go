package queue

// How many holds end in one critical section at most; and how many do in one that has looked
// at enough already, so that keys which are due cannot put the ends of holds off for ever.
const (
	maxExpired   = 256
	leastExpired = 16
)

// addHold adds a hold to a set, in the place of the one of its name.
func (k *keeper) addHold(set *holdSet, h *heldBack) {
	if was := set.named[h.name]; was != nil {
		k.drop(was)
	}
	h.set, h.element = set, set.holds.PushBack(h)
	if set.named == nil {
		set.named = make(map[string]*heldBack)
	}
	if h.name != "" {
		set.named[h.name] = h
	}
	if h.until != never {
		k.expiry.add(h)
		k.s.fx |= fxTimer
	}
	k.apply(set)
}

// endHold ends a hold that lasts.
func (k *keeper) endHold(h *heldBack) {
	set := h.set
	k.drop(h)
	k.apply(set)
}

// drop takes a hold out of its set.
func (k *keeper) drop(h *heldBack) {
	k.expiry.remove(h)
	h.set.holds.Remove(h.element)
	delete(h.set.named, h.name)
	h.set = nil
}

// apply lets what a set holds run or not, after a change of the set.
func (k *keeper) apply(set *holdSet) {
	s := k.s
	switch set.kind {
	case wholeQueue:
		if set.lasts() {
			s.env.heldBy.Store(set.reason())
			s.env.word.Or(uint32(paused))
		} else {
			s.env.word.And(^uint32(paused))
			s.env.heldBy.Store(nil)
			s.fx |= fxWake
		}
	case oneTenant:
		t := k.roster.of[set.of-1]
		if k.admit(t); !set.lasts() {
			t.holds = nil
			k.roster.trim(t)
		}
	case oneKey:
		e := s.at(set.of)
		if !set.lasts() {
			s.record(set.of).holds = nil
		}
		to := e.status()
		switch {
		case e.state == absent || e.state == StateIdle:
			to.state = StateIdle
			s.move(set.of, e, to, e.band)
		case (e.state == StateReady || e.state == StateThrottled) && set.lasts():
			s.move(set.of, e, to.hold(), e.band)
		case e.state == StateHeld && !set.lasts() && s.env.may().phase() == open: // while the queue drains nothing becomes ready that a getter may not wait for
			s.move(set.of, e, to.start(0), e.band)
		}
		if e.is(recorded) {
			s.trim(set.of, e)
		}
	}
}

// expire ends the holds that have reached their maximum.
func (k *keeper) expire(now int64) (more bool) {
	s := k.s
	for n := range maxExpired {
		h, ok := k.expiry.first()
		if !ok || h.until > now {
			return false
		}
		if n >= leastExpired && s.tired() {
			break
		}
		k.expired = append(k.expired, h)
		s.touched++
		k.endHold(h)
	}
	return true
}

func (k *keeper) review(i uint32, e *entry, to status) status {
	held := k.isHeld(i, e)
	if to.state == StateReady {
		if held {
			return to.hold()
		}
		return to
	}
	to.state = absent
	if held {
		to.state = StateIdle
	}
	return to
}
