package external_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
)

// badCloud has every fault there is.
func badCloud(seed uint64, unique bool) *reconciletest.Cloud {
	return must(reconciletest.NewCloud(&reconciletest.CloudOptions{
		Seed: seed, UniqueNames: unique, Latency: 200 * time.Millisecond, Lag: 10 * time.Second,
		DeleteTakes: 2 * time.Minute, Rate: 20, Errors: 0.05, Lost: 0.05, BrokenPages: 0.1, PageSize: 7,
	}))
}

// laterCloud is that with creates that take effect up to ten seconds after their answer
// was lost, and reads that lag by minutes.
func laterCloud(seed uint64) *reconciletest.Cloud {
	return must(reconciletest.NewCloud(&reconciletest.CloudOptions{
		Seed: seed, UniqueNames: true, Latency: 200 * time.Millisecond, Lag: 3 * time.Minute, Late: 10 * time.Second,
		DeleteTakes: 2 * time.Minute, Rate: 20, Errors: 0.05, Lost: 0.05, BrokenPages: 0.1, PageSize: 7,
	}))
}

// throttling turns the cloud's quota into one that all controllers share, and a lost answer
// into an error that does not say that it is one.
func throttling(bucket *ratelimit.Bucket, err error) error {
	if q, ok := errors.AsType[*reconciletest.QuotaError](err); ok {
		return ratelimit.Throttled(bucket, time.Now().Add(q.RetryAfter), err)
	}
	if errors.Is(err, reconciletest.ErrTimeout) { // as a broken HTTP/2 connection says it
		return &url.Error{Op: "Post", URL: "https://cloud", Err: errors.New("http2: client connection lost")}
	}
	return err
}

// throttled is a client behind a bucket.
func throttled(c external.Client[diskSpec, diskStatus], b *ratelimit.Bucket) external.ClientFuncs[diskSpec, diskStatus] {
	wrap := func(f func(context.Context, *disk) error) func(context.Context, *disk) error {
		return func(ctx context.Context, o *disk) error { return throttling(b, f(ctx, o)) }
	}
	return external.ClientFuncs[diskSpec, diskStatus]{
		ObserveFunc: func(ctx context.Context, o *disk) (external.Observation, error) {
			seen, err := c.Observe(ctx, o)
			return seen, throttling(b, err)
		},
		CreateFunc: wrap(c.Create), UpdateFunc: wrap(c.Update), DeleteFunc: wrap(c.Delete),
	}
}

func aDisk(r *rand.Rand, names int) store.Key {
	return store.Key{Namespace: "t", Name: fmt.Sprint("n", r.IntN(names))}
}

