package external_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
)

// The numbers of docs/COST.md are of 100,000 resources; CI runs fewer, and checks
// the same things:
//
//	go test ./reconcile/external -run AtScale -v -args -resources 100000
//	go test ./reconcile/external -run ADayOf -v -timeout 30m -args -resources 100000 -day
var (
	resources = flag.Int("resources", campaign.Sized(1000, 200), "how many resources the tests of bounds have, and the AtScale ones")
	chart     = flag.Bool("chart", false, "log the calls of each minute")
	aDay      = flag.Bool("day", false, "let ADayOf last a day, not two hours")
)

// fleet is a world of many disks under quotas: 200 reads and 100 writes a
// second, which is also what the cloud takes.
type fleet struct {
	*world
	poll  time.Duration
	quota *quota.Quota
	// brittle: a page that fails ends the list, without external.Pages; a negative control.
	brittle bool
	set     *quota.Set
	inv     *inventory // nil: each disk is looked at by itself
	stop    func()
	m       *reconcile.Manager
}

var (
	readRate  = quota.Rate{PerSecond: 200}
	writeRate = quota.Rate{PerSecond: 100}
)

func newFleet(w *world, poll time.Duration) *fleet {
	w.cloud = must(reconciletest.NewCloud(&reconciletest.CloudOptions{
		UniqueNames: true, Rate: readRate.PerSecond + writeRate.PerSecond, PageSize: max(*resources/100, 10),
	}))
	w.o.Poll, w.o.PollPhase = poll, true
	w.restart(nil)
	return &fleet{world: w, poll: poll}
}

// settle declares n disks and puts them into the cloud and into order, as a
// process that ended before has left them.
func (f *fleet) settle(n int) []store.Key {
	keys := f.populate(n)
	for _, k := range keys {
		must(f.store.Mutate(f.t.Context(), k, func(o *disk) error {
			o.Finalizers = []string{must(finalizerName())}
			o.SetReady()
			o.SetCondition(store.Condition{Type: store.ConditionSynced, Status: store.True, Reason: "Success"})
			o.Status = diskStatus{ID: nameOf(o), State: "available"}
			return nil
		}))
	}
	return keys
}

// startFleet begins a process.
func (f *fleet) startFleet(byInventory bool) {
	f.set = must(quota.NewSet(&quota.Options{Limits: func(quota.Name) (quota.Limits, error) {
		return quota.Limits{Read: readRate, Write: writeRate, Judge: judgeCloud}, nil
	}}))
	f.quota = must(f.set.Get(quota.Name{Account: "acme", Region: "eu", API: "disks"}))
	f.restart(nil)
	client := limited(f.quota, f.client)
	f.inv = nil
	if byInventory {
		f.inv = f.world.inventory(func(o *invOpts) {
			o.Fresh, o.List, o.Get = f.poll, f.pages, f.read(o.Get)
		})
		client = f.inv.Client(client)
	}
	f.with(client)
	f.m, f.stop = f.serve(sixteen(alwaysQuota(f.quota)), nil, f.set)
}

// pages is the cloud's list, each page paid for.
func (f *fleet) pages(ctx context.Context) iter.Seq2[resource, error] {
	if f.brittle { // a list as it would be written by hand
		return f.pagesOnce(ctx)
	}
	return external.Pages(f.page)(ctx)
}

func (f *fleet) page(ctx context.Context, after string) (page []resource, next string, err error) {
	more := false
	err = f.quota.Do(ctx, quota.Read, func(ctx context.Context) (err error) {
		page, more, err = f.cloud.Page(ctx, after)
		return err
	})
	if more {
		next = page[len(page)-1].ID
	}
	return page, next, err
}

// pagesOnce reads each page once.
func (f *fleet) pagesOnce(ctx context.Context) iter.Seq2[resource, error] {
	return func(yield func(resource, error) bool) {
		for after, more := "", true; more; {
			page, next, err := f.page(ctx, after)
			if err != nil {
				yield(resource{}, err)
				return
			}
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
			}
			after, more = next, next != ""
		}
	}
}

