package external_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
)

func TestPlanShowsWhatReconcileWouldDoAndTouchesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys := w.populate(6)
		w.orphan("old")
		edit := func(i int, f func(*disk)) {
			must(w.store.Mutate(t.Context(), keys[i], func(o *disk) error { f(o); return nil }))
		}
		w.cloud.Remove("t-d00001")
		edit(2, func(o *disk) { o.Spec.Size = "2" })
		r := w.cloud.Truth()[3] // "old" comes first
		r.Tags = nil
		w.cloud.Put(r) // d00003
		edit(4, func(o *disk) { o.Finalizers = []string{must(finalizerName())} })
		if err := w.store.Delete(t.Context(), must(w.store.Get(t.Context(), keys[4]))); err != nil {
			t.Fatal(err)
		}
		edit(5, func(o *disk) { o.Annotations = map[string]string{external.PolicyAnnotation: "what?"} })

		v := w.inventory()
		w.reconcileBy(v)
		report, err := v.Report(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		truth := must(json.Marshal(w.cloud.Truth()))
		head := must(w.backend.List(t.Context(), "Disk", store.ListOptions{})).Revision
		p, err := w.rec.Plan(t.Context(), report.Orphans...)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := p.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		const want = `+ create t/d00001
~ update t/d00002
    size: "1", want "2"
! refuse t/d00003: it carries no ownership mark
- delete t/d00004
! fail t/d00005: external: unknown policy: "what?" is none of observe, create, update, late-init, delete, adopt, all, paused
- prune t/old: ours by its mark, and not declared
Disk: 4 to change, 1 as declared, 2 not to be done
`
		if text.String() != want {
			t.Errorf("plan:\n%s\nwant:\n%s", &text, want)
		}
		if string(truth) != string(must(json.Marshal(w.cloud.Truth()))) || must(w.backend.List(t.Context(), "Disk", store.ListOptions{})).Revision != head {
			t.Error("planning changed something")
		}
		w.wantCalls(map[string]int{"Create": 0, "Update": 0, "Delete": 0, "List": 1})

		var doc strings.Builder
		if err := p.WriteJSON(&doc); err != nil {
			t.Fatal(err)
		}
		var back external.Plan
		if err := json.Unmarshal([]byte(doc.String()), &back); err != nil || len(back.Steps) != len(p.Steps) || back.Steps[1].Diff == "" {
			t.Errorf("JSON %s: %v", &doc, err)
		}
		if back.Steps[1] != p.Steps[1] {
			t.Errorf("step through JSON: %+v, want %+v", back.Steps[1], p.Steps[1])
		}
		if got := p.ExitCode(nil); got != 1 {
			t.Errorf("exit code %d with an object that cannot be judged, want 1", got)
		}
	})
}

func TestPlanExitCodesFitForCI(t *testing.T) {
	nothing := external.Plan{Kept: 3, Steps: []external.Step{{Action: "wait"}}}
	changes := external.Plan{Steps: []external.Step{{Action: "adopt"}}}
	stopped := external.Plan{Steps: []external.Step{{Action: "create"}, {Action: "stop"}}}
	for _, c := range []struct {
		p    external.Plan
		err  error
		want int
	}{{nothing, nil, 0}, {changes, nil, 2}, {stopped, nil, 1}, {nothing, errors.New("x"), 1}} {
		if got := c.p.ExitCode(c.err); got != c.want {
			t.Errorf("ExitCode of %+v, %v = %d, want %d", c.p.Steps, c.err, got, c.want)
		}
	}
}

