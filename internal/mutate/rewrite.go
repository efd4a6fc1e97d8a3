package mutate

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// An edit puts text around a piece of a file, from at to end; an end of -1: before it only. If
// with is set it replaces the text from token to tokenEnd.
type edit struct {
	at, end         int
	before, after   string
	token, tokenEnd int
	with            string
}

//go:embed switch.go.txt
var switchText string

// switchFile is added to each package that is changed.
const switchFile = "zz_mutants.go"

// region is where a mutant's text is in the changed file.
type region struct {
	from, to int
	made     *made
}

// rewrite is the file with its mutants. Edits of outer nodes come first in the list, and so
// theirs is the outermost text.
func (p *source) rewrite(f *sourceFile) (text []byte, regions []region) {
	opens, closes, tokens := map[int][]region{}, map[int][]region{}, map[int]edit{}
	texts := map[int]string{}
	n := 0
	put := func(e edit, m *made) {
		id := ""
		if m != nil {
			id = strconv.Itoa(m.ID)
		}
		n++
		texts[2*n], texts[2*n+1] = strings.ReplaceAll(e.before, "%N", id), strings.ReplaceAll(e.after, "%N", id)
		opens[e.at] = append(opens[e.at], region{from: n, made: m})
		if e.end >= 0 {
			closes[e.end] = append(closes[e.end], region{from: n, made: m})
		}
		if e.with != "" {
			e.with = strings.ReplaceAll(e.with, "%N", id)
			tokens[e.token] = e
		}
	}
	for _, m := range p.mutants {
		if m.file == f && !m.gone {
			for _, e := range m.edits {
				put(e, m)
			}
		}
	}
	for _, a := range p.always {
		if a.file == f {
			put(a.edit, nil)
		}
	}
	begun := map[int]int{}
	for i := 0; i <= len(f.text); i++ {
		for _, r := range slices.Backward(closes[i]) {
			text = append(text, texts[2*r.from+1]...)
			regions = append(regions, region{begun[r.from], len(text), r.made})
		}
		for _, r := range opens[i] {
			begun[r.from] = len(text)
			text = append(text, texts[2*r.from]...)
			regions = append(regions, region{begun[r.from], len(text), r.made})
		}
		if e, ok := tokens[i]; ok {
			text = append(text, e.with...)
			i = e.tokenEnd - 1
			continue
		}
		if i < len(f.text) {
			text = append(text, f.text[i])
		}
	}
	return text, regions
}

// compile takes out the mutants that do not compile, until the rest does.
func (p *source) compile(imports types.Importer) error {
	for range 30 {
		fset, regions := token.NewFileSet(), map[string][]region{}
		var files []*ast.File
		for _, f := range p.files {
			text, of := p.rewrite(f)
			parsed, err := parser.ParseFile(fset, f.path, text, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files, regions[f.path] = append(files, parsed), of
		}
		parsed, err := parser.ParseFile(fset, switchFile, p.switches(), parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		var bad []types.Error
		conf := types.Config{Importer: imports, Error: func(err error) { bad = append(bad, err.(types.Error)) }} //nolint:errorlint,forcetypeassert // as documented
		if _, err = conf.Check(p.name, fset, append(files, parsed), nil); err == nil {
			return nil
		}
		took := false
		for _, e := range bad {
			at := fset.PositionFor(e.Pos, false)
			if m := blame(regions[at.Filename], at.Offset); m != nil {
				m.gone, took = true, true
			}
		}
		if !took {
			return fmt.Errorf("with mutants: %w", err)
		}
	}
	return fmt.Errorf("its mutants do not compile, whatever is taken out")
}

// blame finds the innermost mutant around an error.
func blame(regions []region, at int) (worst *made) {
	size := 0
	for _, r := range regions {
		if r.made != nil && !r.made.gone && r.from <= at && at <= r.to && (worst == nil || r.to-r.from < size) {
			worst, size = r.made, r.to-r.from
		}
	}
	return worst
}

func (p *source) switches() string {
	return strings.Replace(switchText, "package mutant", "package "+p.name, 1)
}

// write leaves the changed files in dir, and notes in replace which file each stands for.
func (p *source) write(dir, pkg string, replace map[string]string) error {
	put := func(name string, text []byte) error {
		to := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		replace[name] = to
		return os.WriteFile(to, text, 0o644)
	}
	for _, f := range p.files {
		text, _ := p.rewrite(f)
		if string(text) == string(f.text) {
			continue
		}
		if err := put(f.path, text); err != nil {
			return err
		}
	}
	return put(filepath.Join(pkg, switchFile), []byte(p.switches()))
}
