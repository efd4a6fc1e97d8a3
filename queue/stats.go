package queue

import (
	"fmt"
	"time"

	"github.com/tendhq/tend/internal/tick"
)

// Stats is what a queue did and has. What comes from one shard is of one moment.
type Stats struct {
	Name       string
	Adds       uint64 // adds that were taken, also those that changed nothing
	Dispatched uint64 // runs begun
	Retries    uint64 // runs that failed

	// Keys by state.
	Ready, Delayed, BackingOff, Throttled, Held, Running, Parked int

	States      []StateStats // states with keys
	Bands       []BandStats  // bands with ready keys, lowest first
	OldestReady time.Time    // since when the key is ready that is so for longest and may run; zero: none is
	QueueTime   Histogram    // how long keys were ready before they ran
	WorkTime    Histogram    // how long they ran
	HeldBy      string       // the reason of the first hold over the whole queue, "" if it is not held
}

// StateStats is how many keys are in a state, and of those that are ready or running
// for how long.
type StateStats struct {
	State State
	Keys  int
	// Oldest is since when the key is ready or running that is so for longest. In
	// other states it is zero: Page sorts them by age.
	Oldest time.Time `json:",omitzero"`
	// Total is for how long keys are running, all together.
	Total time.Duration `json:",omitzero"`
}

// BandStats is the number of keys that are ready in a band.
type BandStats struct {
	Priority Priority
	Ready    int
}

// Stats adds up the counters. It takes each shard's lock for some microseconds
// and may be called often.
func (q *Queue[K]) Stats() Stats {
	st := Stats{Name: q.opts.Name}
	var bands [maxBands]int
	var rows [states]StateStats
	for k := range q.shards.all {
		q.shards.all[k].stats(&st, &bands, &rows)
	}
	st.OldestReady = rows[StateReady].Oldest
	for at, n := range map[State]*int{
		StateReady: &st.Ready, StateDelayed: &st.Delayed, StateBackingOff: &st.BackingOff, StateThrottled: &st.Throttled,
		StateHeld: &st.Held, StateRunning: &st.Running, StateParked: &st.Parked,
	} {
		*n = rows[at].Keys
	}
	for at, row := range rows {
		if row.Keys > 0 {
			row.State = State(at)
			st.States = append(st.States, row)
		}
	}
	for b, n := range bands {
		if n > 0 {
			st.Bands = append(st.Bands, BandStats{atBand(uint8(b)), n})
		}
	}
	if by := q.env.heldBy.Load(); by != nil {
		st.HeldBy = *by
	}
	return st
}

func (s *shard[K]) stats(st *Stats, bands *[maxBands]int, rows *[states]StateStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Adds += s.adds
	st.Dispatched += s.begun
	st.Retries += s.retries
	for at, n := range s.count {
		rows[at].Keys += n
	}
	s.waited.addTo(&st.QueueTime)
	s.worked.addTo(&st.WorkTime)
	s.ready.depths(bands)
	now := s.env.clock.Exact()
	if i, ok := s.ready.eldest(); ok {
		rows[StateReady].age(s.env, extend(s.at(i).since, now))
	}
	if steps := maxDropped; s.running.live > 0 {
		if c, ok := s.running.first(&s.slab, &steps); ok {
			rows[StateRunning].age(s.env, extend(s.at(c.i).since, now))
		}
		rows[StateRunning].Total += time.Duration(uint64(s.running.live)*now-s.began) << tick.Bits
	}
}

// age counts a key that is in the state since a tick.
func (r *StateStats) age(v *env, at uint64) {
	if since := v.clock.Begin(at); r.Oldest.IsZero() || since.Before(r.Oldest) {
		r.Oldest = since
	}
}

// String names the queue and says how many keys are in which state.
func (q *Queue[K]) String() string {
	s := q.Stats()
	return fmt.Sprintf("%s: %d ready, %d delayed, %d backing off, %d throttled, %d held, %d running, %d parked",
		s.Name, s.Ready, s.Delayed, s.BackingOff, s.Throttled, s.Held, s.Running, s.Parked)
}
