package queue

// DoneKey is Item.Done for those who kept only the key of what they were lent:
// code that was written for another queue. It tells whether the key was on loan;
// if it was not, nothing happens, because then its run was settled already or
// never began. A worker that has the Item settles that: it costs no search, and
// cannot end a run that somebody else began meanwhile.
func (q *Queue[K]) DoneKey(key K) bool {
	hash := q.hash(key)
	s := q.shard(hash)
	s.mu.Lock()
	i, _, ok := s.find(uint32(hash), &key)
	if !ok || s.at(i).state != StateRunning {
		s.mu.Unlock()
		return false
	}
	e := s.at(i)
	s.tally.ended++
	s.tally.work(&q.clock, i, e.since)
	if e.flags == 0 && q.plain {
		s.end(i, e)
	} else {
		s.settle(i, &outcome{kind: done})
	}
	q.unlock(s)
	q.settled()
	return true
}
