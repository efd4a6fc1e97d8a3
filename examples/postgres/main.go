// Command postgres keeps the roles and databases of a PostgreSQL server as a
// file declares them. By default it starts a server of its own, from the
// binaries on the machine, which is gone when the program ends; -dsn names any
// other.
//
//	go run ./examples/postgres              # converge, and keep it so
//	go run ./examples/postgres -once        # converge, and exit
//	go run ./examples/postgres -dsn postgres://me@host/postgres -store file:roles.db
//	go run ./examples/postgres -dsn postgres://me@host/postgres -store postgres://me@host/postgres
//
// While it runs, alter something by hand with the psql command that it prints,
// and see it put back.
//
// What is ours carries a mark in its COMMENT; what carries none, or another's, is
// never touched. A role that owns a database cannot be dropped before it: the
// server refuses, the role's object shows why, and keeps its finalizer until the
// database has gone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tendhq/tend/store"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command is main with its surroundings as arguments. It returns the exit code.
func command(ctx context.Context, args []string, out, errs io.Writer) int {
	o, err := parseOptions(args, errs)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		err = run(ctx, o, out)
	}
	if err != nil {
		fmt.Fprintln(errs, "postgres:", err)
		return 1
	}
	return 0
}

// options are the flags.
type options struct {
	File    string
	DSN     string
	Store   string
	Listen  string
	Once    bool
	Verbose bool
	Poll    time.Duration
	Timeout time.Duration

	// What tests put in between.
	backend func(store.Backend) (store.Backend, error)
	dial    pgconn.DialFunc
}

// durable: the store outlives this process.
func (o options) durable() bool { return o.Store != inMemory }

const inMemory = "memory"

func parseOptions(args []string, out io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("postgres", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.File, "file", "examples/postgres/declared.yaml", "the roles and databases declared")
	f.StringVar(&o.DSN, "dsn", "", "the server, as a URL or key=value pairs (default: a private one, for as long as this runs)")
	f.StringVar(&o.Store, "store", inMemory, "the store of what is declared: memory, file:PATH, or postgres://USER@HOST/DATABASE, also in the server that is looked after")
	f.StringVar(&o.Listen, "listen", "", "serve health, metrics and the debug page at this address, such as localhost:8080")
	f.BoolVar(&o.Once, "once", false, "converge and exit")
	f.BoolVar(&o.Verbose, "v", false, "log what the kernel does")
	f.DurationVar(&o.Poll, "poll", 5*time.Second, "how often each role and database is looked at")
	f.DurationVar(&o.Timeout, "timeout", 2*time.Minute, "how long -once may take")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.Poll <= 0 || o.Timeout <= 0:
		return o, errors.New("-poll and -timeout must be above zero")
	case o.durable() && o.DSN == "":
		return o, errors.New("-store is for a server that outlives this program: it needs -dsn")
	}
	return o, nil
}
