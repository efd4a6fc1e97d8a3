package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tendhq/tend/store"
)

// do does a step: a verb, and the namespace of the objects.
func (s *side) do(ctx context.Context, step string) error {
	verb, in, ok := strings.Cut(step, " in ")
	if !ok {
		if step == "look" {
			return nil
		}
		return s.newStep(ctx, step)
	}
	at := store.Key{Namespace: in, Name: "a"}
	switch verb {
	case "create":
		return errors.Join(create(ctx, s.things, in), create(ctx, s.sealed, in))
	case "plant":
		// What no version knows is not lost, wherever it stands.
		text := fmt.Sprintf(`{"schema": 1, "later": {"a": 1}, "spec": {"size": 1, "list": null, "later": [1, null], "part": {"name": "p", "later": "é<"}},
			"status": {"seen": 1, "later": 1.50}, "meta": {"later": true, "namespace": %q, "name": "planted", "uid": "u", "generation": 3,
			"created": "2026-01-02T03:04:05Z", "intent": {"attempt": 1, "later": {}}}}`, in)
		_, err := s.backend.Commit(ctx, store.Txn{Ops: []store.Op{
			{Kind: s.things.Kind(), Key: store.Key{Namespace: in, Name: "planted"}, Put: store.Bytes(text)},
		}})
		return err
	case "edit":
		return errors.Join(edit(ctx, s.things, in), edit(ctx, s.sealed, in))
	case "delete":
		o, err := s.things.Get(ctx, at)
		if err != nil {
			return err
		}
		return s.things.Delete(ctx, o)
	case "finish":
		_, err := s.things.RemoveFinalizer(ctx, at, "example.org/f")
		if _, left := s.things.Get(ctx, at); err == nil && !errors.Is(left, store.ErrNotFound) {
			err = fmt.Errorf("its last finalizer is gone, and Get of %s is %w", at, left)
		}
		return err
	case "declare 1", "declare 2":
		return s.declare(ctx, at, strings.TrimPrefix(verb, "declare "))
	case "undeclare":
		did, err := s.declared.Apply(ctx, nil, in, 1)
		if err == nil && did != (store.Applied{Deleted: 1}) {
			err = fmt.Errorf("nothing is declared any more, and Apply did %+v", did)
		}
		return err
	case "create an earlier one":
		_, err := s.earlier.Create(ctx, &store.Object[earlier, status]{Meta: store.Meta{Namespace: in, Name: "a"}, Spec: earlier{7, owned("created")}})
		return err
	case "convert":
		_, err := s.later.Mutate(ctx, at, func(o *store.Object[later, status]) error {
			if o.Spec.Bytes != 7 {
				return fmt.Errorf("%s has %d bytes, want 7", at, o.Spec.Bytes)
			}
			o.Spec.Own = owned("converted")
			return nil
		})
		return err
	case "refuse the later form":
		_, err := s.earlier.Mutate(ctx, at, func(o *store.Object[earlier, status]) error { o.Status.Seen++; return nil })
		if errors.Is(err, store.ErrNewer) {
			return nil
		}
		return fmt.Errorf("a write over the later form: error %w, want ErrNewer", err)
	case "rewrite":
		n, err := store.Rewrite(ctx, s.later)
		if err == nil && n != 1 {
			err = fmt.Errorf("Rewrite stored %d, want 1", n)
		}
		return err
	case "lose the answer of a create":
		if _, err := s.sites.Create(ctx, &thing{Meta: store.Meta{Namespace: in, Name: "a"}, Spec: specification{Size: 1}}); err != nil {
			return err
		}
		if err := s.reconcile(ctx, at, true, nil); err != nil {
			return err
		}
		o, err := s.sites.Get(ctx, at)
		if err == nil && !o.Intent.Unresolved() {
			err = fmt.Errorf("the answer of a create was lost, and its outcome is on record: %+v", o.Intent)
		}
		return err
	case "edit the site":
		_, err := s.sites.Mutate(ctx, at, func(o *thing) error { o.Spec.Size++; return nil })
		return err
	case "delete the site":
		o, err := s.sites.Get(ctx, at)
		if err != nil {
			return err
		}
		return s.sites.Delete(ctx, o)
	case "reconcile":
		return s.reconcile(ctx, at, false, nil)
	}
	return s.newStep(ctx, step)
}

