package lease

import (
	"context"
	"time"

	"github.com/tendhq/tend/internal/sleep"
)

// Work that lived for longer than healthyLife is restarted at once: it had started well,
// and whatever ended it is news.
const healthyLife = 2 * time.Second

// restarts is the backoff of work, of sessions and of watches that fail. Its tries are
// counted where it is used.
var restarts = sleep.Backoff{Min: 500 * time.Millisecond, Max: time.Minute}

// supervise calls work until it returns nil or ctx ends, and returns after the
// last call has. It is the life of a controller under one hold of its lease,
// not the run of a key.
func supervise(ctx context.Context, shard int, work Work) {
	for failures := 0; ctx.Err() == nil; failures++ {
		began := time.Now()
		if err := work(ctx, shard); err == nil || ctx.Err() != nil {
			return
		}
		if time.Since(began) > healthyLife {
			failures = -1
			continue
		}
		sleep.For(ctx, restarts.After(failures))
	}
}
