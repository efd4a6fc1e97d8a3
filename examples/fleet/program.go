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

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
)

// Options are the flags that every example with several servers has.
type Options struct {
	Server, Etcd string        // to be one of the servers
	For          time.Duration // how long the show goes on
	TTL          time.Duration // of the leases
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
	flags.StringVar(&o.Server, "server", "", "be a server of this name (needs -etcd)")
	flags.StringVar(&o.Etcd, "etcd", "", "where that server finds etcd")
	if p.Flags != nil {
		p.Flags(flags)
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
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
		ctx, stop := UntilTold(in)
		defer stop()
		return p.Serve(ctx, o, out)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return p.Show(ctx, o, out)
}

// TestMain is that of an example's tests, in whose processes main is a server too.
func TestMain(m interface{ Run() int }, main func()) {
	if os.Getenv(ServerEnv) != "" {
		main()
	}
	os.Exit(m.Run())
}

// Open gives the etcd at an endpoint, and the objects of one kind in it.
func Open[S, T any](endpoint, kind string) (*etcd.Backend, *store.Store[S, T], error) {
	backend, err := etcd.New(clientv3.Config{Endpoints: []string{endpoint}}, nil)
	if err != nil {
		return nil, nil, err
	}
	objects, err := store.New[S, T](backend, kind, nil)
	if err != nil {
		return nil, nil, errors.Join(err, backend.Close())
	}
	return backend, objects, nil
}
