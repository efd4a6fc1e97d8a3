package tend_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// A package comment teaches the use of the package, in a page before the first name. What
// explains the code stands below the package clause, where go doc does not print it.
func TestPackageCommentsAreAPage(t *testing.T) {
	const page = 60
	longer := map[string]int{"queue": 100} // the contract, with two tables
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
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
		if n := strings.Count(f.Doc.Text(), "\n"); n > most {
			t.Errorf("%s: the package comment has %d lines, want %d at most", path, n, most)
		}
		return nil
	})
	if err != nil || seen < 30 {
		t.Fatalf("%d package comments were looked at, %v", seen, err)
	}
}
