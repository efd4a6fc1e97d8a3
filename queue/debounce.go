package queue

// delay puts an add off: until the key has been quiet for the window, but not
// longer than MaxWait after its first add, and not before the interval since its
// last run has passed.
func (k *keeper) delay(i uint32, e *entry, r request, now int64) request {
	d := &k.debounce
	if r.is(urgent) || e.state != StateRunning && e.state > StateIdle && e.state != StateDelayed {
		return r
	}
	if d.Window > 0 && r.due < plus(now, d.Window) && (!r.is(replaces) || r.due == 0) {
		x := k.s.extra(i, e)
		if x.first != 0 {
			r.flags |= windowed
		} else {
			x.first = now
		}
		r.due = min(plus(now, d.Window), plus(x.first, d.MaxWait))
	}
	if e.state != StateRunning {
		r.due = max(r.due, k.floor(i, e))
	}
	return r
}

// floor is the end of the interval since the key's last run.
func (k *keeper) floor(i uint32, e *entry) int64 {
	if x := k.extraOf(i, e); x != nil && x.cool != 0 && x.cool > k.s.env.now() {
		return x.cool
	}
	return 0
}

// began begins the interval, and ends what was noted for this run.
func (k *keeper) began(i uint32, e *entry) {
	if k.debounce.Interval > 0 {
		k.s.extra(i, e).cool = plus(k.s.env.now(), k.debounce.Interval)
	}
	if !e.is(recorded) {
		return
	}
	r := k.s.record(i)
	r.reasons = 0
	if r.extra != nil {
		r.first, r.was = 0, place{}
	}
	k.s.trim(i, e)
}
