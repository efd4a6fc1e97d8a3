package check

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

const module = "github.com/tendhq/tend"

// Names of files are those in the repository, with slashes, in all tests of this package.
func TestMain(m *testing.M) {
	if err := os.Chdir(filepath.FromSlash("../..")); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// source is a Go file or a page of the repository, of any of its modules.
type source struct {
	name string // from the root, with slashes
	text string
}

func (s source) folder() string { return path.Dir(s.name) }
func (s source) isPage() bool   { return strings.HasSuffix(s.name, ".md") }
func (s source) isTest() bool   { return strings.HasSuffix(s.name, "_test.go") }
func (s source) isGo() bool     { return strings.HasSuffix(s.name, ".go") }

// within says whether the file is below one of the folders.
func (s source) within(folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(s.name, f+"/") })
}

// readTree reads each file once. Files are read here and not listed by the go command, so
// that the test cache knows which files the verdicts rest on.
var readTree = sync.OnceValues(func() (all []source, err error) {
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".github" || d.Name() == "testdata"):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, ".md"):
			return nil
		}
		text, err := os.ReadFile(name)
		all = append(all, source{filepath.ToSlash(name), string(text)})
		return err
	})
	return all, err
})

// tree is every Go file and page, in the order of the names.
func tree(t *testing.T) []source {
	t.Helper()
	all, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 500 {
		t.Fatalf("found %d files: the walk is broken", len(all))
	}
	return all
}

// files are those of the tree for which keep is true.
func files(t *testing.T, keep func(source) bool) []source {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(tree(t)), func(s source) bool { return !keep(s) })
}

var parsed = map[string]*ast.File{}

// syntax parses a file, once. No test of this package runs in parallel.
func (s source) syntax(t *testing.T) *ast.File {
	t.Helper()
	if f := parsed[s.name]; f != nil {
		return f
	}
	f, err := parser.ParseFile(token.NewFileSet(), s.name, s.text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	parsed[s.name] = f
	return f
}

// readPage is a file that a test knows by its name.
func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// nested says whether a folder belongs to another module than the root's.
func nested(folder string) bool {
	for ; folder != "."; folder = path.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return true
		}
	}
	return false
}