// What exists already is refused without Adopt, and taken over with it.
func TestExistingResourceIsTakenOverOnlyWhereThePolicyAdopts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.cloud.Put(resource{Name: "t-a", Props: map[string]string{"size": "1", "zone": "z"}})
		w.declare()
		for range 2 {
			w.run()
		}
		w.wantCondition(store.ConditionSynced, store.False, external.ReasonNotOurs)
		if len(w.cloud.Truth()[0].Tags) != 0 || w.cloud.Calls("Update") != 0 {
			t.Error("what is not ours was touched")
		}
		w.edit(func(o *disk) { o.Annotations = map[string]string{external.PolicyAnnotation: "all,adopt"} })
		w.run()
		w.run()
		if m, ok := readMark(w.cloud.Truth()[0]); !ok || m != markOf(w.get()) {
			t.Errorf("mark %+v, %v; want ours", m, ok)
		}
		w.wantCondition(store.ConditionReady, store.True, "")
		wantSlice(t, "events", w.reasons(), []string{external.ReasonNotOurs, external.ReasonAdopted})
	})
}

// A policy that is mended runs its object at once, which was given up because of it.
//
// Seen to fail: the object ran after 51 minutes, at the slow resync.
func TestMendedPolicyRunsAnObjectThatWasGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.declare(func(o *disk) { o.Annotations = map[string]string{external.PolicyAnnotation: "adopt"} })
		_, stop := w.serve(new(reconcile.Options[reconcile.Request]), nil)
		defer stop()
		synctest.Wait()
		w.wantCondition(store.ConditionSynced, store.False, external.ReasonPolicy)
		w.edit(func(o *disk) { o.Annotations[external.PolicyAnnotation] = "observe,create" })
		time.Sleep(time.Minute)
		synctest.Wait()
		w.wantCondition(store.ConditionReady, store.True, "")
	})
}

// What carries another's mark is never touched, not even by a deletion.
func TestForeignResourceSurvivesTheDeletionOfItsDeclaration(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.converged()
		r := w.cloud.Truth()[0]
		r.Tags["tend/installation"] = "there"
		w.cloud.Put(r)
		w.edit(func(o *disk) { o.Spec.Size = "2" })
		w.run()
		w.wantCondition(store.ConditionSynced, store.False, external.ReasonNotOurs)
		w.delete()
		w.run()
		if !w.gone() || len(w.cloud.Truth()) != 1 || w.cloud.Calls("Update")+w.cloud.Calls("Delete") != 0 {
			t.Errorf("gone %v, cloud %+v", w.gone(), w.cloud.Truth())
		}
	})
}

// Whatever the user's code does wrong is a step of the plan, and for a paused object
// nothing of it is asked.
//
// Negative control: each of them ended or held up the plan, or was said otherwise than
// Reconcile does.
func TestPlanGoesOnAfterAnObjectThatCannotBeLookedAt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys := w.populate(3)
		must(w.store.Mutate(t.Context(), keys[1], func(o *disk) error {
			o.Paused, o.Annotations = true, map[string]string{external.PolicyAnnotation: "what?"}
			return nil
		}))
		began := time.Now()
		w.with(external.ConnectorFunc[diskSpec, diskStatus](func(_ context.Context, o *disk) (external.Client[diskSpec, diskStatus], error) {
			if o.Name == "d00000" {
				return nil, nil
			}
			return external.ClientFuncs[diskSpec, diskStatus]{
				ObserveFunc: w.client.Observe,
				CloseFunc:   func(ctx context.Context) error { <-ctx.Done(); return nil },
			}, nil
		}))
		p, err := w.rec.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := p.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		const want = `! fail t/d00000: connect: the connector returned no client and no error
! wait t/d00001: paused
Disk: 0 to change, 1 as declared, 2 not to be done
`
		if text.String() != want {
			t.Errorf("plan:\n%s\nwant:\n%s", &text, want)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %v, want Options.Timeout for the client that does not close", took)
		}
	})
}

// A policy that cannot be followed is a failure in a plan as it is in a run.
func TestPlanFailsForAPolicyThatCannotBeFollowed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Policy = func(*disk) (external.Policy, error) { return external.Create, nil }
		w.restart(nil)
		w.declare()
		p := must(w.rec.Plan(t.Context()))
		if len(p.Steps) != 1 || p.Steps[0].Action != "fail" || !strings.Contains(p.Steps[0].Why, "lacks observe") || p.ExitCode(nil) != 1 {
			t.Errorf("plan %+v, want a failure", p)
		}
	})
}

