package check_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/lifecycle"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

var updateStored = flag.Bool("update-stored", false, "write testdata/stored.golden")

// moduleRoot is the root of the tree, where the tests of this package run.
const moduleRoot = "."

// Strings that are stored, put into a cloud, scraped or parsed outlive the program that
// wrote them: a finalizer under another name hangs every deletion. The golden file changes
// only with a change that says what happens to what is there.
//
// It names no type, function or package of Go, so that moves and renames leave it alone;
// but for the constants of the exit codes, whose names say what a script asks for.
func TestStoredStringsStay(t *testing.T) {
	lines := map[string]string{} // and the file that each is in, if a file of the source has it
	place := ""
	add := func(sort, text string) { lines[sort+" "+text] = place }

	addSource(t, &place, add)
	addEncoded(t, add)
	addMetrics(add)
	addMarks(t, add)
	addLeases(t, add)

	got := strings.Join(slices.Sorted(maps.Keys(lines)), "\n") + "\n"
	const golden = "internal/check/testdata/stored.golden"
	if *updateStored {
		if err := os.WriteFile(golden, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		want[strings.TrimSuffix(line, "\n")] = true
	}
	for _, line := range slices.Sorted(maps.Keys(want)) {
		if _, ok := lines[line]; !ok {
			t.Errorf("gone: %s", line)
		}
	}
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		if !want[line] {
			t.Errorf("new: %s %s", line, lines[line])
		}
	}
	if t.Failed() {
		t.Log("where this is meant: go test ./internal/check -run TestStoredStringsStay -update-stored, and, unless nothing but a name is new, " +
			"say in docs/RENAMES.md, after the first release in CHANGELOG.md, what to do about what is stored, or what scripts read")
	}
	for sort, least := range map[string]int{"text": 15, "const": 100, "json": 50, "log": 40, "metric": 60, "exit": 9, "record": 3, "path": 5, "sql": 6} {
		n := 0
		for line := range lines {
			if strings.HasPrefix(line, sort+" ") {
				n++
			}
		}
		if n < least {
			t.Errorf("%d lines of the sort %q, want %d or more: does the test look at the right places?", n, sort, least)
		}
	}
}

// addSource adds what can be read in the source of the library and of the command; place is the file.
func addSource(t *testing.T, place *string, add func(sort, text string)) {
	skip := []string{"bench", "internal", "testdata", "examples", "storetest", "leasetest", "quotatest", "dependtest", "upgradetest", "reconciletest", ".git", ".cache"}
	defer func() { *place = "" }()
	read := func(name string, d fs.DirEntry, err error) error {
		*place = "(" + filepath.ToSlash(name) + ")"
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skip, d.Name()) && !strings.HasSuffix(filepath.ToSlash(name), "reconcile/internal"): // which stores too
			return filepath.SkipDir
		case strings.HasSuffix(name, ".sql"):
			text, err := os.ReadFile(name)
			for _, found := range sqlNames.FindAllString(string(text), -1) {
				add("sql", found)
			}
			return err
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		addDeclarations(f, add)
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text := literal(n); named.MatchString(text) {
					add("text", text)
				}
			case *ast.StructType:
				if keys := jsonKeys(n); keys != "" {
					add("json", keys)
				}
			case *ast.CallExpr:
				addCall(n, add)
			case *ast.CompositeLit:
				if array, ok := n.Type.(*ast.ArrayType); ok && isIdent(array.Elt, "any") {
					addPairs(n.Elts, add)
				}
			}
			return true
		})
		return nil
	}
	for _, root := range []string{moduleRoot, filepath.Join(moduleRoot, "internal", "introspect")} { // which the page shows
		if err := filepath.WalkDir(root, read); err != nil {
			t.Fatal(err)
		}
	}
}

var (
	// named is what a stored name of tend's own looks like, as it is or as a beginning.
	named = regexp.MustCompile(`^(tend[./_-]\S*|_[a-z]+|/tend)$`)
	// oneWord is a constant or a key that a program may compare with, and not a text to read.
	oneWord  = regexp.MustCompile(`^[A-Za-z_/.\-][A-Za-z0-9_/.\-]*$`)
	sqlNames = regexp.MustCompile(`CREATE (OR REPLACE )?(TABLE|INDEX|FUNCTION) [\w{}.]+`)
)

// addDeclarations adds the constants of a package: kinds, annotations, types of conditions
// and their reasons, states that a page shows; and the exit codes of the command.
func addDeclarations(f *ast.File, add func(sort, text string)) {
	for _, decl := range f.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST && gen.Tok != token.VAR {
			continue
		}
		for _, spec := range gen.Specs {
			for i, value := range spec.(*ast.ValueSpec).Values {
				if call, ok := value.(*ast.CallExpr); ok && len(call.Args) == 1 {
					value = call.Args[0] // []byte("name") of a bucket, Reason("Name")
				}
				text := literal(value)
				if oneWord.MatchString(text) {
					add("const", text)
				}
				if number, ok := value.(*ast.BasicLit); ok && f.Name.Name == "cli" && number.Kind == token.INT && spec.(*ast.ValueSpec).Names[i].IsExported() {
					add("exit", spec.(*ast.ValueSpec).Names[i].Name+" "+number.Value)
				}
			}
		}
	}
}

