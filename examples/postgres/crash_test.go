//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tendhq/tend/store"
)

// killAt in the environment makes the test binary the program itself, which then
// kills itself at the step of that number; 0: at none.
const killAt = "TEND_POSTGRES_KILL_AT"

// steps numbers the moments at which the process can die: before and after each
// write to the store, before each message to the server, and when the message is
// on its way and the server about to act on it. (A death before a read of the
// store is one after the call before it: nothing has changed in between.)
type steps struct {
	kill, n atomic.Int64
}

func (s *steps) step() {
	if s.n.Add(1) == s.kill.Load() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// asProgram is main, with steps.
func asProgram(args []string) error {
	var s steps
	kill, err := strconv.ParseInt(os.Getenv(killAt), 10, 64)
	if err != nil {
		return err
	}
	s.kill.Store(kill)
	o, err := parseOptions(args, os.Stderr)
	if err != nil {
		return err
	}
	o.backend = func(b store.Backend) (store.Backend, error) { return &steppedBackend{b, &s}, nil }
	o.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		s.step()
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &steppedConn{c, &s}, err
	}
	return run(context.Background(), o, os.Stdout)
}

type steppedConn struct {
	net.Conn
	s *steps
}

func (c *steppedConn) Write(p []byte) (int, error) {
	c.s.step()
	defer c.s.step()
	return c.Conn.Write(p)
}

type steppedBackend struct {
	store.Backend
	s *steps
}

func (b *steppedBackend) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	b.s.step()
	defer b.s.step()
	return b.Backend.Commit(ctx, t)
}

// A lane is a store, and a part of the server that no other lane touches.
type lane struct {
	name  string
	dir   string
	dsn   string
	admin *pgx.Conn
}

// program runs the program as a process of its own, with what is declared, and
// kills it at a step; 0: it runs to its end. It reports whether it was killed.
func (l *lane) program(ctx context.Context, d declared, kill int) (killed bool, err error) {
	file := filepath.Join(l.dir, "declared.yaml")
	if err := writeDeclared(file, d); err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0],
		"-file", file, "-store", "file:"+filepath.Join(l.dir, "roles.db"), "-dsn", l.dsn, "-once", "-timeout", "20m")
	// With the race detector a process stays for another second unless told not to.
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", killAt, kill), "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && kill > 0 && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("the program: %w\n%s", err, out)
	}
	return false, nil
}

// declaration is what a lane declares in turn: each time a role and its database
// come, others go, and a database changes hands, away from the role that is to be
// dropped.
func (l *lane) declaration(turn int) declared {
	one := fmt.Sprint(l.name, "_", turn%3)
	return declared{
		Roles:     map[string]RoleSpec{one: {Login: true, Connections: 1 + turn%3}},
		Databases: map[string]DatabaseSpec{one: {Owner: one}, l.name + "_keep": {Owner: one, Connections: 5 + turn%3}},
	}
}

// drift alters by hand what a turn left.
func (l *lane) drift(ctx context.Context, turn int) error {
	role, keep := ident(fmt.Sprint(l.name, "_", turn%3)), ident(l.name+"_keep")
	_, err := l.admin.PgConn().Exec(ctx, "ALTER ROLE "+role+" NOLOGIN; ALTER DATABASE "+keep+
		" CONNECTION LIMIT 99; COMMENT ON DATABASE "+keep+" IS NULL").ReadAll()
	return err
}

// compare says how the lane's part of the server differs from what is declared.
func (l *lane) compare(ctx context.Context, d declared) error {
	got, err := found(ctx, l.admin, l.name)
	if want := d.expected(); err == nil && got != want {
		err = fmt.Errorf("there is\n%swant\n%s", got, want)
	}
	return err
}

// live lives through one life for every lanes-th step, from the first on, until
// one ends by itself.
func (l *lane) live(ctx context.Context, first, lanes int) error {
	if _, err := l.program(ctx, l.declaration(0), 0); err != nil {
		return err
	}
	turn := 0
	for kill, killed := first, true; killed; kill += lanes {
		err := l.drift(ctx, turn)
		if err != nil {
			return err
		}
		turn++
		if killed, err = l.program(ctx, l.declaration(turn), kill); err == nil && killed {
			turn += kill / 2 % 2 // every other time the declaration has changed meanwhile
			_, err = l.program(ctx, l.declaration(turn), 0)
		}
		if err == nil {
			err = l.compare(ctx, l.declaration(turn))
		}
		if err != nil {
			return fmt.Errorf("killed at step %d: %w", kill, err)
		}
		if !killed && kill < 60 {
			return fmt.Errorf("a life of less than %d steps", kill)
		}
	}
	if _, err := l.program(ctx, declared{}, 0); err != nil {
		return err
	}
	return l.compare(ctx, declared{})
}

// promise E1: the program is a process, killed with SIGKILL before and after each
// of its calls to the store and to a real PostgreSQL server, and while the server
// acts on them. Between one life and the next what is declared is edited and the
// server altered by hand. After each death a new process brings the server in line,
// every other time with something else declared: nothing is double, nothing lost,
// nothing left behind.
//
// Negative control: with a database told from a stranger's by its comment alone,
// one that was begun by a process killed between CREATE DATABASE and COMMENT, and
// was not declared any more by then, stayed behind. Without the advisory lock one
// appeared after its role was to be dropped, and the program never came to an end.
func TestKilledAtEveryStepTheServerIsAsDeclared(t *testing.T) {
	const lanes = 6 // they wait for disks more than they compute
	var all sync.WaitGroup
	for n := range lanes {
		l := &lane{name: fmt.Sprintf("kill%d", n), dir: t.TempDir(), dsn: testServer(t), admin: connectAdmin(t)}
		all.Go(func() {
			if err := l.live(t.Context(), n+1, lanes); err != nil {
				t.Errorf("%s: %v", l.name, err)
			}
		})
	}
	all.Wait()
}
