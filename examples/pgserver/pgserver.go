// Package pgserver starts a private PostgreSQL server from the binaries on the machine. It is
// part of the examples, not of tend.
package pgserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoBinaries is the error of a machine without PostgreSQL.
var ErrNoBinaries = errors.New("there is no PostgreSQL server on this machine (initdb and pg_ctl, in PATH or /usr/lib/postgresql/*/bin): " +
	"install one, for example with apt-get install postgresql, or name a running one with -dsn")

// Server is a server in a temporary directory. It listens there and nowhere else, and ends
// with the process that started it, even by kill -9.
type Server struct {
	DSN string

	dir   string
	shell *exec.Cmd
	life  io.Closer // the shell's standard input
}

// script runs the server for as long as its standard input is open, which is as long as
// this process lives. The server does not sync: its data ends with it.
const script = `
trap 'pg_ctl -D "$1/data" -m immediate -t 180 stop >>"$1/log" 2>&1; rm -rf "$1" 2>/dev/null' EXIT
initdb -D "$1/data" -U postgres -A trust -N -E UTF8 --no-locale >"$1/log" 2>&1 &&
pg_ctl -D "$1/data" -l "$1/log" -w -t 180 -o "-k '$1' -c listen_addresses= -c fsync=off -c shared_buffers=16MB" start >>"$1/log" 2>&1 || {
	tail -n 5 "$1/log"
	exit 1
}
echo ready
cat >/dev/null
`

// Start makes a server and waits until it answers. The error is ErrNoBinaries, or what the
// server said.
func Start() (*Server, error) {
	bin, err := findBinaries("/usr/lib/postgresql/*/bin")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent(), "tend-postgres-")
	if err != nil {
		return nil, err
	}
	p := &Server{
		dir:   dir,
		DSN:   fmt.Sprintf("host=%s user=postgres dbname=postgres", dir),
		shell: exec.Command("/bin/sh", "-c", script, "sh", dir), // it ends by its input
	}
	p.shell.Dir = dir
	p.shell.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	if err := lowerPrivileges(p.shell, dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := p.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start a private PostgreSQL server: %w", err), os.RemoveAll(dir))
	}
	return p, nil
}

// parent is where the server's directory goes: the server's user, which may be another one
// than this process's, must be able to enter it, and the path of a socket in it has 107
// bytes at most.
func parent() string {
	if dir := os.TempDir(); os.Geteuid() != 0 && len(dir) < 60 {
		return dir
	}
	return "/tmp"
}

func (p *Server) start() error {
	life, err := p.shell.StdinPipe()
	if err != nil {
		return err
	}
	p.life = life
	words, err := p.shell.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.shell.Start(); err != nil {
		return err
	}
	var said []string
	for lines := bufio.NewScanner(words); lines.Scan(); {
		if lines.Text() == "ready" {
			return nil
		}
		said = append(said, lines.Text())
	}
	return errors.Join(errors.New(strings.Join(said, "; ")), p.Stop())
}

// Stop ends the server and removes what it kept.
func (p *Server) Stop() error {
	err := p.life.Close()
	return errors.Join(err, p.shell.Wait(), os.RemoveAll(p.dir))
}

// findBinaries is the directory of initdb and pg_ctl: where PATH has them, else
// the last that the pattern matches.
func findBinaries(pattern string) (string, error) {
	if initdb, err := exec.LookPath("initdb"); err == nil {
		if _, err := exec.LookPath("pg_ctl"); err == nil {
			return filepath.Dir(initdb), nil
		}
	}
	found, err := filepath.Glob(filepath.Join(pattern, "initdb"))
	if err != nil || len(found) == 0 {
		return "", ErrNoBinaries
	}
	return filepath.Dir(found[len(found)-1]), nil
}
