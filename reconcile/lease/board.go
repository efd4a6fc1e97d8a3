package lease

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/store"
)

// note is the value of a record: whose it is.
type note struct {
	// Session is the random name of one server's session; a server that lost
	// its lease comes back under another.
	Session string `json:"session"`
	// Server is the name that Options.Server gave.
	Server string `json:"server"`
	// Shards is into how many it divides the keys, or elector.division; 0: it does not say.
	Shards int `json:"shards,omitempty"`
	// Says is what a member tells the others; see Members.Say.
	Says string `json:"says,omitempty"`
	// Rule is the newest rule that a member of a sharded placement can divide by.
	Rule int `json:"rule,omitempty"`
	// Weight is that of a member's server; 0 means 1.
	Weight int `json:"weight,omitempty"`
	// Measures is that a member measures the load of its shards, and Loads what it measured.
	Measures bool   `json:"measures,omitempty"`
	Loads    string `json:"loads,omitempty"`
}

// Encode implements store.Value.
func (n note) Encode() ([]byte, error) { return json.Marshal(n) }

// errBack is that a list of the store is older than the list before.
var errBack = errors.New("lease: the store has gone back in time")

func newID() string { return strings.ToLower(rand.Text()) }

func shardKey(name string, shard int) store.Key {
	return store.Key{Namespace: name, Name: fmt.Sprintf("shard-%05d", shard)}
}

func memberKey(name, prefix, session string) store.Key {
	return store.Key{Namespace: name, Name: prefix + session}
}

// owner is a note together with the fence it stands behind.
type owner struct {
	note
	created store.Revision
}

// board is what the store says of one placement: its live servers and their shards. It
// is fed by a watch and read by the session's goroutine.
type board struct {
	name     string
	member   string        // see elector
	shards   int           // into how many we divide the keys
	division int           // see elector
	changed  chan struct{} // capacity 1

	mu       sync.Mutex // guards the rest
	synced   bool       // a snapshot has been read to its end
	revision store.Revision
	listed   store.Revision // of the last list that read has taken over; the watch may show less
	asked    moment         // when that list was asked for
	records  records
	version  int               // counts the changes of the live servers and of the plan
	before   map[string]string // shard's record → the server that held it last, of those that ended
}

// records are those of a placement, by the name in the record's key.
type records struct {
	by      map[string]owner
	strange int            // of shards of a division that is not ours
	plan    *plan          // nil: there is none that we can use
	planAt  store.Revision // of the plan's record; 0: there is none
}

func newBoard(name, member string, shards, division int) *board {
	return &board{
		name: name, member: member, shards: shards, division: division, changed: make(chan struct{}, 1),
		records: records{by: make(map[string]owner)}, before: make(map[string]string),
	}
}

// follow keeps the board up to date until ctx ends. While the store cannot be
// watched the board stays as it was: nothing is claimed wrongly because of it,
// a claim is a compare-and-swap.
func (b *board) follow(ctx context.Context, backend store.Backend, unreadable func(error)) {
	for failures := 0; ctx.Err() == nil; failures++ {
		fresh := records{by: make(map[string]owner)}
		reading := true // the snapshot is collected aside and swapped in whole
		for batch, err := range backend.Watch(ctx, Kind, 0) {
			if err != nil {
				if failures == 0 && ctx.Err() == nil {
					unreadable(err)
				}
				break
			}
			failures = 0
			if reading {
				b.collect(&fresh, batch)
				if batch.Kind == store.BatchSnapshotEnd {
					b.replace(fresh, batch.Revision)
					reading = false
				}
				continue
			}
			b.apply(batch)
		}
		sleep.For(ctx, min(restarts.After(failures), 5*time.Second))
	}
}

// read brings the board in line with a list of the store that is asked for now, because a
// watch may be late by any time without a sign of it. It fails if it cannot, or if the store
// has gone back in time.
func (b *board) read(ctx context.Context, backend store.Backend, now moment) error {
	all := records{by: make(map[string]owner)}
	for o := (store.ListOptions{Namespace: b.name}); ; {
		page, err := backend.List(ctx, Kind, o)
		if err != nil {
			return err
		}
		for _, r := range page.Records {
			b.set(&all, store.Change{Record: r})
		}
		if o.Cursor = page.Cursor; o.Cursor == "" {
			return b.take(all, page.Revision, now)
		}
	}
}

