package external_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
)

type (
	resource  = reconciletest.Resource
	inventory = external.Inventory[diskSpec, diskStatus, resource]
	invOpts   = external.InventoryOptions[diskSpec, diskStatus, resource]
)

// options is an inventory of the world's cloud, whose names are ours.
func (w *world) options() invOpts {
	return invOpts{
		Store: w.store, Installation: home,
		List: func(ctx context.Context) iter.Seq2[resource, error] { return w.cloud.List(ctx) },
		Get: func(ctx context.Context, id string) (resource, bool, error) {
			r, err := w.cloud.Get(ctx, id)
			if errors.Is(err, reconciletest.ErrNotFound) {
				return r, false, nil
			}
			return r, err == nil, err
		},
		ID:     func(r resource) string { return r.ID },
		IDOf:   nameOf,
		Owner:  readMark,
		Delete: func(ctx context.Context, r resource) error { return w.cloud.Delete(ctx, r.ID) },
		Compare: func(o *disk, r resource) external.Observation {
			o.Status.ID = r.ID
			seen := external.Observation{UpToDate: r.Props["size"] == o.Spec.Size}
			if !seen.UpToDate {
				seen.Diff = fmt.Sprintf("size: %q, want %q", r.Props["size"], o.Spec.Size)
			}
			return seen
		},
	}
}

func (w *world) inventory(edit ...func(*invOpts)) *inventory {
	o := w.options()
	for _, e := range edit {
		e(&o)
	}
	return must(external.NewInventory(&o))
}

// reconcileBy makes the world's reconciler observe through the inventory.
func (w *world) reconcileBy(v *inventory) {
	w.with(v.Client(external.ClientFuncs[diskSpec, diskStatus]{
		CreateFunc: w.client.Create, UpdateFunc: w.client.Update, DeleteFunc: w.client.Delete,
	}))
}

// reconcileAll runs each key once.
func (w *world) reconcileAll(keys []store.Key) {
	w.t.Helper()
	for _, k := range keys {
		must(w.rec.Reconcile(w.ctx(), k))
	}
}

// populate declares n disks, and puts what they declare into the cloud.
func (w *world) populate(n int) []store.Key {
	var keys []store.Key
	for i := range n {
		o := must(w.store.Create(w.t.Context(), &disk{Meta: store.Meta{Namespace: "t", Name: fmt.Sprintf("d%05d", i)}, Spec: diskSpec{Size: "1", Zone: "z"}}))
		w.cloud.Put(w.client.desired(o))
		keys = append(keys, o.Key())
	}
	return keys
}

// promise E1: looks that an inventory serves, and a create whose answer was lost. The name
// is the cloud's, so the list has to show the resource by its mark, and one of before the
// end of the grace does not show that there is none.
//
// Negative control: mutants "an inventory finds nothing by its mark" and "a list from
// during the grace shows that there is nothing"; with each there were two disks.
func TestInventoryFindsByItsMarkWhatACreateOfUnknownOutcomeMade(t *testing.T) {
	for _, last := range []string{"", "an earlier one"} {
		bubble(t, func(t *testing.T, w *world) {
			w.slowToShow(external.ByMark)
			v := w.inventory(func(o *invOpts) { o.IDOf = nil })
			w.with(v.Client(w.losing(w.client.Create).(external.ClientFuncs[diskSpec, diskStatus])))
			w.declare()
			w.intent(func(i *store.Intent) { i.ExternalName = last })
			w.fails()
			for range 5 {
				w.run()
				time.Sleep(31 * time.Second)
			}
			if got := w.cloud.Truth(); len(got) != 1 || w.get().Intent.ExternalName != got[0].ID {
				t.Fatalf("disks %+v, the record is %+v; want one, known by its name", got, w.get().Intent)
			}
			w.wantCondition(store.ConditionReady, store.True, "")
		})
	}
}

// promise E1: nothing is on record, and a resource carries the object's mark all the same: the store
// was restored from a backup of before the create, or the object was declared again after another
// of its key. It is taken over, of several the one that was declared last, and prunes leave it.
//
// Seen to fail: a second disk was made, and a prune deleted the first.
//
// Negative controls: mutants "nothing is looked for by its mark before the first create" and "what an
// earlier object left behind is not looked for by its mark".
func TestFirstCreateLooksForWhatCarriesTheMark(t *testing.T) {
	for _, left := range [][]string{{""}, {"an earlier object"}, {"an earlier object", "one before that"}, {"an earlier object", ""}} {
		bubble(t, func(t *testing.T, w *world) {
			w.slowToShow(external.ByMark)
			v := w.inventory(func(o *invOpts) { o.IDOf = nil })
			w.reconcileBy(v)
			o := w.declare()
			want := ""
			for n, uid := range left {
				mark := markOf(o)
				if uid != "" {
					mark.UID, mark.Declared = uid, mark.Declared-int64(1+n)
				}
				r := w.client.desired(o)
				r.Tags = tags(mark)
				if r = w.cloud.Put(r); n == 0 || uid == "" {
					want = r.ID
				}
			}
			for range 5 {
				w.run()
				time.Sleep(31 * time.Second)
			}
			w.wantCalls(map[string]int{"Create": 0})
			if i := w.get().Intent; i.ExternalName != want {
				t.Errorf("left of %q: the record is %+v, want the name %s", left, i, want)
			}
			if m, _ := readMark(w.cloud.Peek(want)); m.UID != o.UID {
				t.Errorf("left of %q: the mark is %+v, want the uid %s", left, m, o.UID)
			}
			w.wantCondition(store.ConditionReady, store.True, "")
			if orphans := must(v.Report(t.Context())).Orphans; slices.ContainsFunc(orphans, func(f external.Finding) bool { return f.ID == want }) {
				t.Errorf("left of %q: a prune would delete %v, want not %s", left, orphans, want)
			}
		})
	}
}

