package children_test

import (
	"context"
	"fmt"
	"log"

	"github.com/tendhq/tend/reconcile/children"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

// A site is a disk and a machine that needs the disk. The function apply is what a run of the site does; here there are
// no controllers, so that one sees it step by step.
func Example() {
	ctx := context.Background()
	backend := must1(memory.New(nil))
	sites := must1(store.New[struct{}, struct{}](backend, "site", nil))
	disks := must1(store.New[diskSpec, struct{}](backend, "disk", nil))
	machines := must1(store.New[machineSpec, struct{}](backend, "machine", nil))

	kids := must1(children.New(sites, &children.Options{MaxDelete: 3}))
	diskKids := must1(children.Add(kids, must1(cache.New(disks, nil))))
	machineKids := must1(children.Add(kids, must1(cache.New(machines, nil))))

	site := must1(sites.Create(ctx, &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: "shop"}}))
	apply := func(size int) {
		set := kids.Of(site)
		if size == 0 {
			set.MayBeEmpty()
		} else {
			disk := diskKids.Want(set, &disk{Meta: store.Meta{Name: site.Name}, Spec: diskSpec{Size: size}})
			machineKids.Want(set, &machine{Meta: store.Meta{Name: site.Name}}, disk)
		}
		state, err := set.Apply(ctx)
		if err != nil {
			log.Fatal(err)
		}
		state.Report(site)
		fmt.Printf("%d of %d ready, %d left: %s\n", state.Ready, state.Wanted, state.Surplus, state.Message)
	}
	apply(10)
	must1(disks.Mutate(ctx, site.Key(), func(o *disk) error { o.SetReady(); return nil }))
	apply(10)
	must1(machines.Mutate(ctx, site.Key(), func(o *machine) error { o.SetProgressing("NoImage", "the image is being copied"); return nil }))
	apply(20)
	apply(0)

	// Output:
	// 0 of 2 ready, 0 left: disk shop: nothing has said whether it is ready
	// 1 of 2 ready, 0 left: machine shop: nothing has said whether it is ready
	// 0 of 2 ready, 0 left: disk shop: its newest change was not looked at yet
	// 0 of 0 ready, 0 left:
}

func must1[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
