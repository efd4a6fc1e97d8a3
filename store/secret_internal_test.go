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
		c := newSecrets([]string{"hunter22 plain <nil>"})
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
	c := newSecrets([]string{"plain, in several\nlines"})
	c.walk(reflect.ValueOf(badge{"plain", "in several\nlines"}), false, 0)
	if !c.found["in several\nlines"] || !c.found["lines"] {
		t.Errorf("found are %v", c.found)
	}
	for text := range c.found {
		if strings.Contains(text, "plain") {
			t.Errorf("found is %q", text)
		}
	}
}

// A run redacts with three copies of its object, and a batch with two of each.
func TestSecretOfCopiesIsSearchedOnce(t *testing.T) {
	o := &Object[badge, badge]{Spec: badge{"plain", "hunter22\nand more"}}
	texts := []string{"the first text has hunter22", "the second has\nand more"}
	one, three := secretsIn(texts, o), secretsIn(texts, o, nil, &Object[badge, badge]{Spec: o.Spec, Status: o.Spec}, o)
	if one.cost == 0 || three.cost != one.cost || len(three.found) != 2 {
		t.Errorf("one costs %d, three copies %d; found are %v", one.cost, three.cost, three.found)
	}
}
