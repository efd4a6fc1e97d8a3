//go:build unix

package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
	"github.com/tendhq/tend/store/storetest/campaign"
)

// Whether there is an empty schema already, which an operator has made for a role that may make none, is all the same.
func TestManyServersStartAtOnceAndCreateTheSchemaOnce(t *testing.T) {
	for _, there := range []bool{false, true} {
		t.Run(fmt.Sprintf("there=%v", there), func(t *testing.T) {
			t.Parallel()
			schema := newSchema()
			if there {
				if err := shared.exec("CREATE SCHEMA " + schema); err != nil {
					t.Fatal(err)
				}
			}
			createAtOnce(t, schema)
		})
	}
}

func createAtOnce(t *testing.T, schema string) {
	t.Helper()
	backends := make([]*postgres.Backend, 12)
	var wg sync.WaitGroup
	for i := range backends {
		wg.Go(func() {
			b, err := postgres.Opened(postgres.Open(t.Context(), shared.socket(), &postgres.Options{Schema: schema, Timeout: patience}))
			if err != nil {
				t.Error(err)
				return
			}
			backends[i] = b
		})
	}
	wg.Wait()
	for i, b := range backends {
		if b == nil {
			continue
		}
		if _, err := b.Commit(t.Context(), store.Txn{If: absent(key(fmt.Sprint(i))), Ops: []store.Op{put(key(fmt.Sprint(i)), "v")}}); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A pool of one connection is enough to create the schema, to write and to watch.
func TestOneConnectionIsEnough(t *testing.T) {
	b, err := postgres.Opened(postgres.Open(t.Context(), shared.socket()+" pool_max_conns=1", &postgres.Options{Schema: newSchema(), Timeout: patience}))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	rev, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("a"), "1")}})
	if err != nil {
		t.Fatal(err)
	}
	for batch, err := range b.Watch(longEnough(t), "thing", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if batch.Kind == store.BatchSnapshotEnd && batch.Revision >= rev {
			break
		}
	}
}

// A role that may do nothing but what Schema's comments grant runs the whole contract's
// operations on a schema that another role has created from Schema's text.
func TestRestrictedRoleOnASchemaMadeByHand(t *testing.T) {
	schema := newSchema()
	sql, err := postgres.Schema(schema)
	if err != nil {
		t.Fatal(err)
	}
	role := schema + "_role"
	grants := strings.ReplaceAll(strings.ReplaceAll(sql[strings.Index(sql, "-- GRANT"):], "-- ", ""), "the_role", role)
	for _, stmt := range []string{sql, "CREATE ROLE " + role + " LOGIN", grants, "REVOKE CREATE ON SCHEMA public FROM PUBLIC"} {
		if err := shared.execSimple(stmt); err != nil {
			t.Fatalf("%.60s: %v", stmt, err)
		}
	}
	b := openAt(t, strings.Replace(shared.socket(), "user=postgres", "user="+role, 1), postgres.Options{Schema: schema})
	rev, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("a"), "1")}})
	if err != nil {
		t.Fatal(err)
	}
	for batch, err := range b.Watch(t.Context(), "thing", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if batch.Kind == store.BatchSnapshotEnd && batch.Revision >= rev {
			break
		}
	}
	id, err := b.Grant(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Renew(t.Context(), id), b.Revoke(t.Context(), id), b.Compact(t.Context(), rev)); err != nil {
		t.Error(err)
	}
	// A grant that this role may not make is refused at once, and not asked for until the time is over.
	// Negative control: the mutant "a grant that is refused is asked for again".
	if err := shared.execSimple("REVOKE INSERT ON " + schema + ".leases FROM " + role); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Grant(t.Context(), time.Minute); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("Grant without the right to it: %v, want an error that says so", err)
	}
}

func TestSchemaOfANewerVersionIsRefused(t *testing.T) {
	b := open(t, postgres.Options{})
	if err := shared.exec(fmt.Sprintf("UPDATE %s.head SET version = %d", b.Schema(), postgres.Steps()+1)); err != nil {
		t.Fatal(err)
	}
	_, err := postgres.Open(t.Context(), shared.socket(), &postgres.Options{Schema: b.Schema()})
	if err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("Open of a newer schema: %v", err)
	}
}

