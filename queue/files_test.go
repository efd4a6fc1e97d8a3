package queue

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A file uses only what is declared in itself and in those that the list in doc.go
// has before it, and the list has every file.
//
// Negative control: checkFiles reports both directions of a use when the list is
// turned round.
func TestFilesPointDown(t *testing.T) {
	files, order := parsed(t)
	if bad := uses(t, files, order); len(bad) > 0 {
		t.Errorf("uses that point up:\n%s", strings.Join(bad, "\n"))
	}
	slices.Reverse(order)
	if bad := uses(t, files, order); len(bad) < 100 {
		t.Errorf("with the list turned round only %d uses point up: the test is blind", len(bad))
	}
}

// parsed is the package's files, without tests, and the names in the list of doc.go.
func parsed(t *testing.T) (*token.FileSet, []string) {
	t.Helper()
	set := token.NewFileSet()
	doc, err := parser.ParseFile(set, "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for line := range strings.Lines(doc.Comments[len(doc.Comments)-1].Text()) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "\t"), " "); ok && strings.HasPrefix(line, "\t") {
			order = append(order, name+".go")
		}
	}
	all, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if !strings.HasSuffix(name, "_test.go") && name != "doc.go" && !slices.Contains(order, name) {
			t.Errorf("%s is not in the list of doc.go", name)
		}
	}
	return set, order
}

// empty imports every package as one that declares nothing.
type empty struct{}

func (empty) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}

// uses are the uses of what a later file declares.
func uses(t *testing.T, set *token.FileSet, order []string) (bad []string) {
	t.Helper()
	var files []*ast.File
	for _, name := range order {
		f, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	// What other packages declare is of no interest: they look empty, and the errors
	// that come of it are left out.
	c := types.Config{Importer: empty{}, Error: func(error) {}}
	pkg, _ := c.Check("queue", set, files, info)
	rank := func(p token.Pos) int { return slices.Index(order, filepath.Base(set.Position(p).Filename)) }
	for id, o := range info.Uses {
		if o.Pkg() == pkg && rank(o.Pos()) > rank(id.Pos()) {
			bad = append(bad, set.Position(id.Pos()).String()+" uses "+id.Name+" of "+filepath.Base(set.Position(o.Pos()).Filename))
		}
	}
	slices.Sort(bad)
	return bad
}
