package leasetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// holding is one server's hold on a shard.
type holding struct {
	server string
	token  uint64
	at     int64 // nanoseconds by the clock of the machine
}

// keyRun is one run of a key.
type keyRun struct {
	holding
	last int64
	saw  turns
}

// turns are the last changes of a thing, of the base that it needs, and of its part; -1: there
// is no part that is its own.
type turns struct{ own, base, part int }

// cover reports whether a run that saw these has seen the last changes.
func (saw turns) cover(last turns) bool {
	return saw.own >= last.own && saw.base >= last.base && saw.part >= last.part
}

// witness hears of all servers' holds and runs, and sees the accepted writes.
type witness struct {
	shards int

	mu      sync.Mutex // guards the rest
	owner   map[int]holding
	dropped map[int]int64 // when the hold before the owner's ended, if that was heard
	stopped map[string]bool
	written map[string]*thing // by key, as it was last accepted
	runs    map[string][]keyRun
	count   int
	odd     []string
}

func newWitness(shards int) *witness {
	return &witness{
		shards: shards, owner: make(map[int]holding), dropped: make(map[int]int64), stopped: make(map[string]bool),
		written: make(map[string]*thing), runs: make(map[string][]keyRun),
	}
}

func (w *witness) hear(server, line string) {
	var shard int
	var key string
	r := keyRun{holding: holding{server: server}}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := fmt.Sscanf(line, "run %s %d %d %d %d %d %d", &key, &r.token, &r.at, &r.last, &r.saw.own, &r.saw.base, &r.saw.part); err == nil {
		w.runs[key] = append(w.runs[key], r)
		w.count++
		return
	}
	if _, err := fmt.Sscanf(line, "hold %d %d %d", &shard, &r.token, &r.at); err == nil {
		if r.token > w.owner[shard].token { // pipes are read in any order
			w.owner[shard] = r.holding
		}
		return
	}
	if _, err := fmt.Sscanf(line, "drop %d %d %d", &shard, &r.token, &r.at); err == nil {
		w.dropped[shard] = max(w.dropped[shard], r.at)
		return
	}
	w.odd = append(w.odd, fmt.Sprintf("%s says: %s", server, line))
}

// follow sees every accepted write, until ctx ends.
func (w *witness) follow(ctx context.Context, all *things) {
	for e, err := range all.Watch(ctx, 0) {
		if err == nil && e.Object != nil { // otherwise the end of ctx, or of a snapshot
			w.accept(e.Object)
		}
	}
}

// accept takes an accepted write. None may be under an older token than the one before.
func (w *witness) accept(o *thing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if was := w.written[o.Name]; was != nil && was.UID == o.UID && o.Status.Token < was.Status.Token {
		w.odd = append(w.odd, fmt.Sprintf("%s: a write of %s under token %d was accepted after one of %s under %d",
			o.Name, o.Status.By, o.Status.Token, was.Status.By, was.Status.Token))
	}
	w.written[o.Name] = o
}

// world is what is stored, by name.
type world struct{ things, bases, parts map[string]*thing }

// settled reports whether every shard is held by a server that is not stopped, by
// these among others, and every thing was worked on under the hold of its shard.
func (w *witness) settled(all world, by ...string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.owner) < w.shards {
		return false
	}
	has := make(map[string]bool)
	for _, o := range w.owner {
		if w.stopped[o.server] {
			return false
		}
		has[o.server] = true
	}
	if slices.ContainsFunc(by, func(name string) bool { return !has[name] }) {
		return false
	}
	for name, o := range all.things {
		if o.Status.Token != w.owner[w.shardOf(name)].token {
			return false
		}
	}
	return true
}

// behind names the things that the present holder of the shard has not yet run as they, what
// they need and what they own are, those without a part, and those that have gone and left one.
func (w *witness) behind(all world) (keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, o := range all.things {
		token := w.owner[w.shardOf(name)].token
		last := turns{o.Spec.Turn, all.bases[o.Spec.Base].Spec.Turn, -1}
		part := all.parts[name]
		if part != nil {
			last.part = part.Spec.Turn
		}
		ran := slices.ContainsFunc(w.runs[name], func(r keyRun) bool { return r.token == token && r.saw.cover(last) })
		if !ran || part == nil || part.Owners[0].UID != o.UID {
			keys = append(keys, name)
		}
	}
	for name := range all.parts {
		if all.things[name] == nil {
			keys = append(keys, name)
		}
	}
	return keys
}

// describe says what is known of a key that is behind.
func (w *witness) describe(all world, name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	shard, runs := w.shardOf(name), w.runs[name]
	var text strings.Builder
	fmt.Fprintf(&text, "%s of shard %d, held by %+v; its last runs %+v", name, shard, w.owner[shard], runs[max(0, len(runs)-3):])
	for what, o := range map[string]*thing{"the thing": all.things[name], "its part": all.parts[name]} {
		if o != nil {
			fmt.Fprintf(&text, "; %s at %d %+v %+v, owned by %v", what, o.Revision, o.Spec, o.Status, o.Owners)
		}
	}
	if o := all.things[name]; o != nil {
		fmt.Fprintf(&text, "; its base %+v; uid %s", all.bases[o.Spec.Base].Spec, o.UID)
	}
	return text.String()
}

func (w *witness) shardOf(name string) int {
	return lease.Shard(lease.HashKey(store.Key{Name: name}), w.shards)
}

func (w *witness) stop(name string, stopped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped[name] = stopped
}

// heard is how many runs it was told of.
func (w *witness) heard() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// holds returns the holders by shard.
func (w *witness) holds() map[int]holding {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.owner)
}

// problems names what must not happen and did.
func (w *witness) problems() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := slices.Clone(w.odd)
	for key, runs := range w.runs {
		slices.SortFunc(runs, func(a, b keyRun) int { return cmp.Compare(a.at, b.at) })
		var latest keyRun // of all so far, that which lasts longest
		for _, r := range runs {
			if r.at < latest.last && r.server != latest.server {
				list = append(list, fmt.Sprintf("%s was run by %s and %s at once", key, latest.server, r.server))
			}
			if r.last > latest.last {
				latest = r
			}
		}
	}
	return list
}

// times is what was measured of one kind of event.
type times struct {
	event     string
	shards    []time.Duration // from the event to the next hold of each shard that moved
	ownerless []time.Duration // from the end of the old hold, where it was told, to the next
	keys      []time.Duration // from the event to the next run of each key that moved
}

// measure notes what an event at a moment, with the shards held as before, led to.
func (w *witness) measure(into *times, event time.Time, before map[int]holding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	moved := make(map[int]uint64)
	for shard, o := range w.owner {
		if o.token == before[shard].token {
			continue
		}
		moved[shard] = o.token
		into.shards = append(into.shards, time.Duration(o.at-event.UnixNano()))
		if d := w.dropped[shard]; d > before[shard].at && d < o.at {
			into.ownerless = append(into.ownerless, time.Duration(o.at-d))
		}
	}
	for key, runs := range w.runs {
		token, ok := moved[w.shardOf(key)]
		if i := slices.IndexFunc(runs, func(r keyRun) bool { return r.token == token }); ok && i >= 0 {
			into.keys = append(into.keys, time.Duration(runs[i].at-event.UnixNano()))
		}
	}
}

// spread describes a distribution.
func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "–"
	}
	slices.Sort(all)
	at := func(q float64) float64 { return all[int(q*float64(len(all)-1))].Seconds() }
	return fmt.Sprintf("%.2f / %.2f / %.2f / %.2f s", at(0), at(0.5), at(0.99), at(1))
}
