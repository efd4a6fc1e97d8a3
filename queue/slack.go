package queue

import "time"

// giveBackAfter is how long memory that is not in use any more is kept: a queue
// whose depth goes up and down would otherwise give it back and ask for it again
// with each swing. The chunk with the slot freed last goes with what else there is to
// give back: a shard that never had more than a few keys keeps that one.
const giveBackAfter = time.Second

// slack is memory that may not be in use any more.
type slack struct {
	due       int64 // when it is given back; never if there is none
	cursor    int   // how far that has got, in the part that is being done
	dir, slab bool  // parts that are done
	late      bool  // there is more since it began, maybe behind the cursor
}

// loosen notes that there is slack. The alarm must be armed after the lock.
func (s *shard[K]) loosen() {
	k := &s.slack
	if k.due == never {
		k.due = after(s.q.now(), giveBackAfter)
	}
	k.late = k.dir || k.cursor > 0
}

// tighten gives back what is not in use. It does a bounded amount of work; more
// says that it is to be called again.
func (s *shard[K]) tighten() (more bool) {
	k := &s.slack
	switch {
	case !k.dir:
		k.cursor = s.table.shrink(k.cursor)
		k.dir = k.cursor == 0
	case !k.slab:
		if s.hot != 0 {
			s.slots.put(s.hot - 1)
			s.hot = 0
		}
		k.cursor = s.slots.reclaim(k.cursor, func(n int) { s.chunks[n], s.keys[n] = nil, nil })
		k.slab = k.cursor == 0
	default:
		k.cursor = s.sides.slots.reclaim(k.cursor, func(n int) { s.sides.chunks[n] = nil })
		if k.cursor == 0 {
			late := k.late
			if *k = (slack{due: never}); late {
				s.loosen()
			}
			return false
		}
	}
	return true
}
