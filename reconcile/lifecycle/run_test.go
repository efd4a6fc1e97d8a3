package lifecycle

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/internal/object"
	"github.com/tendhq/tend/store"
)

func begin(t *testing.T, s *widgets, name string) *object.Run[widgetSpec, widgetStatus] {
	t.Helper()
	r, err := object.Begin(t.Context(), s, key(name))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBeginOfAnAbsentObjectIsNoError(t *testing.T) {
	if r := begin(t, newWidgets(t), "a"); r != nil {
		t.Errorf("Begin = %+v, want nil", r)
	}
}

func TestPausedObjectIsLeftAloneAndSaysSo(t *testing.T) {
	var d diary
	s := newWidgets(t)
	l := mustNew(t, s, d.handler("h", nil))
	create(t, s, "a")
	edit(t, s, "a", func(o *widget) { o.Paused = true })
	if res := run(t, l, "a"); res != (reconcile.Result{}) {
		t.Errorf("Result = %+v, want zero", res)
	}
	c, _ := get(t, s, "a").Condition(store.ConditionSynced)
	if c.Status != store.False || c.Reason != "ReconcilePaused" {
		t.Errorf("Synced = %+v, want False, paused", c)
	}
	remove := get(t, s, "a").Finalizers
	if d.expect(t); len(remove) != 0 {
		t.Errorf("finalizers = %q, want none", remove)
	}
	edit(t, s, "a", func(o *widget) { o.Paused = false })
	run(t, l, "a")
	d.expect(t, "h Added 1")
	if c, _ := get(t, s, "a").Condition(store.ConditionSynced); c.Status != store.True {
		t.Errorf("Synced = %+v, want True again", c)
	}
}

// The finalizer is stored before the first side effect, whatever else goes
// wrong: here the store is asked at the moment of the side effect.
//
// promise S3. Negative control: with Ensure moved behind the call in
// handlerWork.show (and behind CreateOrUpdate in providerWork.step) this failed
// with "side effect without a finalizer"; with Ensure's error ignored, the part
// about the refused write failed too.
func TestNoSideEffectWithoutAStoredFinalizer(t *testing.T) {
	for name, build := range map[string]func(t *testing.T, s *widgets, effect func()) *Lifecycle[widgetSpec, widgetStatus]{
		"handler": func(t *testing.T, s *widgets, effect func()) *Lifecycle[widgetSpec, widgetStatus] {
			return mustNew(t, s, Handler[widgetSpec, widgetStatus]{Add: func(context.Context, *widget) (reconcile.Result, error) {
				effect()
				return reconcile.Result{}, nil
			}})
		},
		"provider": func(t *testing.T, s *widgets, effect func()) *Lifecycle[widgetSpec, widgetStatus] {
			return mustProvide(t, s, &fakeProvider{create: func(context.Context, *widget, settings, client) (reconcile.Result, error) {
				effect()
				return reconcile.Result{}, nil
			}}, nil, nil)
		},
		"access": func(t *testing.T, s *widgets, effect func()) *Lifecycle[widgetSpec, widgetStatus] {
			p := &fakeProvider{}
			return mustProvide(t, s, p, nil, fakeAccess{diary: &p.diary, ensure: func(*widget) (reconcile.Result, error) {
				effect()
				return reconcile.Result{}, nil
			}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFaulty(t)
			s := on[widgetSpec, widgetStatus](t, b, "widget")
			effects := 0
			l := build(t, s, func() {
				effects++
				if o := get(t, s, "a"); len(o.Finalizers) != 1 {
					t.Errorf("side effect without a finalizer: %q", o.Finalizers)
				}
			})
			create(t, s, "a")
			b.commit.Store(new(func(store.Txn) error { return errBoom }))
			if _, err := l.Reconcile(t.Context(), key("a")); !errors.Is(err, errBoom) {
				t.Errorf("Reconcile = %v, want the refused write", err)
			}
			if effects != 0 {
				t.Error("side effect although the finalizer could not be stored")
			}
			b.commit.Store(nil)
			run(t, l, "a")
			if effects != 1 {
				t.Errorf("%d side effects, want one", effects)
			}
		})
	}
}

// An edit that comes between the reading and the finalizer makes the run start
// again, quietly.
func TestEditBeforeTheFinalizerRestartsTheRun(t *testing.T) {
	b := newFaulty(t)
	s := on[widgetSpec, widgetStatus](t, b, "widget")
	var d diary
	l := mustNew(t, s, d.handler("h", nil))
	create(t, s, "a")
	b.commit.Store(new(func(store.Txn) error {
		b.commit.Store(nil)
		edit(t, s, "a", resize(2))
		return nil
	}))
	if res := run(t, l, "a"); res != (reconcile.Result{Requeue: true}) {
		t.Errorf("Result = %+v, want a quiet requeue with backoff", res)
	}
	d.expect(t)
	run(t, l, "a")
	d.expect(t, "h Added 2")
}

// case 32; weak point 001 (n): a deletion during the first run was missed.
func TestDeletionDuringTheFirstAddIsNotMissed(t *testing.T) {
	for _, outcome := range []error{nil, errBoom} {
		var d diary
		s := newWidgets(t)
		h := d.handler("h", nil)
		h.Add = func(context.Context, *widget) (reconcile.Result, error) {
			d.note("h Added")
			remove(t, s, "a")
			return reconcile.Result{}, outcome
		}
		l := mustNew(t, s, h)
		create(t, s, "a")
		if _, err := l.Reconcile(t.Context(), key("a")); !errors.Is(err, outcome) {
			t.Errorf("Reconcile = %v, want %v", err, outcome)
		}
		run(t, l, "a")
		d.expect(t, "h Added", "h Deleted 1")
		expectGone(t, s, "a")
		expectForgotten(t, l)
	}
}

// The spec is edited while Add runs for the one of before, and recording the finalizer
// reads the newer object: what Add was called with counts as handled, not what is stored.
//
// promise R1. case 119. Negative control: with the stored object taken for the one that
// was handled, the edit was no Update but a Resync.
func TestEditDuringAddIsAnUpdateAfterwards(t *testing.T) {
	var d diary
	s := newWidgets(t)
	h := d.handler("h", nil)
	h.Add = func(_ context.Context, o *widget) (reconcile.Result, error) {
		d.note("h Added %d", o.Spec.Size)
		edit(t, s, "a", resize(2))
		return reconcile.Result{}, nil
	}
	l := mustNew(t, s, h)
	create(t, s, "a")
	run(t, l, "a")
	run(t, l, "a")
	d.expect(t, "h Added 1", "h Updated 1->2")
}

// What happened is on record although the run is over.
func TestOutcomesAreRecordedAfterTheRunWasCancelled(t *testing.T) {
	s := newWidgets(t)
	create(t, s, "a")
	ctx, cancel := context.WithCancel(t.Context())
	l := mustNew(t, s, Handler[widgetSpec, widgetStatus]{Add: func(_ context.Context, o *widget) (reconcile.Result, error) {
		cancel()
		o.Status.Note = "done"
		return reconcile.Result{}, nil
	}})
	if _, err := l.Reconcile(ctx, key("a")); err != nil {
		t.Fatal(err)
	}
	o := get(t, s, "a")
	if want := []string{"tend.widget.handler"}; !slices.Equal(o.Finalizers, want) || o.Status.Note != "done" || !o.Ready() {
		t.Errorf("finalizers %q, note %q, want the success on record", o.Finalizers, o.Status.Note)
	}
}

// An edit that comes while Add runs: the record of the success lands on the
// edited object, and the status still speaks of what was run. Negative control:
// with the newer generation taken over in Run.adopt this failed.
func TestStatusSpeaksOfTheGenerationThatWasRun(t *testing.T) {
	s := newWidgets(t)
	create(t, s, "a")
	l := mustNew(t, s, Handler[widgetSpec, widgetStatus]{Add: func(context.Context, *widget) (reconcile.Result, error) {
		edit(t, s, "a", resize(2))
		return reconcile.Result{}, nil
	}})
	run(t, l, "a")
	o := get(t, s, "a")
	if want := []string{"tend.widget.handler"}; o.Generation != 2 || o.ObservedGeneration != 1 || o.Ready() || !slices.Equal(o.Finalizers, want) {
		t.Errorf("generation %d, observed %d, finalizers %q; want 2, 1 and the success on record", o.Generation, o.ObservedGeneration, o.Finalizers)
	}
}

// A deadline does not keep the status from being written.
func TestStatusIsWrittenAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWidgets(t)
		p := &fakeProvider{create: func(ctx context.Context, o *widget, _ settings, _ client) (reconcile.Result, error) {
			<-ctx.Done()
			return reconcile.Result{}, context.Cause(ctx)
		}}
		start(t, mustProvide(t, s, p, nil, nil), nil, &reconcile.Options[reconcile.Request]{Timeout: time.Minute})
		create(t, s, "a")
		restFor(time.Minute + time.Second)
		expectReady(t, get(t, s, "a"), store.False, store.PhaseProgressing, reasonFailed)
	})
}

