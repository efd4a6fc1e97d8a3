package reconciletest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tendhq/tend/reconcile"
)

// errStop is why a life of StartStop ended.
var errStop = errors.New("reconciletest: told to stop")

// StartStop gives a system many short lives: it makes it, runs it, and tells it to
// stop at a random moment of up to longest, sometimes before it has begun. Each Run
// has to return within an hour, and without an error; what goroutines it leaves
// behind the synctest bubble tells that this belongs into. The same seed gives the
// same moments.
func StartStop(ctx context.Context, seed uint64, lives int, longest time.Duration, system func() (reconcile.Runner, error)) error {
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