// jsonKeys are the keys under which the fields of a struct are encoded, with their options;
// "" for a struct of which no field says one.
func jsonKeys(s *ast.StructType) string {
	var keys []string
	tagged := false
	for _, field := range s.Fields.List {
		var tag string
		if field.Tag != nil {
			text, _ := strconv.Unquote(field.Tag.Value)
			tag = reflect.StructTag(text).Get("json")
		}
		tagged = tagged || tag != ""
		switch {
		case tag != "" && !strings.HasPrefix(tag, ","):
			keys = append(keys, tag)
		case len(field.Names) == 0:
			keys = append(keys, "+") // its fields, which have a line of their own
		}
		for _, name := range field.Names {
			if name.IsExported() && (tag == "" || strings.HasPrefix(tag, ",")) {
				keys = append(keys, name.Name+tag)
			}
		}
	}
	if !tagged {
		return ""
	}
	return strings.Join(keys, " ")
}

// addCall adds the keys of log lines, and the paths and patterns of HTTP handlers.
func addCall(call *ast.CallExpr, add func(sort, text string)) {
	name := ""
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		name = fun.Name
	case *ast.SelectorExpr:
		name = fun.Sel.Name
		if isIdent(fun.X, "slog") && len(call.Args) == 2 {
			addPairs(call.Args, add)
			return
		}
	}
	switch {
	case len(call.Args) == 0:
	case name == "With":
		addPairs(call.Args, add)
	case slices.Contains([]string{"Debug", "Info", "Warn", "Error", "append"}, name):
		addPairs(call.Args[1:], add)
	case name == "Handle" || name == "HandleFunc":
		if text := literal(call.Args[0]); strings.Contains(text, "/") {
			add("path", text)
		}
	}
}

// addPairs adds the keys among arguments in pairs; arguments that are no pairs have none.
func addPairs(args []ast.Expr, add func(sort, text string)) {
	if len(args)%2 != 0 {
		return
	}
	for i := 0; i < len(args); i += 2 {
		if key := literal(args[i]); oneWord.MatchString(key) {
			add("log", key)
		}
	}
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, _ := strconv.Unquote(lit.Value)
	return text
}

// addEncoded adds the tree of an object as it is stored, and of a mark.
func addEncoded(t *testing.T, add func(sort, text string)) {
	o := new(store.Object[struct{}, struct{}])
	for name, v := range map[string]any{"object": o, "mark": new(external.Mark), "ref": new(depend.Ref)} {
		fill(reflect.ValueOf(v).Elem())
		o.FieldOwners = `{"at":1,"by":{"x":{"fields":["x"],"but":["x"]}}}` // it is JSON
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var tree any
		if err := json.Unmarshal(data, &tree); err != nil {
			t.Fatal(err)
		}
		addTree(name, tree, add)
	}
}

func addTree(path string, tree any, add func(sort, text string)) {
	switch tree := tree.(type) {
	case map[string]any:
		for key, value := range tree {
			add("encoded", path+"."+key)
			addTree(path+"."+key, value, add)
		}
	case []any:
		for _, value := range tree {
			addTree(path, value, add)
		}
	}
}

// fill sets everything in v that an encoder would leave out for being zero.
func fill(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(1, 0).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(1)
	case reflect.Uint64, reflect.Uint32, reflect.Uint, reflect.Uint8:
		v.SetUint(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	}
}

// addMetrics adds the names and labels of the metrics, without their help.
func addMetrics(add func(sort, text string)) {
	descs := make(chan *prometheus.Desc)
	go func() {
		metrics.New(nil).Describe(descs)
		close(descs)
	}()
	help := regexp.MustCompile(`help: "(\\.|[^"\\])*", `)
	for d := range descs {
		add("metric", help.ReplaceAllString(d.String(), ""))
	}
}

// addMarks adds what is put onto objects and resources, for one kind and one name.
func addMarks(t *testing.T, add func(sort, text string)) {
	name, err := lifecycle.FinalizerName("thing", "handler")
	if err != nil {
		t.Fatal(err)
	}
	add("finalizer", name)
	add("finalizer", depend.Finalizer("thing"))
	mark := external.Mark{Installation: "i", Kind: "k", Key: store.Key{Namespace: "ns", Name: "n"}, UID: "u", Declared: 1}
	for tag, value := range mark.SetTags(nil) {
		add("tag", tag+" = "+value)
	}
}

// addLeases adds the records that placements keep, by what a placement writes.
func addLeases(t *testing.T, add func(sort, text string)) {
	synctest.Test(t, func(t *testing.T) {
		b, err := memory.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		sharded, err := lease.NewSharded(b, "sharded", 2, &lease.Options{Server: "a"})
		if err != nil {
			t.Fatal(err)
		}
		singleton, err := lease.NewSingleton(b, "single", &lease.Options{Server: "a"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer func() { stop(); synctest.Wait() }()
		for _, p := range []lease.Placement{sharded, singleton} {
			go func() {
				_ = p.Run(ctx, func(ctx context.Context, _ int) error { <-ctx.Done(); return nil })
			}()
		}
		synctest.Wait()
		page, err := b.List(ctx, lease.Kind, store.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Records {
			var tree map[string]any
			data, err := r.Encode()
			if err == nil {
				err = json.Unmarshal(data, &tree)
			}
			if err != nil {
				t.Fatal(r.Key, err)
			}
			name := regexp.MustCompile(`member-\w+`).ReplaceAllString(r.Key.String(), "member-ID")
			add("record", fmt.Sprint(name, " ", slices.Sorted(maps.Keys(tree))))
		}
	})
}
