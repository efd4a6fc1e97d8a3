package queue

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// One place moves an entry: lists, counters and the state of an entry change in
// shard.move and in what it is made of, and nowhere else.
//
// Negative control: the test looks for a call that it must find outside of move.
func TestOnePlaceMovesAnEntry(t *testing.T) {
	// The callers of each; a line of a bucket is a list that enter and leave keep for move.
	allowed := map[string][]string{
		"e.set":           {"move"},
		"s.ready.push":    {"move"},
		"s.ready.remove":  {"move"},
		"s.ready.next":    {"take"}, // which calls move
		"l.push":          {"enter"},
		"l.remove":        {"leave"},
		"l.next":          {"pump"}, // which calls move by admitOne
		"s.timed.add":     {"move"},
		"s.timed.remove":  {"move"},
		"s.running.begin": {"begin"},
		"s.running.end":   {"move"},
		"s.table.insert":  {"create"},
		"s.table.remove":  {"move"},
	}
	writes := map[string][]string{ // of fields of an entry, which is called e everywhere
		"e.state": {},
		"e.due":   {"set"},
		"e.order": {"push", "remove", "moved", "alloc", "free", "move", "take", "begin", "end", "admitOne"},
	}
	called := map[string]int{}
	for _, f := range parseAll(t) {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					name := dotted(n.Fun)
					if by, ok := allowed[name]; ok {
						called[name]++
						if !slices.Contains(by, fn.Name.Name) {
							t.Errorf("%s calls %s, which is for %s", fn.Name.Name, name, by)
						}
					}
				case *ast.AssignStmt:
					for _, x := range n.Lhs {
						if by, ok := writes[dotted(x)]; ok && !slices.Contains(append(by, "set"), fn.Name.Name) {
							t.Errorf("%s writes %s", fn.Name.Name, dotted(x))
						}
					}
				}
				return true
			})
		}
	}
	for name := range allowed {
		if called[name] == 0 {
			t.Errorf("there is no call of %s: the test is blind", name)
		}
	}
}

// dotted is a chain of names, such as s.ready.push.
func dotted(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		if left := dotted(x.X); left != "" {
			return left + "." + x.Sel.Name
		}
	}
	return ""
}

func parseAll(t *testing.T) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}
