package check

import (
	"go/ast"
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
		if len(tests) == 0 || !slices.ContainsFunc(files(t, func(s source) bool { return s.isGo() && s.folder() == p.Dir }), func(s source) bool {
			return startsGoroutines(s.syntax(t))
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
func startsGoroutines(f *ast.File) (found bool) {
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
