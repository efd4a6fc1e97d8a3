package check

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"
)

// In these packages a file uses only what is declared in itself and in the files that the
// last comment of doc.go lists before it, and the list has every file.
func TestFilesPointDown(t *testing.T) {
	for _, folder := range []string{"queue", "reconcile"} {
		fs := files(t, func(s source) bool { return s.isGo() && !s.isTest() && s.folder() == folder })
		order, missing := fileOrder(t, fs)
		if missing != nil {
			t.Errorf("%s/doc.go does not list %v", folder, missing)
		}
		for _, use := range usesUp(t, fs, order) {
			t.Error(folder, use)
		}
		slices.Reverse(order)
		if n := len(usesUp(t, fs, order)); n < 100 {
			t.Errorf("%s: with the list turned round only %d uses point up: the check is blind", folder, n)
		}
	}
}

// Types, functions, fields and methods of a later file are found, also of a generic
// type; those of an earlier one, and of other packages, are not.
func TestUsesThatPointUpAreFound(t *testing.T) {
	fs := []source{
		{"p/doc.go", "// Package p is a test.\npackage p\n\n// The files:\n//\n//\tlow   …\n//\thigh  …\n"},
		{"p/low.go", "package p\n\nimport \"fmt\"\n\ntype low[K any] struct{ up *high[K] }\n\nfunc (l *low[K]) f() { fmt.Println(l.up.n); l.up.g() }\n"},
		{"p/high.go", "package p\n\ntype high[K any] struct{ n int }\n\nfunc (h *high[K]) g() { (&low[K]{h}).f() }\n"},
		{"p/other.go", "package p\n"},
	}
	order, missing := fileOrder(t, fs)
	if !slices.Equal(missing, []string{"other.go"}) {
		t.Errorf("the list lacks %v, want other.go", missing)
	}
	want := []string{"low.go:5 uses high of high.go", "low.go:7 uses g of high.go", "low.go:7 uses n of high.go"}
	if bad := usesUp(t, fs, order); !slices.Equal(bad, want) {
		t.Errorf("got %q, want %q", bad, want)
	}
}

// fileOrder gives a package's files in the order of the list in its doc.go, whose lines begin
// with a tab and the file's name without .go, and the files that the list lacks.
func fileOrder(t *testing.T, fs []source) (order, missing []string) {
	t.Helper()
	doc := fs[slices.IndexFunc(fs, func(s source) bool { return path.Base(s.name) == "doc.go" })].syntax(t)
	for line := range strings.Lines(doc.Comments[len(doc.Comments)-1].Text()) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "\t"), " "); ok && strings.HasPrefix(line, "\t") {
			order = append(order, name+".go")
		}
	}
	for _, s := range fs {
		if name := path.Base(s.name); name != "doc.go" && !slices.Contains(order, name) {
			missing = append(missing, name)
		}
	}
	return order, missing
}

// empty imports every package as one that declares nothing.
type empty struct{}

func (empty) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}

// usesUp are the uses of what a later file declares.
func usesUp(t *testing.T, fs []source, order []string) (bad []string) {
	t.Helper()
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, s := range fs {
		if !slices.Contains(order, path.Base(s.name)) {
			continue
		}
		f, err := parser.ParseFile(set, s.name, s.text, 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	// What other packages declare is of no interest: they look empty, and the errors
	// that come of it are left out.
	c := types.Config{Importer: empty{}, Error: func(error) {}}
	pkg, _ := c.Check("checked", set, parsed, info)
	rank := func(p token.Pos) int { return slices.Index(order, path.Base(set.Position(p).Filename)) }
	for id, o := range info.Uses {
		if o.Pkg() == pkg && rank(o.Pos()) > rank(id.Pos()) {
			at := set.Position(id.Pos())
			bad = append(bad, fmt.Sprintf("%s:%d uses %s of %s", path.Base(at.Filename), at.Line, id.Name, path.Base(set.Position(o.Pos()).Filename)))
		}
	}
	slices.Sort(bad)
	return bad
}
