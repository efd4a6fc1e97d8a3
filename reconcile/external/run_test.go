package external_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
)

// bubble runs a test in fake time.
func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t)) })
}

// case 1
func TestAbsentObjectConnectsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		connects := 0
		w.with(external.ConnectorFunc[diskSpec, diskStatus](func(context.Context, *disk) (external.Client[diskSpec, diskStatus], error) {
			connects++
			return w.client, nil
		}))
		if res := w.run(); res != (reconcile.Result{}) || connects != 0 {
			t.Errorf("Result %+v after %d connects, want zero after none", res, connects)
		}
	})
}

// case 2, 4
func TestPausedObjectIsShownAndLeftAloneUntilItResumes(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.declare(func(o *disk) { o.Paused = true })
		for range 2 {
			if res := w.run(); res != (reconcile.Result{}) {
				t.Errorf("Result of a paused object: %+v", res)
			}
			w.wantCondition(store.ConditionSynced, store.False, external.ReasonPaused)
		}
		if w.cloud.TotalCalls() != 0 {
			t.Error("a paused object reached the cloud")
		}
		wantSlice(t, "events", w.reasons(), []string{external.ReasonPaused})
		w.edit(func(o *disk) { o.Paused = false })
		w.run()
		w.wantCondition(store.ConditionSynced, store.True, "")
		w.wantCalls(map[string]int{"Create": 1})
	})
}

// A pause stops a deletion too, and so does the empty policy.
func TestPauseStopsADeletion(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.converged()
		w.edit(func(o *disk) { o.Annotations = map[string]string{external.PolicyAnnotation: "paused"} })
		w.delete()
		w.run()
		if w.gone() || len(w.cloud.Truth()) != 1 {
			t.Error("a paused object was deleted")
		}
		w.wantCondition(store.ConditionSynced, store.False, external.ReasonPaused)
	})
}

// An object that waits before it is looked at, here for the finalizers of others, does not go
// on saying that it is paused.
func TestResumedObjectThatWaitsIsNotShownAsPaused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.converged(func(o *disk) { o.Finalizers = []string{"backup"} })
		w.edit(func(o *disk) { o.Paused = true })
		w.delete()
		w.run()
		w.wantCondition(store.ConditionSynced, store.False, external.ReasonPaused)
		w.edit(func(o *disk) { o.Paused = false })
		w.run()
		w.wantCondition(store.ConditionReady, store.False, external.ReasonAwaiting)
		if c, ok := w.get().Condition(store.ConditionSynced); ok {
			t.Errorf("Synced is %+v after the pause, want none before the resource was looked at", c)
		}
	})
}

// A policy that freezes all at night, say: no change of an object tells that the night is over. What
// the object says itself is told by its own change, and costs no polls.
//
// Seen to fail: what was due for a look in the night was not looked at any more.
//
// Negative control: mutant "an object that Options.Policy pauses is not polled".
func TestPauseByOptionsPolicyIsAskedAboutAtThePollInterval(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		frozen := false
		w.o.Policy = func(*disk) (external.Policy, error) {
			if frozen {
				return external.Paused, nil
			}
			return external.All, nil
		}
		w.restart(nil)
		w.converged()
		frozen = true
		looks := w.cloud.Calls("Get")
		if res := w.run(); res != (reconcile.Result{RequeueAfter: time.Minute}) || w.cloud.Calls("Get") != looks {
			t.Errorf("Result %+v after %d looks, want the poll interval after none", res, w.cloud.Calls("Get")-looks)
		}
		w.wantCondition(store.ConditionSynced, store.False, external.ReasonPaused)
		for name, edit := range map[string]func(*disk){
			"flag":       func(o *disk) { o.Paused = true },
			"annotation": func(o *disk) { o.Paused, o.Annotations = false, map[string]string{external.PolicyAnnotation: "paused"} },
		} {
			w.edit(edit)
			if res := w.run(); res != (reconcile.Result{}) {
				t.Errorf("paused by its %s: Result %+v, want none", name, res)
			}
		}
		w.edit(func(o *disk) { o.Paused, o.Annotations = false, nil })
		frozen = false
		w.run()
		w.wantCondition(store.ConditionSynced, store.True, "")
	})
}

