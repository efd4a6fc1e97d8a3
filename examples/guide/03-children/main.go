// Command 03-children has a controller whose objects own others: a set has so many
// pods. The pods of a set that was deleted are deleted by a cascade.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lifecycle"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	_ "github.com/tendhq/tend/store/memory"
)

type (
	SetSpec   struct{ Pods int }
	SetStatus struct{ Running int }
	Set       = store.Object[SetSpec, SetStatus]
	Pod       = store.Object[struct{}, struct{}]
)

type reconciler struct {
	sets    *store.Store[SetSpec, SetStatus]
	pods    *store.Store[struct{}, struct{}]
	byOwner *cache.Index[struct{}, struct{}] // finds the pods of a set
}

// guide: reconcile
func (r reconciler) reconcile(ctx context.Context, set *Set) (reconcile.Result, error) {
	there := map[string]*Pod{}
	for pod := range r.byOwner.Get(set.UID) {
		there[pod.Name] = pod
	}
	want := map[string]bool{}
	for i := range set.Spec.Pods {
		name := fmt.Sprintf("%s-%d", set.Name, i)
		want[name] = true
		if there[name] != nil {
			continue
		}
		if _, err := r.pods.Create(ctx, &Pod{Meta: store.Meta{
			Name:   name,
			Owners: []store.Owner{r.sets.OwnerOf(set)},
		}}); err != nil {
			return reconcile.Result{}, err
		}
		fmt.Println("created", name)
	}
	for name, pod := range there {
		if want[name] {
			continue
		}
		if err := r.pods.Delete(ctx, pod); err != nil {
			return reconcile.Result{}, err
		}
		fmt.Println("deleted", name)
	}
	// What this run created is counted by the next one, which does not begin before
	// the cache has seen it.
	set.Status.Running = len(there)
	if len(there) == len(want) {
		set.SetReady()
	} else {
		set.SetProgressing("Scaling", "")
	}
	_, err := r.sets.UpdateStatus(ctx, set)
	return reconcile.Result{}, err
}

// guide: end

func main() {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the program prints what there is to see
	ctx, stop := context.WithCancel(context.Background())
	// guide: wire
	p := program.Open(ctx, "memory")
	sets := program.AddKind[SetSpec, SetStatus](p, "set", nil)
	pods := program.AddKind(p, "pod", &program.ObjectsOptions[struct{}, struct{}]{NoReconciler: true})
	byOwner, err := pods.Cache().AddIndex("owner", lifecycle.OwnerUIDs)
	p.Check(err)
	sets.Reconcile(reconciler{sets.Store, pods.Store, byOwner}.reconcile, nil)
	sets.AddSources(reconcile.Owns(pods.Cache())) // a pod changed: its set is run
	p.Use(lifecycle.NewCascade("pods of sets that are gone", pods.Cache(),
		[]lifecycle.OwnerKind[struct{}, struct{}]{lifecycle.Owning[struct{}, struct{}](sets.Cache())}, nil))
	// guide: end
	ended := make(chan error)
	go func() { ended <- p.Run(ctx, nil) }()

	web := must(sets.Create(ctx, &Set{Meta: store.Meta{Name: "web"}, Spec: SetSpec{Pods: 2}}))
	web = must(sets.WaitReady(ctx, web.Key()))
	fmt.Println(web.Status.Running, "pods run")

	must(sets.Mutate(ctx, web.Key(), func(s *Set) error { s.Spec.Pods = 1; return nil }))
	web = must(sets.WaitReady(ctx, web.Key()))
	fmt.Println(web.Status.Running, "pod runs")

	check(sets.Delete(ctx, web))
	for event, err := range pods.Watch(ctx, web.Revision) { // what changed since then
		check(err)
		if event.Deleted {
			fmt.Println("the cascade deleted", event.Key)
			break
		}
	}
	fmt.Println(len(must(pods.List(ctx, store.Selector{}))), "pods are left")
	stop()
	fmt.Println("ended with", <-ended)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}
