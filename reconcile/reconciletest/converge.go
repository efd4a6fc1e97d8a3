package reconciletest

import (
	"context"
	"fmt"
	"time"
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
