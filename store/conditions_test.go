package store_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/tendhq/tend/store"
)

func TestPhasesAreWrittenWithTheirCondition(t *testing.T) {
	o := &bucket{Meta: store.Meta{Generation: 4}}
	for _, c := range []struct {
		set   func()
		phase store.Phase
		want  store.Condition
	}{
		{func() { o.SetProgressing("Creating", "half way") }, store.PhaseProgressing, store.Condition{Status: store.False, Reason: "Creating", Message: "half way"}},
		{func() { o.SetReady() }, store.PhaseReady, store.Condition{Status: store.True, Reason: "Ready"}},
		{func() { o.SetTerminating("Draining", "") }, store.PhaseTerminating, store.Condition{Status: store.False, Reason: "Draining"}},
	} {
		o.Generation++
		c.set()
		got, ok := o.Condition(store.ConditionReady)
		c.want.Type, c.want.ObservedGeneration, c.want.Since = store.ConditionReady, o.Generation, got.Since
		if !ok || got != c.want || o.Phase != c.phase || o.ObservedGeneration != o.Generation || got.Since.IsZero() {
			t.Errorf("got %+v in phase %s of generation %d, want %+v in phase %s", got, o.Phase, o.ObservedGeneration, c.want, c.phase)
		}
		if o.Ready() != (c.phase == store.PhaseReady) {
			t.Errorf("Ready() is %v in phase %s", o.Ready(), o.Phase)
		}
	}
	if len(o.Conditions) != 1 {
		t.Errorf("%d conditions, want 1", len(o.Conditions))
	}
}

func TestReadyIsAboutThePresentGeneration(t *testing.T) {
	o := &bucket{Meta: store.Meta{Generation: 1}}
	o.SetReady()
	if o.Generation++; o.Ready() {
		t.Errorf("ready in generation 2 by a condition of generation 1")
	}
	// Seen to fail: a condition counted for its own generation alone.
	if !store.ReadyAt(&o.Meta, o.Conditions, 0) {
		t.Errorf("not ready in generation 0 by a condition of generation 1")
	}
}

// case 127
func TestTransitionTimeChangesWithTheStatusOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBuckets(t, newMemory(t, nil), nil)
		o := must[*bucket](t)(s.Create(t.Context(), named("a")))
		o.SetProgressing("Creating", "x")
		o = must[*bucket](t)(s.UpdateStatus(t.Context(), o))
		before, _ := o.Condition(store.ConditionReady)
		time.Sleep(time.Minute)
		if c := before; o.SetCondition(c) {
			t.Errorf("the same condition again counts as a change")
		}
		o.SetProgressing("Creating", "x")
		again := must[*bucket](t)(s.UpdateStatus(t.Context(), o))
		if after, _ := again.Condition(store.ConditionReady); after != before || again.Revision != o.Revision {
			t.Errorf("the same again: %+v at %d, before %+v at %d", after, again.Revision, before, o.Revision)
		}
		o.SetProgressing("Waiting", "y")
		if after, _ := o.Condition(store.ConditionReady); after.Since != before.Since || after.Reason != "Waiting" {
			t.Errorf("another reason: %+v", after)
		}
		o.SetReady()
		if after, _ := o.Condition(store.ConditionReady); after.Since != before.Since.Add(time.Minute) {
			t.Errorf("another status: since %v, want %v", after.Since, before.Since.Add(time.Minute))
		}
	})
}

func TestLongMessagesAreCut(t *testing.T) {
	o := named("a")
	o.SetProgressing(strings.Repeat("r", 5000), strings.Repeat("ä", 5000))
	c, _ := o.Condition(store.ConditionReady)
	if len(c.Message) > store.MaxMessage || len(c.Reason) > store.MaxMessage || !utf8.ValidString(c.Message) || !strings.HasSuffix(c.Message, "…") {
		t.Errorf("reason of %d bytes, message of %d, valid %v", len(c.Reason), len(c.Message), utf8.ValidString(c.Message))
	}
}

