// Command 04-cloud keeps 200 DNS zones at a provider as they are declared, within the
// provider's quota, with one list call in place of 200 reads. The provider is a
// simulated one, which refuses what is beyond its quota.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
	_ "github.com/tendhq/tend/store/memory"
)

type (
	Spec  struct{ TTL string }
	Zone  = store.Object[Spec, struct{}]
	Zones = store.Store[Spec, struct{}]
)

// guide: calls

// provider makes the calls, each one paid from the quota.
type provider struct {
	cloud        *reconciletest.Cloud
	quota        *quota.Quota
	installation string
}

func (p provider) create(ctx context.Context, z *Zone) (made reconciletest.Resource, err error) {
	err = p.quota.Do(ctx, quota.Write, func(ctx context.Context) (err error) {
		made, err = p.cloud.Create(ctx, p.desired(z))
		if errors.Is(err, reconciletest.ErrExists) {
			return fmt.Errorf("%w: %w", external.ErrExists, err) // for ExclusiveCreate
		}
		return err
	})
	return made, err
}

func (p provider) update(ctx context.Context, z *Zone) error {
	return p.quota.Do(ctx, quota.Write, func(ctx context.Context) error {
		return p.cloud.Update(ctx, p.desired(z))
	})
}

func (p provider) delete(ctx context.Context, id string) error {
	return p.quota.Do(ctx, quota.Write, func(ctx context.Context) error {
		err := p.cloud.Delete(ctx, id)
		if errors.Is(err, reconciletest.ErrNotFound) {
			return nil // deleting what is gone is no error
		}
		return err
	})
}

// desired is the zone as it should be: its properties, and the mark that says whose
// it is.
func (p provider) desired(z *Zone) reconciletest.Resource {
	return reconciletest.Resource{
		ID: z.Name, Name: z.Name, // the name is ours to choose
		Tags:  external.NewMark(p.installation, "zone", z).SetTags(nil),
		Props: map[string]string{"ttl": z.Spec.TTL},
	}
}

// guide: end

// guide: looks

