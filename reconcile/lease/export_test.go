package lease

import (
	"log/slog"
	"strconv"
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