func TestFinalizerHelpersLeaveTheirCopiesAlone(t *testing.T) {
	o := named("a")
	o.Finalizers = make([]string, 0, 8)
	if !o.AddFinalizer("a") || o.AddFinalizer("a") || !o.AddFinalizer("b") || !o.AddFinalizer("c") {
		t.Errorf("finalizers %v", o.Finalizers)
	}
	shared := o.Meta
	if !o.RemoveFinalizer("b") || o.RemoveFinalizer("b") || o.HasFinalizer("b") || !o.HasFinalizer("c") {
		t.Errorf("finalizers %v", o.Finalizers)
	}
	if got := strings.Join(shared.Finalizers, " "); got != "a b c" {
		t.Errorf("the other holder of the slice sees %q", got)
	}
}

// A phase that cannot be stored is refused by every write that takes one, and nothing of
// the write is stored.
func TestPhaseThatCannotBeStoredIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, s *buckets) {
		for _, phase := range []store.Phase{"not\xffUTF-8", store.Phase(strings.Repeat("x", 10_000))} {
			o := named("a")
			o.Phase = phase
			if _, err := s.Create(t.Context(), o); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("Create with a phase of %d bytes: %v, want ErrInvalid", len(phase), err)
			}
		}
		o, err := s.Create(t.Context(), named("a"))
		if err != nil {
			t.Fatal(err)
		}
		o.Phase = "not\xffUTF-8"
		if _, err := s.UpdateStatus(t.Context(), o); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("UpdateStatus: %v, want ErrInvalid", err)
		}
		_, err = s.Mutate(t.Context(), o.Key(), func(o *bucket) error { o.Phase = "not\xffUTF-8"; return nil })
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("Mutate: %v, want ErrInvalid", err)
		}
		if now, err := s.Get(t.Context(), o.Key()); err != nil || now.Revision != o.Revision {
			t.Errorf("it is at revision %d, %v, want %d: nothing was written", now.Revision, err, o.Revision)
		}
	})
}

// Conditions that a program sets itself are stored as SetCondition stores them.
//
// Negative control: mutant "conditions are stored as they were given".
func TestConditionsAreStoredAsSetConditionSetsThem(t *testing.T) {
	onBoth(t, func(t *testing.T, s *buckets) {
		for what, c := range map[string]store.Condition{
			"a long message": {Message: strings.Repeat("€", store.MaxMessage)},
			"a long reason":  {Reason: strings.Repeat("r", store.MaxMessage+1)},
			"no UTF-8":       {Reason: "a\xffb", Message: "\xfe"},
			"a time":         {Since: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("X", 3601))},
			"a time of now":  {Since: time.Now()},
		} {
			c.Type, c.Status = "Given", store.True
			if c.Since.IsZero() {
				c.Since = time.Unix(2, 0)
			}
			o := named(strings.ReplaceAll(what, " ", "-"))
			o.Conditions = []store.Condition{{Type: "First", Status: store.False, Since: time.Unix(1, 0).UTC()}, c}
			given := slices.Clone(o.Conditions)
			set := named("set")
			set.SetCondition(c)
			o = must[*bucket](t)(s.Create(t.Context(), o))
			check := func(how string, got *bucket) {
				if len(got.Conditions) != 2 || got.Conditions[1] != set.Conditions[0] {
					t.Errorf("%s, %s: got %+v, want %+v", what, how, got.Conditions, set.Conditions)
				}
			}
			check("created", o)
			o.Conditions = nil
			o = must[*bucket](t)(s.UpdateStatus(t.Context(), o))
			o.Conditions = slices.Clone(given)
			next := must[*bucket](t)(s.UpdateStatus(t.Context(), o))
			check("updated", next)
			check("read", stored(t, s, next))
			if !slices.Equal(o.Conditions, given) {
				t.Errorf("%s: the caller's conditions are %+v now", what, o.Conditions)
			}
		}
	})
}