// promise E1: what an earlier object left behind is on the list, and what the newest create made
// is not yet.
//
// Negative control: mutant "a create of unknown outcome takes over what an earlier object left
// behind"; with that two disks carried the mark of one object.
func TestCreateOfUnknownOutcomeTakesOverNothingOfAnEarlierObject(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.slowToShow(external.ByMark)
		w.reconcileBy(w.inventory(func(o *invOpts) { o.IDOf = nil }))
		o := w.declare()
		earlier := w.client.desired(o)
		mark := markOf(o)
		mark.UID = "an earlier object"
		earlier.Tags = tags(mark)
		w.cloud.Put(earlier)
		made := must(w.cloud.Create(t.Context(), w.client.desired(o))).ID
		w.intent(func(i *store.Intent) { *i = store.Intent{Attempt: 1, Pending: time.Now()} })
		for range 5 {
			w.run()
			time.Sleep(31 * time.Second)
		}
		w.wantCalls(map[string]int{"Create": 1, "Update": 0})
		if i := w.get().Intent; i.ExternalName != made {
			t.Errorf("the record is %+v, want the name %s", i, made)
		}
	})
}

// nameless is a client whose creates leave no name.
func (w *world) nameless() external.ClientFuncs[diskSpec, diskStatus] {
	return external.ClientFuncs[diskSpec, diskStatus]{
		CreateFunc: func(ctx context.Context, o *disk) error { return w.client.Create(ctx, w.store.Clone(o)) },
		UpdateFunc: w.client.Update, DeleteFunc: w.client.Delete,
	}
}

// promise E1: a create may leave no name. The resource that is then found by its mark gets it,
// and from then on a list that skips it, as one whose pages shifted, does not show that it has gone.
//
// Negative control: mutant "what was found without a name on record gets none"; with that there
// were two disks, and reports said that the first is missing.
func TestSuccessWithoutANameGetsTheOneByWhichItIsFound(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Naming = external.ByMark
		w.cloud = must(reconciletest.NewCloud(nil))
		w.restart(nil)
		skips := false
		v := w.inventory(func(o *invOpts) {
			o.IDOf = nil
			list := o.List
			o.List = func(ctx context.Context) iter.Seq2[resource, error] {
				if skips {
					return func(func(resource, error) bool) {}
				}
				return list(ctx)
			}
		})
		w.with(v.Client(w.nameless()))
		w.declare()
		for range 3 {
			w.run()
			time.Sleep(61 * time.Second)
		}
		got := w.cloud.Truth()
		if len(got) != 1 || w.get().Intent.ExternalName != got[0].ID {
			t.Fatalf("disks %+v, the record is %+v; want one, known by its name", got, w.get().Intent)
		}
		if r := must(v.Report(t.Context())); len(r.Missing) != 0 {
			t.Errorf("missing: %+v, want nothing", r.Missing)
		}
		skips = true
		for range 3 {
			time.Sleep(61 * time.Second)
			w.run()
		}
		if got := sizes(w.cloud); got != "1" {
			t.Errorf("disks of the sizes %q after a list that skipped one, want one", got)
		}
	})
}

// The same by a list without marks: the object stops, and ClearPending with the name of the resource
// lets it go on, also where that was removed by hand.
//
// Negative control: mutant "a success without a name cannot be cleared".
func TestSuccessWithoutANameThatStoppedIsCleared(t *testing.T) {
	for _, removed := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *world) {
			w.o.Naming = external.ByMark
			w.cloud = must(reconciletest.NewCloud(nil))
			w.restart(nil)
			f, first := w.nameless(), ""
			blind := f.CreateFunc
			f.CreateFunc = func(ctx context.Context, o *disk) error {
				if first == "" {
					return blind(ctx, o)
				}
				return w.client.Create(ctx, o)
			}
			w.with(w.inventory(func(o *invOpts) {
				o.IDOf = nil
				o.Detail = func(_ context.Context, r resource) (resource, bool, error) { return r, true, nil }
			}).Client(f))
			w.declare()
			w.run()
			time.Sleep(31 * time.Second)
			if err := w.fails(); !errors.Is(err, external.ErrCreateIncomplete) {
				t.Fatalf("error %v, want ErrCreateIncomplete", err)
			}
			if first = w.cloud.Truth()[0].ID; removed {
				w.cloud.Remove(first)
			}
			if err := w.rec.ClearPending(t.Context(), key, first); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				w.run()
				time.Sleep(31 * time.Second)
			}
			got := w.cloud.Truth()
			if len(got) != 1 || (got[0].ID == first) == removed || w.get().Intent.ExternalName != got[0].ID {
				t.Errorf("removed: %v; disks %+v, the record is %+v; want one, known by its name", removed, got, w.get().Intent)
			}
			w.wantCondition(store.ConditionReady, store.True, "")
		})
	}
}

