package fleet

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/reconcile/web/debug"
)

// Serve runs a server until ctx ends: the program that build puts together on the store. Lease is
// for its placement. With -listen it serves health, metrics and the debug page, and says on out where.
func Serve(ctx context.Context, o Options, out io.Writer, build func(p *program.Program, lease *lease.Options)) error {
	p := program.New(o.Open(ctx))
	defer p.Backend().Close()
	if err := p.Err(); err != nil {
		return err
	}
	p.Manager.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})) // what fails; the show has its own lines
	build(p, &lease.Options{TTL: o.TTL, Server: o.Server, Logger: p.Manager.Logger})
	if o.Listen {
		listen(p, o, out)
	}
	return p.Run(ctx, nil)
}

// listen serves health, metrics and the debug page. The servers tell each other where, so that their
// pages lead to each other.
func listen(p *program.Program, o Options, out io.Writer) {
	pages, err := lease.NewMembers(p.Backend(), "pages", &lease.Options{TTL: o.TTL, Server: o.Server, Logger: p.Manager.Logger})
	if p.Use(pages, err); err != nil {
		return
	}
	others := func() map[string]string {
		said := pages.Said()
		delete(said, o.Server)
		return said
	}
	page, err := web.Listen("localhost:0", nil, &web.Options{Program: p, Debug: &debug.Options{Title: "server " + o.Server, Servers: others}})
	if p.Use(page, err); err != nil {
		return
	}
	at := fmt.Sprintf("http://%s/debug", page.Addr())
	pages.Say(at)
	fmt.Fprintln(out, at)
}

// A Runner is a function that a program runs: p.Use(Runner(f), nil).
type Runner func(ctx context.Context) error

// Run implements reconcile.Runner.
func (f Runner) Run(ctx context.Context) error { return f(ctx) }

// UntilTold gives a server's context: it ends with a signal, and with the end of
// in, by which a Fleet tells its servers to stop in good order. Each line before that is a
// question (Fleet.Ask): asked receives it.
func UntilTold(in io.Reader) (ctx context.Context, asked <-chan string, stop context.CancelFunc) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	questions := make(chan string, 1)
	go func() { // ends with the process
		for lines := bufio.NewScanner(in); lines.Scan(); {
			select {
			case questions <- lines.Text():
			default: // one waits already
			}
		}
		stop()
	}()
	return ctx, questions, stop
}

// Told is the placement p, and says on out which shards the server begins to work
// on, under which token, and which it has ended: "+ SHARD TOKEN" and "- SHARD".
// The end is said before the lease is released.
func Told(p lease.Placement, out io.Writer) lease.Placement { return &told{Placement: p, out: out} }

type told struct {
	lease.Placement

	mu  sync.Mutex // guards out
	out io.Writer
}

// Holder is the server that holds a shard's lease, as the placement itself says.
func (p *told) Holder(shard int) (server string, ok bool) {
	if of, knows := p.Placement.(interface{ Holder(int) (string, bool) }); knows {
		return of.Holder(shard)
	}
	return "", false
}

// Run implements lease.Placement.
func (p *told) Run(ctx context.Context, work lease.Work) error {
	return p.Placement.Run(ctx, func(ctx context.Context, shard int) error {
		token, _ := lease.Token(ctx)
		p.say("+ %d %d\n", shard, token)
		defer p.say("- %d\n", shard)
		return work(ctx, shard)
	})
}

func (p *told) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format, args...)
}