// A pause wins over whatever else is wrong with an object.
func TestPausedObjectWithAnUnknownPolicyIsPaused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.declare(func(o *disk) {
			o.Paused = true
			o.Annotations = map[string]string{external.PolicyAnnotation: "what?"}
		})
		if res := w.run(); res != (reconcile.Result{}) {
			t.Errorf("Result %+v, want zero", res)
		}
		w.wantCondition(store.ConditionSynced, store.False, external.ReasonPaused)
	})
}

// failing is a backend whose commits fail while fails says so.
type failing struct {
	store.Backend
	fails func() error
}

func (b failing) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	if err := b.fails(); err != nil {
		return 0, err
	}
	return b.Backend.Commit(ctx, t)
}

// storeFails makes the w.rec's store refuse what fails says.
func (w *world) storeFails(fails func() error) {
	good := w.store
	w.store = must(store.New[diskSpec, diskStatus](&failing{w.backend, fails}, "Disk", nil))
	w.with(external.Always[diskSpec, diskStatus](w.client))
	w.store = good // what the test itself writes does not fail
}

var errDisk = errors.New("disk full")

// case 3
func TestPausedWithoutAStatusWriteIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.declare(func(o *disk) { o.Paused = true })
		w.storeFails(func() error { return errDisk })
		if err := w.fails(); !errors.Is(err, errDisk) {
			t.Errorf("error %v, want %v", err, errDisk)
		}
	})
}

// case 5
func TestOrphanedObjectGoesWithoutALook(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.converged(func(o *disk) {
			o.Annotations = map[string]string{external.PolicyAnnotation: "observe,create,update"}
			o.Finalizers = []string{"another"} // keeps it readable for the test
		})
		w.delete()
		before, calls := w.get(), w.cloud.TotalCalls()
		if res := w.run(); res != (reconcile.Result{}) {
			t.Errorf("Result %+v, want zero", res)
		}
		after := w.get()
		if len(after.Finalizers) != 1 || after.Phase != before.Phase || w.cloud.TotalCalls() != calls {
			t.Errorf("finalizers %q, phase %s, %d calls; want only another's, %s, none", after.Finalizers, after.Phase, w.cloud.TotalCalls()-calls, before.Phase)
		}
		if len(w.cloud.Truth()) != 1 {
			t.Error("an orphaned resource was deleted")
		}
	})
}

// case 6
func TestCreateOfUnknownOutcomeStopsWhereTheCloudChoosesTheName(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Naming = external.ByCloud
		w.restart(nil)
		w.declare()
		w.intent(func(i *store.Intent) { i.Attempt, i.Pending = 1, time.Now() })
		err := w.fails()
		if !errors.Is(err, external.ErrCreateIncomplete) || !errors.Is(err, reconcile.ErrTerminal) {
			t.Errorf("error %v, want a terminal ErrCreateIncomplete", err)
		}
		if text := err.Error(); !strings.Contains(text, `"tend created"`) || !strings.Contains(text, `"tend not-created"`) {
			t.Errorf("error %v does not say how to answer", err)
		}
		if w.cloud.TotalCalls() != 0 {
			t.Error("it went on")
		}
		w.wantCondition(store.ConditionReady, store.False, external.ReasonCreating)
		w.wantCondition(store.ConditionSynced, store.False, external.ReasonCreateIncomplete)

		if err := w.rec.ClearPending(t.Context(), key, ""); err != nil {
			t.Fatal(err)
		}
		w.run()
		w.wantCalls(map[string]int{"Create": 1})
	})
}

