// Package fileorder checks that the files of a package are in the order that its doc.go
// lists: a file uses only what is declared in itself and in the files before it.
package fileorder

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Check reports each use of what a later file declares, and each file that the list
// lacks. dir is the package's directory. The list is the last comment of doc.go: a line
// for each file that begins with a tab and the file's name without .go.
func Check(dir string) error {
	set := token.NewFileSet()
	order, err := listed(set, dir)
	if err != nil {
		return err
	}
	bad, err := uses(set, dir, order)
	if err != nil {
		return err
	}
	slices.Reverse(order)
	turned, err := uses(set, dir, order)
	if err == nil && len(turned) < 100 {
		err = fmt.Errorf("with the list turned round only %d uses point up: the check is blind", len(turned))
	}
	if len(bad) > 0 {
		err = errors.Join(err, fmt.Errorf("%d uses point up:\n%s", len(bad), strings.Join(bad, "\n")))
	}
	return err
}

// listed gives the files in the order of the list.
func listed(set *token.FileSet, dir string) (order []string, err error) {
	doc, err := parser.ParseFile(set, filepath.Join(dir, "doc.go"), nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(doc.Comments[len(doc.Comments)-1].Text()) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "\t"), " "); ok && strings.HasPrefix(line, "\t") {
			order = append(order, name+".go")
		}
	}
	all, err := filepath.Glob(filepath.Join(dir, "*.go"))
	for _, file := range all {
		name := filepath.Base(file)
		if !strings.HasSuffix(name, "_test.go") && name != "doc.go" && !slices.Contains(order, name) {
			err = errors.Join(err, fmt.Errorf("%s is not in the list of doc.go", name))
		}
	}
	return order, err
}

// empty imports every package as one that declares nothing.
type empty struct{}

func (empty) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}

// uses are the uses of what a later file declares.
func uses(set *token.FileSet, dir string, order []string) (bad []string, err error) {
	var files []*ast.File
	for _, name := range order {
		f, err := parser.ParseFile(set, filepath.Join(dir, name), nil, 0)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	// What other packages declare is of no interest: they look empty, and the errors
	// that come of it are left out.
	c := types.Config{Importer: empty{}, Error: func(error) {}}
	pkg, _ := c.Check("checked", set, files, info)
	rank := func(p token.Pos) int { return slices.Index(order, filepath.Base(set.Position(p).Filename)) }
	for id, o := range info.Uses {
		if o.Pkg() == pkg && rank(o.Pos()) > rank(id.Pos()) {
			at := set.Position(id.Pos())
			bad = append(bad, fmt.Sprintf("%s:%d uses %s of %s", filepath.Base(at.Filename), at.Line, id.Name, filepath.Base(set.Position(o.Pos()).Filename)))
		}
	}
	slices.Sort(bad)
	return bad, nil
}
