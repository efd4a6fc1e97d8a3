package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tendhq/tend/examples/pgserver"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/file"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
	"github.com/tendhq/tend/store/postgres"
)

// An app is one run of the program.
//
//	declared.yaml ─ declare ─▶ store ─▶ controllers ─▶ session ─▶ PostgreSQL
//	                             ▲          │
//	                             └─ status ◀┘
type app struct {
	o            options
	installation string // whose roles and databases these are
	log          *slog.Logger
	session      *session
	roles        *keeper[RoleSpec]
	databases    *keeper[DatabaseSpec]
	manager      reconcile.Manager
	out          *program.Printer

	mu   sync.Mutex // guards ours
	ours map[string]bool
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
			a := &app{o: o, out: program.NewPrinter(out), ours: make(map[string]bool)}
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
	a.manager.Logger = a.log
	a.known(d)
	if a.roles, err = newKeeper(a, backend, roles, func(d declared) map[string]RoleSpec { return d.Roles }); err != nil {
		return err
	}
	stored, err := a.roles.store.List(ctx, store.Selector{})
	if err != nil {
		return err
	}
	for _, o := range stored {
		a.ours[o.Name] = true
	}
	if a.databases, err = newKeeper(a, backend, databases, func(d declared) map[string]DatabaseSpec { return d.Databases }, a.owners()); err != nil {
		return err
	}
	if err = a.roles.controller.Watch(freed(a.databases, a.roles)); err != nil {
		return err
	}
	return a.manager.Register(a.roles.cache, a.databases.cache, a.roles.controller, a.databases.controller,
		a.roles.file.Controller(), a.databases.file.Controller())
}

// known keeps which roles are or were declared here.
func (a *app) known(d declared) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name := range d.Roles {
		a.ours[name] = true
	}
}

// keep runs everything until ctx ends, or with -once until nothing is left to do.
func (a *app) keep(ctx context.Context) error {
	o := &program.Options{
		Parts: []program.Part{a.roles.file, a.databases.file, a.roles.objects, a.databases.objects},
		Once:  a.o.Once, Out: a.out, Left: a.left,
	}
	if o.Once {
		o.Timeout = a.o.Timeout
	}
	if a.o.Listen != "" {
		page, err := web.Listen(a.o.Listen, &a.manager, &web.Options{Objects: []objects.Kind{objects.OfCache(a.roles.cache), objects.OfCache(a.databases.cache)}})
		if err != nil {
			return err
		}
		a.out.Line("serving http://%s/debug", page.Addr())
		if err := a.manager.Register(page); err != nil {
			return errors.Join(err, page.Close())
		}
	}
	o.Complete = func(context.Context) error {
		a.out.Line("%d roles and %d databases are as declared", a.roles.objects.Progress().Done, a.databases.objects.Progress().Done)
		return nil
	}
	return program.Run(ctx, &a.manager, o)
}

var waits = []string{depend.ReasonInUse, depend.ReasonNotFound, depend.ReasonNotReady, depend.ReasonCycle}

// left says what fails, and what waits for another.
func (a *app) left(l program.Left) {
	switch {
	case l.Failing:
		a.out.Line("x %s %s  %s", l.Kind, l.Key.Name, l.Why)
	case slices.ContainsFunc(waits, func(reason string) bool { return strings.HasPrefix(l.Why, reason) }):
		a.out.Line(". %s %s  %s", l.Kind, l.Key.Name, l.Why)
	}
}

var signs = map[string]string{"create": "+", "update": "~", "delete": "-"}

// changed is told of everything that was done to the server, or tried; what
// failed is said by left.
func (a *app) changed(_ context.Context, c external.Change) {
	if c.Err == nil {
		a.out.Line("%s %s %s  %s", signs[c.Action], c.Kind, c.Key.Name, c.Before.Diff)
	}
}
