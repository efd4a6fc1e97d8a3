package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tendhq/tend/store"
)

// backend keeps the state of several servers in a PostgreSQL database. It is safe for
// concurrent use.
type backend struct {
	readers sessions
	writers sessions
	opts    Options
	batch   *batcher
	tail    *tail
	leases  *observer

	writeHealth *store.WriteHealth

	trims  trimLimits
	gather time.Duration // see gathering
	quiet  time.Duration // see quiet
	inbox  chan struct{} // has one element while there may be declarations

	// ctx ends when the backend is closed, and with it every watch.
	ctx  context.Context
	stop context.CancelCauseFunc
	live sync.WaitGroup // goroutines of the backend, and requests

	// seen is the highest revision that this backend has seen. A store that is at a
	// lower one was restored.
	seen atomic.Int64

	// unavailable is set while the server does not answer.
	unavailable atomic.Pointer[store.UnavailableError]

	mu     sync.Mutex // guards closed
	closed bool
}

var _ store.HealthChecker = (*backend)(nil)

// Open connects to the database that a connection string names, in either form that pgx
// understands, creates or upgrades the schema, and starts the backend. Among several
// hosts it uses the primary. Unless the string says otherwise (pool_max_conns) it uses at
// most 8 connections for what reads, at most 4 for what writes, and one for notifications once a
// kind is watched.
//
// Open fails if no primary answers within Options.Timeout. No error contains the
// connection string.
func Open(ctx context.Context, dsn string, o *Options) (store.FullBackend, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		// The error repeats parts of the string, among which may be a password.
		return nil, errors.New("postgres: the connection string cannot be parsed (it is not shown, because it may hold a password)")
	}
	plain, err := pgx.ParseConfig(dsn) // with the settings of the pool among the others
	if err == nil && plain.RuntimeParams["pool_max_conns"] == "" {
		cfg.MaxConns = max(cfg.MaxConns, 8)
	}
	if cfg.ConnConfig.ValidateConnect == nil {
		cfg.ConnConfig.ValidateConnect = primary
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	b, err := open(ctx, sessions{pool, true}, o)
	if err != nil {
		pool.Close()
	}
	return b, err
}

// primary refuses a connection to a standby, so that the next host is tried.
func primary(ctx context.Context, c *pgconn.PgConn) error {
	err := pgconn.ValidateConnectTargetSessionAttrsPrimary(ctx, c)
	var pg *pgconn.PgError
	if err != nil && !errors.As(err, &pg) {
		return errStandby
	}
	return err
}

// OpenPool is [Open] on a pool of the caller's, which Close leaves open. Of its connections the
// backend uses one for each call of Get and List under way, and two more: to read changes, and to
// trim the log. Such calls, and watches, wait while others use up the pool; leases and commits
// do not, because the backend opens up to four connections for them, and one for notifications,
// outside of the pool, as the pool's configuration says.
func OpenPool(ctx context.Context, pool *pgxpool.Pool, o *Options) (store.FullBackend, error) {
	return open(ctx, sessions{pool, false}, o)
}

func open(ctx context.Context, readers sessions, o *Options) (store.FullBackend, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	writers, err := writers(ctx, readers.Pool)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	b := &backend{readers: readers, writers: writers, opts: opts, trims: newTrimLimits(opts.Timeout), gather: gather, quiet: quiet, inbox: make(chan struct{}, 1)}
	b.ctx, b.stop = context.WithCancelCause(context.Background())
	b.batch = newBatcher(b)
	b.tail = newTail(b)
	b.leases = newObserver(b)
	b.writeHealth = store.NewWriteHealth(b, b.place(), opts.logger)
	if err := b.begin(ctx); err != nil {
		b.stop(store.ErrClosed)
		b.writers.Close()
		return nil, err
	}
	// All end with b.ctx; Close waits for them.
	b.live.Go(b.tail.run)
	b.live.Go(b.keep)
	b.live.Go(b.drain)
	if !opts.NoNotify {
		b.live.Go(b.listen)
	}
	return b, nil
}

