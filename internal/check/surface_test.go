package check

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxExported is how many names the importable packages may export: types, functions,
// methods, fields and values, without the kits for authors of backends below
// store/storetest.
const maxExported = 1679

// The surface does not grow by itself. A name more is one more that every user may have to
// read and that a later version has to keep: first look for one without a user.
func TestFewNamesAreExported(t *testing.T) {
	n := 0
	for _, s := range libraryFiles(t) {
		n += countExported(s.syntax(t))
	}
	switch {
	case n > maxExported:
		t.Errorf("%d names are exported, and %d may be. Unexport what only its own package uses, or fold two into one; raise maxExported only for a name that a user's program needs, with an example of it", n, maxExported)
	case n < maxExported:
		t.Errorf("%d names are exported: lower maxExported, which is %d", n, maxExported)
	}
}

// libraryFiles are the files that make up the surface.
func libraryFiles(t *testing.T) []source {
	return files(t, func(s source) bool {
		return s.isGo() && !s.isTest() && !s.within("bench", "cmd", "examples", "internal", "store/storetest") && !strings.Contains(s.name, "/internal/")
	})
}

// countExported counts the exported names of a file: what is declared, methods of exported
// types, and the fields and methods that exported structs and interfaces name.
func countExported(f *ast.File) (n int) {
	count := func(ids ...*ast.Ident) {
		for _, id := range ids {
			if id.IsExported() {
				n++
			}
		}
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type)) {
				count(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					count(s.Names...)
				case *ast.TypeSpec:
					count(s.Name)
					if s.Name.IsExported() {
						for _, m := range members(s) {
							count(m.Names...)
						}
					}
				}
			}
		}
	}
	return n
}

// An example, the command, a benchmark, a page, another package or a test of one sets each
// option. One that its own package alone sets is code that no user has
// asked for.
func TestEachOptionIsSetSomewhere(t *testing.T) {
	options := optionFields(t)
	if len(options) < 50 {
		t.Fatalf("found %d options: does the test look at the right places?", len(options))
	}
	for _, o := range options {
		if !slices.ContainsFunc(files(t, func(source) bool { return true }), func(s source) bool { return o.setBy(t, s) }) {
			t.Errorf("%s.%s.%s is set by no example, page, command, benchmark or other package: show its use, or remove it", o.folder, o.owner, o.name)
		}
	}
}

func TestCheckOfOptionsFindsWhatSetsThem(t *testing.T) {
	o := option{"queue/ratelimit", "Options", "Burst"}
	for text, want := range map[string]bool{
		"use `ratelimit.Options.Burst`":                           true,
		"package ratelimit has `Options.Burst`":                   true,
		"`Options.Burst`":                                         false, // of which package?
		"```go\nratelimit.New(&ratelimit.Options{Burst: 1})\n```": true,
		"`ratelimit.Options.Bursts`":                              false,
	} {
		if o.shownBy(text) != want {
			t.Errorf("%q: want %t", text, want)
		}
	}
}

// option is a field of a struct of options.
type option struct{ folder, owner, name string }

func optionFields(t *testing.T) (all []option) {
	for _, s := range libraryFiles(t) {
		for _, decl := range s.syntax(t).Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range d.Specs {
				ts, ok := spec.(*ast.TypeSpec)
				if !ok || !ts.Name.IsExported() || !strings.HasSuffix(ts.Name.Name, "Options") {
					continue
				}
				for _, m := range members(ts) {
					for _, id := range m.Names {
						if id.IsExported() {
							all = append(all, option{s.folder(), ts.Name.Name, id.Name})
						}
					}
				}
			}
		}
	}
	return all
}

// shownBy reports whether a page names the option, or sets it.
func (o option) shownBy(page string) bool {
	pkg := path.Base(o.folder)
	if !strings.Contains(page, o.name) {
		return false
	}
	says := regexp.MustCompile(fmt.Sprintf(`\b(%s\.)?%s\.%s\b`, pkg, o.owner, o.name))
	set := regexp.MustCompile(fmt.Sprintf(`\b%s\.%s\b[^`+"`"+`]*\b%s:`, pkg, o.owner, o.name))
	for _, m := range says.FindAllStringSubmatch(page, -1) {
		if m[1] != "" || regexp.MustCompile(`\b`+pkg+`\b`).MatchString(page) {
			return true
		}
	}
	return set.MatchString(page)
}

// setBy reports whether a file outside of the option's package, or an example of it, sets it.
func (o option) setBy(t *testing.T, s source) bool {
	if s.isPage() {
		return s.name != "docs/RENAMES.md" && o.shownBy(s.text)
	}
	own := s.folder() == o.folder
	if own && !strings.HasPrefix(path.Base(s.name), "example") || !own && !strings.Contains(s.text, `"`+module+"/"+o.folder+`"`) || !strings.Contains(s.text, o.name) {
		return false
	}
	found := false
	ast.Inspect(s.syntax(t), func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.CompositeLit:
			if !o.mayBe(x.Type) {
				break
			}
			for _, e := range x.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok && named(kv.Key, o.name) {
					found = true
				}
			}
		case *ast.AssignStmt:
			for _, e := range x.Lhs {
				if sel, ok := e.(*ast.SelectorExpr); ok && sel.Sel.Name == o.name {
					found = true
				}
			}
		}
		return !found
	})
	return found
}

// mayBe reports whether a literal's type can be the option's: one without a type, or by
// another name, may.
func (o option) mayBe(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.IndexExpr:
		return o.mayBe(x.X)
	case *ast.IndexListExpr:
		return o.mayBe(x.X)
	case *ast.SelectorExpr:
		return x.Sel.Name == o.owner && named(x.X, path.Base(o.folder))
	}
	return true
}

func named(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}
