package quota

import (
	"time"
	"weak"
)

// A Set must not keep every name it ever heard of, and must not make a second quota of
// a name whose first is still held: that would be twice the budget.
//
//	used ──▶ held ── an hour, and at rest ──▶ resting ── no longer held ──▶ forgotten
//	          ▲                                  │
//	          └───────────────── used ───────────┘

const (
	manyNames = 1000      // fewer are not worth a look
	idle      = time.Hour // longer than any pause that a cloud asks for
)

// entry is what a Set knows of a name. It is guarded by the Set's lock.
type entry struct {
	held  *Quota // nil while it rests
	quota weak.Pointer[Quota]
	err   error // instead of a quota
	made  time.Time
}

func (e *entry) hold(q *Quota) {
	q.touch()
	if e.held == nil {
		e.held, e.quota = q, weak.Make(q)
		q.resting.Store(false)
	}
}

// touch notes that the quota is in use now, by the process's monotonic clock.
func (q *Quota) touch() { q.used.Store(int64(time.Since(q.made))) }

// use has the Set hold the quota, because there will be something to remember.
func (q *Quota) use() {
	q.touch()
	if !q.resting.Load() { // after used was stored: rest does it the other way round
		return
	}
	q.set.mu.Lock()
	defer q.set.mu.Unlock()
	if e := q.set.quotas[q.name]; e != nil && e.quota.Value() == q {
		e.hold(q)
	}
}

// rest lets go of a quota that has nothing to remember.
func (e *entry) rest(now time.Time) {
	q := e.held
	q.resting.Store(true)
	if now.Sub(q.made)-time.Duration(q.used.Load()) < idle || !q.budgets[Read].atRest() || !q.budgets[Write].atRest() {
		q.resting.Store(false)
		return
	}
	e.held = nil
}

// atRest says whether a new budget would be the same, but for what was counted and
// the rate that was found.
func (b *budget) atRest() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.bucket.Stats()
	return b.owing == 0 && !b.circuit.open && s.Until.IsZero() && s.Tokens >= float64(s.Burst)
}

// tidyLocked forgets what is not used, whenever so many names have been added that it
// costs each of them little.
func (s *Set) tidyLocked() {
	if len(s.quotas) < s.tidyAt {
		return
	}
	now := time.Now()
	for name, e := range s.quotas {
		switch {
		case e.held != nil:
			e.rest(now)
		case e.err == nil && e.quota.Value() == nil, e.err != nil && now.Sub(e.made) >= idle:
			delete(s.quotas, name)
		}
	}
	s.tidyAt = len(s.quotas) + max(manyNames, len(s.quotas)/4)
}