// promise E1: the list shows the resource of an earlier create, which is gone. It is as old
// as that, and shows nothing of what the newest create made.
//
// Negative control: mutant "a list that shows what is gone is believed"; with that there
// were two disks.
func TestListOfAnEarlierResourceDoesNotShowThatThereIsNone(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.slowToShow(external.ByMark)
		v := w.inventory(func(o *invOpts) { o.IDOf, o.Fresh = nil, 2*time.Minute })
		f := w.losing(w.client.Create).(external.ClientFuncs[diskSpec, diskStatus])
		o := w.declare()
		first := must(w.cloud.Create(t.Context(), w.client.desired(o))).ID
		w.intent(func(i *store.Intent) { *i = store.Intent{Attempt: 1, Succeeded: time.Now(), ExternalName: first} })
		w.with(v.Client(f))
		time.Sleep(31 * time.Second)
		w.run() // it lists
		time.Sleep(31 * time.Second)
		w.cloud.Remove(first)
		v.Invalidate(first)
		time.Sleep(10 * time.Second)
		w.fails()
		for range 10 {
			w.run()
			time.Sleep(20 * time.Second)
		}
		if got := w.cloud.Truth(); len(got) != 1 || w.get().Intent.ExternalName != got[0].ID {
			t.Errorf("disks %+v, the record is %+v; want one, known by its name", got, w.get().Intent)
		}
	})
}

// promise E1: the object is deleted before anybody knows the name.
//
// Negative control: mutant "an inventory finds nothing by its mark"; with that the disk was
// left behind.
func TestDeletionFindsByItsMarkWhatACreateOfUnknownOutcomeMade(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.slowToShow(external.ByMark)
		f := w.losing(w.client.Create).(external.ClientFuncs[diskSpec, diskStatus])
		f.DeleteFunc = func(ctx context.Context, o *disk) error { return w.cloud.Delete(ctx, o.Intent.ExternalName) }
		w.with(w.inventory(func(o *invOpts) { o.IDOf = nil }).Client(f))
		w.declare()
		w.fails()
		w.delete()
		for range 10 {
			if !w.gone() {
				w.run()
			}
			time.Sleep(31 * time.Second)
		}
		if got := sizes(w.cloud); got != "" || !w.gone() {
			t.Errorf("gone: %v; disks of the sizes %q, want none", w.gone(), got)
		}
	})
}

// promise E1, E2: lists show what was made four minutes later, as Settle says, and the creation grace
// is the default, which is shorter. The object lives on, or is deleted before the list shows its disk.
//
// Seen to fail: a second disk was made, and the disk of a deleted object was left behind.
//
// Negative control: mutant "a list from before a create has settled shows that there is nothing".
func TestListThatLagsLongerThanTheGraceShowsNoAbsence(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *world) {
			w.o.Naming = external.ByMark
			w.cloud = must(reconciletest.NewCloud(nil))
			w.restart(nil)
			begun := time.Now()
			f := w.losing(w.client.Create).(external.ClientFuncs[diskSpec, diskStatus])
			f.DeleteFunc = func(ctx context.Context, o *disk) error { return w.cloud.Delete(ctx, o.Intent.ExternalName) }
			w.with(w.inventory(func(o *invOpts) {
				o.IDOf, o.Settle = nil, 5*time.Minute
				list := o.List
				o.List = func(ctx context.Context) iter.Seq2[resource, error] {
					if time.Since(begun) < 4*time.Minute {
						return func(func(resource, error) bool) {}
					}
					return list(ctx)
				}
			}).Client(f))
			w.declare()
			w.fails()
			if deleted {
				w.delete()
			}
			for range 20 {
				if !w.gone() {
					w.run()
				}
				time.Sleep(31 * time.Second)
			}
			if got, want := sizes(w.cloud), map[bool]string{false: "1"}[deleted]; got != want || w.gone() != deleted {
				t.Errorf("gone: %v; disks of the sizes %q, want %q", w.gone(), got, want)
			}
		})
	}
}

// A create of unknown outcome that made nothing is made again as soon as a list of after
// the grace may be made: no source wakes its key for that.
//
// Negative control: mutant "a run that needs a list of after the grace comes back a minute later".
func TestCreateOfUnknownOutcomeIsMadeAgainWhenAListIsDue(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.slowToShow(external.ByMark)
		v := w.inventory(func(o *invOpts) { o.IDOf, o.Fresh = nil, 5*time.Second })
		w.with(v.Client(w.losing(func(context.Context, *disk) error { return nil }).(external.ClientFuncs[diskSpec, diskStatus])))
		w.declare()
		w.fails()
		w.run() // the grace of 30 s begins
		time.Sleep(28 * time.Second)
		w.run() // it lists
		time.Sleep(3 * time.Second)
		res := w.run() // the grace is over; the list is of before its end, and recent for 2 s more
		if res.RequeueAfter <= 2*time.Second || res.RequeueAfter > 2100*time.Millisecond || len(w.cloud.Truth()) != 0 {
			t.Fatalf("%+v with disks %+v, want none, and a run just after 2 s", res, w.cloud.Truth())
		}
		time.Sleep(res.RequeueAfter)
		w.run()
		if got := sizes(w.cloud); got != "1" {
			t.Errorf("disks of the sizes %q, want one", got)
		}
	})
}

