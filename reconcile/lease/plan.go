package lease

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/tendhq/tend/store"
)

// planName is the name of the record that says which server is to hold each shard.
const planName = "plan"

// A rule is how servers divide the shards. Each member announces the newest that it
// knows (note.Rule), and all of them use the oldest that a live member announces: so
// servers of two versions do not take shards from each other during a deployment.
const (
	ruleRendezvous = 0 // each shard to the server that pick says
	rulePlan       = 1 // a plan in the store, which the oldest member keeps up to date
	ruleLoads      = 2 // the same, by load where a member measures it
)

// maxPlanned is the most servers that a plan is made for: their names, and those of two lists
// of [MaxShards], are numbered in two bytes.
const maxPlanned = 1<<16 - 1 - 2*MaxShards

// plan says which server is to hold each shard. Plans are not changed once made.
//
// A plan remembers, in home, where a shard was before its server left. That server, or
// the first new one instead of it, gets the shard back: so a fleet that is restarted one
// server after another moves each shard away and back, and no other one.
type plan struct {
	live  []string // the servers that it was made for, sorted
	gone  []string // those in home, the last to leave at the end
	owner []string // by shard; "": none
	home  []string // by shard: the absent server that the shard was taken from; "": none
	load  []int64  // by shard: what it cost when the plan was made; 0: not known. Nil: no shard's is
}

// bidder is a live server as the plan counts it.
type bidder struct {
	name   string
	weight int // at least 1
}

// quota is the part of the shards that a server is to have, rounded down and up.
type quota struct {
	bidder
	floor, ceil int
	count       int   // shards that it has
	kept        int   // shards that it has from before, in evenOut
	shards      []int // these, in evenOut
	part, total int64 // the exact part is part/total shards
}

// excess is by how much the shards are more than the exact part, in units that are the same
// for all servers.
func (q *quota) excess() int64 { return int64(len(q.shards))*q.total - q.part }

// next is the plan for the servers that live, made of the plan before. It is the same on
// each server that has the same plan and the same list, in any order. Each server gets its
// exact part of the shards, by weight, rounded up or down. A shard keeps its owner except
// where that is gone or has more than its part while another has less.
//
// A plan that is up to date is its own next one.
func (before plan) next(live []bidder) plan {
	n := len(before.owner)
	p := plan{live: before.live, gone: before.gone, owner: slices.Clone(before.owner), home: slices.Clone(before.home)}
	all, by := quotas(live, n)
	if len(all) == 0 {
		return p
	}
	p.sendAway(by)
	p.adopt(all)
	for _, owner := range p.owner {
		if q := by[owner]; q != nil {
			q.count++
		}
	}
	p.takeHome(by)
	p.evenOut(before.owner, all, by)
	p.live, p.gone = nil, slices.DeleteFunc(slices.Clone(p.gone), func(name string) bool { return !slices.Contains(p.home, name) })
	for _, q := range all {
		p.live = append(p.live, q.name)
	}
	return p
}

func quotas(live []bidder, n int) (all []*quota, by map[string]*quota) {
	total := 0
	for _, b := range live {
		total += b.weight
	}
	by = make(map[string]*quota, len(live))
	for _, b := range live {
		q := &quota{bidder: b, part: int64(n) * int64(b.weight), total: int64(total)}
		q.floor, q.ceil = int(q.part/q.total), int((q.part+q.total-1)/q.total)
		all, by[b.name] = append(all, q), q
	}
	slices.SortFunc(all, func(a, b *quota) int { return strings.Compare(a.name, b.name) })
	return all, by
}

// sendAway takes the shards of servers that are gone from them, and remembers whose they were.
func (p *plan) sendAway(by map[string]*quota) {
	for shard, owner := range p.owner {
		if owner != "" && by[owner] == nil {
			p.owner[shard], p.home[shard] = "", owner
		}
	}
	var left []string
	for _, name := range p.home {
		if name != "" && by[name] == nil && !slices.Contains(p.gone, name) && !slices.Contains(left, name) {
			left = append(left, name)
		}
	}
	slices.Sort(left)
	p.gone = slices.DeleteFunc(slices.Concat(p.gone, left), func(name string) bool { return by[name] != nil })
}

// adopt gives each server that the plan does not know the place of one that is gone: of the
// last to leave.
func (p *plan) adopt(all []*quota) {
	adopted := map[string]string{}
	for _, q := range all {
		last := len(p.gone) - 1
		if last < 0 {
			break
		}
		if !slices.Contains(p.live, q.name) && !slices.Contains(p.home, q.name) && !slices.Contains(p.owner, q.name) {
			adopted[p.gone[last]] = q.name
			p.gone = p.gone[:last]
		}
	}
	for shard, home := range p.home {
		if name, ok := adopted[home]; ok {
			p.home[shard] = name
		}
	}
}

