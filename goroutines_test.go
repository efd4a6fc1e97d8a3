package tend_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// Every package that starts goroutines, in its code or in its tests, ends its tests with
// goleak, which fails on one that is left. Tests in bubbles fail on it by themselves too,
// those beside them do not.
func TestPackagesWithGoroutinesLookForLeaks(t *testing.T) {
	looked := 0
	for _, p := range listPackages(t) {
		tests := slices.Concat(p.TestGoFiles, p.XTestGoFiles)
		if len(tests) == 0 || !slices.ContainsFunc(slices.Concat(p.GoFiles, tests), func(name string) bool {
			return startsGoroutines(t, filepath.Join(p.Dir, name))
		}) {
			continue
		}
		looked++
		if !slices.Contains(slices.Concat(p.TestImports, p.XTestImports), "go.uber.org/goleak") {
			t.Errorf("%s starts goroutines, and its tests do not look for those that are left: add a TestMain with goleak.VerifyTestMain", p.ImportPath)
		}
	}
	if looked < 15 {
		t.Errorf("%d packages start goroutines: the search is broken", looked)
	}
}

// startsGoroutines looks for go statements and calls of a method named Go.
func startsGoroutines(t *testing.T, name string) (found bool) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.SelectorExpr:
			found = found || n.Sel.Name == "Go"
		}
		return !found
	})
	return found
}
