package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/mutate"
	"github.com/tendhq/tend/internal/promises"
)

// witnesses are the packages whose tests may notice a mutant of the package: its own, and those
// of the controls in it.
func witnesses(pkg string) (pkgs []string, err error) {
	rows, err := promises.Rows()
	if err != nil {
		return nil, err
	}
	if own, err := filepath.Glob(filepath.Join(pkg, "*_test.go")); err == nil && len(own) > 0 {
		pkgs = append(pkgs, pkg)
	}
	for _, r := range rows {
		for _, c := range r.Controls {
			if c.Package() == pkg && !slices.Contains(pkgs, c.Test.Package) {
				pkgs = append(pkgs, c.Test.Package)
			}
		}
	}
	return pkgs, nil
}

// A reach is a test, and the mutants that it can notice.
type reach struct {
	test
	ids  map[int]bool
	took time.Duration
}

// score tries the mutants of a package's functions until the end of its time, in a random order,
// and prints the share that was caught and those that were not. It returns how many it tried.
func score(ctx context.Context, o options, pkg string, end time.Time, want func(pkg, fn string) bool) (tried int, err error) {
	tests, err := witnesses(pkg)
	if err != nil {
		return 0, err
	}
	most, stop := context.WithDeadline(ctx, end)
	defer stop()
	b, err := newBench(most, []string{pkg}, tests, want)
	if err != nil {
		return 0, err
	}
	defer b.close()
	for _, t := range tests {
		if err := b.built[t]; err != nil {
			fmt.Printf("%s: without the tests of %s: %v\n", pkg, t, err)
		}
	}
	reaches, err := b.reaches(ctx, tests, time.Now().Add(time.Until(end)/2), o.slow)
	if err != nil {
		return 0, err
	}
	list := b.mutants
	rand.New(rand.NewPCG(o.seed, 0)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	var mu sync.Mutex
	var survived []mutate.Mutant
	unreached, hang := 0, 0
	tries := list
	if o.sample > 0 {
		tries = list[:min(o.sample, len(list))]
	}
	each(len(tries), func(i int) {
		if time.Now().After(end) || ctx.Err() != nil {
			return
		}
		caught, some, err := b.caught(ctx, tries[i], reaches)
		mu.Lock()
		defer mu.Unlock()
		tried++
		if !some {
			unreached++
		}
		switch {
		case caught:
		case errors.Is(err, errHangs):
			hang++
		default:
			survived = append(survived, list[i])
		}
	})
	slices.SortFunc(survived, func(a, b mutate.Mutant) int { return cmp.Compare(a.ID, b.ID) })
	for _, m := range survived {
		fmt.Printf("survived %s\n", m)
	}
	judged := tried - hang
	fmt.Printf("%s: %d of %d mutants were caught (%.0f %%), %d were not reached; tests hang with %d more; there are %d\n",
		pkg, judged-len(survived), judged, 100*float64(judged-len(survived))/float64(max(judged, 1)), unreached, hang, len(list))
	return tried, ctx.Err()
}

// reaches runs each test alone without a mutant, until the end of its time.
func (b *bench) reaches(ctx context.Context, pkgs []string, end time.Time, slow time.Duration) (all []reach, err error) {
	var tests []test
	for _, pkg := range pkgs {
		if b.built[pkg] != nil {
			continue
		}
		cmd := exec.CommandContext(ctx, b.binary(pkg), "-test.list", "^(Test|Fuzz)")
		cmd.Dir = pkg
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: its tests cannot be listed: %w", pkg, err)
		}
		for line := range strings.Lines(string(out)) {
			if name := strings.TrimSpace(line); strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") {
				tests = append(tests, test{pkg, name})
			}
		}
	}
	var mu sync.Mutex
	left := 0
	each(len(tests), func(i int) {
		r := reach{test: tests[i]}
		err := errTime
		if time.Now().Before(end) {
			r.ids, r.took, err = b.reached(ctx, tests[i])
		}
		if err == nil && r.took > slow {
			err = fmt.Errorf("it takes %v", r.took.Round(time.Second))
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			left++
			fmt.Printf("without %s: %v\n", r.test, err)
		} else if len(r.ids) > 0 {
			all = append(all, r)
		}
	})
	if left > 0 {
		fmt.Printf("%d of %d tests are left out\n", left, len(tests))
	}
	slices.SortFunc(all, func(a, b reach) int { return cmp.Compare(a.took, b.took) })
	return all, ctx.Err()
}

