package storetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
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
	// hidden encodes itself, with a time in it that reflection hands to no method.
	hidden struct{ at time.Time }
	// anything has what JSON gives back in another form than it was given.
	anything struct {
		Raw    json.RawMessage
		Left   []string           `json:"left,omitempty"`
		Map    map[string]float64 `json:",omitempty"`
		At     time.Time          `json:"at,omitzero"`
		ByTime map[time.Time]string
		Hidden *hidden
		Ptr    **string
		Texts  []string
	}
)

func (h hidden) MarshalJSON() ([]byte, error)     { return json.Marshal(h.at) }
func (h *hidden) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &h.at) }

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
	{"Store/what is read back is what the write returned, and what JSON makes of it", func(e *env) {
		s := storeOf[anything](e, nil)
		r := rand.New(rand.NewPCG(1, 2))
		o, err := s.Create(e.ctx, &store.Object[anything, struct{}]{Meta: store.Meta{Name: "a"}, Spec: randomly(r)})
		if err != nil {
			e.Fatal(err)
		}
		for i := range 40 {
			given := s.Clone(o)
			given.Spec = randomly(r)
			was := o
			if o, err = s.Update(e.ctx, given); err != nil {
				e.Fatalf("Update %d: %v", i, err)
			}
			read, err := s.Get(e.ctx, o.Key())
			if err != nil {
				e.Fatal(err)
			}
			data, err := json.Marshal(o.Spec)
			var again anything
			if err == nil {
				err = json.Unmarshal(data, &again)
			}
			if err != nil || !identical(read.Spec, o.Spec) || !identical(again, o.Spec) {
				e.Fatalf("Update %d returned %#v\nGet %#v\nJSON %#v, %v", i, o.Spec, read.Spec, again, err)
			}
			if changed := !s.SameSpec(was, o); changed != (o.Generation == was.Generation+1) || changed != (o.Revision > was.Revision) {
				e.Errorf("Update %d: changed %v, generation %d after %d", i, changed, o.Generation, was.Generation)
			}
			given.Revision = o.Revision
			if same, err := s.Update(e.ctx, given); err != nil || same.Revision != o.Revision || same.Generation != o.Generation {
				e.Fatalf("Update %d again: %v, error %v, want revision %d", i, same, err, o.Revision)
			}
		}
	}},
}

// identical is reflect.DeepEqual, which looks for keys by their identity: two of one time that
// were read each have a zone of their own.
func identical(x, y anything) bool {
	keys, other := fmt.Sprintf("%#v", x.ByTime), fmt.Sprintf("%#v", y.ByTime)
	x.ByTime, y.ByTime = nil, nil
	return keys == other && reflect.DeepEqual(x, y)
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

// randomly makes one of few values, so that some are written twice in a row.
func randomly(r *rand.Rand) (x anything) {
	times := []time.Time{{}, instant, elsewhere, instant.Local(), time.Now()}
	at := func() time.Time { return times[r.IntN(len(times))] }
	x.Raw = []json.RawMessage{nil, json.RawMessage("null"), json.RawMessage(`{ "b": "<", "a": 1.0 }`)}[r.IntN(3)]
	if r.IntN(4) == 0 {
		return x // alone: a field beside it that is read back in another form has all of them mended
	}
	x.Left = [][]string{nil, {}, {"a"}}[r.IntN(3)]
	x.Map = []map[string]float64{nil, {}, {"a": 0.5}}[r.IntN(3)]
	x.At = at()
	x.ByTime = []map[time.Time]string{nil, {}, {at(): "a"}}[r.IntN(3)]
	x.Hidden = []*hidden{nil, {}, {at()}}[r.IntN(3)]
	x.Ptr = []**string{nil, new(*string)}[r.IntN(2)]
	x.Texts = [][]string{nil, {}, {"a"}}[r.IntN(3)]
	return x
}
