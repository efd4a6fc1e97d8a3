// Package fleet is what the examples with several servers share: it starts an etcd inside the
// process, or a private PostgreSQL server, and servers as processes of their own, which can
// therefore be killed as a power cut would, and it knows which of them owns what.
//
//	Fleet ── etcd (in this process) or PostgreSQL
//	  ├── server a ─┐ os.Executable() with -server a -etcd ENDPOINT, which says on
//	  ├── server b ─┤ its standard output what it owns (Told), and stops in good
//	  └── server c ─┘ order when its standard input ends (UntilTold)
//
// It is part of the examples, not of tend.
package fleet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tendhq/tend/store"
)

// ServerEnv is set in the environment of the servers, so that the tests of an
// example know that they are to be one.
const ServerEnv = "TEND_EXAMPLE_SERVER"

// Owner is a server's hold on a shard.
type Owner struct {
	Server string
	Token  uint64
	Since  time.Time
}

// Fleet is a shared store and the servers on it. Its methods are safe for concurrent
// use, except that a server is to be stopped by one caller.
type Fleet struct {
	out   io.Writer
	args  []string
	other string // the program of every second server; "": none
	place Place
	began time.Time
	stop  func() error // ends what holds the store

	mu      sync.Mutex // guards what follows
	live    map[string]*process
	starts  int
	owners  map[int]Owner
	tokens  map[int]uint64    // the highest seen
	moves   int               // times that a shard went to another hold
	answers map[string]string // by server: the last line that begins with "= "
	problem error             // the first thing that must not happen
	changed chan struct{}     // closed and replaced when something changes
}

// lockedWriter lets the servers' standard error and the events take turns.
type lockedWriter struct {
	mu  sync.Mutex // guards out
	out io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	read  chan struct{} // closed when its output has been read to the end
	told  bool          // that it is to end
}

// New makes a store ready as o says. Every server will get args. Close must be called.
func New(out io.Writer, o Options, args ...string) (*Fleet, error) {
	place, stop, err := newPlace(o)
	if err != nil {
		return nil, err
	}
	if o.Listen {
		args = append(args, "-listen")
	}
	return &Fleet{
		out: &lockedWriter{out: out}, args: args, other: o.With, place: place, stop: stop, began: time.Now(),
		live: make(map[string]*process), owners: make(map[int]Owner), tokens: make(map[int]uint64),
		answers: make(map[string]string),
		changed: make(chan struct{}),
	}, nil
}

// Show calls f with a fleet and with the objects of one kind in its store, and ends what
// still runs when f has returned.
func Show[S, T any](ctx context.Context, out io.Writer, o Options, kind string, f func(*Fleet, *store.Store[S, T]) error, args ...string) (err error) {
	fleet, err := New(out, o, append([]string{"-ttl", o.TTL.String()}, args...)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fleet.Close()) }()
	backend, err := fleet.place.Open(ctx)
	if err != nil {
		return err
	}
	defer backend.Close()
	all, err := store.New[S, T](backend, kind, nil)
	if err != nil {
		return err
	}
	return f(fleet, all)
}

// Place is where the store is.
func (f *Fleet) Place() Place { return f.place }

// Say prints one event with the time since the beginning.
func (f *Fleet) Say(format string, args ...any) {
	fmt.Fprintf(f.out, "%6.2fs  %s\n", time.Since(f.began).Seconds(), fmt.Sprintf(format, args...))
}

// program returns what the next server runs.
func (f *Fleet) program() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starts++
	if f.other != "" && f.starts%2 == 0 {
		return f.other, nil
	}
	return os.Executable()
}

// Start starts a server.
func (f *Fleet) Start(name string) error {
	program, err := f.program()
	if err != nil {
		return err
	}
	p := &process{read: make(chan struct{})}
	p.cmd = exec.Command(program, slices.Concat([]string{"-server", name}, f.place.flags(), f.args)...)
	p.cmd.Env = append(os.Environ(), ServerEnv+"=1", dsnEnv+"="+f.place.DSN)
	p.cmd.Stderr = f.out
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("starting server %s: %w", name, err)
	}
	f.mu.Lock()
	f.live[name] = p
	f.mu.Unlock()
	go f.listen(name, p, out) // ends with the process; waited for by gone
	return nil
}

// StartAll starts servers, and says so.
func (f *Fleet) StartAll(names ...string) error {
	for _, name := range names {
		if err := f.Start(name); err != nil {
			return err
		}
		f.Say("%s is started", name)
	}
	return nil
}

// Play plays rounds until the time is over, at least one, and then stops all servers.
// That ctx ends is no error: the sum is drawn all the same.
func (f *Fleet) Play(ctx context.Context, atLeast time.Duration, round func(n int) error) error {
	began := time.Now()
	for n := 0; ; n++ {
		if err := round(n); err != nil && ctx.Err() == nil {
			return err
		}
		if ctx.Err() != nil || time.Since(began) >= atLeast {
			break
		}
	}
	if err := f.StopAll(); err != nil {
		return err
	}
	f.Say("all are stopped")
	return nil
}