// caught tells whether a test notices the mutant, and whether one reaches it. The quickest tests
// are asked first, more and more of them in one process. The error is errHangs if tests hang with
// it, and none that ended noticed it.
func (b *bench) caught(ctx context.Context, m mutate.Mutant, reaches []reach) (caught, some bool, hang error) {
	of := map[string][]reach{}
	var pkgs []string
	for _, r := range reaches {
		if r.ids[m.ID] {
			if of[r.pkg] == nil {
				pkgs = append(pkgs, r.pkg)
			}
			of[r.pkg] = append(of[r.pkg], r)
		}
	}
	for n := 4; len(pkgs) > 0; n *= 4 {
		pkgs = slices.DeleteFunc(pkgs, func(pkg string) bool {
			if caught || ctx.Err() != nil {
				return true
			}
			some := of[pkg][:min(n, len(of[pkg]))]
			of[pkg] = of[pkg][len(some):]
			var names []string
			var took time.Duration
			for _, r := range some {
				names, took = append(names, r.name), took+r.took
			}
			failed, err := b.broken(ctx, test{pkg, "(" + strings.Join(names, "|") + ")"}, m.ID, took)
			if caught = failed && err == nil; errors.Is(err, errHangs) {
				hang = err
				return true // the rest would hang as well
			}
			return len(of[pkg]) == 0
		})
		some = true
	}
	return caught, some, hang
}

// scoreChanged tries the mutants of the functions that a line was changed in since a commit. What is there for tests
// and measurements alone is left out: no test is for it.
func scoreChanged(ctx context.Context, o options, end time.Time) error {
	cmd := exec.CommandContext(ctx, "git", "diff", "-U0", "--no-color", "--no-ext-diff", o.changed, "--", "*.go", ":!*_test.go", ":!bench", ":!examples", ":!internal/check", ":!internal/debugworld", ":!internal/mutate", ":!store/storetest")
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("git diff: %w", err)
	}
	fns, pkgs, err := changedFuncs(out)
	if err != nil {
		return err
	}
	for i, pkg := range pkgs {
		share := time.Until(end) / time.Duration(len(pkgs)-i)
		_, err := score(ctx, o, pkg, time.Now().Add(share), func(pkg, fn string) bool { return fns[mutate.Func(pkg, fn)] })
		if err != nil {
			fmt.Printf("%s: %v\n", pkg, err) // one package that cannot be tried hides no other
		}
	}
	return ctx.Err()
}

var hunk = regexp.MustCompile(`^@@ -\S+ \+(\d+)(?:,(\d+))? @@`)

// changedFuncs reads a diff without context: the functions that it touches, and their packages.
func changedFuncs(diff []byte) (fns map[string]bool, pkgs []string, err error) {
	fns = map[string]bool{}
	lines := map[string][][2]int{}
	file := ""
	for s := bufio.NewScanner(bytes.NewReader(diff)); s.Scan(); {
		if name, ok := strings.CutPrefix(s.Text(), "+++ b/"); ok {
			file = name
		} else if strings.HasPrefix(s.Text(), "+++ ") {
			file = ""
		}
		if h := hunk.FindStringSubmatch(s.Text()); h != nil && file != "" {
			from, _ := strconv.Atoi(h[1])
			n, err := strconv.Atoi(cmp.Or(h[2], "1"))
			if err != nil {
				return nil, nil, err
			}
			lines[file] = append(lines[file], [2]int{from, from + max(n, 1) - 1})
		}
	}
	for file, changed := range lines {
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		pkg := path.Dir(file)
		mutate.Functions(parsed, func(name string, d ast.Decl) {
			from, to := fset.Position(d.Pos()).Line, fset.Position(d.End()).Line
			if slices.ContainsFunc(changed, func(c [2]int) bool { return c[0] <= to && from <= c[1] }) {
				fns[mutate.Func(pkg, name)] = true
				if !slices.Contains(pkgs, pkg) {
					pkgs = append(pkgs, pkg)
				}
			}
		})
	}
	slices.Sort(pkgs)
	return fns, pkgs, nil
}
