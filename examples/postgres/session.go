package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tendhq/tend/reconcile/external"
)

// A session is the one connection through which everything is done.
//
// It holds an advisory lock, which the server gives to one connection at a time
// and takes back only when that one's last statement has ended. So what a process
// that was killed had begun (a CREATE DATABASE goes on without its client) is
// over before its successor looks for the first time; and a process that was
// frozen cannot go on beside its successor, because its connection is its lock.
type session struct {
	config       *pgx.ConnConfig
	installation string // one process of which works at a time
	// patience is how long a call waits for the lock before it fails, and is tried again: what
	// fails is said.
	patience time.Duration
	turn     chan struct{} // holds a value while the connection is in use
	conn     *pgx.Conn     // belongs to the holder of turn; nil: none yet
}

func newSession(dsn, installation string, dial pgconn.DialFunc) (*session, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("-dsn: %w", err)
	}
	if dial != nil {
		config.DialFunc = dial
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // one message each, nothing prepared
	config.RuntimeParams["application_name"] = "tend " + installation
	config.RuntimeParams["standard_conforming_strings"] = "on" // literal relies on it
	return &session{config: config, installation: installation, patience: 5 * time.Second, turn: make(chan struct{}, 1)}, nil
}

// do calls f with the connection, when it is its turn.
func (s *session) do(ctx context.Context, f func(*pgx.Conn) error) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	if err := s.connect(ctx); err != nil {
		return err
	}
	return f(s.conn)
}

// connect makes sure of a connection that has the lock.
func (s *session) connect(ctx context.Context) error {
	if s.conn != nil && !s.conn.IsClosed() {
		return nil
	}
	conn, err := pgx.ConnectConfig(ctx, s.config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	waiting, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if _, err := conn.Exec(waiting, "select pg_advisory_lock(hashtextextended($1, 0))", "tend "+s.installation); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		if waiting.Err() != nil && ctx.Err() == nil {
			return fmt.Errorf("another process of the installation %s is connected, or what it began is not over", s.installation)
		}
		return fmt.Errorf("wait for the end of the connection before: %w", answer(err))
	}
	s.conn = conn
	return nil
}

// exec runs statements, several of them as one transaction.
func (s *session) exec(ctx context.Context, sql string) error {
	return s.do(ctx, func(c *pgx.Conn) error {
		_, err := c.PgConn().Exec(ctx, sql).ReadAll()
		return answer(err)
	})
}

// close ends the session.
func (s *session) close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return s.conn.Close(ctx)
}

// answer makes an error readable, and says of one that is no answer of the
// server that the outcome of the statement is not known.
func answer(err error) error {
	var refusal *pgconn.PgError
	switch {
	case err == nil || pgconn.SafeToRetry(err):
		return err
	case !errors.As(err, &refusal) || refusal.SeverityUnlocalized == "FATAL":
		return external.Unknown(err)
	case refusal.Detail != "":
		return fmt.Errorf("%s: %s (SQLSTATE %s)", refusal.Message, refusal.Detail, refusal.Code)
	}
	return fmt.Errorf("%s (SQLSTATE %s)", refusal.Message, refusal.Code)
}
