package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// A controller of the objects of a store, run until they are as declared.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	backend, _ := memory.New(nil)
	type Spec struct{ Replicas int }
	type Status struct{ Running int }
	sites, _ := store.New[Spec, Status](backend, "site", nil)

	controller, err := reconcile.For(sites, func(ctx context.Context, site *store.Object[Spec, Status]) (reconcile.Result, error) {
		if site.Status.Running == site.Spec.Replicas {
			fmt.Println(site.Name, "is as declared")
			stop()
			return reconcile.Result{}, nil
		}
		site.Status.Running++
		fmt.Println(site.Name, "runs", site.Status.Running)
		_, err := sites.UpdateStatus(ctx, site)
		return reconcile.Result{RequeueAfter: time.Millisecond}, err
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	site := &store.Object[Spec, Status]{Meta: store.Meta{Name: "shop"}, Spec: Spec{Replicas: 2}}
	_, _ = sites.Create(ctx, site)

	var manager reconcile.Manager
	_ = manager.Register(controller)
	fmt.Println("ended with", manager.Run(ctx))
	// Output:
	// shop runs 1
	// shop runs 2
	// shop is as declared
	// ended with <nil>
}

// Anything can be a key, and anything that names keys can be a source.
func ExampleNew() {
	ctx, stop := context.WithCancel(context.Background())
	controller, err := reconcile.New("greeter", reconcile.Func[string](func(_ context.Context, name string) (reconcile.Result, error) {
		fmt.Println("hello,", name)
		stop()
		return reconcile.Result{}, nil
	}), &reconcile.Options[string]{Workers: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = controller.Watch(reconcile.Every("guests", time.Minute, func(context.Context) (map[string]int, error) {
		return map[string]int{"world": 1}, nil
	}))
	fmt.Println(controller)
	_ = controller.Run(ctx)
	// Output:
	// controller "greeter", watches guests; 1 workers, backoff 100ms to 5m0s, timeout 5m0s, on every server
	// hello, world
}

// A parked key waits until its spec changes or it is kicked.
func ExampleTerminal() {
	ctx, stop := context.WithCancel(context.Background())
	var controller *reconcile.Controller[string]
	tries := 0
	controller, _ = reconcile.New("parking", reconcile.Func[string](func(_ context.Context, key string) (reconcile.Result, error) {
		if tries++; tries == 2 {
			fmt.Println("kicked")
			stop()
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, reconcile.Terminal(errors.New("no such region"))
	}), &reconcile.Options[string]{Hooks: reconcile.Hooks[string]{
		OnError: func(f reconcile.Failure[string]) {
			fmt.Println(f.Key, "is parked:", f.Err)
			_ = controller.Kick(f.Key)
		},
	}})
	_ = controller.Add("shop")
	_ = controller.Run(ctx)
	// Output:
	// shop is parked: no such region
	// kicked
}

// A delay with an error is a failure that waits at least so long; without one it
// is no failure at all.
func ExampleRetryAfter() {
	quota := errors.New("quota used up")
	err := fmt.Errorf("creating the bucket: %w", reconcile.RetryAfter(quota, time.Minute))
	fmt.Println(err)
	fmt.Println(errors.Is(err, quota))
	fmt.Println(reconcile.RetryAfter(nil, 30*time.Second))
	// Output:
	// creating the bucket: quota used up
	// true
	// again after 30s
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