// unlessGone is err, if it says more than that another user was faster.
func unlessGone(err error) error {
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

// user declares, resizes and deletes disks at random.
func (w *world) user(names int) []func(*rand.Rand) (string, error) {
	pick := func(r *rand.Rand) store.Key { return aDisk(r, names) }
	ignore := unlessGone
	user := must(store.New[diskSpec, diskStatus](w.backend, "Disk", nil))
	declare := func(r *rand.Rand) (string, error) {
		k := pick(r)
		_, err := user.Create(context.Background(), &disk{
			Meta: store.Meta{Namespace: k.Namespace, Name: k.Name}, Spec: diskSpec{Size: fmt.Sprint(r.IntN(100)), Zone: "z"},
		})
		return "declare " + k.String(), ignore(err)
	}
	return []func(*rand.Rand) (string, error){
		declare, declare,
		func(r *rand.Rand) (string, error) {
			k, size := pick(r), fmt.Sprint(r.IntN(100))
			_, err := user.Mutate(context.Background(), k, func(o *disk) error { o.Spec.Size = size; return nil })
			return "resize " + k.String() + " to " + size, ignore(err)
		},
		func(r *rand.Rand) (string, error) {
			k := pick(r)
			o, err := user.Get(context.Background(), k)
			if err == nil {
				err = user.Delete(context.Background(), o)
			}
			return "delete " + k.String(), ignore(err)
		},
	}
}

// losers take the record of a disk's create away, as a restore from a backup of before it does, or put
// that of an earlier disk back, as one from a backup of then does, or lose the object altogether and
// declare it again. They choose disks that each list shows.
func (w *world) losers(names int) func(*rand.Rand) (string, error) {
	w.lost = map[store.Key]bool{}
	since := map[string]time.Time{} // when a disk was first seen, by its id
	earlier := map[string]string{}  // the disk that an object had before, by its uid
	user := must(store.New[diskSpec, diskStatus](w.backend, "Disk", nil))
	return func(r *rand.Rand) (string, error) {
		k, ctx, there := aDisk(r, names), context.Background(), ""
		for _, d := range w.cloud.Truth() {
			if since[d.ID].IsZero() {
				since[d.ID] = time.Now()
			}
			if m, _ := readMark(d); m.Key == k && !d.Deleting && time.Since(since[d.ID]) > 2*time.Minute {
				there = d.ID
			}
		}
		o, err := user.Get(ctx, k)
		if err != nil || there == "" || o.Deleting() || o.Intent.ExternalName != there {
			return "lose nothing of " + k.String(), unlessGone(err)
		}
		was := earlier[o.UID]
		if earlier[o.UID] = there; was != "" && was != there && r.IntN(2) == 0 {
			o.Intent.ExternalName, w.lost[k] = was, true
			_, err = user.UpdateIntent(ctx, o)
			return "put the record of an earlier disk back to " + k.String(), unlessGone(err)
		}
		if r.IntN(2) == 0 {
			o.Intent = store.Intent{}
			_, err = user.UpdateIntent(ctx, o)
			return "lose the record of " + k.String(), unlessGone(err)
		}
		if o, err = user.Mutate(ctx, k, func(o *disk) error { o.Finalizers = nil; return nil }); err == nil {
			if err = user.Delete(ctx, o); err == nil {
				w.lost[k] = true
				_, err = user.Create(ctx, &disk{Meta: store.Meta{Namespace: k.Namespace, Name: k.Name}, Spec: o.Spec})
			}
		}
		return "lose and declare again " + k.String(), unlessGone(err)
	}
}

// noDoubles: never are there two disks for one object.
func (w *world) noDoubles() error {
	seen := map[string]string{}
	for _, r := range w.cloud.Truth() {
		if uid := r.Tags["tend/uid"]; uid != "" && !r.Deleting {
			if other := seen[uid]; other != "" {
				return fmt.Errorf("two disks for one object: %s and %s, %s", other, r.ID, r.Tags["tend/key"])
			}
			seen[uid] = r.ID
		}
	}
	return nil
}

// asDeclared compares the cloud with the store: one disk of the right size for
// each object, and none besides.
func (w *world) asDeclared() error {
	left := map[store.Key]*disk{}
	for o, err := range w.store.All(context.Background(), store.Selector{}) {
		if err != nil {
			return err
		}
		if o.Deleting() && !isMoved(o) {
			return fmt.Errorf("%s is still being deleted: %+v", o.Key(), o.Conditions)
		}
		left[o.Key()] = o
	}
	for _, r := range w.cloud.Truth() {
		m, _ := readMark(r)
		o := left[m.Key]
		if o == nil && w.lost[m.Key] {
			continue // deleted before the look of a run found it again: it is for a prune
		}
		if o == nil || r.Deleting {
			return fmt.Errorf("left behind: %+v", r)
		}
		if isMoved(o) && m.UID == o.UID && "the "+cmp.Or(r.Props["where"], "west") == o.Intent.Location {
			delete(left, m.Key) // it waits for its spec to be put back
			continue
		}
		if r.Props["size"] != o.Spec.Size || r.Props["where"] != o.Spec.Where || m.UID != o.UID {
			return fmt.Errorf("%s has %+v, want size %s, uid %s", o.Key(), r, o.Spec.Size, o.UID)
		}
		if !o.Ready() {
			return fmt.Errorf("%s is not ready: %+v", o.Key(), o.Conditions)
		}
		delete(left, m.Key)
	}
	for k, o := range left {
		if isMoved(o) {
			continue // it waits, too: nothing was made yet, or what was is gone
		}
		return fmt.Errorf("lost: %s: %+v %+v", k, o.Intent, o.Conditions)
	}
	return nil
}

// promise E1, under everything at once and over many seeds: nothing double at
// any time, and when the bad times are over everything as declared and no more
// writes. Quota is kept: what the cloud refuses is little.
//
// Negative control: with a client whose names are made up by the cloud, and
// that says they are ours, this failed with two disks for one object; see
// TestSimulationCatchesADoubleCreate.
func TestSimulationEndsAsDeclared(t *testing.T) {
	for name, run := range map[string]func(w *world, seed uint64) error{
		"our name":                func(w *world, seed uint64) error { return w.simulate(seed, external.ByUs, straight) },
		"by mark":                 func(w *world, seed uint64) error { return w.simulate(seed, external.ByMark, straight) },
		"our name, by inventory":  func(w *world, seed uint64) error { return w.simulate(seed, external.ByUs, byInventory) },
		"exclusive, by inventory": func(w *world, seed uint64) error { return w.simulate(seed, external.ByUs, exclusively) },
		"exclusive, late, by a list that lags by minutes": func(w *world, seed uint64) error { return w.simulate(seed, external.ByUs, lately) },
		"our name, moved":                func(w *world, seed uint64) error { return w.simulate(seed, external.ByUs, moving) },
		"by mark, moved":                 func(w *world, seed uint64) error { return w.simulate(seed, external.ByMark, moving) },
		"exclusive, by inventory, moved": func(w *world, seed uint64) error { return w.simulate(seed, external.ByUs, movingExclusively) },
		"by mark, by inventory":          func(w *world, seed uint64) error { return w.simulate(seed, external.ByMark, byInventory) },
		"by mark, by name first":         func(w *world, seed uint64) error { return w.simulate(seed, external.ByMark, byName) },
		"by mark, under a quota":         func(w *world, seed uint64) error { return w.simulate(seed, external.ByMark, underQuota) },
	} {
		for seed := range campaign.Seeds(t, campaign.Sized(3, 1), campaign.Length()/6) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if err := run(w, seed); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				t.Logf("campaign: %d operations", w.cloud.TotalCalls())
				if refused, all := w.cloud.Calls("refused"), w.cloud.TotalCalls(); refused > all/10 {
					t.Errorf("%s, seed %d: %d of %d calls were beyond the quota", name, seed, refused, all)
				}
			})
		}
	}
}

