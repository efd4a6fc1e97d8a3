package children_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/children"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/storetest"
)

// plans are what owners want, while controllers run.
type plans struct {
	mu sync.Mutex // guards of
	of map[string]plan
}

func (p *plans) get(owner string) plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[owner]
}

func (p *plans) set(owner string, is plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[owner] = is
}

// controller runs the sites of a world: what each wants is in plans. Ran hears of each run.
func (w *world) controller(t testing.TB, p *plans, o reconcile.Options[reconcile.Request], ran func(stale bool, err error)) *reconcile.ObjectController[siteSpec, struct{}] {
	t.Helper()
	c := must[*reconcile.ObjectController[siteSpec, struct{}]](t)(reconcile.For(w.sites, func(ctx context.Context, s *site) (reconcile.Result, error) {
		state, err := w.set(s, p.get(s.Name)).Apply(ctx)
		state.Report(s)
		_, statusErr := w.sites.UpdateStatus(ctx, s)
		info, _ := reconcile.RunInfo(ctx)
		ran(info.Stale, err)
		return reconcile.Result{}, errors.Join(err, statusErr)
	}, &reconcile.ForOptions[siteSpec, struct{}]{Options: o}))
	if err := c.Watch(w.kids.Sources()...); err != nil {
		t.Fatal(err)
	}
	return c
}

// readying makes the objects of a cache Ready, and lets go those in deletion.
func readying[S any](t testing.TB, c *cache.Cache[S, struct{}]) *reconcile.ObjectController[S, struct{}] {
	t.Helper()
	return must[*reconcile.ObjectController[S, struct{}]](t)(reconcile.ForCache(c, func(ctx context.Context, o *store.Object[S, struct{}]) (reconcile.Result, error) {
		var err error
		if o.Deleting() {
			o.Finalizers = nil
			_, err = c.Store().Update(ctx, o)
		} else {
			o.SetReady()
			_, err = c.Store().UpdateStatus(ctx, o)
		}
		return reconcile.Result{}, err
	}, nil))
}

// Controllers with caches make the children of each set, and a run of an owner with all that it wants reads no child
// from the store.
func TestControllersComeToRestWithAllChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		b := storetest.Faulty(newMemory(t), func(c storetest.Call) storetest.Fault {
			if c.Kind != "site" && (c.Method == "Get" || c.Method == "List") {
				reads.Add(1)
			}
			return storetest.Fault{}
		})
		w, p := newWorld(t, b, &children.Options{MaxDelete: -1}), &plans{of: map[string]plan{}}
		var runs atomic.Int64
		sites := w.controller(t, p, reconcile.Options[reconcile.Request]{}, func(bool, error) { runs.Add(1) })
		reconciletest.Start(t, w.diskCache, w.machineCache, sites, readying(t, w.diskCache), readying(t, w.machineCache))
		m := &model{T: t, world: w, r: rand.New(rand.NewPCG(1, 2)), plans: map[string]plan{"a": nil, "b": nil}}
		w.newSite(t, "a")
		w.newSite(t, "b")
		for range 50 {
			for _, owner := range []string{"a", "b"} {
				m.plans[owner] = m.newPlan(owner)
				p.set(owner, m.plans[owner])
				change(t, w.sites, owner, func(o *site) { o.Spec.Round++ })
			}
			if err := reconciletest.Converge(t.Context(), 5*time.Minute, time.Second, func() error {
				all := w.all(t)
				for owner, p := range m.plans {
					if o := w.site(t, owner); !o.Ready() {
						return fmt.Errorf("%s is not ready: %+v", owner, o.Conditions)
					}
					for _, c := range p {
						if is, there := all[c.ref()]; !there || !is.ready || is.value != fmt.Sprint(c.value) {
							return fmt.Errorf("%s is %+v", c.ref(), is)
						}
						delete(all, c.ref())
					}
				}
				if len(all) > 0 {
					return fmt.Errorf("there are %v besides", all)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		ran, read := runs.Load(), reads.Load()
		for _, owner := range []string{"a", "b"} {
			if err := sites.Kick(store.Key{Name: owner}); err != nil {
				t.Fatal(err)
			}
		}
		if synctest.Wait(); runs.Load() < ran+2 || reads.Load() != read {
			t.Errorf("%d runs read %d times", runs.Load()-ran, reads.Load()-read)
		}
	})
}

// newLateWorld is a world whose cache of disks shows nothing new any more once late is true.
func newLateWorld(t *testing.T) (w *world, late *atomic.Bool) {
	late = new(atomic.Bool)
	return newWorld(t, storetest.Faulty(newMemory(t), func(c storetest.Call) (f storetest.Fault) {
		if c.Method == "Watch" && c.Kind == "disk" && late.Load() {
			f.Delay = time.Hour
		}
		return f
	}), nil), late
}

// A run whose caches lack what the run before it wrote makes nothing a second time, and deletes what it no longer wants
// although no cache shows it.
//
// promise S4
func TestARunOnStaleCachesAsksTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, late := newLateWorld(t)
		p := &plans{of: map[string]plan{}}
		var stale, failed atomic.Int64
		sites := w.controller(t, p, reconcile.Options[reconcile.Request]{CacheWait: time.Second}, func(is bool, err error) {
			if is {
				stale.Add(1)
			}
			if err != nil {
				failed.Add(1)
			}
		})
		reconciletest.Start(t, w.diskCache, w.machineCache, sites)
		late.Store(true)
		run := func(is plan) {
			p.set("s", is)
			change(t, w.sites, "s", func(o *site) { o.Spec.Round++ })
			time.Sleep(time.Minute)
		}
		w.newSite(t, "s")
		run(plan{{kind: "disk", name: "d", value: 1}})
		made := w.all(t)["disk d"]
		if _, shown := w.diskCache.Get(store.Key{Name: "d"}); shown || made.meta == nil {
			t.Fatal("the cache was to be late")
		}
		run(plan{{kind: "disk", name: "d", value: 2}})
		if now := w.all(t)["disk d"]; now.value != "2" || now.meta.UID != made.meta.UID {
			t.Errorf("it is %+v, was %+v", now, made)
		}
		run(plan{{kind: "disk", name: "e", value: 1}})
		w.expect(t, "disk e")
		drop(t, w.disks, "e") // by others, and made again
		run(plan{{kind: "disk", name: "e", value: 1}})
		w.expect(t, "disk e")
		if stale.Load() == 0 || failed.Load() > 0 {
			t.Errorf("%d runs were on stale caches, %d failed", stale.Load(), failed.Load())
		}
	})
}

