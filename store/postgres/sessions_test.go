//go:build unix

package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
	"github.com/tendhq/tend/store/storetest"
)

// openPool is open on a pool of the test's, as configure makes it.
func openPool(t *testing.T, o postgres.Options, configure func(*pgxpool.Config)) (*postgres.Backend, *pgxpool.Pool) {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(shared.socket())
	if err != nil {
		t.Fatal(err)
	}
	configure(cfg)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	o.Schema = newSchema()
	open(t, postgres.Options{Schema: o.Schema}) // makes the schema, which may take longer than o.Timeout
	b, err := postgres.Opened(postgres.OpenPool(t.Context(), pool, &o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b, pool
}

// A provider makes a database read-only when its disk is full, and ends the sessions. Those made
// meanwhile stay read-only when the database is writable again.
//
// Negative controls: with use keeping the session, or without its Reset, writes meet one session of before after another.
func TestSessionsThatAreReadOnlyAreNotUsedAgain(t *testing.T) {
	t.Parallel()
	schema := newSchema()
	role := "role_" + schema
	for _, sql := range []string{
		"CREATE ROLE " + role + " SUPERUSER LOGIN",
		"ALTER ROLE " + role + " SET default_transaction_read_only = on",
	} {
		if err := shared.exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	open(t, postgres.Options{Schema: schema})
	b := openAt(t, strings.Replace(shared.socket(), "user=postgres", "user="+role, 1), postgres.Options{Schema: schema})
	writes := map[string]func() error{
		"commit": func() error {
			_, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("a"), "v")}})
			return err
		},
		"grant": func() error {
			_, err := b.Grant(t.Context(), time.Minute)
			return err
		},
	}
	for range 4 {
		for name, write := range writes {
			if err := write(); err == nil || !strings.Contains(err.Error(), "25006") {
				t.Fatalf("%s while the database is read-only: %v, want SQLSTATE 25006", name, err)
			}
		}
	}
	if err := b.FillWriters(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := shared.exec("ALTER ROLE " + role + " RESET default_transaction_read_only"); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for range 2 {
		for name, write := range writes {
			err := write()
			if err != nil { // by a session of before: the others went with it
				refused++
				err = write()
			}
			if err != nil {
				t.Errorf("%s when the database is writable again: %v", name, err)
			}
		}
	}
	if refused > 1 {
		t.Errorf("%d writes met a session of before, want one at most", refused)
	}
}

// The service's own queries use up the pool that it shares with the backend: leases and commits go
// on, the server is not blamed, and calls that do wait say for what.
func TestLeasesAndCommitsDoNotWaitForTheSharedPool(t *testing.T) {
	t.Parallel()
	b, pool := openPool(t, postgres.Options{Timeout: 2 * time.Second}, func(c *pgxpool.Config) { c.MaxConns = 2 })
	for range 2 {
		var conn *pgxpool.Conn
		waitFor(t, func() bool { // the backend has them now and then
			c, err := pool.Acquire(t.Context())
			conn = c
			return err == nil
		})
		defer conn.Release()
	}
	var lease store.LeaseID
	waitFor(t, func() (ok bool) {
		id, err := b.Grant(t.Context(), time.Minute)
		lease = id
		return err == nil
	})
	waitFor(t, func() bool { return b.Renew(t.Context(), lease) == nil })
	waitFor(t, func() bool {
		_, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("a"), "v")}})
		return err == nil
	})
	if _, err := b.Get(t.Context(), "thing", key("a")); err == nil || !strings.Contains(err.Error(), "2 of 2 in use") {
		t.Errorf("Get without a free connection: %v, want an error that names the pool", err)
	}
	waitFor(t, func() bool { return store.Health(b) == nil })
}

// tracer calls its functions around the queries of a pool.
type tracer struct {
	began func(context.Context, *pgx.Conn, string)
	ended func(string)
}

type sqlKey struct{}

func (r *tracer) TraceQueryStart(ctx context.Context, c *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	r.began(ctx, c, data.SQL)
	return context.WithValue(ctx, sqlKey{}, data.SQL)
}

func (r *tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	sql, _ := ctx.Value(sqlKey{}).(string)
	r.ended(sql)
}

