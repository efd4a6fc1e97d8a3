package lease

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tendhq/tend/internal/contain"
)

// Shares by measured load. Each server announces, in its member's record, what its shards cost
// it (Options.Load), and the plan divides the sum of that instead of the number of shards:
//
//	Options.Load ── every loadEvery TTLs ──▶ member's record ──▶ census ──▶ plan.nextByLoad
//
// A shard that has just moved is not measured by its new owner yet. The plan remembers what it
// cost before; without that it would count for little, and more would follow it.

// loadEvery is the time between two measurements, in TTLs.
const loadEvery = 4

// The bounds of a server's load, in hundredths of its part. Shards move when a server is out of
// the outer ones, until all are within the inner ones: so a load that varies moves nothing.
const (
	outerLeast, outerMost = 75, 125
	innerLeast, innerMost = 90, 110
)

// unitCost is that of a shard of average load, and leastCost that of one without any: its objects
// take memory all the same.
const (
	unitCost  = 1 << 10
	leastCost = unitCost / 10
)

// maxLoad is the most that a shard's load counts for: products with it fit into 64 bits.
const maxLoad = 1 << 40

// loads is what shards cost, as a member announces it: "SHARD:LOAD" with spaces between them.
func formatLoads(loads map[int]int64) string {
	var b strings.Builder
	for shard := range MaxShards {
		if load, ok := loads[shard]; ok {
			fmt.Fprintf(&b, " %d:%d", shard, load)
		}
	}
	return strings.TrimPrefix(b.String(), " ")
}

// readLoads leaves out what it cannot read.
func readLoads(text string) map[int]int64 {
	loads := make(map[int]int64)
	for part := range strings.FieldsSeq(text) {
		left, right, _ := strings.Cut(part, ":")
		shard, err := strconv.Atoi(left)
		load, err2 := strconv.ParseInt(right, 10, 64)
		if err == nil && err2 == nil {
			loads[shard] = min(max(load, 1), maxLoad)
		}
	}
	return loads
}

// differ reports whether loads are worth to be announced instead of those that were.
func differ(was, is map[int]int64) bool {
	for shard, load := range is {
		before, ok := was[shard]
		if !ok || 10*max(load-before, before-load) > before {
			return true
		}
	}
	return len(was) != len(is)
}

// measure asks for the load of each shard that was held at the measurement before, too, and
// announces what has changed.
func (s *session) measure() {
	loads, held := make(map[int]int64), make(map[int]*hold)
	failed, why := 0, error(nil)
	for shard, h := range s.holds {
		if !h.leaving.IsZero() {
			continue
		}
		held[shard] = h
		load, err := s.loadOf(shard)
		switch {
		case err != nil:
			failed, why = failed+1, err
		case s.measured[shard] == h:
			loads[shard] = min(max(load, 1), maxLoad)
		}
	}
	if failed > 0 {
		s.opts.Logger.Error("lease: Options.Load failed", append([]any{"lease", s.name, "server", s.opts.Server, "shards", failed, "of", len(held), "err", why}, contain.Stack(why)...)...)
	}
	s.measured = held
	if !differ(s.loads, loads) {
		return
	}
	before := s.loads
	s.loads = loads
	if err := s.announce(); err != nil { // the next measurement tries again
		s.loads = before
	}
}

// loadOf calls Options.Load. One that panics has measured nothing.
func (s *session) loadOf(shard int) (load int64, err error) {
	err = contain.Apart(func() error { load = s.opts.Load(shard); return nil })
	return load, err
}

// measuring is when to measure; nil: never.
func (s *session) measuring() (tick <-chan time.Time, stop func()) {
	if s.opts.Load == nil || !s.divides {
		return nil, func() {}
	}
	t := time.NewTicker(loadEvery * s.opts.TTL)
	return t.C, t.Stop
}

// next is the plan for the servers that live.
func (c census) next() plan {
	byLoad := false
	measured := make(map[int]int64)
	for _, s := range c.seats {
		if s.Rule < ruleLoads { // it would write a plan by the number of shards
			return c.plan.next(c.servers())
		}
		byLoad = byLoad || s.Measures
		for shard, load := range readLoads(s.Loads) {
			if shard >= 0 && shard < len(c.plan.owner) && c.plan.owner[shard] == s.server.name {
				measured[shard] = load
			}
		}
	}
	if !byLoad {
		return c.plan.next(c.servers())
	}
	return c.plan.nextByLoad(c.servers(), measured)
}

// burden is what a server has to bear.
type burden struct {
	*quota
	load int64 // the cost of its shards
}

