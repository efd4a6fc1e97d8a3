//go:build unix

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/internal/mutate"
	"github.com/tendhq/tend/internal/promises"
)

const sample = "internal/mutate/testdata/sample"

// Only a test that fails while the mutant is on, and passes while it is off, has caught it; a
// control of which that is not so is lost, and says why.
func TestMutantsAreCaughtByTestsThatTellTheDifference(t *testing.T) {
	t.Chdir("../..")
	all := func(string, string) bool { return true }
	b, err := newBench(t.Context(), []string{sample}, []string{sample}, all)
	if err != nil || b.built[sample] != nil {
		t.Fatal(err, b.built)
	}
	defer b.close()
	for line, want := range map[string]string{
		"TestBox: (*Box).Put empty":       "",
		"TestBox: (*Box).Put noerror":     "",
		"TestBox: (*Box).Find never":      "",
		"TestKind: Kind case":             "",
		"TestKind: Kind minmax":           "passes with each", // -3 is negative too
		"TestThatSeesNothing: Kind empty": "passes with each", // it reaches it, and looks at nothing
		"TestBox: Kind empty":             "reaches none",
		"TestBox: (*Box).Gone empty":      "no function",
		"TestBox: Unused flip":            "nothing in the function",
	} {
		name, rest, _ := strings.Cut(line, ": ")
		fn, op, _ := strings.Cut(rest, " ")
		c := promises.Control{Test: promises.Test{Package: sample, Name: name}, Func: mutate.Func(sample, fn), Op: op}
		ids, took, err := b.reached(t.Context(), test{sample, name})
		if err != nil {
			t.Fatal(err)
		}
		err = b.control(t.Context(), c, ids, took)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
		if op == "flip" && err != nil {
			gone := promises.Control{Test: c.Test, Func: mutate.Func(sample, "(*Crate).Put"), Op: "empty"}
			if found, err := b.propose(t.Context(), gone); err != nil || found.Func != mutate.Func(sample, "(*Box).Put") || found.Op != "empty" {
				t.Errorf("instead of a function that has another receiver there is %v, %v", found, err)
			}
		}
	}
	if _, _, err := b.reached(t.Context(), test{sample, "TestMapsMoreThanThereIs"}); err != nil {
		t.Errorf("a test that maps memory without using it cannot be run: %v", err)
	}
	if _, _, err := b.reached(t.Context(), test{sample, "TestNone"}); err == nil {
		t.Error("a test that is not there was run")
	}
	survivors(t, b)
}

// survivors: of the sample it is known what its tests notice.
func survivors(t *testing.T, b *bench) {
	t.Helper()
	reaches, err := b.reaches(t.Context(), []string{sample}, time.Now().Add(time.Hour), time.Hour)
	if err != nil || len(reaches) != 3 {
		t.Fatal(err, reaches)
	}
	for _, m := range b.mutants {
		caught, some, _ := b.caught(t.Context(), m, reaches)
		switch {
		case m.Func == "Unused" && (caught || some):
			t.Errorf("%v is caught %v, reached %v, and no test calls it", m, caught, some)
		case (m.Func == "(*Box).Find" || m.Func == "Open") && m.Op == "empty" && !caught:
			t.Errorf("%v is not caught", m)
		}
	}
}

func TestPartsAreTheWhole(t *testing.T) {
	list, err := chosen(nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[promises.Control]int{}
	for _, part := range []string{"1/3", "2/3", "3/3"} {
		some, err := partOf(list, part)
		if err != nil || len(some) < len(list)/5 {
			t.Errorf("%s has %d of %d: %v", part, len(some), len(list), err)
		}
		for _, c := range some {
			seen[c]++
		}
	}
	for _, c := range list {
		if seen[c] != 1 {
			t.Errorf("%s is in %d parts", c, seen[c])
		}
	}
	for _, part := range []string{"0/3", "4/3", "x"} {
		if _, err := partOf(list, part); err == nil {
			t.Errorf("-part %s was taken", part)
		}
	}
	if _, err := chosen([]string{"no control has this"}); err == nil {
		t.Error("a control that is not there was chosen")
	}
}

func TestChangedFunctionsAreFound(t *testing.T) {
	t.Chdir("../..")
	diff := "+++ b/" + sample + "/sample.go\n@@ -20 +22,2 @@\n+x\n@@ -60,0 +61 @@\n+y\n+++ b/gone/x.go\n@@ -1 +1 @@\n+++ /dev/null\n@@ -1 +0,0 @@\n"
	fns, pkgs, err := changedFuncs([]byte(diff))
	if err != nil || len(pkgs) != 1 || pkgs[0] != sample || len(fns) != 1 || !fns[mutate.Func(sample, "(*Box).Put")] {
		t.Errorf("%v of %v, %v; want (*Box).Put", fns, pkgs, err)
	}
}

// packages are the folders with code of tend that have tests of their own, but for those of
// programs, tools and internal packages.
func packages(t *testing.T) (all []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || name == "." {
			return err
		}
		if base := d.Name(); base == "internal" || base == "testdata" || base[0] == '.' || name == "bench" || name == "examples" || name == "docs" {
			return fs.SkipDir
		}
		files, err := filepath.Glob(filepath.Join(name, "*.go"))
		tests := slices.ContainsFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
		code := slices.ContainsFunc(files, func(f string) bool { return !strings.HasSuffix(f, "_test.go") })
		if tests && code {
			all = append(all, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A folder that was moved is tried where it is now, and one that is new is tried.
func TestEveryPackageIsTried(t *testing.T) {
	t.Chdir("../..")
	all := packages(t)
	for _, want := range []string{"queue", "queue/ratelimit", "store", "store/etcd", "store/postgres", "reconcile", "reconcile/external", "reconcile/web/debug", "metrics/tracing"} {
		if !slices.Contains(all, want) {
			t.Errorf("%s is not among %v", want, all)
		}
	}
	for _, pkg := range all {
		if tests, err := witnesses(pkg); err != nil || len(tests) == 0 || tests[0] != pkg {
			t.Errorf("%s is tried with the tests of %v: %v", pkg, tests, err)
		}
	}
}

// A campaign tries a random sample of each package's mutants, and logs the score and what survived.
func TestMutantsOfEveryPackage(t *testing.T) {
	t.Chdir("../..")
	list := []string{sample}
	if campaign.Length() > 0 {
		list = packages(t)
	}
	tried := 0
	for seed := range campaign.Seeds(t, 1, 0) {
		for _, pkg := range list {
			n, err := score(t.Context(), options{slow: 20 * time.Second, seed: seed}, pkg,
				time.Now().Add(max(campaign.Length()/time.Duration(len(list)), time.Minute)), func(string, string) bool { return true })
			if tried += n; err != nil {
				t.Errorf("%s: %v", pkg, err)
			}
		}
	}
	t.Logf("campaign: %d mutants", tried)
	if tried == 0 {
		t.Error("no mutant was tried")
	}
}
