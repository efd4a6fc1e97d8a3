package postgres

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
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
	b    *backend
	kick chan struct{} // a lease was granted

	// What follows is owned by keep's goroutine.
	era    int64
	since  time.Time // the era was seen
	leases map[int64]observation
	told   string // what the log has said of leases that cannot be ended

	samples []sample
	trimmed sample // the log needs to hold only what came after it

	trimming chan struct{} // closed when the trim under way has ended; nil: none was begun
	// What follows is set by the trim under way, and read after it has ended.
	cut    int64 // the revision up to which the log exceeds Options.HistoryBytes
	failed bool  // what was to be dropped is there
}

// sample is the state of the log at a moment of the monotonic clock.
type sample struct {
	at               time.Time
	revision, logged int64
}

func newObserver(b *backend) *observer {
	return &observer{b: b, kick: make(chan struct{}, 1), leases: make(map[int64]observation)}
}

// slowest is the longest time between two looks at the leases and the log.
const slowest = time.Second

// keep looks after the store for as long as the backend is open: it ends leases, opens
// eras, and trims the log. Every server does, and whichever is first has done it.
func (b *backend) keep() {
	for wait := time.Duration(0); ; {
		select {
		case <-time.After(wait):
		case <-b.leases.kick:
		case <-b.ctx.Done():
			return
		}
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
	open := o.eraToOpen(h, asked)
	var refused error // nil too if another server has ended them
	tried := len(ids) > 0 || open > 0
	if tried {
		refused = o.b.endLeases(ctx, ids, counts, open)
	}
	// In an era that is not open none has been ended yet, nor is one to be.
	if o.b.ctx.Err() == nil && (tried || h.opened == h.era) {
		o.b.tell(&o.told, refused, "postgres: cannot end leases", "postgres: leases are ended again")
	}
	o.trim(h, answered)
	return next
}

// tell logs err once for each reason, which told has: what is tried again and again gives the
// same one each time. With no error it logs once that it works again.
func (b *backend) tell(told *string, err error, fails, works string) {
	switch {
	case err == nil && *told != "":
		b.opts.logger.Info(works, "schema", b.opts.Schema)
		*told = ""
	case err != nil && err.Error() != *told:
		b.opts.logger.Warn(fails, "schema", b.opts.Schema, "error", err)
		*told = err.Error()
	}
}

// read returns the head and all leases, of one instant.
func (o *observer) read(ctx context.Context) (h head, all []leaseRow, err error) {
	seen := o.b.seen.Load()
	var id, era, ttl, renewed *int64
	err = o.b.writers.rows(ctx, append(h.fields(), &id, &era, &ttl, &renewed), func() error {
		if id != nil {
			all = append(all, leaseRow{*id, *era, *ttl, *renewed})
		}
		return nil
	}, o.b.sql(`SELECT `+columnsOfHead+`, l.id, l.era, l.ttl, l.renewed
		FROM {schema}.head h LEFT JOIN {schema}.leases l ON true`))
	if err != nil {
		return h, nil, err
	}
	if !o.b.accept(h, seen) {
		return h, nil, errEra
	}
	return h, all, nil
}

// eraToOpen returns the era of the head once every lease of the eras before has ended in any case,
// counted from when this process saw the era; 0: none is to be opened.
func (o *observer) eraToOpen(h head, asked time.Time) int64 {
	if h.opened < h.era && asked.Sub(o.since) >= time.Duration(h.longest)*time.Millisecond {
		return h.era
	}
	return 0
}

// observe compares the leases with what was seen before, and returns those that have
// ended, with their counts, and when to look again. asked and answered are moments before
// and after the instant that rows shows.
func (o *observer) observe(h head, rows []leaseRow, asked, answered time.Time) (ids, counts []int64, next time.Duration) {
	if h.era != o.era {
		// Changes in the log may have been lost with the era before, and its leases count for nothing.
		o.era, o.since = h.era, answered
		o.samples, o.trimmed = nil, sample{}
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
// larger than Options.HistoryBytes.
func (o *observer) trim(h head, now time.Time) {
	if o.trimming != nil {
		select {
		case <-o.trimming:
		default:
			return // the next look finds the same to do
		}
	}
	upTo, measure := o.excess(h, now)
	again := o.failed
	if upTo <= h.compacted && !measure && !again {
		return
	}
	done := make(chan struct{})
	o.trimming = done
	o.b.live.Go(func() { // ends with b.ctx; Close waits for it
		defer close(done)
		var err error
		if measure || again {
			o.cut, err = o.b.beyond(o.b.ctx, o.b.opts.HistoryBytes)
		}
		// Also a log that takes too long to measure is trimmed by what the samples say: it would grow
		// from then on, and take longer each time.
		err = errors.Join(err, o.b.compact(o.b.ctx, max(upTo, o.cut), again))
		o.failed = err != nil
		if o.failed && !again && o.b.ctx.Err() == nil {
			o.b.opts.logger.Warn("postgres: cannot trim the log", "schema", o.b.opts.Schema, "error", err)
		}
	})
}

// excess returns the revision up to which the log is too old or too large, as far as the
// samples tell. Ages are those of the process's monotonic clock. If the samples are too far
// apart, because much was written between two looks or because the process has just
// started, measure says that the log itself has to be asked for the revision.
//
//	samples   s1 ──────── s2 ─ s3 ─ s4      s1 is too old, or too many bytes ago; what
//	          trimmed     └─ within ──┘     came between it and s2 may be too much
func (o *observer) excess(h head, now time.Time) (upTo int64, measure bool) {
	opts := &o.b.opts
	n := len(o.samples)
	if n == 0 || now.Sub(o.samples[n-1].at) >= opts.HistoryAge/20 || h.logged-o.samples[n-1].logged >= opts.HistoryBytes/20 {
		o.samples = append(o.samples, sample{now, h.revision, h.logged})
	}
	for len(o.samples) > 0 {
		s := o.samples[0]
		if now.Sub(s.at) < opts.HistoryAge && h.logged-s.logged < opts.HistoryBytes {
			break
		}
		o.trimmed, o.samples = s, o.samples[1:]
	}
	if h.logged-o.trimmed.logged-opts.HistoryBytes > opts.HistoryBytes/4 {
		o.trimmed.logged = h.logged - opts.HistoryBytes
		return max(o.trimmed.revision, o.cut), true
	}
	return max(o.trimmed.revision, o.cut), false
}

// beyond returns the last revision with which the newest part of the log, read backwards,
// is larger than so many bytes; 0 if the whole log is not.
func (b *backend) beyond(ctx context.Context, bytes int64) (revision int64, err error) {
	ctx, cancel := b.trims.bound(ctx)
	defer cancel()
	err = b.readers.row(ctx, []any{&revision}, b.sql(`
		SELECT revision FROM (
			SELECT revision, sum(octet_length(value) + coalesce(octet_length(before), 0) + 200)
				OVER (ORDER BY revision DESC, ordinal DESC) AS bytes
			FROM {schema}.changes
		) AS newest WHERE bytes > $1 ORDER BY revision DESC LIMIT 1`), bytes)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return revision, err
}

// compact drops the changes up to a revision. A change stays if it is what a later one
// replaced, because pages of a list that is pinned to a revision between need it. Unless
// again is set, it does nothing if another server has done or begun it.
func (b *backend) compact(ctx context.Context, upTo int64, again bool) error {
	// On its own, so that commits wait for this short transaction only. From its end on,
	// a commit that replaces what is to be dropped puts it beside its own change.
	moving, cancel := b.trims.bound(ctx)
	defer cancel()
	tag, err := b.readers.exec(moving, b.sql(`UPDATE {schema}.head SET compacted = $1 WHERE compacted < $1 AND revision >= $1`), upTo)
	switch {
	case err != nil || tag.RowsAffected() == 0 && !again:
		return err
	case tag.RowsAffected() == 0:
		if err := b.readers.row(moving, []any{&upTo}, b.sql(`SELECT compacted FROM {schema}.head`)); err != nil {
			return err
		}
	}
	for from := int64(0); from < upTo && err == nil; {
		from, err = b.drop(ctx, from, upTo)
	}
	return err
}

// drop makes one part of a trim: it drops changes after the revision from, up to upTo, and
// returns the revision up to which it has done so.
func (b *backend) drop(ctx context.Context, from, upTo int64) (to int64, err error) {
	ctx, cancel := b.trims.bound(ctx)
	defer cancel()
	err = b.readers.row(ctx, []any{&to}, b.sql(`
		SELECT CASE WHEN count(*) < $3 THEN $2::bigint ELSE max(revision) END FROM (
			SELECT revision FROM {schema}.changes WHERE revision > $1 AND revision <= $2 ORDER BY revision LIMIT $3::integer
		) AS part`), from, upTo, b.trims.rows)
	if err != nil {
		return from, reason(ctx, err)
	}
	// Trims of several servers lock changes in the same order, or they could deadlock.
	_, err = b.readers.exec(ctx, b.sql(`
		DELETE FROM {schema}.changes WHERE ctid = ANY (ARRAY(
			SELECT c.ctid FROM {schema}.changes c WHERE c.revision > $1 AND c.revision <= $2 AND NOT EXISTS (
				SELECT FROM {schema}.changes n
				WHERE n.revision > $3 AND n.prev = c.revision AND n.before IS NULL AND NOT n.deleted
					AND n.kind = c.kind AND n.namespace = c.namespace AND n.name = c.name)
			ORDER BY c.revision, c.ordinal FOR UPDATE OF c))`), from, to, upTo)
	if err != nil {
		return from, reason(ctx, err)
	}
	return to, nil
}

// trimLimits bound the parts of a trim. The whole of one has no bound: a log may be of any
// size, and each part that was dropped stays dropped when a later one fails.
type trimLimits struct {
	rows int           // changes that one part drops, and those of the last revision
	time time.Duration // of each request to the server
}

// newTrimLimits gives requests of trims, and an upgrade of the schema, more time than others: one
// may read the whole log.
func newTrimLimits(timeout time.Duration) trimLimits {
	return trimLimits{50_000, 10 * min(timeout, math.MaxInt64/10)}
}

func (l trimLimits) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, l.time, errTimeout)
}
