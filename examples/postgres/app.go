package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/tendhq/tend/examples/pgserver"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/store"
	_ "github.com/tendhq/tend/store/file" // for -store
	_ "github.com/tendhq/tend/store/memory"
	_ "github.com/tendhq/tend/store/postgres"
)

// An app is one run of the program.
//
//	declared.yaml ─ declare ─▶ store ─▶ controllers ─▶ session ─▶ PostgreSQL
//	                             ▲          │
//	                             └─ status ◀┘
type app struct {
	o            options
	installation string // whose roles and databases these are
	session      *session
	program      *program.Program
	roles        *program.Objects[RoleSpec, Seen[RoleSpec]]
	databases    *program.Objects[DatabaseSpec, Seen[DatabaseSpec]]
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
	a := &app{o: o, out: program.NewPrinter(out), ours: make(map[string]bool)}
	if o.DSN != "" {
		return a.run(ctx, o.DSN, d)
	}
	server, err := pgserver.Start() // of our own, which lives as long as this runs
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "a private server, until this ends; to look: psql '%s'\n", server.DSN)
	return errors.Join(a.run(ctx, server.DSN, d), server.Stop())
}

// run keeps what is declared in the server of a DSN.
func (a *app) run(ctx context.Context, dsn string, d declared) (err error) {
	a.program = program.Open(ctx, a.o.Store)
	a.program.Manager.Logger = slog.New(slog.DiscardHandler)
	if a.o.Verbose {
		a.program.Manager.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if a.o.backend != nil {
		a.program.Wrap(a.o.backend)
	}
	// With a store that forgets, one name stands for all runs, so that each takes
	// over what the one before it made.
	a.installation = "demo"
	if a.o.durable() {
		a.installation, err = store.Installation(ctx, a.program.Backend())
		a.program.Check(err)
	}
	if a.session, err = newSession(dsn, a.installation, a.o.dial); err != nil {
		return errors.Join(err, a.program.Backend().Close())
	}
	a.known(d)
	a.roles = keep(a, roles, func(d declared) map[string]RoleSpec { return d.Roles })
	stored, err := a.roles.List(ctx, store.Selector{})
	a.program.Check(err)
	for _, o := range stored {
		a.ours[o.Name] = true
	}
	a.databases = keep(a, databases, func(d declared) map[string]DatabaseSpec { return d.Databases }, a.owners())
	a.roles.AddSources(a.freed())
	return errors.Join(a.keep(ctx), a.session.close())
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
	if a.o.Listen != "" {
		page, err := web.Listen(a.o.Listen, nil, &web.Options{Program: a.program})
		if a.program.Use(page, err); err == nil {
			a.out.Line("serving http://%s/debug", page.Addr())
		}
	}
	o := &program.Options{Once: a.o.Once, Out: a.out, Left: a.left}
	if o.Once {
		o.Timeout = a.o.Timeout
	}
	o.Complete = func(context.Context) error {
		a.out.Line("%d roles and %d databases are as declared", a.roles.Progress().Progress().Done, a.databases.Progress().Progress().Done)
		return nil
	}
	return a.program.Run(ctx, o)
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