// An operator calls outside of a run, where no guard is.
func TestOperatorsClearRecordsInAStoreThatRequiresGuards(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Naming = external.ByCloud
		w.o.Location = locationOf
		w.restart(nil)
		w.declare()
		w.intent(func(i *store.Intent) { i.Attempt, i.Pending, i.Location = 1, time.Now(), "the old west" })
		w.store = must(store.New(w.backend, "Disk", &store.Options[diskSpec, diskStatus]{RequireGuard: true}))
		w.with(external.Nop[diskSpec, diskStatus]())
		if err := w.rec.ClearLocation(t.Context(), key); err != nil {
			t.Error(err)
		}
		if err := w.rec.ClearPending(t.Context(), key, "r-1"); err != nil {
			t.Error(err)
		}
		o := w.get()
		if o.Intent.Location != "" || o.Intent.ExternalName != "r-1" || o.Annotations[store.AnnotationReconcileNow] == "" {
			t.Errorf("the intent is %+v with the annotations %v; want no location, the name, and a request for a run", o.Intent, o.Annotations)
		}
	})
}

func TestClearPendingWithANameTakesTheResourceAsCreated(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Naming = external.ByCloud
		w.restart(nil)
		o := w.declare()
		found := w.cloud.Put(w.client.desired(o))
		w.intent(func(i *store.Intent) { i.Attempt, i.Pending = 1, time.Now() })
		if err := w.rec.ClearPending(t.Context(), key, found.ID); err != nil {
			t.Fatal(err)
		}
		w.run()
		w.wantCalls(map[string]int{"Create": 0})
		w.wantCondition(store.ConditionReady, store.True, "")
		before := w.get().Intent // which is not pending any more
		if err := w.rec.ClearPending(t.Context(), key, ""); err != nil || w.get().Intent != before || before.ExternalName != found.ID {
			t.Errorf("clearing what is not pending: %v, name %q", err, w.get().Intent.ExternalName)
		}
	})
}

// case 7
func TestCreateOfUnknownOutcomeIsCalledAgainWhereWeChooseTheName(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.declare()
		w.intent(func(i *store.Intent) { i.Attempt, i.Pending = 1, time.Now() })
		w.run()
		w.wantCalls(map[string]int{"Create": 1})
	})
}

// case 8
func TestNoCreateIfTheIntentConflicts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.declare(func(o *disk) { o.Finalizers = []string{must(finalizerName())} })
		w.storeFails(func() error { return &store.ConflictError{} })
		if res := w.run(); !res.Requeue {
			t.Errorf("Result %+v, want Requeue", res)
		}
		w.wantCalls(map[string]int{"Create": 0})
		wantSlice(t, "events of a lost race", w.reasons(), nil)
	})
}

// createFails lets the cloud choose the names, and creates fail with *err for as long
// as there is one. It returns the calls of the client.
func (w *world) createFails(err *error) (calls *[]string) {
	w.t.Helper()
	w.o.Naming = external.ByCloud
	w.restart(nil)
	f, calls := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
		f.ObserveFunc = w.client.Observe
		f.CreateFunc = func(ctx context.Context, o *disk) error {
			if *err != nil {
				return *err
			}
			return w.client.Create(ctx, o)
		}
	})
	w.with(f)
	return calls
}

// case 9
func TestFailedCreateIsOnRecordAndTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		fails := errors.New("no such zone")
		calls := w.createFails(&fails)
		w.declare()
		if err := w.fails(); !strings.Contains(err.Error(), "no such zone") {
			t.Errorf("error %v", err)
		}
		if i := w.get().Intent; i.Failed.Before(i.Pending) || i.Attempt != 1 {
			t.Errorf("intent %+v, want attempt 1 failed", i)
		}
		w.wantCondition(store.ConditionSynced, store.False, external.ReasonCreateFailed)
		fails = nil
		w.run()
		if i := w.get().Intent; i.Attempt != 2 || i.Succeeded.Before(i.Pending) || i.ExternalName == "" {
			t.Errorf("intent %+v, want attempt 2 succeeded, with a name", i)
		}
		wantSlice(t, "calls", *calls, []string{"Observe", "Create", "Close", "Observe", "Create", "Close"})
	})
}

