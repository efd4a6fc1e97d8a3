package quota

import "time"

// Owing is the keys that wait for one of the two budgets.
func (q *Quota) Owing() (read, write int) {
	return q.budgets[Read].snapshot().Owing, q.budgets[Write].snapshot().Owing
}

// Names is how many names the set knows.
func (s *Set) Names() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.quotas)
}

// Knows says whether the set knows a name.
func (s *Set) Knows(name Name) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.quotas[name]
	return ok
}

// Calls is how many calls each budget has had.
func (q *Quota) Calls() (read, write uint64) {
	read, _, _, _ = q.budgets[Read].usage()
	write, _, _, _ = q.budgets[Write].usage()
	return read, write
}

// Told is how many pauses that the set told are remembered.
func (s *Set) Told() int {
	s.pauses.mu.Lock()
	defer s.pauses.mu.Unlock()
	return len(s.pauses.told)
}

// Until is until when the budget of op is paused; zero: it is not.
func (q *Quota) Until(op Op) time.Time { return q.budgets[op].snapshot().Bucket.Until }

const PauseKind = pauseKind
