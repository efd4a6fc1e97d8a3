package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tendhq/tend/examples/pgserver"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/file"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/postgres"
)

// An app is one run of the program.
//
//	declared.yaml ─ Apply ─▶ store ─▶ controllers ─▶ session ─▶ PostgreSQL
//	                           ▲          │
//	                           └─ status ◀┘
type app struct {
	o            options
	installation string // whose roles and databases these are
	log          *slog.Logger
	session      *session
	roles        *keeper[RoleSpec]
	databases    *keeper[DatabaseSpec]
	manager      reconcile.Manager
	news         chan struct{} // holds a value when left may have a new answer

	mu    sync.Mutex // guards what follows, and keeps lines whole
	out   io.Writer
	began time.Time
}

// run does everything, and returns what kept it from converging, or nil. It ends
// when ctx does, or with -once when there is nothing left to do.
func run(ctx context.Context, o options, out io.Writer) error {
	d, err := readDeclared(o.File)
	if err != nil {
		return err
	}
	return withServer(o, out, func(dsn string) error {
		return withState(ctx, o, dsn, func(backend store.Backend) error {
			a := &app{o: o, out: out, began: time.Now(), news: make(chan struct{}, 1)}
			if err := a.prepare(ctx, dsn, backend, d); err != nil {
				return err
			}
			return errors.Join(a.keep(ctx), a.session.close())
		})
	})
}

// withServer calls f with a server's DSN; without -dsn that of one of our own,
// which lives as long as f.
func withServer(o options, out io.Writer, f func(dsn string) error) error {
	if o.DSN != "" {
		return f(o.DSN)
	}
	server, err := pgserver.Start()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "a private server, until this ends; to look: psql '%s'\n", server.DSN)
	return errors.Join(f(server.DSN), server.Stop())
}

// withState calls f with the state open: the directory's file, which one process at a time
// may have, or the schema tend of the server itself, or a fresh one in memory.
func withState(ctx context.Context, o options, dsn string, f func(store.Backend) error) error {
	var state store.Backend
	var err error
	switch o.State {
	case "":
		state, err = memory.New(nil)
	case stateInServer:
		state, err = postgres.Open(ctx, dsn, nil)
	default:
		if err = os.MkdirAll(o.State, 0o700); err == nil {
			state, err = file.Open(filepath.Join(o.State, "postgres.db"), nil)
		}
	}
	if err != nil {
		return fmt.Errorf("-state: %w", err)
	}
	backend := state
	if o.backend != nil {
		backend = o.backend(state)
	}
	return errors.Join(f(backend), state.Close())
}

// prepare puts everything together and starts nothing.
func (a *app) prepare(ctx context.Context, dsn string, backend store.Backend, d declared) (err error) {
	// With a store that forgets, one name stands for all runs, so that each takes
	// over what the one before it made.
	a.installation = "demo"
	if a.o.State != "" {
		if a.installation, err = store.Installation(ctx, backend); err != nil {
			return err
		}
	}
	a.log = slog.New(slog.DiscardHandler)
	if a.o.Verbose {
		a.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if a.session, err = newSession(dsn, a.installation, a.o.dial); err != nil {
		return err
	}
	if a.roles, err = newKeeper(a, backend, roles, d.Roles); err != nil {
		return err
	}
	stored, err := a.roles.store.List(ctx, store.Selector{})
	if err != nil {
		return err
	}
	if a.databases, err = newKeeper(a, backend, databases, d.Databases, owners(a.roles, stored)); err != nil {
		return err
	}
	if err = a.roles.controller.Watch(freed(a.databases, a.roles)); err != nil {
		return err
	}
	return a.manager.Register(a.roles.cache, a.databases.cache, a.roles.controller, a.databases.controller)
}

var errTimeout = errors.New("-timeout is over")

// keep loads what is declared and runs the controllers until ctx ends, or with
// -once until nothing is left to do.
func (a *app) keep(ctx context.Context) error {
	if a.o.Once {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, a.o.Timeout, errTimeout)
		defer cancel()
	}
	if err := a.load(ctx); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- a.manager.Run(running) }() // received below, on every way out
	var helpers sync.WaitGroup
	helpers.Go(func() { follow(running, a, a.roles) })
	helpers.Go(func() { follow(running, a, a.databases) })
	err := a.await(ctx, ended)
	stop()
	helpers.Wait()
	return errors.Join(err, <-ended)
}

func (a *app) load(ctx context.Context) error {
	if err := a.roles.load(ctx); err != nil {
		return err
	}
	return a.databases.load(ctx)
}

// follow says what stands in the way of each object, and wakes the app at every
// change of a cache, until ctx ends.
func follow[S comparable](ctx context.Context, a *app, k *keeper[S]) {
	for ch, err := range k.cache.Changes(ctx) {
		switch {
		case err != nil:
			return
		case ch.Synced:
		case ch.New == nil: // one that is declared again may have waited for this
			if err := k.load(ctx); err != nil && ctx.Err() == nil {
				a.say("%v", err)
			}
		default:
			if why := obstacle(ch.New); why != "" && why != obstacle(ch.Old) {
				a.say("x %s %s  %s", k.thing.kind, ch.Key.Name, why)
			}
			if why := waitsFor(ch.New); why != "" && why != waitsFor(ch.Old) {
				a.say(". %s %s  %s", k.thing.kind, ch.Key.Name, why)
			}
		}
		a.wake()
	}
}

func (a *app) wake() {
	select {
	case a.news <- struct{}{}:
	default: // there is news already
	}
}

// await returns when nothing is left to do, nil if that is what was asked for.
// The manager, which ctx ends too, may be the first to say so: what is left is
// told all the same, and as it is then.
func (a *app) await(ctx context.Context, ended chan error) error {
	for reached := false; ctx.Err() == nil; {
		left := a.left()
		if len(left) == 0 && !reached {
			a.say("%d roles and %d databases are as declared", len(a.roles.declared), len(a.databases.declared))
		}
		reached = len(left) == 0
		if reached && a.o.Once {
			return nil
		}
		select {
		case <-a.news:
		case err := <-ended:
			ended <- nil
			if err != nil || ctx.Err() == nil {
				return err
			}
		case <-ctx.Done():
		}
	}
	if left := a.left(); len(left) > 0 {
		return fmt.Errorf("%w; left:\n  %s", context.Cause(ctx), strings.Join(left, "\n  "))
	}
	return nil
}

// left lists what is not known to be as declared, of both kinds.
func (a *app) left() []string { return append(a.roles.left(), a.databases.left()...) }

func (a *app) say(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fmt.Fprintf(a.out, "%6.1fs  %s\n", time.Since(a.began).Seconds(), fmt.Sprintf(format, args...))
}

var signs = map[string]string{"create": "+", "update": "~", "delete": "-"}

// changed is told of everything that was done to the server, or tried; what
// failed is said by follow.
func (a *app) changed(_ context.Context, c external.Change) {
	if c.Err == nil {
		a.say("%s %s %s  %s", signs[c.Action], c.Kind, c.Key.Name, c.Before.Diff)
	}
}
