package main

import (
	"context"
	"errors"
	"fmt"
	"maps"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/file"
	"github.com/tendhq/tend/store/postgres"
)

// Own is what the other version does not know.
type Own struct {
	New string `json:"ownNew,omitempty"`
}

func owned(text string) Own { return Own{text} }

func openBackend(ctx context.Context, p place) (b store.Backend, err error) {
	switch p.Store {
	case "file":
		b, err = file.Open(p.At)
	case "etcd":
		b, err = etcd.New(clientv3.Config{Endpoints: []string{p.At}}, nil)
	case "postgres":
		b, err = postgres.Open(ctx, p.At, &postgres.Options{Schema: p.Schema})
	default:
		err = fmt.Errorf("store %q", p.Store)
	}
	return b, err
}

// outputs is the site that has some.
var outputs = store.Key{Namespace: "new", Name: "outputs"}

// created gives it what its create returned.
func created(o *thing) {
	if o.Key() != outputs {
		return
	}
	o.Intent.Outputs = store.NewOutputs(map[string]string{"password": "of " + o.UID})
}

// newStep does what the older version does not know.
func (s *side) newStep(ctx context.Context, step string) error {
	var p publisher
	publish := func(o *external.Options[specification, status]) { o.Publisher = &p }
	switch step {
	case "create a site whose outputs are not published":
		if _, err := s.sites.Create(ctx, &thing{Meta: store.Meta{Namespace: outputs.Namespace, Name: outputs.Name}}); err != nil {
			return err
		}
		p.fails = true
		if err := s.reconcile(ctx, outputs, false, publish); err != nil {
			return err
		}
		o, err := s.sites.Get(ctx, outputs)
		if err == nil && o.Intent.Outputs == (store.Outputs{}) {
			err = fmt.Errorf("no outputs are on record of %v", o)
		}
		return err
	case "publish the outputs":
		o, err := s.sites.Get(ctx, outputs)
		if err != nil {
			return err
		}
		if err := s.reconcile(ctx, outputs, false, publish); err != nil {
			return err
		}
		if want := map[string]string{"password": "of " + o.UID}; !maps.Equal(p.published, want) {
			return fmt.Errorf("published %v, want %v", p.published, want)
		}
		return nil
	}
	return fmt.Errorf("step %q", step)
}

type publisher struct {
	fails     bool
	published map[string]string
}

func (p *publisher) Publish(_ context.Context, _ *thing, outputs map[string]string) error {
	if p.fails {
		return errors.New("readers cannot be reached")
	}
	p.published = outputs
	return nil
}

func (p *publisher) Withdraw(context.Context, *thing) error { return nil }
