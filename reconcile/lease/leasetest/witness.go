package leasetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
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
	turn int // of the change that it saw
}

// witness hears of all servers' holds and runs, and sees the accepted writes.
type witness struct {
	shards int

	mu      sync.Mutex // guards the rest
	owner   map[int]holding
	dropped map[int]int64 // when the hold before the owner's ended, if that was heard
	stopped map[string]bool
	written map[string]done // by key: the last accepted write
	turns   map[string]int  // by key: of the last accepted change
	runs    map[string][]keyRun
	count   int
	odd     []string
}

func newWitness(shards int) *witness {
	return &witness{
		shards: shards, owner: make(map[int]holding), dropped: make(map[int]int64), stopped: make(map[string]bool),
		written: make(map[string]done), turns: make(map[string]int), runs: make(map[string][]keyRun),
	}
}

func (w *witness) hear(server, line string) {
	var shard int
	var key string
	r := keyRun{holding: holding{server: server}}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := fmt.Sscanf(line, "run %s %d %d %d %d", &key, &r.token, &r.at, &r.last, &r.turn); err == nil {
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
	is, was := o.Status, w.written[o.Name]
	if is.Token < was.Token {
		w.odd = append(w.odd, fmt.Sprintf("%s: a write of %s under token %d was accepted after one of %s under %d",
			o.Name, is.By, is.Token, was.By, was.Token))
	}
	w.written[o.Name] = is
	w.turns[o.Name] = max(w.turns[o.Name], o.Spec.Turn)
}

// changed takes a change that the store has acknowledged.
func (w *witness) changed(name string, turn int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turns[name] = max(w.turns[name], turn)
}

// settled reports whether every shard is held by a server that is not stopped, by
// these among others, and every key was worked on under the hold of its shard.
func (w *witness) settled(keys int, by ...string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.owner) < w.shards || len(w.written) < keys {
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
	for name, d := range w.written {
		if d.Token != w.owner[w.shardOf(name)].token {
			return false
		}
	}
	return true
}

// behind names the keys of which the present holder of the shard has not yet run the last change.
func (w *witness) behind() (keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, turn := range w.turns {
		token := w.owner[w.shardOf(name)].token
		if !slices.ContainsFunc(w.runs[name], func(r keyRun) bool { return r.token == token && r.turn >= turn }) {
			keys = append(keys, name)
		}
	}
	return keys
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
