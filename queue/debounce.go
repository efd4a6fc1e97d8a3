package queue

import "time"

// debounce puts an add off: until the key has been quiet for the window, but
// not longer than MaxWait after its first add, and not before the interval since
// its last run has passed.
func (s *shard[K]) debounce(i uint32, r *request) {
	e, d := s.at(i), &s.q.opts.Debounce
	if r.urgent || e.state != StateRunning && e.state != StateIdle && e.state != StateDelayed {
		return
	}
	if d.Window > 0 && r.due < after(r.now, d.Window) && !(r.replace && r.due > 0) {
		was := s.rare(i)
		r.window = was.first != 0
		if was.first == 0 {
			was.first = r.now
		}
		r.due = min(after(r.now, d.Window), after(was.first, d.MaxWait))
	}
	if e.state != StateRunning {
		r.due = s.notBefore(i, r.due)
	}
}

// ran remembers when a run starts, for Debounce.Interval. now is 0 if there is
// none.
func (s *shard[K]) ran(i uint32, now int64) {
	e := s.at(i)
	if e.is(israre) {
		s.rares[i].first = 0
		s.trimRare(i)
	}
	if now != 0 {
		s.rare(i).cool = after(now, s.q.opts.Debounce.Interval)
	}
}

// notBefore is due, or the end of the interval if that is later.
func (s *shard[K]) notBefore(i uint32, due int64) int64 {
	if !s.at(i).is(israre) {
		return due
	}
	if r := s.rares[i]; r.cool > max(due, s.q.now()) {
		return r.cool
	}
	return due
}

// cooling keeps a detached idle entry until its interval has passed: then its
// key may go, for nothing needs to be remembered of it.
func (s *shard[K]) cooling(i uint32) bool {
	r := s.rares[i]
	if r == nil || r.cool == 0 {
		return false
	}
	if r.cool > s.q.now() {
		s.stay(i, StateIdle, r.cool)
		return true
	}
	r.cool = 0
	s.trimRare(i)
	return false
}

// interval is the least time between the starts of two runs of a key.
func (q *Queue[K]) interval() time.Duration { return q.opts.Debounce.Interval }