// case 10
//
// Weak point 000 (a): a create that returned a conflict used to requeue without a
// record of its failure, and was incomplete for ever after.
func TestCreateThatReturnsAConflictIsNotStuck(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var fails error = &store.ConflictError{}
		w.createFails(&fails)
		w.declare()
		if res := w.run(); !res.Requeue {
			t.Errorf("Result %+v, want a silent requeue", res)
		}
		wantSlice(t, "events", w.reasons(), nil)
		fails = nil
		w.run()
		w.wantCalls(map[string]int{"Create": 1})
	})
}

// case 11
//
// Weak point 000 (c): the outcome used to be written with the run's own context, so
// that a shutdown during Create lost it.
//
// Negative control: writing it with the run's context failed this test with
// ErrCreateIncomplete.
func TestCreateThatSucceedsWhileTheRunIsCancelledIsOnRecord(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Naming = external.ByCloud
		w.restart(nil)
		ctx, cancel := context.WithCancel(t.Context())
		f, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
			f.ObserveFunc = w.client.Observe
			f.CreateFunc = func(_ context.Context, o *disk) error {
				cancel()
				return w.client.Create(t.Context(), o)
			}
		})
		w.with(f)
		w.declare()
		w.rec.Reconcile(ctx, key)
		w.restart(nil)
		time.Sleep(time.Hour) // longer than the grace
		w.run()
		w.wantCondition(store.ConditionReady, store.True, "")
		w.wantCalls(map[string]int{"Create": 1})
	})
}

// case 12, 13, 89. Negative control: mutant "a resource within its grace is shown as not in order".
func TestCreationGraceComesBeforeCreateAndBeforeLettingGo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.cloud = must(reconciletest.NewCloud(&reconciletest.CloudOptions{UniqueNames: true}))
		w.restart(nil)
		w.declare()
		w.run()
		w.cloud.Remove("t-a") // as if it were not visible yet
		before := w.get()
		for range 30 { // at once, and until 29 s after the create
			if res := w.run(); !res.Requeue {
				t.Errorf("Result %+v within the grace, want Requeue", res)
			}
			w.wantCalls(map[string]int{"Create": 1})
			time.Sleep(time.Second)
		}
		if now := w.get(); now.Revision != before.Revision {
			t.Errorf("revision %d within the grace, it was %d: want nothing written (%+v)", now.Revision, before.Revision, now.Conditions)
		}

		w.run() // 30 s after the create
		w.wantCalls(map[string]int{"Create": 2})

		w.cloud.Remove("t-a")
		w.delete()
		if res := w.run(); !res.Requeue || w.gone() {
			t.Errorf("Result %+v, gone %v; want the finalizer kept within the grace", res, w.gone())
		}
		time.Sleep(30 * time.Second)
		w.run()
		if !w.gone() {
			t.Error("the object is still there after the grace")
		}
	})
}

// case 14, 15
func TestDeleteIsCalledOncePerRunAndTheFinalizerWaitsForTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.cloud = must(reconciletest.NewCloud(&reconciletest.CloudOptions{UniqueNames: true, DeleteTakes: time.Minute}))
		w.restart(nil)
		w.converged()
		w.delete()
		for range 2 {
			if res := w.run(); !res.Requeue || w.gone() {
				t.Fatalf("Result %+v, gone %v; want Requeue and the finalizer", res, w.gone())
			}
		}
		w.wantCalls(map[string]int{"Delete": 2})
		w.wantCondition(store.ConditionReady, store.False, external.ReasonDeleting)
		w.wantCondition(store.ConditionSynced, store.True, "")
		time.Sleep(time.Minute)
		revision := w.get().Revision
		if res := w.run(); res != (reconcile.Result{}) || !w.gone() {
			t.Errorf("Result %+v, gone %v; want zero and gone", res, w.gone())
		}
		// One write: the finalizer's. A status write would have been another.
		if rev := must(w.backend.List(t.Context(), "Disk", store.ListOptions{})).Revision; rev != revision+1 {
			t.Errorf("%d writes for the last run, want 1", rev-revision)
		}
		wantSlice(t, "events", w.reasons(), []string{external.ReasonCreated, external.ReasonDeleted})
	})
}

