package external_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
	"golang.org/x/time/rate"
)

// The tests of this file hold what an inventory of many resources costs, in calls and
// in the time of the bubble, against what the cloud's quota allows. Their size is
// -resources; the whole table is
//
//	go test ./reconcile/external -run Bound -v -timeout 60m -args -resources 100000
//
// The cloud grants 200 reads and 100 writes a second and refuses what goes beyond.

// bound is one measurement beside what the quota allows.
type bound struct {
	name        string
	resources   int
	reads, most int // calls that read, and how many are allowed
	writes      int
	took, least time.Duration // least is what the quota that binds takes for the calls needed
	ratio       float64       // of took to least that is allowed
	refused     int
	unstated    bool // the quota is not known beforehand: calls may be refused until it is found
}

// wrong says which limit the measurement misses, or is empty.
func (b bound) wrong() string {
	switch {
	case b.reads > b.most:
		return fmt.Sprintf("%d reads, want at most %d", b.reads, b.most)
	case b.took > time.Duration(b.ratio*float64(b.least)):
		return fmt.Sprintf("%v, want at most %.2f × %v", b.took, b.ratio, b.least)
	case b.refused > 0 && !b.unstated:
		return fmt.Sprintf("%d calls were refused, want none: the quota is stated", b.refused)
	}
	return ""
}

func (b bound) String() string {
	return fmt.Sprintf("%-34s %7d resources: %7d reads (at most %7d) %7d writes %4d refused; %11v, bound %11v, ratio %.3f (at most %.2f)",
		b.name, b.resources, b.reads, b.most, b.writes, b.refused, b.took.Round(time.Millisecond), b.least.Round(time.Millisecond),
		float64(b.took)/float64(b.least), b.ratio)
}

func (b bound) check(t *testing.T) {
	t.Helper()
	t.Log(b)
	t.Logf("campaign: %d reads, %d writes", b.reads, b.writes)
	if wrong := b.wrong(); wrong != "" {
		t.Errorf("%s: %s", b.name, wrong)
	}
}

// atRate is how long so many calls take at so many a second.
func atRate(calls int, perSecond rate.Limit) time.Duration {
	return time.Duration(float64(calls) / float64(perSecond) * float64(time.Second))
}

// scene is a fleet under exact quotas, with what a test changes in it.
type scene struct {
	*fleet
	n       int
	answers bool          // a Create's answer carries the state of the resource
	names   bool          // a list shows names only
	extra   int           // looks too many before each run: a negative control
	last    time.Duration // for which calls are counted when all is as it is to be
	limits  quota.Limits
}

func newScene(t *testing.T, w *world, edit ...func(*reconciletest.CloudOptions)) *scene {
	t.Helper()
	n := *resources
	o := reconciletest.CloudOptions{
		UniqueNames: true, ReadRate: readRate.PerSecond, WriteRate: writeRate.PerSecond, PageSize: max(n/100, 10),
	}
	for _, e := range edit {
		e(&o)
	}
	w.cloud = must(reconciletest.NewCloud(&o))
	w.o.Poll, w.o.PollPhase, w.o.ExclusiveCreate = 10*time.Minute, true, true
	w.restart(nil)
	// Half of the cloud's burst, which is a second's worth: what has been saved up is
	// no part of the bound.
	return &scene{
		fleet: &fleet{world: w, poll: w.o.Poll}, n: n, last: 3 * time.Second,
		limits: quota.Limits{
			Read: quota.Rate{PerSecond: readRate.PerSecond, Burst: 100}, Write: quota.Rate{PerSecond: writeRate.PerSecond, Burst: 10},
			Judge: judgeCloud,
		},
	}
}

// pages is how many pages a list of so many resources has.
func (s *scene) pages(n int) int {
	return max(1, int(math.Ceil(float64(n)/float64(max(s.n/100, 10)))))
}

// declareAll declares n disks that do not exist.
func (s *scene) declareAll() (keys []store.Key) {
	for i := range s.n {
		o := must(s.store.Create(s.t.Context(), &disk{Meta: store.Meta{Namespace: "t", Name: fmt.Sprintf("d%05d", i)}, Spec: diskSpec{Size: "1", Zone: "z"}}))
		keys = append(keys, o.Key())
	}
	return keys
}

