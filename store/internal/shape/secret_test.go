package shape

import (
	"reflect"
	"testing"
)

type (
	// badge has a secret that is told from the rest by its tag alone.
	badge struct {
		Name string
		Code string `tend:"secret"`
	}
	ring struct {
		Next *ring
		Code string `tend:"secret"`
	}
)

// A secret is found in each place that it can have alone: a kind is taken for one without
// secrets by its types, and then nothing is taken out of a text.
//
// Negative control: mutant "secrets in the values of a map are none".
func TestSecretsAreFoundInEachPlace(t *testing.T) {
	card := badge{"plain", "hunter22"}
	for place, v := range map[string]any{
		"a field":            struct{ A badge }{card},
		"a pointer":          struct{ A *badge }{&card},
		"a slice":            struct{ A []badge }{[]badge{{}, card}},
		"an array":           struct{ A [3]badge }{[3]badge{2: card}},
		"a value of a map":   struct{ A map[string]badge }{map[string]badge{"a": {}, "b": card}},
		"a key of a map":     struct{ A map[badge]int }{map[badge]int{card: 1, {}: 2}},
		"a pointer in a map": struct{ A map[string]*badge }{map[string]*badge{"b": &card}},
		"far below":          struct{ A []map[string][]*badge }{[]map[string][]*badge{{}, {"b": {nil, &card}}}},
		"the second field":   struct{ A, B badge }{B: card},
		"an embedded struct": struct{ badge }{card},
		"one that recurs":    ring{Next: &ring{Code: "hunter22"}},
	} {
		if !hasSecret(v) {
			t.Errorf("%s: %T has no secret", place, v)
		}
		if c := search(v, false); !c["hunter22"] || c["plain"] || c["<nil>"] {
			t.Errorf("%s: found are %v, want the code alone", place, c)
		}
	}
	for _, v := range []any{tree{}, struct{ A map[string][]*inner }{}, ""} {
		if hasSecret(v) {
			t.Errorf("%T has a secret, and no tag", v)
		}
	}
	if c := search(badge{"plain", "in several\nlines"}, false); len(c) != 1 || !c["in several\nlines"] {
		t.Errorf("found are %v", c)
	}
}

func hasSecret(v any) bool {
	n, _ := nodeOf(place{Type: reflect.TypeOf(v)}, "Spec")
	return n.has(secret)
}
