package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/declare"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/reconcile/web/api"
	"github.com/tendhq/tend/store"
	_ "github.com/tendhq/tend/store/etcd" // for -store
	_ "github.com/tendhq/tend/store/file"
	_ "github.com/tendhq/tend/store/memory"
	_ "github.com/tendhq/tend/store/postgres"
)

// newProgram puts the service together. Run of the program returns what went wrong here.
func newProgram(ctx context.Context, o options, dns *provider, mux *http.ServeMux) *program.Program {
	p := program.Open(ctx, o.Store)
	collector := metrics.New(&p.Manager)
	p.Wrap(func(b store.Backend) (store.Backend, error) { return collector.Measure("store", b) })
	installation, err := store.Installation(ctx, p.Backend())
	p.Check(err)
	members, err := lease.NewMembers(p.Backend(), "dns", nil) // all servers share what the account may
	p.Check(err)
	quotas, err := quota.NewSet(&quota.Options{Members: members, Backend: p.Backend(), Limits: func(quota.Name) (quota.Limits, error) {
		return quota.Limits{Read: quota.Rate{PerSecond: perSecond}, Judge: judge}, nil
	}})
	if p.Use(quotas, err); err != nil {
		return p
	}
	account, err := quotas.Get(quota.Name{API: "dns"})
	p.Check(err)

	zones := keep(p, o, &keeper[ZoneSpec]{
		provider: dns, account: account, installation: installation, kind: "zone", others: []string{"record"},
		want: func(z *store.Object[ZoneSpec, Status]) resource {
			return resource{Name: z.Name, Data: strconv.Itoa(z.Spec.TTL)}
		},
	})
	keep(p, o, &keeper[RecordSpec]{
		provider: dns, account: account, installation: installation, kind: "record", others: []string{"zone"},
		want: func(r *store.Object[RecordSpec, Status]) resource {
			zone, _ := zones.Cache().Get(store.Key{Name: r.Spec.Zone}) // it is there: the record waits for it
			return resource{Zone: zone.Intent.ExternalName, Name: r.Spec.Name, Data: r.Spec.Type + " " + r.Spec.Value}
		},
	}, depend.On(zones.Cache(), func(r *store.Object[RecordSpec, Status]) []store.Key { return []store.Key{{Name: r.Spec.Zone}} }, nil))
	p.Check(web.Mount(mux, "/ops", nil, &web.Options{Program: p, Metrics: collector, API: &api.Options{Allow: o.allow}}))
	return p
}

// keep adds a kind, what reconciles it, and the file that declares its objects.
func keep[S any](p *program.Program, o options, k *keeper[S], needs ...depend.Needs[S, Status]) *program.Objects[S, Status] {
	objects := program.AddKind(p, k.kind, &program.ObjectsOptions[S, Status]{Store: fileFirst[S](o.File), Progress: &program.KindOptions[S, Status]{Stuck: external.NotOurs[S, Status]}})
	limited, err := quota.Limit(func(reconcile.Request) (*quota.Quota, error) { return k.account, nil }, &reconcile.Options[reconcile.Request]{Workers: 32})
	p.Check(err)
	var depends *depend.Tracker[S, Status]
	if len(needs) > 0 {
		graph := depend.NewGraph()
		p.Use(graph, nil) // the page counts what waits for an object at why that fails
		depends, err = depend.New(objects.Cache(), depend.All(needs...), &depend.Options{Graph: graph})
		p.Check(err)
	}
	k.list, err = k.inventory(objects.Store)
	p.Check(err)
	reconciler, err := external.New(objects.Store, k.client(), &external.Options[S, Status]{
		Naming: external.ByMark, CreationGrace: 2 * lag, Poll: o.Poll, Depends: depends, Changes: o.changes(),
	})
	p.Check(err)
	objects.ReconcileBy(reconciler, limited)
	p.Use(k.list.Pruning(o.Prune, nil))
	p.Use(declare.New(objects.Store, objects.Cache(), o.File, &declare.Options[S, Status]{Decode: declare.JSON(objects.Store, k.others...)}))
	return objects
}

// allow lets all callers read, and those with the token write.
func (o options) allow(r *http.Request, a api.Access) error {
	if a.Writes() && (o.Token == "" || r.Header.Get("Authorization") != "Bearer "+o.Token) {
		return fmt.Errorf("writing takes the token that is in DNS_TOKEN")
	}
	return nil
}