// read is one read, paid for.
func (f *fleet) read(get func(context.Context, string) (resource, bool, error)) func(context.Context, string) (resource, bool, error) {
	return func(ctx context.Context, id string) (r resource, exists bool, err error) {
		err = f.quota.Do(ctx, quota.Read, func(ctx context.Context) error {
			r, exists, err = get(ctx, id)
			return err
		})
		return r, exists, err
	}
}

// size is what the cloud holds of a disk.
func (f *fleet) size(k store.Key) string {
	return f.cloud.Peek("t-" + k.Name).Props["size"]
}

func (f *fleet) resize(k store.Key, size string) {
	must(f.store.Mutate(context.Background(), k, func(o *disk) error { o.Spec.Size = size; return nil }))
}

// wantBudgetKept: the cloud, which takes just what the budgets give, refused
// nothing.
func (f *fleet) wantBudgetKept() {
	f.t.Helper()
	if n := f.cloud.Calls("refused"); n != 0 {
		f.t.Errorf("the cloud refused %d calls: the budget was not kept", n)
	}
}

// One poll interval of ten minutes, when all is in order but for what drifts:
// what it costs by an inventory, and by one look for each. The counts are those
// that quota.Estimate predicts.
//
// Negative control: with a list that is never recent enough, an interval by
// inventory came to 16,000 calls for 400 resources.
func TestCallsOfAnIntervalAtScale(t *testing.T) {
	n, poll := *resources, 10*time.Minute
	for _, byInventory := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *world) {
			f := newFleet(w, poll)
			keys := f.settle(n)
			f.startFleet(byInventory)
			defer func() { f.stop() }()
			time.Sleep(poll + time.Second)
			calls := f.cloud.TotalCalls()
			time.Sleep(poll)
			perInterval := f.cloud.TotalCalls() - calls

			load := quota.Load{Resources: n, Interval: poll}
			if byInventory {
				load.PageSize = max(n/100, 10)
			}
			cost := must(quota.Estimate(load))
			if slack := max(cost.Reads/20, 1); perInterval > cost.Reads+slack || perInterval < cost.Reads-slack {
				t.Errorf("by inventory %v: %d calls in an interval, estimated were %d", byInventory, perInterval, cost.Reads)
			}
			t.Logf("%d resources, by inventory %v: %d calls in an interval of %v, %.2f %% of the read budget",
				n, byInventory, perInterval, poll, 100*float64(perInterval)/poll.Seconds()/float64(readRate.PerSecond))

			// A hundredth drifts at one moment; when is the last one mended?
			r := rand.New(rand.NewPCG(1, 2))
			var drifted []store.Key
			for range n / 100 {
				k := keys[r.IntN(n)]
				d := f.cloud.Peek("t-" + k.Name)
				d.Props["size"] = "drift"
				f.cloud.Put(d)
				drifted = append(drifted, k)
			}
			begun := time.Now()
			for len(drifted) > 0 && time.Since(begun) < 5*poll {
				time.Sleep(time.Second)
				drifted = slices.DeleteFunc(drifted, func(k store.Key) bool { return f.size(k) == "1" })
			}
			took := time.Since(begun)
			if most := 2*poll + time.Minute; took > most { // a list may have begun just before
				t.Errorf("by inventory %v: the last drift was mended after %v, want at most %v", byInventory, took, most)
			}
			t.Logf("%d resources, by inventory %v: the last of %d drifted ones was mended after %v", n, byInventory, n/100, took)
			f.wantBudgetKept()
		})
	}
}

// All are declared and none exists, and each is looked at by itself: what docs/COST.md
// compares an inventory with. TestCreatesFromNothingReachTheBound is the same by one.
func TestConvergenceFromNothingAtScale(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		f := newFleet(w, 10*time.Minute)
		for i := range *resources {
			must(f.store.Create(t.Context(), &disk{Meta: store.Meta{Namespace: "t", Name: fmt.Sprintf("d%06d", i)}, Spec: diskSpec{Size: "1", Zone: "z"}}))
		}
		begun, least := time.Now(), atRate(*resources, writeRate.PerSecond)
		f.startFleet(false)
		defer func() { f.stop() }()
		for f.cloud.Calls("Create") < *resources && time.Since(begun) < 10*least+time.Minute {
			time.Sleep(time.Second)
		}
		b := bound{
			name: "creates, one look for each", resources: *resources, took: time.Since(begun), least: least + 10*time.Second, ratio: 3,
			reads: f.cloud.TotalCalls() - f.cloud.Writes(), most: 5 * *resources,
		}
		time.Sleep(15*time.Minute + least)
		synctest.Wait()
		b.check(t)
		if err := f.asDeclared(); err != nil {
			t.Error(err)
		}
		f.wantCalls(map[string]int{"Create": *resources})
		f.wantBudgetKept()
	})
}

