package sleep

import (
	"context"
	"math/rand/v2"
	"time"
)

// For waits for d or for the end of ctx, whichever comes first, and reports whether
// ctx is still alive. Zero or less is no wait.
func For(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// Backoff is how long to wait between tries of what fails: it doubles from Min to Max.
// Each wait is up to a quarter longer or shorter, so that what failed together is not
// tried again together. A Backoff is for one goroutine, but for After.
type Backoff struct {
	Min, Max time.Duration // both above 0
	tries    int
}

// Next is how long to wait after one more failure.
func (b *Backoff) Next() time.Duration {
	b.tries++
	return b.After(b.tries - 1)
}

// After is how long to wait after a failure that so many others went before, for a caller
// that counts them itself. It changes nothing.
func (b *Backoff) After(failures int) time.Duration {
	d := b.Max
	if failures < 62 && b.Max>>failures > b.Min {
		d = b.Min << failures
	}
	return d*3/4 + rand.N(d/2+1)
}

// Wait waits for Next, or reports false when ctx ends.
func (b *Backoff) Wait(ctx context.Context) bool { return For(ctx, b.Next()) }

// Reset begins with Min again, after a success.
func (b *Backoff) Reset() { b.tries = 0 }

// Wake sends on a channel of capacity one without waiting: a signal that is there already
// says the same.
func Wake(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}
