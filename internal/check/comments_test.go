package check

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"slices"
	"strings"
	"testing"
)

// A package comment teaches the use of the package, in a page before the first name as go doc
// prints it. What explains the code stands below the package clause, where it is not printed.
func TestPackageCommentsAreAPage(t *testing.T) {
	const page = 60
	longer := map[string]int{"queue": 100} // the contract, with two tables
	seen := 0
	for _, s := range files(t, func(s source) bool { return s.isGo() && !s.isTest() }) {
		comment := s.syntax(t).Doc
		if comment == nil {
			continue
		}
		seen++
		most := page
		if n, ok := longer[s.folder()]; ok {
			most = n
		}
		if n := strings.Count(goDoc(comment.Text()), "\n"); n > most {
			t.Errorf("%s: go doc prints %d lines of the package comment, want %d at most", s.name, n, most)
		}
	}
	if seen < 30 {
		t.Fatalf("%d package comments were looked at", seen)
	}
}

// goDoc is a comment as go doc prints it.
func goDoc(text string) string {
	return string(new(comment.Printer).Text(new(comment.Parser).Parse(text)))
}

// Each package that programs import has an example that runs: one with an output.
func TestEachPackageHasAnExampleThatRuns(t *testing.T) {
	compiled := map[string]bool{ // these take a *testing.T, which an example does not have
		"store/storetest/dependtest": true, "store/storetest/leasetest": true, "store/storetest/quotatest": true,
		"store/storetest/upgradetest": true,
	}
	for _, folder := range append(importable(t), ".", "cmd/tend/cli") {
		var tests []*ast.File
		for _, s := range files(t, func(s source) bool { return s.isTest() && s.folder() == folder }) {
			tests = append(tests, s.syntax(t))
		}
		examples := doc.Examples(tests...)
		runs := slices.ContainsFunc(examples, func(e *doc.Example) bool { return e.Output != "" || e.EmptyOutput })
		if len(examples) == 0 || !runs && !compiled[folder] {
			t.Errorf("%s has no example that runs", folder)
		}
	}
}
