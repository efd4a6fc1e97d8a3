package storetest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tendhq/tend/store"
)

// Two versions of a program declare these: the fields of later have another order, another
// Go name and one more that is not set.
type (
	earlier struct {
		At   time.Time       `json:"at"`
		Size int             `json:"size"`
		Tags []string        `json:"tags,omitempty"`
		Raw  json.RawMessage `json:"raw,omitempty"`
		Sub  earlierPart     `json:"sub"`
	}
	earlierPart struct {
		A string `json:"a"`
		B string `json:"b"`
	}
	later struct {
		Sub   laterPart       `json:"sub"`
		Raw   json.RawMessage `json:"raw,omitempty"`
		Added *laterPart      `json:"added,omitempty"`
		Tags  []string        `json:"tags,omitempty"`
		Bytes int             `json:"size"`
		At    time.Time       `json:"at"`
	}
	laterPart struct {
		New string `json:"new,omitempty"`
		B   string `json:"b"`
		A   string `json:"a"`
	}
)

var (
	instant = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	// Package time shares the zones of whole hours.
	elsewhere = instant.In(time.FixedZone("elsewhere", 9000))
)

func asEarlier(at time.Time) earlier {
	return earlier{At: at, Size: 7, Tags: []string{"x"}, Raw: json.RawMessage(`{"n":1}`), Sub: earlierPart{"a", "b"}}
}

func asLater(at time.Time) later {
	return later{At: at, Bytes: 7, Tags: []string{"x"}, Raw: json.RawMessage(`{"n":1}`), Sub: laterPart{A: "a", B: "b"}}
}

// alikeChecks are of a spec that is written again with the same value, in whatever form.
var alikeChecks = []check{
	{"Store/the same instant in another zone is no change", func(e *env) {
		s := storeOf[earlier](e, nil)
		declare(e, s, asEarlier(instant), 1)
		declare(e, s, asEarlier(elsewhere), 1)
		declare(e, s, asEarlier(elsewhere.Add(1)), 2)
	}},
	{"Store/fields in another order, and added ones, are no change", func(e *env) {
		declare(e, storeOf[earlier](e, nil), asEarlier(elsewhere), 1)
		s := storeOf[later](e, nil)
		declare(e, s, asLater(instant), 1)
		changed := asLater(instant)
		changed.Added = &laterPart{New: "x"}
		declare(e, s, changed, 2)
	}},
	{"Store/a new version with Convert is no change", func(e *env) {
		declare(e, storeOf[earlier](e, nil), asEarlier(instant), 1)
		s := storeOf(e, &store.Options[later, struct{}]{Version: 2, Convert: []store.Conversion{func(o map[string]any) error {
			spec, _ := o["spec"].(map[string]any)
			spec["size"] = json.Number("8")
			return nil
		}}})
		converted := asLater(elsewhere)
		converted.Bytes = 8
		declare(e, s, converted, 1)
		declare(e, s, asLater(elsewhere), 2)
	}},
	{"Store/a new nonce of the encryption is no change", func(e *env) {
		key := store.EncryptionKey{ID: "a", Secret: make([]byte, 32)}
		encryption, err := store.NewEncryption([]store.EncryptionKey{key}, nil)
		if err != nil {
			e.Fatal(err)
		}
		for range 2 {
			s := storeOf(e, &store.Options[earlier, struct{}]{Encryption: encryption})
			declare(e, s, asEarlier(instant), 1)
			declare(e, s, asEarlier(elsewhere), 1)
		}
	}},
	{"Store/random values are written, refused and shown as in memory, and read back as JSON reads them", func(e *env) {
		if err := writeAlike(e.ctx, e.b, 1); err != nil {
			e.Error(err)
		}
	}},
}

func storeOf[S any](e *env, o *store.Options[S, struct{}]) *store.Store[S, struct{}] {
	e.Helper()
	s, err := store.New(e.b, kind, o)
	if err != nil {
		e.Fatal(err)
	}
	return s
}

// declare writes the spec over what is there, by Apply, Mutate and Update, and wants it in that
// generation: the first write that reaches a generation alone is one, and the first that records the owners of the fields.
func declare[S any](e *env, s *store.Store[S, struct{}], spec S, generation int64) {
	e.Helper()
	meta := store.Meta{Name: "a", Labels: map[string]string{store.LabelOwner: "me"}}
	at := meta.Key()
	before, err := s.Get(e.ctx, at)
	if _, err := s.Apply(e.ctx, []*store.Object[S, struct{}]{{Meta: meta, Spec: spec}}, "me", 0); err != nil {
		e.Fatalf("Apply: %v", err)
	}
	o, failed := s.Get(e.ctx, at)
	if failed != nil {
		e.Fatal(failed)
	}
	if wrote := err != nil || before.Revision != o.Revision; o.Generation != generation || wrote != (err != nil || before.Generation != generation || before.FieldOwners == "") {
		e.Errorf("Apply of %s: generation %d, want %d; written: %v", fmt.Sprint(spec), o.Generation, generation, wrote)
	}
	given := s.Clone(o)
	given.Spec = spec
	updated, err := s.Update(e.ctx, given)
	if err != nil || updated.Revision != o.Revision {
		e.Errorf("Update to the same: %v, error %v, want revision %d", updated, err, o.Revision)
	}
	mutated, err := s.Mutate(e.ctx, at, func(o *store.Object[S, struct{}]) error { o.Spec = spec; return nil })
	if err != nil || mutated.Revision != o.Revision {
		e.Errorf("Mutate to the same: %v, error %v, want revision %d", mutated, err, o.Revision)
	}
}