// case 16
func TestFailedDeleteKeepsTheFinalizerAndIsShown(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.converged()
		f, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
			f.DeleteFunc = func(context.Context, *disk) error { return errors.New("in use") }
		})
		w.with(f)
		w.delete()
		if err := w.fails(); !strings.Contains(err.Error(), "in use") || w.gone() {
			t.Errorf("error %v, gone %v", err, w.gone())
		}
		w.wantCondition(store.ConditionReady, store.False, external.ReasonDeleting)
		w.wantCondition(store.ConditionSynced, store.False, external.ReasonDeleteFailed)
	})
}

// case 17
func TestForeignFinalizerDelaysTheExternalDelete(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.converged(func(o *disk) { o.Finalizers = []string{"backup"} })
		w.delete()
		w.run()
		w.wantCalls(map[string]int{"Delete": 0})
		w.wantCondition(store.ConditionReady, store.False, external.ReasonAwaiting)
		w.edit(func(o *disk) { o.RemoveFinalizer("backup") })
		w.run()
		time.Sleep(time.Minute) // the creation grace
		w.run()
		w.wantCalls(map[string]int{"Delete": 1})
		if !w.gone() {
			t.Error("the object is still there")
		}
	})
}

// case 18
func TestLateInitialisationAndStatusAreBothStored(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		o := w.converged(func(o *disk) { o.Spec.Zone = "" })
		if o.Spec.Zone != "zone-1" || o.Status.ID != "t-a" {
			t.Errorf("spec %+v, status %+v; want the zone and the id that the cloud chose", o.Spec, o.Status)
		}
		if !o.Ready() {
			t.Errorf("not ready in generation %d: %+v", o.Generation, o.Conditions)
		}
	})
}

// case 86
func TestLateInitialisationWritesOnlyChangesAndNeverOverAnEdit(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var during func()
		zone, looks := "x", 0
		f, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
			f.ObserveFunc = func(_ context.Context, o *disk) (external.Observation, error) {
				looks++
				o.Spec.Zone, o.Status.State = zone, strings.Repeat("i", looks)
				if during != nil {
					during()
				}
				return external.Observation{Exists: true, UpToDate: true, LateInitialized: true}, nil
			}
		})
		w.with(f)
		w.declare()
		w.run()
		first := w.get()
		w.run()
		if o := w.get(); o.Generation != first.Generation || o.Spec.Zone != "x" || o.Status.State != "ii" {
			t.Errorf("generation %d → %d, zone %q, state %q; want no new spec and a new status", first.Generation, o.Generation, o.Spec.Zone, o.Status.State)
		}
		zone = "y"
		during = func() { w.edit(func(o *disk) { o.Spec.Size = "mine" }) }
		if res := w.run(); !res.Requeue {
			t.Errorf("Result %+v after a conflict, want Requeue", res)
		}
		if o := w.get(); o.Spec.Size != "mine" || o.Spec.Zone != "x" {
			t.Errorf("spec %+v, want the user's edit as it is", o.Spec)
		}
	})
}