// begin starts a process.
func (s *scene) begin() {
	s.set = must(quota.NewSet(&quota.Options{Limits: func(quota.Name) (quota.Limits, error) { return s.limits, nil }}))
	s.quota = must(s.set.Get(quota.Name{Account: "acme", Region: "eu", API: "disks"}))
	s.restart(nil)
	f := limited(s.quota, s.client)
	s.inv = s.world.inventory(func(o *invOpts) {
		o.Fresh, o.List, o.Get = s.poll, s.fleet.pages, s.read(o.Get)
		if s.names {
			whole := o.Get
			o.Detail = func(ctx context.Context, r resource) (resource, bool, error) { return whole(ctx, r.ID) }
			o.List = func(ctx context.Context) iter.Seq2[resource, error] {
				return func(yield func(resource, error) bool) {
					for r, err := range s.fleet.pages(ctx) {
						if !yield(resource{ID: r.ID}, err) {
							return
						}
					}
				}
			}
		}
	})
	if s.answers {
		create := f.CreateFunc
		f.CreateFunc = func(ctx context.Context, o *disk) error {
			err := create(ctx, o)
			if err == nil {
				r := s.client.desired(o)
				r.ID = r.Name
				s.inv.Wrote(r)
			}
			return err
		}
	}
	remove := func(ctx context.Context, o *disk) error { // by name: it is not looked for once more
		if err := s.cloud.Delete(ctx, nameOf(o)); !errors.Is(err, reconciletest.ErrNotFound) {
			return err
		}
		return nil
	}
	f.DeleteFunc = func(ctx context.Context, o *disk) error {
		return s.quota.Do(ctx, quota.Write, func(ctx context.Context) error { return remove(ctx, o) })
	}
	f = s.inv.Client(f)
	if observe := f.ObserveFunc; s.extra > 0 {
		f.ObserveFunc = func(ctx context.Context, o *disk) (external.Observation, error) {
			for range s.extra {
				err := s.quota.Do(ctx, quota.Read, func(ctx context.Context) error {
					_, err := s.cloud.Get(ctx, nameOf(o))
					return err
				})
				if errors.Is(err, quota.ErrNoBudget) { // the look is not left out
					return external.Observation{}, err
				}
			}
			return observe(ctx, o)
		}
	}
	s.with(f)
	s.m, s.stop = s.serve(sixteen(alwaysQuota(s.quota)), []reconcile.Source[reconcile.Request]{s.inv.Changed("drift")}, s.set)
}

// until waits until reached says so, and says how long that took; at most limit.
func (s *scene) until(limit time.Duration, reached func() bool) time.Duration {
	begun := time.Now()
	for !reached() && time.Since(begun) < limit {
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(begun)
}

// made is how many creates were recorded as successes by the reconciler.
func (s *scene) made() int { return int(s.rec.Stats().Calls["create"].OK) }

func (s *scene) reads() int { return s.cloud.Calls("Get") + s.cloud.Calls("List") }

// creates measures how the declared disks come to be, until all of them are ready.
func (s *scene) creates(name string, perObject float64) bound {
	s.declareAll()
	s.begin()
	defer func() { s.stop() }()
	begun, least := time.Now(), atRate(s.n, writeRate.PerSecond)
	var reads, writes []int // by minute, for the chart of docs/guide/04-cloud.md
	took := s.until(10*least, func() bool {
		if minute := int(time.Since(begun) / time.Minute); minute >= len(reads) {
			reads, writes = append(reads, s.reads()), append(writes, s.cloud.Writes())
		}
		return s.cloud.Calls("Create") >= s.n
	})
	if *chart {
		for len(reads) <= 30 { // the first half hour
			time.Sleep(time.Until(begun.Add(time.Duration(len(reads)) * time.Minute)))
			reads, writes = append(reads, s.reads()), append(writes, s.cloud.Writes())
		}
		s.t.Logf("%s by minute: reads %v, writes %v", name, reads, writes)
	}
	time.Sleep(3 * time.Second) // the last ones are looked at
	synctest.Wait()
	if err := s.asDeclared(); err != nil {
		s.t.Error(err)
	}
	s.wantCalls(map[string]int{"Create": s.n})
	return bound{
		name: name, resources: s.n, reads: s.reads(), most: int(perObject * float64(s.n)), writes: s.cloud.Writes(),
		took: took, least: least, ratio: 1.05, refused: s.cloud.Calls("refused"),
	}
}

// All are declared and none exists: 1.05 of what the writes take by their quota, and 1.1
// reads an object; where the answer of the create is the proof, nothing but one list.
func TestCreatesFromNothingReachTheBound(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		newScene(t, w).creates("creates", 1.1).check(t)
	})
	bubble(t, func(t *testing.T, w *world) {
		s := newScene(t, w)
		s.answers = true
		b := s.creates("creates whose answer is the proof", 0)
		b.most = 1 + int(b.took/s.poll)*s.pages(s.n) // an empty list, and one an interval
		b.check(t)
	})
}

