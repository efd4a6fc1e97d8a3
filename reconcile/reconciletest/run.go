package reconciletest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tendhq/tend/reconcile"
)

// RunOne reconciles a key once.
func RunOne[K comparable](ctx context.Context, r reconcile.Reconciler[K], key K) reconcile.Outcome {
	res, err := r.Reconcile(ctx, key)
	return reconcile.Outcome{Result: res, Err: err}
}

// The waits of RunUntilIdle after a failure or a Requeue: they double from the
// first to the last, without jitter.
const (
	firstWait = time.Second
	lastWait  = time.Minute
)

// patience is after how many runs in a row that settled nothing a key is given up.
const patience = 1000

// RunUntilIdle reconciles a key again and again, as a controller would, until
// there is nothing to do but to look again some time: after a zero Result, a
// Result or an error that asks for a delay of idle or more, a terminal error, 1,000
// failures or Requeues in a row (some 16 hours), or when ctx ends. It returns the last
// outcome, in which a key that was given up has an error, and the number of runs.
//
// It waits between the runs, so it belongs into a synctest bubble. Events that
// would wake a controller are not among what it knows.
func RunUntilIdle[K comparable](ctx context.Context, r reconcile.Reconciler[K], key K, idle time.Duration) (last reconcile.Outcome, runs int) {
	backoff, unsettled := firstWait, 0
	for {
		last = RunOne(ctx, r, key)
		runs++
		if unsettled++; last.Err == nil && !last.Result.Requeue {
			unsettled = 0
		}
		if unsettled == patience {
			last.Err = cmp.Or(last.Err, fmt.Errorf("reconciletest: the key asked %d times in a row to run again", patience))
			return last, runs
		}
		wait, over := pause(last, idle, &backoff)
		if over || sleep(ctx, wait) != nil {
			return last, runs
		}
	}
}

// pause is how long to wait after an outcome, and whether it was the last.
func pause(o reconcile.Outcome, idle time.Duration, backoff *time.Duration) (wait time.Duration, over bool) {
	if o.Err == nil && !o.Result.Requeue {
		*backoff = firstWait
		wait = o.Result.RequeueAfter
		return wait, wait <= 0 || wait >= idle
	}
	wait = *backoff
	*backoff = min(2**backoff, lastWait)
	if asked, ok := reconcile.Delay(o.Err); ok {
		if wait = max(wait, asked); asked >= idle {
			return wait, true
		}
	}
	return wait, errors.Is(o.Err, reconcile.ErrTerminal) || errors.Is(o.Err, ErrKilled)
}
