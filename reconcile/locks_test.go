package reconcile_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// The package has at most six mutexes and six atomics, each with what it guards or holds
// written beside it, and one comment has the order of all mutexes.
func TestLocksAreFewAndOrdered(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	var mutexes, atomics []string // by type and field
	comments := ""
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range file.Comments {
			if strings.Contains(c.Text(), "The locks of the package, in the order") {
				comments += c.Text()
			}
		}
		declared := func(in, name string, of ast.Expr, comment *ast.CommentGroup) {
			switch lock := lockType(of); lock {
			case "sync.Mutex", "sync.RWMutex":
				mutexes = append(mutexes, in+name)
				if !strings.Contains(comment.Text(), "guards") {
					t.Errorf("%s%s: the comment beside it does not say what it guards", in, name)
				}
			case "":
			default:
				atomics = append(atomics, in+name)
				if comment.Text() == "" {
					t.Errorf("%s%s: no comment beside it says what it holds", in, name)
				}
			}
		}
		for _, d := range file.Decls {
			general, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range general.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						declared("", n.Name, spec.Type, general.Doc)
					}
				case *ast.TypeSpec:
					ast.Inspect(spec.Type, func(n ast.Node) bool {
						f, ok := n.(*ast.Field)
						if !ok {
							return true
						}
						if len(f.Names) == 0 {
							declared(spec.Name.Name+".", "(embedded)", f.Type, f.Comment)
						}
						for _, n := range f.Names {
							declared(spec.Name.Name+".", n.Name, f.Type, f.Comment)
						}
						return true
					})
				}
			}
		}
	}
	if len(mutexes) == 0 || len(mutexes) > 7 {
		t.Errorf("%d mutexes, want at most 7: %q", len(mutexes), mutexes)
	}
	if len(atomics) == 0 || len(atomics) > 7 {
		t.Errorf("%d atomics, want at most 7: %q", len(atomics), atomics)
	}
	for _, m := range mutexes {
		if !strings.Contains(comments, m) {
			t.Errorf("the comment with the order of the locks lacks %s", m)
		}
	}
}

// lockType names the mutex or atomic that a type is or has: "sync.Mutex", "atomic.Int32";
// "": neither. A pointer to one declares none.
func lockType(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.ArrayType:
		return lockType(of.Elt)
	case *ast.IndexExpr:
		return lockType(of.X)
	case *ast.SelectorExpr:
		pkg, ok := of.X.(*ast.Ident)
		if ok && (pkg.Name == "atomic" || pkg.Name == "sync" && strings.HasSuffix(of.Sel.Name, "Mutex")) {
			return pkg.Name + "." + of.Sel.Name
		}
	}
	return ""
}
