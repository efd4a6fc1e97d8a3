package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

type (
	VPCSpec     struct{ Range string }
	SubnetSpec  struct{ VPC, Peer string } // Peer is a second VPC that it is reached from; empty: none
	MachineSpec struct{ Subnets []string }
	Status      struct{}

	VPC     = store.Object[VPCSpec, Status]
	Subnet  = store.Object[SubnetSpec, Status]
	Machine = store.Object[MachineSpec, Status]
)

// A network is three kinds, each with its store, cache and controller:
//
//	machine ──needs──▶ subnet ──needs──▶ vpc
type network struct {
	vpcs     *kind[VPCSpec]
	subnets  *kind[SubnetSpec]
	machines *kind[MachineSpec]
	manager  reconcile.Manager
	graph    *depend.Graph
}

func newNetwork(b store.Backend, c *cloud) (n *network, err error) {
	n = &network{manager: reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}, graph: depend.NewGraph()}
	graph := &depend.Options{Graph: n.graph, Logger: n.manager.Logger}
	if n.vpcs, err = newKind[VPCSpec](b, c, "vpc"); err != nil {
		return nil, err
	}
	if n.subnets, err = newKind[SubnetSpec](b, c, "subnet"); err != nil {
		return nil, err
	}
	if n.machines, err = newKind[MachineSpec](b, c, "machine"); err != nil {
		return nil, err
	}
	subnets, err := depend.New(n.subnets.cache, depend.On(n.vpcs.cache, func(s *Subnet) []store.Key {
		keys := []store.Key{{Name: s.Spec.VPC}}
		if s.Spec.Peer != "" {
			keys = append(keys, store.Key{Name: s.Spec.Peer})
		}
		return keys
	}, nil), graph)
	if err != nil {
		return nil, err
	}
	machines, err := depend.New(n.machines.cache, depend.On(n.subnets.cache, func(m *Machine) (keys []store.Key) {
		for _, name := range m.Spec.Subnets {
			keys = append(keys, store.Key{Name: name})
		}
		return keys
	}, nil), graph)
	if err != nil {
		return nil, err
	}
	for _, err := range []error{n.vpcs.control(nil), n.subnets.control(subnets), n.machines.control(machines)} {
		if err != nil {
			return nil, err
		}
	}
	return n, n.manager.Register(n.vpcs.controller, n.subnets.controller, n.machines.controller)
}

// kind is the objects of one kind and what keeps them.
type kind[S any] struct {
	name       string
	cloud      *cloud
	store      *store.Store[S, Status]
	cache      *cache.Cache[S, Status]
	depends    *depend.Tracker[S, Status]
	reconciler *external.Reconciler[S, Status]
	objects    *program.Kind[S, Status]
	controller *reconcile.Controller[reconcile.Request]
}

func newKind[S any](b store.Backend, c *cloud, name string) (k *kind[S], err error) {
	k = &kind[S]{name: name, cloud: c}
	if k.store, err = store.New[S, Status](b, name, nil); err != nil {
		return nil, err
	}
	k.cache, err = cache.New(k.store, nil)
	return k, err
}

func (k *kind[S]) control(d *depend.Tracker[S, Status]) (err error) {
	k.depends = d
	connect := external.ConnectorFunc[S, Status](func(context.Context, *store.Object[S, Status]) (external.Client[S, Status], error) {
		return client[S]{k}, nil
	})
	k.reconciler, err = external.New(k.store, connect, &external.Options[S, Status]{
		Naming: external.ByUs, CreationGrace: time.Millisecond, Poll: time.Hour, Depends: d,
	})
	if err != nil {
		return err
	}
	if k.objects, err = program.Of(k.cache, nil); err != nil {
		return err
	}
	o, err := k.objects.Track(&reconcile.Options[reconcile.Request]{Workers: 32})
	if err != nil {
		return err
	}
	k.controller, err = k.reconciler.Controller("", k.cache, o)
	return err
}

// parts are what the program waits for.
func (n *network) parts() []program.Part {
	return []program.Part{n.vpcs.objects, n.subnets.objects, n.machines.objects}
}

func (k *kind[S]) resource(o *store.Object[S, Status]) resource {
	r := resource{spec: fmt.Sprint(o.Spec)}
	if k.depends != nil {
		r.needs = k.depends.Needs(o)
	}
	return r
}

// client is the cloud as the reconciler of a kind calls it.
type client[S any] struct{ k *kind[S] }

