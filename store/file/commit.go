package file

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/tendhq/tend/store"
)

// Commit is a group commit. Callers queue up; a caller that finds no committer at
// work starts one, which takes everything queued as one bbolt transaction, one
// fsync, and goes on while there is more. So the writers that arrive during one
// fsync share the next, a lone writer waits for no other, and an idle backend has
// no goroutine. A lone writer whose context cannot end is its own committer.

// A pending is one member of a group.
type pending struct {
	ctx      context.Context
	work     work
	alone    bool          // needs a group of its own
	done     chan struct{} // closed when revision and err are final
	revision store.Revision
	err      error
}

// work is what a member wants: it looks at the state as the members before it
// leave it, and stages what it changes.
type work func(*group) (store.Revision, error)

// maxGroup bounds a group, so that the first member does not wait for ever
// behind a flood.
const maxGroup = 512

// submit queues p and waits for its outcome or for ctx, whichever is first. A
// member that gives up before its group was taken is certain not to have been
// written; afterwards that is not known before the disk answers.
func (b *backend) submit(ctx context.Context, p *pending) (store.Revision, error) {
	// Asked first: of a member that the committer took before we looked at ctx
	// we could only say that its outcome is unknown.
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	p.ctx = ctx
	if ctx.Done() == nil && b.commitAlone(p) {
		return p.revision, p.err
	}
	p.done = make(chan struct{})
	if err := b.enqueue(p); err != nil {
		return 0, err
	}
	select {
	case <-p.done:
		return p.revision, p.err
	case <-ctx.Done():
	}
	if b.withdraw(p) {
		return 0, context.Cause(ctx)
	}
	select {
	case <-p.done: // it was decided while we asked
		return p.revision, p.err
	default:
		return 0, fmt.Errorf("%w: file: %w", store.ErrUnknownOutcome, context.Cause(ctx))
	}
}

func (b *backend) enqueue(p *pending) error {
	b.queueMu.Lock()
	defer b.queueMu.Unlock()
	if b.closing {
		return errClosed
	}
	b.queue = append(b.queue, p)
	b.submitted.Add(1)
	if !b.committing {
		b.committing = true
		b.working.Add(1)
		go b.commitAll() // ends when the queue is empty; Close waits for it
	}
	return nil
}

// commitAlone commits p on the caller's goroutine if there is no committer; false
// means that there is one, or that it is too late. A caller whose context can end is
// not served here: it could not return before the disk answers.
func (b *backend) commitAlone(p *pending) bool {
	b.queueMu.Lock()
	free := !b.closing && !b.committing
	if free {
		b.committing = true
		b.submitted.Add(1)
		b.working.Add(1)
	}
	b.queueMu.Unlock()
	if !free {
		return false
	}
	b.commitGroup([]*pending{p})
	b.submitted.Add(-1)
	b.queueMu.Lock()
	defer b.queueMu.Unlock()
	if len(b.queue) > 0 {
		go b.commitAll() // as in enqueue; it ends what was begun here
	} else {
		b.committing = false
		b.working.Done()
	}
	return true
}

// enter makes Close wait until the caller calls working.Done; false means that it is
// too late.
func (b *backend) enter() bool {
	b.queueMu.Lock()
	defer b.queueMu.Unlock()
	if b.closing {
		return false
	}
	b.working.Add(1)
	return true
}

// withdraw takes p out of the queue; false means that its group has been taken.
func (b *backend) withdraw(p *pending) bool {
	b.queueMu.Lock()
	defer b.queueMu.Unlock()
	for i, q := range b.queue {
		if q == p {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			b.submitted.Add(-1)
			return true
		}
	}
	return false
}

func (b *backend) commitAll() {
	defer b.working.Done()
	for {
		b.gather()
		members := b.nextGroup()
		if len(members) == 0 {
			return
		}
		b.commitGroup(members)
		b.submitted.Add(-int64(len(members))) // before they hear of it: tests count the waiting callers
		for _, p := range members {
			close(p.done)
		}
	}
}

// gather lets the writers of the last group come: they have just been
// released, or woken by the same event, and are about to commit again. Without it
// they would split into two halves that take turns at the disk, each waiting for
// the other's sync. It yields the processor a bounded number of times, some tens
// of microseconds in all, and a writer that was alone last time does not wait.
func (b *backend) gather() {
	for range maxYields {
		if b.queued() >= b.lastGroup {
			return
		}
		runtime.Gosched()
	}
}

const maxYields = 200

func (b *backend) queued() int {
	b.queueMu.Lock()
	defer b.queueMu.Unlock()
	return len(b.queue)
}

func (b *backend) nextGroup() []*pending {
	b.queueMu.Lock()
	defer b.queueMu.Unlock()
	n := 0
	for n < min(len(b.queue), maxGroup) && (n == 0 || !b.queue[n-1].alone && !b.queue[n].alone) {
		n++
	}
	members := b.queue[:n:n]
	b.queue = b.queue[n:]
	if n == 0 {
		b.queue, b.committing = nil, false
	} else {
		b.lastGroup = n
	}
	return members
}

