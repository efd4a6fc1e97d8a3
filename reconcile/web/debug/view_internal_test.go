package debug

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The comment of New is the one place where a caller finds what the query may have.
func TestCommentOfNewNamesEachParameterOfTheQuery(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	read, doc := map[string]bool{}, ""
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name == "New" {
					doc = n.Doc.Text()
				}
			case *ast.CallExpr: // q.Get("view")
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && isQuery(sel.X) && len(n.Args) == 1 {
					addLiteral(read, n.Args[0])
				}
			case *ast.IndexExpr: // q["open"]
				if isQuery(n.X) {
					addLiteral(read, n.Index)
				}
			}
			return true
		})
	}
	if len(read) < 15 {
		t.Fatalf("found %d parameters: does the test look at the right places?", len(read))
	}
	for name := range read {
		if !regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).MatchString(doc) {
			t.Errorf("the query may have %q, which the comment of New does not name: say there what it does", name)
		}
	}
}

// isQuery reports whether an expression is the variable that has the query in this package.
func isQuery(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "q"
}

func addLiteral(to map[string]bool, e ast.Expr) {
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		if text, err := strconv.Unquote(lit.Value); err == nil {
			to[text] = true
		}
	}
}
