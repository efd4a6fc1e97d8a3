package external_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
)

// account is a cloud with a quota and a list of its own. Its disks are in the namespace of
// its name.
type account struct {
	name        string
	n           int // disks that are declared
	read, write float64

	cloud  *reconciletest.Cloud
	quota  *quota.Quota
	inv    *inventory
	client external.ClientFuncs[diskSpec, diskStatus]
}

// startAccounts runs one controller for the disks of all accounts.
func startAccounts(w *world, accounts []*account) (stop func()) {
	w.o.Poll, w.o.PollPhase, w.o.ExclusiveCreate = 10*time.Minute, true, true
	w.restart(nil)
	byName := map[string]*account{}
	set := must(quota.NewSet(&quota.Options{Limits: func(n quota.Name) (quota.Limits, error) {
		a := byName[n.Account]
		return quota.Limits{
			Read: quota.Rate{PerSecond: a.read, Burst: max(1, int(a.read/2))}, Write: quota.Rate{PerSecond: a.write, Burst: max(1, int(a.write/10))},
			Judge: judgeCloud,
		}, nil
	}}))
	of := func(k reconcile.Request) (*quota.Quota, error) { return byName[k.Namespace].quota, nil }
	w.with(external.ConnectorFunc[diskSpec, diskStatus](func(_ context.Context, o *disk) (external.Client[diskSpec, diskStatus], error) {
		return byName[o.Namespace].client, nil
	}))
	var sources []reconcile.Source[reconcile.Request]
	for _, a := range accounts {
		byName[a.name] = a
		a.cloud = must(reconciletest.NewCloud(&reconciletest.CloudOptions{UniqueNames: true, ReadRate: a.read, WriteRate: a.write, PageSize: max(a.n/100, 1)}))
		a.quota = must(set.Get(quota.Name{Account: a.name, API: "disks"}))
		client := diskClient{cloud: a.cloud, naming: external.ByUs, exclusive: true}
		f := &fleet{world: &world{cloud: a.cloud}, quota: a.quota}
		a.inv = w.inventory(func(o *invOpts) {
			o.Fresh = w.o.Poll
			o.List = func(ctx context.Context) iter.Seq2[resource, error] { return f.pages(ctx) }
			o.Get = f.read(func(ctx context.Context, id string) (resource, bool, error) {
				r, err := a.cloud.Get(ctx, id)
				if errors.Is(err, reconciletest.ErrNotFound) {
					return r, false, nil
				}
				return r, err == nil, err
			})
		})
		a.client = a.inv.Client(limited(a.quota, client))
		sources = append(sources, a.inv.Changed("lists of "+a.name))
	}
	_, stop = w.serve(sixteen(of), sources, set)
	return stop
}

func (a *account) disk(i int, size string) *disk {
	return &disk{Meta: store.Meta{Namespace: a.name, Name: fmt.Sprintf("d%06d", i)}, Spec: diskSpec{Size: size, Zone: "z"}}
}

// An account whose quota is used up, and whose list alone takes minutes, slows no other:
// those of 1 and of 100 resources have theirs within their own bounds, though it has
// more keys, and more lists, than there are workers.
//
// It was seen to fail with lists that are made by the run that needs them: all workers
// waited for lists of starved accounts, and after an hour the others had not all of theirs.
func TestStarvedAccountSlowsNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		starved := &account{name: "starved", n: *resources, read: 1, write: 1}
		one, hundred := &account{name: "one", n: 1, read: 200, write: 100}, &account{name: "hundred", n: 100, read: 200, write: 100}
		all := []*account{starved, one, hundred}
		for range 20 { // more lists that take long than there are workers
			all = append(all, &account{name: fmt.Sprintf("starved-%d", len(all)), n: 10, read: 0.05, write: 1})
		}
		stop := startAccounts(w, all)
		defer stop()
		for _, a := range all {
			for i := range a.n {
				o := must(w.store.Create(t.Context(), a.disk(i, "1")))
				if a != one && a != hundred {
					a.cloud.Put(diskClient{}.desired(o))
				}
			}
		}
		begun := time.Now()
		for one.cloud.Calls("Create") < 1 || hundred.cloud.Calls("Create") < 100 {
			if time.Since(begun) > time.Hour {
				t.Fatal("not created after an hour")
			}
			time.Sleep(10 * time.Millisecond)
		}
		b := bound{
			name: "accounts beside one that is starved", resources: 101, writes: 101, least: atRate(100, 100), ratio: 1.05,
			took: time.Since(begun), reads: one.cloud.Calls("List") + hundred.cloud.Calls("List"), most: 2,
		}
		b.check(t)
		synctest.Wait()
	})
}
