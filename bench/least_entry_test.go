//go:build peers

package bench

import (
	"testing"
	"time"
)

// least-entry is least with one thing more: what is known of a key lies in an
// entry of 32 bytes, and the key itself in an array beside them, as in tend's
// queue. So a key is found by comparing it and not its hash alone, an item is an
// index with a run number, ready and waiting keys are lists, and a key that is
// added while it runs runs again. What it takes beyond least is the price of
// keeping an entry; what tend takes beyond it is that of what tend does with it.
type leastEntries[K comparable] struct {
	entries    []leastEntry
	keys       []K
	words      []uint64 // 1<<n: hash<<32 | index+1, 0: none; linear probing
	free       []uint32
	head, tail uint32   // of the ready keys, index+1
	asleep     []uint32 // lists of those that wait, by slot: the first one's index+1
}

type leastEntry struct {
	next, prev, hash, run uint32
	due                   int64
	state                 uint8
	again                 bool
	_                     [6]byte
}

const leastRunning = 1

func newLeastEntry[K comparable](b *testing.B, backoff time.Duration) subject[K] {
	l := newLeast[K](b, backoff).(*least[K])
	l.kept = true
	for k := range l.shards {
		s := &l.shards[k]
		s.ring, s.marks = nil, nil
		s.words = make([]uint64, 128)
	}
	return l
}

// find is the place of the key in words, and its index+1, or 0.
func (s *leastEntries[K]) find(hash uint32, key *K) (p uint64, i uint32) {
	m := uint64(len(s.words) - 1)
	for p = uint64(hash) & m; s.words[p] != 0; p = (p + 1) & m {
		if w := s.words[p]; uint32(w>>32) == hash && s.keys[uint32(w)-1] == *key {
			return p, uint32(w)
		}
	}
	return p, 0
}

// enter makes an entry for the key, unless there is one.
func (s *leastEntries[K]) enter(hash uint32, key *K) (i uint32, fresh bool) {
	p, at := s.find(hash, key)
	if at != 0 {
		e := &s.entries[at-1]
		e.again = e.again || e.state == leastRunning
		return at - 1, false
	}
	if (len(s.entries)-len(s.free))*2 >= len(s.words) {
		old := s.words
		s.words = make([]uint64, 2*len(old))
		for _, w := range old {
			if w != 0 {
				s.words[s.gap(uint32(w>>32))] = w
			}
		}
		p = s.gap(hash)
	}
	if n := len(s.free); n > 0 {
		i, s.free = s.free[n-1], s.free[:n-1]
	} else {
		i = uint32(len(s.entries))
		var zero K
		s.entries, s.keys = append(s.entries, leastEntry{}), append(s.keys, zero)
	}
	s.words[p] = uint64(hash)<<32 | uint64(i+1)
	s.keys[i] = *key
	s.entries[i].hash = hash
	return i, true
}

func (s *leastEntries[K]) gap(hash uint32) uint64 {
	m := uint64(len(s.words) - 1)
	p := uint64(hash) & m
	for s.words[p] != 0 {
		p = (p + 1) & m
	}
	return p
}

func (s *leastEntries[K]) link(i uint32) {
	e := &s.entries[i]
	e.next, e.prev = 0, s.tail
	if s.tail == 0 {
		s.head = i + 1
	} else {
		s.entries[s.tail-1].next = i + 1
	}
	s.tail = i + 1
}

// first takes the first ready key.
func (s *leastEntries[K]) first() uint32 {
	i := s.head - 1
	e := &s.entries[i]
	if s.head = e.next; s.head == 0 {
		s.tail = 0
	} else {
		s.entries[s.head-1].prev = 0
	}
	e.state = leastRunning
	e.run++
	return i
}

// end settles a run; again says that the key was added meanwhile.
func (s *leastEntries[K]) end(i, run uint32) (again bool) {
	e := &s.entries[i]
	if e.state != leastRunning || e.run != run {
		panic("settled twice")
	}
	if e.again {
		e.again, e.state = false, 0
		return true
	}
	m := uint64(len(s.words) - 1)
	gap, word := uint64(e.hash)&m, uint64(e.hash)<<32|uint64(i+1)
	for s.words[gap] != word {
		gap = (gap + 1) & m
	}
	for p := (gap + 1) & m; s.words[p] != 0; p = (p + 1) & m {
		if home := s.words[p] >> 32 & m; (p-home)&m >= (p-gap)&m {
			s.words[gap] = s.words[p]
			gap = p
		}
	}
	s.words[gap] = 0
	var zero K
	s.keys[i] = zero
	*e = leastEntry{run: e.run}
	s.free = append(s.free, i)
	return false
}

// sleep puts an entry into the list of its slot.
func (s *leastShard[K]) sleep(i uint32, due time.Duration) {
	if s.asleep == nil {
		s.asleep = make([]uint32, leastSlots)
	}
	slot := &s.asleep[(due/time.Millisecond+1)%leastSlots]
	e := &s.entries[i]
	if e.prev, e.next = 0, *slot; *slot != 0 {
		s.entries[*slot-1].prev = i + 1
	}
	*slot = i + 1
}

// awake makes the entries of a slot ready.
func (s *leastShard[K]) awake(slot time.Duration) {
	i := s.asleep[slot]
	for s.asleep[slot] = 0; i != 0; {
		next := s.entries[i-1].next
		s.ready(i - 1)
		i = next
	}
}
