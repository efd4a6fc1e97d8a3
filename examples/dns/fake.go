package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/reconciletest"
)

// resource is a zone or a record as the provider shows it.
type resource struct {
	ID   string // chosen by the provider
	Kind string // zone or record
	Zone string // of a record: the id of its zone
	Name string
	Data string            // what else there is of it
	Tags map[string]string // any text of ours
}

// provider is a DNS service inside this process, in place of a real one's SDK. It takes so many
// calls a second, and answers others with a time to wait; what is read may be old by a while; it
// chooses the ids, and takes any number of resources of one name.
type provider struct{ cloud *reconciletest.Cloud }

// What the provider grants to an account, and how old what it shows may be.
const (
	perSecond = 50
	lag       = time.Second
)

func newProvider() (*provider, error) {
	c, err := reconciletest.NewCloud(&reconciletest.CloudOptions{Rate: perSecond, Lag: lag, PageSize: 100})
	return &provider{c}, err
}

func (p *provider) Page(ctx context.Context, after string) (page []resource, next string, err error) {
	all, more, err := p.cloud.Page(ctx, after)
	for _, r := range all {
		page = append(page, shown(r))
	}
	if more {
		next = all[len(all)-1].ID
	}
	return page, next, err
}

func (p *provider) Get(ctx context.Context, id string) (r resource, exists bool, err error) {
	got, err := p.cloud.Get(ctx, id)
	if errors.Is(err, reconciletest.ErrNotFound) {
		return r, false, nil
	}
	return shown(got), err == nil, err
}

func (p *provider) Create(ctx context.Context, r resource) (resource, error) {
	made, err := p.cloud.Create(ctx, stored(r))
	return shown(made), err
}

func (p *provider) Update(ctx context.Context, r resource) error {
	return p.cloud.Update(ctx, stored(r))
}

// Delete refuses a zone that has records. One that is gone is no error.
func (p *provider) Delete(ctx context.Context, r resource) error {
	for _, other := range p.cloud.Truth() {
		if r.Kind == "zone" && other.Props["kind"] == "record" && other.Props["zone"] == r.ID {
			return fmt.Errorf("zone %s has records", r.ID)
		}
	}
	if err := p.cloud.Delete(ctx, r.ID); !errors.Is(err, reconciletest.ErrNotFound) {
		return err
	}
	return nil
}

// judge says what an error of a call means, as the SDK of a provider tells it.
func judge(err error) quota.Verdict {
	if refused, ok := errors.AsType[*reconciletest.QuotaError](err); ok {
		return quota.Verdict{Throttled: true, RetryAfter: refused.RetryAfter}
	}
	return quota.Verdict{Down: errors.Is(err, reconciletest.ErrServer)}
}

func shown(r reconciletest.Resource) resource {
	return resource{r.ID, r.Props["kind"], r.Props["zone"], r.Name, r.Props["data"], r.Tags}
}

func stored(r resource) reconciletest.Resource {
	return reconciletest.Resource{ID: r.ID, Name: r.Name, Tags: r.Tags, Props: map[string]string{"kind": r.Kind, "zone": r.Zone, "data": r.Data}}
}