// begin looks at the server and makes its schema ready.
func (b *backend) begin(ctx context.Context) error {
	first, cancel := context.WithTimeoutCause(ctx, b.opts.Timeout, errTimeout)
	defer cancel()
	var said error // by the last try that was not cut off by the end of the time
	err := b.retry(first, func() (err error) {
		defer func() {
			if first.Err() == nil {
				said = err
			}
		}()
		var encoding, nulls string
		var recovering bool
		err = b.readers.row(first, []any{&encoding, &nulls, &recovering},
			"SELECT current_setting('server_encoding'), current_setting('array_nulls'), pg_is_in_recovery()")
		switch {
		case err != nil:
			return err
		case recovering:
			return final{errStandby}
		case encoding != "UTF8":
			return final{fmt.Errorf("the database has the encoding %s, not UTF8", encoding)}
		case nulls != "on":
			return final{errors.New("the setting array_nulls is off: a deletion would be stored as the text NULL; turn it on")}
		}
		return nil
	})
	if err != nil {
		return b.gave(first, "open", cmp.Or(said, err))
	}
	// An upgrade may make an index of all records, or wait for the upgrade by another server.
	ctx, cancel = b.trims.bound(ctx)
	defer cancel()
	if err = b.migrate(ctx); err == nil {
		_, err = b.look(ctx, b.writers)
	}
	if err != nil && !errors.Is(err, errSchema) {
		return b.gave(ctx, "open", err)
	}
	return err
}

// retry repeats what only reads, or what is known not to have been done, for as long as
// the server may be coming back.
func (b *backend) retry(ctx context.Context, f func() error) error {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := f()
		if err == nil || ctx.Err() != nil || errors.Is(err, pgx.ErrNoRows) || errors.As(err, new(final)) {
			return err
		}
		if judge(err, true) == refused || !pause(ctx, wait) {
			return err
		}
	}
}

// request bounds ctx by the request timeout. done must be called at the end of it.
func (b *backend) request(ctx context.Context) (_ context.Context, done func(), err error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, nil, store.ErrClosed
	}
	b.live.Add(1)
	ctx, cancel := context.WithTimeoutCause(ctx, b.opts.Timeout, errTimeout)
	return ctx, func() { cancel(); b.live.Done() }, nil
}

// Close ends every watch, refuses further calls with store.ErrClosed, and returns after
// the last request has been answered or timed out. It releases no lease.
func (b *backend) Close() error {
	b.mu.Lock()
	was := b.closed
	b.closed = true
	b.mu.Unlock()
	if was {
		return nil
	}
	b.stop(store.ErrClosed)
	b.writeHealth.Close()
	b.batch.close()
	b.live.Wait()
	b.writers.Close()
	if b.readers.own {
		b.readers.Close()
	}
	return nil
}

// Get implements store.Backend. It is linearizable as long as there is one primary.
func (b *backend) Get(ctx context.Context, kind string, key store.Key) (store.Record, error) {
	if err := store.CheckAddress(kind, key); err != nil {
		return store.Record{}, err
	}
	ctx, done, err := b.request(ctx)
	if err != nil {
		return store.Record{}, err
	}
	defer done()
	var recovering bool
	var created, revision *int64
	rec := store.Record{Kind: kind, Key: key}
	err = b.retry(ctx, func() error {
		return b.readers.use(ctx, func(c *pgx.Conn) error {
			err := c.QueryRow(ctx, b.sql(`
				SELECT pg_is_in_recovery(), r.created, r.revision, r.value FROM (SELECT) AS one
				LEFT JOIN {schema}.records r ON r.kind = $1 AND r.namespace = $2 AND r.name = $3`),
				kind, key.Namespace, key.Name).Scan(&recovering, &created, &revision, &rec.Bytes)
			if err == nil && recovering {
				err = final{errStandby}
			}
			return err
		})
	})
	switch {
	case err != nil:
		return store.Record{}, b.gave(ctx, "get", err)
	case created == nil:
		return store.Record{}, fmt.Errorf("postgres: %w: %s %s", store.ErrNotFound, kind, key)
	}
	rec.Created, rec.Revision = store.Revision(*created), store.Revision(*revision)
	b.tail.ring(*revision) // the caller may wait until its cache has it
	return rec, nil
}

