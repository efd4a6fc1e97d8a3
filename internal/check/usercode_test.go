package check

import (
	"cmp"
	"fmt"
	"go/ast"
	"os"
	"slices"
	"strings"
	"testing"
)

// userCode is the table of every place where the library calls a function that a program gave it in a
// field of an exported struct, and of what contains it (promise R6).
const userCode = "internal/check/testdata/usercode.txt"

// containers call what they are given so that a panic is an error.
var containers = map[string]bool{
	"contain.Call": true, "contain.Apart": true, "protect": true, "isolate": true,
	"contain": true, "call": true, "accept": true,
}

// How the table says that a call is contained, besides by one of the containers around it: by
// what calls the function it is in.
var otherwise = []string{
	"run",     // it is part of a run, source or mapper, which the kernel contains, or of a call that a program makes, whose panic it is
	"above",   // what calls this function contains it
	"handler", // net/http contains what a handler does
	"ours",    // it is no function of the program's here
}

// A function of the program's that is called in a new place has to be contained there. Seen to fail: with
// a line of the table left out, and with a second call of external's Options.Changes beside the contained one.
//
// promise R6
func TestEachCallOfAFunctionOfTheProgramsIsContained(t *testing.T) {
	table, err := os.ReadFile(userCode)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if listed[line] {
			t.Errorf("%s has %q twice", userCode, line)
		}
		listed[line] = true
	}
	found := callsOfUserCode(t)
	if len(found) < 50 {
		t.Fatalf("found %d calls of functions of the program's: the search is broken", len(found))
	}
	for _, place := range found {
		may := otherwise
		if place.by != "" {
			may = []string{place.by}
		}
		i := slices.IndexFunc(may, func(by string) bool { return listed[place.String()+": "+by] })
		if i < 0 {
			t.Errorf("%s: a function of the program's is called, contained by %s. Contain what it does wrong, and have a line for it in %s", place, cmp.Or(place.by, "nothing around it"), userCode)
			continue
		}
		delete(listed, place.String()+": "+may[i])
	}
	for line := range listed {
		t.Errorf("%s: there is no such call any more: %s", userCode, line)
	}
}

// A place is a call of a field in a function.
type place struct {
	pkg, field, in string
	by             string // the container around it; empty: none
}

func (p place) String() string { return fmt.Sprintf("%s %s in %s", p.pkg, p.field, p.in) }

// callsOfUserCode finds the calls of x.o.F, x.opts.F and their like, where an exported struct of the same package has a field F
// of a function type. Calls in one function that are contained alike are one place.
func callsOfUserCode(t *testing.T) (found []place) {
	fields := map[string]map[string]bool{} // by package
	for _, s := range libraryFiles(t) {
		for name := range functionFields(s.syntax(t)) {
			if fields[s.folder()] == nil {
				fields[s.folder()] = map[string]bool{}
			}
			fields[s.folder()][name] = true
		}
	}
	for _, s := range libraryFiles(t) {
		for _, decl := range s.syntax(t).Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			in := f.Name.Name
			if f.Recv != nil {
				in = receiver(f.Recv.List[0].Type) + "." + in
			}
			containing(f.Body, "", func(call *ast.CallExpr, by string) {
				sel, ok := call.Fun.(*ast.SelectorExpr)
				if ok && fields[s.folder()][sel.Sel.Name] && ofOptions(sel.X) {
					found = append(found, place{s.folder(), sel.Sel.Name, in, by})
				}
			})
		}
	}
	slices.SortFunc(found, func(a, b place) int { return cmp.Or(cmp.Compare(a.String(), b.String()), cmp.Compare(a.by, b.by)) })
	return slices.CompactFunc(found, func(a, b place) bool { return a == b })
}

// ofOptions reports whether an expression is named as options are named here. A field that is kept under
// another name, as Options.Default of a store is, is not found.
func ofOptions(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return slices.Contains([]string{"o", "opts", "options", "Options", "hooks", "Hooks"}, e.Name)
	case *ast.SelectorExpr:
		return ofOptions(e.Sel)
	}
	return false
}

// functionFields are the exported fields of function types of a file's exported structs.
func functionFields(f *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, decl := range f.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range d.Specs {
			ts, ok := spec.(*ast.TypeSpec)
			if !ok || !ts.Name.IsExported() {
				continue
			}
			st, ok := ts.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, field := range st.Fields.List {
				if !isFunction(field.Type) {
					continue
				}
				for _, name := range field.Names {
					if name.IsExported() {
						names[name.Name] = true
					}
				}
			}
		}
	}
	return names
}

// isFunction reports whether a field's type is a function, or a named type of functions.
func isFunction(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.FuncType:
		return true
	case *ast.IndexListExpr:
		return isFunction(e.X)
	case *ast.IndexExpr:
		return isFunction(e.X)
	case *ast.Ident:
		return e.Name == "Predicate" || e.Name == "Policy"
	}
	return false
}

// containing calls f for each call in a node, with the innermost container whose argument it is.
func containing(n ast.Node, by string, f func(call *ast.CallExpr, by string)) {
	ast.Inspect(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		f(call, by)
		inside := by
		if name := calledName(call.Fun); containers[name] {
			inside = name
		}
		containing(call.Fun, by, f)
		for _, arg := range call.Args {
			containing(arg, inside, f)
		}
		return false
	})
}

// calledName is the name of what is called, with the package contain before its own.
func calledName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if named(e.X, "contain") {
			return "contain." + e.Sel.Name
		}
		return e.Sel.Name
	}
	return ""
}
