package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
)

type (
	// Spec is what a row declares.
	Spec struct {
		TTL  string
		Gone bool `json:",omitempty"` // there is no row any more: the object is to be deleted
	}
	Zone  = store.Object[Spec, struct{}]
	Zones = store.Store[Spec, struct{}]
	// Inventory is the list of the provider's zones.
	Inventory = external.Inventory[Spec, struct{}, reconciletest.Resource]
)

// provider makes the calls, each one paid from the quota. Page 4 of the guide explains it.
type provider struct {
	cloud        *reconciletest.Cloud
	quota        *quota.Quota
	installation string
}

// limits is what the provider grants to all servers together.
func limits(quota.Name) (quota.Limits, error) {
	return quota.Limits{
		Read: quota.Rate{PerSecond: 300}, Write: quota.Rate{PerSecond: 300},
		Judge: func(err error) quota.Verdict {
			if refused := new(reconciletest.QuotaError); errors.As(err, &refused) {
				return quota.Verdict{Throttled: true, RetryAfter: refused.RetryAfter}
			}
			return quota.Verdict{Down: errors.Is(err, reconciletest.ErrServer)}
		},
	}, nil
}

func (p provider) write(ctx context.Context, call func(context.Context) error) error {
	return p.quota.Do(ctx, quota.Write, call)
}

func (p provider) create(ctx context.Context, z *Zone) error {
	return p.write(ctx, func(ctx context.Context) error {
		_, err := p.cloud.Create(ctx, p.desired(z))
		if errors.Is(err, reconciletest.ErrExists) {
			return fmt.Errorf("%w: %w", external.ErrExists, err)
		}
		return err
	})
}

func (p provider) update(ctx context.Context, z *Zone) error {
	return p.write(ctx, func(ctx context.Context) error { return p.cloud.Update(ctx, p.desired(z)) })
}

func (p provider) delete(ctx context.Context, id string) error {
	return p.write(ctx, func(ctx context.Context) error {
		if err := p.cloud.Delete(ctx, id); !errors.Is(err, reconciletest.ErrNotFound) {
			return err
		}
		return nil // deleting what is gone is no error
	})
}

func (p provider) desired(z *Zone) reconciletest.Resource {
	return reconciletest.Resource{
		ID: z.Name, Name: z.Name,
		Tags:  external.NewMark(p.installation, "zone", z).SetTags(nil),
		Props: map[string]string{"ttl": z.Spec.TTL},
	}
}

func (p provider) inventory(zones *Zones) (*Inventory, error) {
	return external.NewInventory(&external.InventoryOptions[Spec, struct{}, reconciletest.Resource]{
		Store: zones, Installation: p.installation,
		List: external.Pages(func(ctx context.Context, after string) (page []reconciletest.Resource, next string, err error) {
			more := false
			err = p.quota.Do(ctx, quota.Read, func(ctx context.Context) (err error) {
				page, more, err = p.cloud.Page(ctx, after)
				return err
			})
			if more {
				next = page[len(page)-1].ID
			}
			return page, next, err
		}),
		Get: func(ctx context.Context, id string) (r reconciletest.Resource, exists bool, err error) {
			err = p.quota.Do(ctx, quota.Read, func(ctx context.Context) error {
				r, err = p.cloud.Get(ctx, id)
				return err
			})
			if errors.Is(err, reconciletest.ErrNotFound) {
				return r, false, nil
			}
			return r, err == nil, err
		},
		Delete: func(ctx context.Context, r reconciletest.Resource) error { return p.delete(ctx, r.ID) },
		ID:     func(r reconciletest.Resource) string { return r.ID },
		IDOf:   func(z *Zone) string { return z.Name },
		Owner:  func(r reconciletest.Resource) (external.Mark, bool) { return external.MarkOf(r.Tags) },
		Compare: func(z *Zone, r reconciletest.Resource) external.Observation {
			if have := r.Props["ttl"]; have != z.Spec.TTL {
				return external.Observation{Diff: fmt.Sprintf("ttl: %s, want %s", have, z.Spec.TTL)}
			}
			return external.Observation{UpToDate: true}
		},
	})
}

// keep makes what keeps the zones at the provider as they are declared.
func (p provider) keep(zones *Zones) (*Inventory, *external.Reconciler[Spec, struct{}], error) {
	inventory, err := p.inventory(zones)
	if err != nil {
		return nil, nil, err
	}
	reconciler, err := external.New(zones, inventory.Client(external.ClientFuncs[Spec, struct{}]{
		CreateFunc: p.create,
		UpdateFunc: p.update,
		DeleteFunc: func(ctx context.Context, z *Zone) error { return p.delete(ctx, z.Name) },
	}), &external.Options[Spec, struct{}]{
		Naming: external.ByUs, ExclusiveCreate: true,
		DeleteLimit: 100,
		Changes:     external.LogChanges(nil),
	})
	return inventory, reconciler, err
}
