package tend_test

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// A package comment teaches the use of the package, in a page before the first name as go doc
// prints it. What explains the code stands below the package clause, where it is not printed.
func TestPackageCommentsAreAPage(t *testing.T) {
	const page = 60
	longer := map[string]int{"queue": 100} // the contract, with two tables
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != "." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir // .cache holds the modules that CI fetched
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil || f.Doc == nil {
			return err
		}
		seen++
		most := page
		if n, ok := longer[filepath.ToSlash(filepath.Dir(path))]; ok {
			most = n
		}
		printed := new(comment.Printer).Text(new(comment.Parser).Parse(f.Doc.Text()))
		if n := strings.Count(string(printed), "\n"); n > most {
			t.Errorf("%s: go doc prints %d lines of the package comment, want %d at most", path, n, most)
		}
		return nil
	})
	if err != nil || seen < 30 {
		t.Fatalf("%d package comments were looked at, %v", seen, err)
	}
}

// Each package that programs import has an example that runs: one with an output.
func TestEachPackageHasAnExampleThatRuns(t *testing.T) {
	compiled := map[string]bool{ // these take a *testing.T, which an example does not have
		"store/storetest/dependtest": true, "store/storetest/leasetest": true, "store/storetest/quotatest": true,
	}
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		switch name := d.Name(); {
		case path != "." && strings.HasPrefix(name, "."), name == "internal", name == "testdata", path == "examples", path == "bench":
			return fs.SkipDir
		}
		library, runs, compiles := examplesOf(t, path)
		if !library {
			return nil
		}
		seen++
		if folder := filepath.ToSlash(path); !compiles || !runs && !compiled[folder] {
			t.Errorf("%s has no example that runs", folder)
		}
		return nil
	})
	if err != nil || seen < 25 {
		t.Fatalf("%d packages were looked at, %v", seen, err)
	}
}

// examplesOf says whether a folder holds a package that programs import, whether an example
// of it runs, and whether there is one at all.
func examplesOf(t *testing.T, folder string) (library, runs, compiles bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var tests []*ast.File
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			tests = append(tests, f)
		} else if f.Name.Name != "main" {
			library = true
		}
	}
	for _, e := range doc.Examples(tests...) {
		compiles = true
		runs = runs || e.Output != "" || e.EmptyOutput
	}
	return library, runs, compiles
}
