//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v4"

	"github.com/tendhq/tend/examples/pgserver"
)

var shared struct {
	once sync.Once
	*pgserver.Server
	err error
}

func TestMain(m *testing.M) {
	if os.Getenv(killAt) != "" {
		if err := asProgram(os.Args[1:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(tests{m}) // exits
}

// tests are those of the package, with the end of the server that they share.
type tests struct{ *testing.M }

func (t tests) Run() (code int) {
	code = t.M.Run()
	if shared.Server != nil {
		if err := shared.Stop(); err != nil {
			fmt.Println("the tests' server did not stop well:", err)
			code = 1
		}
	}
	return code
}

// testServer is the DSN of a server that all tests share. Where there are no
// binaries the test is skipped, unless TEND_NEED_POSTGRES is set, as in CI.
func testServer(t *testing.T) string {
	t.Helper()
	shared.once.Do(func() { shared.Server, shared.err = pgserver.Start() })
	if errors.Is(shared.err, pgserver.ErrNoBinaries) && os.Getenv("TEND_NEED_POSTGRES") == "" {
		t.Skip(shared.err)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.DSN
}

func connectAdmin(t *testing.T) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), testServer(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func mustExec(t *testing.T, c *pgx.Conn, sql string) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func writeDeclared(file string, d declared) error {
	text, err := yaml.Marshal(d)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// found is all that there is on the server under a prefix, in the words of
// expected.
func found(ctx context.Context, c *pgx.Conn, prefix string) (string, error) {
	rows, err := c.Query(ctx, `
		select 'role ' || rolname || ' ' || rolcanlogin || ' ' || rolconnlimit, coalesce(shobj_description(oid, 'pg_authid'), '')
		from pg_roles where starts_with(rolname, $1) union all
		select 'database ' || datname || ' ' || pg_get_userbyid(datdba) || ' ' || datconnlimit, coalesce(shobj_description(oid, 'pg_database'), '')
		from pg_database where starts_with(datname, $1)`, prefix)
	if err != nil {
		return "", err
	}
	lines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var text, comment string
		err := row.Scan(&text, &comment)
		m, _ := parseMark(comment)
		return fmt.Sprintf("%s %s %s\n", text, m.Kind, m.Key.Name), err
	})
	slices.Sort(lines)
	return strings.Join(lines, ""), err
}

func mustFind(t *testing.T, c *pgx.Conn, prefix string) string {
	t.Helper()
	text, err := found(t.Context(), c, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (d declared) expected() string {
	var lines []string
	for name, r := range d.Roles {
		lines = append(lines, fmt.Sprintf("role %s %v %d Role %[1]s\n", name, r.Login, toLimit(r.Connections)))
	}
	for name, db := range d.Databases {
		lines = append(lines, fmt.Sprintf("database %s %s %d Database %[1]s\n", name, db.Owner, toLimit(db.Connections)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// A screen is what the program prints, for tests to wait for.
type screen struct {
	mu   sync.Mutex // guards text
	text strings.Builder
	more chan struct{} // holds a value after something was printed
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	select {
	case s.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// A runningProgram is the program inside the test.
type runningProgram struct {
	screen
	t     *testing.T
	stop  context.CancelFunc
	ended chan error
}

func begin(t *testing.T, d declared, o options) *runningProgram {
	t.Helper()
	o.DSN, o.File = testServer(t), filepath.Join(t.TempDir(), "declared.yaml")
	o.Timeout = 5 * time.Minute
	o.Store = cmp.Or(o.Store, inMemory)
	if o.Poll == 0 {
		o.Poll = 20 * time.Millisecond
	}
	if err := writeDeclared(o.File, d); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	p := &runningProgram{screen: screen{more: make(chan struct{}, 1)}, t: t, stop: stop, ended: make(chan error, 1)}
	go func() { p.ended <- run(ctx, o, p) }()
	t.Cleanup(stop)
	return p
}

// await waits until a line with all the parts has been printed.
func (p *runningProgram) await(parts ...string) {
	p.t.Helper()
	has := func(line string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
	}
	for !slices.ContainsFunc(strings.Split(p.String(), "\n"), has) {
		select {
		case <-p.more:
		case err := <-p.ended:
			p.ended <- err
			if slices.ContainsFunc(strings.Split(p.String(), "\n"), has) {
				return
			}
			p.t.Fatalf("it ended (%v) without having printed %q:\n%s", err, parts, p)
		case <-time.After(2 * time.Minute):
			p.t.Fatalf("it has not printed %q:\n%s", parts, p)
		}
	}
}

// end stops the program and returns its error.
func (p *runningProgram) end() error {
	p.stop()
	return <-p.ended
}

// once runs the program with -once and returns its error and what it printed.
func once(t *testing.T, d declared, state string) {
	t.Helper()
	p := begin(t, d, options{Store: state, Once: true})
	if err := <-p.ended; err != nil {
		t.Fatalf("run = %v; it printed:\n%s", err, p)
	}
}

func without[V any](m map[string]V, name string) map[string]V {
	m = maps.Clone(m)
	delete(m, name)
	return m
}

// The declarations lie in the server that is looked after, and a second run finds them there.
func TestStateIsKeptInTheServerItself(t *testing.T) {
	admin := connectAdmin(t)
	defer mustExec(t, admin, "DROP SCHEMA tend CASCADE")
	d := declared{
		Roles:     map[string]RoleSpec{"kept_inside": {Login: true}, "dropped_inside": {}},
		Databases: map[string]DatabaseSpec{"kept_inside_db": {Owner: "kept_inside"}},
	}
	once(t, d, "postgres:"+testServer(t))
	if got := mustFind(t, admin, "kept_inside") + mustFind(t, admin, "dropped_inside"); strings.Count(got, "role ") != 2 {
		t.Errorf("after the first run there are\n%s", got)
	}
	delete(d.Roles, "dropped_inside") // only a run that remembers it can drop it
	once(t, d, "postgres:"+testServer(t))
	if got := mustFind(t, admin, "dropped_inside"); got != "" {
		t.Errorf("after the second run there is still\n%s", got)
	}
	var records int
	if err := admin.QueryRow(t.Context(), "SELECT count(*) FROM tend.records WHERE name LIKE 'kept_inside%'").Scan(&records); err != nil || records != 2 {
		t.Errorf("%d records in the server, error %v, want 2", records, err)
	}
}

// What is altered by hand is put back, the mark too, whatever the names look
// like.
func TestDriftByHandIsPutBack(t *testing.T) {
	admin := connectAdmin(t)
	name := `drift "o'Neil" %s \`
	d := declared{
		Roles:     map[string]RoleSpec{name: {Login: true, Connections: 3}},
		Databases: map[string]DatabaseSpec{name: {Owner: name, Connections: 4}},
	}
	p := begin(t, d, options{})
	p.await("1 roles and 1 databases are as declared")
	for _, c := range []struct {
		byHand string
		want   []string
	}{
		{"ALTER ROLE " + ident(name) + " NOLOGIN", []string{"~ Role " + name, "Login:false", "declared {Login:true"}},
		{"ALTER ROLE " + ident(name) + " CONNECTION LIMIT 0", []string{"~ Role " + name, "Connections:-1"}},
		{"ALTER DATABASE " + ident(name) + " OWNER TO postgres", []string{"~ Database " + name, "Owner:postgres"}},
		{"ALTER DATABASE " + ident(name) + " CONNECTION LIMIT 99", []string{"~ Database " + name, "Connections:99"}},
		{"DROP DATABASE " + ident(name), []string{"+ Database " + name}},
	} {
		before := p.String()
		mustExec(t, admin, c.byHand)
		p.awaitMore(before, c.want...)
		if got := mustFind(t, admin, "drift"); got != d.expected() {
			t.Errorf("after %s there is\n%swant\n%s", c.byHand, got, d.expected())
		}
	}
	_ = p.end() // the new database may not have been looked at yet
	mustExec(t, admin, "DROP DATABASE "+ident(name))
	mustExec(t, admin, "DROP ROLE "+ident(name))
}

// awaitMore is await for what comes after the text before.
func (p *runningProgram) awaitMore(before string, parts ...string) {
	p.t.Helper()
	p.mu.Lock()
	later := strings.TrimPrefix(p.text.String(), before)
	p.text.Reset()
	p.text.WriteString(later)
	p.mu.Unlock()
	p.await(parts...)
}

// A role that owns a database is not dropped before it, and the server is not asked to.
// That is shown, and the role's object keeps its finalizer until the database has gone.
func TestRoleGoesOnlyAfterTheDatabaseItOwns(t *testing.T) {
	admin, state := connectAdmin(t), "file:"+filepath.Join(t.TempDir(), "roles.db")
	d := declared{
		Roles:     map[string]RoleSpec{"order_r": {}},
		Databases: map[string]DatabaseSpec{"order_d": {Owner: "order_r"}},
	}
	once(t, d, state)

	role := declared{Roles: without(d.Roles, "order_r"), Databases: d.Databases}
	p := begin(t, role, options{Store: state})
	p.await(". Role order_r", "waiting until no Database uses it")
	err := p.end()
	if err != nil || !strings.Contains(p.String(), "left:\n  Role order_r, being deleted: InUse: waiting until no Database uses it") || strings.Contains(p.String(), "x Role") {
		t.Errorf("run = %v, want the role's condition; it printed\n%s", err, p)
	}
	if got := mustFind(t, admin, "order"); got != d.expected() {
		t.Errorf("there is\n%swant\n%s", got, d.expected())
	}

	again := declared{Roles: d.Roles} // a new one, once the old one is gone
	once(t, again, state)
	if got := mustFind(t, admin, "order"); got != again.expected() {
		t.Errorf("there is\n%swant\n%s", got, again.expected())
	}
	once(t, declared{}, state)
	if got := mustFind(t, admin, "order"); got != "" {
		t.Errorf("there is\n%swant nothing", got)
	}
}

// A role or database that this program did not make is neither altered nor dropped.
//
// promise E2
func TestWhatCarriesNoMarkIsNotTouched(t *testing.T) {
	admin, state := connectAdmin(t), "file:"+filepath.Join(t.TempDir(), "roles.db")
	mustExec(t, admin, "CREATE ROLE strange_r CONNECTION LIMIT 1")
	mustExec(t, admin, "CREATE DATABASE strange_d CONNECTION LIMIT 2")
	before := mustFind(t, admin, "strange")
	p := begin(t, declared{
		Roles:     map[string]RoleSpec{"strange_r": {Login: true}},
		Databases: map[string]DatabaseSpec{"strange_d": {Owner: "postgres"}}, // not declared here, so that it is looked at
	}, options{Store: state, Once: true})
	for _, name := range []string{"strange_r", "strange_d"} {
		p.await("x", name, "no ownership mark")
	}
	err := p.end()
	if err == nil || strings.Count(err.Error(), "it carries no ownership mark") != 2 {
		t.Errorf("run = %v, want two that are not ours", err)
	}
	once(t, declared{}, state)
	if got := mustFind(t, admin, "strange"); got != before {
		t.Errorf("there is\n%swant\n%s", got, before)
	}
	mustExec(t, admin, "DROP DATABASE strange_d")
	mustExec(t, admin, "DROP ROLE strange_r")
}

// Without -dsn the program brings its own server, and leaves nothing of it.
func TestPrivateServerIsGoneAfterwards(t *testing.T) {
	testServer(t) // skips where there is none
	var out, errs strings.Builder
	if code := command(t.Context(), []string{"-once", "-timeout", "20m", "-file", "declared.yaml"}, &out, &errs); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
	if !strings.Contains(out.String(), "3 roles and 3 databases are as declared") {
		t.Errorf("it printed\n%s", out.String())
	}
	_, rest, _ := strings.Cut(out.String(), "psql 'host=")
	dir, _, found := strings.Cut(rest, " ")
	if _, err := os.Stat(dir); !found || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the server's folder %q is still there: %v", dir, err)
	}
}

// A database waits for the role that owns it, and is dropped before it: nothing that the
// server refuses is tried, and no line says that something failed.
//
// Negative control: without the need of the databases this said "role does not exist".
func TestHappyPathSaysNoError(t *testing.T) {
	dsn, dir := testServer(t), t.TempDir()
	d := declared{Roles: map[string]RoleSpec{}, Databases: map[string]DatabaseSpec{}}
	for n := range 6 {
		name := fmt.Sprint("happy_", n)
		d.Roles[name] = RoleSpec{Login: true}
		d.Databases[name] = DatabaseSpec{Owner: name}
	}
	for _, d := range []declared{d, {}} {
		file := filepath.Join(dir, "declared.yaml")
		if err := writeDeclared(file, d); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		o, err := parseOptions([]string{"-file", file, "-store", "file:" + filepath.Join(dir, "roles.db"), "-dsn", dsn, "-once", "-timeout", "5m"}, &out)
		if err != nil {
			t.Fatal(err)
		}
		if err := run(t.Context(), o, &out); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "  x ") {
			t.Errorf("on the happy path something failed:\n%s", &out)
		}
		if got := mustFind(t, connectAdmin(t), "happy_"); got != d.expected() {
			t.Errorf("there is\n%swant\n%s", got, d.expected())
		}
	}
}

// A second process of an installation is told what it waits for, and goes on when the first
// has ended.
//
// Negative control: with a wait for the lock that has no end of its own the second was silent,
// until its run was over.
func TestSecondProcessIsToldThatThereIsAFirst(t *testing.T) {
	dsn := testServer(t)
	open := func() *session {
		s, err := newSession(dsn, "twice", nil)
		if err != nil {
			t.Fatal(err)
		}
		s.patience = 50 * time.Millisecond
		t.Cleanup(func() {
			if err := s.close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	first, second := open(), open()
	if err := first.exec(t.Context(), "select 1"); err != nil {
		t.Fatal(err)
	}
	if err := second.exec(t.Context(), "select 1"); err == nil || !strings.Contains(err.Error(), "another process of the installation twice") {
		t.Errorf("beside the first: %v, want what it waits for", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := second.exec(ctx, "select 1"); !errors.Is(err, context.Canceled) {
		t.Errorf("when its own time is over: %v, want that", err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	second.patience = time.Minute // the server needs a moment to notice that the first has gone
	if err := second.exec(t.Context(), "select 1"); err != nil {
		t.Errorf("after the end of the first: %v", err)
	}
}
