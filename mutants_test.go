package tend_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tendhq/tend/internal/mutants"
)

// Whether they are caught is for go run ./bench/mutants, which rebuilds all
// packages. This test reports at once what an edit of the code breaks: a mutant that
// does not fit the code any more, and one whose test is gone.
func TestMutantsFitTheCode(t *testing.T) {
	if _, err := mutants.Apply("."); err != nil {
		t.Error(err)
	}
	seen := map[string]bool{}
	for _, m := range mutants.All {
		if seen[m.Name] {
			t.Errorf("two mutants are called %q", m.Name)
		}
		seen[m.Name] = true
		if !strings.Contains(m.New, "BROKEN") {
			t.Errorf("mutant %q has no switch", m.Name)
		}
		if !hasTest(t, m.Package, m.Test) {
			t.Errorf("mutant %q: there is no %s in %s", m.Name, m.Test, m.Package)
		}
	}
}

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)

// testNames are the tests of each folder that was asked about.
var testNames = map[string]map[string]bool{}

// hasTest tells whether the package in the folder has a test of that name.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	if names, ok := testNames[folder]; ok {
		return names[name]
	}
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
		}
	}
	testNames[folder] = names
	return names[name]
}
