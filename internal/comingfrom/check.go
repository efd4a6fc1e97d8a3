package comingfrom

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// packages is what a page may name, and where it lies under the root.
var packages = map[string]string{
	"api": "reconcile/web/api", "cache": "store/cache", "campaign": "store/storetest/campaign", "cli": "cmd/tend/cli", "debug": "reconcile/web/debug",
	"declare": "reconcile/declare", "depend": "reconcile/depend", "dependtest": "store/storetest/dependtest", "etcd": "store/etcd", "external": "reconcile/external",
	"file": "store/file", "lease": "reconcile/lease", "leasetest": "store/storetest/leasetest", "lifecycle": "reconcile/lifecycle", "memory": "store/memory",
	"metrics": "metrics", "objects": "store/objects", "postgres": "store/postgres", "program": "reconcile/program",
	"queue": "queue", "quota": "reconcile/quota", "quotatest": "store/storetest/quotatest", "ratelimit": "queue/ratelimit", "reconcile": "reconcile", "reconciletest": "reconcile/reconciletest",
	"store": "store", "storetest": "store/storetest", "tracing": "metrics/tracing", "web": "reconcile/web", "workqueue": "queue/workqueue",
}

var (
	quoted  = regexp.MustCompile("`([^`]+)`")
	example = regexp.MustCompile(`^Example[A-Z_]?\w*$`)
	member  = regexp.MustCompile(`^[A-Z]\w*\.[A-Z]\w*$`)
	block   = regexp.MustCompile("(?ms)^```.*?^```")
)

// Check reads a page and returns everything that is wrong with it, joined: a name
// of theirs that it does not have, a name of ours that the code does not have, a
// row without a counterpart and without a reason, an Example that is not in the
// tests beside the page. Nil: nothing.
func Check(page string, theirs []string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	c, err := newChecker(filepath.Dir(page))
	if err != nil {
		return err
	}
	if err := declarations(filepath.Dir(page), true, func(d string) { c.examples[d] = true }); err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `") {
			c.row(strings.TrimSpace(line))
		} else {
			c.prose(line)
		}
	}
	for _, name := range theirs {
		if !c.theirs[name] {
			c.complain("the page has no %s", name)
		}
	}
	return errors.Join(c.wrong...)
}

// CheckNames reads any other page and returns the names that it quotes and the code does
// not have, joined: pkg.Name of our packages, and Type.Member, which one of them must have.
// What stands in blocks of code is not looked at.
func CheckNames(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	c, err := newChecker(filepath.Dir(page))
	if err != nil {
		return err
	}
	members := map[string]bool{}
	for name := range c.ours {
		_, member, _ := strings.Cut(name, ".")
		members[member] = true
	}
	prose := block.ReplaceAllString(string(text), "")
	c.prose(prose)
	for _, m := range quoted.FindAllStringSubmatch(prose, -1) {
		if member.MatchString(m[1]) && !members[m[1]] {
			c.complain("no package has %s", m[1])
		}
	}
	return errors.Join(c.wrong...)
}

// Declared returns what our packages export, as pkg.Name and pkg.Type.Member. Dir is the
// root of the repository, or a folder below it.
func Declared(dir string) ([]string, error) {
	c, err := newChecker(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range c.ours {
		_, ours, _ := strings.Cut(name, ".")
		outer, inner, _ := strings.Cut(ours, ".")
		if ast.IsExported(outer) && (inner == "" || ast.IsExported(inner)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// newChecker knows the declarations of the packages below the go.mod file above dir.
func newChecker(dir string) (*checker, error) {
	root, err := findRoot(dir)
	if err != nil {
		return nil, err
	}
	ours, err := declaredUnder(root)
	if err != nil {
		return nil, err
	}
	return &checker{ours: ours, examples: map[string]bool{}, theirs: map[string]bool{}}, nil
}

// ofRoots is what declaredUnder has found; a process checks many pages.
var ofRoots = struct {
	sync.Mutex
	names map[string]map[string]bool // by root
}{names: map[string]map[string]bool{}}

// declaredUnder reads the declarations of the packages under root, once. The map is not to
// be changed.
func declaredUnder(root string) (map[string]bool, error) {
	ofRoots.Lock()
	defer ofRoots.Unlock()
	if names := ofRoots.names[root]; names != nil {
		return names, nil
	}
	names := map[string]bool{}
	for name, folder := range packages {
		if err := declarations(filepath.Join(root, filepath.FromSlash(folder)), false, func(d string) { names[name+"."+d] = true }); err != nil {
			return nil, err
		}
	}
	ofRoots.names[root] = names
	return names, nil
}

type checker struct {
	ours     map[string]bool // pkg.Name and pkg.Type.Member
	examples map[string]bool // what is declared in the tests beside the page
	theirs   map[string]bool // names in the table's first column
	wrong    []error
}

func (c *checker) complain(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Errorf(format, args...))
}

func (c *checker) row(line string) {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	if len(cells) != 3 {
		c.complain("%d cells in %q, want 3", len(cells), line)
		return
	}
	for _, m := range quoted.FindAllStringSubmatch(cells[0], -1) {
		c.theirs[m[1]] = true
	}
	switch here := strings.TrimSpace(cells[1]); {
	case here != "–" && !quoted.MatchString(here):
		c.complain("%s has neither a counterpart nor a –", cells[0])
	case here == "–" && strings.TrimSpace(cells[2]) == "":
		c.complain("%s has no counterpart, and nothing says why", cells[0])
	}
	c.prose(cells[1])
	c.prose(cells[2])
}

// prose looks up what is quoted; `pkg.Name(args)` and `pkg.Name{fields}` are names
// too.
func (c *checker) prose(text string) {
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		name := m[1]
		if i := strings.IndexAny(name, "({"); i >= 0 {
			name = name[:i]
		}
		pkg, _, dotted := strings.Cut(name, ".")
		switch {
		case dotted && packages[pkg] != "" && !c.ours[name]:
			c.complain("there is no %s", name)
		case example.MatchString(name) && !c.examples[name]:
			c.complain("there is no %s beside the page", name)
		}
	}
}

// findRoot is the directory of the go.mod above dir.
func findRoot(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		above := filepath.Dir(dir)
		if above == dir {
			err = errors.New("there is no go.mod above the page")
		}
		dir = above
	}
	return "", err
}

// declarations calls note for what a directory's files declare: T, F, T.Method
// and T.Field; of its tests, or of all other files.
func declarations(dir string, tests bool, note func(name string)) error {
	files, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil {
		return err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") != tests {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			declaration(d, note)
		}
	}
	return nil
}

func declaration(d ast.Decl, note func(string)) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = receiver(d.Recv.List[0].Type) + "." + name
		}
		note(name)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					note(n.Name)
				}
			case *ast.TypeSpec:
				note(s.Name.Name)
				members(s, note)
			}
		}
	}
}

func members(s *ast.TypeSpec, note func(string)) {
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
			note(s.Name.Name + "." + n.Name)
		}
	}
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
