package check

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tendhq/tend/internal/mutate"
	"github.com/tendhq/tend/internal/promises"
)

// promiseTable is the table of promises, and what it names in the repository.
func promiseTable(t *testing.T) []promises.Row {
	t.Helper()
	rows, err := promises.Rows()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// Whether the controls hold is for go run ./bench/mutants -controls, which compiles packages. This
// test says at once what an edit of the code breaks: every name in the table is there, every row
// has a control, and every promise has a row. Negative control: TestPromiseTableCheckFindsWhatIsWrong.
func TestEveryPromiseHasATestAndAControl(t *testing.T) {
	for _, complaint := range checkPromiseTable(t, promiseTable(t)) {
		t.Error(complaint)
	}
}

func checkPromiseTable(t *testing.T, rows []promises.Row) (complaints []string) {
	t.Helper()
	complain := func(r promises.Row, what string) {
		complaints = append(complaints, what+": "+r.Of+" "+r.What)
	}
	campaigns := readPage(t, "bench/nightly/campaigns.go")
	for _, r := range rows {
		if len(r.Controls)+len(r.Judges) == 0 {
			complain(r, "no control")
		}
		if len(r.Controls)+len(r.Tests) == 0 {
			complain(r, "no test")
		}
		tests := append(append([]promises.Test{}, r.Tests...), r.Judges...)
		for _, c := range r.Controls {
			tests = append(tests, c.Test)
			if !hasFunc(t, c.Func) {
				complain(r, "there is no function "+c.Func+", in which "+c.Test.Name+" has a control: if it was renamed, write its new name into "+promises.File)
			}
			if mutate.Operators[c.Op] == "" {
				complain(r, "there is no operator "+c.Op)
			}
		}
		for _, test := range tests {
			if !hasTest(t, test.Package, test.Name) {
				complain(r, "there is no "+test.Name+" in "+test.Package)
			}
		}
		for _, name := range r.Campaigns {
			pkg, target, _ := strings.Cut(strings.TrimPrefix(name, "fuzz-"), "-")
			isFuzz := strings.HasPrefix(name, "fuzz-") && regexp.MustCompile(`fuzz\("\./(?:\w+/)*`+pkg+`", "`+target+`"`).MatchString(campaigns)
			if !isFuzz && !strings.HasPrefix(name, "go ") && !strings.Contains(campaigns, `name: "`+name+`"`) {
				complain(r, "there is no campaign "+name)
			}
		}
	}
	_, names, err := promises.Texts(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !slices.ContainsFunc(rows, func(r promises.Row) bool { return r.IsOf(name) }) {
			complain(promises.Row{Of: name}, "a promise without a row")
		}
	}
	return complaints
}

func TestPromiseTableCheckFindsWhatIsWrong(t *testing.T) {
	for what, edit := range map[string]func(r *promises.Row){
		"there is no TestGone in queue":         func(r *promises.Row) { r.Tests = []promises.Test{{Package: "queue", Name: "TestGone"}} },
		"there is no function queue.gone":       func(r *promises.Row) { r.Controls[0].Func = "queue.gone" },
		"there is no operator nonsense":         func(r *promises.Row) { r.Controls[0].Op = "nonsense" },
		"there is no campaign plants":           func(r *promises.Row) { r.Campaigns = []string{"plants"} },
		"there is no campaign fuzz-file-Rows":   func(r *promises.Row) { r.Campaigns = []string{"fuzz-file-Rows"} },
		"no control: Q1":                        func(r *promises.Row) { r.Controls, r.Judges = nil, nil },
		"a promise without a row: R4":           func(r *promises.Row) { r.Of = "R3" },
		"no test: Q1":                           func(r *promises.Row) { r.Controls, r.Tests = nil, nil },
		"there is no TestWrong in store/memory": func(r *promises.Row) { r.Judges = []promises.Test{{Package: "store/memory", Name: "TestWrong"}} },
	} {
		rows := promiseTable(t)
		for i := range rows {
			if what == "a promise without a row: R4" && rows[i].IsOf("R4") {
				edit(&rows[i])
			}
		}
		if what != "a promise without a row: R4" {
			edit(&rows[0])
		}
		if found := strings.Join(checkPromiseTable(t, rows), "\n"); !strings.Contains(found, what) {
			t.Errorf("%s: what was found is %q", what, found)
		}
	}
}

// funcNames are the functions of each folder that was asked about.
var funcNames = map[string]map[string]bool{}

// hasFunc tells whether there is a function, named as in internal/mutate.
func hasFunc(t *testing.T, name string) bool {
	t.Helper()
	folder := promises.Control{Func: name}.Package()
	names, ok := funcNames[folder]
	if !ok {
		names = map[string]bool{}
		for _, f := range goFiles(t, folder) {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			mutate.Functions(file, func(name string, _ ast.Decl) { names[mutate.Func(folder, name)] = true })
		}
		funcNames[folder] = names
	}
	return names[name]
}

func goFiles(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}