// promise E1: a list that shows no marks cannot tell what a create of unknown outcome made.
//
// Negative control: mutant "an inventory finds nothing by its mark".
func TestListWithoutMarksStopsACreateOfUnknownOutcome(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.slowToShow(external.ByMark)
		v := w.inventory(func(o *invOpts) {
			o.IDOf = nil
			o.Detail = func(_ context.Context, r resource) (resource, bool, error) { return r, true, nil }
		})
		w.with(v.Client(w.losing(w.client.Create).(external.ClientFuncs[diskSpec, diskStatus])))
		w.declare()
		w.fails()
		time.Sleep(time.Hour)
		if err := w.fails(); !errors.Is(err, external.ErrCreateIncomplete) || !errors.Is(err, reconcile.ErrTerminal) {
			t.Errorf("error %v, want the terminal ErrCreateIncomplete", err)
		}
	})
}

func wantLook(t *testing.T, v *inventory, id string, want bool) {
	t.Helper()
	if _, exists, err := v.Look(t.Context(), id); err != nil || exists != want {
		t.Errorf("Look(%s) = %v, %v; want %v", id, exists, err, want)
	}
}

// 10,000 looks in each of three intervals cost three lists of ten pages, and
// not 30,000 reads.
func TestOneListServesTheLooksOfAnInterval(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n = 2_000
		keys := w.populate(n)
		v := w.inventory()
		w.reconcileBy(v)
		w.reconcileAll(keys) // the first run of each writes finalizer and status
		for range 2 {
			time.Sleep(61 * time.Second)
			w.reconcileAll(keys)
		}
		w.wantCalls(map[string]int{"List": 6, "Get": 0, "Create": 0, "Update": 0})
		if s := v.Snapshot(); s.Served != 3*n || s.Lists != 3 || s.Listed != n {
			t.Errorf("snapshot %+v, want %d served by 3 lists", s, 3*n)
		}
	})
}

func TestWriteInvalidatesItsOwnEntryAndNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys := w.populate(5)
		v := w.inventory()
		w.reconcileBy(v)
		w.reconcileAll(keys)
		must(w.store.Mutate(t.Context(), keys[0], func(o *disk) error { o.Spec.Size = "2"; return nil }))
		must(w.rec.Reconcile(w.ctx(), keys[0]))
		w.reconcileAll(keys)
		w.wantCalls(map[string]int{"List": 1, "Update": 1, "Get": 1})
		must(w.rec.Reconcile(w.ctx(), keys[0]))
		w.wantCalls(map[string]int{"Get": 2}) // the write may not have settled
		time.Sleep(31 * time.Second)
		for range 3 {
			must(w.rec.Reconcile(w.ctx(), keys[0]))
		}
		w.wantCalls(map[string]int{"List": 1, "Get": 3}) // from now on one serves
	})
}

// A list that was under way during a write may show either side of it.
func TestListBegunBeforeAWriteDoesNotCountForIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(1)
		begun, goOn := make(chan bool), make(chan bool)
		v := w.inventory(func(o *invOpts) {
			o.List = func(ctx context.Context) iter.Seq2[resource, error] {
				return func(yield func(resource, error) bool) {
					old := w.cloud.Truth()
					begun <- true
					<-goOn
					for _, r := range old {
						if !yield(r, nil) {
							return
						}
					}
				}
			}
		})
		looked := make(chan bool)
		go func() { // ends when the list does
			_, exists, _ := v.Look(context.Background(), "t-d00000")
			looked <- exists
		}()
		<-begun
		w.cloud.Remove("t-d00000")
		v.Invalidate("t-d00000")
		goOn <- true
		if <-looked {
			t.Error("the list showed what was gone before the look ended")
		}
		w.wantCalls(map[string]int{"Get": 1})
	})
}

// That there is nothing is never answered from memory: a create would follow.
func TestAbsenceIsAskedForEachTime(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		v := w.inventory()
		wantLook(t, v, "t-d00000", false)
		w.populate(1) // another process did
		wantLook(t, v, "t-d00000", true)
		w.wantCalls(map[string]int{"Get": 2})
	})
}

func TestCallersShareAListAndSurviveTheCancelledOne(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.cloud = must(reconciletest.NewCloud(&reconciletest.CloudOptions{UniqueNames: true, Latency: time.Second}))
		w.restart(nil)
		w.populate(10)
		v := w.inventory()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { v.Look(ctx, "t-d00000") }) // it lists first, and is cancelled
		synctest.Wait()
		for i := range 10 {
			all.Go(func() {
				if _, exists, err := v.Look(t.Context(), fmt.Sprintf("t-d%05d", i)); err != nil || !exists {
					t.Errorf("look %d: %v, %v", i, exists, err)
				}
			})
		}
		synctest.Wait()
		cancel()
		all.Wait()
		w.wantCalls(map[string]int{"Get": 0})
		if s := v.Snapshot(); s.Lists != 2 || s.Failed != 0 {
			t.Errorf("%d lists, %d of which failed; want the cancelled one, which says nothing of the cloud, and one for all the others", s.Lists, s.Failed)
		}
	})
}

