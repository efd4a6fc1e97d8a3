package check

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	quoted      = regexp.MustCompile("`([^`]+)`")
	exampleName = regexp.MustCompile(`^Example[A-Z_]?\w*$`)
	firstCell   = regexp.MustCompile(`(?m)^\| [^|]* \|`)
	memberName  = regexp.MustCompile(`^[A-Z]\w*\.[A-Z]\w*$`)
)

// declared is what packages declare, as pkg, pkg.Name, pkg.Type.Method and pkg.Type.Field.
type declared map[string]bool

// names are looked up in the source: pages name functions and fields too.
func names(t *testing.T, keep func(source) bool) declared {
	t.Helper()
	all := declared{}
	for _, s := range files(t, keep) {
		all.read(path.Base(s.folder()), s.syntax(t))
	}
	return all
}

// ours are the names of the packages that programs import.
func ours(t *testing.T) declared {
	t.Helper()
	folders := append(importable(t), "cmd/tend/cli")
	return names(t, func(s source) bool { return s.isGo() && !s.isTest() && slices.Contains(folders, s.folder()) })
}

// exported returns what our packages export, as pkg.Name and pkg.Type.Member.
func exported(t *testing.T) (all []string) {
	t.Helper()
	for name := range ours(t) {
		parts := strings.Split(name, ".")[1:]
		if len(parts) > 0 && !slices.ContainsFunc(parts, func(p string) bool { return !ast.IsExported(p) }) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

func (d declared) read(pkg string, f *ast.File) {
	d[pkg] = true
	note := func(outer string, ids ...*ast.Ident) {
		for _, id := range ids {
			d[outer+"."+id.Name] = true
		}
	}
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			outer := pkg
			if decl.Recv != nil {
				outer += "." + receiver(decl.Recv.List[0].Type)
			}
			note(outer, decl.Name)
		case *ast.GenDecl:
			for _, s := range decl.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					note(pkg, s.Names...)
				case *ast.TypeSpec:
					note(pkg, s.Name)
					for _, m := range members(s) {
						note(pkg+"."+s.Name.Name, m.Names...)
					}
				}
			}
		}
	}
}

// members are the fields of a struct, or the methods of an interface.
func members(s *ast.TypeSpec) []*ast.Field {
	switch typ := s.Type.(type) {
	case *ast.StructType:
		return typ.Fields.List
	case *ast.InterfaceType:
		return typ.Methods.List
	}
	return nil
}

// receiver is the type's name, without its pointer and its parameters.
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

// prose returns the quoted names that are not there: pkg.Name of our packages, and Examples
// among those given. `pkg.Name(args)` and `pkg.Name{fields}` are names too; what is of other
// packages may be quoted.
func (d declared) prose(text string, examples declared) (wrong []string) {
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		name := m[1]
		if i := strings.IndexAny(name, "({"); i >= 0 {
			name = name[:i]
		}
		pkg, _, dotted := strings.Cut(name, ".")
		if dotted && d[pkg] && !d[name] || examples != nil && exampleName.MatchString(name) && !examples[name] {
			wrong = append(wrong, "there is no "+name)
		}
	}
	return wrong
}

// page returns the names that a page quotes outside of its blocks of code and that are not
// there; Type.Member is one that any package may have.
func (d declared) page(text string) []string {
	members := map[string]bool{}
	for name := range d {
		_, member, _ := strings.Cut(name, ".")
		members[member] = true
	}
	text = anyBlock.ReplaceAllString(text, "")
	wrong := d.prose(text, nil)
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		if memberName.MatchString(m[1]) && !members[m[1]] {
			wrong = append(wrong, "no package has "+m[1])
		}
	}
	return wrong
}

