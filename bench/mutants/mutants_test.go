//go:build unix

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/internal/mutants"
)

// Only a test that fails while the mutant is on, and passes while it is off, has
// caught it. A shell script stands in for the test binary.
func TestOnlyATestThatTellsTheDifferenceCatches(t *testing.T) {
	for script, want := range map[string]string{
		`[ "$TEND_BROKEN" = wrong ] && exit 1; echo "--- PASS: TestX"`: "",
		// the third time only
		`if [ "$TEND_BROKEN" = wrong ]; then echo x >>"$0.log"; [ $(wc -l <"$0.log") = 3 ] && exit 1; fi; echo "--- PASS: TestX"`: "",
		`echo "--- PASS: TestX"`: "passes all the same",
		`exit 1`:                 "also when nothing is broken",
		`echo "no tests to run"`: "no test of that name",
		`[ "$TEND_BROKEN" = wrong ] && kill -9 $$; echo "--- PASS: TestX"`: "killed",
	} {
		dir := t.TempDir()
		m := mutants.Mutant{Name: "wrong", Package: ".", Test: "TestX"}
		if err := os.WriteFile(binary(dir, m.Package), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		switch err := try(t.Context(), dir, m, 0); {
		case want == "" && err != nil:
			t.Errorf("%s: %v, want it caught", script, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want an error with %q", script, err, want)
		}
	}
}

// A test that hangs is not waited for as long as one that works hard.
func TestHangingTestIsEndedSoon(t *testing.T) {
	for healthy, want := range map[time.Duration]time.Duration{
		time.Millisecond: 20 * time.Second,
		4 * time.Second:  80 * time.Second,
		time.Minute:      mostHealthy,
	} {
		if got := mostBroken(healthy); got != want {
			t.Errorf("a test that takes %v is ended after %v when it is broken, want %v", healthy, got, want)
		}
	}
}

func TestMutantsAreChosenByAPartOfTheirName(t *testing.T) {
	if list := chosen([]string{"fenced"}); len(list) == 0 || len(list) == len(mutants.All) {
		t.Errorf("%d mutants are about fences", len(list))
	}
	if list := chosen(nil); len(list) != len(mutants.All) {
		t.Errorf("%d mutants, want all %d", len(list), len(mutants.All))
	}
	if err := run(t.Context(), nil, 0); err == nil {
		t.Error("a run of no mutant passed")
	}
}

// Each mutant is in one part, and a package's mutants are together.
func TestPartsAreDisjointAndWhole(t *testing.T) {
	const n = 3
	seen, home := map[string]bool{}, map[string]int{}
	for i := 1; i <= n; i++ {
		list, err := partOf(mutants.All, fmt.Sprintf("%d/%d", i, n))
		if err != nil {
			t.Fatal(err)
		}
		if len(list) < len(mutants.All)/(2*n) {
			t.Errorf("part %d has %d of %d mutants", i, len(list), len(mutants.All))
		}
		for _, m := range list {
			if seen[m.Name] {
				t.Errorf("%q is in two parts", m.Name)
			}
			seen[m.Name] = true
			if h, ok := home[m.Package]; ok && h != i {
				t.Errorf("mutants of %s are in parts %d and %d", m.Package, h, i)
			}
			home[m.Package] = i
		}
	}
	if len(seen) != len(mutants.All) {
		t.Errorf("the parts have %d of %d mutants", len(seen), len(mutants.All))
	}
	for _, part := range []string{"", "0/3", "4/3", "x"} {
		if _, err := partOf(mutants.All, part); err == nil {
			t.Errorf("part %q is no error", part)
		}
	}
}

// The counter is told of every time that was missed.
func TestWithEachAMutantMustBeCaughtEveryTime(t *testing.T) {
	dir := t.TempDir()
	m := mutants.Mutant{Name: "wrong", Package: ".", Test: "TestX"}
	script := `if [ "$TEND_BROKEN" = wrong ]; then echo x >>"$0.log"; [ $(wc -l <"$0.log") = 3 ] || exit 1; fi; echo "--- PASS: TestX"`
	if err := os.WriteFile(binary(dir, m.Package), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := try(t.Context(), dir, m, 10); err == nil || !strings.Contains(err.Error(), "1 times of 10") {
		t.Errorf("%v, want an error with the one time", err)
	}
}
