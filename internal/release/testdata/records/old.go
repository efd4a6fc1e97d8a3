package main

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/file"
	"github.com/tendhq/tend/store/postgres"
)

// Own is what the other version does not know.
type Own struct {
	Old string `json:"ownOld,omitempty"`
}

func owned(text string) Own { return Own{text} }

func openBackend(ctx context.Context, p place) (b store.Backend, err error) {
	switch p.Store {
	case "file":
		b, err = file.Open(p.At, nil)
	case "etcd":
		b, err = etcd.New(clientv3.Config{Endpoints: []string{p.At}}, nil)
	case "postgres":
		b, err = postgres.Open(ctx, p.At, &postgres.Options{Schema: p.Schema})
	default:
		err = fmt.Errorf("store %q", p.Store)
	}
	return b, err
}

func created(*thing) {}

func (s *side) newStep(_ context.Context, step string) error { return fmt.Errorf("step %q", step) }

func conduct(string, string) error { return errors.New("the other version conducts") }
