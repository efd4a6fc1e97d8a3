package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/mutate"
	"github.com/tendhq/tend/internal/promises"
)

// chosen are the controls whose line has one of the parts in it, each once.
func chosen(parts []string) (list []promises.Control, err error) {
	rows, err := promises.Rows()
	if err != nil {
		return nil, err
	}
	seen := map[promises.Control]bool{}
	for _, r := range rows {
		for _, c := range r.Controls {
			if !seen[c] && (len(parts) == 0 || slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(c.String(), p) })) {
				list = append(list, c)
			}
			seen[c] = true
		}
	}
	if len(list) == 0 {
		return nil, errors.New("there is no such control")
	}
	return list, nil
}

// partOf returns the i-th of n parts of the list, for "i/n". The controls of a package's tests
// are in one part, so that these are built once; the largest package goes first, each into the
// part that is smallest by then.
func partOf(list []promises.Control, part string) ([]promises.Control, error) {
	var i, n int
	if _, err := fmt.Sscanf(part, "%d/%d", &i, &n); err != nil || i < 1 || i > n {
		return nil, fmt.Errorf("-part %q: want i/n with 1 <= i <= n", part)
	}
	parts := make([][]promises.Control, n)
	of := byPackage(list)
	for _, pkg := range slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(of[b]), len(of[a])), cmp.Compare(a, b))
	}) {
		smallest := slices.MinFunc(parts, func(a, b []promises.Control) int { return cmp.Compare(len(a), len(b)) })
		at := slices.IndexFunc(parts, func(p []promises.Control) bool { return len(p) == len(smallest) })
		parts[at] = append(parts[at], of[pkg]...)
	}
	return parts[i-1], nil
}

// byPackage sorts controls by the package of their tests.
func byPackage(list []promises.Control) map[string][]promises.Control {
	of := map[string][]promises.Control{}
	for _, c := range list {
		of[c.Test.Package] = append(of[c.Test.Package], c)
	}
	return of
}

// check runs the controls until the end of its time, and fails if one is lost.
func check(ctx context.Context, list []promises.Control, end time.Time, o options) error {
	held, left := 0, 0
	var lost []promises.Control
	of := byPackage(list)
	for _, pkg := range slices.Sorted(maps.Keys(of)) {
		if time.Now().After(end) {
			left += len(of[pkg])
			continue
		}
		verdicts, err := checkPackage(ctx, pkg, of[pkg], end, o.seed)
		if errors.Is(err, context.DeadlineExceeded) {
			left += len(of[pkg])
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", pkg, err)
		}
		for i, c := range of[pkg] {
			switch v := verdicts[i]; {
			case errors.Is(v, errTime):
				left++
			case v == nil:
				held++
			default:
				lost = append(lost, c)
				fmt.Printf("LOST control %s\n     %v\n", c, v)
			}
		}
		fmt.Printf("%s: %d controls\n", pkg, len(of[pkg]))
	}
	fmt.Printf("%d controls hold, %d are lost; there was no time for %d\n", held, len(lost), left)
	if len(lost) == 0 {
		return nil
	}
	if o.mend {
		if err := mendAll(ctx, lost); err != nil {
			return err
		}
	}
	return fmt.Errorf("a control is lost: a test does not notice any more what it is there for. If the function was renamed, or its work is done elsewhere now, write that function into the line in %s; -mend looks for one", promises.File)
}

var errTime = errors.New("the time is over")

// checkPackage says of each control of a package's tests why it is lost; nil: it holds. The seed says which tests come
// first: where the time suffices for some of them, others have their turn with another seed.
func checkPackage(ctx context.Context, pkg string, list []promises.Control, end time.Time, seed uint64) ([]error, error) {
	want, broken := map[string]bool{}, []string{}
	var tests []string
	for _, c := range list {
		want[c.Func] = true
		if !slices.Contains(broken, c.Package()) {
			broken = append(broken, c.Package())
		}
		if !slices.Contains(tests, c.Test.Name) {
			tests = append(tests, c.Test.Name)
		}
	}
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(tests), func(i, j int) { tests[i], tests[j] = tests[j], tests[i] })
	most, stop := context.WithDeadline(ctx, end)
	defer stop()
	b, err := newBench(most, broken, []string{pkg}, func(pkg, fn string) bool { return want[mutate.Func(pkg, fn)] })
	if err != nil {
		return nil, err
	}
	defer b.close()
	verdicts := make([]error, len(list))
	each(len(tests), func(n int) {
		t := test{pkg, tests[n]}
		var ids map[int]bool
		var took time.Duration
		err := errTime
		if time.Now().Before(end) {
			ids, took, err = b.reached(ctx, t)
		}
		for i, c := range list {
			if c.Test.Name == t.name {
				if verdicts[i] = err; err == nil {
					verdicts[i] = b.control(ctx, c, ids, took)
				}
			}
		}
	})
	return verdicts, ctx.Err()
}

