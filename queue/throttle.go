package queue

import (
	"errors"
	"time"
)

// waiting is the keys of one queue that one bucket refused, in the order in
// which they would have run. When the bucket has a token again, the first of
// them become ready once more, so a key of a high band gets the next token
// whoever waits already, and other buckets' keys never wait behind these.
type waiting struct {
	bands
	bucket *Bucket
	id     int64 // at least 1
	wake   int64 // when there may be a token
}

// The number of a waiting list is in the upper bits of its entries' order, so
// that an entry leads to its list.
//
// 44 bits leave room for half a million lists, and for all that comes into one of
// them in five years without it ever being empty, at 100,000 a second.
const waitingShift = 44

// throttling is the part of a shard that deals with buckets.
type throttling struct {
	lists map[*Bucket]*waiting
	byID  []*waiting // id-1
	wake  int64      // the earliest of theirs
}

// charge lets each of the items run whose buckets all have a token, and puts the
// others into the list of a bucket that has none. It returns how many are left.
func (q *Queue[K]) charge(s *shard[K], items []Item[K]) int {
	n, asked := 0, 0
	defer func() {
		if asked < len(items) { // Buckets panicked: nobody gets any of them
			q.giveBack(s, items[:n])
			q.giveBack(s, items[asked:])
		}
	}()
	var few, own [4]*Bucket
	for ; asked < len(items); asked++ {
		it := &items[asked]
		buckets := own[:0] // a copy: what Buckets returns is the caller's
		for _, b := range q.opts.Buckets(it.Key, few[:0]) {
			if b != nil {
				buckets = append(buckets, b)
			}
		}
		now := time.Now()
		s.mu.Lock()
		// Who knows only its key may have settled it: see Running.
		ok := s.lent(it.loan) != nil && s.pay(it.loan.idx(), buckets, now)
		q.unlock(s)
		if ok {
			items[n] = *it
			n++
		} else {
			q.settled()
		}
	}
	clear(items[n:])
	return n
}

var errBuckets = errors.New("queue: Options.Buckets panicked")

// giveBack takes items that have not run from whoever does not get them after all.
// They back off for a second, so that a key that makes Buckets panic each time does
// not keep the others from running.
func (q *Queue[K]) giveBack(s *shard[K], items []Item[K]) {
	due := after(q.now(), time.Second)
	s.mu.Lock()
	for _, it := range items {
		if s.lent(it.loan) == nil {
			continue
		}
		s.refused++
		s.tally.ended++
		s.settle(it.loan.idx(), &outcome{kind: again, due: due, err: errBuckets})
	}
	q.unlock(s)
	q.settled()
}

// pay tells whether the running entry i may stay so.
func (s *shard[K]) pay(i uint32, buckets []*Bucket, now time.Time) bool {
	e := s.at(i)
	if e.is(removed) {
		s.refused++
		s.tally.ended++
		s.settle(i, &outcome{kind: done})
		return false
	}
	refused := s.queued(e, buckets)
	if refused == nil {
		refused = takeAll(now, buckets)
	}
	if refused != nil {
		s.refuse(i, refused, now)
		return false
	}
	e.flags &^= admitted
	if e.is(inside) {
		s.sides.of(i).reasons = 0
		s.trim(i)
	}
	return true
}

// queued is a bucket that has keys waiting which go before e.
func (s *shard[K]) queued(e *entry, buckets []*Bucket) *Bucket {
	if e.is(admitted) {
		return nil
	}
	for _, b := range buckets {
		if w := s.throttling.lists[b]; w != nil && w.top() > int(e.band()) {
			return b
		}
	}
	return nil
}

// refuse puts a running entry into the bucket's list. What was added meanwhile
// has no need to be remembered: the key has not run yet.
func (s *shard[K]) refuse(i uint32, b *Bucket, now time.Time) {
	e := s.at(i)
	s.refused++
	s.tally.ended++
	s.unrun(i)
	if e.is(urgent) {
		e.attempts = 0
	}
	again := e.is(admitted)
	e.flags &^= added | urgent | raised | admitted
	if e.is(israre) && s.blocked(i, StateHeld) {
		return
	}
	s.set(e, StateThrottled)
	e.since = s.q.clock.tick()
	w := s.waiting(b, now)
	if again {
		w.putBack(&s.entries, i)
	} else {
		w.push(&s.entries, i)
	}
}

// waiting is the list of b, made if there is none.
func (s *shard[K]) waiting(b *Bucket, now time.Time) *waiting {
	t := &s.throttling
	if w := t.lists[b]; w != nil {
		return w
	}
	w := &waiting{bucket: b}
	for k, other := range t.byID {
		if other == nil {
			w.id = int64(k + 1)
			break
		}
	}
	if w.id == 0 {
		t.byID = append(t.byID, nil)
		w.id = int64(len(t.byID))
	}
	w.seq = w.id << waitingShift
	t.byID[w.id-1] = w
	if t.lists == nil {
		t.lists = make(map[*Bucket]*waiting)
	}
	t.lists[b] = w
	if !s.closed { // else nothing comes due any more, and the bucket may outlive us
		b.watch(w, func() { s.q.again(s, w) })
	}
	_, next := b.available(now)
	w.wake = s.q.at(next)
	t.wake = min(t.wake, w.wake)
	return w
}

// again makes the shard look at a bucket whose limit changed.
func (q *Queue[K]) again(s *shard[K], w *waiting) {
	s.mu.Lock()
	w.wake = q.now()
	s.throttling.wake = min(s.throttling.wake, w.wake)
	q.unlock(s)
}

// leaveBucket takes a throttled entry out of its list.
func (s *shard[K]) leaveBucket(i uint32) {
	w := s.throttling.byID[s.at(i).when>>waitingShift-1]
	w.remove(&s.entries, i)
	s.dropEmpty(w)
}

func (s *shard[K]) dropEmpty(w *waiting) {
	if w.top() == 0 {
		w.bucket.unwatch(w)
		delete(s.throttling.lists, w.bucket)
		s.throttling.byID[w.id-1] = nil
	}
}

func (s *shard[K]) rebandThrottled(i uint32, band uint8) {
	e := s.at(i)
	w := s.throttling.byID[e.when>>waitingShift-1]
	w.remove(&s.entries, i)
	e.setBand(band)
	w.push(&s.entries, i)
}

// pump lets the first keys of each bucket that has tokens become ready. They
// pay when they are dispatched, and wait again if somebody else was faster.
func (s *shard[K]) pump(now int64) {
	t := &s.throttling
	if now < t.wake {
		return
	}
	t.wake = never
	for _, w := range t.lists {
		if w.wake <= now {
			s.admit(w, now)
		}
		if w.top() != 0 {
			t.wake = min(t.wake, w.wake)
		}
	}
}

func (s *shard[K]) admit(w *waiting, now int64) {
	n, next := w.bucket.available(s.q.start.Add(time.Duration(now - 1)))
	w.wake = max(s.q.at(next), now+1)
	for range min(n, w.len(), maxFire) {
		i := w.pop(&s.entries)
		s.at(i).flags |= admitted
		s.enter(i)
	}
	s.dropEmpty(w)
}
