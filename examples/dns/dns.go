package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/store"
)

type (
	// ZoneSpec is a zone as declared; its name is the object's.
	ZoneSpec struct{ TTL int }
	// RecordSpec is a record as declared.
	RecordSpec struct{ Zone, Name, Type, Value string }
	// Status is empty: conditions and the external name say it all.
	Status struct{}
)

// fileFirst lets a file say what is true: an edit by hand of what it declares is taken back, and is no conflict.
func fileFirst[S any](file string) *store.Options[S, Status] {
	return &store.Options[S, Status]{Precedence: []string{filepath.Base(file), "edit"}}
}

// changes logs each change, unless it is to be quiet: one that fails is logged as a run, too.
func (o options) changes() func(context.Context, external.Change) {
	if o.Quiet {
		return nil
	}
	return external.LogChanges(nil)
}

// A keeper makes the calls for one kind, each paid from the account's quota.
type keeper[S any] struct {
	*provider
	account      *quota.Quota
	installation string
	kind         string
	others       []string // kinds in the same file
	want         func(o *store.Object[S, Status]) resource
	list         *external.Inventory[S, Status, resource]
}

// desired is the resource as it should be, with the mark that says whose it is.
func (k *keeper[S]) desired(o *store.Object[S, Status]) resource {
	r := k.want(o)
	r.ID, r.Kind, r.Tags = o.Intent.ExternalName, k.kind, external.NewMark(k.installation, k.kind, o).SetTags(nil)
	return r
}

func (k *keeper[S]) write(ctx context.Context, call func(context.Context) error) error {
	return k.account.Do(ctx, quota.Write, call)
}

// inventory answers the looks at all objects of the kind from one list.
func (k *keeper[S]) inventory(s *store.Store[S, Status]) (*external.Inventory[S, Status, resource], error) {
	return external.NewInventory(&external.InventoryOptions[S, Status, resource]{
		Store: s, Installation: k.installation,
		List: external.Pages(func(ctx context.Context, after string) (page []resource, next string, err error) {
			err = k.account.Do(ctx, quota.Read, func(ctx context.Context) (err error) {
				page, next, err = k.Page(ctx, after)
				return err
			})
			return page, next, err
		}),
		Get: func(ctx context.Context, id string) (r resource, exists bool, err error) {
			err = k.account.Do(ctx, quota.Read, func(ctx context.Context) (err error) {
				r, exists, err = k.Get(ctx, id)
				return err
			})
			return r, exists, err
		},
		Delete: func(ctx context.Context, r resource) error {
			return k.write(ctx, func(ctx context.Context) error { return k.Delete(ctx, r) })
		},
		ID:    func(r resource) string { return r.ID },
		Owner: func(r resource) (external.Mark, bool) { return external.MarkOf(r.Tags) },
		Compare: func(o *store.Object[S, Status], r resource) external.Observation {
			if want := k.desired(o); r.Name != want.Name || r.Data != want.Data || r.Zone != want.Zone {
				return external.Observation{Diff: fmt.Sprintf("%s %s in %s, want %s %s in %s", r.Name, r.Data, r.Zone, want.Name, want.Data, want.Zone)}
			}
			return external.Observation{UpToDate: true}
		},
		Settle: 2 * lag,
	})
}

// client is what the reconciler calls. Looks are answered by the list.
func (k *keeper[S]) client() external.ClientFuncs[S, Status] {
	return k.list.Client(external.ClientFuncs[S, Status]{
		CreateFunc: func(ctx context.Context, o *store.Object[S, Status]) error {
			return k.write(ctx, func(ctx context.Context) error {
				made, err := k.Create(ctx, k.desired(o))
				if err == nil {
					o.Intent.ExternalName = made.ID // it is on record before anything else is done
					k.list.Wrote(made)              // no look is needed to see it
				}
				return err
			})
		},
		UpdateFunc: func(ctx context.Context, o *store.Object[S, Status]) error {
			return k.write(ctx, func(ctx context.Context) error { return k.Update(ctx, k.desired(o)) })
		},
		DeleteFunc: func(ctx context.Context, o *store.Object[S, Status]) error {
			return k.write(ctx, func(ctx context.Context) error { return k.Delete(ctx, k.desired(o)) })
		},
	})
}