// commitGroup decides every member. None is told before the disk has answered:
// a conflict with a write of the same group is only true if that write was.
func (b *backend) commitGroup(members []*pending) {
	b.inDoubt = false
	err := guarded(func() error { return b.writeGroup(members) })
	if err == nil {
		return
	}
	if b.inDoubt { // a panic between the first page and publish
		err = b.stopInDoubt(err)
	}
	for _, p := range members {
		p.revision, p.err = 0, err
	}
}

func (b *backend) writeGroup(members []*pending) error {
	if b.broken == nil { // the committer alone writes it
		if err := b.inPlace(); err != nil {
			b.fail(err)
		}
	}
	if b.broken != nil {
		return b.broken
	}
	tx, err := b.db.Begin(true)
	if err != nil {
		return wrap(err)
	}
	defer func() { _ = tx.Rollback() }() // after a Commit it does nothing
	g := b.newGroup(tx)
	for _, p := range members {
		g.run(p)
	}
	if g.empty() {
		return nil
	}
	if err := g.write(); err != nil {
		return fmt.Errorf("file: %w", err)
	}
	if g.state != nil {
		b.announce(g)
		defer b.retract()
	}
	id := tx.ID()
	b.inDoubt = true
	if err := tx.Commit(); err != nil {
		err = b.commitFailed(id, err)
		b.inDoubt = false
		return err
	}
	b.txid.Store(int64(id))
	if b.opts.beforePublish != nil {
		b.opts.beforePublish()
	}
	b.publish(g)
	b.inDoubt = false
	return nil
}

// commitFailed tells a failure that wrote nothing from one that may have.
// bbolt writes its pages, then one meta page that makes them count. If the meta
// page did not get as far as the kernel, nothing happened and the next commit
// may try again. If it did and only the sync failed, what a reader sees now may
// not be there after a crash: the backend stops.
func (b *backend) commitFailed(txid int, cause error) error {
	now, err := b.txOnDisk()
	if err == nil && now < txid {
		return fmt.Errorf("file: nothing was written: %w", cause)
	}
	return b.stopInDoubt(cause)
}

// stopInDoubt refuses everything from now on: what was being committed may be on the disk
// and is not published.
func (b *backend) stopInDoubt(cause error) error {
	b.fail(fmt.Errorf("file: the disk failed in the middle of a commit, open the file again: %w", cause))
	return fmt.Errorf("%w: file: %w", store.ErrUnknownOutcome, cause)
}

// A group is one bbolt transaction being made.
type group struct {
	b       *backend
	tx      *bolt.Tx
	head    store.Revision // as the members so far leave it
	entries []entry
	staged  map[address]*row // what the members so far changed; nil means absent
	lease   *leaseChange     // nil unless the only member changes a lease

	// Set by writeCheckpoint.
	state *state
	cut   store.Revision
}

func (b *backend) newGroup(tx *bolt.Tx) *group {
	return &group{b: b, tx: tx, head: b.history.head(), staged: make(map[address]*row)}
}

func (g *group) empty() bool { return len(g.entries) == 0 && g.lease == nil }

// run lets one member look and stage.
func (g *group) run(p *pending) {
	if p.ctx.Err() != nil {
		p.err = context.Cause(p.ctx)
		return
	}
	p.revision, p.err = p.work(g)
}

// current returns a record's newest version, including what the group staged.
func (g *group) current(a address) (*row, error) {
	if r, ok := g.staged[a]; ok {
		return r, nil
	}
	if r, ok := g.b.dirty[a]; ok { // the committer alone writes dirty
		return r, nil
	}
	return readRow(g.tx, a)
}

// stage adds one revision's events.
func (g *group) stage(events []event) store.Revision {
	g.head++
	for i := range events {
		events[i].row.revision = g.head
		if events[i].row.created == 0 {
			events[i].row.created = g.head
		}
		g.staged[events[i].addr] = events[i].after()
	}
	g.entries = append(g.entries, entry{revision: g.head, events: events})
	return g.head
}

// publish makes a group that is on disk visible, all of it at once.
func (b *backend) publish(g *group) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range g.entries {
		b.history.append(e)
		b.dirtyBytes += e.size()
		for i := range e.events {
			b.leases.bind(e.events[i].addr, e.events[i].after())
		}
	}
	maps.Copy(b.dirty, g.staged)
	if g.state != nil {
		b.state, b.dirty, b.dirtyBytes = *g.state, make(map[address]*row), 0
		b.history.forget(g.cut)
		b.pinFloor = max(b.pinFloor, g.cut)
		b.unpublished = nil
	}
	if g.lease != nil {
		b.leases.change(b, *g.lease)
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// txOnDisk is the number of the last transaction as a reader sees it now.
func (b *backend) txOnDisk() (id int, err error) {
	err = b.db.View(func(tx *bolt.Tx) error { id = tx.ID(); return nil })
	return id, err
}

func (b *backend) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken, b.brokenSince = err, time.Now()
	close(b.changed)
	b.changed = make(chan struct{})
}

var errClosed = fmt.Errorf("file: %w", store.ErrClosed)
