package external_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

type zoneSpec struct{ TTL string }

type zone = store.Object[zoneSpec, struct{}]

// zoneClient keeps DNS zones at a provider, under names that we choose. The
// provider here is a pretend one.
type zoneClient struct {
	cloud        *reconciletest.Cloud
	installation string
}

func (c zoneClient) Observe(ctx context.Context, o *zone) (external.Observation, error) {
	r, err := c.cloud.Get(ctx, o.Name)
	if errors.Is(err, reconciletest.ErrNotFound) {
		return external.Observation{}, nil
	}
	if err != nil {
		return external.Observation{}, err
	}
	mark := external.NewMark(c.installation, "Zone", o)
	seen := external.Observation{Exists: true, UpToDate: r.Props["ttl"] == o.Spec.TTL}
	seen.Owner = mark.Compare(zoneMark(r))
	if !seen.UpToDate {
		seen.Diff = fmt.Sprintf("ttl: %s, want %s", r.Props["ttl"], o.Spec.TTL)
	}
	return seen, nil
}

func (c zoneClient) desired(o *zone) reconciletest.Resource {
	return reconciletest.Resource{
		ID: o.Name, Name: o.Name,
		Tags:  map[string]string{"installation": c.installation, "key": o.Key().String(), "uid": o.UID},
		Props: map[string]string{"ttl": o.Spec.TTL},
	}
}

func zoneMark(r reconciletest.Resource) (external.Mark, bool) {
	key, err := store.ParseKey(r.Tags["key"])
	return external.Mark{Installation: r.Tags["installation"], Kind: "Zone", Key: key, UID: r.Tags["uid"]}, err == nil
}

func (c zoneClient) Create(ctx context.Context, o *zone) error {
	_, err := c.cloud.Create(ctx, c.desired(o))
	return err
}

func (c zoneClient) Update(ctx context.Context, o *zone) error {
	return c.cloud.Update(ctx, c.desired(o))
}

func (c zoneClient) Delete(ctx context.Context, o *zone) error {
	err := c.cloud.Delete(ctx, o.Name)
	if errors.Is(err, reconciletest.ErrNotFound) {
		return nil
	}
	return err
}

