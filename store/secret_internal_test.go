package store

import (
	"strings"
	"testing"

	"github.com/tendhq/tend/store/internal/shape"
)

// badge has a secret that is told from the rest by its tag alone.
type badge struct {
	Name string
	Code string `tend:"secret"`
}

func badges(t testing.TB) *core {
	spec, err := shape.New[badge]("Spec")
	if err != nil {
		t.Fatal(err)
	}
	return &core{spec: spec, status: spec}
}

// Of a secret of several lines each line is one.
func TestLinesOfASecretAreSecret(t *testing.T) {
	c := badges(t).secretsIn([]string{"plain, in several\nlines"}, &Object[badge, badge]{Spec: badge{"plain", "in several\nlines"}})
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
	s := badges(t)
	one, three := s.secretsIn(texts, o), s.secretsIn(texts, o, (*Object[badge, badge])(nil), &Object[badge, badge]{Spec: o.Spec, Status: o.Spec}, o)
	if one.cost == 0 || three.cost != one.cost || len(three.found) != 2 {
		t.Errorf("one costs %d, three copies %d; found are %v", one.cost, three.cost, three.found)
	}
}