func TestFailingListFallsBackToSingleLooks(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.cloud = must(reconciletest.NewCloud(&reconciletest.CloudOptions{UniqueNames: true, BrokenPages: 1}))
		w.restart(nil)
		w.populate(20)
		v := w.inventory()
		for i := range 20 {
			wantLook(t, v, fmt.Sprintf("t-d%05d", i), true)
		}
		w.wantCalls(map[string]int{"List": 1, "Get": 20})
		if _, err := v.Report(t.Context()); !errors.Is(err, reconciletest.ErrServer) {
			t.Errorf("report of half a list: %v, want the failure", err)
		}
		w.cloud.Heal()
		time.Sleep(2 * time.Minute)
		wantLook(t, v, "t-d00000", true)
		wantLook(t, v, "t-d00001", true)
		w.wantCalls(map[string]int{"Get": 20})
	})
}

func TestPanicInListFreesThoseWhoWaitForIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(1)
		v := w.inventory(func(o *invOpts) {
			list := o.List
			first := true
			o.List = func(ctx context.Context) iter.Seq2[resource, error] {
				if first {
					first = false
					time.Sleep(time.Second)
					panic("boom")
				}
				return list(ctx)
			}
		})
		var all sync.WaitGroup
		all.Go(func() {
			defer func() { recover() }()
			v.Look(t.Context(), "t-d00000")
		})
		synctest.Wait()
		all.Go(func() { wantLook(t, v, "t-d00000", true) })
		all.Wait()
	})
}

func TestRequestedRunLooksPastTheList(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys := w.populate(2)
		v := w.inventory()
		w.reconcileBy(v)
		w.reconcileAll(keys)
		w.cloud.Put(resource{ID: "t-d00000", Name: "t-d00000", Props: map[string]string{"size": "drift"}, Tags: w.cloud.Truth()[0].Tags})
		must(w.store.Mutate(t.Context(), keys[0], func(o *disk) error {
			o.Annotations = map[string]string{store.AnnotationReconcileNow: ""}
			return nil
		}))
		must(w.rec.Reconcile(w.ctx(), keys[0]))
		w.wantCalls(map[string]int{"Get": 1, "Update": 1})
	})
}

// Weak point 000 (h): what is known of drift used to be kept by name, and was never
// let go.
func TestInventoryForgetsWhatIsGone(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		v := w.inventory()
		for i := range 1000 {
			id := fmt.Sprintf("x%d", i)
			wantLook(t, v, id, false)
			v.Invalidate(id)
			wantLook(t, v, id, false)
		}
		time.Sleep(2 * time.Minute)
		if _, err := v.Report(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := v.Remembered(); n != 0 {
			t.Errorf("%d entries left after a list, want none", n)
		}
	})
}

// Negative control: with nothing forgotten but by a complete list, 2,000 entries were
// left.
func TestInventoryForgetsAlsoWhileListsFail(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.cloud = must(reconciletest.NewCloud(&reconciletest.CloudOptions{UniqueNames: true, BrokenPages: 1}))
		w.restart(nil)
		v := w.inventory()
		for i := range 1000 {
			id := fmt.Sprintf("x%d", i)
			w.cloud.Put(resource{Name: id})
			v.Invalidate(id)
			wantLook(t, v, id, true)
		}
		time.Sleep(2 * time.Hour)
		wantLook(t, v, "x0", true)
		if n := v.Remembered(); n != 1 {
			t.Errorf("%d entries left, want that of the resource that was looked at", n)
		}
	})
}

// A list takes longer than a run may. The caller that begins it loses the run, and then
// single looks serve for a while, also the callers that waited for it; one that has more
// time lists.
//
// Negative control: with a list that ran out of its caller's time no reason to leave
// lists alone, every look listed, and none was answered.
func TestListThatTakesTooLongForARunIsNotTriedByEach(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(10)
		v := w.inventory(func(o *invOpts) {
			list := o.List
			o.List = func(ctx context.Context) iter.Seq2[resource, error] {
				select {
				case <-time.After(5 * time.Minute):
				case <-ctx.Done():
				}
				return list(ctx)
			}
		})
		look := func(id int) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, exists, err := v.Look(ctx, fmt.Sprintf("t-d%05d", id))
			if err == nil && !exists {
				t.Errorf("look %d: it is not there", id)
			}
			return err
		}
		var all sync.WaitGroup
		all.Go(func() {
			if err := look(0); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the list in vain: %v", err)
			}
		})
		time.Sleep(time.Second)
		for i := range 9 {
			all.Go(func() {
				if err := look(1 + i); err != nil {
					t.Errorf("the look that waited for the list: %v", err)
				}
			})
		}
		all.Wait()
		if err := look(0); err != nil {
			t.Errorf("the look after it: %v", err)
		}
		if s := v.Snapshot(); s.Lists != 1 || s.Gets != 10 {
			t.Errorf("%d lists and %d single looks, want 1 and 10", s.Lists, s.Gets)
		}
		time.Sleep(2 * time.Minute)
		all.Go(func() { _ = look(0) }) // lists in vain once more
		synctest.Wait()
		if r, err := v.Report(t.Context()); err != nil || r.Present != 10 {
			t.Errorf("the report that has the time: %v, %v", r.Present, err)
		}
		all.Wait()
		if s := v.Snapshot(); s.Lists != 3 || s.Failed != 2 {
			t.Errorf("%d lists, %d of which failed; want one more in vain, and that of the caller that had the time", s.Lists, s.Failed)
		}
	})
}