// listen takes what a server says until it ends.
func (f *Fleet) listen(name string, p *process, out io.Reader) {
	defer close(p.read)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		f.hear(name, lines.Text())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !p.told {
		f.wrongLocked(fmt.Errorf("server %s ended without being told to", name))
	}
	maps.DeleteFunc(f.owners, func(_ int, o Owner) bool { return o.Server == name })
	delete(f.live, name)
	f.notifyLocked()
}

func (f *Fleet) hear(name, line string) {
	var shard int
	var token uint64
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.notifyLocked()
	if _, err := fmt.Sscanf(line, "+ %d %d", &shard, &token); err == nil {
		// Pipes are read in any order, so a lower token may be heard of late;
		// the same one twice cannot be.
		if token == f.tokens[shard] {
			f.wrongLocked(fmt.Errorf("shard %d: %s works under token %d, which was given already", shard, name, token))
		}
		if token > f.tokens[shard] {
			f.owners[shard], f.tokens[shard] = Owner{name, token, time.Now()}, token
			f.moves++
		}
		return
	}
	if _, err := fmt.Sscanf(line, "- %d", &shard); err == nil {
		if f.owners[shard].Server == name {
			delete(f.owners, shard)
		}
		return
	}
	if answer, ok := strings.CutPrefix(line, "= "); ok {
		f.answers[name] = answer
		return
	}
	fmt.Fprintf(f.out, "%s: %s\n", name, line)
}

// Ask asks each server that runs a question of one line, and gives what they answer, by server:
// a line that begins with "= ", which is left out. A server that ends meanwhile is left out.
func (f *Fleet) Ask(ctx context.Context, question string) (map[string]string, error) {
	f.mu.Lock()
	for name, p := range f.live {
		delete(f.answers, name)
		if !p.told {
			fmt.Fprintln(p.stdin, question) // a server that has ended does not answer
		}
	}
	f.mu.Unlock()
	answers := make(map[string]string)
	err := f.Await(ctx, "each server to answer", func() (bool, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		clear(answers)
		for name := range f.live {
			if answers[name] = f.answers[name]; answers[name] == "" {
				return false, nil
			}
		}
		return true, nil
	})
	return answers, err
}

func (f *Fleet) notifyLocked() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// Owners returns the live server that works on each shard.
func (f *Fleet) Owners() map[int]Owner {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.owners)
}

// Moves counts how often a shard began to be worked on.
func (f *Fleet) Moves() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.moves
}

// Live lists the servers that run.
func (f *Fleet) Live() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.live))
}

// Wrong notes that something has happened that must not; Await fails with the
// first of it.
func (f *Fleet) Wrong(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrongLocked(err)
	f.notifyLocked()
}

func (f *Fleet) wrongLocked(err error) {
	if f.problem == nil {
		f.problem = err
	}
}

// Await waits until ready says so; it is asked whenever a server says something,
// and ten times a second. It fails when something has gone wrong. An error of
// ready's is not that: on a machine that stood still for a while the store has left a
// question unanswered, and is asked again. It is told when ctx ends.
func (f *Fleet) Await(ctx context.Context, what string, ready func() (bool, error)) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		f.mu.Lock()
		changed, problem := f.changed, f.problem
		f.mu.Unlock()
		if problem != nil {
			return problem
		}
		ok, err := ready()
		if ok {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx)), last)
		}
	}
}

// Kill ends a server as a power cut would.
func (f *Fleet) Kill(name string) error {
	p, err := f.dismiss(name)
	if err != nil {
		return err
	}
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("killing server %s: %w", name, err)
	}
	<-p.read
	_ = p.cmd.Wait() // it says that it was killed
	return nil
}

// Stop has a server stop in good order, and waits until it has.
func (f *Fleet) Stop(name string) error {
	p, err := f.dismiss(name)
	if err != nil {
		return err
	}
	p.stdin.Close()
	<-p.read
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("stopping server %s: %w", name, err)
	}
	return nil
}

func (f *Fleet) dismiss(name string) (*process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.live[name]
	if !ok || p.told {
		return nil, fmt.Errorf("no server %s is running", name)
	}
	p.told = true
	return p, nil
}

// StopAll stops every server in good order.
func (f *Fleet) StopAll() error {
	var errs []error
	for _, name := range f.Live() {
		errs = append(errs, f.Stop(name))
	}
	return errors.Join(errs...)
}

// Close ends what still runs, and removes the data.
func (f *Fleet) Close() error {
	for _, name := range f.Live() {
		_ = f.Kill(name)
	}
	return f.stop()
}
