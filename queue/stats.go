package queue

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Stats is what a queue did and has. What comes from one shard is of one moment.
type Stats struct {
	Name       string
	Adds       uint64 // adds that were taken, also those that changed nothing
	Dispatched uint64 // runs begun
	Retries    uint64 // runs that failed

	States    []StateStats // states with keys; see Of
	Bands     map[int]int  // keys that are ready, by priority
	QueueTime Histogram    // how long keys were ready before they ran
	WorkTime  Histogram    // how long they ran
	HeldBy    string       // the reason of the first hold over the whole queue, "" if it is not held
}

// StateStats is how many keys are in a state, and of those that are ready or running
// for how long.
type StateStats struct {
	State State
	Keys  int
	// Oldest is since when the key runs that runs for longest. Of ready keys it is that of the key
	// that came first: a key that was raised to a higher band came when it was raised, and the
	// keys of a tenant that may not run are left out. In other states it is zero: Page sorts them by age.
	Oldest time.Time `json:",omitzero"`
	// Total is for how long keys are running, all together.
	Total time.Duration `json:",omitzero"`
}

// Of is the row of a state; without keys in it, one of none.
func (s Stats) Of(state State) StateStats {
	for _, r := range s.States {
		if r.State == state {
			return r
		}
	}
	return StateStats{State: state}
}

// Stats adds up the counters. It takes each shard's lock for some microseconds
// and may be called often.
func (q *Queue[K]) Stats() Stats {
	st := Stats{Name: q.opts.Name, States: make([]StateStats, states), Bands: map[int]int{}}
	var bands [maxBands]int
	for _, k := range q.keepers {
		k.locked(func() { k.s.stats(&st, &bands) })
	}
	st.States = slices.DeleteFunc(st.States, func(r StateStats) bool { return r.Keys == 0 })
	for b, n := range bands {
		if n > 0 {
			st.Bands[atBand(uint8(b)).Int()] = n
		}
	}
	if by := q.env.heldBy.Load(); by != nil {
		st.HeldBy = *by
	}
	return st
}

// stats adds those of a shard; st.States has a row for each state.
func (s *shard) stats(st *Stats, bands *[maxBands]int) {
	st.Adds += s.adds
	st.Dispatched += s.begun
	st.Retries += s.retries
	rows := st.States
	for at, n := range s.count {
		rows[at].State = State(at)
		rows[at].Keys += n
	}
	st.QueueTime.add(&s.waited)
	st.WorkTime.add(&s.worked)
	s.ready.depths(bands)
	now := s.env.now()
	age := func(r *StateStats, at int64) {
		if since := s.env.timeSince(at); r.Oldest.IsZero() || since.Before(r.Oldest) {
			r.Oldest = since
		}
	}
	if e := s.ready.oldestEntry(); e != nil {
		age(&rows[StateReady], e.since())
	}
	if r := &s.running; r.runs() > 0 {
		age(&rows[StateRunning], r.oldest())
		rows[StateRunning].Total += time.Duration(r.runs()*now - r.sum)
	}
}

// String names the queue and says how many keys are in which state.
func (q *Queue[K]) String() string {
	s := q.Stats()
	var states []string
	for state := StateReady; state <= StateParked; state++ {
		states = append(states, fmt.Sprintf("%d %s", s.Of(state).Keys, state))
	}
	return s.Name + ": " + strings.Join(states, ", ")
}
