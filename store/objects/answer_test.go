package objects_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

// Negative controls: mutants "a cleared create wakes no worker", "ClearPending clears what is not
// pending" and "an answer about the outcome keeps the location of what was not made".
func TestAnswersAreRecordedAndAskForARun(t *testing.T) {
	asks, made := store.Intent{Attempt: 2, Pending: time.Now(), Location: "eu"}, store.Intent{Succeeded: time.Now(), ExternalName: "r-1"}
	lies, told := made, asks
	told.Outputs = store.NewOutputs(map[string]string{"key": "k"})
	told.OutputsDue = true
	lost := lies
	lost.Outputs, lost.OutputsDue = told.Outputs, true
	replaced := lost
	replaced.Replacing = true
	lies.Location = "eu"
	for _, c := range []struct {
		what   string
		is     store.Intent
		answer objects.Answer
		name   string
		want   error
		then   func(was, is store.Intent) bool
	}{
		{"a create that made it", asks, objects.Created, "r-7", nil, func(was, is store.Intent) bool {
			return !is.Unresolved() && is.Succeeded.After(is.Failed) && is.ExternalName == "r-7" && is.Location == "eu" && is.Pending.Equal(was.Pending)
		}},
		{"a create that made none", asks, objects.NotCreated, "", nil, func(_, is store.Intent) bool {
			return !is.Unresolved() && is.Failed.After(is.Succeeded) && is.ExternalName == "" && is.Location == "" && is.Attempt == 2
		}},
		{"a create that made none, and returned outputs", told, objects.NotCreated, "", nil, func(_, is store.Intent) bool {
			return is.Outputs == store.Outputs{} && is.OutputsDue
		}},
		{"a location", lies, objects.ForgetLocation, "", nil, func(was, is store.Intent) bool {
			return is.Location == "" && is.ExternalName == "r-1" && is.Succeeded.Equal(was.Succeeded)
		}},
		{"a loss of outputs", lost, objects.OutputsRestored, "", nil, func(was, is store.Intent) bool {
			was.OutputsDue, was.Outputs = false, store.Outputs{}
			return is == was
		}},
		{"a call that replaces lost outputs", replaced, objects.OutputsRestored, "", objects.ErrNotPending, nil},
		{"no loss of outputs", made, objects.OutputsRestored, "", objects.ErrNotPending, nil},
		{"outputs of a create that may not have made it", told, objects.OutputsRestored, "", objects.ErrNotPending, nil},
		{"no create", made, objects.NotCreated, "", objects.ErrNotPending, nil},
		{"no create that made it", made, objects.Created, "r-7", objects.ErrNotPending, nil},
		{"no location", made, objects.ForgetLocation, "", objects.ErrNotPending, nil},
		{"a create without the name", asks, objects.Created, "", store.ErrInvalid, nil},
		{"none, with a name", asks, objects.NotCreated, "r-7", store.ErrInvalid, nil},
		{"a name that cannot be stored", asks, objects.Created, "r\xff", store.ErrInvalid, nil},
		{"one to take over", store.Intent{}, objects.Adopt, "r-7", nil, func(was, is store.Intent) bool { return is == was }},
		{"one to take over after a create that made none", store.Intent{Failed: time.Now()}, objects.Adopt, "r-7", nil, func(was, is store.Intent) bool { return is == was }},
		{"one to take over after one that is on record could not be made again", store.Intent{ExternalName: "r-1", Failed: time.Now()}, objects.Adopt, "r-7", nil, func(was, is store.Intent) bool {
			return is.ExternalName == "" && is.Failed.Equal(was.Failed)
		}},
		{"one to take over, without its id", store.Intent{}, objects.Adopt, "", store.ErrInvalid, nil},
		{"a second one", made, objects.Adopt, "r-7", objects.ErrNotPending, nil},
		{"one to take over while a create may have made another", asks, objects.Adopt, "r-7", objects.ErrNotPending, nil},
		{"another answer", asks, "maybe", "", store.ErrInvalid, nil},
	} {
		for _, kind := range []string{"typed", "bare"} {
			b := must(memory.New(nil))
			disks := newDisks(b, 3)
			k := objects.Of(disks)
			if kind == "bare" {
				k = must(objects.Bare(b, "disk", false))
			}
			o := must(disks.Create(t.Context(), &disk{Meta: store.Meta{Name: "a", Annotations: map[string]string{"kept": "yes"}}, Spec: spec{1, "hunter2"}}))
			o.Intent = c.is
			o = must(disks.UpdateIntent(t.Context(), o))
			if err := c.answer.Check(must(k.Get(t.Context(), o.Key())), c.name); !errors.Is(err, c.want) && !errors.Is(c.want, store.ErrInvalid) {
				t.Errorf("%s, %s: Check says %v, want %v", c.what, kind, err, c.want)
			}
			seen, err := k.Answer(t.Context(), o.Key(), c.answer, c.name)
			now := must(disks.Get(t.Context(), o.Key()))
			switch {
			case !errors.Is(err, c.want):
				t.Errorf("%s, %s: %v, want %v", c.what, kind, err, c.want)
			case c.want != nil && now.Revision != o.Revision:
				t.Errorf("%s, %s: it was written: %+v", c.what, kind, now.Meta)
			case c.want != nil:
			case !c.then(o.Intent, now.Intent) || seen.Intent != now.Intent:
				t.Errorf("%s, %s: the record is %+v, and was %+v", c.what, kind, now.Intent, o.Intent)
			case now.Annotations[store.AnnotationReconcileNow] == "" || now.Annotations["kept"] != "yes":
				t.Errorf("%s, %s: annotated is %v", c.what, kind, now.Annotations)
			case (c.answer == objects.Adopt) != (now.Annotations[store.AnnotationAdopt] == "r-7"):
				t.Errorf("%s, %s: annotated is %v", c.what, kind, now.Annotations)
			case now.Spec != o.Spec || now.Generation != o.Generation:
				t.Errorf("%s, %s: it is %+v", c.what, kind, now)
			}
		}
	}
	k := objects.Of(newDisks(must(memory.New(nil)), 1))
	if _, err := k.Answer(t.Context(), store.Key{Name: "a"}, objects.NotCreated, ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of no object: %v", err)
	}
}

