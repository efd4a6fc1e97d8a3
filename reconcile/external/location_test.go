package external_test

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
)

// locationOf is where a disk lies: in the west, if its spec does not say otherwise.
func locationOf(o *disk) string { return "the " + cmp.Or(o.Spec.Where, "west") }

// placed is a bubble whose objects say where their disks lie.
func placed(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	bubble(t, func(t *testing.T, w *world) {
		w.o.Location = locationOf
		w.restart(nil)
		f(t, w)
	})
}

func (w *world) move(to string) {
	w.t.Helper()
	w.edit(func(o *disk) { o.Spec.Where = to })
}

// isMoved runs once, and wants the run to say that the object moved, and to call nothing.
func (w *world) isMoved() {
	w.t.Helper()
	calls := w.cloud.TotalCalls()
	err := w.fails()
	if !errors.Is(err, external.ErrLocationChanged) || !errors.Is(err, reconcile.ErrTerminal) || !strings.Contains(err.Error(), `"the west"`) || !strings.Contains(err.Error(), `"the east"`) || !strings.Contains(err.Error(), `"tend forget-location"`) {
		w.t.Errorf("error %v, want a terminal ErrLocationChanged that names both locations and the command", err)
	}
	if n := w.cloud.TotalCalls() - calls; n != 0 {
		w.t.Errorf("%d calls of the cloud, want none", n)
	}
	w.wantCondition(store.ConditionReady, store.False, external.ReasonLocationChanged)
	w.wantCondition(store.ConditionSynced, store.False, external.ReasonLocationChanged)
}

// wantLocation compares the record with what is in the cloud: one disk, there.
func (w *world) wantLocation(want string) {
	w.t.Helper()
	if got := w.get().Intent.Location; got != want {
		w.t.Errorf("the location on record is %q, want %q", got, want)
	}
	if all := w.cloud.Truth(); len(all) != 1 || want != "the "+cmp.Or(all[0].Props["where"], "west") {
		w.t.Errorf("there are %+v, want one disk in %s", all, want)
	}
}

// An edit of the location creates nothing there, and goes on with what there is once it is taken back.
//
// promise E1. Negative control: mutant "a spec that moved is looked up where it says".
func TestEditOfTheLocationMakesNoSecondResource(t *testing.T) {
	for name, naming := range map[string]external.Naming{"our name": external.ByUs, "by mark": external.ByMark, "the cloud's name": external.ByCloud} {
		t.Run(name, func(t *testing.T) {
			placed(t, func(t *testing.T, w *world) {
				w.o.Naming = naming
				w.restart(nil)
				w.converged()
				w.move("east")
				time.Sleep(time.Hour)
				w.isMoved()
				w.restart(nil)
				w.isMoved()
				wantSlice(t, "events", w.reasons(), []string{external.ReasonCreated, external.ReasonLocationChanged, external.ReasonLocationChanged})
				w.move("")
				w.run()
				w.wantCondition(store.ConditionReady, store.True, "")
				w.wantCondition(store.ConditionSynced, store.True, "")
				w.wantCalls(map[string]int{"Create": 1})
				w.wantLocation("the west")
			})
		})
	}
}

// A disk of others that lies at the other location is not taken for one that lost its mark.
//
// promise E2
func TestEditOfTheLocationTakesOverNothingThere(t *testing.T) {
	placed(t, func(t *testing.T, w *world) {
		w.converged()
		w.cloud.Put(resource{Name: "t-a-east", Props: map[string]string{"size": "7", "where": "east"}})
		w.move("east")
		w.isMoved()
		w.delete()
		time.Sleep(time.Hour)
		w.isMoved()
		if r := w.cloud.Peek("t-a-east"); r.Props["size"] != "7" || len(r.Tags) != 0 {
			t.Errorf("the disk of others is %+v", r)
		}
	})
}

// A deletion waits for the spec to be put back: else the resource stayed behind.
//
// promise E2. Negative control: mutant "a deletion goes to the location that the spec says".
func TestDeletionWhileMovedLetsNothingGo(t *testing.T) {
	placed(t, func(t *testing.T, w *world) {
		w.converged()
		w.move("east")
		w.delete()
		time.Sleep(time.Hour)
		w.isMoved()
		w.wantLocation("the west")
		w.move("")
		for range 2 {
			w.run()
		}
		if !w.gone() || len(w.cloud.Truth()) != 0 {
			t.Errorf("gone %v, and there are %+v; want the deletion to end", w.gone(), w.cloud.Truth())
		}
	})
}

