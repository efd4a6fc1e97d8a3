package lease

import (
	"log/slog"
	"strconv"
	"time"

	"github.com/tendhq/tend/store"
)

// LogTo has m log there.
func LogTo(m *Manual, l *slog.Logger) { m.logger = l }

// OwnersOf gives, for every shard, the index of the server that is to own it.
func OwnersOf(servers []string, shards int) []int {
	members := make(map[string]string)
	for i, name := range servers {
		members[strconv.Itoa(i)] = name
	}
	live := contenders(members)
	owners := make([]int, shards)
	for shard := range owners {
		owners[shard], _ = strconv.Atoi(pick(live, shard))
	}
	return owners
}

// SetClock gives a placement another wall clock, and another time since the machine
// was started; nil: one that cannot be read. It is for before Run.
func SetClock(p Placement, wall func() time.Duration, boot func() time.Duration) {
	p.(*elector).setClock(wall, boot)
}

// SetClock is SetClock for Members.
func (m *Members) SetClock(wall func() time.Duration, boot func() time.Duration) {
	m.e.setClock(wall, boot)
}

func (e *elector) setClock(wall func() time.Duration, boot func() time.Duration) {
	e.clock = clock{wall: wall, boot: func() (time.Duration, bool) {
		if boot == nil {
			return 0, false
		}
		return boot(), true
	}}
}

// Plan is plan.
type Plan = plan

// NewPlan is a plan in which no shard has an owner.
func NewPlan(shards int) Plan {
	return plan{owner: make([]string, shards), home: make([]string, shards)}
}

// Next is the next plan for servers with these weights, whose order is random.
func (p plan) Next(weights map[string]int) Plan {
	var live []bidder
	for name, weight := range weights {
		live = append(live, bidder{name, weight})
	}
	return p.next(live)
}

// NextByLoad is the next plan by load.
func (p plan) NextByLoad(weights map[string]int, measured map[int]int64) Plan {
	var live []bidder
	for name, weight := range weights {
		live = append(live, bidder{name, weight})
	}
	return p.nextByLoad(live, measured)
}

// Owners gives the owner of each shard.
func (p plan) Owners() []string { return p.owner }

// Equal is equal.
func (p plan) Equal(o Plan) bool { return p.equal(o) }

// Reread is the plan written and read.
func (p plan) Reread() (Plan, error) {
	b, err := p.Encode()
	if err != nil {
		return plan{}, err
	}
	return readPlan(store.Record{Bytes: b}, len(p.owner))
}

// KnowNoPlans makes a sharded placement one of the version before plans. It is for before Run.
func KnowNoPlans(p Placement) { p.(*elector).divides = false }

func (o *Options) SetMargin(v time.Duration) *Options {
	o.margin = v
	return o
}

const MaxWeight = maxWeight

var ErrRunning = errRunning

// DivisionOf is the number by which servers tell whether they divide a group alike.
func DivisionOf(s *Singletons) int { return s.e.division }
