package external_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// Two disks that were made by hand are taken over from a provider that chooses the ids, one first and then all:
// as long as the policy is to observe, nothing is written, and a report says what would become of them.
func ExampleInventory_Report() {
	type (
		spec struct{ Size string }
		Disk = store.Object[spec, struct{}]
	)
	ctx := context.Background()
	backend, _ := memory.New(nil)
	installation, _ := store.Installation(ctx, backend)
	disks, _ := store.New[spec, struct{}](backend, "disk", nil)
	cloud, _ := reconciletest.NewCloud(nil)
	for _, size := range []string{"10GB", "20GB"} {
		_, _ = cloud.Create(ctx, reconciletest.Resource{Props: map[string]string{"size": size}}) // r-000001, r-000002
	}
	inventory, err := external.NewInventory(&external.InventoryOptions[spec, struct{}, reconciletest.Resource]{
		Store: disks, Installation: installation,
		List: external.Pages(func(ctx context.Context, after string) ([]reconciletest.Resource, string, error) {
			page, _, err := cloud.Page(ctx, after) // there is one
			return page, "", err
		}),
		Get: func(ctx context.Context, id string) (reconciletest.Resource, bool, error) {
			r, err := cloud.Get(ctx, id)
			if errors.Is(err, reconciletest.ErrNotFound) {
				return r, false, nil
			}
			return r, err == nil, err
		},
		Delete: func(ctx context.Context, r reconciletest.Resource) error { return cloud.Delete(ctx, r.ID) },
		ID:     func(r reconciletest.Resource) string { return r.ID },
		Owner:  func(r reconciletest.Resource) (external.Mark, bool) { return external.MarkOf(r.Tags) },
		Compare: func(d *Disk, r reconciletest.Resource) external.Observation {
			if r.Props["size"] != d.Spec.Size {
				return external.Observation{Diff: "size: " + r.Props["size"] + ", want " + d.Spec.Size}
			}
			return external.Observation{UpToDate: true}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	byDefault := external.Observe // what is not permitted by the object's own annotation
	reconciler, err := external.New(disks, inventory.Client(external.ClientFuncs[spec, struct{}]{
		CreateFunc: func(context.Context, *Disk) error { fmt.Println("a second disk"); return nil },
		UpdateFunc: func(ctx context.Context, d *Disk) error {
			r := reconciletest.Resource{ID: d.Intent.ExternalName, Props: map[string]string{"size": d.Spec.Size}}
			r.Tags = external.NewMark(installation, "disk", d).SetTags(nil)
			return cloud.Update(ctx, r)
		},
		DeleteFunc: func(ctx context.Context, d *Disk) error { return cloud.Delete(ctx, d.Intent.ExternalName) },
	}), &external.Options[spec, struct{}]{
		Naming: external.ByMark,
		Policy: func(d *Disk) (external.Policy, error) {
			if text, ok := d.Annotations[external.PolicyAnnotation]; ok {
				return external.ParsePolicy(text)
			}
			return byDefault, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	look := func(step string) { // in a service a controller runs the objects
		for o, err := range disks.All(ctx, store.Selector{}) {
			if err == nil {
				_, err = reconciler.Reconcile(ctx, o.Key())
			}
			if err != nil {
				fmt.Println(err)
			}
		}
		report, err := inventory.Report(ctx)
		fmt.Printf("%s: %v missing, %v unclaimed, %d updates, %v\n", step, report.Missing, report.Unclaimed, cloud.Calls("Update"), err)
	}

	for name, id := range map[string]string{"web": "r-000001", "db": "r-000009"} { // the second is a slip
		d := &Disk{Meta: store.Meta{Name: name, Annotations: map[string]string{store.AnnotationAdopt: id}}, Spec: spec{Size: "10GB"}}
		if _, err := disks.Create(ctx, d); err != nil {
			fmt.Println(err)
		}
	}
	look("observe")
	edit := func(name string, f func(*Disk)) {
		if _, err := disks.Mutate(ctx, store.Key{Name: name}, func(d *Disk) error { f(d); return nil }); err != nil {
			fmt.Println(err)
		}
	}
	edit("db", func(d *Disk) { d.Annotations[store.AnnotationAdopt], d.Spec.Size = "r-000002", "20GB" })
	look("corrected")
	edit("web", func(d *Disk) { d.Annotations[external.PolicyAnnotation] = "all,adopt" })
	look("the first")
	byDefault = external.All | external.Adopt
	look("all")
	// Output:
	// observe: [r-000009 (db)] missing, [r-000001 (web)] unclaimed, 0 updates, <nil>
	// corrected: [] missing, [r-000001 (web) r-000002 (db)] unclaimed, 0 updates, <nil>
	// the first: [] missing, [r-000002 (db)] unclaimed, 1 updates, <nil>
	// all: [] missing, [] unclaimed, 2 updates, <nil>
}
