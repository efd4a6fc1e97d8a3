package external

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

// named is the packages that the page names, and where they lie.
var named = map[string]string{
	"cache": "../../store/cache", "external": ".", "lifecycle": "../lifecycle", "reconcile": "..", "store": "../../store",
}

var quoted = regexp.MustCompile("`([^`]+)`")

// The page for those who come from Crossplane or provider-runtime has all of
// their names, and none of ours that is not in the code.
//
// Negative control: with external.Nop renamed on the page this failed.
func TestComingFromPageNamesWhatExists(t *testing.T) {
	ours := map[string]bool{}
	for pkg, dir := range named {
		for name := range exported(t, dir) {
			ours[pkg+"."+name] = true
		}
	}
	theirs := map[string]bool{}
	for _, row := range tableRows(t, "COMING-FROM-CROSSPLANE.md") {
		for _, m := range quoted.FindAllStringSubmatch(row[0], -1) {
			theirs[m[1]] = true
		}
		found := quoted.FindAllStringSubmatch(row[1], -1)
		if len(found) == 0 && (strings.TrimSpace(row[1]) != "–" || strings.TrimSpace(row[2]) == "") {
			t.Errorf("%s has no counterpart, and nothing says why", row[0])
		}
		for _, m := range append(found, quoted.FindAllStringSubmatch(row[2], -1)...) {
			name, _, _ := strings.Cut(m[1], "(")
			if pkg, _, ok := strings.Cut(name, "."); ok && named[pkg] != "" && !ours[name] {
				t.Errorf("%s: there is no %s", row[0], name)
			}
		}
	}
	if len(theirs) < 68 {
		t.Errorf("the page has %d of their names, want all 68 and more", len(theirs))
	}
	for _, name := range []string{
		"FinalizerName", "ControllerName", "CriticalAnnotationUpdateFn", "RetryingCriticalAnnotationUpdater", "ExternalClientFns.DeleteFn",
		"ExternalConnectDisconnecterFns.DisconnectFn", "NopDisconnecter.Disconnect", "NopClient.Delete", "ExternalObservation.Diff",
		"WithPollJitterHook", "NewReconciler", "WithExternalConnectDisconnecter", "WithTimeout",
	} {
		if !theirs[name] {
			t.Errorf("the page has no %s", name)
		}
	}
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
			t.Fatalf("%d cells in %q, want 3", len(cells), line)
		}
		rows = append(rows, cells)
	}
	return rows
}

// exported lists a package's exported names: T, F, T.Method and T.Field.
func exported(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			declared(names, d)
		}
	}
	return names
}

func declared(names map[string]bool, d ast.Decl) {
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