func (b *board) take(all records, at store.Revision, asked moment) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at < b.listed {
		return errBack
	}
	b.listed, b.asked = at, asked
	if b.revision < at {
		b.revision, b.synced = at, true
		if !maps.Equal(b.records.by, all.by) || b.records.planAt != all.planAt {
			b.changeLocked(all)
		}
	}
	b.notify()
	return nil
}

// confirmed is when the last list was asked for that the board shows.
func (b *board) confirmed() moment {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked
}

// changeLocked shows other records.
func (b *board) changeLocked(all records) {
	for name, o := range b.records.by {
		if now, held := all.by[name]; !held || now.created != o.created {
			b.endedLocked(name, o)
		}
	}
	b.records = all
	b.version++
}

func (b *board) collect(into *records, batch store.Batch) {
	for _, c := range batch.Changes {
		b.set(into, c)
	}
}

func (b *board) replace(all records, at store.Revision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.synced && at < b.listed {
		return // a list has shown more
	}
	b.revision, b.synced = at, true
	b.changeLocked(all)
	b.notify()
}

func (b *board) apply(batch store.Batch) {
	b.mu.Lock()
	for _, c := range batch.Changes {
		if c.Revision <= b.listed {
			continue // a list has shown it, or what came later
		}
		b.set(&b.records, c)
		if c.Key.Namespace == b.name && (b.isMember(c.Key.Name) || c.Key.Name == planName) {
			b.version++
		}
	}
	b.revision = max(b.revision, batch.Revision)
	b.mu.Unlock()
	if len(batch.Changes) > 0 {
		b.notify()
	}
}

func (b *board) set(in *records, c store.Change) {
	if c.Key.Namespace != b.name {
		return
	}
	name := c.Key.Name
	if name == planName {
		in.plan, in.planAt = nil, 0
		if !c.Deleted {
			in.planAt = c.Record.Revision
			if p, err := readPlan(c.Record, b.shards); err == nil {
				in.plan = &p
			}
		}
		return
	}
	if b.strange(name, in.by[name]) {
		in.strange--
	}
	if c.Deleted {
		if o, held := in.by[name]; held && in == &b.records {
			b.endedLocked(name, o)
		}
		delete(in.by, name)
		return
	}
	if n, err := readNote(c.Record); err == nil {
		in.by[name] = owner{note: n, created: c.Created}
	}
	if b.strange(name, in.by[name]) {
		in.strange++
	}
}

// endedLocked notes whose a shard was. Sessions of members are not noted: each has another
// name.
func (b *board) endedLocked(name string, o owner) {
	if strings.HasPrefix(name, "shard-") {
		b.before[name] = o.Server
	}
}

// strange says whether a record is that of a shard of another division of the keys.
func (b *board) strange(name string, o owner) bool {
	return strings.HasPrefix(name, "shard-") && o.Shards != 0 && o.Shards != b.division
}

func readNote(r store.Record) (n note, err error) {
	if n, ok := r.Value.(note); ok {
		return n, nil
	}
	err = json.Unmarshal(r.Bytes, &n)
	return n, err
}

func (b *board) isMember(record string) bool {
	return b.member != "" && strings.HasPrefix(record, b.member)
}

func (b *board) notify() {
	sleep.Wake(b.changed)
}

// holder returns the owner of the shard, and whether the board is at least as new as
// the revision: an older one knows nothing of what was written then.
func (b *board) holder(shard store.Key, after store.Revision) (o owner, held, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o, held = b.records.by[shard.Name]
	return o, held, b.synced && b.revision >= after
}

