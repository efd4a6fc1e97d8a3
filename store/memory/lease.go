package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/tendhq/tend/store"
)

// lease is a promise to delete its records at expires unless renewed.
type lease struct {
	ttl     time.Duration
	expires time.Time
	timer   *time.Timer
	records map[address]struct{}
}

// Shared implements [store.Leaser]: no other process sees this memory.
func (b *backend) Shared() bool { return false }

// Grant implements [store.Leaser]. Leases use the runtime's timers and no
// goroutine of their own.
func (b *backend) Grant(ctx context.Context, ttl time.Duration) (store.LeaseID, error) {
	if ttl < store.MinTTL {
		return 0, fmt.Errorf("%w: lease of %v, at least %v", store.ErrInvalid, ttl, store.MinTTL)
	}
	if ctx.Err() != nil {
		return 0, ended(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, store.ErrClosed
	}
	b.lastLease++
	id := b.lastLease
	b.leases[id] = &lease{
		ttl:     ttl,
		expires: time.Now().Add(ttl),
		timer:   time.AfterFunc(ttl, func() { b.expire(id) }),
		records: make(map[address]struct{}),
	}
	return id, nil
}

// Renew implements [store.Leaser].
func (b *backend) Renew(ctx context.Context, id store.LeaseID) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return store.ErrClosed
	}
	l := b.leases[id]
	if l == nil || !time.Now().Before(l.expires) {
		return fmt.Errorf("%w: %d", store.ErrLeaseGone, id)
	}
	l.expires = time.Now().Add(l.ttl)
	l.timer.Reset(l.ttl)
	return nil
}

// Revoke implements [store.Leaser].
func (b *backend) Revoke(ctx context.Context, id store.LeaseID) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return store.ErrClosed
	}
	b.endLocked(id)
	return nil
}

// expire runs on a timer. A renewal may have come between the timer's firing
// and the lock; it set the timer again.
func (b *backend) expire(id store.LeaseID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.leases[id]; l != nil && !time.Now().Before(l.expires) {
		b.endLocked(id)
	}
}

// endLocked deletes the lease's records in one commit.
func (b *backend) endLocked(id store.LeaseID) {
	l := b.leases[id]
	if l == nil {
		return
	}
	l.timer.Stop()
	ops := make([]store.Op, 0, len(l.records))
	for a := range l.records {
		ops = append(ops, store.Op{Kind: a.kind, Key: a.key})
	}
	b.applyLocked(ops)
	delete(b.leases, id)
}

// bindLocked makes the record follow the lease of the op, if any, and no other.
func (b *backend) bindLocked(op *store.Op) {
	if op.Lease == 0 && len(b.bound) == 0 {
		return
	}
	a := address{op.Kind, op.Key}
	b.unbindLocked(a)
	if op.Lease != 0 {
		b.bound[a] = op.Lease
		b.leases[op.Lease].records[a] = struct{}{}
	}
}

func (b *backend) unbindLocked(a address) {
	if id, ok := b.bound[a]; ok {
		delete(b.bound, a)
		delete(b.leases[id].records, a)
	}
}