func TestReportTellsWhatIsMissingDifferentAndNobodys(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(6)
		w.cloud.Remove("t-d00000")
		truth := func(id string) resource {
			for _, r := range w.cloud.Truth() {
				if r.ID == id {
					return r
				}
			}
			return resource{}
		}
		change := func(id string, f func(*resource)) { r := truth(id); f(&r); w.cloud.Put(r) }
		change("t-d00001", func(r *resource) { r.Props["size"] = "drift" })
		change("t-d00002", func(r *resource) { r.Tags = nil })
		change("t-d00003", func(r *resource) { r.Tags["tend/uid"] = "earlier" })
		orphan := external.Mark{Installation: home, Kind: "Disk", Key: store.Key{Namespace: "t", Name: "old"}, UID: "u"}
		w.cloud.Put(resource{Name: "orphan", Tags: tags(orphan)})
		w.cloud.Put(resource{Name: "theirs", Tags: tags(external.Mark{Installation: "there", Kind: "Disk", Key: orphan.Key, UID: "u"})})
		w.cloud.Put(resource{Name: "other-kind", Tags: tags(external.Mark{Installation: home, Kind: "Net", Key: orphan.Key, UID: "u"})})
		w.cloud.Put(resource{Name: "nobodys"})
		double := truth("t-d00004")
		double.ID, double.Name = "double", "double"
		w.cloud.Put(double)

		v := w.inventory()
		r, err := v.Report(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ids := func(fs []external.Finding) (all []string) {
			for _, f := range fs {
				all = append(all, f.ID)
			}
			return all
		}
		wantSlice(t, "missing", ids(r.Missing), []string{"t-d00000"})
		wantSlice(t, "different", ids(r.Different), []string{"t-d00001"})
		wantSlice(t, "unclaimed", ids(r.Unclaimed), []string{"t-d00002", "t-d00003"})
		wantSlice(t, "orphans", ids(r.Orphans), []string{"orphan"})
		wantSlice(t, "duplicates", ids(r.Duplicates), []string{"double"})
		if r.Foreign != 3 || r.Declared != 6 || r.Present != 10 || r.Ours != 6 {
			t.Errorf("report %+v", r)
		}
		if r.Different[0].Diff != `size: "drift", want "1"` {
			t.Errorf("diff %q", r.Different[0].Diff)
		}
		if s := v.Snapshot(); s.Report == nil || len(s.Report.Orphans) != 1 {
			t.Errorf("snapshot %+v, want the report", s)
		}
	})
}

func TestNewInventoryNamesWhatIsMissing(t *testing.T) {
	w := newWorld(t)
	for name, unset := range map[string]func(*invOpts){
		"Store": func(o *invOpts) { o.Store = nil }, "Installation": func(o *invOpts) { o.Installation = "" },
		"List": func(o *invOpts) { o.List = nil }, "Get": func(o *invOpts) { o.Get = nil }, "ID": func(o *invOpts) { o.ID = nil },
		"Owner": func(o *invOpts) { o.Owner = nil }, "Compare": func(o *invOpts) { o.Compare = nil }, "Fresh": func(o *invOpts) { o.Fresh = -1 },
		"Settle": func(o *invOpts) { o.Settle = -1 }, "DetailFresh": func(o *invOpts) { o.DetailFresh = -1 }, "Letters": func(o *invOpts) { o.Letters = 9 },
	} {
		o := w.options()
		unset(&o)
		if _, err := external.NewInventory(&o); err == nil || !strings.Contains(err.Error(), "InventoryOptions.") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want an error that names it", name, err)
		}
	}
}

// What is told of a report may act on it before anything is deleted.
//
// Negative control: with Found never called, both were deleted.
func TestFoundIsToldOfReportsBeforeAnythingIsPruned(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(20)
		w.orphan("old-1")
		w.orphan("old-2")
		var v *inventory
		var told []external.Report
		boom := false
		v = w.inventory(func(o *invOpts) {
			o.Found = func(_ context.Context, r external.Report) {
				if boom {
					panic("boom")
				}
				if told = append(told, r); len(r.Orphans) > 1 {
					v.Hold("more than one: an operator should look")
				}
			}
		})
		if _, err := v.Prune(t.Context(), external.Cap{}); !errors.Is(err, external.ErrPruneRefused) || !strings.Contains(err.Error(), "an operator should look") {
			t.Errorf("prune = %v, want it held by what was told", err)
		}
		if len(told) != 1 || len(told[0].Orphans) != 2 {
			t.Errorf("told %+v, want one report with two orphans", told)
		}
		boom = true
		if _, err := v.Prune(t.Context(), external.Cap{}); !errors.Is(err, external.ErrPruneRefused) || !strings.Contains(err.Error(), "boom") {
			t.Errorf("after a panic: %v, want a refusal", err)
		}
		w.wantCalls(map[string]int{"Delete": 0})
	})
}