// table returns what is wrong with a page for users of another library, whose table has a
// row for each of their names: | theirs | in tend | what is different |
func (d declared) table(text string, theirs []string, examples declared) (wrong []string) {
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| `") {
			wrong = append(wrong, d.prose(line, examples)...)
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 {
			wrong = append(wrong, fmt.Sprintf("%d cells in %q, want 3", len(cells), line))
			continue
		}
		wrong = append(wrong, d.prose(cells[1]+cells[2], examples)...)
		for _, m := range quoted.FindAllStringSubmatch(cells[0], -1) {
			seen[m[1]] = true
		}
		switch here := strings.TrimSpace(cells[1]); {
		case here != "–" && !quoted.MatchString(here):
			wrong = append(wrong, cells[0]+" has neither a counterpart nor a –")
		case here == "–" && strings.TrimSpace(cells[2]) == "":
			wrong = append(wrong, cells[0]+" has no counterpart, and nothing says why")
		}
	}
	for _, name := range theirs {
		if !seen[name] {
			wrong = append(wrong, "the page has no "+name)
		}
	}
	return wrong
}

// Every name of the code that the README, the guide and the other pages of docs quote exists.
func TestPagesNameWhatExists(t *testing.T) {
	all, pages := ours(t), 0
	for _, s := range files(t, source.isPage) {
		if f := s.folder(); f == "docs" || f == "docs/guide" || s.name == "README.md" || s.name == "SECURITY.md" {
			pages++
			text := s.text
			if s.name == "docs/RENAMES.md" {
				text = firstCell.ReplaceAllString(text, "|") // names that are gone
			}
			for _, wrong := range all.page(text) {
				t.Errorf("%s: %s", s.name, wrong)
			}
		}
	}
	if pages < 20 {
		t.Errorf("found %d pages", pages)
	}
}

// Each thing that can be wrong with a page is found, and nothing else is.
func TestEveryFaultOfAPageIsFound(t *testing.T) {
	d, examples := declared{}, declared{"ExampleNew": true}
	d.read("queue", source{"queue/none.go", "package queue\ntype Queue[K any] struct{ Name string }\nfunc (q *Queue[K]) Add(K) {}\nconst Max = 1\n"}.syntax(t))
	for text, want := range map[string]string{
		"| `New` | `queue.Queue`, `queue.Queue.Add(k)` | `queue.Max`, `queue.Queue.Name` |": "",
		"| `New` | – | there is no need |":                                                  "",
		"| `New` | `other.Thing` | of another module |":                                     "",
		"`ExampleNew` is the program.\n| `New` | `queue.Queue` | |":                         "",
		"| `New` | `queue.Heap` | |":                                                        "there is no queue.Heap",
		"| `New` | `queue.Queue.Put` | |":                                                   "there is no queue.Queue.Put",
		"| `New` | `queue.Queue` | or `queue.Heap` |":                                       "there is no queue.Heap",
		"It is `queue.Heap` here.\n| `New` | `queue.Queue` | |":                             "there is no queue.Heap",
		"| `New` | – | |":                                                                   "nothing says why",
		"| `New` | none | |":                                                                "neither a counterpart nor a –",
		"| `New` | `queue.Queue` |":                                                         "2 cells",
		"| `Old` | `queue.Queue` | |":                                                       "the page has no New",
		"`ExampleOther` is the program.\n| `New` | `queue.Queue` | |":                       "there is no ExampleOther",
		"The text may say New.\n\n| `Newer` | `queue.Queue` | `New` |\n":                    "the page has no New",
	} {
		found := strings.Join(d.table(text, []string{"New"}, examples), "\n")
		if want == "" && found != "" || !strings.Contains(found, want) {
			t.Errorf("%s\nfound %q, want %q", text, found, want)
		}
	}
	page := "`queue.Queue`, `Queue.Name`, `other.Thing`, `queue.Heap`, `Queue.Size`\n```go\n`queue.Never`\n```\n"
	if found, want := d.page(page), []string{"there is no queue.Heap", "no package has Queue.Size"}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}

// A type with parameters embeds no unexported type without them that has more than five methods:
// for each of its instances, in each package that has one, the compiler would make all of them
// again, twice. The tests of store took a minute to compile when its core was embedded.
func TestGenericTypesEmbedNoCore(t *testing.T) {
	methods := make(map[string]int) // by folder and type
	for _, s := range libraryFiles(t) {
		for _, d := range s.syntax(t).Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Recv != nil {
				methods[path.Join(path.Dir(s.name), receiver(d.Recv.List[0].Type))]++
			}
		}
	}
	generic := 0
	for _, s := range libraryFiles(t) {
		for _, typ := range typesOf(s.syntax(t)) {
			if typ.TypeParams == nil {
				continue
			}
			generic++
			for _, name := range embedded(typ) {
				if n := methods[path.Join(path.Dir(s.name), name)]; n > 5 {
					t.Errorf("%s: %s embeds %s, which has %d methods: give the field a name", s.name, typ.Name, name, n)
				}
			}
		}
	}
	if generic < 50 || methods["store/core"] < 50 {
		t.Errorf("found %d types with parameters, and %d methods of store's core: does the test look at the right places?", generic, methods["store/core"])
	}
}

func TestCheckOfEmbeddedFindsACore(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "", "package p; type a[T any] struct { *core; b *core; Options; c.D; E[T] }", 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := embedded(typesOf(f)[0]); !slices.Equal(got, []string{"core"}) {
		t.Errorf("embedded: %q", got)
	}
}

// typesOf are the types that a file declares.
func typesOf(f *ast.File) (all []*ast.TypeSpec) {
	for _, d := range f.Decls {
		if d, ok := d.(*ast.GenDecl); ok {
			for _, spec := range d.Specs {
				if typ, ok := spec.(*ast.TypeSpec); ok {
					all = append(all, typ)
				}
			}
		}
	}
	return all
}

// embedded are the unexported types of its own package, without parameters, that a struct embeds.
func embedded(typ *ast.TypeSpec) (names []string) {
	if _, ok := typ.Type.(*ast.StructType); !ok {
		return nil
	}
	for _, field := range members(typ) {
		e := field.Type
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		}
		if id, ok := e.(*ast.Ident); ok && len(field.Names) == 0 && !id.IsExported() {
			names = append(names, id.Name)
		}
	}
	return names
}
