//go:build peers

// Command controllerruntime is a service with one controller that controller-runtime
// runs, fed through a channel, for it has no store but a cluster: report measures how
// large it is.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"

	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"k8s.io/client-go/util/workqueue"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, err := controller.NewTypedUnmanaged("disk", controller.TypedOptions[string]{
		Reconciler: reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}),
	})
	check(err)
	events := make(chan event.TypedGenericEvent[string])
	check(c.Watch(source.TypedChannel(events, handler.TypedFuncs[string, string]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[string], q workqueue.TypedRateLimitingInterface[string]) {
			q.Add(e.Object)
		},
	})))
	check(c.Start(ctx))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