// A write settles from its end: a list that was begun while it was under way may not show
// it, however long ago it began.
//
// Negative control: with the resource invalidated before the write only, the list of 15 s
// before its end was believed.
func TestListDuringALongWriteIsNotBelieved(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys := w.populate(2)
		v := w.inventory(func(o *invOpts) { o.Settle = 30 * time.Second })
		f := v.Client(external.ClientFuncs[diskSpec, diskStatus]{UpdateFunc: func(ctx context.Context, o *disk) error {
			time.Sleep(35 * time.Second)
			wantLook(t, v, "t-"+keys[1].Name, true) // lists
			time.Sleep(15 * time.Second)
			o.Status.ID = nameOf(o)
			return w.client.Update(ctx, o)
		}})
		o := must(w.store.Mutate(t.Context(), keys[0], func(o *disk) error { o.Spec.Size = "2"; return nil }))
		if err := f.UpdateFunc(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		r, exists, err := v.Look(t.Context(), "t-"+keys[0].Name)
		if err != nil || !exists || r.Props["size"] != "2" {
			t.Errorf("after the write the inventory shows %v, %v, %v; want size 2", r.Props, exists, err)
		}
		if w.cloud.Calls("List") == 0 {
			t.Error("no list was made during the write")
		}
	})
}

// wantSize looks at a resource; empty: it must not be there.
func wantSize(t *testing.T, when string, v *inventory, id, size string) {
	t.Helper()
	r, exists, err := v.Look(t.Context(), id)
	if err != nil || exists != (size != "") || r.Props["size"] != size {
		t.Errorf("%s: size %q, %v, %v; want %q", when, r.Props["size"], exists, err, size)
	}
}

// resize changes the size of a resource in the cloud.
func (w *world) resize(id, size string) resource {
	r := w.cloud.Peek(id)
	r.Props = map[string]string{"size": size, "zone": r.Props["zone"]}
	w.cloud.Put(r)
	return r
}

// An update or a deletion that failed may have had its effect, and one that told nothing of
// what it wrote is not answered by what an earlier one told.
//
// Negative controls: mutants "an update that failed changed nothing", "a deletion that failed
// changed nothing" and "an answer stands for later writes".
func TestEachWriteIsLookedAtUnlessItAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		o := must(w.store.Get(t.Context(), w.populate(1)[0]))
		id, next := nameOf(o), func() error { return nil }
		v := w.inventory()
		c := v.Client(external.ClientFuncs[diskSpec, diskStatus]{
			UpdateFunc: func(context.Context, *disk) error { return next() },
			DeleteFunc: func(context.Context, *disk) error { w.cloud.Remove(id); return errDisk },
		})
		wantSize(t, "from the list", v, id, "1")
		next = func() error { w.resize(id, "2"); return errDisk }
		if err := c.Update(t.Context(), o); !errors.Is(err, errDisk) {
			t.Fatal(err)
		}
		wantSize(t, "after an update that failed", v, id, "2")
		next = func() error { v.Wrote(w.resize(id, "3")); return nil }
		time.Sleep(time.Second)
		if err := c.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		gets := w.cloud.Calls("Get")
		wantSize(t, "after an update that answered", v, id, "3")
		if n := w.cloud.Calls("Get"); n != gets {
			t.Errorf("%d reads for what the write answered", n-gets)
		}
		next = func() error { w.resize(id, "4"); return nil }
		time.Sleep(time.Second)
		if err := c.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		wantSize(t, "after an update that did not answer", v, id, "4")
		time.Sleep(2 * time.Minute)
		wantSize(t, "from a later list", v, id, "4")
		if err := c.Delete(t.Context(), o); !errors.Is(err, errDisk) {
			t.Fatal(err)
		}
		wantSize(t, "after a deletion that failed", v, id, "")
	})
}

// What a write answered counts until a list that was begun when the write had settled.
//
// Negative control: mutant "a list that lags counts for a write that answered".
func TestAnswerOfAWriteOutlivesAListThatLags(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(2)
		id, lags := "t-d00000", true
		v := w.inventory(func(o *invOpts) {
			list := o.List
			o.List = func(ctx context.Context) iter.Seq2[resource, error] {
				return func(yield func(resource, error) bool) {
					for r, err := range list(ctx) {
						if r.ID == id && lags {
							r.Props = map[string]string{"size": "1"}
						}
						if !yield(r, err) {
							return
						}
					}
				}
			}
		})
		wantSize(t, "from the list", v, id, "1")
		time.Sleep(50 * time.Second)
		v.Wrote(w.resize(id, "2"))
		time.Sleep(15 * time.Second)
		wantLook(t, v, "t-d00001", true) // lists
		if n := v.Snapshot().Lists; n != 2 {
			t.Fatalf("%d lists, want a second one", n)
		}
		wantSize(t, "after a list that lags", v, id, "2")
		lags = false
		time.Sleep(2 * time.Minute)
		wantSize(t, "after one that does not", v, id, "2")
	})
}

// Of two reads of a resource that no list shows the one that began later counts, whichever
// ends later.
//
// Negative control: mutant "a read that ends later is newer".
func TestReadThatEndsLaterIsNotNewer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(1)
		id, goOn := "t-d00000", make(chan bool)
		wait := true
		v := w.inventory(func(o *invOpts) {
			o.List = func(context.Context) iter.Seq2[resource, error] { return func(func(resource, error) bool) {} }
			get := o.Get
			o.Get = func(ctx context.Context, id string) (resource, bool, error) {
				r, exists, err := get(ctx, id)
				if wait {
					wait = false
					<-goOn
				}
				return r, exists, err
			}
		})
		done := make(chan bool)
		go func() {
			wantSize(t, "the first read", v, id, "1")
			close(done)
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		w.resize(id, "2")
		wantSize(t, "the second read", v, id, "2")
		close(goOn)
		<-done
		wantSize(t, "when both have ended", v, id, "2")
	})
}