// head is the row that every commit updates.
type head struct {
	era, opened, revision, compacted, logged, longest int64
	same                                              bool // as was seen before
}

// columnsOfHead are those of a head, for scan. The server is asked for its origin once, not
// for each row that the head is joined with.
const columnsOfHead = `h.era, h.opened, h.revision, h.compacted, h.logged, h.longest, h.origin = (SELECT {schema}.origin())`

func (h *head) fields() []any {
	return []any{&h.era, &h.opened, &h.revision, &h.compacted, &h.logged, &h.longest, &h.same}
}

// look reads the head. If the store is another one than before, it begins a new era.
func (b *backend) look(ctx context.Context, by sessions) (h head, err error) {
	err = b.retry(ctx, func() error {
		for {
			seen := b.seen.Load()
			if err := by.row(ctx, h.fields(), b.sql(`SELECT `+columnsOfHead+` FROM {schema}.head h`)); err != nil || b.accept(h, seen) {
				return err
			}
			if err := b.newEra(ctx); err != nil {
				return err
			}
		}
	})
	return h, err
}

// accept says whether a head continues what had been seen before it was read. What was seen since
// may be newer than the head.
func (b *backend) accept(h head, seen int64) bool {
	if !h.same || h.revision < seen {
		return false
	}
	b.saw(h.revision)
	return true
}

// saw remembers a revision that the store has reached.
func (b *backend) saw(r int64) {
	for {
		seen := b.seen.Load()
		if r <= seen || b.seen.CompareAndSwap(seen, r) {
			return
		}
	}
}

// jump is added to the revision when an era begins: more than the commits that may have
// been lost, so that no revision is handed out twice.
const jump = 1 << 40

// newEra notes that the store is another one than before. Its history does not continue
// what watchers saw, its revisions must not be those of lost commits, and leases may be
// missing from it. One of the servers does it; the others find it done.
func (b *backend) newEra(ctx context.Context) error {
	tag, err := b.writers.exec(ctx, b.sql(`
		UPDATE {schema}.head SET origin = {schema}.origin(), era = era + 1,
			revision = greatest(revision, $1) + $2, compacted = greatest(revision, $1) + $2
		WHERE origin <> {schema}.origin() OR revision < $1`), b.seen.Load(), int64(jump))
	if err != nil {
		return err
	}
	if tag.RowsAffected() > 0 {
		b.opts.logger.Warn("postgres: the server changed (a failover, or a restored backup): a new era begins, and no lease is granted for a while",
			"schema", b.opts.Schema)
	}
	return nil
}

// Health implements store.HealthChecker: it fails while the server does not answer the
// look that the backend takes at least once a second, and while commits fail, in a database that is
// read-only for example, until one succeeds. While they fail it tries one itself every 5 s.
func (b *backend) Health() error {
	if e := b.unavailable.Load(); e != nil {
		return e
	}
	return b.writeHealth.Health()
}

// place names the server and the database.
func (b *backend) place() string {
	cfg := b.readers.Config().ConnConfig
	return fmt.Sprintf("postgres: %s:%d, database %s", cfg.Host, cfg.Port, cfg.Database)
}

// String names the server and the database, without user and password.
func (b *backend) String() string { return b.place() }

// serves notes that the server answers, and logs the end of an outage.
func (b *backend) serves() {
	if was := b.unavailable.Swap(nil); was != nil {
		b.opts.logger.Info("postgres: the store answers again", "schema", b.opts.Schema, "after", time.Since(was.Since).Round(time.Millisecond))
	}
}

// fails notes that the server does not answer, and logs the begin of an outage.
func (b *backend) fails(err error) {
	if b.unavailable.Load() == nil && b.ctx.Err() == nil {
		b.unavailable.Store(&store.UnavailableError{Since: time.Now(), Err: fmt.Errorf("%s: %w", b.place(), err)})
		b.opts.logger.Warn("postgres: the store does not answer", "schema", b.opts.Schema, "err", store.Brief(err))
	}
}
