package sleep

import (
	"context"
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
