package fleet

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
)

// Options are the flags that every example with several servers has.
type Options struct {
	Place
	Server string        // to be one of the servers
	For    time.Duration // how long the show goes on
	TTL    time.Duration // of the leases
	With   string        // the program of every second server, another version of this one
	Listen bool          // every server serves its debug page

	Asked <-chan string // of a server: receives what it is to answer; see Fleet.Ask
}

// Program is an example: the show, or with -server one of its servers.
type Program struct {
	Name  string
	TTL   string              // what -ttl is
	Flags func(*flag.FlagSet) // adds flags of its own; nil: none
	Check func() error        // looks at them; nil: no need to
	Serve func(ctx context.Context, o Options, out io.Writer) error
	Show  func(ctx context.Context, o Options, out io.Writer) error
}

// Run is main with its surroundings as arguments. It returns the exit code.
func (p Program) Run(args []string, in io.Reader, out, errs io.Writer) int {
	var o Options
	flags := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.DurationVar(&o.For, "for", 0, "go on for so long; 0: once through")
	flags.DurationVar(&o.TTL, "ttl", 2*time.Second, p.TTL)
	flags.StringVar(&o.Server, "server", "", "be a server of this name (needs -etcd, or -store postgres and -schema)")
	flags.StringVar(&o.With, "with", "", "every second server is this `program`, another version of the example")
	flags.BoolVar(&o.Listen, "listen", false, "every server serves its health, metrics and debug page on a free port")
	flags.StringVar(&o.Store, "store", Etcd, "the store that the servers share: etcd or postgres")
	flags.StringVar(&o.Endpoint, "etcd", "", "where a server finds etcd; without -server one is started in this process")
	flags.StringVar(&o.DSN, "dsn", os.Getenv(dsnEnv), "the PostgreSQL database, as a URL or key=value pairs (default: a private server from the machine's binaries)")
	flags.StringVar(&o.Schema, "schema", "", "the schema in it, which stays (default: a new one, which is removed at the end)")
	if p.Flags != nil {
		p.Flags(flags)
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if o.Store != Etcd && o.Store != Postgres {
		fmt.Fprintf(errs, "%s: -store %s: want etcd or postgres\n", p.Name, o.Store)
		return 2
	}
	if o.Endpoint != "" && o.Server == "" {
		fmt.Fprintf(errs, "%s: -etcd is for -server; the show starts an etcd of its own\n", p.Name)
		return 2
	}
	if err := p.play(o, in, out); err != nil {
		fmt.Fprintf(errs, "%s: %v\n", p.Name, err)
		return 1
	}
	return 0
}

func (p Program) play(o Options, in io.Reader, out io.Writer) error {
	if p.Check != nil {
		if err := p.Check(); err != nil {
			return err
		}
	}
	if o.Server != "" {
		ctx, asked, stop := UntilTold(in)
		defer stop()
		o.Asked = asked
		return p.Serve(ctx, o, out)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return p.Show(ctx, o, out)
}

// AsServer runs main, and ends the process, if it is to be a server of an example's tests.
func AsServer(main func()) {
	if os.Getenv(ServerEnv) != "" {
		main()
		os.Exit(0)
	}
}