// Where the resource stays behind anyway its object goes.
func TestMovedObjectThatLeavesItsResourceGoes(t *testing.T) {
	placed(t, func(t *testing.T, w *world) {
		w.converged()
		w.move("east")
		w.edit(func(o *disk) {
			o.Annotations = map[string]string{external.PolicyAnnotation: "observe,create,update"}
		})
		w.delete()
		w.run()
		if !w.gone() || len(w.cloud.Truth()) != 1 {
			t.Errorf("gone %v, and there are %+v; want the resource to stay", w.gone(), w.cloud.Truth())
		}
	})
}

// A create that made nothing binds the object to no location.
//
// Negative control: mutant "a failed create keeps its location".
func TestFailedCreateLeavesTheLocationOpen(t *testing.T) {
	placed(t, func(t *testing.T, w *world) {
		fails := errors.New("no such zone")
		w.createFails(&fails)
		w.declare()
		w.fails()
		fails = nil
		w.move("east")
		w.run()
		w.wantLocation("the east")
	})
}

// A create of unknown outcome binds it, whether or not it made something.
//
// promise E1. Negative control: mutant "a create records no location".
func TestCreateThatIsCutShortHoldsItsLocation(t *testing.T) {
	for name, made := range map[string]bool{"it made nothing": false, "it made the disk": true} {
		t.Run(name, func(t *testing.T) {
			placed(t, func(t *testing.T, w *world) {
				f, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
					f.ObserveFunc = w.client.Observe
					f.CreateFunc = func(ctx context.Context, o *disk) error {
						if made {
							must(0, w.client.Create(ctx, o))
						}
						w.move("east") // while the create is under way
						return external.Unknown(errors.New("killed"))
					}
				})
				w.with(f)
				w.declare()
				w.fails()
				w.restart(nil)
				for range 2 {
					time.Sleep(time.Hour)
					w.isMoved()
				}
				w.move("")
				w.run()
				w.run()
				w.wantCondition(store.ConditionReady, store.True, "")
				w.wantLocation("the west")
			})
		})
	}
}

// An operator that has looked gives a pending create up, and its location with it.
func TestClearedCreateLeavesTheLocationOpen(t *testing.T) {
	placed(t, func(t *testing.T, w *world) {
		w.o.Naming = external.ByCloud
		w.restart(nil)
		w.declare()
		w.intent(func(i *store.Intent) { i.Attempt, i.Pending, i.Location = 1, time.Now(), "the west" })
		w.move("east")
		w.isMoved()
		if err := w.rec.ClearPending(t.Context(), key, ""); err != nil {
			t.Fatal(err)
		}
		w.run()
		w.wantLocation("the east")
	})
}

// A resource that is gone is made again where it was, and not elsewhere.
func TestResourceThatIsGoneIsMadeAgainInItsLocation(t *testing.T) {
	placed(t, func(t *testing.T, w *world) {
		w.converged()
		w.cloud.Remove("t-a")
		time.Sleep(time.Hour)
		w.move("east")
		w.isMoved() // that it is gone was not seen
		w.move("")
		w.run()
		w.wantLocation("the west")
	})
}

// Objects from before there was a record get it by one write, ever.
//
// Negative control: mutant "a location that is not on record stays so".
func TestLocationIsRecordedOnceForAResourceThatIsThere(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.converged()
		time.Sleep(time.Hour)
		w.run()
		w.wantNoLocation()
		w.o.Location = locationOf
		for writes := range []int{1, 0, 0} {
			w.restart(nil) // a new process each time
			before := w.revision()
			w.run()
			want := before
			if writes == 0 {
				want++
			}
			if got := w.revision(); got != want {
				t.Errorf("run %d: %d writes, want %d", writes, got-before, want-before)
			}
		}
		w.wantLocation("the west")
		w.move("east")
		w.isMoved()
	})
}