// Late initialisation has to be permitted.
func TestLateInitialisationGoesByThePolicy(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Policy = func(*disk) (external.Policy, error) { return external.All &^ external.LateInit, nil }
		w.restart(nil)
		if o := w.converged(func(o *disk) { o.Spec.Zone = "" }); o.Spec.Zone != "" || o.Status.ID == "" {
			t.Errorf("spec %+v, status %+v; want no zone, and the id", o.Spec, o.Status)
		}
	})
}

// What is not the object's fills in none of its fields: they would be those of a stranger, and
// stay when the object gets a resource of its own. What is taken over does.
//
// promise E2. Negative control: the mutant "fields are filled in from what is another's".
func TestLateInitialisationTakesNothingFromWhatIsAnothers(t *testing.T) {
	another := tags(external.Mark{Installation: "elsewhere", Kind: "Disk", Key: store.Key{Namespace: "t", Name: "a"}, UID: "u"})
	for name, c := range map[string]struct {
		tags   map[string]string
		policy external.Policy
		want   string
	}{
		"it carries the mark of another": {another, external.All | external.Adopt, ""},
		"it is unmarked":                 {nil, external.All, ""},
		"it is unmarked, and taken over": {nil, external.All | external.Adopt, "zone-9"},
	} {
		bubble(t, func(t *testing.T, w *world) {
			w.o.Policy = func(*disk) (external.Policy, error) { return c.policy, nil }
			w.restart(nil)
			w.cloud.Put(reconciletest.Resource{Name: "t-a", Tags: c.tags, Props: map[string]string{"size": "1", "zone": "zone-9"}})
			w.declare(func(o *disk) { o.Spec.Zone = "" })
			w.run()
			if o := w.get(); o.Spec.Zone != c.want {
				t.Errorf("%s: the zone is %q, want %q", name, o.Spec.Zone, c.want)
			}
		})
	}
}

// case 19
func TestUpToDateIsLookedAtAgainAtThePollInterval(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.converged()
		if res := w.run(); res != (reconcile.Result{RequeueAfter: time.Minute}) {
			t.Errorf("Result %+v, want the default poll of a minute", res)
		}
	})
	t.Run("no sooner than MinPoll", func(t *testing.T) {
		for poll, want := range map[time.Duration]time.Duration{0: 10 * time.Second, time.Minute: 10 * time.Second, 2 * time.Second: 2 * time.Second} {
			bubble(t, func(t *testing.T, w *world) {
				w.o.Poll = poll
				w.restart(nil)
				w.converged(func(o *disk) { o.Annotations = map[string]string{external.PollAnnotation: "1s"} })
				if res := w.run(); res != (reconcile.Result{RequeueAfter: want}) {
					t.Errorf("with a Poll of %v and an own interval of 1s: Result %+v, want %v", poll, res, want)
				}
			})
		}
	})
	t.Run("within the jitter", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			w.o.Poll, w.o.PollJitter = 10*time.Minute, time.Minute
			w.restart(nil)
			w.converged()
			seen := map[time.Duration]bool{}
			for range 100 {
				res := w.run()
				if res.Requeue || res.RequeueAfter < 9*time.Minute || res.RequeueAfter > 11*time.Minute {
					t.Fatalf("Result %+v, want 10m ± 1m", res)
				}
				seen[res.RequeueAfter] = true
			}
			if len(seen) < 2 {
				t.Errorf("100 polls after %v, want a jitter", seen)
			}
		})
	})
	t.Run("as the hook says", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			var got []time.Duration
			w.o.PollHook = func(o *disk, d time.Duration) time.Duration {
				if o.Key() != key {
					t.Errorf("the hook was called for %v, want %v", o.Key(), key)
				}
				got = append(got, d)
				return 3 * time.Second // below MinPoll: the hook has the last word
			}
			w.restart(nil)
			w.converged()
			for _, own := range []string{"", "5m"} {
				w.edit(func(o *disk) { o.Annotations = map[string]string{external.PollAnnotation: own} })
				got = nil
				if res := w.run(); res != (reconcile.Result{RequeueAfter: 3 * time.Second}) {
					t.Errorf("Result %+v, want what the hook said", res)
				}
				want := time.Minute
				if own != "" {
					want = 5 * time.Minute
				}
				if len(got) == 0 || slices.ContainsFunc(got, func(d time.Duration) bool { return d != want }) {
					t.Errorf("own interval %q: the hook got %v, want %v", own, got, want)
				}
			}
		})
	})
}

