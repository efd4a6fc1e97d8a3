package file

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/tendhq/tend/store"
)

// A lease is a promise to renew; records bound to it go when it ends. Leases
// are in the file, their clocks are not: after Open every lease has its whole
// time again, as it could not be renewed while the file was closed.
type lease struct {
	ttl     time.Duration
	keys    map[address]struct{}
	expires *time.Timer
	over    atomic.Bool // it has expired, and the disk has refused to write that
}

// leases is guarded by Backend.mu.
type leases struct {
	byID  map[store.LeaseID]*lease
	bound map[address]store.LeaseID // only what is bound
	last  store.LeaseID             // ids are never used again
}

// A leaseChange is a grant or, with no ttl, the end of a lease.
type leaseChange struct {
	id  store.LeaseID
	ttl time.Duration
}

// Shared reports false: one process at a time can have the file open.
func (b *backend) Shared() bool { return false }

// Grant makes a lease that lives for ttl unless it is renewed.
func (b *backend) Grant(ctx context.Context, ttl time.Duration) (store.LeaseID, error) {
	if ttl < store.MinTTL {
		return 0, fmt.Errorf("file: %w: a lease of %s, at least %s", store.ErrInvalid, ttl, store.MinTTL)
	}
	var id store.LeaseID
	_, err := b.submit(ctx, &pending{alone: true, work: func(g *group) (store.Revision, error) {
		id = b.leases.last + 1
		g.lease = &leaseChange{id: id, ttl: ttl}
		return g.head, nil
	}})
	if err != nil {
		b.writes.Committed(ctx, store.Txn{}, err)
		return 0, err
	}
	return id, nil
}

func leaseGone(id store.LeaseID) error {
	return fmt.Errorf("file: lease %d: %w", id, store.ErrLeaseGone)
}

// Renew gives a lease its whole time again, counted from now. It writes nothing.
func (b *backend) Renew(ctx context.Context, id store.LeaseID) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.usableLocked(); err != nil {
		return err
	}
	l := b.leases.byID[id]
	if l == nil || l.over.Load() || !l.expires.Stop() {
		// A timer that has fired has its end queued already: a renewal that
		// says yes now would be a lie a moment later.
		return leaseGone(id)
	}
	l.expires.Reset(l.ttl)
	return nil
}

// Revoke ends a lease and deletes what is bound to it, in one commit.
func (b *backend) Revoke(ctx context.Context, id store.LeaseID) error {
	_, err := b.submit(ctx, b.endOf(id))
	return err
}

// expire is Revoke by the clock. If the disk refuses, it is tried again: a
// dead holder's records must not stay for ever. Close waits for it.
func (b *backend) expire(id store.LeaseID) {
	if !b.enter() {
		return
	}
	defer b.working.Done()
	_, err := b.submit(context.Background(), b.endOf(id))
	if err == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.leases.byID[id]; l != nil && b.usableLocked() == nil {
		l.over.Store(true)
		l.expires = time.AfterFunc(time.Second, func() { b.expire(id) })
	}
}

// endOf is the commit that ends a lease. It has a group of its own, so that what
// is bound to the lease is what has been published.
func (b *backend) endOf(id store.LeaseID) *pending {
	return &pending{alone: true, work: func(g *group) (store.Revision, error) {
		l := b.leases.byID[id]
		if l == nil {
			return g.head, nil // it has ended already
		}
		events, err := g.deletions(l.keys)
		if err != nil {
			return 0, err // before anything is staged: the group is written all the same
		}
		g.lease = &leaseChange{id: id}
		if len(events) == 0 {
			return g.head, nil
		}
		return g.stage(events), nil
	}}
}

func (g *group) deletions(keys map[address]struct{}) ([]event, error) {
	var events []event
	for a := range keys {
		was, err := g.current(a)
		if err != nil {
			return nil, err
		}
		events = append(events, deletion(a, was))
	}
	return events, nil
}

func leaseKey(id store.LeaseID) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(id))
}

// writeLease writes the group's change of a lease. The bucket's sequence is the
// last id given out.
func (g *group) writeLease() error {
	if g.lease == nil {
		return nil
	}
	bucket := g.tx.Bucket(bucketLeases)
	if g.lease.ttl == 0 {
		return bucket.Delete(leaseKey(g.lease.id))
	}
	key := leaseKey(g.lease.id)
	if err := bucket.Put(key, sealed(key, binary.AppendUvarint(nil, uint64(g.lease.ttl)))); err != nil {
		return err
	}
	return bucket.SetSequence(uint64(g.lease.id))
}

func (c *contents) readLeases(bucket *bolt.Bucket) error {
	c.leases.last = store.LeaseID(bucket.Sequence())
	return bucket.ForEach(func(k, v []byte) error {
		b, _ := unseal(k, v) // what is damaged has no ttl
		d := decoder{b: b}
		ttl := d.uvarint()
		if len(k) != 8 || ttl == 0 || ttl > math.MaxInt64 {
			return fmt.Errorf("%w: lease %x", ErrCorrupt, k)
		}
		c.leases.grant(store.LeaseID(binary.BigEndian.Uint64(k)), time.Duration(ttl))
		return nil
	})
}

func newLeases() leases {
	return leases{byID: make(map[store.LeaseID]*lease), bound: make(map[address]store.LeaseID)}
}

func (ls *leases) grant(id store.LeaseID, ttl time.Duration) {
	ls.byID[id] = &lease{ttl: ttl, keys: make(map[address]struct{})}
	ls.last = max(ls.last, id)
}

// bind follows a record's newest version: a put binds it to its lease or to
// none, a deletion to none.
func (ls *leases) bind(a address, r *row) {
	if id, ok := ls.bound[a]; ok {
		delete(ls.bound, a)
		if l := ls.byID[id]; l != nil { // it lives: its end deletes what is bound to it. A panic here would stop every write
			delete(l.keys, a)
		}
	}
	if r != nil && r.lease != 0 && ls.byID[r.lease] != nil {
		ls.bound[a] = r.lease
		ls.byID[r.lease].keys[a] = struct{}{}
	}
}

// change publishes a grant or an end.
func (ls *leases) change(b *backend, ch leaseChange) {
	if ch.ttl != 0 {
		ls.grant(ch.id, ch.ttl)
		ls.start(b, ch.id)
		return
	}
	if l := ls.byID[ch.id]; l != nil {
		l.expires.Stop()
		delete(ls.byID, ch.id)
	}
}

func (ls *leases) start(b *backend, id store.LeaseID) {
	l := ls.byID[id]
	l.expires = time.AfterFunc(l.ttl, func() { b.expire(id) })
}

// arm starts the clocks of all leases, at Open.
func (ls *leases) arm(b *backend) {
	for id := range ls.byID {
		ls.start(b, id)
	}
}

// disarm stops them, at Close.
func (ls *leases) disarm() {
	for _, l := range ls.byID {
		l.expires.Stop()
	}
}