// Where the cloud chooses the name there is none to look for: no look and no list comes
// before the create, and one look after it. docs/COST.md states it.
func TestNameThatTheCloudChoosesIsNotLookedForBeforeItsCreate(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Naming = external.ByCloud
		w.restart(nil)
		w.reconcileBy(w.inventory(func(o *invOpts) { o.IDOf = nil }))
		w.declare()
		w.run()
		w.wantCalls(map[string]int{"Create": 1, "Get": 0, "List": 0})
		w.run()
		w.wantCondition(store.ConditionReady, store.True, "")
		if reads := w.cloud.Calls("Get") + w.cloud.Calls("List"); reads > 2 {
			t.Errorf("%d reads after the create, want a list and a look", reads)
		}
	})
}

// A list of names only: the look after the create, and the details when a list shows the
// new name, are 2.1 reads a resource.
func TestCreatesByAListOfNamesReachTheBound(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := newScene(t, w)
		s.names = true
		reads := s.creates("creates, by a list of names", 1.1)
		reads.check(t)
	})
	bubble(t, func(t *testing.T, w *world) {
		s := newScene(t, w)
		b := s.details()
		defer func() { s.stop() }()
		b.check(t)
	})
}

// details measures how a process that has just begun looks at resources of which its list
// shows the names only.
func (s *scene) details() bound {
	s.names = true
	s.settle(s.n)
	s.begin()
	time.Sleep(s.poll + time.Second)
	synctest.Wait()
	return bound{
		name: "details of a list of names", resources: s.n, reads: s.reads(), most: s.n + 2*s.pages(s.n), took: 1, least: 1, ratio: 1,
		refused: s.cloud.Calls("refused"),
	}
}

// One look too many makes the check of the bound fail: it is exact.
func TestBoundOfCreatesCatchesOneLookTooMany(t *testing.T) {
	for name, extra := range map[string]func(*scene){
		"before each create": func(s *scene) { s.extra = 1 },
		"by a list of names": func(s *scene) { s.names, s.extra = true, 1 },
		"no exclusive create": func(s *scene) {
			s.o.ExclusiveCreate = false
			s.restart(nil)
		},
	} {
		bubble(t, func(t *testing.T, w *world) {
			s := newScene(t, w)
			s.n = min(s.n, 400)
			extra(s)
			if b := s.creates(name, 1.1); b.wrong() == "" {
				t.Errorf("one look too many passed: %v", b)
			}
		})
	}
}

// settled declares n disks that are in order, and starts a process whose first list is
// made.
func (s *scene) settled() (keys []store.Key) {
	keys = s.settle(s.n)
	s.begin()
	time.Sleep(s.poll + time.Second)
	synctest.Wait()
	return keys
}

// counted runs what changes the world and counts the calls until reached says so.
func (s *scene) counted(b bound, limit time.Duration, reached func() bool) bound {
	reads, writes := s.reads(), s.cloud.Writes()
	b.resources, b.took = s.n, s.until(limit, reached)
	time.Sleep(s.last) // the last ones are looked at
	synctest.Wait()
	b.reads, b.writes, b.refused = s.reads()-reads, s.cloud.Writes()-writes, s.cloud.Calls("refused")
	return b
}

