//go:build peers

package bench

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrl "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/tendhq/tend/queue/workqueue"
)

// tend's adapter has client-go's shape, and client-go's limiters fit it.
var (
	_ clientgo.TypedRateLimitingInterface[string] = (*workqueue.Queue[string])(nil)
	_ clientgo.TypedRateLimitingInterface[any]    = (*workqueue.Queue[any])(nil)
	_ clientgo.TypedRateLimiter[string]           = workqueue.Limiter[string](nil)
	_ workqueue.Limiter[string]                   = clientgo.TypedRateLimiter[string](nil)
)

// A controller of controller-runtime runs on tend's queue: keys run, a failing
// one is retried with the controller's limiter, RequeueAfter comes back, and the
// controller stops.
func TestControllerRuntimeRunsOnTheAdapter(t *testing.T) {
	var mu sync.Mutex
	runs := map[string]int{}
	var all sync.WaitGroup
	all.Add(2 + 3 + 2)
	reconciler := ctrl.TypedFunc[string](func(_ context.Context, key string) (ctrl.Result, error) {
		mu.Lock()
		runs[key]++
		n := runs[key]
		mu.Unlock()
		defer all.Done()
		switch {
		case key == "fails twice" && n < 3:
			return ctrl.Result{}, errors.New("not yet")
		case key == "comes back" && n < 2:
			return ctrl.Result{RequeueAfter: time.Millisecond}, nil
		}
		return ctrl.Result{}, nil
	})
	var q *workqueue.Queue[string]
	yes := true
	c, err := controller.NewTypedUnmanaged("drop-in", controller.TypedOptions[string]{
		SkipNameValidation: &yes, MaxConcurrentReconciles: 4, Logger: logr.Discard(), Reconciler: reconciler,
		NewQueue: func(name string, limiter clientgo.TypedRateLimiter[string]) clientgo.TypedRateLimitingInterface[string] {
			var err error
			if q, err = workqueue.New(&workqueue.Options[string]{Name: name, Limiter: limiter}); err != nil {
				t.Error(err)
			}
			return q
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Watch(source.TypedFunc[string](func(_ context.Context, q clientgo.TypedRateLimitingInterface[string]) error {
		for _, key := range []string{"a", "b", "fails twice", "comes back"} {
			q.Add(key)
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	all.Wait()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Start: %v", err)
	}
	if got := q.NumRequeues("fails twice"); got != 0 {
		t.Errorf("the limiter still counts %d failures, want 0: the controller forgets a key that succeeded", got)
	}
	if !q.ShuttingDown() {
		t.Error("the controller's stop did not shut the queue down")
	}
}
