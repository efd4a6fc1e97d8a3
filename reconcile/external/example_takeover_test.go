package external_test

import (
	"context"
	"fmt"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// A disk that is there is taken over from a provider that chooses the ids: the mark is written first,
// here by hand as any tool does, and the object's first look finds it.
func ExampleMark_SetTags() {
	ctx := context.Background()
	backend, _ := memory.New(nil)
	cloud, _ := reconciletest.NewCloud(nil)
	made, _ := cloud.Create(ctx, reconciletest.Resource{Name: "web disk of 2019"})
	installation, _ := store.Installation(ctx, backend)

	mark := external.Mark{Installation: installation, Kind: "disk", Key: store.Key{Namespace: "prod", Name: "web"}}
	made.Tags = mark.SetTags(made.Tags)
	_ = cloud.Update(ctx, made)

	disks, _ := store.New[struct{}, struct{}](backend, "disk", nil)
	client := external.ClientFuncs[struct{}, struct{}]{
		ObserveFunc: func(ctx context.Context, o *store.Object[struct{}, struct{}]) (external.Observation, error) {
			for r, err := range cloud.List(ctx) {
				if err != nil {
					return external.Observation{}, err
				}
				if who := external.NewMark(installation, "disk", o).Compare(external.MarkOf(r.Tags)); who == external.Ours {
					o.Intent.ExternalName = r.ID
					return external.Observation{Exists: true, UpToDate: true, Owner: who}, nil
				}
			}
			return external.Observation{}, nil
		},
		CreateFunc: func(context.Context, *store.Object[struct{}, struct{}]) error {
			fmt.Println("a second disk")
			return nil
		},
	}
	reconciler, err := external.New(disks, client, &external.Options[struct{}, struct{}]{Naming: external.ByMark})
	if err != nil {
		fmt.Println(err)
		return
	}
	o, _ := disks.Create(ctx, &store.Object[struct{}, struct{}]{Meta: store.Meta{Namespace: "prod", Name: "web"}})
	if _, err := reconciler.Reconcile(ctx, o.Key()); err != nil {
		fmt.Println(err)
	}
	o, _ = disks.Get(ctx, o.Key())
	fmt.Println(o.Intent.ExternalName, "is ready:", o.Ready())
	// Output: r-000001 is ready: true
}