// deletes measures how all objects, which are in order, are deleted.
func (s *scene) deletes(t *testing.T) bound {
	keys := s.settled()
	for _, k := range keys {
		if err := s.store.Delete(t.Context(), must(s.store.Get(t.Context(), k))); err != nil {
			t.Fatal(err)
		}
	}
	least := atRate(s.n, writeRate.PerSecond)
	return s.counted(bound{name: "deletes", most: s.n + s.pages(s.n), // one look for each, and a list
		least: least, ratio: 1.05}, 10*least,
		func() bool { return s.cloud.Calls("Delete") >= s.n })
}

// promise E2: the deletes are those of the objects, and each is proven by a look.
func TestDeletesReachTheBound(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := newScene(t, w)
		b := s.deletes(t)
		defer func() { s.stop() }()
		b.check(t)
		if left := must(s.store.List(t.Context(), store.Selector{})); len(left) != 0 || len(s.cloud.Truth()) != 0 {
			t.Errorf("%d objects and %d resources are left", len(left), len(s.cloud.Truth()))
		}
	})
}

// drift measures how a field of every resource that was changed behind our back is mended;
// the count begins when the list shows it.
func (s *scene) drift() bound {
	keys := s.settled()
	lists := s.cloud.Calls("List")
	for _, k := range keys {
		d := s.cloud.Peek("t-" + k.Name)
		d.Props["size"] = "drift"
		s.cloud.Put(d)
	}
	s.until(2*s.poll, func() bool { return s.cloud.Calls("List") >= lists+s.pages(s.n) })
	least := atRate(s.n, writeRate.PerSecond)
	return s.counted(bound{name: "updates of drift", most: s.n/10 + 2*s.pages(s.n), least: least, ratio: 1.05}, 10*least+s.poll,
		func() bool { return s.cloud.Calls("Update") >= s.n })
}

func TestUpdatesOfDriftReachTheBound(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := newScene(t, w)
		b := s.drift()
		defer func() { s.stop() }()
		b.check(t)
		if err := s.asDeclared(); err != nil {
			t.Error(err)
		}
	})
}

// steady measures intervals in which nothing changes.
func (s *scene) steady() bound {
	s.settled()
	intervals := 12
	if *aDay {
		intervals = 144
	}
	reads := s.reads()
	time.Sleep(time.Duration(intervals) * s.poll)
	return bound{
		name: "a steady day", resources: s.n, reads: s.reads() - reads, most: int(1.02 * float64(intervals*s.pages(s.n))),
		writes: s.cloud.Writes(), took: 1, least: 1, ratio: 1.05, refused: s.cloud.Calls("refused"),
	}
}

// One look too many for each run makes each of the other checks fail.
func TestBoundsCatchOneLookTooMany(t *testing.T) {
	for name, measure := range map[string]func(*scene, *testing.T) bound{
		"deletes":                 (*scene).deletes,
		"drift":                   func(s *scene, _ *testing.T) bound { return s.drift() },
		"steady":                  func(s *scene, _ *testing.T) bound { return s.steady() },
		"names":                   func(s *scene, _ *testing.T) bound { return s.details() },
		"a hundredth that drifts": func(s *scene, _ *testing.T) bound { return s.driftOfAHundredth() },
		"restart": func(s *scene, _ *testing.T) bound {
			s.last = time.Minute // the key that was edited may be one of the first to run: the looks are those of the others
			b, _ := s.restarted()
			return b
		},
		"live change": func(s *scene, _ *testing.T) bound {
			_, keys := s.restarted()
			return s.liveChange(keys[0])
		},
	} {
		bubble(t, func(t *testing.T, w *world) {
			s := newScene(t, w)
			s.n, s.extra = min(s.n, 200), 1
			b := measure(s, t)
			defer func() { s.stop() }()
			if b.wrong() == "" {
				t.Errorf("%s: one look too many passed: %v", name, b)
			}
		})
	}
}

