package external_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
	"golang.org/x/time/rate"
)

// cord is a server's connection to the store. A server that is killed has lost it, and
// its calls to the cloud too.
type cord struct {
	store.Backend
	store.Leaser
	cut atomic.Bool
}

func (c *cord) alive() error {
	if c.cut.Load() {
		return reconciletest.ErrKilled
	}
	return nil
}

func (c *cord) Get(ctx context.Context, kind string, key store.Key) (store.Record, error) {
	if err := c.alive(); err != nil {
		return store.Record{}, err
	}
	return c.Backend.Get(ctx, kind, key)
}

func (c *cord) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	if err := c.alive(); err != nil {
		return 0, err
	}
	return c.Backend.Commit(ctx, t)
}

func (c *cord) Renew(ctx context.Context, id store.LeaseID) error {
	if err := c.alive(); err != nil {
		return err
	}
	return c.Leaser.Renew(ctx, id)
}

func (c *cord) Revoke(ctx context.Context, id store.LeaseID) error {
	if err := c.alive(); err != nil {
		return err
	}
	return c.Leaser.Revoke(ctx, id)
}

const serverTTL = 2 * time.Second

// callLog is when the calls to a cloud left their servers.
type callLog struct {
	mu     sync.Mutex // guards what follows
	reads  []time.Time
	writes []time.Time
}

// of is a client whose calls are noted.
func (l *callLog) of(c external.Client[diskSpec, diskStatus]) external.ClientFuncs[diskSpec, diskStatus] {
	write := func(f func(context.Context, *disk) error) func(context.Context, *disk) error {
		return func(ctx context.Context, o *disk) error { l.note(&l.writes); return f(ctx, o) }
	}
	return external.ClientFuncs[diskSpec, diskStatus]{
		ObserveFunc: c.Observe, CreateFunc: write(c.Create), UpdateFunc: write(c.Update), DeleteFunc: write(c.Delete),
	}
}

func (l *callLog) note(calls *[]time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*calls = append(*calls, time.Now())
}

// busiest is how many of the calls lie in the window of that length that has the most.
func busiest(calls []time.Time, window time.Duration) (most int) {
	calls = slices.SortedFunc(slices.Values(calls), time.Time.Compare)
	for first, last := 0, 0; last < len(calls); last++ {
		for calls[last].Sub(calls[first]) >= window {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// server is one of several that share the disks and the quota of a cloud.
type server struct {
	cord *cord
	stop func()
}

func startServer(w *world, name string, limits quota.Limits, calls *callLog) *server {
	s := &server{cord: &cord{Backend: w.backend, Leaser: w.backend.(store.Leaser)}}
	options := &lease.Options{Server: name, TTL: serverTTL, Logger: slog.New(slog.DiscardHandler)}
	members := must(lease.NewMembers(s.cord, "quotas", options))
	set := must(quota.NewSet(&quota.Options{
		Limits:  func(quota.Name) (quota.Limits, error) { return limits, nil },
		Members: members, Backend: s.cord,
	}))
	q := must(set.Get(quota.Name{API: "disks"}))
	disks := must(store.New[diskSpec, diskStatus](s.cord, "Disk", nil))
	mine := &world{t: w.t, cloud: w.cloud, store: disks, o: w.o}
	f := &fleet{world: mine, quota: q}
	inv := mine.inventory(func(o *invOpts) {
		get := o.Get
		o.Fresh, o.List, o.Get = w.o.Poll, f.pages, f.read(func(ctx context.Context, id string) (resource, bool, error) {
			calls.note(&calls.reads)
			return get(ctx, id)
		})
	})
	client := diskClient{cloud: w.cloud, naming: external.ByUs, exclusive: true}
	mine.with(inv.Client(limited(q, calls.of(client))))
	o := sixteen(alwaysQuota(q))
	o.Placement = must(lease.NewSharded(s.cord, "disks", 512, options))
	_, stop := mine.serve(o, []reconcile.Source[reconcile.Request]{inv.Changed("lists")}, set)
	s.stop = stop
	return s
}

// Three servers create all disks; one is killed after a third of them and another added
// after two thirds. The quota is used to within 1.1 of its whole and never exceeded, and
// no disk is created twice.
//
// promise E1, L2
func TestServersShareTheQuotaToTheBound(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		// Slower than elsewhere: at the whole rate a hundredth of the disks would be there
		// before the others have noticed that a server is gone.
		n := max(*resources, 1000)
		limit := max(10, writeRate.PerSecond*rate.Limit(n)/100_000)
		limits := quota.Limits{Read: quota.Rate{PerSecond: 2 * limit}, Write: quota.Rate{PerSecond: limit, Burst: 3}, Judge: judgeCloud}
		calls := &callLog{}
		w.cloud = must(reconciletest.NewCloud(&reconciletest.CloudOptions{UniqueNames: true, ReadRate: 2 * limit, WriteRate: limit}))
		w.o.Poll, w.o.PollPhase, w.o.ExclusiveCreate = 10*time.Minute, true, true
		var all []*server
		for i := range 3 {
			all = append(all, startServer(w, fmt.Sprint("server-", i), limits, calls))
		}
		time.Sleep(5 * serverTTL)
		for i := range n {
			must(w.store.Create(t.Context(), &disk{Meta: store.Meta{Namespace: "t", Name: fmt.Sprintf("d%05d", i)}, Spec: diskSpec{Size: "1", Zone: "z"}}))
		}
		begun, least := time.Now(), atRate(n, limit)
		made := func() int { return w.cloud.Calls("Create") - w.cloud.Calls("refused") }
		wait := func(until int) {
			for made() < until && time.Since(begun) < 3*least {
				time.Sleep(20 * time.Millisecond)
			}
		}
		wait(n / 3)
		all[0].cord.cut.Store(true)
		all[0].stop()
		wait(2 * n / 3)
		all = append(all[1:], startServer(w, "server-3", limits, calls))
		wait(n)
		took := time.Since(begun)
		time.Sleep(time.Minute)
		synctest.Wait()
		b := bound{
			name: "three servers, one killed, one added", resources: n, reads: w.cloud.Calls("Get") + w.cloud.Calls("List"), most: n + n/2,
			writes: w.cloud.Writes(), took: took, ratio: 1.1,
			least:   least + 2*serverTTL/3, // the part of the server that is gone is not used for two TTLs
			refused: w.cloud.Calls("refused"),
		}
		b.check(t)
		for _, s := range all {
			s.stop()
		}
		const window = 10 * time.Second
		if got, most := busiest(calls.writes, window), int(window.Seconds()*float64(limit))+limits.Write.Burst; got > most {
			t.Errorf("%d writes within %v, the grant is %d", got, window, most)
		}
		if got := w.cloud.Calls("Create") - b.refused; got != n {
			t.Errorf("%d creates for %d disks: a disk that another server made was created again", got, n)
		}
		if b.refused > 0 {
			t.Errorf("the cloud refused %d calls: more than its grant was used", b.refused)
		}
		if err := w.asDeclared(); err != nil {
			t.Error(err)
		}
		if len(w.cloud.Truth()) != n || w.noDoubles() != nil {
			t.Errorf("%d disks for %d objects, %v", len(w.cloud.Truth()), n, w.noDoubles())
		}
	})
}