// Trap 15 of those that the likes of this fall into: a restart. The first minute
// stays inside the budget, a live change is served within a second, and the
// number of metric series is the same as with a tenth of the keys.
//
// Negative control: without notDue every resource was looked at in the first
// minute.
func TestRestartAtScale(t *testing.T) {
	var series []int
	for _, n := range []int{*resources / 10, *resources} {
		bubble(t, func(t *testing.T, w *world) {
			f := newFleet(w, time.Hour)
			keys := f.settle(n)
			edited, live := keys[n/2], keys[n-1]
			f.resize(edited, "2") // while no process runs
			f.startFleet(false)
			defer func() { f.stop() }()
			time.Sleep(time.Second)
			synctest.Wait()
			if f.size(edited) != "2" {
				t.Error("what was edited while no process ran was not served within a second")
			}
			f.resize(live, "3")
			time.Sleep(time.Second)
			synctest.Wait()
			if f.size(live) != "3" {
				t.Error("a live change was not served within a second of it")
			}
			time.Sleep(58 * time.Second)
			calls := f.cloud.TotalCalls()
			if share := n/60 + n/120 + 10; calls > share {
				t.Errorf("%d calls in the first minute, want about a sixtieth of %d", calls, n)
			}
			f.wantBudgetKept()
			t.Logf("%d resources: %d calls in the first minute after a restart; the budget is %v", n, calls, 60*readRate.PerSecond)
			series = append(series, seriesOf(t, f))
		})
	}
	if series[0] != series[1] || series[0] < 50 {
		t.Errorf("%d and %d metric series for a tenth and for all of the keys, want the same number", series[0], series[1])
	}
	t.Logf("%d metric series", series[1])
}

func seriesOf(t *testing.T, f *fleet) (n int) {
	t.Helper()
	c := metrics.New(f.m)
	for _, b := range f.set.Buckets() {
		if err := c.AddBucket(b); err != nil {
			t.Fatal(err)
		}
	}
	reg := prometheus.NewRegistry()
	if err := reg.Register(c); err != nil {
		t.Fatal(err)
	}
	for _, family := range must(reg.Gather()) {
		n += len(family.GetMetric())
	}
	return n
}