// census is the live servers, as far as it concerns those that divide the keys as we do.
//
// Servers that divide them otherwise, as in the middle of a deployment, must not work
// beside each other: a key would be in a shard of each. So the oldest member rules,
// and all others of its division share the work; the rest wait until it is the last
// one's turn to leave. Everybody sees the same order of the same records.
type census struct {
	live   map[string]string // servers by session; none if another division rules
	seats  []seat            // of live, the oldest first
	plans  bool              // each of live can divide by a plan
	plan   plan              // in the store; else the shards as they are held
	planAt store.Revision    // of its record; 0: there is none
	rule   []store.Compare   // holds for as long as the oldest member lives
	other  int               // into how many shards the ruling servers divide; 0: as we do
}

// seat is a session of a member.
type seat struct {
	owner
	server bidder
}

// members lists the servers that live, and the version of that list; unless the
// version is the one that is known already.
func (b *board) members(known int) (c census, version int, changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.version == known {
		return census{}, known, false
	}
	c.live, c.plans = make(map[string]string), true
	oldest := ""
	for name, o := range b.records.by {
		if !b.isMember(name) {
			continue
		}
		if first := b.records.by[oldest]; oldest == "" || o.created < first.created {
			oldest = name
		}
		if b.alike(o) {
			c.live[name[len(b.member):]] = o.Server
			c.plans = c.plans && o.Rule >= rulePlan && o.Server != ""
			o.Session = name[len(b.member):]
			c.seats = append(c.seats, seat{o, bidder{o.Server, min(max(o.Weight, 1), maxWeight)}})
		}
	}
	slices.SortFunc(c.seats, func(a, b seat) int {
		return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.Session, b.Session))
	})
	c.plan, c.planAt = b.planLocked(), b.records.planAt
	if oldest == "" {
		return c, b.version, true
	}
	o := b.records.by[oldest]
	c.rule = []store.Compare{{Kind: Kind, Key: store.Key{Namespace: b.name, Name: oldest}, Created: o.created}}
	if !b.alike(o) {
		c.live, c.other, c.plans = nil, o.Shards, false
	}
	c.plans = c.plans && len(c.live) <= maxPlanned
	return c, b.version, true
}

// planLocked is the plan in the store; where there is none, one that says what is.
func (b *board) planLocked() plan {
	if b.records.plan != nil {
		return *b.records.plan
	}
	p := plan{owner: make([]string, b.shards), home: make([]string, b.shards)}
	for shard := range p.owner {
		p.owner[shard] = b.records.by[shardKey(b.name, shard).Name].Server
	}
	return p
}

// servers is the live servers, each once: a session that began later replaces one of the
// same name, which is about to run out.
func (c census) servers() (list []bidder) {
	last := map[string]int{}
	for i, s := range c.seats {
		last[s.server.name] = i
	}
	for i, s := range c.seats {
		if last[s.server.name] == i {
			list = append(list, s.server)
		}
	}
	return list
}

// planned marks the shards that the plan gives to the session's server, if no later session
// is of that name.
func (c census) planned(session string, n int) []bool {
	mine := make([]bool, n)
	me := ""
	for _, s := range c.seats {
		if s.Session == session {
			me = s.server.name
		} else if s.server.name == me {
			return mine
		}
	}
	for shard := range mine {
		mine[shard] = me != "" && c.plan.owner[shard] == me
	}
	return mine
}

// rank is how many members are older than the session.
func (c census) rank(session string) int {
	return slices.IndexFunc(c.seats, func(s seat) bool { return s.Session == session })
}

// said is what each server says that lives, by its name: of two sessions of one server the
// newer one's.
func (b *board) said() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	newest := map[string]owner{}
	for name, o := range b.records.by {
		if b.isMember(name) && o.created > newest[o.Server].created {
			newest[o.Server] = o
		}
	}
	said := make(map[string]string, len(newest))
	for server, o := range newest {
		said[server] = o.Says
	}
	return said
}

// alike reports whether a record is of a server that divides the keys as we do.
func (b *board) alike(o owner) bool { return o.Shards == 0 || o.Shards == b.division }

// others says whether shards of another division are still held.
func (b *board) others() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.records.strange > 0
}