// driftOfAHundredth measures how a hundredth that drifts at one moment is mended.
func (s *scene) driftOfAHundredth() bound {
	keys := s.settled()
	lists := s.cloud.Calls("List")
	s.until(2*s.poll, func() bool { return s.cloud.Calls("List") >= lists+s.pages(s.n) })
	drifted := s.n / 100
	for i := range drifted {
		d := s.cloud.Peek("t-" + keys[i*100].Name)
		d.Props["size"] = "drift"
		s.cloud.Put(d)
	}
	least := s.poll + atRate(drifted, writeRate.PerSecond)
	return s.counted(bound{name: "1 % drifted at once", most: 2*s.pages(s.n) + drifted, least: least, ratio: 1.05}, 10*least,
		func() bool { return s.cloud.Calls("Update") >= drifted })
}

// The last of a hundredth that drifts at one moment is mended within one interval of the
// list and the time of the writes.
func TestDriftOfAHundredthIsMendedWithinOneList(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := newScene(t, w)
		b := s.driftOfAHundredth()
		defer func() { s.stop() }()
		b.check(t)
	})
}

// Nothing changes: an interval costs the pages of one list.
func TestSteadyDayCostsOneListAnInterval(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := newScene(t, w)
		b := s.steady()
		defer func() { s.stop() }()
		b.check(t)
		if b.writes > 0 {
			t.Errorf("%d writes although all was in order", b.writes)
		}
	})
}

// restarted measures how a process that has just begun serves what was edited before.
func (s *scene) restarted() (b bound, keys []store.Key) {
	keys = s.settle(s.n)
	edited := keys[s.n/2]
	s.resize(edited, "2") // while no process runs
	s.begin()
	return s.counted(bound{name: "restart, first change", most: s.pages(s.n) + 1, least: atRate(s.pages(s.n), readRate.PerSecond) + time.Second, ratio: 1},
		time.Minute, func() bool { return s.size(edited) == "2" }), keys
}

// liveChange measures how a change is served by a process that runs.
func (s *scene) liveChange(k store.Key) bound {
	s.resize(k, "3")
	return s.counted(bound{name: "restart, live change", most: 1, least: time.Second, ratio: 1}, time.Minute, func() bool { return s.size(k) == "3" })
}

// After a restart the first change is served after one list and nothing else.
func TestRestartCostsOneListBeforeTheFirstChange(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := newScene(t, w)
		b, keys := s.restarted()
		defer func() { s.stop() }()
		b.check(t)
		for i := range 10 {
			s.liveChange(keys[i]).check(t)
		}
	})
}