func (w *world) wantNoLocation() {
	w.t.Helper()
	if got := w.get().Intent.Location; got != "" {
		w.t.Errorf("the location on record is %q, want none", got)
	}
}

// What is taken over is held by its location before anything is written to it.
//
// Negative control: mutant "a location that is not on record stays so".
func TestLocationOfWhatIsTakenOverIsRecordedBeforeTheUpdate(t *testing.T) {
	placed(t, func(t *testing.T, w *world) {
		w.cloud.Put(resource{Name: "t-a", Props: map[string]string{"size": "9"}})
		w.declare(func(o *disk) { o.Annotations = map[string]string{external.PolicyAnnotation: "all,adopt"} })
		f, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
			f.ObserveFunc = w.client.Observe
			f.UpdateFunc = func(ctx context.Context, o *disk) error {
				w.wantLocation("the west")
				return w.client.Update(ctx, o)
			}
		})
		w.with(f)
		w.run()
		w.wantCalls(map[string]int{"Update": 1})
		w.move("east")
		w.isMoved()
	})
}

// What is only looked at, or is another's, holds no object: it may name another location.
func TestLocationOfWhatIsNotOursIsNotRecorded(t *testing.T) {
	for name, policy := range map[string]string{"only looked at": "observe", "another's": "all"} {
		t.Run(name, func(t *testing.T) {
			placed(t, func(t *testing.T, w *world) {
				w.cloud.Put(resource{Name: "t-a", Props: map[string]string{"size": "1"}})
				w.declare(func(o *disk) { o.Annotations = map[string]string{external.PolicyAnnotation: policy} })
				w.run()
				w.wantNoLocation()
				w.move("east")
				w.run()
			})
		})
	}
}

// Nor is that of a resource that carries the object's mark, or tells of none, and is only looked at.
//
// Negative control: mutant "what is only looked at holds its object".
func TestLocationOfWhatIsOnlyLookedAtIsNotRecorded(t *testing.T) {
	placed(t, func(t *testing.T, w *world) {
		w.declare(func(o *disk) {
			o.Annotations = map[string]string{external.PolicyAnnotation: "observe"}
			o.Spec.Zone = "zone-1"
		})
		w.cloud.Put(resource{Name: "t-a", Props: map[string]string{"size": w.get().Spec.Size, "zone": "zone-1"}, Tags: tags(markOf(w.get()))})
		w.run()
		w.wantCondition(store.ConditionReady, store.True, "")
		w.wantNoLocation()
		w.move("east")
		w.run()
		w.wantCondition(store.ConditionSynced, store.False, external.ReasonMissing)
	})
}

// A location that is not known before the cloud has chosen it is recorded when it is.
func TestLocationThatTheCloudChoosesIsRecordedWhenItIsKnown(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Location = func(o *disk) string { return o.Spec.Zone }
		w.restart(nil)
		if got := w.converged(func(o *disk) { o.Spec.Zone = "" }).Intent.Location; got != "zone-1" {
			t.Errorf("the location on record is %q, want the zone that the cloud chose", got)
		}
		w.edit(func(o *disk) { o.Spec.Zone = "" }) // as a file of declarations has it
		w.run()
		w.wantCondition(store.ConditionReady, store.True, "")
		w.edit(func(o *disk) { o.Spec.Zone = "zone-2" })
		if err := w.fails(); !errors.Is(err, external.ErrLocationChanged) {
			t.Errorf("error %v, want ErrLocationChanged", err)
		}
	})
}

// A panic of Options.Location is one of the run, as that of Options.Policy is.
func TestPanicInLocationIsShown(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Location = func(*disk) string { panic("no region") }
		w.restart(nil)
		w.declare()
		func() {
			defer func() {
				if p := recover(); p == nil {
					t.Error("the panic did not reach the controller")
				}
			}()
			_, _ = w.rec.Reconcile(w.ctx(), key)
		}()
		w.wantCondition(store.ConditionSynced, store.False, external.ReasonPanicked)
	})
}

