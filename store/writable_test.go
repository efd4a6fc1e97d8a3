package store_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

func newOf[S any](t testing.TB, codec store.Codec) error {
	t.Helper()
	_, err := store.New[S, struct{}](newMemory(t, nil), "K", &store.Options[S, struct{}]{Codec: codec})
	return err
}

// own encodes itself, with what JSON would drop.
type own struct{ hidden int }

func (o own) MarshalJSON() ([]byte, error)     { return json.Marshal(o.hidden) }
func (o *own) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &o.hidden) }

type (
	Embedded struct{ A int }
	hidden   struct{ A int }
	withOne  struct {
		Embedded
		B int
	}
)

// plainCodec is no JSON as far as the store knows.
type plainCodec struct{ store.Codec }

func TestNewRefusesFieldsThatJSONDrops(t *testing.T) {
	for what, err := range map[string]error{
		"an unexported field": newOf[struct {
			A int
			b int
		}](t, nil),
		"one far below": newOf[struct{ A map[string][]*struct{ b int } }](t, nil),
		"a field tagged -": newOf[struct {
			A int `json:"-"`
		}](t, nil),
		"two fields of one name": newOf[struct {
			A int `json:"x"`
			B int `json:"x"`
		}](t, nil),
		"a field that hides an embedded one": newOf[struct {
			Embedded
			A string
		}](t, nil),
		"a field of an embedded struct with another's name": newOf[struct {
			withOne
			C int `json:"A"`
		}](t, nil),
		"an unexported embedded pointer": newOf[struct{ *hidden }](t, nil),
		"a complex number":               newOf[struct{ A complex128 }](t, nil),
		"keys of arrays":                 newOf[struct{ A map[[2]int]string }](t, nil),
		"keys of booleans":               newOf[struct{ A map[bool]string }](t, nil),
	} {
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "Spec.") {
			t.Errorf("%s: got error %v, want %v with the field", what, err, store.ErrInvalid)
		}
	}
	for what, err := range map[string]error{
		"a type that encodes itself": newOf[struct{ A own }](t, nil),
		"a pointer to one":           newOf[struct{ A *own }](t, nil),
		"an embedded struct":         newOf[struct{ withOne }](t, nil),
		"an unexported embedded one": newOf[struct{ hidden }](t, nil),
		"a field that is named -": newOf[struct {
			A int `json:"-,"`
		}](t, nil),
		"names that differ by case": newOf[struct {
			A, a2, B int `json:",omitempty"`
		}](t, plainCodec{store.JSON}),
		"a blank field":               newOf[struct{ A, _ int }](t, nil),
		"another codec, anything":     newOf[struct{ a complex128 }](t, plainCodec{store.JSON}),
		"a type that contains itself": newOf[recursive](t, nil),
		"keys that are texts or numbers": newOf[struct {
			A map[time.Duration]int
			B map[store.Key]int
		}](t, nil),
	} {
		if err != nil {
			t.Errorf("%s: got error %v, want nil", what, err)
		}
	}
}

type recursive struct {
	Next *recursive
	Kids map[string][]recursive
}

// A spec that holds itself is an error with every codec, and not the end of the
// process.
func TestCyclicSpecIsAnError(t *testing.T) {
	for name, codec := range map[string]store.Codec{"JSON": nil, "another": plainCodec{store.JSON}} {
		s := must[*store.Store[recursive, recursive]](t)(store.New(newMemory(t, nil), "K", &store.Options[recursive, recursive]{Codec: codec}))
		o := must[*store.Object[recursive, recursive]](t)(s.Create(t.Context(), &store.Object[recursive, recursive]{Meta: store.Meta{Name: "a"}}))
		o.Spec.Next = &o.Spec
		_, err := s.Update(t.Context(), o)
		wantErr(t, name+": Update", err, store.ErrInvalid)
		if err != nil && !strings.Contains(err.Error(), "nested more than 64 deep") {
			t.Errorf("%s: %v does not say why", name, err)
		}
	}
}

func TestWhatIsNotGivenIsAnError(t *testing.T) {
	onBoth(t, func(t *testing.T, s *buckets) {
		ctx := t.Context()
		for what, call := range map[string]func() (*bucket, error){
			"Create": func() (*bucket, error) { return s.Create(ctx, nil) }, "Update": func() (*bucket, error) { return s.Update(ctx, nil) },
			"UpdateStatus": func() (*bucket, error) { return s.UpdateStatus(ctx, nil) },
			"UpdateIntent": func() (*bucket, error) { return s.UpdateIntent(ctx, nil) },
			"Mutate":       func() (*bucket, error) { return s.Mutate(ctx, store.Key{Name: "a"}, nil) },
			"Delete":       func() (*bucket, error) { return nil, s.Delete(ctx, nil) },
			"Apply":        func() (*bucket, error) { _, err := s.Apply(ctx, []*bucket{nil}, "me", 0); return nil, err },
		} {
			_, err := call()
			wantErr(t, what+" of nothing", err, store.ErrInvalid)
		}
	})
}

// The external name is what a create made. Mangled it names another resource.
func TestIntentThatWouldBeReadAsAnotherIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, s *buckets) {
		o := must[*bucket](t)(s.Create(t.Context(), named("a")))
		for _, i := range []store.Intent{{ExternalName: "vm-\xff"}, {Pending: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}} {
			o.Intent = i
			_, err := s.UpdateIntent(t.Context(), o)
			wantErr(t, "UpdateIntent", err, store.ErrInvalid)
		}
	})
}

// A refused name stands in the text as Go quotes it.
func TestRefusedNameIsQuoted(t *testing.T) {
	s := newBuckets(t, newMemory(t, &memory.Options{Encode: true}), nil)
	for _, name := range []string{"a\x00b", "new\nline", "\xff", strings.Repeat("ä", 400)} {
		o := named(name)
		for what, err := range map[string]error{
			"Create": second(s.Create(t.Context(), o)), "Get": second(s.Get(t.Context(), o.Key())),
			"Apply": second(s.Apply(t.Context(), []*bucket{o}, "me", 0)), "a label": func() error {
				o := named("a")
				o.Labels = map[string]string{name: "x"}
				_, err := s.Create(t.Context(), o)
				return err
			}(),
		} {
			wantErr(t, what, err, store.ErrInvalid)
			if text := err.Error(); strings.ContainsAny(text, "\x00\n\xff") {
				t.Errorf("%s: the error has the name as it is: %q", what, text)
			}
		}
	}
}
