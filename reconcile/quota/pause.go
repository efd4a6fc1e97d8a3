package quota

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/store"
)

// A cloud that asks one server to wait means all of them: they share what it grants.
//
//	server 1   429, Retry-After 30 s ── record, bound to a lease of 30 s ──▶ ends with it
//	server 2                             └▶ watch: its bucket pauses for 30 s, or until
//	                                        the record is gone
//
// The record says how long, not until when, so no clock of one server is compared with
// that of another. A server that starts meanwhile pauses until the record is gone. Each
// server has records of its own, and the longest of all counts: a server that was asked to
// wait for a shorter time takes nothing from the others.

// pauseKind is the kind of the records by which servers tell each other of a pause: one
// for each budget that a server was asked to pause, named by its key, in a namespace
// that is the server's. Each is bound to a lease and ends with it.
const pauseKind = "_quotapause"

// leastShared is the shortest pause that is told to others: shorter ones are over before
// they have heard.
const leastShared = store.MinTTL

// maxWatchPause bounds the wait before the records are watched again after a failure.
const maxWatchPause = 5 * time.Second

// pauses is what a Set has to tell other servers, and heard from them.
type pauses struct {
	leaser store.Leaser  // Options.Backend; nil: there is none
	server string        // the namespace of the records that this server writes
	more   chan struct{} // has a token when there may be something to tell

	mu    sync.Mutex               // guards what follows
	tell  map[string]time.Duration // by the key of the budget
	told  map[string]time.Time     // until when; of each that may last
	busy  map[string]bool          // being told: a later pause must not be overtaken by it
	heard map[store.Key]heardPause // by record
}

// heardPause is what a record said when it was first seen. A watch that begins again shows
// the same record once more, which is no new pause.
type heardPause struct {
	rev   store.Revision
	until time.Time
}

// share queues a pause to be told. It never blocks.
func (p *pauses) share(name string, d time.Duration) {
	p.mu.Lock()
	p.tell[name] = max(p.tell[name], d)
	p.mu.Unlock()
	sleep.Wake(p.more)
}

// take is what is to be told now: what would end no later than what was told is no news.
func (p *pauses) take() map[string]time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(p.told, func(_ string, until time.Time) bool { return !until.After(now) })
	maps.DeleteFunc(p.tell, func(name string, d time.Duration) bool { return !now.Add(d).After(p.told[name]) })
	tell := map[string]time.Duration{}
	for name, d := range p.tell {
		if !p.busy[name] {
			tell[name] = d
			p.told[name] = now.Add(d)
			p.busy[name] = true
			delete(p.tell, name)
		}
	}
	return tell
}

// done lets the next pause of that name be told.
func (p *pauses) done(name string) {
	p.mu.Lock()
	delete(p.busy, name)
	p.mu.Unlock()
	sleep.Wake(p.more)
}

// sharePauses tells other servers of this server's pauses, and pauses by theirs, until
// ctx ends. A store that is not there costs nothing but the news: each server still hears
// its own refusals.
func (s *Set) sharePauses(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { s.tellPauses(ctx) })
	both.Go(func() { s.hearPauses(ctx) })
	both.Wait()
}

// tellPauses tells each pause by itself: a store that does not answer about one account must
// not hold up the news of others.
func (s *Set) tellPauses(ctx context.Context) {
	var telling sync.WaitGroup
	defer telling.Wait() // they end with ctx
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.pauses.more:
		}
		for name, d := range s.pauses.take() {
			telling.Go(func() {
				defer s.pauses.done(name)
				_ = s.tellPause(ctx, name, d) // the others hear it from the cloud
			})
		}
	}
}

func (s *Set) tellPause(ctx context.Context, name string, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d) // later it would be no news
	defer cancel()
	lease, err := s.pauses.leaser.Grant(ctx, d)
	if err == nil {
		_, err = s.o.Backend.Commit(ctx, store.Txn{Ops: []store.Op{{
			Kind: pauseKind, Key: store.Key{Namespace: s.pauses.server, Name: name}, Put: store.Bytes(strconv.FormatInt(d.Milliseconds(), 10)), Lease: lease,
		}}})
	}
	if err != nil {
		return fmt.Errorf("quota: tell others of a pause of %s: %w", name, err)
	}
	return nil
}

func (s *Set) hearPauses(ctx context.Context) {
	for pause := 100 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, maxWatchPause) {
		listed := map[store.Key]bool{}
		for batch, err := range s.o.Backend.Watch(ctx, pauseKind, 0) {
			if err != nil {
				break
			}
			pause = 100 * time.Millisecond
			for _, c := range batch.Changes {
				if batch.Kind == store.BatchSnapshot {
					listed[c.Key] = true
				}
				s.hear(c)
			}
			if batch.Kind == store.BatchSnapshotEnd {
				s.forget(listed)
				clear(listed) // another snapshot may follow
			}
		}
		sleep.For(ctx, pause)
	}
}

// hear pauses a budget by a record, or ends that pause.
func (s *Set) hear(c store.Change) {
	p := &s.pauses
	if c.Deleted {
		p.mu.Lock()
		delete(p.heard, c.Key)
		p.mu.Unlock()
		s.pauseBudget(c.Key.Name)
		return
	}
	text, err := c.Encode()
	if err != nil {
		return
	}
	ms, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || ms <= 0 {
		return
	}
	until := time.Now().Add(min(time.Duration(ms)*time.Millisecond, longestPause))
	p.mu.Lock()
	if known, ok := p.heard[c.Key]; !ok || known.rev != c.Revision {
		p.heard[c.Key] = heardPause{c.Revision, until}
	}
	p.mu.Unlock()
	s.pauseBudget(c.Key.Name)
}

// forget ends the pauses whose records have gone while nothing watched.
func (s *Set) forget(listed map[store.Key]bool) {
	p := &s.pauses
	var gone []string
	p.mu.Lock()
	for key := range p.heard {
		if !listed[key] {
			delete(p.heard, key)
			gone = append(gone, key.Name)
		}
	}
	p.mu.Unlock()
	for _, name := range gone {
		s.pauseBudget(name)
	}
}

// pauseBudget pauses the budgets of that name as all records together say. By their texts
// there may be several.
func (s *Set) pauseBudget(name string) {
	for _, q := range s.all() {
		for _, b := range q.distinct() {
			if b.key == name || b.bucket.Name() == name {
				b.pauseUntil(s.pauses.heardOf(b))
			}
		}
	}
}

// heardOf is until when the budget is paused by other servers; the zero time: it is not.
func (p *pauses) heardOf(b *budget) (until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, h := range p.heard {
		if (key.Name == b.key || key.Name == b.bucket.Name()) && h.until.After(until) {
			until = h.until
		}
	}
	return until
}

// pauseUntil pauses the budget as another server was asked to; the zero time ends that.
func (b *budget) pauseUntil(until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.others = until
	b.pauseLocked()
}

// pauseLocked makes the bucket wait for the latest of all there is to wait for.
func (b *budget) pauseLocked() {
	until := b.asked
	if b.others.After(until) {
		until = b.others
	}
	if b.circuit.open && b.circuit.again.After(until) {
		until = b.circuit.again
	}
	b.bucket.ThrottleUntil(until) // at once: if the pause ended first, what waits in queues would run
}
