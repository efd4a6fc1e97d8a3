package reconcile

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tendhq/tend/reconcile/lease"
)

// A Manager ends the controllers that share a placement one after the other. One that has not
// been told to end yet does not take that of the placement for a failure.
//
// Negative control: the mutant "a controller whose placement another has ended fails".
func TestSharedPlacementThatWasToldToEndHasNotFailed(t *testing.T) {
	for name, last := range map[string]bool{"the first to join is told last": false, "the last to join is told last": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &group{Placement: untilEnded{}, size: 2, done: make(chan struct{}), mu: new(sync.Mutex)}
				var ended [2]chan error
				var end [2]context.CancelFunc
				for i := range ended {
					ended[i] = make(chan error, 1)
					var ctx context.Context
					ctx, end[i] = context.WithCancel(t.Context())
					defer end[i]()
					go func() { ended[i] <- g.Run(ctx, nil) }() // ended by end[i]
					synctest.Wait()
				}
				before, after := 1, 0
				if last {
					before, after = 0, 1
				}
				end[before]()
				synctest.Wait()
				select {
				case err := <-ended[after]:
					t.Errorf("it has returned before it was told to end, with %v", err)
				default:
				}
				end[after]()
				synctest.Wait()
				for i := range ended {
					select {
					case err := <-ended[i]:
						if err != nil {
							t.Errorf("member %d: %v", i, err)
						}
					default:
						t.Errorf("member %d has not returned", i)
					}
				}
			})
		})
	}
}

// A controller that shares a placement is done when its own runs are, also if it is the last one that is told
// to end.
func TestMemberDoesNotWaitForTheRunsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &group{Placement: oneShard{}, size: 2, done: make(chan struct{}), mu: new(sync.Mutex)}
		release, ended := make(chan struct{}), [2]chan error{make(chan error, 1), make(chan error, 1)}
		works := [2]lease.Work{
			func(context.Context, int) error { <-release; return nil },
			func(ctx context.Context, _ int) error { <-ctx.Done(); return nil },
		}
		var end [2]context.CancelFunc
		for i, work := range works {
			var ctx context.Context
			ctx, end[i] = context.WithCancel(t.Context())
			go func() { ended[i] <- g.Run(ctx, work) }() // ended by end[i]
			synctest.Wait()
		}
		for _, tell := range end {
			tell()
			synctest.Wait()
		}
		if len(ended[0]) > 0 || len(ended[1]) != 1 {
			t.Errorf("while the first one's run goes on, the first has returned: %v, the second: %v; want the second alone", len(ended[0]) > 0, len(ended[1]) > 0)
		}
		close(release)
		synctest.Wait()
		for i := range ended {
			if err := <-ended[i]; err != nil {
				t.Errorf("member %d: %v", i, err)
			}
		}
	})
}

// oneShard is a placement that holds one shard until its end.
type oneShard struct{ lease.Placement }

func (oneShard) Run(ctx context.Context, work lease.Work) error {
	var works sync.WaitGroup
	works.Go(func() { _ = work(ctx, 0) })
	<-ctx.Done()
	works.Wait()
	return nil
}

// What ends by itself has failed, and all are told at once.
func TestSharedPlacementThatEndsByItselfIsReportedByEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		g := &group{Placement: failing{err: broken}, size: 2, done: make(chan struct{}), mu: new(sync.Mutex)}
		ended := make(chan error, 2)
		for range 2 {
			go func() { ended <- g.Run(t.Context(), nil) }() // ended by the placement
		}
		for range 2 {
			if err := <-ended; !errors.Is(err, broken) {
				t.Errorf("got %v, want %v", err, broken)
			}
		}
	})
}

type untilEnded struct{ lease.Placement }

func (untilEnded) Run(ctx context.Context, _ lease.Work) error {
	<-ctx.Done()
	return nil
}

type failing struct {
	lease.Placement
	err error
}

func (f failing) Run(context.Context, lease.Work) error { return f.err }