// create makes an object with everything in it.
func create(ctx context.Context, s *store.Store[specification, status], in string) error {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("elsewhere", 9000))
	o, err := s.Create(ctx, &thing{
		Meta: store.Meta{
			Namespace: in, Name: "a", Paused: true,
			Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"example.org/a": "é<"},
			Finalizers: []string{"example.org/f"}, Owners: []store.Owner{{Kind: "Owner", Key: store.Key{Name: "o"}, UID: "1"}},
		},
		Spec: specification{
			Size: 1, Tags: map[string]string{"b": "<", "a": ""}, List: []string{}, At: at, Raw: json.RawMessage(`{ "b": 1.0, "a": [null] }`),
			Part: &part{Name: "p", Own: owned("part")}, Password: "secret", Own: owned("created"),
		},
	})
	if err != nil {
		return err
	}
	o.Status = status{Seen: 1, At: at, Notes: map[string]string{"n": "1"}, Own: owned("created")}
	o.SetProgressing("Waiting", "for the other")
	o.SetCondition(store.Condition{Type: "Other", Status: "Unknown", Reason: "R", Message: "é\n<"})
	o, err = s.UpdateStatus(ctx, o)
	if o, err = reads(ctx, s, o, err); err != nil {
		return err
	}
	o.Intent = store.Intent{ExternalName: "n", Location: "l", Attempt: 2, Pending: at, Succeeded: at.Add(1), Failed: at.Add(-1)}
	o, err = s.UpdateIntent(ctx, o)
	_, err = reads(ctx, s, o, err)
	return err
}

// reads compares what a write returned with what is read then.
func reads(ctx context.Context, s *store.Store[specification, status], o *thing, err error) (*thing, error) {
	if err != nil {
		return nil, err
	}
	read, err := s.Get(ctx, o.Key())
	if err != nil {
		return nil, err
	}
	want, errWant := json.Marshal(o)
	got, errGot := json.Marshal(read)
	if string(got) != string(want) {
		return nil, fmt.Errorf("wrote %s\nand reads %s", want, got)
	}
	return read, errors.Join(errWant, errGot)
}

// edit changes something of each kind in each object.
func edit(ctx context.Context, s *store.Store[specification, status], in string) error {
	all, err := s.List(ctx, store.Selector{Namespace: in})
	if err != nil {
		return err
	}
	for _, o := range all {
		o, err = s.Mutate(ctx, o.Key(), func(o *thing) error {
			is := fmt.Sprint(o.Generation)
			o.Spec.Size++
			o.Spec.Tags = map[string]string{"edit": is}
			o.Spec.Part.Name, o.Spec.Part.Own = is, owned("edit "+is)
			o.Spec.Own = owned("edit " + is)
			o.Labels = map[string]string{"edit": is}
			o.Paused = !o.Paused
			o.Status.Seen++
			if o.Generation%2 == 0 {
				o.SetReady()
			} else {
				o.SetProgressing("Edited", is)
			}
			return nil
		})
		if o, err = reads(ctx, s, o, err); err != nil {
			return err
		}
		o.Intent.Attempt++
		o, err = s.UpdateIntent(ctx, o)
		if _, err := reads(ctx, s, o, err); err != nil {
			return err
		}
	}
	return nil
}

// declare applies a set of one. Who did so before, and with which version, makes no generation.
func (s *side) declare(ctx context.Context, at store.Key, zone string) error {
	before, err := s.declared.Get(ctx, at)
	if errors.Is(err, store.ErrNotFound) {
		before, err = &thing{Spec: specification{}}, nil
	}
	if err != nil {
		return err
	}
	_, err = s.declared.Apply(ctx, []*thing{{
		Meta: store.Meta{Namespace: at.Namespace, Name: at.Name}, Spec: specification{Size: 3, Zone: zone, Tags: map[string]string{"t": zone}},
	}}, at.Namespace, 0)
	if err != nil {
		return err
	}
	o, err := s.declared.Get(ctx, at)
	if err != nil {
		return err
	}
	want := before.Generation
	if before.Spec.Zone != zone {
		want++
	}
	if o.Spec.Zone != zone || o.Spec.Tags["t"] != zone || o.Generation != want {
		return fmt.Errorf("declared with zone %s: %+v in generation %d, want %d", zone, o.Spec, o.Generation, want)
	}
	return nil
}