// Putting the spec back wakes the key, which is parked.
func TestSpecThatIsPutBackWakesTheKey(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Location = locationOf
		defer w.live()()
		w.declare()
		w.rest(10 * time.Second)
		w.move("east")
		w.rest(10 * time.Second)
		w.wantCondition(store.ConditionSynced, store.False, external.ReasonLocationChanged)
		w.edit(func(o *disk) { o.Spec.Where, o.Spec.Size = "", "2" })
		w.rest(10 * time.Second)
		w.wantCondition(store.ConditionReady, store.True, "")
		w.wantLocation("the west")
		w.wantCalls(map[string]int{"Create": 1, "Update": 1})
	})
}

// A moved object is neither missing nor an orphan's declaration: a plan says that it stops, a
// report that it differs, and a prune leaves its resource.
//
// promise E2. Negative control: mutant "an object that moved is missing".
func TestPlanReportAndPruneOfAMovedObject(t *testing.T) {
	placed(t, func(t *testing.T, w *world) {
		keys := w.populate(12)
		w.orphan("old")
		w.reconcileAll(keys)
		must(w.store.Mutate(t.Context(), keys[1], func(o *disk) error { o.Spec.Where = "east"; return nil }))
		time.Sleep(time.Hour)
		v := w.inventory()
		w.reconcileBy(v)
		if _, err := w.rec.Reconcile(w.ctx(), keys[1]); !errors.Is(err, external.ErrLocationChanged) {
			t.Fatalf("error %v, want ErrLocationChanged", err)
		}
		p := must(w.rec.Plan(t.Context()))
		if len(p.Steps) != 1 || p.Steps[0].Action != "stop" || p.Steps[0].Key != keys[1] || !strings.Contains(p.Steps[0].Why, "the east") || p.ExitCode(nil) != 1 {
			t.Errorf("plan %+v, want that %v stops because of its location", p, keys[1])
		}
		r := wantReport(t, v, map[string]int{"different": 1, "orphans": 1})
		if f := r.Different[0]; f.Key != keys[1] || f.ID != "t-d00001" || !strings.Contains(f.Diff, "the east") {
			t.Errorf("finding %+v, want that of the place of %v", f, keys[1])
		}
		pruned := must(v.Prune(t.Context(), external.Cap{}))
		if len(pruned) != 1 || pruned[0].ID != "old" || len(w.cloud.Truth()) != 12 {
			t.Errorf("pruned %v, %d are left; want only the orphan to go", pruned, len(w.cloud.Truth()))
		}
	})
}

// movers adds a user that moves disks, and mostly back.
func (w *world) movers(names int) func(*rand.Rand) (string, error) {
	user := must(store.New[diskSpec, diskStatus](w.backend, "Disk", nil))
	return func(r *rand.Rand) (string, error) {
		k, to := aDisk(r, names), ""
		if r.IntN(4) == 0 {
			to = "east"
		}
		_, err := user.Mutate(context.Background(), k, func(o *disk) error { o.Spec.Where = to; return nil })
		return "move " + k.String() + " to " + to, unlessGone(err)
	}
}

// Negative control of the simulations with moves: without Options.Location there are two disks.
func TestSimulationCatchesAMove(t *testing.T) {
	caught := false
	for seed := uint64(0); seed < 5 && !caught; seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			s := w.simulation(seed, external.ByUs, moving)
			w.o.Location = nil
			err := s.Run(t.Context())
			caught = err != nil && strings.Contains(err.Error(), "two disks")
		})
	}
	if !caught {
		t.Error("disks that moved unnoticed passed the simulation")
	}
}

// What an object has taken over of an earlier one of its name is no orphan when the object's spec is
// edited, also before a run has seen the edit.
//
// promise E2. Negative control: mutant "what was taken over is pruned after an edit of the location".
func TestPruneLeavesWhatWasTakenOverBeforeAnEdit(t *testing.T) {
	placed(t, func(t *testing.T, w *world) {
		keys := w.populate(12)
		w.reconcileAll(keys)
		former := external.Mark{Installation: home, Kind: "Disk", Key: key, UID: "u-before"}
		w.cloud.Put(resource{Name: "t-a", Props: map[string]string{"size": "9"}, Tags: tags(former)})
		w.declare()
		f, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
			f.ObserveFunc = w.client.Observe
			f.UpdateFunc = func(context.Context, *disk) error { return errors.New("busy") }
		})
		w.with(f)
		w.fails()
		w.move("east")
		time.Sleep(time.Hour)
		for range 2 {
			if pruned := must(w.inventory().Prune(t.Context(), external.Cap{})); len(pruned) != 0 {
				t.Fatalf("pruned %v", pruned)
			}
			w.isMoved()
			time.Sleep(time.Hour)
		}
	})
}

