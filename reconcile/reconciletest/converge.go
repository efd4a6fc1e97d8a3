package reconciletest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tendhq/tend/reconcile"
)

// Converge looks until check returns nil, and returns its last error if that takes
// longer than within. It looks at once, and then once a second, so it belongs into
// a synctest bubble, where that takes no time. Then it goes on to look, for stays: what
// is as it should be has to remain so all the time.
func Converge(ctx context.Context, within, stays time.Duration, check func() error) error {
	begun := time.Now()
	for {
		err := check()
		if err == nil {
			break
		}
		if time.Since(begun) >= within {
			return fmt.Errorf("reconciletest: not converged after %v: %w", within, err)
		}
		if sleep(ctx, time.Second) != nil {
			return fmt.Errorf("reconciletest: %w before it converged: %w", context.Cause(ctx), err)
		}
	}
	for converged, later := time.Now(), time.Duration(0); later < stays; {
		if err := sleep(ctx, min(time.Second, stays-later)); err != nil {
			return fmt.Errorf("reconciletest: %w before it had stayed converged", context.Cause(ctx))
		}
		later = time.Since(converged)
		if err := check(); err != nil {
			return fmt.Errorf("reconciletest: converged, and %v later no more: %w", later, err)
		}
	}
	return nil
}

// errStop is why a life of startStop ended.
var errStop = errors.New("reconciletest: told to stop")

// startStop gives a system many short lives: it makes it, runs it, and tells it to
// stop at a random moment of up to longest, sometimes before it has begun. Each Run
// has to return within an hour, and without an error; what goroutines it leaves
// behind the synctest bubble tells that this belongs into. The same seed gives the
// same moments.
func startStop(ctx context.Context, seed uint64, lives int, longest time.Duration, system func() (reconcile.Runner, error)) error {
	if longest <= 0 {
		return fmt.Errorf("reconciletest: StartStop: longest is %v, want more than zero", longest)
	}
	random := rand.New(rand.NewPCG(seed, 0x57a7))
	for n := range lives {
		life := time.Duration(random.Int64N(int64(longest)))
		if random.IntN(8) == 0 {
			life = 0
		}
		if err := oneLife(ctx, life, system); err != nil {
			return fmt.Errorf("reconciletest: StartStop: seed %d, life %d, stopped after %v: %w", seed, n, life, err)
		}
	}
	return nil
}

func oneLife(ctx context.Context, life time.Duration, system func() (reconcile.Runner, error)) error {
	r, err := system()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(errStop)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }() // ended by stop; waited for below
	over := time.NewTimer(life)
	defer over.Stop()
	select {
	case err := <-ended:
		return errors.Join(errors.New("it ended by itself"), err)
	case <-over.C:
	}
	stop(errStop)
	late := time.NewTimer(time.Hour)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		return errors.New("it did not stop within an hour")
	}
}