// nextByLoad is next where shards count by their load. measured has what their owners say; the
// others cost what they did before. Each server gets its part of the load as near as its shards
// allow, and no shard moves while all are near enough.
func (before plan) nextByLoad(live []bidder, measured map[int]int64) plan {
	p := plan{
		live: before.live, gone: before.gone, owner: slices.Clone(before.owner), home: slices.Clone(before.home),
		load: make([]int64, len(before.owner)),
	}
	copy(p.load, before.load)
	for shard, load := range measured {
		p.load[shard] = load
	}
	quotas, by := quotas(live, len(p.owner))
	if len(quotas) == 0 {
		return p
	}
	p.sendAway(by)
	p.adopt(quotas)
	b := balance{plan: p, cost: p.costs(), by: make(map[string]*burden, len(quotas))}
	for _, q := range quotas {
		b.all = append(b.all, &burden{quota: q})
		b.by[q.name] = b.all[len(b.all)-1]
		b.weight += int64(q.weight)
	}
	for shard, owner := range p.owner {
		b.total += b.cost[shard]
		if q := b.by[owner]; q != nil {
			q.load += b.cost[shard]
		}
	}
	b.takeHome()
	b.place()
	b.even()
	p.live, p.gone = nil, slices.DeleteFunc(slices.Clone(p.gone), func(name string) bool { return !slices.Contains(p.home, name) })
	for _, q := range quotas {
		p.live = append(p.live, q.name)
	}
	return p
}

// costs are the loads of the shards in parts of the average one's, which is unitCost. What is not
// known is average.
func (p plan) costs() []int64 {
	sum, known := int64(0), int64(0)
	for _, load := range p.load {
		if load > 0 {
			sum, known = sum+load, known+1
		}
	}
	cost := make([]int64, len(p.load))
	for shard, load := range p.load {
		cost[shard] = unitCost
		if load > 0 { // of whole numbers, so that servers of all architectures come to one plan
			cost[shard] = max(load*unitCost/(sum/known), leastCost)
		}
	}
	return cost
}

// balance divides the load of a plan, whose owner and home it changes.
type balance struct {
	plan
	cost          []int64
	all           []*burden // by name
	by            map[string]*burden
	total, weight int64
}

// part is what a server has in hundredths of what is its part.
func (b *balance) part(load int64, q *burden) int64 {
	return load * b.weight * 100 / max(b.total*int64(q.weight), 1)
}

func (b *balance) beyond(least, most int64) bool {
	return slices.ContainsFunc(b.all, func(q *burden) bool {
		return b.part(q.load, q) < least || b.part(q.load, q) > most
	})
}

func (b *balance) move(shard int, to *burden) {
	if from := b.by[b.owner[shard]]; from != nil {
		from.load -= b.cost[shard]
	}
	to.load += b.cost[shard]
	b.owner[shard] = to.name
}

// takeHome gives shards back to servers that have come back, as far as they fit.
func (b *balance) takeHome() {
	for shard, name := range b.home {
		home := b.by[name]
		if home == nil {
			continue
		}
		if b.owner[shard] != name && b.part(home.load+b.cost[shard], home) <= innerMost {
			b.move(shard, home)
		}
		b.home[shard] = ""
	}
}

// byLoad orders servers by how much of their part they have.
func byLoad(a, c *burden) int {
	return cmp.Compare(a.load*int64(c.weight), c.load*int64(a.weight))
}

// place gives the shards without an owner to the servers that lack the most, the dearest first.
func (b *balance) place() {
	var free []int
	for shard, owner := range b.owner {
		if b.by[owner] == nil {
			free = append(free, shard)
		}
	}
	slices.SortStableFunc(free, func(x, y int) int { return cmp.Compare(b.cost[y], b.cost[x]) })
	for _, shard := range free {
		b.move(shard, slices.MinFunc(b.all, byLoad))
	}
}

// even moves shards from the servers with the most to those with the least, while that makes the
// former have less. A server whose shards are too large to be moved keeps what it has, and the
// others divide the rest. It ends where nothing is left to move: so its plan is its own next one.
func (b *balance) even() {
	for moved := true; moved; {
		moved = false
		rest := *b
		rest.all = slices.Clone(b.all)
		for rest.beyond(outerLeast, outerMost) {
			most := rest.most()
			for rest.beyond(innerLeast, innerMost) && rest.relieve(most) {
				moved, most = true, rest.most()
			}
			rest.leaveOut(most)
		}
	}
}

func (b *balance) most() *burden { return slices.MaxFunc(b.all, byLoad) }

func (b *balance) leaveOut(q *burden) {
	b.all = slices.DeleteFunc(b.all, func(o *burden) bool { return o == q })
	b.total, b.weight = b.total-q.load, b.weight-int64(q.weight)
}

// relieve moves a shard from the server with the most to the one with the least, if there is one
// with which the latter has less than the former had, by half of the shard: less than that may be
// an error of measurement, and the next one would move the shard back.
func (b *balance) relieve(most *burden) (ok bool) {
	least := slices.MinFunc(b.all, byLoad)
	mw, lw := int64(most.weight), int64(least.weight)
	ideal := (most.load*lw - least.load*mw) / (mw + lw) // after it both have the same
	best := -1
	for shard, owner := range b.owner {
		c := b.cost[shard]
		if owner != most.name || (least.load+c+c/2)*mw > most.load*lw {
			continue
		}
		if best < 0 || max(c-ideal, ideal-c) < max(b.cost[best]-ideal, ideal-b.cost[best]) {
			best = shard
		}
	}
	if best < 0 {
		return false
	}
	b.move(best, least)
	return true
}
