package mutate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// The variables that a test binary looks at: the number of the mutant that is on, and the file
// that lists the mutants that it reaches.
const (
	Env       = "TEND_MUTANT"
	EnvRecord = "TEND_MUTANT_RECORD"
)

// A Mutant is one change of one function.
type Mutant struct {
	ID      int // from 1
	Package string
	Func    string // see [Name]
	Op      string // see [Operators]
	Index   int    // from 1, of the operator in the function
	File    string // from the root
	Line    int
	Text    string // what is changed
}

// Func is the name of a function without its file: queue.(*shard).take.
func Func(pkg, fn string) string { return pkg + "." + fn }

func (m Mutant) String() string {
	return fmt.Sprintf("%s %s #%d (%s:%d: %s)", Func(m.Package, m.Func), m.Op, m.Index, m.File, m.Line, m.Text)
}

// source is a package that is changed.
type source struct {
	rel, name string
	fset      *token.FileSet
	files     []*sourceFile
	info      *types.Info
	types     *types.Package
	mutants   []*made
	always    []place // edits that are no mutants
}

type sourceFile struct {
	rel, path string
	text      []byte
	ast       *ast.File
	imports   map[string]string // the name of each package by its path
}

// made is a mutant with the edits that make it.
type made struct {
	Mutant
	file  *sourceFile
	edits []edit
	gone  bool // it does not compile
}

type place struct {
	file *sourceFile
	edit edit
}

// oneLine is a piece of the file, shortened.
func (f *sourceFile) oneLine(from, to int) string {
	text := strings.Join(strings.Fields(string(f.text[from:to])), " ")
	if r := []rune(text); len(r) > 60 {
		text = string(r[:57]) + "..."
	}
	return text
}

// listed is what go list says of a package.
type listed struct {
	Dir, ImportPath, Name, Export string
	GoFiles                       []string
}

// Write makes the mutants of the functions that are wanted in the packages, which are folders
// from the repository's root, and writes into the folder dir what go build -overlay needs to
// compile all of them in. It returns the name of that file, and the mutants.
func Write(root, dir string, pkgs []string, want func(pkg, fn string) bool) (overlay string, all []Mutant, err error) {
	root, err = filepath.Abs(root)
	if err != nil {
		return "", nil, err
	}
	list, exports, err := golist(root, pkgs)
	if err != nil {
		return "", nil, err
	}
	replace := map[string]string{}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, l := range list {
		p, err := load(root, fset, l)
		if err != nil {
			return "", nil, err
		}
		if err := p.check(imports); err != nil {
			return "", nil, err
		}
		p.find(want)
		if len(p.mutants) == 0 {
			continue
		}
		for _, m := range p.mutants {
			m.ID = len(all) + 1
			all = append(all, m.Mutant)
		}
		if err := p.compile(imports); err != nil {
			return "", nil, fmt.Errorf("%s: %w", p.rel, err)
		}
		if err := p.write(dir, l.Dir, replace); err != nil {
			return "", nil, err
		}
		for _, m := range p.mutants {
			if m.gone {
				all[m.ID-1] = Mutant{}
			}
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", nil, err
	}
	kept := all[:0:0]
	for _, m := range all {
		if m.ID != 0 {
			kept = append(kept, m)
		}
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, kept, os.WriteFile(overlay, text, 0o644)
}

// golist asks for the packages, and for where the compiler left what it exports of each that
// they import.
func golist(root string, pkgs []string) (list []listed, exports map[string]string, err error) {
	args := []string{"list", "-export", "-deps", "-json=Dir,ImportPath,Name,Export,GoFiles", "cmp", "os", "strconv", "sync"} // those are what the switch imports
	wanted := map[string]bool{}
	for _, p := range pkgs {
		args = append(args, "./"+p)
		wanted[filepath.Join(root, p)] = true
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w", err)
	}
	exports = map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return list, exports, nil
		} else if err != nil {
			return nil, nil, err
		}
		exports[l.ImportPath] = l.Export
		if wanted[l.Dir] {
			list = append(list, l)
		}
	}
}

func load(root string, fset *token.FileSet, l listed) (*source, error) {
	rel, err := filepath.Rel(root, l.Dir)
	if err != nil {
		return nil, err
	}
	p := &source{rel: filepath.ToSlash(rel), name: l.Name, fset: fset}
	for _, name := range l.GoFiles {
		f := &sourceFile{rel: filepath.ToSlash(filepath.Join(rel, name)), path: filepath.Join(l.Dir, name)}
		if f.text, err = os.ReadFile(f.path); err != nil {
			return nil, err
		}
		if f.ast, err = parser.ParseFile(p.fset, f.path, f.text, parser.SkipObjectResolution|parser.ParseComments); err != nil {
			return nil, err
		}
		p.files = append(p.files, f)
	}
	return p, nil
}

// check type-checks the package as it is, for what the operators ask about types.
func (p *source) check(imports types.Importer) (err error) {
	p.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	var all []*ast.File
	for _, f := range p.files {
		all = append(all, f.ast)
	}
	if p.types, err = (&types.Config{Importer: imports}).Check(p.name, p.fset, all, p.info); err != nil {
		return fmt.Errorf("%s: %w", p.rel, err)
	}
	for _, f := range p.files {
		f.imports = map[string]string{}
		for _, i := range f.ast.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			for _, imported := range p.types.Imports() {
				if imported.Path() == path {
					f.imports[path] = imported.Name()
				}
			}
			if i.Name != nil {
				f.imports[path] = i.Name.Name
			}
		}
	}
	return nil
}

// find makes the mutants of all functions that are wanted.
func (p *source) find(want func(pkg, fn string) bool) {
	for _, f := range p.files {
		Functions(f.ast, func(name string, d ast.Decl) {
			if !want(p.rel, name) {
				return
			}
			find := &finder{pkg: p, file: f, fn: name, n: map[string]int{}, bool: map[ast.Expr]bool{}}
			switch d := d.(type) {
			case *ast.FuncDecl:
				find.function(d.Type, d.Body, true)
				if d.Type.Results != nil {
					find.ends(d.Body)
				}
			case *ast.GenDecl:
				ast.Inspect(d, find.node)
			}
		})
	}
}

// Functions calls f for each function of a file, and for each declaration of variables, with its
// name: take, shard.take, (*shard).take, var x.
func Functions(file *ast.File, f func(name string, d ast.Decl)) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body != nil {
				f(funcName(d), d)
			}
		case *ast.GenDecl:
			if v, ok := d.Specs[0].(*ast.ValueSpec); len(d.Specs) > 0 && ok && d.Tok == token.VAR {
				f("var "+v.Names[0].Name, d)
			}
		}
	}
}

func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	t, star := d.Recv.List[0].Type, false
	if s, ok := t.(*ast.StarExpr); ok {
		t, star = s.X, true
	}
	switch x := t.(type) { // type parameters are left out
	case *ast.IndexExpr:
		t = x.X
	case *ast.IndexListExpr:
		t = x.X
	}
	name := "?"
	if id, ok := t.(*ast.Ident); ok {
		name = id.Name
	}
	if star {
		name = "(*" + name + ")"
	}
	return name + "." + d.Name.Name
}
