package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tendhq/tend/store"
)

// errNotOpen: the era is too young for a lease.
var errNotOpen = errors.New("after a failover or a restore no lease is granted until the longest one may have ended")

// Shared implements store.Leaser: other processes can open the same database.
func (b *backend) Shared() bool { return true }

// Grant implements store.Leaser. After a failover or a restore it fails until every lease
// of before has ended in any case.
func (b *backend) Grant(ctx context.Context, ttl time.Duration) (store.LeaseID, error) {
	if ttl < store.MinTTL {
		return 0, fmt.Errorf("postgres: %w: lease of %v, at least %v", store.ErrInvalid, ttl, store.MinTTL)
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	id := int64(binary.BigEndian.Uint64(random[:]) >> 1)
	ms := min(int64((ttl-1)/time.Millisecond)+1, math.MaxInt64/int64(time.Millisecond)) // rounded up, and still a Duration
	err := b.write(ctx, "grant", func(ctx context.Context) error {
		for {
			// With synchronous_commit off, an acknowledged write may be lost.
			// The lock makes a grant wait for one that waits for its standby: there is one of these at a time,
			// however often servers ask.
			tag, err := b.writers.exec(ctx, b.sql(`
				INSERT INTO {schema}.leases (id, era, ttl)
				SELECT $1, h.era, $2 FROM {schema}.head h, {schema}.durable(), set_config('lock_timeout', $4::text, true)
				WHERE h.opened = h.era AND h.longest >= $2 AND h.revision >= $3 AND h.origin = {schema}.origin()
				FOR UPDATE OF h ON CONFLICT (id) DO NOTHING`), id, ms, b.seen.Load(), lockBound(ctx))
			if err != nil || tag.RowsAffected() == 1 {
				return err
			}
			again, err := b.prepareGrant(ctx, id, ms)
			if err != nil || !again {
				return err
			}
		}
	})
	if err != nil {
		return 0, err
	}
	select {
	case b.leases.kick <- struct{}{}: // begin to observe it
	default:
	}
	return store.LeaseID(id), nil
}

// prepareGrant finds out why a lease was not granted, and says whether to ask again.
func (b *backend) prepareGrant(ctx context.Context, id, ttl int64) (again bool, err error) {
	h, err := b.look(ctx, b.writers)
	switch {
	case err != nil:
		return false, err
	case h.opened != h.era:
		return false, final{errNotOpen}
	case h.longest < ttl:
		// It is written before the first such lease, so that the next era knows of it.
		_, err := b.writers.exec(ctx, b.sql(`UPDATE {schema}.head SET longest = greatest(longest, $1)
			FROM {schema}.durable(), set_config('lock_timeout', $2::text, true)`), ttl, lockBound(ctx))
		return err == nil, err
	}
	// The grant before, of which the answer was lost, was made after all.
	var there bool
	err = b.writers.row(ctx, []any{&there}, b.sql(`SELECT EXISTS (SELECT FROM {schema}.leases WHERE id = $1)`), id)
	return !there, err
}

// Renew implements store.Leaser. A lease of before a failover is gone.
func (b *backend) Renew(ctx context.Context, id store.LeaseID) error {
	return b.write(ctx, "renew", func(ctx context.Context) error {
		tag, err := b.writers.exec(ctx, b.sql(`
			UPDATE {schema}.leases l SET renewed = renewed + 1
			FROM {schema}.head h, {schema}.durable(), set_config('lock_timeout', $3::text, true)
			WHERE l.id = $1 AND l.era = h.era AND h.revision >= $2 AND h.origin = {schema}.origin()`),
			int64(id), b.seen.Load(), lockBound(ctx))
		if err != nil || tag.RowsAffected() == 1 {
			return err
		}
		if _, err := b.look(ctx, b.writers); err != nil { // begins a new era if there is one
			return err
		}
		return final{store.ErrLeaseGone}
	})
}

// Revoke implements store.Leaser.
func (b *backend) Revoke(ctx context.Context, id store.LeaseID) error {
	return b.write(ctx, "revoke", func(ctx context.Context) error {
		return b.endLeases(ctx, []int64{int64(id)}, []int64{-1}, 0)
	})
}

// write makes a change that may be repeated: f is called again as long as the server may
// be coming back.
func (b *backend) write(ctx context.Context, what string, f func(ctx context.Context) error) (err error) {
	defer func(caller context.Context) { b.writeHealth.Committed(caller, store.Txn{}, err) }(ctx)
	ctx, done, err := b.request(ctx)
	if err != nil {
		return err
	}
	defer done()
	err = b.retry(ctx, func() error { return f(ctx) })
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(final)):
		return fmt.Errorf("postgres: %s: %w", what, err)
	case judge(err, true) == unknown:
		return fmt.Errorf("postgres: %s: %w: %w", what, store.ErrUnknownOutcome, reason(ctx, err))
	}
	return b.gave(ctx, what, err)
}

// endLeases calls the function end_leases.
func (b *backend) endLeases(ctx context.Context, ids, counts []int64, open int64) error {
	for {
		var at int64
		var other bool
		err := b.writers.row(ctx, []any{&at, &other}, b.sql(`SELECT * FROM {schema}.end_leases(`+seen+`, $3::text, $4::bigint[], $5::bigint[], $6::bigint)`),
			lockBound(ctx), b.seen.Load(), b.channel(), ids, counts, open)
		if err != nil {
			return err
		}
		if !other {
			b.saw(at)
			b.tail.ring(at)
			return nil
		}
		if err := b.newEra(ctx); err != nil {
			return err
		}
	}
}
