package reconcile_test

import (
	"context"
	"fmt"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lifecycle"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

type (
	SetSpec   struct{ Replicas int }
	SetStatus struct{ Running int }
	Set       = store.Object[SetSpec, SetStatus]
	Pod       = store.Object[struct{}, struct{}]
)

// A set has so many pods, which it owns: when one goes, its owner is run, and
// makes another.
func Example_ownersAndTheirObjects() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	backend, _ := memory.New(nil)
	sets, _ := store.New[SetSpec, SetStatus](backend, "set", nil)
	pods, _ := store.New[struct{}, struct{}](backend, "pod", nil)
	podCache, _ := cache.New(pods, nil)
	byOwner, _ := podCache.AddIndex("owner", lifecycle.OwnerUIDs)
	counts := make(chan int)
	controller, err := reconcile.For(sets, func(ctx context.Context, set *Set) (reconcile.Result, error) {
		there := map[string]bool{}
		for p := range byOwner.Get(set.UID) {
			there[p.Name] = true
		}
		for i := range set.Spec.Replicas {
			name := fmt.Sprintf("%s-%d", set.Name, i)
			if there[name] {
				continue
			}
			if _, err := pods.Create(ctx, &Pod{Meta: store.Meta{Name: name, Owners: []store.Owner{sets.OwnerOf(set)}}}); err != nil {
				return reconcile.Result{}, err
			}
			fmt.Println("created", name)
		}
		// What was just created is seen by the next run: it does not begin before
		// the cache has got there.
		if set.Status.Running == len(there) {
			return reconcile.Result{}, nil
		}
		set.Status.Running = len(there)
		if _, err := sets.UpdateStatus(ctx, set); err != nil {
			return reconcile.Result{}, err
		}
		counts <- set.Status.Running
		return reconcile.Result{}, nil
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = controller.Watch(reconcile.Owns(podCache))
	_, _ = sets.Create(ctx, &Set{Meta: store.Meta{Name: "web"}, Spec: SetSpec{Replicas: 3}})

	var manager reconcile.Manager
	_ = manager.Register(controller)
	ended := make(chan error)
	go func() { ended <- manager.Run(ctx) }()

	fmt.Println(<-counts, "are running")
	lost, _ := pods.Get(ctx, store.Key{Name: "web-1"})
	_ = pods.Delete(ctx, lost)
	fmt.Println(<-counts, "are running")
	fmt.Println(<-counts, "are running")
	stop()
	fmt.Println("ended with", <-ended)
	// Output:
	// created web-0
	// created web-1
	// created web-2
	// 3 are running
	// created web-1
	// 2 are running
	// 3 are running
	// ended with <nil>
}
