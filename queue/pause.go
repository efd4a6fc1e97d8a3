package queue

import "time"

// pause stops dispatches, of the queue or of a tenant.
type pause struct {
	why   string
	until int64 // 0: until resumed
}

func (q *Queue[K]) newPause(why string, max time.Duration) *pause {
	p := &pause{why: why}
	if max > 0 {
		p.until = after(q.now(), max)
	}
	return p
}

// Pause stops the queue from handing out keys, until Resume, or until max has
// passed; zero or less means no maximum. Adds are taken and coalesced, runs go
// on to their end, and a Get that is under way may still give a key. Pausing it again
// replaces why and maximum.
func (q *Queue[K]) Pause(why string, max time.Duration) {
	p := q.newPause(why, max)
	q.pausing.Lock()
	q.paused.Store(p)
	q.gate.Or(shutByPause)
	q.pausing.Unlock()
	q.watchPause(p)
}

// Resume ends Pause and tells whether the queue was paused.
func (q *Queue[K]) Resume() bool {
	return q.resume(func(p *pause) bool { return p != nil })
}

// resume ends the pause that there is, if which says so.
func (q *Queue[K]) resume(which func(*pause) bool) bool {
	q.pausing.Lock()
	ends := which(q.paused.Load())
	if ends {
		q.paused.Store(nil)
		q.gate.And(^shutByPause)
	}
	q.pausing.Unlock()
	if ends {
		q.bell.ring()
	}
	return ends
}

// PauseTenant is Pause for the keys of one tenant. It does nothing in a queue
// without Options.Tenant.
func (q *Queue[K]) PauseTenant(tenant, why string, max time.Duration) {
	p := q.newPause(why, max)
	if q.tenant(tenant, true, func(f *fairness, t *tenantState) { t.paused = p }) {
		q.watchPause(p)
	}
}

// ResumeTenant ends PauseTenant and tells whether the tenant was paused.
func (q *Queue[K]) ResumeTenant(tenant string) (was bool) {
	q.tenant(tenant, false, func(_ *fairness, t *tenantState) {
		was = t.paused != nil
		t.paused = nil
	})
	return was
}

// tenant changes the state of a tenant.
func (q *Queue[K]) tenant(name string, create bool, change func(*fairness, *tenantState)) bool {
	s := &q.shards[0]
	f := s.ready.fair
	if f == nil {
		return false
	}
	s.mu.Lock()
	defer q.unlock(s)
	n, ok := f.names[name]
	if !ok {
		if !create {
			return false
		}
		n = f.number(name)
	}
	change(f, f.of[n-1])
	s.loud = f.admit(f.of[n-1]) || s.loud
	f.forget(n)
	return true
}

func (q *Queue[K]) watchPause(p *pause) {
	if p.until != 0 {
		q.alarm.set(p.until)
	}
}

// expirePauses ends the pauses that have reached their maximum and keeps the
// alarm armed for the others.
func (q *Queue[K]) expirePauses(now int64) {
	if p := q.paused.Load(); p != nil && p.until != 0 {
		if p.until > now {
			q.watchPause(p)
		} else {
			q.resume(func(last *pause) bool { return last == p })
		}
	}
	if q.shards[0].ready.fair != nil {
		q.expireTenants(now)
	}
}

func (q *Queue[K]) expireTenants(now int64) {
	s := &q.shards[0]
	s.mu.Lock()
	next := int64(never)
	f := s.ready.fair
	for k, t := range f.of {
		switch {
		case t == nil || t.paused == nil || t.paused.until == 0:
		case t.paused.until > now:
			next = min(next, t.paused.until)
		default:
			t.paused = nil
			s.loud = f.admit(t) || s.loud
			f.forget(uint32(k + 1))
		}
	}
	q.unlock(s)
	q.alarm.set(next)
}

// The reasons for which the gate is not simply open.
const (
	shutByPause uint32 = 1 << iota
	shutByStop
	notPlain // not shut, but Get must take the long way
)