// case 21
//
// Weak point 000 (e): observe and delete only, with nothing there, used to report
// success.
func TestMissingResourceThatMayNotBeCreatedIsShown(t *testing.T) {
	for _, policy := range []string{"observe", "observe,delete", "observe,update,delete"} {
		bubble(t, func(t *testing.T, w *world) {
			w.declare(func(o *disk) { o.Annotations = map[string]string{external.PolicyAnnotation: policy} })
			for range 2 {
				if res := w.run(); res != (reconcile.Result{RequeueAfter: time.Minute}) {
					t.Errorf("%s: Result %+v, want the poll interval", policy, res)
				}
			}
			w.wantCondition(store.ConditionSynced, store.False, external.ReasonMissing)
			w.wantCalls(map[string]int{"Create": 0})
			wantSlice(t, policy, w.reasons(), []string{external.ReasonMissing})
		})
	}
}

// case 22
//
// Weak point 000 (e): an unknown policy used to permit nothing and, in a deletion,
// leave the resource behind in silence.
func TestUnknownPolicyCreatesDeletesAndOrphansNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.declare(func(o *disk) { o.Annotations = map[string]string{external.PolicyAnnotation: "observe-create"} })
		check := func(created int) {
			t.Helper()
			err := w.fails()
			if !errors.Is(err, external.ErrPolicy) || !errors.Is(err, reconcile.ErrTerminal) {
				t.Errorf("error %v, want a terminal ErrPolicy", err)
			}
			w.wantCondition(store.ConditionSynced, store.False, external.ReasonPolicy)
			w.wantCalls(map[string]int{"Create": created, "Delete": 0})
		}
		check(0)
		w.edit(func(o *disk) { o.Annotations = nil })
		w.run()
		w.edit(func(o *disk) { o.Annotations = map[string]string{external.PolicyAnnotation: "dlete"} })
		w.delete()
		check(1)
		if w.gone() {
			t.Error("the object went and left its resource behind")
		}
		w.o.Policy = func(*disk) (external.Policy, error) { return external.Delete, nil }
		w.restart(nil)
		check(1)
	})
}

// case 23
func TestFailingCloseChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for _, closes := range []func(context.Context) error{
			func(context.Context) error { return errors.New("session lost") },
			func(context.Context) error { panic("session lost") },
		} {
			f, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) { f.CloseFunc = closes })
			w.with(f)
			if w.gone() {
				w.declare()
			}
			if res := w.run(); res != (reconcile.Result{RequeueAfter: time.Minute}) {
				t.Errorf("Result %+v, want the poll interval", res)
			}
			w.wantCondition(store.ConditionSynced, store.True, "")
		}
		wantSlice(t, "events", w.reasons(), []string{external.ReasonCloseFailed, external.ReasonCloseFailed})
	})
}

// case 24
func TestTimeoutOfAnExternalCallIsStillRecorded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Timeout = 10 * time.Second
		f, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
			f.ObserveFunc = func(ctx context.Context, _ *disk) (external.Observation, error) {
				<-ctx.Done()
				return external.Observation{}, ctx.Err()
			}
		})
		w.with(f)
		w.declare()
		start := time.Now()
		err := w.fails()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "Options.Timeout") || time.Since(start) != 10*time.Second {
			t.Errorf("error %q after %v, want one that names Options.Timeout, after 10s", err, time.Since(start))
		}
		w.wantCondition(store.ConditionSynced, store.False, external.ReasonObserveFailed)
	})
}

