package lifecycle

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The packages that the pages name, and where they lie.
var named = map[string]string{
	"cache": "../../store/cache", "lease": "../lease", "lifecycle": ".",
	"queue": "../../queue", "reconcile": "..", "store": "../../store",
}

// TestComingFromPagesNameWhatExists reads the tables of the pages for those who
// come from another library: every name of ours must be there in the code.
// Negative control: with lifecycle.Wrap renamed it failed.
func TestComingFromPagesNameWhatExists(t *testing.T) {
	ours := map[string]bool{}
	for pkg, dir := range named {
		for name := range exported(t, dir) {
			ours[pkg+"."+name] = true
		}
	}
	for page, wantTheirs := range map[string]int{"COMING-FROM-GRAFANA.md": 85, "COMING-FROM-OPENMCP.md": 56} {
		theirs, rows := 0, 0
		for _, row := range tableRows(t, page) {
			rows++
			theirs += len(quoted.FindAllString(row[0], -1))
			names := quoted.FindAllStringSubmatch(row[1], -1)
			if len(names) == 0 && strings.TrimSpace(row[1]) != "–" {
				t.Errorf("%s: %s has neither a counterpart nor a –", page, row[0])
			}
			if len(names) == 0 && strings.TrimSpace(row[2]) == "" {
				t.Errorf("%s: %s has no counterpart, and nothing says why", page, row[0])
			}
			for _, m := range append(names, quoted.FindAllStringSubmatch(row[2], -1)...) {
				if name, ok := reference(m[1]); ok && !ours[name] {
					t.Errorf("%s: %s: there is no %s", page, row[0], name)
				}
			}
		}
		if rows < 30 || theirs < wantTheirs {
			t.Errorf("%s: %d rows with %d of their names, want all %d", page, rows, theirs, wantTheirs)
		}
	}
}

var quoted = regexp.MustCompile("`([^`]+)`")

// reference takes the name out of `pkg.Name(args)`; what is of none of our
// packages is no reference.
func reference(s string) (string, bool) {
	name, _, _ := strings.Cut(s, "(")
	pkg, _, found := strings.Cut(name, ".")
	_, ok := named[pkg]
	return name, found && ok
}

func tableRows(t *testing.T, page string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 {
			t.Fatalf("%s: %d cells in %q, want 3", page, len(cells), line)
		}
		rows = append(rows, cells)
	}
	return rows
}

// exported lists a package's exported names: T, F, T.Method and T.Field, the
// promoted ones of embedded fields too where they are of the package itself.
func exported(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	files, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			declare(names, d)
		}
	}
	return names
}

func declare(names map[string]bool, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = receiver(d.Recv.List[0].Type) + "." + name
		}
		names[name] = true
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names[n.Name] = true
				}
			case *ast.TypeSpec:
				names[s.Name.Name] = true
				members(names, s)
			}
		}
	}
}

func members(names map[string]bool, s *ast.TypeSpec) {
	var fields *ast.FieldList
	switch typ := s.Type.(type) {
	case *ast.StructType:
		fields = typ.Fields
	case *ast.InterfaceType:
		fields = typ.Methods
	default:
		return
	}
	for _, f := range fields.List {
		for _, n := range f.Names {
			names[s.Name.Name+"."+n.Name] = true
		}
	}
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
