package check

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A package comment teaches the use of the package, in a page before the first name as go doc
// prints it. What explains the code stands below the package clause, where it is not printed.
func TestPackageCommentsAreAPage(t *testing.T) {
	const page = 60
	longer := map[string]int{"queue": 100} // the contract, with two tables
	seen := 0
	for _, s := range files(t, func(s source) bool { return s.isGo() && !s.isTest() }) {
		comment := s.syntax(t).Doc
		if comment == nil {
			continue
		}
		seen++
		most := page
		if n, ok := longer[s.folder()]; ok {
			most = n
		}
		if n := strings.Count(goDoc(comment.Text()), "\n"); n > most {
			t.Errorf("%s: go doc prints %d lines of the package comment, want %d at most: shorten it, say it in the comment of the name that it is about, or, if it explains the code, below the package clause", s.name, n, most)
		}
	}
	if seen < 30 {
		t.Fatalf("%d package comments were looked at", seen)
	}
}

// goDoc is a comment as go doc prints it.
func goDoc(text string) string {
	return string(new(comment.Printer).Text(new(comment.Parser).Parse(text)))
}

// Each package that programs import has an example that runs: one with an output.
func TestEachPackageHasAnExampleThatRuns(t *testing.T) {
	compiled := map[string]bool{ // these take a *testing.T, which an example does not have
		"store/storetest/dependtest": true, "store/storetest/leasetest": true, "store/storetest/quotatest": true,
		"store/storetest/upgradetest": true,
	}
	for _, folder := range append(importable(t), ".", "cmd/tend/cli") {
		var tests []*ast.File
		for _, s := range files(t, func(s source) bool { return s.isTest() && s.folder() == folder }) {
			tests = append(tests, s.syntax(t))
		}
		examples := doc.Examples(tests...)
		runs := slices.ContainsFunc(examples, func(e *doc.Example) bool { return e.Output != "" || e.EmptyOutput })
		if len(examples) == 0 || !runs && !compiled[folder] {
			t.Errorf("%s has no example that runs", folder)
		}
	}
}

var (
	errorName  = regexp.MustCompile(`\berr[A-Z]\w*`)
	innerName  = regexp.MustCompile(`\b(?:[A-Z]\w*\.)?[a-z]+[A-Z]\w*`)
	docLink    = regexp.MustCompile(`(?:^|\W)\[\*?([A-Z]\w*(?:\.[A-Z]\w*)?)\](?:[^(:]|$)`)
	codeOrText = regexp.MustCompile("(?m)^\t.*$|`[^`]*`|\"[^\"]*\"")
)

// What go doc prints names nothing that its reader cannot see: an error or an option that was
// unexported, or exported, keeps its old name in comments, which no compiler reads.
func TestPrintedCommentsNameWhatTheirReadersSee(t *testing.T) {
	for _, folder := range importable(t) {
		inPackage := func(s source) bool { return s.isGo() && !s.isTest() && s.folder() == folder }
		all := names(t, inPackage)
		for _, s := range files(t, inPackage) {
			for _, name := range hiddenNames(s.syntax(t), path.Base(folder), all) {
				t.Errorf("%s: a printed comment names %s, which the package does not export: say what the reader sees of it", s.name, name)
			}
		}
	}
}

func TestCheckOfPrintedCommentsFindsHiddenNames(t *testing.T) {
	s := source{"p/none.go", `// Package p has errGone, "errQuoted" and runNow.
package p

// Options are o. See Options.lockWait, Queue[K], [Options.Max] and [Gone].
type Options struct {
	// Max is maxSize at most, or Options.lockWait.
	Max int
	// lockWait is not printed, nor is maxSize here.
	lockWait int
}

// Run takes maxSize, unlike runNow.
func Run(maxSize int) {}

// runNow is errGone.
func runNow() {}

var maxSize int
`}
	all := declared{}
	all.read("p", s.syntax(t))
	want := []string{"errGone", "runNow", "maxSize", "Options.lockWait", "Options.lockWait", "Gone", "runNow"}
	if got := hiddenNames(s.syntax(t), "p", all); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// hiddenNames are the names in the printed comments of a file that are those of unexported things of
// its package, or read like those of an error, and the links to what the package does not have. Parameters are printed, beside the comment.
func hiddenNames(f *ast.File, pkg string, all declared) (found []string) {
	look := func(comment *ast.CommentGroup, printed ast.Node) {
		text := codeOrText.ReplaceAllString(comment.Text(), "")
		for _, name := range innerName.FindAllString(text, -1) {
			if !all[pkg+"."+name] && !errorName.MatchString(name) || printed != nil && hasIdent(printed, name) {
				continue
			}
			found = append(found, name)
		}
		for _, m := range docLink.FindAllStringSubmatch(text, -1) {
			if !all[pkg+"."+m[1]] {
				found = append(found, m[1])
			}
		}
	}
	look(f.Doc, nil)
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type))) {
				look(d.Doc, d.Type)
			}
		case *ast.GenDecl:
			seen := false
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					if slices.ContainsFunc(spec.Names, (*ast.Ident).IsExported) {
						seen = true
						look(spec.Doc, nil)
					}
				case *ast.TypeSpec:
					if !spec.Name.IsExported() {
						continue
					}
					seen = true
					look(spec.Doc, nil)
					for _, m := range members(spec) {
						if slices.ContainsFunc(m.Names, (*ast.Ident).IsExported) {
							look(m.Doc, m.Type)
							look(m.Comment, m.Type)
						}
					}
				}
			}
			if seen {
				look(d.Doc, nil)
			}
		}
	}
	return found
}

func hasIdent(n ast.Node, name string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return !found
	})
	return found
}

// Examples are printed beside the package: they use no name of it that its tests alone export.
func TestExamplesUseWhatProgramsHave(t *testing.T) {
	for _, folder := range importable(t) {
		pkg, here := path.Base(folder), func(s source) bool { return s.isGo() && s.folder() == folder }
		shipped := names(t, func(s source) bool { return here(s) && !s.isTest() })
		for _, s := range files(t, func(s source) bool { return here(s) && s.isTest() }) {
			for _, wrong := range wrongExamples(s.syntax(t), pkg, shipped) {
				t.Errorf("%s: %s, which programs do not have: what a reader copies does not build", s.name, wrong)
			}
		}
	}
}

func TestCheckOfExamplesFindsWhatProgramsLack(t *testing.T) {
	shipped := declared{}
	shipped.read("p", source{"p/shipped.go", "package p\ntype T struct{}\nfunc F() {}\n"}.syntax(t))
	example := source{"p/example_test.go", "package p_test\nfunc Example() { p.F(); p.G(p.T{}); other.G() }\nfunc ExampleT() { F() }\nfunc TestT() { p.G() }\n"}
	if got := wrongExamples(example.syntax(t), "p", shipped); !slices.Equal(got, []string{"Example uses p.G"}) {
		t.Errorf("found %q, want Example and p.G", got)
	}
}

// wrongExamples says which examples of a file use names that a package does not ship.
func wrongExamples(f *ast.File, pkg string, shipped declared) (wrong []string) {
	for _, decl := range f.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || !exampleName.MatchString(f.Name.Name) {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == pkg && !shipped[pkg+"."+sel.Sel.Name] {
					wrong = append(wrong, f.Name.Name+" uses "+pkg+"."+sel.Sel.Name)
				}
			}
			return true
		})
	}
	return wrong
}