// A controller that writes a status meanwhile keeps no operator from its answer, and one that finds
// out itself is not overruled.
//
// Negative control: mutant "an answer is given up at a conflict".
func TestAnswerIsGivenToTheObjectAsItIs(t *testing.T) {
	key := store.Key{Name: "a"}
	for name, c := range map[string]struct {
		meanwhile func(direct *store.Store[spec, status], o *disk)
		want      error
	}{
		"a status is written": {func(direct *store.Store[spec, status], o *disk) {
			o.Status.Made = true
			must(direct.UpdateStatus(context.Background(), o))
		}, nil},
		"the create is found": {func(direct *store.Store[spec, status], o *disk) {
			o.Intent = o.Intent.Resolved(true, time.Now())
			must(direct.UpdateIntent(context.Background(), o))
		}, objects.ErrNotPending},
	} {
		b := &busy{Backend: must(memory.New(nil))}
		direct := newDisks(b.Backend, 1)
		o := must(direct.Create(t.Context(), &disk{Meta: store.Meta{Name: "a"}}))
		o.Intent.Pending = time.Now()
		must(direct.UpdateIntent(t.Context(), o))
		b.writes = []func(){func() { c.meanwhile(direct, must(direct.Get(context.Background(), key))) }}
		if _, err := objects.Of(newDisks(b, 1)).Answer(t.Context(), key, objects.NotCreated, ""); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if now := must(direct.Get(t.Context(), key)); now.Intent.Unresolved() || now.Intent.Failed.IsZero() != (c.want != nil) {
			t.Errorf("%s: the record is %+v", name, now.Intent)
		}
	}
}
