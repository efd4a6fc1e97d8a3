package fleet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// Serve runs a server of one kind until ctx ends: place makes its placement, and build its
// controller with that. What the server owns is said on out, and with -listen where its
// health, metrics and debug page are.
func Serve[S, T any](ctx context.Context, o Options, out io.Writer, kind string,
	place func(store.Backend, *lease.Options) (lease.Placement, error),
	build func(*store.Store[S, T], lease.Placement) (*reconcile.ObjectController[S, T], error),
) error {
	backend, all, err := Open[S, T](ctx, o.Place, kind)
	if err != nil {
		return err
	}
	defer backend.Close()
	manager := reconcile.Manager{Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))} // what fails
	placement, err := place(backend, &lease.Options{TTL: o.TTL, Server: o.Server, Logger: manager.Logger})
	if err != nil {
		return err
	}
	controller, err := build(all, Told(placement, out))
	if err != nil {
		return err
	}
	return Run(ctx, o, out, &manager, controller)
}

// Run runs a server's manager with one controller until ctx ends. With -listen it serves
// health, metrics and the debug page, and says where.
func Run[S, T any](ctx context.Context, o Options, out io.Writer, manager *reconcile.Manager, controller *reconcile.ObjectController[S, T]) error {
	if err := manager.Register(controller); err != nil {
		return err
	}
	if o.Listen {
		page, err := web.Listen("localhost:0", manager, &web.Options{Objects: []objects.Kind{objects.OfCache(controller.Cache())}})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "http://%s/debug\n", page.Addr())
		if err := manager.Register(page); err != nil {
			return errors.Join(err, page.Close())
		}
	}
	return program.Run(ctx, manager, nil)
}

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