func TestStatusIsWrittenWhenTheRunPanics(t *testing.T) {
	s := newWidgets(t)
	create(t, s, "a")
	l := mustProvide(t, s, &fakeProvider{create: func(context.Context, *widget, settings, client) (reconcile.Result, error) { panic("boom") }}, nil, nil)
	func() {
		defer func() { recover() }()
		l.Reconcile(t.Context(), key("a"))
	}()
	expectReady(t, get(t, s, "a"), store.False, store.PhaseProgressing, reasonFailed)
}

// The status lands on the newer object if no other writer wrote one, for the
// generation that was run; otherwise the conflict shows.
func TestStatusAfterAConflict(t *testing.T) {
	s := newWidgets(t)
	create(t, s, "a")
	r := begin(t, s, "a")
	edit(t, s, "a", resize(2))
	r.Object.Status.Note = "mine"
	r.Object.SetReady()
	if err := r.End(t.Context(), nil); err != nil {
		t.Errorf("End after an edit of the spec = %v, want the status written", err)
	}
	if o := get(t, s, "a"); o.Status.Note != "mine" || o.ObservedGeneration != 1 || o.Generation != 2 || o.Spec.Size != 2 {
		t.Errorf("stored %+v, want our status for generation 1 on the edited object", o)
	}

	r = begin(t, s, "a")
	o := get(t, s, "a")
	o.Status.Note = "theirs"
	if _, err := s.UpdateStatus(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	r.Object.Status.Note = "mine again"
	if err := r.End(t.Context(), errBoom); !errors.Is(err, store.ErrConflict) || !errors.Is(err, errBoom) {
		t.Errorf("End over another writer's status = %v, want the conflict and the run's own error", err)
	}
	if got := get(t, s, "a").Status.Note; got != "theirs" {
		t.Errorf("status = %q, want theirs kept", got)
	}

	r = begin(t, s, "a")
	remove(t, s, "a")
	create(t, s, "a")
	r.Object.Status.Note = "of the dead"
	if err := r.End(t.Context(), nil); err != nil {
		t.Errorf("End for an object that is gone = %v, want success", err)
	}
	if got := get(t, s, "a").Status.Note; got != "" {
		t.Errorf("status %q went to another object of the same name", got)
	}
}

// A status write of unknown outcome is looked at, not taken for a failure.
func TestStatusWriteOfUnknownOutcomeIsLookedAt(t *testing.T) {
	b := newFaulty(t)
	s := on[widgetSpec, widgetStatus](t, b, "widget")
	create(t, s, "a")
	for _, landed := range []bool{true, false} {
		r := begin(t, s, "a")
		r.Object.Status.Note += "x"
		want := r.Object.Status.Note
		var tries atomic.Int32
		b.commit.Store(new(func(txn store.Txn) error {
			if tries.Add(1) > 1 {
				return nil
			}
			if landed {
				if _, err := b.FullBackend.Commit(t.Context(), txn); err != nil {
					t.Error(err)
				}
			}
			return store.ErrUnknownOutcome
		}))
		if err := r.End(t.Context(), nil); err != nil {
			t.Errorf("landed %v: End = %v, want success", landed, err)
		}
		b.commit.Store(nil)
		if got := get(t, s, "a").Status.Note; got != want {
			t.Errorf("landed %v: status %q, want %q", landed, got, want)
		}
	}
}

// case 33: our finalizer comes and goes while others come and go in between.
func TestFinalizersOfOthersThatComeMeanwhileStay(t *testing.T) {
	s := newWidgets(t)
	create(t, s, "a")
	r := begin(t, s, "a")
	if err := r.Ensure(t.Context(), "ours"); err != nil {
		t.Fatal(err)
	}
	edit(t, s, "a", func(o *widget) { o.AddFinalizer("theirs") })
	if err := r.Swap(t.Context(), "ours", "ours-done"); err != nil {
		t.Fatal(err)
	}
	if got, want := get(t, s, "a").Finalizers, []string{"theirs", "ours-done"}; !slices.Equal(got, want) {
		t.Errorf("finalizers = %q, want %q", got, want)
	}
	edit(t, s, "a", func(o *widget) { o.AddFinalizer("later") })
	if err := r.Remove(t.Context(), "ours-done"); err != nil {
		t.Fatal(err)
	}
	if got, want := get(t, s, "a").Finalizers, []string{"theirs", "later"}; !slices.Equal(got, want) {
		t.Errorf("finalizers = %q, want %q", got, want)
	}
}

func TestEnsureAddsNothingToAnObjectInDeletion(t *testing.T) {
	s := newWidgets(t)
	create(t, s, "a")
	edit(t, s, "a", func(o *widget) { o.AddFinalizer("theirs") })
	remove(t, s, "a")
	if err := begin(t, s, "a").Ensure(t.Context(), "ours"); !errors.Is(err, object.ErrDeleting) {
		t.Errorf("Ensure = %v, want object.ErrDeleting", err)
	}
}

// Edits of the working copy are not written along with a finalizer.
func TestOnlyStatusEditsOfTheWorkingCopyAreWritten(t *testing.T) {
	s := newWidgets(t)
	create(t, s, "a")
	r := begin(t, s, "a")
	r.Object.Spec.Size = 99
	r.Object.Labels = map[string]string{"x": "y"}
	r.Object.Status.Note = "kept"
	if err := r.Ensure(t.Context(), "ours"); err != nil {
		t.Fatal(err)
	}
	if err := r.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if o := get(t, s, "a"); o.Spec.Size != 1 || len(o.Labels) != 0 || o.Status.Note != "kept" || o.Generation != 1 {
		t.Errorf("stored %+v, want the status and nothing else", o)
	}
}

// A version that has dropped a handler can still let objects go.
func TestRetiredFinalizersDoNotHoldUpADeletion(t *testing.T) {
	s := newWidgets(t)
	create(t, s, "a")
	create(t, s, "b")
	run(t, mustNew(t, s, Handler[widgetSpec, widgetStatus]{Name: "old"}), "a")
	run(t, mustProvide(t, s, &fakeProvider{}, nil, nil), "b")
	remove(t, s, "a")
	remove(t, s, "b")
	o := &Options{Retired: []string{"tend.widget.old", "tend.widget.provider"}}
	l, err := New[widgetSpec, widgetStatus](s, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	run(t, l, "a")
	run(t, l, "b")
	expectGone(t, s, "a")
	expectGone(t, s, "b")

	// Nor do those of a handler that has crashed in its Add, nor beside a provider that has
	// the object too.
	o.Retired = o.Retired[:1]
	for _, provided := range []bool{false, true} {
		if l, err = New[widgetSpec, widgetStatus](s, nil, o); provided {
			l, err = NewProvider(s, &fakeProvider{}, StaticConfig(settings{}), nil, o)
		}
		if err != nil {
			t.Fatal(err)
		}
		create(t, s, "c")
		edit(t, s, "c", func(o *widget) { o.Finalizers = []string{"pending.tend.widget.old", "tend.widget.old"} })
		run(t, l, "c")
		remove(t, s, "c")
		run(t, l, "c")
		expectGone(t, s, "c")
	}
}

// What has happened is recorded although others write the object at each try but the last,
// and the conflict shows when they do at that one too.
//
// Negative control: mutant "what has happened is recorded at the second try or not at all".
func TestOutcomeIsRecordedThoughOthersWrite(t *testing.T) {
	for others := range object.RecordTries + 1 {
		s := newWidgets(t)
		create(t, s, "a")
		tries := 0
		err := begin(t, s, "a").Record(t.Context(), func(o *widget) error {
			if tries++; tries <= others {
				edit(t, s, "a", resize(10+tries))
			}
			o.AddFinalizer("ours")
			return nil
		})
		if recorded := get(t, s, "a").HasFinalizer("ours"); recorded != (others < object.RecordTries) || errors.Is(err, store.ErrConflict) == recorded {
			t.Errorf("others wrote %d times: recorded %v, error %v", others, recorded, err)
		}
	}
}

// To have said Ready and failed all the same is to have said nothing: the object is not Ready.
//
// Negative control: mutant "what fails after it has said Ready is Ready".
func TestReadyThatFailedIsNotReady(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		for _, provided := range []bool{false, true} {
			s, fails := newWidgets(t), false
			act := func(_ context.Context, o *widget) (reconcile.Result, error) {
				if !fails {
					return reconcile.Result{}, nil
				}
				o.SetReady()
				return reconcile.Result{}, errBoom
			}
			l := mustNew(t, s, Handler[widgetSpec, widgetStatus]{Add: act, Resync: act, Delete: act})
			if provided {
				call := func(ctx context.Context, o *widget, _ settings, _ client) (reconcile.Result, error) {
					return act(ctx, o)
				}
				l = mustProvide(t, s, &fakeProvider{create: call, delete: call}, nil, nil)
			}
			create(t, s, "a")
			run(t, l, "a")
			phase, reason := store.PhaseProgressing, reasonFailed
			if deleted {
				remove(t, s, "a")
				phase, reason = store.PhaseTerminating, reasonDeleteFailed
			}
			fails = true
			runFails(t, l, "a", errBoom)
			expectReady(t, get(t, s, "a"), store.False, phase, reason)
		}
	}
}
