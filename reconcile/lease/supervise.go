package lease

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/tendhq/tend/internal/sleep"
)

const (
	// Work that lived for longer than this is restarted at once: it had started
	// well, and whatever ended it is news.
	healthyLife = 2 * time.Second
	restartBase = 500 * time.Millisecond
	restartMax  = time.Minute
)

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
		sleep.For(ctx, restartDelay(failures))
	}
}

// restartDelay doubles from restartBase to restartMax, ±25 %.
func restartDelay(failures int) time.Duration {
	d := restartMax
	if failures < 7 {
		d = min(restartBase<<failures, restartMax)
	}
	return d*3/4 + rand.N(d/2+1)
}
