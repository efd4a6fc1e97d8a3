package postgres

import (
	"context"
	"errors"
	"time"
)

// observation is a lease as this process has seen it.
type observation struct {
	renewed int64
	since   time.Time // of the monotonic clock: the count has been this since before then
}

// observer decides when leases have ended. No clock of any server is compared with that
// of another one: a lease ends when its count of renewals stood still for its whole TTL
// while this process watched.
//
//	holder    renew(7) ........ trusts until here │
//	observer       └▶ sees 7 ──────────── ttl ────┴──────▶ sees 7: ends it if it is still 7
//
// The observer saw the count after the renewal was made, and the holder counts its trust
// from before it asked for the renewal, so the lease ends after the trust.
type observer struct {
	b    *Backend
	kick chan struct{} // a lease was granted

	// What follows is owned by keep's goroutine.
	era    int64
	since  time.Time // the era was seen
	leases map[int64]observation

	samples  []sample
	trimming chan struct{} // closed when the trim under way has ended; nil: none
}

// sample is the state of the log at a moment of the monotonic clock.
type sample struct {
	at               time.Time
	revision, logged int64
}

func newObserver(b *Backend) *observer {
	return &observer{b: b, kick: make(chan struct{}, 1), leases: make(map[int64]observation)}
}

// slowest is the longest time between two looks at the leases and the log.
const slowest = time.Second

// keep looks after the store for as long as the backend is open: it ends leases, opens
// eras, and trims the log. Every server does, and whichever is first has done it.
func (b *Backend) keep() {
	for wait := time.Duration(0); ; {
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-b.leases.kick:
		case <-b.ctx.Done():
			t.Stop()
			return
		}
		t.Stop()
		wait = b.leases.tick()
	}
}

// lease is a row of the table.
type leaseRow struct{ id, era, ttl, renewed int64 }

// tick looks once and returns the time until the next look.
func (o *observer) tick() time.Duration {
	ctx, cancel := context.WithTimeoutCause(o.b.ctx, o.b.opts.Timeout, errTimeout)
	defer cancel()
	asked := time.Now()
	h, rows, err := o.read(ctx)
	if errors.Is(err, errEra) {
		if err = o.b.newEra(ctx); err == nil {
			return 0
		}
	}
	if err != nil {
		o.b.fails(err)
		return slowest
	}
	o.b.serves()
	answered := time.Now()
	ids, counts, next := o.observe(h, rows, asked, answered)
	open := int64(0)
	if h.opened < h.era && asked.Sub(o.since) >= time.Duration(h.longest)*time.Millisecond {
		open = h.era
	}
	if len(ids) > 0 || open > 0 {
		if err := o.b.endLeases(ctx, ids, counts, open); err != nil && o.b.ctx.Err() == nil {
			o.b.opts.Logger.Warn("postgres: cannot end leases", "schema", o.b.opts.Schema, "error", err)
		}
	}
	o.trim(h, answered)
	return next
}

// read returns the head and all leases, of one instant.
func (o *observer) read(ctx context.Context) (h head, all []leaseRow, err error) {
	rows, err := o.b.pool.Query(ctx, o.b.sql(`SELECT `+columnsOfHead+`, l.id, l.era, l.ttl, l.renewed
		FROM {schema}.head h LEFT JOIN {schema}.leases l ON true`))
	if err != nil {
		return h, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id, era, ttl, renewed *int64
		if err := rows.Scan(append(h.fields(), &id, &era, &ttl, &renewed)...); err != nil {
			return h, nil, err
		}
		if id != nil {
			all = append(all, leaseRow{*id, *era, *ttl, *renewed})
		}
	}
	if err := rows.Err(); err != nil {
		return h, nil, err
	}
	if !o.b.accept(h) {
		return h, nil, errEra
	}
	return h, all, nil
}

// observe compares the leases with what was seen before, and returns those that have
// ended, with their counts, and when to look again. asked and answered are moments before
// and after the instant that rows shows.
func (o *observer) observe(h head, rows []leaseRow, asked, answered time.Time) (ids, counts []int64, next time.Duration) {
	if h.era != o.era {
		// Renewals may have been lost with the era before: nothing seen in it counts.
		o.era, o.since = h.era, answered
		clear(o.leases)
	}
	next = slowest
	seen := make(map[int64]observation, len(rows))
	for _, l := range rows {
		ttl := time.Duration(l.ttl) * time.Millisecond
		next = min(next, ttl/8)
		was, known := o.leases[l.id]
		switch {
		case l.era != h.era: // it ends when the era is opened
		case !known || was.renewed != l.renewed:
			seen[l.id] = observation{l.renewed, answered}
		case asked.Sub(was.since) >= ttl:
			ids, counts = append(ids, l.id), append(counts, l.renewed)
			seen[l.id] = was
		default:
			seen[l.id] = was
			next = min(next, max(ttl-answered.Sub(was.since), 10*time.Millisecond))
		}
	}
	o.leases = seen
	return ids, counts, next
}

// trim drops the changes that are older than Options.HistoryAge, or that make the log
// larger than Options.HistoryBytes. Ages are those of the process's monotonic clock.
func (o *observer) trim(h head, now time.Time) {
	opts := &o.b.opts
	n := len(o.samples)
	if n == 0 || now.Sub(o.samples[n-1].at) >= opts.HistoryAge/20 || h.logged-o.samples[n-1].logged >= opts.HistoryBytes/20 {
		o.samples = append(o.samples, sample{now, h.revision, h.logged})
	}
	upTo := int64(0)
	for len(o.samples) > 0 {
		s := o.samples[0]
		if now.Sub(s.at) < opts.HistoryAge && h.logged-s.logged < opts.HistoryBytes {
			break
		}
		upTo, o.samples = s.revision, o.samples[1:]
	}
	if upTo <= h.compacted {
		return
	}
	if o.trimming != nil {
		select {
		case <-o.trimming:
		default:
			return // a later sample will do
		}
	}
	done := make(chan struct{})
	o.trimming = done
	o.b.live.Go(func() { // ends with b.ctx; Close waits for it
		defer close(done)
		if err := o.b.compact(o.b.ctx, upTo); err != nil && o.b.ctx.Err() == nil {
			opts.Logger.Warn("postgres: cannot trim the log", "schema", opts.Schema, "error", err)
		}
	})
}

// compact drops the changes up to a revision. A change stays if it is what a later one
// replaced, because pages of a list that is pinned to a revision between need it.
func (b *Backend) compact(ctx context.Context, upTo int64) error {
	// On its own, so that commits wait for this short transaction only. From its end on,
	// a commit that replaces what is to be dropped puts it beside its own change.
	tag, err := b.pool.Exec(ctx, b.sql(`UPDATE {schema}.head SET compacted = $1 WHERE compacted < $1 AND revision >= $1`), upTo)
	if err != nil || tag.RowsAffected() == 0 {
		return err // another server does it
	}
	_, err = b.pool.Exec(ctx, b.sql(`
		DELETE FROM {schema}.changes c WHERE c.revision <= $1 AND NOT EXISTS (
			SELECT FROM {schema}.changes n
			WHERE n.revision > $1 AND n.prev = c.revision AND n.before IS NULL AND NOT n.deleted
				AND n.kind = c.kind AND n.namespace = c.namespace AND n.name = c.name)`), upTo)
	return err
}