func (c client[S]) Observe(ctx context.Context, o *store.Object[S, Status]) (external.Observation, error) {
	r, exists, err := c.k.cloud.get(ctx, depend.Ref{Kind: c.k.name, Key: o.Key()})
	return external.Observation{Exists: exists, UpToDate: r.spec == fmt.Sprint(o.Spec)}, err
}

func (c client[S]) Create(ctx context.Context, o *store.Object[S, Status]) error {
	o.Intent.ExternalName = o.Name
	return c.Update(ctx, o)
}

func (c client[S]) Update(ctx context.Context, o *store.Object[S, Status]) error {
	return c.k.cloud.put(ctx, depend.Ref{Kind: c.k.name, Key: o.Key()}, c.k.resource(o))
}

func (c client[S]) Delete(ctx context.Context, o *store.Object[S, Status]) error {
	return c.k.cloud.delete(ctx, depend.Ref{Kind: c.k.name, Key: o.Key()})
}

// declare declares objects from the top down, so that each is declared before what it
// needs: a hundredth of them are VPCs, a fifth less those are subnets, and the others
// machines in three or four subnets each.
func (n *network) declare(ctx context.Context, size int) (references int, err error) {
	vpcs := max(1, size/100)
	subnets := max(1, size/5-vpcs)
	machines := size - vpcs - subnets
	for i := range machines {
		var spec MachineSpec
		for j := range min(3+i%2, subnets) {
			spec.Subnets = append(spec.Subnets, fmt.Sprint("subnet", (i+j)%subnets))
		}
		references += len(spec.Subnets)
		if err := put(ctx, n.machines, fmt.Sprint("machine", i), spec); err != nil {
			return 0, err
		}
	}
	for i := range subnets {
		spec := SubnetSpec{VPC: fmt.Sprint("vpc", i%vpcs)}
		references++
		if i < vpcs && vpcs > 1 {
			spec.Peer = fmt.Sprint("vpc", (i+1)%vpcs)
			references++
		}
		if err := put(ctx, n.subnets, fmt.Sprint("subnet", i), spec); err != nil {
			return 0, err
		}
	}
	for i := range vpcs {
		if err := put(ctx, n.vpcs, fmt.Sprint("vpc", i), VPCSpec{Range: fmt.Sprintf("10.%d.0.0/16", i%256)}); err != nil {
			return 0, err
		}
	}
	return references, nil
}

// put declares one object, or leaves it as it is declared.
func put[S any](ctx context.Context, k *kind[S], name string, spec S) error {
	o := &store.Object[S, Status]{Meta: store.Meta{Name: name}, Spec: spec}
	_, err := k.store.Create(ctx, o)
	return ignore(err, store.ErrExists)
}

// removeAll asks for the deletion of everything, what is needed first.
func (n *network) removeAll(ctx context.Context) error {
	for _, remove := range []func(context.Context) error{n.vpcs.removeAll, n.subnets.removeAll, n.machines.removeAll} {
		if err := remove(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (k *kind[S]) removeAll(ctx context.Context) error {
	all, err := k.store.List(ctx, store.Selector{})
	if err != nil {
		return err
	}
	for _, o := range all {
		if err := k.remove(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// remove reads the object again when a run has written it meanwhile.
func (k *kind[S]) remove(ctx context.Context, o *store.Object[S, Status]) error {
	for {
		err := ignore(k.store.Delete(ctx, o), store.ErrNotFound)
		if ignore(err, store.ErrConflict) != nil || err == nil {
			return err
		}
		if o, err = k.store.Get(ctx, o.Key()); err != nil {
			return ignore(err, store.ErrNotFound)
		}
	}
}

// plan prints what would be done, in order.
func (n *network) plan(ctx context.Context, out io.Writer) error {
	var plans []external.Plan
	for _, plan := range []func(context.Context, ...external.Finding) (external.Plan, error){
		n.vpcs.reconciler.Plan, n.subnets.reconciler.Plan, n.machines.reconciler.Plan,
	} {
		p, err := plan(ctx)
		if err != nil {
			return err
		}
		plans = append(plans, p)
	}
	for _, s := range external.Sequence(plans...) {
		fmt.Fprintf(out, "%s %s %s\n", s.Action, s.Kind, s.Key)
	}
	return nil
}

// ignore is err unless it is the one that does not matter.
func ignore(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}