// case 24: the run's own deadline passes, and the status is written all the same.
func TestDeadlineOfTheRunIsStillRecorded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		f, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
			f.ObserveFunc = func(ctx context.Context, _ *disk) (external.Observation, error) {
				<-ctx.Done()
				return external.Observation{}, ctx.Err()
			}
		})
		w.with(f)
		w.declare()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, reconcile.ErrDeadline)
		defer cancel()
		if _, err := w.rec.Reconcile(ctx, key); !errors.Is(err, reconcile.ErrDeadline) {
			t.Errorf("error %v, want the run's deadline", err)
		}
		w.wantCondition(store.ConditionSynced, store.False, external.ReasonObserveFailed)
	})
}

// A run that is called off at shutdown says nothing about its object.
func TestShutdownIsNotShownAsAFailureOfTheObject(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.converged()
		before := w.get().Revision
		ctx, cancel := context.WithCancelCause(t.Context())
		f, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
			f.ObserveFunc = func(ctx context.Context, _ *disk) (external.Observation, error) {
				cancel(reconcile.ErrShutdown)
				return external.Observation{}, ctx.Err()
			}
		})
		w.with(f)
		if _, err := w.rec.Reconcile(ctx, key); !errors.Is(err, reconcile.ErrShutdown) {
			t.Errorf("error %v, want the shutdown", err)
		}
		if w.get().Revision != before {
			t.Errorf("the status was written: %+v", w.get().Conditions)
		}
	})
}

// What a client says of a thing that it has not found is no word about the object, and is
// shown as each failure is.
//
// Negative control: mutant "what the client did not find is silent".
func TestClientThatFindsNothingIsHeard(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		f, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
			f.ObserveFunc = func(context.Context, *disk) (external.Observation, error) {
				return external.Observation{}, fmt.Errorf("the zone: %w", store.ErrNotFound)
			}
		})
		w.with(f)
		w.declare()
		if err := w.fails(); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%v, want the client's own error", err)
		}
		w.wantCondition(store.ConditionSynced, store.False, external.ReasonObserveFailed)
		wantSlice(t, "events", w.reasons(), []string{external.ReasonObserveFailed})
	})
}

// A client of a kind with secrets is closed as any other is.
//
// Negative control: mutant "a client of a kind with secrets is not closed".
func TestClientOfAKindWithSecretsIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		vaults, closed := must(store.New[vaultSpec, diskStatus](w.backend, "vault", nil)), 0
		must(vaults.Create(t.Context(), &vault{Meta: store.Meta{Name: "v"}, Spec: vaultSpec{Key: "open-sesame-4711"}}))
		rec := must(external.New(vaults, external.ClientFuncs[vaultSpec, diskStatus]{
			ObserveFunc: func(context.Context, *vault) (external.Observation, error) {
				return external.Observation{Exists: true, UpToDate: true}, nil
			},
			CloseFunc: func(context.Context) error { closed++; return nil },
		}, nil))
		for run := range 2 {
			must(rec.Reconcile(t.Context(), store.Key{Name: "v"}))
			if closed != run+1 {
				t.Errorf("closed %d times after %d runs", closed, run+1)
			}
		}
	})
}

// An object whose resource is another's by now goes, and says that it left it behind.
//
// Negative control: mutant "a resource that is left behind is no event".
func TestResourceThatIsLeftBehindIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.converged()
		r := w.cloud.Peek("t-a")
		r.Tags = tags(external.Mark{Installation: "there", Kind: "Disk", Key: key})
		w.cloud.Put(r)
		w.delete()
		w.run()
		if all := w.reasons(); !w.gone() || len(all) == 0 || all[len(all)-1] != external.ReasonReleased {
			t.Errorf("gone is %v, events %q; want that it is released", w.gone(), all)
		}
		w.wantCalls(map[string]int{"Delete": 0})
	})
}
