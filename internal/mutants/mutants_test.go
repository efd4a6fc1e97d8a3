package mutants

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The overlay has each edited file with its mutants switched off, and the switch.
func TestOverlayHasEveryEditBehindASwitch(t *testing.T) {
	dir := t.TempDir()
	name, err := Overlay("../..", dir)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var o struct{ Replace map[string]string }
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range All {
		text, err := os.ReadFile(o.Replace[filepath.Join(root, m.File)])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), `(brokenBy == "`+m.Name+`")`) {
			t.Errorf("%s has no switch for %q", m.File, m.Name)
		}
		if _, ok := o.Replace[filepath.Join(root, filepath.Dir(m.File), switchFile)]; !ok {
			t.Errorf("%s has a mutant and no %s", filepath.Dir(m.File), switchFile)
		}
	}
}

func TestMutantThatDoesNotFitIsNamed(t *testing.T) {
	was := All
	defer func() { All = was }()
	for what, m := range map[string]Mutant{
		"0 times":     {Name: "stale", File: "queue/queue.go", Old: "this is not there", New: "BROKEN"},
		"mutant":      {Name: "no file", File: "queue/none.go", Old: "x", New: "BROKEN"},
		"its mutants": {Name: "no Go", File: "queue/queue.go", Old: "package queue", New: "BROKEN{{"},
	} {
		All = []Mutant{m}
		if _, err := Apply("../.."); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v, want an error with %q", m.Name, err, what)
		}
	}
}