// A plan has no step for an object that a newer version of the program stored: its spec is read in part.
//
// promise S5
func TestPlanStandsOffFromANewerObject(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys := w.populate(2)
		newer := must(store.New[diskSpec, diskStatus](w.backend, "Disk", &store.Options[diskSpec, diskStatus]{Version: 2}))
		must(newer.Mutate(t.Context(), keys[1], func(o *disk) error { o.Spec.Size = "9"; return nil }))
		p, err := w.rec.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := p.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), "! fail t/d00001: ") || !strings.Contains(text.String(), "0 to change, 1 as declared, 1 not to be done") {
			t.Errorf("plan:\n%s\nwant that the second is left alone", &text)
		}
	})
}

// shortMemory is a backend that has forgotten the instant of a list as soon as
// a call has reached the cloud.
type shortMemory struct {
	store.Backend
	cloud *reconciletest.Cloud
}

func (b shortMemory) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	if o.Cursor != "" && b.cloud.TotalCalls() > 0 {
		return store.Page{}, store.ErrCompacted
	}
	o.Limit = 2
	return b.Backend.List(ctx, kind, o)
}

// To look at 100,000 resources takes longer than a store holds the instant of a list.
//
// Negative control: with the looks made between the pages, there was no plan.
func TestPlanOfManyObjectsDoesNotHoldAListOfTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.backend = &shortMemory{w.backend, w.cloud}
		w.restart(nil)
		w.populate(10)
		p, err := w.rec.Plan(t.Context())
		if err != nil || p.Kept != 10 {
			t.Errorf("%d kept, %v; want all 10", p.Kept, err)
		}
	})
}

// A plan of a process that has just begun takes a create for young by the record's own time,
// until CreationGrace is over.
func TestPlanWaitsForAYoungCreateByItsRecord(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.declare()
		w.intent(func(i *store.Intent) { *i = store.Intent{Attempt: 1, Pending: time.Now(), Succeeded: time.Now()} })
		for _, c := range []struct {
			after  time.Duration
			action string
		}{{30*time.Second - 1, "wait"}, {1, "create"}} {
			time.Sleep(c.after)
			w.restart(nil)
			if p := must(w.rec.Plan(t.Context())); len(p.Steps) != 1 || p.Steps[0].Action != c.action {
				t.Errorf("the steps are %+v, want one to %s", p.Steps, c.action)
			}
		}
	})
}

// A plan is what an operator looks at before a prune. A resource may have any name, and an
// error any text: none of them hides a step, makes one up, or turns a line around.
//
// Negative controls: the mutants "a plan sends terminals what the cloud says" and "… what a
// diff holds".
func TestPlanHidesNoStepFromATerminal(t *testing.T) {
	const hostile = "x\x1b[1A\x1b[2K\u009b2K\u202e\n+ create b\r"
	p := external.Plan{Kind: "Disk", Steps: []external.Step{
		{Action: "prune", Key: store.Key{Name: "old"}, ID: hostile, Why: hostile},
		{Action: "update", Key: store.Key{Name: "new"}, Diff: "size: 1\n\t" + hostile},
	}}
	var text strings.Builder
	if err := p.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	const shown = "x\uFFFD[1A\uFFFD[2K\uFFFD2K\uFFFD"
	const want = "- prune old (" + shown + "; + create b\uFFFD): " + shown + "; + create b\uFFFD\n" +
		"~ update new\n    size: 1\n    \t" + shown + "\n    + create b\uFFFD\n" +
		"Disk: 2 to change, 0 as declared, 0 not to be done\n"
	if text.String() != want {
		t.Errorf("plan:\n%q\nwant:\n%q", &text, want)
	}
	text.Reset()
	if err := p.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(text.String(), "\x1b\u009b\u202e\r") {
		t.Errorf("JSON with characters that do not show: %q", &text)
	}
	var back external.Plan
	if err := json.Unmarshal([]byte(text.String()), &back); err != nil || back.Steps[0].ID != hostile {
		t.Errorf("read back: %+v, %v", back, err)
	}
}
