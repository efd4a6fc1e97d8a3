// Command mutants breaks tend on purpose, in one way after the other, and fails
// unless the test that is there for it notices.
//
//	go run ./bench/mutants           all of them
//	go run ./bench/mutants fence     those whose name has this in it
//	go run ./bench/mutants -each 20  each of them 20 times, and all must be caught
//	go run ./bench/mutants -part 1/3 those of a third of the packages
//
// It runs from the root of the repository. Each package's tests are built once,
// with all mutants in them and each of them off; every test named is first run so,
// and must pass. internal/mutants has the list.
//
// A test of many goroutines may miss a mutant now and then, and so it has five
// tries; -each says how often it does.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/mutants"
)

func main() {
	log.SetFlags(0)
	times := flag.Int("each", 0, "try each mutant so often, and count; 0: until it is caught, five times at most")
	part := flag.String("part", "1/1", "i/n: only the i-th of n parts, each of about as many mutants")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, "usage: mutants [-each n] [-part i/n] [part of a name ...]") }
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	list, err := partOf(chosen(flag.Args()), *part)
	if err == nil {
		err = run(ctx, list, *times)
	}
	if err != nil {
		stop()
		log.Fatal(err)
	}
}

// partOf returns the i-th of n parts of the list, for "i/n". The mutants of a package
// are in one part, so that its tests are built once; the largest package goes first,
// each into the part that is smallest by then.
func partOf(list []mutants.Mutant, part string) ([]mutants.Mutant, error) {
	var i, n int
	if _, err := fmt.Sscanf(part, "%d/%d", &i, &n); err != nil || i < 1 || i > n {
		return nil, fmt.Errorf("-part %q: want i/n with 1 <= i <= n", part)
	}
	of := make(map[string][]mutants.Mutant)
	for _, m := range list {
		of[m.Package] = append(of[m.Package], m)
	}
	parts := make([][]mutants.Mutant, n)
	for _, pkg := range slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(of[b]), len(of[a])), cmp.Compare(a, b))
	}) {
		smallest := 0
		for p := range parts {
			if len(parts[p]) < len(parts[smallest]) {
				smallest = p
			}
		}
		parts[smallest] = append(parts[smallest], of[pkg]...)
	}
	return parts[i-1], nil
}

func chosen(parts []string) (list []mutants.Mutant) {
	for _, m := range mutants.All {
		if len(parts) == 0 || slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(m.Name, p) }) {
			list = append(list, m)
		}
	}
	return list
}

func run(ctx context.Context, list []mutants.Mutant, times int) error {
	if _, err := os.Stat("go.work"); err != nil {
		return fmt.Errorf("run it from the root of the repository: %w", err)
	}
	if len(list) == 0 {
		return errors.New("there is no such mutant")
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := mutants.Overlay(".", dir)
	if err != nil {
		return err
	}
	if err := build(ctx, dir, overlay, list); err != nil {
		return err
	}
	escaped := 0
	took := make([]time.Duration, len(list))
	verdicts := each(list, func(i int, m mutants.Mutant) error {
		begin := time.Now()
		defer func() { took[i] = time.Since(begin) }()
		return try(ctx, dir, m, times)
	})
	for i, err := range verdicts {
		m := list[i]
		if err == nil {
			fmt.Printf("caught   %s, by %s %s (%.1f s)\n", m.Name, m.Package, m.Test, took[i].Seconds())
			continue
		}
		escaped++
		fmt.Printf("ESCAPED  %s: %v\n", m.Name, err)
	}
	fmt.Printf("%d of %d mutants were caught\n", len(list)-escaped, len(list))
	if escaped > 0 {
		return errors.New("there is a test that does not notice what it is there for")
	}
	return nil
}

// each calls f for all of the list, as many at a time as there are processors.
func each[T any](list []T, f func(int, T) error) []error {
	errs := make([]error, len(list))
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for i, x := range list {
		slots <- struct{}{}
		all.Go(func() { // as long as f; waited for below
			defer func() { <-slots }()
			errs[i] = f(i, x)
		})
	}
	all.Wait()
	return errs
}

func binary(dir, pkg string) string {
	return filepath.Join(dir, strings.ReplaceAll(pkg, "/", "_")+".test")
}

// build builds the tests of the packages. go build uses all processors itself.
func build(ctx context.Context, dir, overlay string, list []mutants.Mutant) error {
	for _, pkg := range packages(list) {
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", binary(dir, pkg), "./"+pkg)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("the mutants of %s do not build: %w\n%s", pkg, err, out)
		}
	}
	return nil
}

func packages(list []mutants.Mutant) (pkgs []string) {
	for _, m := range list {
		if !slices.Contains(pkgs, m.Package) {
			pkgs = append(pkgs, m.Package)
		}
	}
	return pkgs
}

// tries is how many a test has to notice a mutant.
const tries = 5

// try says why a mutant was not caught; nil: it was. With times it must be caught
// each of so many times.
func try(ctx context.Context, dir string, m mutants.Mutant, times int) error {
	began := time.Now()
	if out, err := test(ctx, dir, m, "", mostHealthy); err != nil {
		return fmt.Errorf("its test fails also when nothing is broken: %w\n%s", err, out)
	}
	limit := mostBroken(time.Since(began))
	missed, last, most := 0, "", times
	if times == 0 {
		most = tries
	}
	for range most {
		out, err := test(ctx, dir, m, m.Name, limit)
		switch exit := new(exec.ExitError); {
		case errors.As(err, &exit) && exit.ExitCode() > 0:
			if times == 0 {
				return nil
			}
		case err != nil:
			return err
		default:
			missed, last = missed+1, out
		}
	}
	if missed == 0 {
		return nil
	}
	return fmt.Errorf("%s %s passes all the same, %d times of %d\n%s", m.Package, m.Test, missed, most, last)
}

// mostHealthy is how long a test takes at most when nothing is broken.
const mostHealthy = 2 * time.Minute

// mostBroken is how long a test goes on when something is broken and it has taken so long
// when nothing was: one that hangs is not waited for as long as one that works hard. It is
// many times as long, because as many tests as there are processors run beside it.
func mostBroken(healthy time.Duration) time.Duration {
	return min(max(20*healthy, 20*time.Second), mostHealthy)
}

// test runs the mutant's test with something broken. One that hangs until limit has failed.
func test(ctx context.Context, dir string, m mutants.Mutant, broken string, limit time.Duration) (out string, err error) {
	args := []string{"-test.run", "^" + m.Test + "$", "-test.v", "-test.timeout", limit.String()}
	cmd := exec.CommandContext(ctx, binary(dir, m.Package), append(args, m.Args...)...)
	cmd.Dir = m.Package
	cmd.Env = append(os.Environ(), mutants.Env+"="+broken)
	text, err := cmd.CombinedOutput()
	if err == nil && !strings.Contains(string(text), "--- PASS: "+m.Test) {
		err = fmt.Errorf("no test of that name was run")
	}
	if len(text) > 4000 {
		text = append(text[:2000:2000], text[len(text)-2000:]...)
	}
	return string(text), err
}