// tries is how many a test of many goroutines has to notice a mutant.
const tries = 3

// control says why a control is lost; nil: it holds.
func (b *bench) control(ctx context.Context, c promises.Control, ids map[int]bool, took time.Duration) error {
	there, some := false, false
	var reached []mutate.Mutant
	for _, m := range b.mutants {
		if mutate.Func(m.Package, m.Func) != c.Func {
			continue
		}
		there = true
		if m.Op == c.Op {
			some = true
			if ids[m.ID] {
				reached = append(reached, m)
			}
		}
	}
	switch {
	case !there:
		return fmt.Errorf("there is no function %s", c.Func)
	case !some:
		return fmt.Errorf("there is nothing in the function for the operator %s (%s)", c.Op, mutate.Operators[c.Op])
	case len(reached) == 0:
		return errors.New("the test reaches none of the operator's mutants there")
	}
	hang := map[int]bool{}
	for range tries {
		for _, m := range reached {
			if hang[m.ID] {
				continue
			}
			failed, err := b.broken(ctx, test{c.Test.Package, c.Test.Name}, m.ID, took)
			switch hang[m.ID] = errors.Is(err, errHangs); {
			case hang[m.ID]:
			case err != nil || failed:
				return err
			}
		}
	}
	if hang[reached[0].ID] {
		return fmt.Errorf("the test hangs with %s: it must say what is wrong", reached[0])
	}
	return fmt.Errorf("the test passes with each of %d mutants, such as %s", len(reached), reached[0])
}

// mostProposals is how many mutants are tried for a control that is lost.
const mostProposals = 60

// mendAll looks for another control of the same test for each that is lost, and writes it into
// its line of the table.
func mendAll(ctx context.Context, lost []promises.Control) error {
	text, err := os.ReadFile(promises.File)
	if err != nil {
		return err
	}
	table := string(text)
	for _, of := range byPackage(lost) {
		var broken []string
		for _, c := range of {
			if !slices.Contains(broken, c.Package()) {
				broken = append(broken, c.Package())
			}
		}
		b, err := newBench(ctx, broken, []string{of[0].Test.Package}, func(string, string) bool { return true })
		if err != nil {
			return err
		}
		var mu sync.Mutex
		each(len(of), func(i int) {
			found, err := b.propose(ctx, of[i])
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				fmt.Printf("nothing for control %s: %v\n", of[i], err)
				return
			}
			fmt.Printf("instead of  control %s\n            control %s\n", of[i], found)
			table = promises.Replace(table, of[i], found)
		})
		b.close()
	}
	return os.WriteFile(promises.File, []byte(table), 0o644)
}

// propose looks for a control of the same test: in the same function, in one of the same name,
// and in others of the package.
func (b *bench) propose(ctx context.Context, c promises.Control) (promises.Control, error) {
	t := test{c.Test.Package, c.Test.Name}
	ids, took, err := b.reached(ctx, t)
	if err != nil {
		return c, err
	}
	last := func(fn string) string { return fn[strings.LastIndex(fn, ".")+1:] }
	var near []mutate.Mutant
	for _, m := range b.mutants {
		if ids[m.ID] && m.Package == c.Package() {
			near = append(near, m)
		}
	}
	rank := func(m mutate.Mutant) (r int) {
		fn := mutate.Func(m.Package, m.Func)
		if fn != c.Func {
			r += 4
		}
		if last(fn) != last(c.Func) {
			r += 2
		}
		if m.Op != c.Op {
			r++
		}
		return r
	}
	slices.SortStableFunc(near, func(a, b mutate.Mutant) int { return cmp.Compare(rank(a), rank(b)) })
	for i, m := range near {
		if i >= mostProposals {
			break
		}
		if failed, err := b.broken(ctx, t, m.ID, took); err != nil && !errors.Is(err, errHangs) || failed {
			return promises.Control{Test: c.Test, Func: mutate.Func(m.Package, m.Func), Op: m.Op}, err
		}
	}
	return c, fmt.Errorf("%d mutants were tried", min(len(near), mostProposals))
}