func TestDatabaseOfAnotherEncodingIsRefused(t *testing.T) {
	if err := shared.execSimple("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
	_, err := postgres.Open(t.Context(), strings.Replace(shared.socket(), "dbname=postgres", "dbname=latin", 1), nil)
	if err == nil || !strings.Contains(err.Error(), "LATIN1") {
		t.Errorf("Open of a database in LATIN1: %v", err)
	}
}

// Whatever goes wrong, no error and no log line has the password.
func TestPasswordIsInNoErrorAndNoLogLine(t *testing.T) {
	t.Parallel()
	const password = "s3cr3t%21pw"
	var log bytes.Buffer
	var mu sync.Mutex
	logger := slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))
	p := campaign.NewProxy(t, shared.addr())
	var opens sync.WaitGroup // each takes its time
	for _, dsn := range []string{
		"postgres://postgres:" + password + "@127.0.0.1:1/postgres",
		"postgres://postgres:" + password + "@127.0.0.1:port/postgres",
		"postgres://postgres:" + password + "@[::1/postgres",
		"host=127.0.0.1 port=1 user=postgres password=" + password,
		"host=127.0.0.1 port=x user=postgres password='" + password + "'",
		"host=127.0.0.1 passwd=" + password + " password = '" + password,
		"postgres://nobody_at_all:" + password + "@" + p.Addr() + "/nothing?sslmode=disable",
		"postgres://postgres:" + password + "@" + p.Addr() + "/postgres?sslmode=verify-full",
	} {
		opens.Go(func() {
			b, err := postgres.Opened(postgres.Open(t.Context(), dsn, (&postgres.Options{Timeout: time.Second}).SetLogger(logger)))
			if err == nil {
				b.Close()
				t.Errorf("Open of a bad connection string succeeded")
				return
			}
			if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), "s3cr3t") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
	opens.Wait()
	b := openAt(t, "postgres://postgres:"+password+"@"+p.Addr()+"/postgres?sslmode=disable", *(&postgres.Options{Timeout: time.Second}).SetLogger(logger))
	for range b.Watch(t.Context(), "thing", 0) {
		break // a kind is watched: from now on there is a connection for notifications
	}
	p.Set(campaign.Reset)
	_, err := b.Get(t.Context(), "thing", key("a"))
	_, err2 := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("a"), "1")}})
	waitFor(t, func() bool { return b.Health() != nil })
	logged := func() string { mu.Lock(); defer mu.Unlock(); return log.String() }
	waitFor(t, func() bool { return strings.Contains(logged(), "no connection for notifications") })
	if text := fmt.Sprint(err, err2, b.Health(), logged()); strings.Contains(text, "s3cr3t") {
		t.Errorf("a password is in %s", text)
	}
	p.Set(campaign.Pass)
	waitFor(t, func() bool { return b.Health() == nil })
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func TestPoolOfTheCallersIsUsedAndLeftOpen(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), shared.socket()+" pool_max_conns=2")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	b, err := postgres.Opened(postgres.OpenPool(t.Context(), pool, &postgres.Options{Schema: newSchema(), Timeout: patience}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("a"), "1")}}); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the pool after Close: %v", err)
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	for name, o := range map[string]postgres.Options{
		"schema":   {Schema: "Tend"},
		"quote":    {Schema: `a"; DROP TABLE x; --`},
		"timeout":  {Timeout: -1},
		"batch":    *new(postgres.Options).SetBatch(1001),
		"negative": *new(postgres.Options).SetBatch(-1),
		"history":  {HistoryBytes: -1},
		"age":      {HistoryAge: -1},
		"poll":     *new(postgres.Options).SetPoll(-1),
		"long":     {Schema: strings.Repeat("x", 41)},
		"digit":    {Schema: "1st"},
	} {
		if b, err := postgres.Opened(postgres.Open(context.Background(), shared.socket(), &o)); err == nil {
			b.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

// A schema of an older version is upgraded once, by whichever server is first, and keeps
// what it holds.
func TestOlderSchemaIsUpgradedOnce(t *testing.T) {
	schema := newSchema()
	if err := shared.execSimple(postgres.SchemaOf(1, schema)); err != nil {
		t.Fatal(err)
	}
	if err := shared.execSimple("INSERT INTO " + schema + ".records VALUES ('thing', 'ns', 'a', 1, 1, 1, 0, 'old')"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			b, err := postgres.Opened(postgres.Open(t.Context(), shared.socket(), &postgres.Options{Schema: schema, Timeout: patience}))
			if err != nil {
				t.Error(err)
				return
			}
			defer b.Close()
			if rec, err := b.Get(t.Context(), "thing", key("a")); err != nil || string(rec.Bytes) != "old" {
				t.Errorf("after the upgrade: %q, error %v", rec.Bytes, err)
			}
		})
	}
	wg.Wait()
	checkUpgraded(t, schema)
}

