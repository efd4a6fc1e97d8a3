package postgres

import (
	"math"
	"runtime"
	"sync"
	"testing"
	"time"
)

// The next transaction waits for the callers that were just answered, if they come soon: all of
// them are in it. The bounds are those of no machine, so that it does not depend on how fast this
// one is.
//
// Negative control: the mutant "a transaction leaves without the callers just answered".
func TestNextTransactionWaitsForTheCallersJustAnswered(t *testing.T) {
	const callers = 32
	q := &batcher{yields: math.MaxInt, longest: time.Minute}
	answered := make(chan struct{})
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			<-answered
			for range 100 { // what a caller does between two Commits
				runtime.Gosched()
			}
			q.mu.Lock()
			defer q.mu.Unlock()
			q.queue = append(q.queue, new(member))
		})
	}
	close(answered)
	q.settle(callers)
	if n := q.queued(); n != callers {
		t.Errorf("the next transaction leaves with %d callers, want %d", n, callers)
	}
	all.Wait()
}

// Callers that do not come back hold nothing up, and one that was alone waits for no other.
func TestNextTransactionDoesNotWaitForCallersThatAreGone(t *testing.T) {
	yields := &batcher{yields: maxYields, longest: math.MaxInt64}
	yields.settle(64)
	long := &batcher{yields: math.MaxInt, longest: time.Nanosecond}
	long.settle(64)
	alone := &batcher{yields: math.MaxInt, longest: math.MaxInt64}
	alone.settle(1)
}
