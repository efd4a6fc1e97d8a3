//go:build unix

package postgres_test

import (
	"bytes"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
	"github.com/tendhq/tend/store/storetest/campaign"
)

// logOf is a logger and what it has logged.
func logOf() (log *slog.Logger, logged func() string) {
	var text bytes.Buffer
	var mu sync.Mutex
	return slog.New(slog.NewTextHandler(lockedWriter{&mu, &text}, nil)), func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
}

// In a new era no lease has to be ended until it is opened: that says nothing about whether leases
// can be ended, and was told as if they were.
//
// Negative control: mutant "leases are said to be ended when none has to be".
func TestLeasesAreSaidToBeEndedAgainWhenOneIs(t *testing.T) {
	t.Parallel()
	log, logged := logOf()
	schema := newSchema()
	b := open(t, *(&postgres.Options{Schema: schema}).SetLogger(log))
	conn, err := pgx.Connect(t.Context(), shared.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	do := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), strings.ReplaceAll(sql, "{schema}", schema)); err != nil {
			t.Fatal(err)
		}
	}
	tries := func() (n int64) {
		if err := conn.QueryRow(t.Context(), "SELECT last_value FROM "+schema+".tries").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const signature = "{schema}.end_leases(seen bigint, channel text, ids bigint[], counts bigint[], open bigint)"
	// A sequence counts the calls, whose transactions are rolled back.
	do(`CREATE SEQUENCE {schema}.tries;
		ALTER FUNCTION {schema}.end_leases RENAME TO end_leases_whole;
		CREATE FUNCTION ` + signature + ` RETURNS TABLE (at bigint, other boolean) LANGUAGE plpgsql AS $$
		BEGIN PERFORM nextval('{schema}.tries'); RAISE EXCEPTION 'no lease is ended today'; END $$`)
	if _, err := b.Grant(t.Context(), store.MinTTL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return strings.Contains(logged(), "cannot end leases") })
	do(`UPDATE {schema}.head SET origin = 'another'`)
	waitFor(t, func() bool { return strings.Contains(logged(), "a new era begins") })
	before := tries() // the lease of the era before is not tried any more: the next has to open the era
	waitFor(t, func() bool { return tries() > before })
	if text := logged(); strings.Contains(text, "leases are ended again") {
		t.Errorf("no lease was ended, and the log says:\n%s", text)
	}
	do(`DROP FUNCTION {schema}.end_leases; ALTER FUNCTION {schema}.end_leases_whole RENAME TO end_leases`)
	waitFor(t, func() bool { return strings.Contains(logged(), "leases are ended again") })
	if n := strings.Count(logged(), "cannot end leases"); n != 1 {
		t.Errorf("%d warnings of one reason, want 1:\n%s", n, logged())
	}
}

// The first line about an outage said what did not work, and not that it is the store.
func TestOutageIsToldAsThatOfTheStore(t *testing.T) {
	t.Parallel()
	log, logged := logOf()
	p := campaign.NewProxy(t, shared.addr())
	b := openAt(t, proxied(p), *(&postgres.Options{}).SetLogger(log))
	for range b.Watch(t.Context(), "thing", 0) {
		break // a kind is watched: from now on there is a connection for notifications
	}
	p.Set(campaign.Reset)
	waitFor(t, func() bool { return strings.Contains(logged(), "the store does not answer") })
	p.Set(campaign.Pass)
	waitFor(t, func() bool { return strings.Contains(logged(), "the store answers again") })
	for line := range strings.Lines(logged()) {
		if strings.Contains(line, "level=WARN") && !strings.Contains(line, "store") {
			t.Errorf("a line of the outage does not name the store: %s", line)
		}
	}
	if n := strings.Count(logged(), "the store does not answer"); n != 1 {
		t.Errorf("%d lines say that it does not answer, want 1:\n%s", n, logged())
	}
}

// The log said that no notifications come, and never that they come again.
//
// Negative control: mutant "nothing says that notifications come again".
func TestNotificationsAreSaidToComeAgain(t *testing.T) {
	t.Parallel()
	log, logged := logOf()
	p := campaign.NewProxy(t, shared.addr())
	b := openAt(t, proxied(p), *(&postgres.Options{}).SetLogger(log).SetPoll(time.Hour))
	b.SetQuiet(10 * time.Millisecond)
	next, stop := iter.Pull2(b.Watch(longEnough(t), "thing", 0)) // from now on there is a connection for notifications
	defer stop()
	see := func(changes int) {
		t.Helper()
		for seen := -1; seen < changes; {
			batch, err, _ := next()
			if err != nil {
				t.Fatal(err)
			}
			seen = max(seen, 0) + len(batch.Changes)
		}
	}
	see(0) // the end of the snapshot
	p.Set(campaign.Reset)
	waitFor(t, func() bool { return strings.Contains(logged(), "no connection for notifications") })
	p.Set(campaign.Pass)
	waitFor(t, func() bool { return strings.Contains(logged(), "notifications come again") })
	other := open(t, postgres.Options{Schema: b.Schema()})
	for range 3 {
		if _, err := other.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("a"), "v")}}); err != nil {
			t.Fatal(err)
		}
		see(1) // for it was notified
	}
	if n := strings.Count(logged(), "notifications come again"); n != 1 {
		t.Errorf("%d lines say that they come again, want 1:\n%s", n, logged())
	}
}
