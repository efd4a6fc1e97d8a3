package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// sessions is a pool of connections to the server. Every request takes its connection here,
// so that one place says which connections go back into the pool.
type sessions struct {
	*pgxpool.Pool
	own bool // the backend made the pool
}

// writerConns bounds the connections for what changes the store: a commit, declarations, the
// look at the leases, and one at least for calls of Grant, Renew and Revoke.
const writerConns = 4

// writers makes the pool for what changes the store, to the server that the pool readers leads to.
// It is another pool for two reasons. No other user of readers can use up its connections, or a
// lease would end although the server serves. And its connections cancel nothing on the server: a
// cancel ends the wait of a commit for a synchronous standby, whereupon the commit shows to
// readers although a failover loses it.
func writers(ctx context.Context, readers *pgxpool.Pool) (sessions, error) {
	cfg := readers.Config()
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = writerConns, 0, 0
	before := cfg.BeforeConnect
	cfg.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		if before != nil {
			if err := before(ctx, c); err != nil {
				return err
			}
		}
		cancelNothing(&c.Config)
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	return sessions{pool, true}, err
}

// cancelNothing makes the one connection that c is for send no cancel requests. Once the connection
// is there, a request to cancel is all that the driver dials for.
func cancelNothing(c *pgconn.Config) {
	var connected atomic.Bool
	dial, after := c.DialFunc, c.AfterConnect
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if connected.Load() {
			return nil, errors.New("postgres: a write is not cancelled")
		}
		return dial(ctx, network, addr)
	}
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		connected.Store(true)
		if after != nil {
			return after(ctx, conn)
		}
		return nil
	}
}

// errNotSent is the error of a request for which no connection was found.
var errNotSent = errors.New("no connection")

// use calls f with a connection, which is not used afterwards if f's error says that its session is
// of no use any more. Rows that f was given must be closed when it returns.
func (s sessions) use(ctx context.Context, f func(*pgx.Conn) error) error {
	conn, err := s.Acquire(ctx)
	if err != nil {
		if st := s.Stat(); ctx.Err() != nil && st.AcquiredConns() >= st.MaxConns() {
			err = fmt.Errorf("no connection of the pool was free (%d of %d in use): %w", st.AcquiredConns(), st.MaxConns(), err)
		}
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	defer conn.Release()
	err = f(conn.Conn())
	switch {
	case conn.Conn().IsClosed():
		// The driver waits for the server to end the session. One that waits for its standby does not.
		_ = conn.Conn().PgConn().Conn().Close()
	case spoiled(err):
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Conn().Close(bye)
		if s.own {
			s.Reset() // the other sessions are as old
		}
	}
	return err
}

// exec makes a request that returns no rows.
func (s sessions) exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = s.use(ctx, func(c *pgx.Conn) (err error) {
		tag, err = c.Exec(ctx, sql, args...)
		return err
	})
	return tag, err
}

// row reads one row.
func (s sessions) row(ctx context.Context, into []any, sql string, args ...any) error {
	return s.use(ctx, func(c *pgx.Conn) error { return c.QueryRow(ctx, sql, args...).Scan(into...) })
}

// rows calls each for every row, after it was read.
func (s sessions) rows(ctx context.Context, into []any, each func() error, sql string, args ...any) error {
	return s.use(ctx, func(c *pgx.Conn) error {
		rows, _ := c.Query(ctx, sql, args...) // ForEachRow returns its error
		_, err := pgx.ForEachRow(rows, into, each)
		return err
	})
}

// spoiled says that an error is one of the session and not of the statement: the next statement
// would meet it again, or what the session remembers of the server is not so any more. The codes
// are those of PostgreSQL's appendix "Error Codes" of which that is true.
func spoiled(err error) bool {
	if errors.Is(err, errStandby) {
		return true
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case "25006", // read_only_sql_transaction: a default of before, or a standby
		"25P02", // in_failed_sql_transaction
		"25P03", // idle_in_transaction_session_timeout
		"25P04", // transaction_timeout
		"26000", // invalid_sql_statement_name: a pooler put another server's session behind the connection
		"42P05", // duplicate_prepared_statement: likewise
		"53300", // too_many_connections
		"55000", // object_not_in_prerequisite_state: the server is a standby
		"57P01", // admin_shutdown
		"57P02", // crash_shutdown
		"57P03", // cannot_connect_now
		"57P04", // database_dropped
		"57P05": // idle_session_timeout
		return true
	}
	return strings.HasPrefix(pg.Code, "08") || // connection_exception
		strings.HasPrefix(pg.Code, "28") // invalid_authorization_specification
}
