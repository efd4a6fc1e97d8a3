package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
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

// A network is three kinds:
//
//	machine ──needs──▶ subnet ──needs──▶ vpc
type network struct {
	program  *program.Program
	vpcs     *kind[VPCSpec]
	subnets  *kind[SubnetSpec]
	machines *kind[MachineSpec]
}

// newNetwork puts the network together. The program returns what went wrong.
func newNetwork(b store.Backend, c *cloud) *network {
	n := &network{program: program.New(b, nil)}
	n.program.Manager.Logger = slog.New(slog.DiscardHandler)
	graph := depend.NewGraph()
	n.program.Use(graph, nil) // the page shows it
	n.vpcs = newKind[VPCSpec](n.program, c, graph, "vpc")
	n.subnets = newKind(n.program, c, graph, "subnet", depend.On(n.vpcs.Cache(), func(s *Subnet) []store.Key {
		keys := []store.Key{{Name: s.Spec.VPC}}
		if s.Spec.Peer != "" {
			keys = append(keys, store.Key{Name: s.Spec.Peer})
		}
		return keys
	}, nil))
	n.machines = newKind(n.program, c, graph, "machine", depend.On(n.subnets.Cache(), func(m *Machine) (keys []store.Key) {
		for _, name := range m.Spec.Subnets {
			keys = append(keys, store.Key{Name: name})
		}
		return keys
	}, nil))
	return n
}

// kind is the objects of one kind and what keeps them.
type kind[S any] struct {
	*program.Objects[S, Status]
	cloud      *cloud
	depends    *depend.Tracker[S, Status]
	reconciler *external.Reconciler[S, Status]
}

func newKind[S any](p *program.Program, c *cloud, g *depend.Graph, name string, needs ...depend.Needs[S, Status]) *kind[S] {
	k := &kind[S]{Objects: program.AddKind[S, Status](p, name, nil), cloud: c}
	var err error
	if len(needs) > 0 {
		k.depends, err = depend.New(k.Cache(), depend.All(needs...), &depend.Options{Graph: g, Logger: p.Manager.Logger})
		p.Check(err)
	}
	k.reconciler, err = external.New(k.Store, external.Always[S, Status](client[S]{k}), &external.Options[S, Status]{
		Naming: external.ByUs, CreationGrace: time.Millisecond, Poll: time.Hour, Depends: k.depends,
	})
	p.Check(err)
	k.ReconcileBy(k.reconciler, &reconcile.Options[reconcile.Request]{Workers: 32})
	return k
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
	r, exists, err := c.k.cloud.get(ctx, depend.Ref{Kind: c.k.Kind(), Key: o.Key()})
	return external.Observation{Exists: exists, UpToDate: r.spec == fmt.Sprint(o.Spec)}, err
}

func (c client[S]) Create(ctx context.Context, o *store.Object[S, Status]) error {
	o.Intent.ExternalName = o.Name
	return c.Update(ctx, o)
}

func (c client[S]) Update(ctx context.Context, o *store.Object[S, Status]) error {
	return c.k.cloud.put(ctx, depend.Ref{Kind: c.k.Kind(), Key: o.Key()}, c.k.resource(o))
}

func (c client[S]) Delete(ctx context.Context, o *store.Object[S, Status]) error {
	return c.k.cloud.delete(ctx, depend.Ref{Kind: c.k.Kind(), Key: o.Key()})
}

// declare declares objects from the top down, so that each is declared before what it
// needs: a hundredth of them are VPCs, a fifth less those are subnets, and the others
// machines in three or four subnets each.
func (n *network) declare(ctx context.Context, size int) (references int, err error) {
	vpcs := make([]*VPC, max(1, size/100))
	subnets := make([]*Subnet, max(1, size/5-len(vpcs)))
	machines := make([]*Machine, size-len(vpcs)-len(subnets))
	for i := range machines {
		machines[i] = declared("machine", i, MachineSpec{})
		for j := range min(3+i%2, len(subnets)) {
			machines[i].Spec.Subnets = append(machines[i].Spec.Subnets, fmt.Sprint("subnet", (i+j)%len(subnets)))
			references++
		}
	}
	for i := range subnets {
		subnets[i] = declared("subnet", i, SubnetSpec{VPC: fmt.Sprint("vpc", i%len(vpcs))})
		references++
		if i < len(vpcs) && len(vpcs) > 1 {
			subnets[i].Spec.Peer = fmt.Sprint("vpc", (i+1)%len(vpcs))
			references++
		}
	}
	for i := range vpcs {
		vpcs[i] = declared("vpc", i, VPCSpec{Range: fmt.Sprintf("10.%d.0.0/16", i%256)})
	}
	return references, errors.Join(apply(ctx, n.machines, machines), apply(ctx, n.subnets, subnets), apply(ctx, n.vpcs, vpcs))
}

func declared[S any](kind string, i int, spec S) *store.Object[S, Status] {
	return &store.Object[S, Status]{Meta: store.Meta{Name: fmt.Sprint(kind, i)}, Spec: spec}
}

// apply makes a kind hold these objects and no others.
func apply[S any](ctx context.Context, k *kind[S], set []*store.Object[S, Status]) error {
	_, err := k.Apply(ctx, set, "network", math.MaxInt)
	return err
}

// removeAll asks for the deletion of everything, what is needed first.
func (n *network) removeAll(ctx context.Context) error {
	return errors.Join(apply(ctx, n.vpcs, nil), apply(ctx, n.subnets, nil), apply(ctx, n.machines, nil))
}

// plan prints what would be done, in order.
func (n *network) plan(ctx context.Context, out io.Writer) error {
	if err := n.program.Err(); err != nil {
		return err
	}
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