// A look that goes through all locations finds the resource elsewhere than the spec says. That is
// not recorded, or the spec could not be put back.
//
// Negative control: mutant "a location is recorded of what is not as declared".
func TestLocationOfWhatIsNotAsDeclaredIsNotRecorded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.converged()
		w.move("east") // before Location was given
		w.o.Location = locationOf
		fails := errors.New("there is no such disk in the east")
		f, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
			f.ObserveFunc = func(_ context.Context, o *disk) (external.Observation, error) {
				return external.Observation{Exists: true, Owner: external.Ours, UpToDate: o.Spec.Where == "" && o.Spec.Size != "7"}, nil
			}
			f.UpdateFunc = func(context.Context, *disk) error { return fails }
		})
		w.with(f)
		w.fails()
		w.wantNoLocation()
		w.move("")
		w.run()
		w.wantLocation("the west")
	})
	bubble(t, func(t *testing.T, w *world) { // an update that succeeds is one in the spec's location
		w.converged()
		w.edit(func(o *disk) { o.Spec.Size = "7" })
		w.o.Location = locationOf
		w.restart(nil)
		w.run()
		w.wantLocation("the west")
	})
}

// A cloud that says "there is none" of a resource that is there, and then refuses its name, does not
// make the object forget where the resource lies.
//
// promise E1. Negative control: mutant "a failed create forgets where a resource was".
func TestFailedCreateForgetsNoResourceThatWasThere(t *testing.T) {
	placed(t, func(t *testing.T, w *world) {
		w.converged()
		f, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
			f.ObserveFunc = func(context.Context, *disk) (external.Observation, error) { return external.Observation{}, nil }
			f.CreateFunc = func(context.Context, *disk) error { return errors.New("409: the name is taken") }
		})
		w.with(f)
		w.run() // waits for the grace
		time.Sleep(time.Hour)
		w.fails()
		w.restart(nil)
		w.move("east")
		w.isMoved()
		w.wantLocation("the west")
	})
}

// A human that has looked has the record forgotten, as for a location that has another name now.
//
// Negative control: mutant "a cleared location wakes no worker".
func TestClearedLocationIsRecordedByTheNextRun(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Location = locationOf
		defer w.live()()
		w.declare()
		w.rest(10 * time.Second)
		w.intent(func(i *store.Intent) { i.Location = "the old west" })
		w.edit(func(o *disk) { o.Spec.Size = "2" })
		w.rest(10 * time.Second)
		w.wantCondition(store.ConditionSynced, store.False, external.ReasonLocationChanged)
		for range 2 { // the second time there is nothing to clear
			if err := w.rec.ClearLocation(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			w.rest(10 * time.Second)
			w.wantCondition(store.ConditionReady, store.True, "")
			w.wantLocation("the west")
		}
		w.wantCalls(map[string]int{"Create": 1, "Update": 1})
		if err := w.rec.ClearLocation(t.Context(), store.Key{Name: "none"}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("error %v, want ErrNotFound", err)
		}
	})
}

// Late initialisation that spells a location otherwise would stop each object by its own write.
//
// Negative control: mutant "late initialisation changes the location".
func TestLateInitialisationDoesNotChangeTheLocation(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Location = func(o *disk) string { return cmp.Or(o.Spec.Zone, "zone one") }
		w.restart(nil)
		w.declare(func(o *disk) { o.Spec.Zone = "" })
		w.run()
		time.Sleep(time.Hour)
		if err := w.fails(); !errors.Is(err, reconcile.ErrTerminal) || !strings.Contains(err.Error(), `"zone one" to "zone-1"`) {
			t.Errorf("error %v, want one that names both", err)
		}
		if zone := w.get().Spec.Zone; zone != "" {
			t.Errorf("the zone %q was filled in", zone)
		}
	})
}
