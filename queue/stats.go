package queue

import (
	"time"

	"github.com/tendhq/tend/internal/tick"
)

// tally counts what happens in a shard. It is kept under the shard's lock and
// added up when somebody reads it, so that counting costs an addition.
type tally struct {
	adds uint64
	sampler
}

// Stats is what a queue did and has. What comes from one shard is of one moment.
type Stats struct {
	Name       string
	Adds       uint64 // adds that were taken, also those that changed nothing
	Dispatched uint64 // runs begun
	Retries    uint64 // runs that failed

	// Keys by state.
	Ready, Delayed, BackingOff, Throttled, Held, Running, Parked int

	Bands       []BandStats // bands with ready keys, lowest first
	OldestReady time.Time   // since when the key is ready that is so for longest; zero: none is
	QueueTime   Histogram   // how long keys were ready before they ran
	WorkTime    Histogram   // how long they were on loan
	Paused      string      // why the queue is paused, "" if it is not
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
	for k := range q.shards {
		q.shards[k].stats(&st, &bands)
	}
	for b, n := range bands {
		if n > 0 {
			st.Bands = append(st.Bands, BandStats{atBand(uint8(b)), n})
		}
	}
	if p := q.paused.Load(); p != nil {
		st.Paused = p.why
	}
	return st
}

func (s *shard[K]) stats(st *Stats, bands *[maxBands]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Adds += s.tally.adds
	st.Dispatched += s.ready.turn - s.refused
	st.Retries += s.retries
	st.Ready += s.counted(StateReady)
	st.Delayed += s.count[StateDelayed]
	st.BackingOff += s.count[StateBackingOff]
	st.Throttled += s.count[StateThrottled]
	st.Held += s.count[StateHeld]
	st.Running += s.counted(StateRunning)
	st.Parked += s.count[StateParked]
	s.tally.waited.addTo(&st.QueueTime)
	s.tally.worked.addTo(&st.WorkTime)
	s.ready.depths(bands)
	if i, ok := s.ready.eldest(&s.entries); ok {
		since := s.q.clock.Begin(whole(s.at(i).since, s.q.clock.Exact()))
		if st.OldestReady.IsZero() || since.Before(st.OldestReady) {
			st.OldestReady = since
		}
	}
}

// StateSummary is how many keys are in a state.
type StateSummary struct {
	State  State
	Keys   int
	Oldest time.Time // since when the one that is in it for longest
	// Total is how long they are in it, all together.
	Total time.Duration
}

// Summary counts the keys by state, states without keys left out. Like Snapshot
// it walks the queue in steps, at some nanoseconds a key; Stats does not.
func (q *Queue[K]) Summary() []StateSummary {
	var keys [states]int
	var oldest, since [states]uint64
	now := q.clock.Exact()
	for k := range q.shards {
		s := &q.shards[k]
		for c, more := 0, true; more; c++ {
			more = s.summarise(c, now, &keys, &oldest, &since)
		}
	}
	now = q.clock.Exact()
	var rows []StateSummary
	for st, n := range keys {
		if n > 0 && State(st) != free {
			ticks := max(uint64(n)*now, since[st]) - since[st]
			rows = append(rows, StateSummary{State(st), n, q.clock.Begin(oldest[st]), time.Duration(ticks << tick.Bits)})
		}
	}
	return rows
}

func (s *shard[K]) summarise(c int, now uint64, keys *[states]int, oldest, since *[states]uint64) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c >= len(s.chunks) {
		return false
	}
	if s.chunks[c] == nil {
		return true
	}
	for k := range s.chunks[c] {
		e := &s.chunks[c][k]
		at := whole(e.since, now)
		since[e.state] += at
		if keys[e.state]++; oldest[e.state] == 0 || at < oldest[e.state] {
			oldest[e.state] = at
		}
	}
	return true
}