// A commit of this process that ends between the reading of the head and its comparison makes the head
// look as if the store had gone back.
//
// Negative controls: with what is seen after the read compared, in look and in changes.
func TestReadBesideACommitOfThisProcessBeginsNoEra(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reads func(sql string) bool
		do    func(*postgres.Backend) // has it read
	}{
		"list": {
			func(sql string) bool { return strings.Contains(sql, ".head h") && !strings.Contains(sql, ".leases") },
			func(b *postgres.Backend) {
				if _, err := b.List(t.Context(), "thing", store.ListOptions{}); err != nil {
					t.Error(err)
				}
			},
		},
		"log": {
			func(sql string) bool { return strings.Contains(sql, ".read_log(") },
			func(b *postgres.Backend) { watchEnd(t, b) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			var eras atomic.Int64
			var commit atomic.Pointer[func()]
			committed := make(chan struct{})
			b, _ := openPool(t, postgres.Options{}, func(p *pgxpool.Config) {
				p.ConnConfig.Tracer = &tracer{
					began: func(_ context.Context, _ *pgx.Conn, sql string) {
						if strings.Contains(sql, "SET origin") {
							eras.Add(1)
						}
					},
					ended: func(sql string) {
						if c.reads(sql) {
							if f := commit.Swap(nil); f != nil {
								(*f)()
								close(committed)
							}
						}
					},
				}
			})
			write := func() {
				if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("a"), "v")}}); err != nil {
					t.Error(err)
				}
			}
			commit.Store(&write)
			c.do(b)
			<-committed
			if _, err := b.List(t.Context(), "thing", store.ListOptions{}); err != nil { // after what the read led to
				t.Error(err)
			}
			if n := eras.Load(); n != 0 {
				t.Errorf("the read began a new era %d times", n)
			}
		})
	}
}

// watchEnd watches the things until the end of the snapshot that shows the one that is committed meanwhile.
func watchEnd(t *testing.T, b *postgres.Backend) {
	for batch, err := range b.Watch(t.Context(), "thing", 0) {
		if err != nil {
			t.Error(err)
			return
		}
		if len(batch.Changes) > 0 {
			return
		}
	}
}

// cutConn is a connection whose session ends, when it is told so, after the results of a statement and before the
// server has said that the transaction is over.
type cutConn struct {
	net.Conn
	of   atomic.Bool  // the statement under way is the one
	ends *atomic.Bool // the session is to end, once
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	ready := []byte("Z\x00\x00\x00\x05I")
	done := bytes.Contains(p[:n], []byte("SELECT ")) || bytes.Contains(p[:n], []byte("INSERT 0 1")) // and not only prepared
	if !c.of.Load() || !done || !bytes.HasSuffix(p[:n], ready) || !c.ends.CompareAndSwap(true, false) {
		return n, err
	}
	fatal := "SFATAL\x00VFATAL\x00C57P01\x00Mterminating connection\x00\x00"
	fatal = "E\x00\x00\x00" + string(rune(4+len(fatal))) + fatal
	return n - len(ready) + copy(p[n-len(ready):], fatal), err
}

// A session may end when its transaction has its results and before it is known to be over. A commit may have been
// made then and is not made again; what may be repeated is, and finds what it did.
//
// promise S1. Negative controls: with an end that is told by an error taken for a rollback a commit was made twice,
// and with no look for the lease that is there a grant was repeated until its time was over.
func TestSessionThatEndsBeforeItsTransactionIsKnownToBeOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql string // in the statement whose end is lost
		do  func(*postgres.Backend) error
	}{
		"a write": {".commit_one(", func(b *postgres.Backend) error {
			_, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("a"), "v")}})
			return err
		}},
		"two writes": {".commit(", func(b *postgres.Backend) error {
			_, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("a"), "v"), {Kind: "thing", Key: key("none")}}})
			return err
		}},
		"a grant": {".leases (id, ", func(b *postgres.Backend) error {
			id, err := b.Grant(t.Context(), time.Hour)
			if err != nil {
				return err
			}
			return b.Renew(t.Context(), id)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ends atomic.Bool
			b, _ := openPool(t, postgres.Options{}, func(p *pgxpool.Config) {
				dial := p.ConnConfig.DialFunc
				p.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := dial(ctx, network, addr)
					return &cutConn{Conn: conn, ends: &ends}, err
				}
				p.ConnConfig.Tracer = &tracer{
					began: func(_ context.Context, conn *pgx.Conn, sql string) {
						conn.PgConn().Conn().(*cutConn).of.Store(strings.Contains(sql, c.sql))
					},
					ended: func(string) {},
				}
			})
			ends.Store(true)
			err := c.do(b)
			if ends.Load() {
				t.Fatal("no session has ended")
			}
			if name == "a grant" {
				if err != nil {
					t.Errorf("the lease that was granted: %v", err)
				}
				return
			}
			if !errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("Commit: %v, want an unknown outcome", err)
			}
			if rec, err := b.Get(t.Context(), "thing", key("a")); err != nil || rec.Revision != rec.Created {
				t.Errorf("the record is %+v, error %v; want that it was written once", rec, err)
			}
		})
	}
}

