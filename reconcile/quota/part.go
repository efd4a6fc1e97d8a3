package quota

import (
	"encoding/json"
	"math"
	"time"
)

// Servers have equal parts of a budget as long as it lasts for all of them. When it does
// not, a server that needs less than its equal part says how much it needs, and those
// that wait for the budget divide the rest:
//
//	server 1   waits for acme/write  ── says "hungry" ──▶ 0.9
//	server 2   uses a hundredth      ── says 0.05 ──────▶ 0.05
//	server 3   uses a hundredth      ── says 0.05 ──────▶ 0.05
//
// Each computes the parts from what all say, as its board shows it. A part that shrinks
// shrinks at once; one that grows does so a TTL after the board first allowed it and has
// allowed it ever since: by then the others have shrunk theirs, or are no members.

// hungry is the need of a server that would use more of a budget than it has.
const hungry = 1.0

// needs is what one server says: its need of the budgets of which it needs more or less
// than an equal part, by their keys, as a part of the whole. A name that is missing
// means an equal part.
type needs map[string]float64

// mostNeeds bounds what one server says; of further budgets it has its equal part.
const mostNeeds = 500

func (n needs) String() string {
	if len(n) == 0 {
		return ""
	}
	text, err := json.Marshal(n)
	if err != nil { // a number that is none
		return ""
	}
	return string(text)
}

// readNeeds is what another server said; what cannot be read says nothing.
func readNeeds(text string) needs {
	var n needs
	if text == "" || json.Unmarshal([]byte(text), &n) != nil {
		return nil
	}
	return n
}

// board is what the members of a moment say.
type board struct {
	live int              // members; 0: this server is none
	self string           // this server
	said map[string]needs // by server
}

// of is the need of the budget of one of the names; the first that was said counts.
func (n needs) of(names ...string) (need float64, said bool) {
	for _, name := range names {
		if need, said = n[name]; said {
			return need, true
		}
	}
	return 0, false
}

// hungry reports whether another server waits for the budget of these names: its key, and
// its text, by which older servers speak of it.
func (b board) hungry(names ...string) bool {
	for server, n := range b.said {
		if need, _ := n.of(names...); server != b.self && need >= hungry {
			return true
		}
	}
	return false
}

// part is this server's part of the budget of these names. The parts that all servers
// compute from the same board add up to 1 at most.
func (b board) part(names ...string) float64 {
	if b.live == 0 {
		return 0
	}
	equal := 1 / float64(b.live)
	rest, waiting := 1-equal*float64(max(b.live-len(b.said), 0)), 0 // one may live that was not heard yet
	for _, n := range b.said {
		switch need, ok := n.of(names...); {
		case need >= hungry:
			waiting++
		case ok && need > 0:
			rest -= min(need, equal)
		default:
			rest -= equal
		}
	}
	switch need, ok := b.said[b.self].of(names...); {
	case need >= hungry:
		return max(rest, 0) / float64(waiting)
	case ok && need > 0 && waiting > 0:
		return min(need, equal)
	}
	return equal
}

// grown is a part that another board will allow or has allowed.
type grown struct {
	part  float64
	since time.Time
}

// steered is how one part follows the board: it is the least that the boards of the last
// TTL allowed.
type steered struct {
	part float64
	// later are the parts to come, each greater and allowed for a shorter time than the
	// one before.
	later []grown
}

// steer takes note of what the board allows now, and returns the part.
func (s *steered) steer(allowed float64, now time.Time, ttl time.Duration) float64 {
	s.part = min(s.part, allowed)
	most := s.part
	for i := range s.later {
		if s.later[i].part >= allowed {
			s.later[i].part = allowed // which was allowed ever since, too
			s.later = s.later[:i+1]
			break
		}
	}
	if n := len(s.later); n > 0 {
		most = s.later[n-1].part
	}
	if allowed > most {
		s.later = append(s.later, grown{allowed, now})
	}
	for len(s.later) > 0 && now.Sub(s.later[0].since) >= ttl {
		s.part, s.later = s.later[0].part, s.later[1:]
	}
	return s.part
}

// due is when the part grows next if nothing changes; zero: it does not.
func (s *steered) due(ttl time.Duration) time.Time {
	if len(s.later) == 0 {
		return time.Time{}
	}
	return s.later[0].since.Add(ttl)
}

// gauge finds out how much of a budget this server needs.
type gauge struct {
	calls uint64
	at    time.Time
	used  float64 // part of the budget, over the last few looks
	tight bool    // when it was looked at last
	need  float64 // what this server says; zero: an equal part
}

// reserve is what a server that needs nothing keeps of its equal part, so that its next
// call does not have to wait for the others.
const reserve = 0.1

// read looks at what was used since the last look. Others says that another server waits
// for the budget.
func (g *gauge) read(b *budget, now time.Time, equal float64, others bool) {
	calls, tight, paused, found := b.usage()
	elapsed, made := now.Sub(g.at).Seconds(), float64(calls-g.calls)
	first, was := g.at.IsZero(), g.tight
	g.calls, g.at, g.tight = calls, now, tight
	if first || elapsed <= 0 || paused {
		return // nothing can be told of a budget that is not to be used
	}
	g.used += (made/elapsed/found - g.used) / looks
	switch least := max(2*g.used, reserve*equal); {
	case tight && was:
		g.need = hungry
	case g.need >= hungry && (tight || g.used > 0.8*equal):
	case tight || !others || least >= equal:
		g.need = 0
	case g.need <= 0 || g.need >= hungry || least > g.need || 4*least < g.need:
		g.need = math.Ceil(least*1000) / 1000
	}
}

// usage is how many calls were made so far, whether calls wait for the rate, whether
// there is another reason to wait, and the rate of all servers together.
func (b *budget) usage() (calls uint64, tight, paused bool, found float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.bucket.Stats()
	return b.stats.calls, b.tightLocked(s), !s.Until.IsZero() || b.circuit.open, b.found
}
