package depend_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// mortal is a backend as a server reaches it: a dead one reaches nothing, its leases
// included.
type mortal struct {
	store.FullBackend
	dead *atomic.Bool
}

var errDead = errors.New("the server is dead")

func (b mortal) alive() error {
	if b.dead.Load() {
		return errDead
	}
	return nil
}

func (b mortal) Get(ctx context.Context, kind string, key store.Key) (store.Record, error) {
	if err := b.alive(); err != nil {
		return store.Record{}, err
	}
	return b.FullBackend.Get(ctx, kind, key)
}

func (b mortal) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	if err := b.alive(); err != nil {
		return store.Page{}, err
	}
	return b.FullBackend.List(ctx, kind, o)
}

func (b mortal) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if err := b.alive(); err != nil {
		return 0, err
	}
	return b.FullBackend.Commit(ctx, txn)
}

func (b mortal) Grant(ctx context.Context, ttl time.Duration) (store.LeaseID, error) {
	if err := b.alive(); err != nil {
		return 0, err
	}
	return b.FullBackend.Grant(ctx, ttl)
}

func (b mortal) Renew(ctx context.Context, id store.LeaseID) error {
	if err := b.alive(); err != nil {
		return err
	}
	return b.FullBackend.Renew(ctx, id)
}

func (b mortal) Revoke(ctx context.Context, id store.LeaseID) error {
	if err := b.alive(); err != nil {
		return err
	}
	return b.FullBackend.Revoke(ctx, id)
}

// Two servers run both ends, the needed objects and their users, in two stores, each end
// under a lease that one of them holds, or shared by shards. One dies with its leases in
// the middle of it, another one joins, and the order holds.
//
// promise R4, promise E2
func TestServersThatShareBothEndsUnderLeasesKeepTheOrder(t *testing.T) {
	for name, place := range map[string]func(b store.Backend, kind string, o *lease.Options) (lease.Placement, error){
		"one server at a time": func(b store.Backend, kind string, o *lease.Options) (lease.Placement, error) {
			return lease.NewSingleton(b, kind, o)
		},
		"shards": func(b store.Backend, kind string, o *lease.Options) (lease.Placement, error) {
			return lease.NewSharded(b, kind, 8, o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { shareBothEnds(t, place) })
		})
	}
}

func shareBothEnds(t *testing.T, place func(b store.Backend, kind string, o *lease.Options) (lease.Placement, error)) {
	const objects = 20
	c := newCloud()
	vpcs, machines := must(memory.New(nil))(t), must(memory.New(nil))(t)
	serve := func(name string) (dead *atomic.Bool, stop func()) {
		dead = new(atomic.Bool)
		end := func(b store.FullBackend, kind string) *half {
			h := newHalf(t, mortal{b, dead}, kind, c)
			h.placement = must(place(mortal{b, dead}, kind, &lease.Options{Server: name, Logger: slog.New(slog.DiscardHandler)}))(t)
			h.fail = func(*Thing) error {
				if dead.Load() {
					return errDead
				}
				return nil
			}
			return h
		}
		stopVPCs := end(vpcs, "vpc").run(t)
		stopMachines := end(machines, "machine").run(t, depend.On(newHalf(t, mortal{vpcs, dead}, "vpc", c).cache, needed, nil))
		return dead, func() { stopMachines(); stopVPCs() }
	}
	users := map[string]*half{"vpc": newHalf(t, vpcs, "vpc", c), "machine": newHalf(t, machines, "machine", c)}
	each := func(kind string, f func(s *store.Store[Spec, Status], n int)) {
		for n := range objects {
			f(users[kind].store, n)
		}
	}
	remove := func(s *store.Store[Spec, Status], n int) {
		for {
			o := must(s.Get(t.Context(), store.Key{Name: fmt.Sprint(s.Kind(), n)}))(t)
			if err := s.Delete(t.Context(), o); !errors.Is(err, store.ErrConflict) {
				check(t, err)
				return
			}
		}
	}
	wait := func(d time.Duration) {
		time.Sleep(d)
		synctest.Wait()
	}
	dead, stopFirst := serve("first")
	_, stopSecond := serve("second")
	wait(time.Minute)
	each("machine", func(s *store.Store[Spec, Status], n int) {
		needs := []string{fmt.Sprint("vpc", n), fmt.Sprint("vpc", (n+1)%objects)}
		must(s.Create(t.Context(), &Thing{Meta: store.Meta{Name: fmt.Sprint("machine", n)}, Spec: Spec{Needs: needs}}))(t)
	})
	wait(time.Second)
	each("vpc", func(s *store.Store[Spec, Status], n int) {
		must(s.Create(t.Context(), &Thing{Meta: store.Meta{Name: fmt.Sprint("vpc", n)}}))(t)
		if n == objects/2 {
			dead.Store(true)
		}
	})
	wait(2 * time.Minute)
	stopFirst()
	each("machine", func(s *store.Store[Spec, Status], n int) {
		if o := must(s.Get(t.Context(), store.Key{Name: fmt.Sprint("machine", n)}))(t); !o.Ready() {
			t.Errorf("%s is not ready: %+v", o.Name, o.Conditions)
		}
	})
	_, stopThird := serve("third")
	each("vpc", remove)
	wait(2 * time.Minute)
	if n := c.len(); n != 2*objects {
		t.Errorf("%d resources are there, want all of %d, which are used", n, 2*objects)
	}
	stopSecond()
	each("machine", remove)
	wait(2 * time.Minute)
	if n := c.len(); n > 0 {
		t.Errorf("%d resources are left", n)
	}
	for kind, h := range users {
		if left := must(h.store.List(t.Context(), store.Selector{}))(t); len(left) > 0 {
			t.Errorf("%d objects of kind %s are left, such as %+v", len(left), kind, left[0])
		}
	}
	if len(c.refused) > 0 {
		t.Errorf("refused: %v", c.refused)
	}
	stopThird()
}
