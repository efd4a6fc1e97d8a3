package external

import (
	"sync"
	"time"

	"github.com/tendhq/tend/store"
)

// sightings says for how long this process has known the newest record of each
// object's create. The creation grace counts from there:
//
//	another server    begun ── recorded ── crash
//	this process                              first look ──── CreationGrace ────▶
//
// The times inside a record are those of the clock of the server that wrote it. They
// tell one record from the next and decide nothing else: a clock that was
// off by more than the grace had a second resource created (promise E1). A record may
// be older than its sighting; the grace is then longer than it need be, never shorter.
//
// There is one entry for each object with a create on record, until a run finds the
// object gone or another server has its key.
type sightings struct {
	mu sync.Mutex
	of map[store.Key]sighting
}

type sighting struct {
	createRecord
	first time.Time // when this process saw the record first; with a monotonic reading
}

// createRecord identifies what is known of an object's newest create.
type createRecord struct {
	uid   string
	phase phase
	at    int64 // the record's own time, in Unix nanoseconds
}

// note says since when this process has known the newest record of o's create, which
// is from now on if it is new. It is the zero time if there is nothing to wait for.
func (s *sightings) note(key store.Key, uid string, i store.Intent) time.Time {
	ph, at := phaseOf(i)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ph != pending && ph != succeeded {
		delete(s.of, key)
		return time.Time{}
	}
	is := createRecord{uid, ph, at.UnixNano()}
	known := s.of[key]
	if known.createRecord != is {
		known = sighting{is, time.Now()}
		if s.of == nil {
			s.of = map[store.Key]sighting{}
		}
		s.of[key] = known
	}
	return known.first
}

// peek is note for a caller that only looks, maybe while a create is under way or at a key
// of another server: it keeps nothing.
func (s *sightings) peek(key store.Key, uid string, i store.Intent) time.Time {
	ph, at := phaseOf(i)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch known := s.of[key]; {
	case ph != pending && ph != succeeded:
		return time.Time{}
	case known.createRecord == createRecord{uid, ph, at.UnixNano()}:
		return known.first
	}
	return time.Now()
}

// keep says that the newest record is of a create that is known to have made nothing, and
// that the one before it still counts: the record's sighting is that of the one before.
func (s *sightings) keep(key store.Key, uid string, i store.Intent) {
	ph, at := phaseOf(i)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.of[key]; ok {
		s.of[key] = sighting{createRecord{uid, ph, at.UnixNano()}, known.first}
	}
}

// forget drops what is known of the keys that left says.
func (s *sightings) forget(left func(store.Key) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.of {
		if left(key) {
			delete(s.of, key)
		}
	}
}

// drop forgets one key.
func (s *sightings) drop(key store.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, key)
}