// The ways of a client: to look straight at the cloud, at an inventory of it,
// to pay for each call from a quota that finds its rate, or to say wrongly that
// it chooses the names.
const (
	straight = iota
	byInventory
	underQuota
	lying
	exclusively // by an inventory whose list is enough for a create
	lately      // the same, by a cloud that is late with everything
	moving      // straight, and users edit where disks lie
	movingExclusively
	byName // straight, and the client looks for the name on record first
)

// isMoved says that the object waits for its spec to be put back.
func isMoved(o *disk) bool {
	c, _ := o.Condition(store.ConditionSynced)
	return c.Reason == external.ReasonLocationChanged && o.Intent.Location != "" && o.Intent.Location != locationOf(o)
}

func (w *world) simulate(seed uint64, naming external.Naming, way int) error {
	s := w.simulation(seed, naming, way)
	return s.Run(w.t.Context())
}

func (w *world) simulation(seed uint64, naming external.Naming, way int) reconciletest.Simulation {
	w.cloud = badCloud(seed, naming == external.ByUs && way != lying)
	w.o.Naming = naming
	w.o.CreationGrace = 15 * time.Second
	acts := w.user(25)
	if way == moving || way == movingExclusively {
		acts, w.o.Location = append(acts, w.movers(25)), locationOf
	}
	if naming == external.ByMark && (way == byInventory || way == byName) {
		w.client.byID = way == byName
		acts = append(acts, w.losers(25))
	}
	w.o.ExclusiveCreate = way == exclusively || way == lately || way == movingExclusively
	if way == lately {
		w.cloud, w.o.CreationGrace, w.settle = laterCloud(seed), 200*time.Second, 200*time.Second
	}
	bucket := must(ratelimit.NewBucket("cloud", 18, 10))
	return reconciletest.Simulation{
		Seed: seed, Cloud: w.cloud, Every: 20 * time.Second, Drift: 0.15, Restart: 0.02, Jump: 0.05,
		Acts: acts, Invariant: w.noDoubles, Check: w.asDeclared,
		Start: func() (func(), error) {
			w.lies = way == lying
			w.restart(nil)
			client := external.Client[diskSpec, diskStatus](w.client)
			if way == byInventory || w.o.ExclusiveCreate {
				v := w.inventory(func(o *invOpts) {
					if o.Settle = w.settle; naming == external.ByMark {
						o.IDOf = nil
					}
				})
				if way != byInventory {
					w.lists = v
				}
				client = v.Client(external.ClientFuncs[diskSpec, diskStatus]{
					CreateFunc: w.client.Create, UpdateFunc: w.client.Update, DeleteFunc: w.client.Delete,
				})
			}
			if way == underQuota {
				q := newQuota(quota.Rate{PerSecond: 12, Burst: 5, Ceiling: 50}, quota.Rate{PerSecond: 4, Burst: 3, Ceiling: 50})
				w.with(limited(q, client))
				o := reconcile.Options[reconcile.Request]{Workers: 4, Backoff: queue.Backoff{Base: time.Second, Max: time.Minute}}
				limited, err := quota.Limit(alwaysQuota(q), &o)
				if err != nil {
					return nil, err
				}
				return w.startWith(*limited), nil
			}
			w.with(throttled(client, bucket))
			return w.start(bucket, 4), nil
		},
	}
}

func TestSimulationCatchesADoubleCreate(t *testing.T) {
	caught := false
	for seed := uint64(0); seed < 5 && !caught; seed++ {
		synctest.Test(t, func(t *testing.T) {
			err := newWorld(t).simulate(seed, external.ByUs, lying)
			caught = err != nil && strings.Contains(err.Error(), "two disks")
		})
	}
	if !caught {
		t.Error("a client that creates twice passed the simulation")
	}
}
