package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tendhq/tend/store"
)

type acceptedWrite struct {
	token  uint64
	server string
	at     time.Time
}

// Leases watches the records, of the kind "work", that holders of shards write: each has the
// text "TOKEN SERVER". The zero value is ready. Its methods are safe for concurrent use.
type Leases struct {
	mu       sync.Mutex // guards what follows
	last     map[string]acceptedWrite
	writes   int
	moves    int
	idle     time.Duration
	gaps     []Gap
	problems []string
}

// Gap is a time in which a shard was not written.
type Gap struct {
	Key      store.Key
	From, To time.Time // of the writes around it
}

// Shards counts the shards that were written.
func (l *Leases) Shards() int { l.mu.Lock(); defer l.mu.Unlock(); return len(l.last) }

// Count counts the writes.
func (l *Leases) Count() int { l.mu.Lock(); defer l.mu.Unlock(); return l.writes }

// Holder is the server that wrote a record last.
func (l *Leases) Holder(k store.Key) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[k.Name].server
}

// Moves counts the changes of holder.
func (l *Leases) Moves() int { l.mu.Lock(); defer l.mu.Unlock(); return l.moves }

// Idle is the longest time without a write of one shard.
func (l *Leases) Idle() time.Duration { l.mu.Lock(); defer l.mu.Unlock(); return l.idle }

// Gaps are the times of a second and more without a write of one shard.
func (l *Leases) Gaps() []Gap { l.mu.Lock(); defer l.mu.Unlock(); return slices.Clone(l.gaps) }

// Problems names what must not happen: a write under a token that is lower than one before.
func (l *Leases) Problems() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.problems)
}

// Follow watches until ctx ends, and begins again with a snapshot when it is too far behind.
func (l *Leases) Follow(ctx context.Context, b store.Backend) {
	after := store.Revision(0)
	for ctx.Err() == nil {
		for batch, err := range b.Watch(ctx, "work", after) {
			if errors.Is(err, store.ErrCompacted) {
				after = 0
			}
			if err != nil {
				break
			}
			l.mu.Lock()
			for _, c := range batch.Changes {
				l.accept(c)
			}
			l.mu.Unlock()
			if batch.Kind != store.BatchSnapshot {
				after = batch.Revision
			}
		}
	}
}

func (l *Leases) accept(c store.Change) {
	var w acceptedWrite
	if _, err := fmt.Sscanf(Contents(c.Record), "%d %s", &w.token, &w.server); err != nil {
		l.problems = append(l.problems, fmt.Sprintf("unreadable write %q: %v", Contents(c.Record), err))
		return
	}
	w.at = time.Now()
	was, known := l.last[c.Key.Name]
	if l.last == nil {
		l.last = make(map[string]acceptedWrite)
	}
	l.last[c.Key.Name] = w
	l.writes++
	if !known {
		return
	}
	l.idle = max(l.idle, w.at.Sub(was.at))
	if w.at.Sub(was.at) >= time.Second {
		l.gaps = append(l.gaps, Gap{Key: c.Key, From: was.at, To: w.at})
	}
	switch {
	case w.token < was.token:
		l.problems = append(l.problems, fmt.Sprintf("%s: %s wrote under token %d after %s had written under %d",
			c.Key, w.server, w.token, was.server, was.token))
	case w.token > was.token:
		l.moves++
	}
}

// trusted is what is known of a server's trust in one hold of a shard: that it
// had it at some moment no later than first, and at one no earlier than last.
type trusted struct {
	token       uint64
	first, last int64 // nanoseconds by the clock of the machine, which all share
}

// Trust hears what servers say of their trust in their holds: "trust SHARD TOKEN FIRST LAST",
// with moments in nanoseconds of one clock. The zero value is ready. Its methods are safe for
// concurrent use.
type Trust struct {
	// Excused is asked by Problems about the hold with a token that was trusted at the moment
	// later, when a later hold of the shard was too: true if the store broke its word to the
	// holder. Set it before Problems. Nil: no hold is excused.
	Excused func(token uint64, later time.Time) bool

	mu    sync.Mutex                  // guards the rest
	holds map[int]map[uint64]*trusted // by shard and token
	odd   []string
}

// Hear takes one line of a server.
func (l *Trust) Hear(line string) {
	var shard int
	var h trusted
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := fmt.Sscanf(line, "trust %d %d %d %d", &shard, &h.token, &h.first, &h.last); err != nil {
		l.odd = append(l.odd, fmt.Sprintf("unreadable %q", line))
		return
	}
	if l.holds == nil {
		l.holds = make(map[int]map[uint64]*trusted)
	}
	if l.holds[shard] == nil {
		l.holds[shard] = make(map[uint64]*trusted)
	}
	if was := l.holds[shard][h.token]; was != nil {
		h.first, h.last = min(h.first, was.first), max(h.last, was.last)
	}
	l.holds[shard][h.token] = &h
}

// Problems names the holds that were trusted when a later one was too, but for those that are
// Excused.
func (l *Trust) Problems() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.odd
	for shard, holds := range l.holds {
		byToken := slices.SortedFunc(maps.Values(holds), func(a, b *trusted) int { return cmp.Compare(a.token, b.token) })
		next := int64(math.MaxInt64) // when the trust in any later hold had begun
		for _, h := range slices.Backward(byToken) {
			if h.last > next && (l.Excused == nil || !l.Excused(h.token, time.Unix(0, next))) {
				list = append(list, fmt.Sprintf("shard %d: the hold with token %d was trusted %v after a later one was",
					shard, h.token, time.Duration(h.last-next)))
			}
			next = min(next, h.first)
		}
	}
	return list
}