// A primary that becomes a standby keeps its sessions. A read by one of them says so, and its record may be an old
// one; the session is not used again.
//
// Seen to fail with the record that the standby has.
func TestReadOfAServerThatWasDemotedIsRefused(t *testing.T) {
	t.Parallel()
	schema := newSchema()
	do := func(sql string) {
		t.Helper()
		if err := shared.execSimple(inSchema(sql, "fake_"+schema)); err != nil {
			t.Fatal(err)
		}
	}
	do(`CREATE SCHEMA {schema}; CREATE TABLE {schema}.standby AS SELECT false AS yes;
		CREATE FUNCTION {schema}.pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT yes FROM {schema}.standby'`)
	b := openAt(t, shared.socket()+" options='-c search_path=fake_"+schema+",pg_catalog'", postgres.Options{Schema: schema})
	if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("a"), "v")}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := b.Get(t.Context(), "thing", key("a")); err != nil {
			t.Fatal(err)
		}
		do("UPDATE {schema}.standby SET yes = true")
		if rec, err := b.Get(t.Context(), "thing", key("a")); err == nil || !strings.Contains(err.Error(), "standby") || errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get from a standby: %+v, %v, want an error that says so", rec, err)
		}
		do("UPDATE {schema}.standby SET yes = false")
	}
}

// A session that ends while it begins a new era is as good as any other that ends.
//
// Negative control: with look giving the error of newEra back as final.
func TestSessionThatEndsWhileANewEraBeginsIsTriedAgain(t *testing.T) {
	t.Parallel()
	type byList struct{}
	var ends atomic.Bool
	b, _ := openPool(t, postgres.Options{}, func(c *pgxpool.Config) {
		c.ConnConfig.Tracer = &tracer{
			began: func(ctx context.Context, c *pgx.Conn, sql string) {
				// Of the list: other parts of the backend, which begin an era too, try again on their own.
				if strings.Contains(sql, "SET origin") && ctx.Value(byList{}) != nil && ends.CompareAndSwap(true, false) {
					if err := shared.exec("SELECT pg_terminate_backend($1)", c.PgConn().PID()); err != nil {
						t.Error(err)
					}
				}
			},
			ended: func(string) {},
		}
	})
	ends.Store(true)
	for last := store.Revision(0); ends.Load(); { // the list comes first sooner or later
		holdHead(t, b, "origin = 'another'")()
		page, err := b.List(context.WithValue(t.Context(), byList{}, true), "thing", store.ListOptions{})
		if err != nil || page.Revision < last+1<<40 {
			t.Fatalf("List: %v, at revision %d, the one before was at %d; want that of a new era", err, page.Revision, last)
		}
		last = page.Revision
	}
}

// What refuses writes and lets reads through shows in the health until writes succeed again.
//
// promise S7
func TestHealthGoesByWrites(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]struct{ refuse, allow string }{
		"read-only": {"ALTER ROLE {role} SET default_transaction_read_only = on", "ALTER ROLE {role} RESET default_transaction_read_only"},
		"grants":    {"REVOKE INSERT, UPDATE ON ALL TABLES IN SCHEMA {schema} FROM {role}", "GRANT INSERT, UPDATE ON ALL TABLES IN SCHEMA {schema} TO {role}"},
		"a lock":    {"BEGIN; LOCK TABLE {schema}.records IN ACCESS EXCLUSIVE MODE", "COMMIT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schema := newSchema()
			role := "role_" + schema
			open(t, postgres.Options{Schema: schema})
			conn, err := pgx.Connect(t.Context(), shared.socket())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close(context.Background()) })
			do := func(sql string) {
				t.Helper()
				sql = strings.ReplaceAll(inSchema(sql, schema), "{role}", role)
				if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
					t.Fatal(err)
				}
			}
			do(`CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role};
				GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};
				GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role}`)
			dsn := strings.Replace(shared.socket(), "user=postgres", "user="+role, 1)
			b, err := postgres.Opened(postgres.Open(t.Context(), dsn, &postgres.Options{Schema: schema, Timeout: 5 * time.Second}))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = b.Close() })
			storetest.Health(t, b, func(on bool) {
				if !on {
					do(by.allow)
					return
				}
				do(by.refuse)
				if name == "read-only" {
					do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'")
				}
			})
		})
	}
}
