package fleet

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/tendhq/tend/reconcile/lease"
)

// UntilTold gives a server's context: it ends with a signal, and with the end of
// in, by which a Fleet tells its servers to stop in good order. Each line before that is a
// question (Fleet.Ask): asked receives a value.
func UntilTold(in io.Reader) (ctx context.Context, asked <-chan struct{}, stop context.CancelFunc) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	questions := make(chan struct{}, 1)
	go func() { // ends with the process
		for lines := bufio.NewScanner(in); lines.Scan(); {
			select {
			case questions <- struct{}{}:
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
