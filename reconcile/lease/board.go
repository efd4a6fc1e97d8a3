package lease

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
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
}

// Encode implements store.Value.
func (n note) Encode() ([]byte, error) { return json.Marshal(n) }

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

// board is what the store says of one placement: who lives, who holds what. It
// is fed by a watch and read by the session's goroutine.
type board struct {
	name    string
	member  string        // see elector
	changed chan struct{} // capacity 1

	mu       sync.Mutex // guards the rest
	synced   bool       // a snapshot has been read to its end
	revision store.Revision
	records  map[string]owner // by the name in the record's key
	version  int              // counts the changes of who lives
}

func newBoard(name, member string) *board {
	return &board{name: name, member: member, changed: make(chan struct{}, 1), records: make(map[string]owner)}
}

// follow keeps the board up to date until ctx ends. While the store cannot be
// watched the board stays as it was: nothing is claimed wrongly because of it,
// a claim is a compare-and-swap.
func (b *board) follow(ctx context.Context, backend store.Backend, unreadable func(error)) {
	for failures := 0; ctx.Err() == nil; failures++ {
		fresh := make(map[string]owner)
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
				b.collect(fresh, batch)
				if batch.Kind == store.BatchSnapshotEnd {
					b.replace(fresh, batch.Revision)
					reading = false
				}
				continue
			}
			b.apply(batch)
		}
		sleep.For(ctx, min(restartDelay(failures), 5*time.Second))
	}
}

func (b *board) collect(into map[string]owner, batch store.Batch) {
	for _, c := range batch.Changes {
		b.set(into, c)
	}
}

func (b *board) replace(records map[string]owner, at store.Revision) {
	b.mu.Lock()
	b.records, b.revision, b.synced = records, at, true
	b.version++
	b.mu.Unlock()
	b.notify()
}

func (b *board) apply(batch store.Batch) {
	b.mu.Lock()
	for _, c := range batch.Changes {
		b.set(b.records, c)
		if b.isMember(c.Key.Name) {
			b.version++
		}
	}
	b.revision = max(b.revision, batch.Revision)
	b.mu.Unlock()
	if len(batch.Changes) > 0 {
		b.notify()
	}
}

func (b *board) set(records map[string]owner, c store.Change) {
	if c.Key.Namespace != b.name {
		return
	}
	if c.Deleted {
		delete(records, c.Key.Name)
		return
	}
	if n, err := readNote(c.Record); err == nil {
		records[c.Key.Name] = owner{note: n, created: c.Created}
	}
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
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// holder tells who has the shard, and whether the board is at least as new as
// the revision: an older one knows nothing of what was written then.
func (b *board) holder(shard store.Key, after store.Revision) (o owner, held, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o, held = b.records[shard.Name]
	return o, held, b.synced && b.revision >= after
}

// members lists the servers that live, by session, and the version of that
// list; unless the version is the one that is known already.
func (b *board) members(known int) (live map[string]string, version int, changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.version == known {
		return nil, known, false
	}
	live = make(map[string]string)
	for name, o := range b.records {
		if b.isMember(name) {
			live[name[len(b.member):]] = o.Server
		}
	}
	return live, b.version, true
}