// The owner in deletion is done when the store has no child of it, whatever the caches show.
func TestAnOwnerIsDoneWhenTheStoreHasNoChild(t *testing.T) {
	for shown := range 2 { // children by the cache
		t.Run(fmt.Sprint(shown), func(t *testing.T) { ownerIsDone(t, shown) })
	}
}

func ownerIsDone(t *testing.T, shown int) {
	synctest.Test(t, func(t *testing.T) {
		w, late := newLateWorld(t)
		s := w.newSite(t, "s", "mine")
		create := func(name string) { // by another server
			must[*disk](t)(w.disks.Create(t.Context(), &disk{Meta: store.Meta{Name: name, Owners: []store.Owner{w.sites.OwnerOf(s)}}}))
		}
		for range shown {
			create("c")
		}
		var done atomic.Bool
		c := must[*reconcile.ObjectController[siteSpec, struct{}]](t)(reconcile.For(w.sites, func(ctx context.Context, s *site) (reconcile.Result, error) {
			if !s.Deleting() {
				return reconcile.Result{}, nil
			}
			state, err := w.kids.Of(s).Apply(ctx)
			done.Store(err == nil && state.Surplus == 0)
			return reconcile.Result{}, err
		}, nil))
		reconciletest.Start(t, w.diskCache, w.machineCache, c)
		late.Store(true)
		create("d")
		drop(t, w.sites, "s")
		if synctest.Wait(); w.diskCache.Len() > shown {
			t.Fatal("the cache was to be late")
		}
		if len(w.all(t)) > 0 || !done.Load() {
			t.Errorf("there are %v, done: %v", w.all(t), done.Load())
		}
	})
}

// An owner that failed because of a child does not wait for its backoff when the child changes.
func TestTheChangeOfAChildRunsAnOwnerThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newWorld(t, newMemory(t), nil), &plans{of: map[string]plan{"s": {{kind: "machine", name: "m", value: 1}}}}
		var last atomic.Value
		sites := w.controller(t, p, reconcile.Options[reconcile.Request]{}, func(_ bool, err error) { last.Store(fmt.Sprint(err)) })
		reconciletest.Start(t, w.diskCache, w.machineCache, sites)
		w.newSite(t, "s")
		synctest.Wait()
		scaler := func(spec machineSpec) {
			must[*machine](t)(w.machines.ApplyFields(t.Context(), &machine{Meta: store.Meta{Name: "m"}, Spec: spec}, "scaler", true))
		}
		scaler(machineSpec{Image: "2"})
		time.Sleep(time.Hour) // the backoff is at its longest
		if last.Load() == "<nil>" {
			t.Fatal("the run was to fail")
		}
		scaler(machineSpec{})
		synctest.Wait()
		time.Sleep(time.Second)
		if last.Load() != "<nil>" {
			t.Errorf("the last run ended with %v", last.Load())
		}
	})
}

type secretSpec struct {
	Password string `tend:"secret"`
}

// A secret of a child does not get into the status of the owner.
func TestASecretOfAChildStaysInIt(t *testing.T) {
	b := newMemory(t)
	w := newWorld(t, b, nil)
	s := w.newSite(t, "s")
	users := must[*store.Store[secretSpec, struct{}]](t)(store.New[secretSpec, struct{}](b, "user", nil))
	userKids := must[*children.Kind[secretSpec, struct{}]](t)(children.Add(w.kids, must[*cache.Cache[secretSpec, struct{}]](t)(cache.New(users, nil))))
	apply := func() children.State {
		set := w.kids.Of(s)
		userKids.Want(set, &store.Object[secretSpec, struct{}]{Meta: store.Meta{Name: "u"}, Spec: secretSpec{"hunter2"}})
		return must[children.State](t)(set.Apply(t.Context()))
	}
	apply()
	change(t, users, "u", func(o *store.Object[secretSpec, struct{}]) {
		o.SetProgressing("Refused", "the password hunter2 is too short")
	})
	if got := apply(); got.Reason != "Refused" || got.Message == "" || strings.Contains(got.Message, "hunter2") {
		t.Errorf("the state is %+v", got)
	}
}
