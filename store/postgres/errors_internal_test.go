package postgres

import (
	"context"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tendhq/tend/store"
)

// What an error that was reported says about a commit does not depend on the language of the
// server, and on the message only where a pooler says that no server has got the request.
//
// promise S1. Negative control: the mutant "a pooler's error is taken for a rollback".
func TestReportedErrorsAreJudgedByWhatTheServerDid(t *testing.T) {
	for _, c := range []struct {
		err      pgconn.PgError
		executed bool
		want     verdict
	}{
		{pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "40001"}, false, again},
		{pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "42501"}, false, refused},
		{pgconn.PgError{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "57P01"}, false, again},
		{pgconn.PgError{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "57P01"}, true, unknown},
		{pgconn.PgError{Severity: "FATALE", SeverityUnlocalized: "FATAL", Code: "57P01"}, true, unknown}, // lc_messages = it_IT
		{pgconn.PgError{Severity: "FATAL", Code: "08P01", Message: "server conn crashed?"}, false, unknown},
		{pgconn.PgError{Severity: "FATAL", Code: "08P01", Message: "query_timeout"}, false, unknown},
		{pgconn.PgError{Severity: "FATAL", Code: "08P01", Message: "query_wait_timeout"}, false, again},
		{pgconn.PgError{Severity: "FATAL", Code: "08P01", Message: "server login has been failing, try again later (server_login_retry)"}, false, again},
	} {
		if got := judge(&c.err, c.executed); got != c.want {
			t.Errorf("judge(%s %s %q, executed %t) = %d, want %d", c.err.Severity, c.err.Code, c.err.Message, c.executed, got, c.want)
		}
	}
}

// Errors of timeouts, and of a server that cannot write, said twice, or never, that they are of
// this package.
//
// Negative control: the mutant "a timeout says twice whose it is".
func TestErrorsSayOnceThatTheyAreOfThisPackage(t *testing.T) {
	b := &backend{ctx: t.Context(), opts: Options{Timeout: time.Minute}}
	b.tail = newTail(b)
	b.writeHealth = store.NewWriteHealth(b, "", nil)
	b.writeHealth.Close() // it makes no probe
	late, cancel := context.WithCancelCause(t.Context())
	cancel(errTimeout)
	w := &watcher{b: &backend{ctx: t.Context(), tail: b.tail}, kind: "thing", r: &ring{}} // its timeout is over
	for what, err := range map[string]error{
		"a request": b.gave(late, "get", context.Canceled),
		"a watch":   w.attach(t.Context()),
		"a standby": b.gave(t.Context(), "open", final{errStandby}),
		"read-only": b.gave(t.Context(), "commit", &pgconn.PgError{Code: "25006"}),
		"a grant":   b.write(t.Context(), "grant", func(context.Context) error { return final{errNotOpen} }),
	} {
		if text := err.Error(); strings.Count(text, "postgres:") != 1 || !strings.HasPrefix(text, "postgres: ") {
			t.Errorf("%s: %s", what, text)
		}
	}
}

// A request waits for locks for less time than its caller does, and never without a bound, which 0 would be for the
// server.
func TestRequestWaitsForLocksForLessThanItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for time, want := range map[time.Duration]string{
			10 * time.Second: "9000", time.Millisecond: "1", 0: "1", -time.Second: "1", math.MaxInt64: "2147483647",
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time)
			if got := lockBound(ctx); got != want {
				t.Errorf("a request of %v waits for locks for %s ms, want %s", time, got, want)
			}
			cancel()
		}
	})
}

// Options that are left out mean what their comments say, and those that are given are kept.
func TestZeroOptionsMeanTheirDefaults(t *testing.T) {
	want := Options{
		Schema: "tend", Timeout: 5 * time.Second, batch: 128, poll: time.Second,
		HistoryAge: 10 * time.Minute, HistoryBytes: 256 << 20, logger: slog.Default(),
	}
	for _, o := range []*Options{nil, {}} {
		if got, err := o.withDefaults(); err != nil || got != want {
			t.Errorf("the defaults are %+v, error %v, want %+v", got, err, want)
		}
	}
	want.NoNotify, want.poll = true, 50*time.Millisecond
	if got, err := (&Options{NoNotify: true}).withDefaults(); err != nil || got != want {
		t.Errorf("the defaults without notifications are %+v, error %v, want %+v", got, err, want)
	}
	given := Options{
		Schema: strings.Repeat("x", 40), Timeout: 1, batch: 1000, NoNotify: true, poll: 1, HistoryAge: 1, HistoryBytes: 1,
		logger: slog.New(slog.DiscardHandler),
	}
	if got, err := given.withDefaults(); err != nil || got != given {
		t.Errorf("%+v became %+v, error %v", given, got, err)
	}
}
