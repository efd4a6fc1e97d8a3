package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tendhq/tend/store"
)

// The package's name stands before what these are wrapped in.
var (
	// errTimeout is the cause of a request that the server did not answer in time.
	errTimeout = errors.New("no answer within the request timeout")
	// errStandby is the error of a server that follows another one.
	errStandby = errors.New("the server is a standby or read-only; connect to the primary (several hosts in the connection string find it)")
	// errEra: the store is not the one that this backend has seen before.
	errEra = errors.New("the server changed: a failover, or a restored backup")
)

// final marks an error that no repetition can mend.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// verdict is what an error says about the request that met it.
type verdict int

const (
	refused verdict = iota // nothing was done, and doing it again does not help
	again                  // nothing was done, and doing it again may help
	unknown                // it may have been done
)

// judge tells what became of a transaction that was sent whole. executed says that its
// results had arrived, so that only the answer to its end was missing.
//
// An error that the server reports means that it rolled the transaction back. If the
// report ends the connection (FATAL), that is certain only while the transaction had not
// been executed. A connection that breaks without a report leaves the outcome open,
// unless nothing was sent. So does an error of a pooler, whose own connection to the server
// broke or that waits no longer, unless it says that the request still waited for one.
func judge(err error, executed bool) verdict {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &connect):
		return again
	case errors.As(err, &pg):
		severity := cmp.Or(pg.SeverityUnlocalized, pg.Severity) // a pooler sends the second only
		switch {
		case pg.Code == "08P01" && slices.ContainsFunc(waitedInPooler, func(text string) bool { return strings.HasPrefix(pg.Message, text) }):
			return again
		case strings.HasPrefix(pg.Code, "08"):
			return unknown
		case severity == "FATAL" || severity == "PANIC":
			if executed {
				return unknown
			}
			return again
		case retryable(pg.Code):
			return again
		}
		return refused
	case pgconn.SafeToRetry(err):
		return again
	}
	return unknown
}

// waitedInPooler is how errors of pgbouncer begin that end a request which no server has got.
var waitedInPooler = []string{"query_wait_timeout", "server login has been failing"}

// retryable says that the server asks for the transaction to be tried again.
func retryable(code string) bool {
	switch code {
	case "40001", // serialization_failure
		"40P01", // deadlock_detected
		"57P01", // admin_shutdown
		"57P02", // crash_shutdown
		"57P03", // cannot_connect_now
		"53300", // too_many_connections
		"XX000": // tuple concurrently updated, of the catalog
		return true
	}
	return false
}

// standby says that a server refused to write, or that a function is for primaries.
func standby(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "25006" || pg.Code == "55000")
}

// gave describes the error of a request whose outcome is known.
func (b *backend) gave(ctx context.Context, what string, err error) error {
	switch {
	case b.ctx.Err() != nil:
		return store.ErrClosed
	case ctx.Err() != nil && err != nil:
		return fmt.Errorf("postgres: %s: %w (%w)", what, context.Cause(ctx), err)
	case standby(err):
		return fmt.Errorf("postgres: %s: %w: %w", what, errStandby, err)
	}
	return fmt.Errorf("postgres: %s: %w", what, err)
}

// pause waits for that long and says whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