// Trap 14: whatever page of the list fails, and however, nothing is deleted; and
// of a complete list no more than the cap.
//
// Negative control: with load taking a list that ended with an error for
// complete, the prune was not refused.
//
// promise E2
func TestPruneDeletesNothingByAPartialListAtScale(t *testing.T) {
	n := max(*resources, 1000) // so many that the default cap refuses a twentieth of them
	bubble(t, func(t *testing.T, w *world) {
		w.cloud = must(reconciletest.NewCloud(&reconciletest.CloudOptions{UniqueNames: true, PageSize: max(n/100, 10)}))
		w.restart(nil)
		w.populate(n)
		for i := range n / 20 {
			w.cloud.Put(resource{Name: fmt.Sprintf("orphan-%06d", i), Tags: tags(external.Mark{
				Installation: home, Kind: "Disk", Key: store.Key{Namespace: "t", Name: fmt.Sprintf("old%06d", i)}, UID: "u",
			})})
		}
		pages := 0
		count := func(broken int, how func() error) func(context.Context) iter.Seq2[resource, error] {
			return func(ctx context.Context) iter.Seq2[resource, error] {
				return func(yield func(resource, error) bool) {
					for page, after, more := 0, "", true; more; page++ {
						var rs []resource
						var err error
						if rs, more, err = w.cloud.Page(context.WithoutCancel(ctx), after); err != nil {
							panic(err)
						}
						after = rs[len(rs)-1].ID
						if pages = page + 1; page == broken {
							if how == nil {
								continue // the page is empty
							}
							yield(resource{}, how())
							return
						}
						for _, r := range rs {
							if !yield(r, nil) {
								return
							}
						}
					}
				}
			}
		}
		prune := func(list func(context.Context) iter.Seq2[resource, error], ctx context.Context) ([]external.Finding, error) {
			v := w.inventory(func(o *invOpts) { o.List = list })
			return v.Prune(ctx, external.Cap{Count: -1, Percent: 100})
		}
		if _, err := w.inventory(func(o *invOpts) { o.List = count(-1, nil) }).Prune(t.Context(), external.Cap{}); !errors.Is(err, external.ErrPruneRefused) {
			t.Errorf("a prune of %d resources = %v, want it refused by the cap", n/20, err)
		}
		every := max(pages/20, 1)
		for broken := 0; broken < pages; broken += every {
			if done, err := prune(count(broken, func() error { return reconciletest.ErrServer }), t.Context()); !errors.Is(err, external.ErrPruneRefused) || len(done) != 0 {
				t.Fatalf("page %d failed: deleted %d, %v", broken, len(done), err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			hangUp := count(broken, func() error { cancel(); return ctx.Err() })
			if done, err := prune(hangUp, ctx); err == nil || len(done) != 0 {
				t.Fatalf("cancelled at page %d: deleted %d, %v", broken, len(done), err)
			}
			cancel()
		}
		w.wantCalls(map[string]int{"Delete": 0})
		// A page that comes back empty cannot be told from one that is: it hides
		// orphans, and makes none of what is declared.
		empty, err := prune(count(0, nil), t.Context())
		for _, d := range empty {
			if w.cloud.Peek(d.ID).ID != "" || d.Mark.UID != "u" {
				t.Errorf("deleted %s", d)
			}
		}
		rest, err2 := prune(count(-1, nil), t.Context())
		if err != nil || err2 != nil || len(empty)+len(rest) != n/20 || len(w.cloud.Truth()) != n {
			t.Errorf("deleted %d and %d of %d orphans, %d resources are left of %d; %v, %v", len(empty), len(rest), n/20, len(w.cloud.Truth()), n, err, err2)
		}
	})
}

// A day in which users edit, the cloud drifts and fails and processes restart,
// with everything on: inventory, quotas, phases.
func TestADayOfResources(t *testing.T) {
	n, length := *resources, 2*time.Hour
	if *aDay {
		length = 24 * time.Hour
	}
	bubble(t, func(t *testing.T, w *world) {
		f := newFleet(w, time.Hour)
		w.cloud = must(reconciletest.NewCloud(&reconciletest.CloudOptions{
			Seed: 7, UniqueNames: true, Rate: readRate.PerSecond + writeRate.PerSecond, PageSize: max(n/100, 10),
			Latency: 100 * time.Millisecond, Lag: 5 * time.Second, DeleteTakes: time.Minute,
			Errors: 0.01, Lost: 0.01, BrokenPages: 0.001,
		}))
		f.settle(n)
		s := reconciletest.Simulation{
			Seed: 7, Cloud: w.cloud, Every: 30 * time.Second, Drift: 0.3, Restart: 0.005, Jump: 0.02, Storm: length, Calm: 4 * time.Hour,
			Acts: f.user(n), Check: f.asDeclared,
			Start: func() (func(), error) {
				f.startFleet(true)
				return f.stop, nil
			},
		}
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := f.noDoubles(); err != nil {
			t.Error(err)
		}
		all, refused := w.cloud.TotalCalls(), w.cloud.Calls("refused")
		if refused > all/100 {
			t.Errorf("%d of %d calls were beyond the quota", refused, all)
		}
		t.Logf("%v of %d resources, and 8 h of calm: %d calls (%d lists, %d reads, %d writes), %d refused", length, n, all, w.cloud.Calls("List"), w.cloud.Calls("Get"), w.cloud.Writes(), refused)
	})
}