// The cloud refuses what goes beyond its quota with a Retry-After of a second, or fails
// every tenth call. The lists come as often for so many resources as those of 100,000 come
// at the default interval.
//
// Negative controls: with lists that begin again after each page that failed, and with a
// look too many before each run, the check fails.
func TestCreatesAgainstAFailingCloudReachTheBound(t *testing.T) {
	retryAfter := func(o *reconciletest.CloudOptions) { o.RetryAfter, o.WriteRate = time.Second, writeRate.PerSecond/2 }
	failing := func(o *reconciletest.CloudOptions) { o.FailEvery = 10 }
	for name, c := range map[string]struct {
		edit    func(*reconciletest.CloudOptions)
		granted rate.Limit
		control func(*scene) // nil: the check passes
	}{
		"429 with Retry-After":                          {retryAfter, writeRate.PerSecond / 2, nil},
		"429 with Retry-After, a look more":             {retryAfter, writeRate.PerSecond / 2, func(s *scene) { s.extra = 1 }},
		"every tenth call fails":                        {failing, writeRate.PerSecond * 0.9, nil},
		"every tenth call fails, no page is read again": {failing, writeRate.PerSecond * 0.9, func(s *scene) { s.brittle = true }},
		"every tenth call fails, a look more":           {failing, writeRate.PerSecond * 0.9, func(s *scene) { s.extra = 1 }},
	} {
		bubble(t, func(t *testing.T, w *world) {
			s := newScene(t, w, func(o *reconciletest.CloudOptions) {
				c.edit(o)
				if c.control != nil {
					o.PageSize = 10
				}
			})
			if c.control != nil {
				s.n = min(s.n, 400) // the check is the same at every size
			}
			s.poll = max(s.poll*time.Duration(s.n)/100_000, time.Second)
			s.limits.Write.Ceiling = 0
			if c.granted == writeRate.PerSecond/2 {
				s.limits.Write.Ceiling = writeRate.PerSecond // the quota is not stated
			}
			if c.control != nil {
				c.control(s)
			}
			s.declareAll()
			s.begin()
			defer func() { s.stop() }()
			// What failed last, and several times in a row, waits out its backoff.
			least := atRate(s.n, c.granted) + time.Second
			b := s.counted(bound{name: name, least: least, ratio: 1.1, unstated: s.limits.Write.Ceiling > 0}, 10*least, func() bool { return s.made() >= s.n })
			// A look follows each create, also each of the n/9 that fail, and a tenth of the reads
			// fail, too; besides there is a list an interval.
			lists := 2 + int(b.took/s.poll)
			b.most = int((1.112*float64(s.n) + float64(lists*s.pages(s.n))) / 0.9)
			if c.control == nil {
				b.check(t)
			} else if b.wrong() == "" {
				t.Errorf("the check passes although it must not: %v", b)
			} else {
				t.Logf("fails as it should: %v", b)
			}
		})
	}
}

// throttled is how many calls of each budget were refused so far.
func (s *scene) throttled() (text string) {
	for _, b := range s.set.Snapshot() {
		text += fmt.Sprintf("%s: %d of %d; ", b.Bucket.Name, b.Throttled, b.Calls)
	}
	return text
}

// In the middle of the creates the cloud grants a tenth for an hour (at a smaller size for
// a part of it) and says so by refusals alone: at most 2 % of the calls are refused
// meanwhile, all of the quota is in use within 60 s afterwards, and the whole takes at most
// 1.25 of what is granted.
// TestSilentCutOfTheQuotaIsFoundAndForgotten of package quota has the control.
func TestCreatesThroughASilentCutReachTheBound(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := newScene(t, w)
		whole := s.n >= 100_000
		length := time.Duration(float64(time.Hour) * float64(s.n) / 100_000)
		s.limits.Read.Ceiling, s.limits.Write.Ceiling = readRate.PerSecond, writeRate.PerSecond // both are cut
		s.declareAll()
		s.begin()
		defer func() { s.stop() }()
		begun, first := time.Now(), s.n/4
		s.until(time.Hour, func() bool { return s.made() >= first })
		calls, refused := s.cloud.Writes(), s.cloud.Calls("refused")
		s.cloud.Grant(0.1)
		time.Sleep(length)
		calls, refused = s.cloud.Writes()-calls, s.cloud.Calls("refused")-refused
		// To find the new rate takes some refusals, however long it lasts.
		if most := max(calls/50, 40); refused > most {
			t.Errorf("%d of %d calls were refused during the cut, want at most %d; in all %s", refused, calls, most, s.throttled())
		}
		s.cloud.Grant(1)
		if whole {
			time.Sleep(time.Minute)
			made := s.made()
			time.Sleep(10 * time.Second)
			if got := s.made() - made; got < 950 {
				t.Errorf("%d creates in the 10 s that begin a minute after the cut, want 950", got)
			}
		}
		s.until(time.Hour, func() bool { return s.made() >= s.n })
		cut, recovery := int(length.Seconds()*float64(writeRate.PerSecond)/10), time.Duration(0)
		if !whole {
			recovery = 30 * time.Second // which takes as long at every size
		}
		bound{
			name: "a silent cut to a tenth", resources: s.n, reads: s.reads(), most: int(1.3 * float64(s.n)), writes: s.cloud.Writes(),
			took: time.Since(begun), least: length + recovery + atRate(s.n-cut, writeRate.PerSecond), ratio: 1.25, refused: refused, unstated: true,
		}.check(t)
	})
}
