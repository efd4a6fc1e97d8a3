package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// failing is a backend whose first commit after fail was set is refused.
type failing struct {
	store.Backend
	fail bool
}

func (f *failing) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	if f.fail {
		f.fail = false
		return 0, errors.New("the store is away")
	}
	return f.Backend.Commit(ctx, t)
}

// A spec that cannot be is told in the status also if the store is away at first.
//
// Negative control: with Terminal joined to the error of the write the key was parked, and the
// status said nothing for an hour.
func TestBadSpecIsToldAlthoughTheStoreWasAway(t *testing.T) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	synctest.Test(t, func(t *testing.T) {
		b := &failing{Backend: must(memory.New(nil))}
		sites := must(store.New[Spec, Status](b, "site", nil))
		shop := must(sites.Create(t.Context(), &Site{Meta: store.Meta{Name: "shop"}, Spec: Spec{Servers: -3}}))
		controller := must(reconcile.For(sites, reconciler{sites}.reconcile, nil))
		var manager reconcile.Manager
		if err := manager.Register(controller); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		b.fail = true
		go func() { ended <- manager.Run(ctx) }()
		time.Sleep(time.Minute)
		if c, _ := must(sites.Get(t.Context(), shop.Key())).Condition(store.ConditionReady); c.Reason != "BadSpec" || b.fail {
			t.Errorf("a minute later the status says %+v, want BadSpec", c)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
