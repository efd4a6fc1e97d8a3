// Command 03-children has a controller whose objects own others: a set has so many
// pods. The pods of a set that was deleted are deleted by a cascade.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/children"
	"github.com/tendhq/tend/reconcile/lifecycle"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	_ "github.com/tendhq/tend/store/memory"
)

type (
	SetSpec   struct{ Pods int }
	SetStatus struct{ Running int }
	Set       = store.Object[SetSpec, SetStatus]
	Pod       = store.Object[struct{}, struct{}]
)

type reconciler struct {
	sets *store.Store[SetSpec, SetStatus]
	kids *children.Kinds[SetSpec, SetStatus]
	pods *children.Kind[struct{}, struct{}]
}

// guide: reconcile
func (r reconciler) reconcile(ctx context.Context, set *Set) (reconcile.Result, error) {
	kids := r.kids.Of(set)
	if set.Spec.Pods == 0 {
		kids.MayBeEmpty() // nothing is wanted, and that is no mistake
	}
	for i := range set.Spec.Pods {
		r.pods.Want(kids, &Pod{Meta: store.Meta{Name: fmt.Sprintf("%s-%d", set.Name, i)}})
	}
	state, err := kids.Apply(ctx)
	set.Status.Running = state.Ready
	state.Report(set)
	_, statusErr := r.sets.UpdateStatus(ctx, set)
	return reconcile.Result{}, errors.Join(err, statusErr)
}

// guide: end

func main() {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the program prints what there is to see
	ctx, stop := context.WithCancel(context.Background())
	// guide: wire
	p := program.Open(ctx, "memory")
	sets := program.AddKind[SetSpec, SetStatus](p, "set", nil)
	pods := program.AddKind[struct{}, struct{}](p, "pod", nil)
	pods.Reconcile(func(ctx context.Context, pod *Pod) (reconcile.Result, error) {
		pod.SetReady() // here it would start
		_, err := pods.UpdateStatus(ctx, pod)
		return reconcile.Result{}, err
	}, nil)
	kids := must(children.New(sets.Store, nil))
	podKids := must(children.Add(kids, pods.Cache()))
	sets.Reconcile(reconciler{sets.Store, kids, podKids}.reconcile, nil)
	sets.AddSources(kids.Sources()...) // a pod changed: its set is run
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