func checkUpgraded(t *testing.T, schema string) {
	t.Helper()
	for column, want := range map[string]int{"version": postgres.Compatible, "steps": postgres.Steps()} {
		var got int
		if err := shared.query("SELECT "+column+" FROM "+schema+".head", &got); err != nil || got != want {
			t.Errorf("%s %d, error %v, want %d", column, got, err, want)
		}
	}
}

// What an upgrade adds refuses no program that knows the schema's version: during a deployment
// servers of the program before go on, and are started again. The program of version 2
// compares only that column, and so does this one with what a later program adds.
func TestServersOfBothProgramsRunDuringADeployment(t *testing.T) {
	schema := newSchema()
	if err := shared.execSimple(postgres.SchemaOf(postgres.Compatible, schema)); err != nil {
		t.Fatal(err)
	}
	before, err := pgx.Connect(t.Context(), shared.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close(context.Background())
	commit := func(name string) {
		t.Helper()
		const sql = `SELECT failed FROM %s.commit_one(0, NULL, '{}', '{}', '{}', '{}', '{}', 'thing', 'ns', $1, 1::smallint, 'old', 0, 0, 0)`
		var failed int
		if err := before.QueryRow(t.Context(), fmt.Sprintf(sql, schema), name).Scan(&failed); err != nil || failed != 0 {
			t.Fatalf("a commit on a connection of before: failed %d, error %v", failed, err)
		}
	}
	commit("a")
	b := openAt(t, shared.socket(), postgres.Options{Schema: schema})
	commit("b")
	var version int
	if err := before.QueryRow(t.Context(), "SELECT version FROM "+schema+".head").Scan(&version); err != nil || version != postgres.Compatible {
		t.Errorf("the program of before reads version %d, error %v, and knows %d", version, err, postgres.Compatible)
	}
	for _, name := range []string{"a", "b"} {
		if rec, err := b.Get(t.Context(), "thing", key(name)); err != nil || string(rec.Bytes) != "old" {
			t.Errorf("%s: %q, error %v", name, rec.Bytes, err)
		}
	}
	if err := shared.exec(fmt.Sprintf("UPDATE %s.head SET steps = %d", schema, postgres.Steps()+1)); err != nil {
		t.Fatal(err)
	}
	openAt(t, shared.socket(), postgres.Options{Schema: schema})
	var steps int
	if err := shared.query("SELECT steps FROM "+schema+".head", &steps); err != nil || steps != postgres.Steps()+1 {
		t.Errorf("a program of before took the schema back to step %d, error %v", steps, err)
	}
}

// The SQL of an upgrade takes a schema to the newest version, as Open does.
func TestUpgradeByHandLeavesOpenNothingToDo(t *testing.T) {
	schema := newSchema()
	sql, err := postgres.Upgrade(schema, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.execSimple(postgres.SchemaOf(1, schema) + sql); err != nil {
		t.Fatal(err)
	}
	checkUpgraded(t, schema)
	b := openAt(t, shared.socket(), postgres.Options{Schema: schema})
	head, err := b.Commit(t.Context(), store.Txn{})
	if err != nil {
		t.Fatal(err)
	}
	writeAll(t, b, 3)
	await(t, b, head, 3)
	for _, from := range []int{-1, 0, postgres.Steps(), postgres.Steps() + 1} {
		if _, err := postgres.Upgrade(schema, from); err == nil {
			t.Errorf("there is an upgrade from step %d", from)
		}
	}
}

// No clock of the server decides anything: it steps, and that of a standby may be ahead.
// Every SQL statement of the package is in these files. TestWallClockThatIsSetEndsNoLease is
// about the clock of the process.
//
// promise L2
func TestNoClockOfTheServerIsRead(t *testing.T) {
	files, err := filepath.Glob("*.*")
	if err != nil {
		t.Fatal(err)
	}
	clock := regexp.MustCompile(`(?i)(\bnow\(\) |[^.a-z]now\(\)|current_timestamp|localtime|current_date|clock_timestamp|statement_timestamp|transaction_timestamp|timeofday|timestamptz)`)
	looked := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || !strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, ".sql") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		looked++
		for _, found := range clock.FindAllString(string(text), -1) {
			t.Errorf("%s reads a clock of the server: %q", name, found)
		}
	}
	if looked < 8 {
		t.Errorf("looked at %d files", looked)
	}
}

