package lease

import (
	"log/slog"
	"strconv"
	"time"
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
