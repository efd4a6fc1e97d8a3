package store

import (
	"reflect"
	"strings"
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
		if !hasSecret(reflect.TypeOf(v), make(map[reflect.Type]bool)) {
			t.Errorf("%s: %T has no secret", place, v)
		}
		c := secrets{found: make(map[string]bool)}
		c.walk(reflect.ValueOf(v), false, 0)
		if !c.found["hunter22"] || c.found["plain"] || c.found["<nil>"] {
			t.Errorf("%s: found are %v, want the code alone", place, c.found)
		}
	}
	for _, v := range []any{tree{}, struct{ A map[string][]*inner }{}, ""} {
		if hasSecret(reflect.TypeOf(v), make(map[reflect.Type]bool)) {
			t.Errorf("%T has a secret, and no tag", v)
		}
	}
	c := secrets{found: make(map[string]bool)}
	c.walk(reflect.ValueOf(badge{"plain", "in several\nlines"}), false, 0)
	for text := range c.found {
		if strings.Contains(text, "plain") {
			t.Errorf("found is %q", text)
		}
	}
}
