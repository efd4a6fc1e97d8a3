package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/tendhq/tend/examples/fleet"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

type (
	// Work names the server that worked on a site last.
	Work struct {
		By    string
		Token uint64 // of the hold on the site's shard
		Hands int    // through which it went
	}
	// Site is what there is to work on.
	Site  = store.Object[struct{}, Work]
	sites = store.Store[struct{}, Work]
)

func open(ctx context.Context, p fleet.Place) (store.Backend, *sites, error) {
	return fleet.Open[struct{}, Work](ctx, p, "site")
}

// serve is one server. All run this, and the leases of the shards decide which
// sites are whose.
func serve(ctx context.Context, o options, out io.Writer) error {
	backend, all, err := open(ctx, o.Place)
	if err != nil {
		return err
	}
	defer backend.Close()
	logger := slog.New(slog.DiscardHandler) // the show has its own lines
	placement, err := lease.NewSharded(backend, "sites", o.Shards, &lease.Options{TTL: o.TTL, Server: o.Server, Logger: logger})
	if err != nil {
		return err
	}
	controller, err := reconcile.For(all, func(ctx context.Context, s *Site) (reconcile.Result, error) {
		token, _ := lease.Token(ctx)
		if s.Status.Token == token {
			return reconcile.Result{}, nil // as it should be
		}
		s.Status = Work{By: o.Server, Token: token, Hands: s.Status.Hands + 1}
		_, err := all.UpdateStatus(ctx, s)
		return reconcile.Result{}, err
	}, &reconcile.ForOptions[struct{}, Work]{
		Options: reconcile.Options[store.Key]{Placement: fleet.Told(placement, out)},
		Cache:   &cache.Options[struct{}, Work]{Shards: o.Shards}, // the sites of its own shards, no others
	})
	if err != nil {
		return err
	}
	manager := reconcile.Manager{Logger: logger}
	if err := manager.Register(controller); err != nil {
		return fmt.Errorf("server %s: %w", o.Server, err)
	}
	return manager.Run(ctx)
}
