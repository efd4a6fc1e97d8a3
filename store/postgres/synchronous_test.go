//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
)

// synchronous makes a server wait for its standby at each commit, and returns the standby.
func (s *server) synchronous(t testing.TB) *server {
	t.Helper()
	standby := s.standby(t)
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
		if err := s.exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, func() bool {
		var state string
		return s.query("SELECT sync_state FROM pg_stat_replication", &state) == nil && state == "sync"
	})
	return standby
}

// While the standby stands still, requests that change the store time out. What they did must not
// show to readers before the standby has it: a failover would take it away from a reader that acts
// on it.
//
// promise S1, promise E1
func TestWriteThatTimedOutShowsToNoReaderBeforeTheStandbyHasIt(t *testing.T) {
	t.Parallel()
	primary := startServer(t)
	standby := primary.synchronous(t)
	one := store.Txn{Ops: []store.Op{put(key("a"), "1")}}
	writes := []struct {
		name   string
		write  func(ctx context.Context, b *postgres.Backend, lease store.LeaseID) error
		look   string // what the write changes
		was    int64
		after  int64
		schema string
		b      *postgres.Backend
		lease  store.LeaseID
	}{
		{name: "commit", look: "SELECT count(*) FROM {schema}.records", after: 1, write: func(ctx context.Context, b *postgres.Backend, _ store.LeaseID) error {
			_, err := b.Commit(ctx, one)
			return err
		}},
		{name: "grant", look: "SELECT count(*) FROM {schema}.leases", was: 1, after: 2, write: func(ctx context.Context, b *postgres.Backend, _ store.LeaseID) error {
			_, err := b.Grant(ctx, time.Hour)
			return err
		}},
		{name: "renew", look: "SELECT sum(renewed)::bigint FROM {schema}.leases", after: 1, write: func(ctx context.Context, b *postgres.Backend, lease store.LeaseID) error {
			return b.Renew(ctx, lease)
		}},
		{name: "revoke", look: "SELECT count(*) FROM {schema}.leases", was: 1, write: func(ctx context.Context, b *postgres.Backend, lease store.LeaseID) error {
			return b.Revoke(ctx, lease)
		}},
	}
	for i := range writes {
		w := &writes[i]
		w.schema = newSchema()
		w.b = openAt(t, primary.dsn(), postgres.Options{Schema: w.schema, Timeout: time.Second})
		waitFor(t, func() (ok bool) {
			id, err := w.b.Grant(t.Context(), time.Hour)
			w.lease = id
			return err == nil
		})
	}
	looks := func(i int) (n int64) {
		if err := primary.query(inSchema(writes[i].look, writes[i].schema), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	standby.signal(syscall.SIGSTOP)
	for i, w := range writes {
		if n := looks(i); n != w.was {
			t.Fatalf("%s: %d before, want %d", w.name, n, w.was)
		}
		if err := w.write(t.Context(), w.b, w.lease); !errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("%s while the standby stands still: %v, want ErrUnknownOutcome", w.name, err)
		}
		if err := w.b.Close(); err != nil { // afterwards the server has got all that was sent to it
			t.Fatal(err)
		}
		if n := looks(i); n != w.was {
			t.Errorf("%s: a reader sees what no standby has", w.name)
		}
	}
	standby.signal(syscall.SIGCONT)
	for i, w := range writes {
		waitFor(t, func() bool { return looks(i) == w.after })
	}
}