func TestStringSaysHowManyConnectionsThePoolHas(t *testing.T) {
	for said, want := range map[string]int32{"": 8, " pool_max_conns=3": 3, " pool_max_conns=4": 4, " pool_max_conns=9": 9} {
		b := openAt(t, shared.socket()+said, postgres.Options{})
		if n := b.MostConns(); n != want {
			t.Errorf("the string says %q, and the pool has %d", said, n)
		}
	}
}

// A deletion is a NULL in an array. Where arrays are sent as text and array_nulls is off, the
// server takes it for a text.
//
// promise S1. Negative control: the mutant "a server that stores NULL for a deletion is taken".
func TestServerThatTakesNullForATextIsRefused(t *testing.T) {
	_, err := postgres.Open(t.Context(), shared.socket()+" default_query_exec_mode=exec options='-c array_nulls=off'",
		&postgres.Options{Schema: newSchema(), Timeout: patience})
	if err == nil || !strings.Contains(err.Error(), "array_nulls") {
		t.Errorf("Open with array_nulls off: %v", err)
	}
}

// An upgrade may make an index of all records, and wait for transactions of other programs. On
// the old code it was given up after Options.Timeout, at each start again.
func TestUpgradeMayTakeLongerThanARequest(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	schema := newSchema()
	if err := shared.execSimple(postgres.SchemaOf(1, schema)); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), shared.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE "+schema+".records IN ROW EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	type opened struct {
		b   *postgres.Backend
		err error
	}
	done := make(chan opened, 1)
	start := func() {
		b, err := postgres.Opened(postgres.Open(t.Context(), shared.socket(), &postgres.Options{Schema: schema, Timeout: timeout}))
		done <- opened{b, err}
	}
	go start() // waited for below
	waited := int64(0)
	waitFor(t, func() bool {
		select {
		case o := <-done:
			if o.err == nil || waited > 0 {
				t.Fatalf("Open ended (%v) after the upgrade had waited %d ms for a transaction", o.err, waited)
			}
			go start() // the machine is busy: it did not get as far as the upgrade
		default:
			waited = max(waited, shared.number(t, `SELECT coalesce(max(1 + 1000 * extract(epoch FROM clock_timestamp() - waitstart)), 0)::bigint
				FROM pg_locks WHERE NOT granted AND relation = '`+schema+`.records'::regclass`))
		}
		return waited > timeout.Milliseconds()
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := <-done
	if o.err != nil {
		t.Fatalf("Open, of which the upgrade waited %d ms: %v", waited, o.err)
	}
	o.b.Close()
	checkUpgraded(t, schema)
}

// The database of a URL is opened in each form that the page names, and the URL of a wrong one shows no password.
//
// Seen to fail without the forms behind "postgres:", and with a URL whose "//" was taken away.
func TestDatabasesAreOpenedByURL(t *testing.T) {
	c, err := pgx.ParseConfig(shared.socket())
	if err != nil {
		t.Fatal(err)
	}
	at := url.URL{Scheme: "postgres", User: url.User(c.User), Path: "/" + c.Database}
	at.RawQuery = url.Values{"host": {c.Host}, "port": {fmt.Sprint(c.Port)}, "application_name": {"by-url"}}.Encode()
	for _, form := range []string{at.String(), "postgres:" + at.String(), "postgres:" + shared.socket() + " application_name=by-url"} {
		b, err := store.Open(t.Context(), form)
		if err != nil {
			t.Errorf("%s: %v", form, err)
			continue
		}
		if n := shared.number(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'by-url'"); n == 0 {
			t.Errorf("%s: no session has the name of the URL", form)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		waitFor(t, func() bool {
			return shared.number(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'by-url'") == 0
		})
	}
	for _, form := range []string{"postgres://me:hunter2@%zz/", "postgres:host=127.0.0.1 port=x password=hunter2"} {
		if b, err := store.Open(t.Context(), form); err == nil || b != nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, %v", form, b, err)
		}
	}
}