// A reconciler for DNS zones. A controller would call it for every change; here
// it is called by hand.
func ExampleNew() {
	ctx := context.Background()
	backend, _ := memory.New(nil)
	cloud, _ := reconciletest.NewCloud(&reconciletest.CloudOptions{UniqueNames: true})
	installation, _ := store.Installation(ctx, backend)
	zones, _ := store.New[zoneSpec, struct{}](backend, "Zone", nil)

	client := zoneClient{cloud, installation}
	r, err := external.New(zones, external.Always(client), &external.Options[zoneSpec, struct{}]{
		Naming:     external.ByUs, // a zone's name is its identity
		PollJitter: -1,
		Changes: func(_ context.Context, c external.Change) {
			fmt.Printf("%s %s (%s)\n", c.Action, c.Key, c.Before.Diff)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	o, _ := zones.Create(ctx, &zone{Meta: store.Meta{Name: "example.org"}, Spec: zoneSpec{TTL: "1h"}})
	r.Reconcile(ctx, o.Key())
	res, err := r.Reconcile(ctx, o.Key())
	fmt.Println("look again after", res.RequeueAfter, err)

	zones.Mutate(ctx, o.Key(), func(o *zone) error { o.Spec.TTL = "5m"; return nil })
	r.Reconcile(ctx, o.Key())

	o, _ = zones.Get(ctx, o.Key())
	fmt.Println("ready:", o.Ready())
	// Output:
	// create example.org ()
	// look again after 1m0s <nil>
	// update example.org (ttl: 1h, want 5m)
	// ready: true
}

// One list of the provider answers every look, and shows what is not declared.
func ExampleInventory() {
	ctx := context.Background()
	backend, _ := memory.New(nil)
	cloud, _ := reconciletest.NewCloud(&reconciletest.CloudOptions{UniqueNames: true})
	zones, _ := store.New[zoneSpec, struct{}](backend, "Zone", nil)
	client := zoneClient{cloud, "here"}
	for _, name := range []string{"a.org", "b.org", "c.org"} {
		o, _ := zones.Create(ctx, &zone{Meta: store.Meta{Name: name}, Spec: zoneSpec{TTL: "1h"}})
		cloud.Put(client.desired(o))
	}
	cloud.Put(client.desired(&zone{Meta: store.Meta{Name: "old.org"}}))

	inventory, err := external.NewInventory(&external.InventoryOptions[zoneSpec, struct{}, reconciletest.Resource]{
		Store: zones, Installation: "here",
		List: func(ctx context.Context) iter.Seq2[reconciletest.Resource, error] { return cloud.List(ctx) },
		Get: func(ctx context.Context, id string) (reconciletest.Resource, bool, error) {
			r, err := cloud.Get(ctx, id)
			if errors.Is(err, reconciletest.ErrNotFound) {
				return r, false, nil
			}
			return r, err == nil, err
		},
		ID:    func(r reconciletest.Resource) string { return r.ID },
		IDOf:  func(o *zone) string { return o.Name },
		Owner: zoneMark,
		Compare: func(o *zone, r reconciletest.Resource) external.Observation {
			return external.Observation{UpToDate: r.Props["ttl"] == o.Spec.TTL}
		},
		Delete: func(ctx context.Context, r reconciletest.Resource) error { return cloud.Delete(ctx, r.ID) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, _ := external.New(zones, inventory.Client(external.ClientFuncs[zoneSpec, struct{}]{
		CreateFunc: client.Create, UpdateFunc: client.Update, DeleteFunc: client.Delete,
	}), nil)
	for _, name := range []string{"a.org", "b.org", "c.org"} {
		r.Reconcile(ctx, store.Key{Name: name})
	}
	fmt.Println("lists:", cloud.Calls("List"), "reads:", cloud.Calls("Get"))

	report, _ := inventory.Report(ctx)
	plan, _ := r.Plan(ctx, report.Orphans...)
	plan.WriteText(os.Stdout)
	fmt.Println("exit code", plan.ExitCode(nil))
	// Output:
	// lists: 1 reads: 0
	// - prune old.org: ours by its mark, and not declared
	// Zone: 1 to change, 3 as declared, 0 not to be done
	// exit code 2
}

// An edit of where a resource lies creates nothing there.
func ExampleErrLocationChanged() {
	type spec struct{ Account string }
	ctx := context.Background()
	backend, _ := memory.New(nil)
	buckets, _ := store.New[spec, struct{}](backend, "Bucket", nil)
	there := map[string]bool{} // by account and name
	path := func(o *store.Object[spec, struct{}]) string { return o.Spec.Account + "/" + o.Name }
	r, _ := external.New(buckets, external.ClientFuncs[spec, struct{}]{
		ObserveFunc: func(_ context.Context, o *store.Object[spec, struct{}]) (external.Observation, error) {
			return external.Observation{Exists: there[path(o)], UpToDate: true}, nil
		},
		CreateFunc: func(_ context.Context, o *store.Object[spec, struct{}]) error {
			there[path(o)] = true
			return nil
		},
	}, &external.Options[spec, struct{}]{
		Naming:   external.ByUs,
		Location: func(o *store.Object[spec, struct{}]) string { return "account " + o.Spec.Account },
	})
	o, _ := buckets.Create(ctx, &store.Object[spec, struct{}]{Meta: store.Meta{Name: "logs"}, Spec: spec{Account: "red"}})
	r.Reconcile(ctx, o.Key())
	for _, account := range []string{"blue", "red"} {
		buckets.Mutate(ctx, o.Key(), func(o *store.Object[spec, struct{}]) error { o.Spec.Account = account; return nil })
		_, err := r.Reconcile(ctx, o.Key())
		fmt.Println(errors.Is(err, external.ErrLocationChanged), there)
	}
	o, _ = buckets.Get(ctx, o.Key())
	fmt.Println("ready:", o.Ready(), "in", o.Intent.Location)
	// Output:
	// true map[red/logs:true]
	// false map[red/logs:true]
	// ready: true in account red
}