// What a write answered counts at most for Fresh, though no list comes that would show it.
//
// Negative control: mutant "an answer of a write counts for ever".
func TestAnswerOfAWriteCountsForFresh(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := nameOf(must(w.store.Get(t.Context(), w.populate(1)[0])))
		v := w.inventory()
		v.Wrote(w.resize(id, "2"))
		w.resize(id, "3")
		time.Sleep(time.Minute)
		wantSize(t, "after a minute", v, id, "2")
		time.Sleep(time.Nanosecond)
		wantSize(t, "after more than that", v, id, "3")
	})
}

// A create of unknown outcome under a name of ours, which the inventory knows by the
// record only: the record has no name yet, and the object is deleted.
//
// promise E2. Negative control: mutant "a deletion does not look for a create without a name".
func TestDeletionLooksForACreateThatLeftNoName(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.slowToShow(external.ByUs)
		f := w.losing(w.client.Create).(external.ClientFuncs[diskSpec, diskStatus])
		f.DeleteFunc = func(ctx context.Context, o *disk) error { return w.cloud.Delete(ctx, o.Intent.ExternalName) }
		w.with(w.inventory(func(o *invOpts) { o.IDOf = nil }).Client(f))
		w.declare()
		w.fails()
		w.delete()
		for range 10 {
			if !w.gone() {
				w.run()
			}
			time.Sleep(31 * time.Second)
		}
		if got := sizes(w.cloud); got != "" || !w.gone() {
			t.Errorf("gone: %v; disks of the sizes %q, want none", w.gone(), got)
		}
	})
}

// A look at the resource itself found it gone. The list of before shows it, and would have
// the object in order again for as long as that list counts.
//
// promise E1. Negative control: mutant "a list counts after a look that found nothing".
func TestListOfBeforeALookThatFoundNothingDoesNotCount(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys := w.populate(2)
		v := w.inventory()
		w.reconcileBy(v)
		w.reconcileAll(keys)
		w.cloud.Remove("t-d00000")
		time.Sleep(time.Second)
		must(w.store.Mutate(t.Context(), keys[0], func(o *disk) error {
			o.Annotations = map[string]string{store.AnnotationReconcileNow: "", external.PolicyAnnotation: "observe"}
			return nil
		}))
		for range 2 { // the second run is no longer the one that was asked for
			must(w.rec.Reconcile(w.ctx(), keys[0]))
			if c, _ := must(w.store.Get(t.Context(), keys[0])).Condition(store.ConditionSynced); c.Reason != external.ReasonMissing {
				t.Errorf("the object says %q of a resource that is gone, want %q", c.Reason, external.ReasonMissing)
			}
		}
		time.Sleep(2 * time.Minute)
		if s := must(v.Report(t.Context())); len(s.Missing) != 1 || v.Remembered() != 0 {
			t.Errorf("the report of the next list: %v, %d entries left; want the resource missing, and none left", s, v.Remembered())
		}
	})
}

// Lists fail, and what Detail read counts for ever: what was written is remembered all the
// same, so that what is read before the write has settled is used once.
//
// Negative control: mutant "a bound of what is remembered that overflows".
func TestWriteIsRememberedWhereDetailsCountForEver(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.cloud = must(reconciletest.NewCloud(&reconciletest.CloudOptions{UniqueNames: true, BrokenPages: 1}))
		w.restart(nil)
		w.cloud.Put(resource{Name: "x"})
		v := w.inventory(func(o *invOpts) { o.DetailFresh = math.MaxInt64 })
		v.Invalidate("x")
		for range 2 {
			wantLook(t, v, "x", true)
		}
		w.wantCalls(map[string]int{"Get": 2})
	})
}

// A cloud takes a while to show a deletion: it is not asked again within Settle, and asked
// again afterwards, for one that it has lost.
//
// Seen to fail: it was asked at every look.
func TestDeletionIsNotRepeatedUntilItHasSettled(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		calls int
	}{{25 * time.Second, 1}, {70 * time.Second, 3}} {
		bubble(t, func(t *testing.T, w *world) {
			w.cloud = must(reconciletest.NewCloud(&reconciletest.CloudOptions{UniqueNames: true, DeleteTakes: c.takes}))
			w.restart(nil)
			w.reconcileBy(w.inventory(func(o *invOpts) { o.Settle = 30 * time.Second }))
			w.converged()
			time.Sleep(2 * time.Minute)
			w.changes = nil
			w.delete()
			for range 2 * 60 {
				if !w.gone() {
					w.run()
				}
				time.Sleep(time.Second)
			}
			if !w.gone() || len(w.cloud.Truth()) != 0 {
				t.Errorf("gone: %v, disks: %v", w.gone(), w.cloud.Truth())
			}
			w.wantCalls(map[string]int{"Delete": c.calls})
			if len(w.changes) != c.calls {
				t.Errorf("%d changes were told, want %d", len(w.changes), c.calls)
			}
		})
	}
}