// inventory answers every look at one zone from one list of all zones.
func (p provider) inventory(zones *Zones) (*external.Inventory[Spec, struct{}, reconciletest.Resource], error) {
	return external.NewInventory(&external.InventoryOptions[Spec, struct{}, reconciletest.Resource]{
		Store:        zones,
		Installation: p.installation,
		List: external.Pages(func(ctx context.Context, after string) (page []reconciletest.Resource, next string, err error) {
			more := false // each page is a call; one that fails is read again
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
		Fresh:  200 * time.Millisecond, // about the poll interval
		Settle: time.Millisecond,       // a real cloud takes longer to show a write; the default is 30 s
	})
}

// guide: end

// guide: limits

// limits is what the provider grants, and how its answers are to be read.
func limits(quota.Name) (quota.Limits, error) {
	return quota.Limits{
		Read:  quota.Rate{PerSecond: 200},
		Write: quota.Rate{PerSecond: 400},
		Judge: func(err error) quota.Verdict {
			if refused := new(reconciletest.QuotaError); errors.As(err, &refused) {
				return quota.Verdict{Throttled: true, RetryAfter: refused.RetryAfter}
			}
			return quota.Verdict{Down: errors.Is(err, reconciletest.ErrServer)}
		},
	}, nil
}

// guide: end

// policy is what may be done about a zone.
func policy(z *Zone) (external.Policy, error) {
	if text, ok := z.Annotations[external.PolicyAnnotation]; ok {
		return external.ParsePolicy(text)
	}
	return external.All, nil // the default
}

func main() {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the program prints what there is to see
	ctx, stop := context.WithCancel(context.Background())
	cloud := must(reconciletest.NewCloud(&reconciletest.CloudOptions{UniqueNames: true, Rate: 1000}))

	// guide: wire
	p := program.Open(ctx, "memory")
	zones := program.AddKind[Spec, struct{}](p, "zone", nil)
	keys := program.AddKind(p, "zone-key", &program.ObjectsOptions[external.PublishedSpec, struct{}]{NoReconciler: true})
	quotas := must(quota.NewSet(&quota.Options{Limits: limits}))
	p.Use(quotas, nil) // it runs, and is on the page and in the metrics
	dns := provider{
		cloud:        cloud,
		quota:        must(quotas.Get(quota.Name{API: "dns"})),
		installation: must(store.Installation(ctx, p.Backend())),
	}
	inventory := must(dns.inventory(zones.Store))

	changes := make(chan external.Change, 100)
	reconciler := must(external.New(zones.Store, inventory.Client(external.ClientFuncs[Spec, struct{}]{
		CreateFunc: func(ctx context.Context, z *Zone) error {
			made, err := dns.create(ctx, z)
			if err == nil {
				inventory.Wrote(made) // no look is needed to see it
				z.Intent.Outputs = transferKey()
			}
			return err
		},
		RotateFunc: func(_ context.Context, z *Zone) error { // after a crash on the way to the store
			z.Intent.Outputs = transferKey()
			return nil
		},
		UpdateFunc: dns.update,
		DeleteFunc: func(ctx context.Context, z *Zone) error { return dns.delete(ctx, z.Name) },
	}), &external.Options[Spec, struct{}]{
		Naming:          external.ByUs, // a zone's name is its identity
		ExclusiveCreate: true,          // a second create of it fails
		Poll:            200 * time.Millisecond,
		Policy:          policy,
		Publisher:       external.PublishTo(keys.Store, zones.Store),
		Changes: func(_ context.Context, c external.Change) {
			if c.Action != "create" {
				select {
				case changes <- c:
				default: // it must not wait
				}
			}
		},
	}))
	options := must(quota.Limit(func(reconcile.Request) (*quota.Quota, error) { return dns.quota, nil },
		&reconcile.Options[reconcile.Request]{Workers: 32}))
	zones.ReconcileBy(reconciler, options) // it watches what the inventory's lists show
	// guide: end

	// guide: prune
	p.Use(inventory.Pruning(300*time.Millisecond, nil)) // an hour is often enough
	// guide: end

	for i := range 200 {
		must(zones.Create(ctx, &Zone{Meta: store.Meta{Name: name(i)}, Spec: Spec{TTL: "1h"}}))
	}
	ended := make(chan error)
	go func() { ended <- p.Run(ctx, nil) }()
	for i := range 200 {
		must(zones.WaitReady(ctx, store.Key{Name: name(i)}))
	}
	fmt.Println(len(cloud.Truth()), "zones exist after", cloud.Calls("Create"), "creates")
	key := must(keys.Get(ctx, store.Key{Name: name(7)}))
	fmt.Println("the key of zone-7.org has", len(key.Spec.Values["key"]), "characters")

	drifted := cloud.Peek(name(7))
	drifted.Props = map[string]string{"ttl": "1s"}
	cloud.Put(drifted) // behind the API's back
	show(<-changes)
	must(zones.Mutate(ctx, store.Key{Name: name(8)}, func(z *Zone) error { z.Spec.TTL = "5m"; return nil }))
	show(<-changes)
	check(zones.Delete(ctx, must(zones.Get(ctx, store.Key{Name: name(9)}))))
	show(<-changes)

	cloud.Put(dns.desired(&Zone{Meta: store.Meta{Name: "forgotten.org", UID: "gone"}}))
	for cloud.Peek("forgotten.org").ID != "" {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("pruned forgotten.org which is ours by its mark and which nothing declares")
	fmt.Println(cloud.Calls("refused"), "calls were beyond the quota")
	stop()
	fmt.Println("ended with", <-ended)
}

func name(i int) string { return fmt.Sprintf("zone-%d.org", i) }

// transferKey stands for what the answer of a provider has once, and no look shows.
func transferKey() store.Outputs { return store.NewOutputs(map[string]string{"key": rand.Text()}) }

func show(c external.Change) {
	fmt.Printf("%s %s (%s)\n", c.Action, c.Key, c.Before.Diff)
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
