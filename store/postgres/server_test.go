//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/tendhq/tend/store/postgres"
)

// shared is the server that most tests use, each in a schema of its own.
var shared *server

// pristine is a server that is never started: others are copies of its data, because initdb
// takes longer than all else that a test does with a server of its own.
var pristine *server

// need makes a machine without PostgreSQL fail the tests instead of skipping them.
const need = "TEND_NEED_POSTGRES"

func TestMain(m *testing.M) {
	if cfg := os.Getenv(processEnv); cfg != "" {
		os.Exit(runProcess(cfg)) // this process is a server of a service under test
	}
	os.Exit(func() int {
		if _, err := binaries(); err != nil {
			if os.Getenv(need) != "" {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			fmt.Fprintln(os.Stderr, "SKIP:", err)
			return 0
		}
		dir, err := newDir()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		pristine = &server{dir: filepath.Join(dir, "pristine")}
		shared = &server{dir: filepath.Join(dir, "shared"), options: []string{"-c", "fsync=off", "-c", "max_connections=300"}}
		if err := errors.Join(pristine.mkdir(), pristine.initdb(), shared.mkdir(), shared.copy(pristine), shared.start()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		code := m.Run()
		shared.stop(syscall.SIGQUIT)
		if code == 0 {
			if err := goleak.Find(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}
		return code
	}())
}

// binaries returns the directory of initdb and postgres.
func binaries() (string, error) {
	if dir := os.Getenv("TEND_POSTGRES_BIN"); dir != "" {
		return dir, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	initdb, err := exec.LookPath("initdb")
	if err != nil {
		return "", errors.New("there is no PostgreSQL on this machine (apt-get install postgresql)")
	}
	return filepath.Dir(initdb), nil
}

// server is a PostgreSQL server of a test's own.
type server struct {
	dir     string
	options []string
	port    int
	cmd     *exec.Cmd
	gone    chan struct{} // closed when the process of cmd has ended
}

// newDir makes a directory that the server's user may enter. The path of a socket in it
// has 107 bytes at most.
func newDir() (string, error) {
	dir, err := os.MkdirTemp("/tmp", "tend-pg-")
	if err != nil {
		return "", err
	}
	return dir, own(dir)
}

// unprivileged is the user that servers run as: PostgreSQL refuses to be root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	users := []string{"postgres", "nobody"}
	for _, name := range users {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
	}
	return nil, fmt.Errorf("there is none of the users %q to run PostgreSQL as", users)
}

func own(path string) error {
	c, err := unprivileged()
	if c == nil || err != nil {
		return err
	}
	return os.Chown(path, int(c.Uid), int(c.Gid))
}

// command runs one of PostgreSQL's programs.
func (s *server) command(name string, args ...string) (*exec.Cmd, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	if path := filepath.Join(bin, name); exists(path) {
		name = path
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	c, err := unprivileged()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c}
	dieWithParent(cmd.SysProcAttr)
	return cmd, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// run runs a program as the server's user and waits for it.
func (s *server) run(name string, args ...string) error {
	cmd, err := s.command(name, args...)
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

func (s *server) data() string { return filepath.Join(s.dir, "data") }

func (s *server) initdb(more ...string) error {
	return s.run("initdb", append([]string{"-D", s.data(), "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--no-locale"}, more...)...)
}

// mkdir makes the directory of s within that of the tests.
func (s *server) mkdir() error {
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return err
	}
	return own(s.dir)
}

// copy gives s the data of a server that does not run.
func (s *server) copy(of *server) error { return s.run("cp", "-a", of.data(), s.data()) }

// start starts the server and waits until it answers.
func (s *server) start() error {
	if s.port == 0 {
		s.port = freePort()
	}
	args := append([]string{
		"-D", s.data(), "-k", s.dir, "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1",
		"-c", "shared_buffers=64MB", "-c", "logging_collector=off",
	}, s.options...)
	cmd, err := s.command("postgres", args...)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	gone := make(chan struct{})
	s.cmd, s.gone = cmd, gone
	go func() { _ = cmd.Wait(); close(gone) }()
	for end := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		conn, err := pgx.Connect(ctx, s.dsn())
		cancel()
		if err == nil {
			return conn.Close(context.Background())
		}
		select {
		case <-gone:
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("the server ended: %s", text[max(0, len(text)-2000):])
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			return fmt.Errorf("the server did not answer in %v: %w", patience, err)
		}
	}
}

// freePort finds a port that nothing listens on, below those that the system gives to
// outgoing connections: a server that is down for a moment must find its port free again.
func freePort() int {
	for {
		port := 12000 + rand.IntN(18000)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return port
		}
	}
}

// stop ends the server by a signal and waits until its processes are gone.
func (s *server) stop(sig syscall.Signal) {
	if s.cmd == nil {
		return
	}
	all := children(s.cmd.Process.Pid)
	if sig == syscall.SIGKILL {
		all = s.signal(sig) // every process of it, as a power cut would
	} else {
		_ = s.cmd.Process.Signal(sig)
	}
	<-s.gone
	for _, pid := range all { // they hold the shared memory for a moment longer
		for !gone(pid) {
			time.Sleep(time.Millisecond)
		}
	}
	s.cmd = nil
}

// signal reaches every process of the server, and returns those besides the first. Each leads a
// group of its own. The first is stopped meanwhile, so that it starts no other.
func (s *server) signal(sig syscall.Signal) (all []int) {
	_ = s.cmd.Process.Signal(syscall.SIGSTOP)
	all = children(s.cmd.Process.Pid)
	for _, pid := range all {
		_ = syscall.Kill(pid, sig)
	}
	_ = s.cmd.Process.Signal(sig)
	return all
}

func (s *server) dsn() string {
	return fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=postgres sslmode=disable", s.port)
}

// socket is the connection string of the server's Unix socket.
func (s *server) socket() string {
	return fmt.Sprintf("host=%s port=%d user=postgres dbname=postgres", s.dir, s.port)
}

func (s *server) addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// startServer gives a test a server of its own, durable as one in production.
func startServer(t testing.TB, options ...string) *server {
	t.Helper()
	dir, err := newDir()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{dir: dir, options: options}
	t.Cleanup(func() {
		if s.cmd != nil {
			s.signal(syscall.SIGCONT)
			s.stop(syscall.SIGQUIT)
		}
		os.RemoveAll(dir)
	})
	if err := errors.Join(s.copy(pristine), s.start()); err != nil {
		t.Fatal(err)
	}
	return s
}

// patience is how long a test waits for what must happen. It bounds a hang and measures
// nothing: no test may fail because the machine is busy.
const patience = 3 * time.Minute

var schemas atomic.Int64

// newSchema gives a test a store to itself.
func newSchema() string { return fmt.Sprintf("test%d", schemas.Add(1)) }

// open gives a backend on the shared server.
func open(t testing.TB, o postgres.Options) *postgres.Backend {
	t.Helper()
	return openAt(t, shared.socket(), o)
}

// openAt gives a backend that waits for answers as long as a test does, unless o says
// otherwise.
func openAt(t testing.TB, dsn string, o postgres.Options) *postgres.Backend {
	t.Helper()
	if o.Schema == "" {
		o.Schema = newSchema()
	}
	timeout := o.Timeout
	o.Timeout = patience
	b, err := postgres.Opened(postgres.Open(t.Context(), dsn, &o))
	if timeout != 0 && err == nil {
		// The schema is there now: to make it may take a busy machine longer than a test wants to
		// wait for an answer.
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		o.Timeout = timeout
		b, err = postgres.Opened(postgres.Open(t.Context(), dsn, &o))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

// waitFor waits for something that other goroutines bring about and that gives no signal
// of its own.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
			if t.Failed() { // such as by the end of a server
				t.FailNow()
			}
		case <-limit:
			t.Fatalf("did not happen in %v", patience)
		}
	}
}

// inSchema puts the name of a schema into a statement.
func inSchema(sql, schema string) string { return strings.ReplaceAll(sql, "{schema}", schema) }