// takeHome gives shards back to the servers that they were taken from, where that makes no
// other shard move: first those of servers that have too many, then as many of the others as
// leave room for what is still too many.
func (p plan) takeHome(by map[string]*quota) {
	tooMany := 0
	for _, q := range by {
		tooMany += max(0, q.count-q.ceil)
	}
	for _, full := range []bool{true, false} {
		for shard, name := range p.home {
			home, owner := by[name], by[p.owner[shard]]
			if home == nil || home == owner || owner != nil && (owner.count > owner.ceil) != full {
				continue
			}
			room := home.ceil - home.count
			switch {
			case room <= 0, owner != nil && owner.count <= owner.floor, !full && room <= tooMany:
				continue
			case owner != nil:
				owner.count--
				if full {
					tooMany--
				}
			}
			home.count++
			p.owner[shard] = name
		}
	}
	for shard, name := range p.home {
		if by[name] != nil {
			p.home[shard] = ""
		}
	}
}

// evenOut gives the shards without an owner to the servers that lack the most, and moves
// others from the fullest to the emptiest while one of the two is out of its bounds.
func (p plan) evenOut(before []string, all []*quota, by map[string]*quota) {
	var free []int
	for shard, owner := range p.owner {
		if q := by[owner]; q != nil {
			q.shards = append(q.shards, shard)
			if before[shard] == owner {
				q.kept++
			}
		} else {
			free = append(free, shard)
		}
	}
	give := func(shard int, to *quota) {
		to.shards = append(to.shards, shard)
		p.owner[shard] = to.name
	}
	// Of two that are as full, the one that is new comes first.
	byExcess := func(a, b *quota) int {
		return cmp.Or(cmp.Compare(a.excess(), b.excess()), cmp.Compare(a.kept, b.kept))
	}
	for _, shard := range free {
		give(shard, slices.MinFunc(all, byExcess))
	}
	for {
		least, most := slices.MinFunc(all, byExcess), slices.MaxFunc(all, byExcess)
		if len(least.shards) >= least.floor && len(most.shards) <= most.ceil {
			return
		}
		last := len(most.shards) - 1
		shard := most.shards[last]
		most.shards = most.shards[:last]
		give(shard, least)
	}
}

// equal reports whether two plans say the same. Loads are why, and not what they say.
func (p plan) equal(o plan) bool {
	return slices.Equal(p.live, o.live) && slices.Equal(p.gone, o.gone) && slices.Equal(p.owner, o.owner) && slices.Equal(p.home, o.home)
}

// storedPlan is the stored form of a plan: the names once, and two bytes a shard and list.
type storedPlan struct {
	Live    int      `json:"live"` // so many of Servers are those that live
	Servers []string `json:"servers"`
	Owner   []byte   `json:"owner"`
	Home    []byte   `json:"home,omitempty"`
	Load    []int64  `json:"load,omitempty"`
}

// Encode implements store.Value.
func (p plan) Encode() ([]byte, error) {
	s := storedPlan{Live: len(p.live), Servers: slices.Concat(p.live, p.gone), Load: p.load}
	index := map[string]uint16{}
	for i, name := range s.Servers {
		index[name] = uint16(i + 1)
	}
	write := func(list []string) (b []byte) {
		for _, name := range list {
			if _, ok := index[name]; !ok && name != "" {
				s.Servers = append(s.Servers, name)
				index[name] = uint16(len(s.Servers)) // see maxPlanned
			}
			b = binary.BigEndian.AppendUint16(b, index[name])
		}
		return b
	}
	s.Owner = write(p.owner)
	if slices.ContainsFunc(p.home, func(name string) bool { return name != "" }) {
		s.Home = write(p.home)
	}
	return json.Marshal(s)
}

var errPlan = errors.New("lease: malformed plan")

// readPlan reads the plan of a division into so many shards. Another one is an error.
func readPlan(r store.Record, shards int) (p plan, err error) {
	if p, ok := r.Value.(plan); ok {
		if len(p.owner) != shards {
			return plan{}, errPlan
		}
		return p, nil
	}
	var s storedPlan
	if err := json.Unmarshal(r.Bytes, &s); err != nil {
		return plan{}, err
	}
	if s.Home == nil {
		s.Home = make([]byte, len(s.Owner))
	}
	read := func(b []byte) []string {
		list := make([]string, 0, shards)
		for ; len(b) >= 2; b = b[2:] {
			name := ""
			if i := int(binary.BigEndian.Uint16(b)); i > len(s.Servers) {
				err = errPlan
			} else if i > 0 {
				name = s.Servers[i-1]
			}
			list = append(list, name)
		}
		return list
	}
	p = plan{owner: read(s.Owner), home: read(s.Home), load: s.Load}
	if slices.ContainsFunc(s.Load, func(load int64) bool { return load < 0 || load > maxLoad }) {
		return plan{}, errPlan // sums and products of them would overflow
	}
	if s.Load != nil && len(s.Load) != shards || len(s.Owner) != 2*shards || len(s.Home) != 2*shards || s.Live < 0 || s.Live > len(s.Servers) {
		return plan{}, errPlan
	}
	p.live, p.gone = s.Servers[:s.Live:s.Live], s.Servers[s.Live:]
	return p, err
}
